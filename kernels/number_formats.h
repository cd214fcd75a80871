// The narrow floating-point formats, in plain C++.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace msvis::kernels {

/// Exact. NaN stays NaN.
constexpr float float_from_half(std::uint16_t half) {
  const std::uint32_t magnitude = (half & 0x7fffU) << 13U;
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  // Exponent 0 of half becomes exponent 0 of float; the factor 2^112 moves the bias, and normalizes subnormals.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t special = magnitude >= 0x0f800000U ? 0x7f800000U : 0U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

constexpr float float_from_bfloat16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16U);
}

/// To the nearest half, ties to even; too large becomes infinity.
constexpr std::uint16_t half_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<std::uint16_t>(sign | 0x7e00U);
  }
  if (magnitude >= 0x477ff000U) {  // 65520: halfway between the largest half and the next power of two
    return static_cast<std::uint16_t>(sign | 0x7c00U);
  }
  if (magnitude < 0x38800000U) {  // below 2^-14: subnormal; adding 0.5 leaves the 10 bits, rounded, at the end of the fraction
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  magnitude += 0xfffU + ((magnitude >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U) >> 13U));
}

/// An 8-bit format with one sign bit.
struct Float8Format {
  unsigned exponent_bits;
  int bias;
  bool infinities;    ///< as in IEEE 754: the largest exponent is for infinity and NaN; else only all ones is NaN (`fn`)
  bool negative_nan;  ///< `fnuz`: 0x80 is the only NaN, there is no -0
};

constexpr float float_from_float8(std::uint8_t code, const Float8Format& format) {
  const unsigned fraction_bits = 7 - format.exponent_bits;
  const unsigned fraction = code & ((1U << fraction_bits) - 1U);
  const unsigned exponent = (code & 0x7fU) >> fraction_bits;
  const bool negative = (code & 0x80U) != 0;
  const float nan = std::bit_cast<float>(0x7fc00000U);
  float value = 0;
  if (format.negative_nan) {
    if (code == 0x80U) {
      return nan;
    }
  } else if (format.infinities) {
    if (exponent == (1U << format.exponent_bits) - 1U) {
      value = fraction == 0 ? std::bit_cast<float>(0x7f800000U) : nan;
      return negative ? -value : value;
    }
  } else if ((code & 0x7fU) == 0x7fU) {
    return nan;
  }
  value = static_cast<float>(exponent == 0 ? fraction : fraction | (1U << fraction_bits));
  const int power = static_cast<int>(exponent == 0 ? 1U : exponent) - format.bias - static_cast<int>(fraction_bits);
  for (int k = 0; k < power; ++k) {
    value *= 2;
  }
  for (int k = 0; k > power; --k) {
    value /= 2;
  }
  return negative ? -value : value;
}

constexpr std::array<float, 256> float8_table(const Float8Format& format) {
  std::array<float, 256> table{};
  for (std::size_t code = 0; code < table.size(); ++code) {
    table[code] = float_from_float8(static_cast<std::uint8_t>(code), format);
  }
  return table;
}

inline constexpr std::array<float, 256> float8_e4m3fn_values = float8_table({4, 7, false, false});
inline constexpr std::array<float, 256> float8_e5m2_values = float8_table({5, 15, true, false});
inline constexpr std::array<float, 256> float8_e4m3fnuz_values = float8_table({4, 8, false, true});
inline constexpr std::array<float, 256> float8_e5m2fnuz_values = float8_table({5, 16, false, true});

}  // namespace msvis::kernels
