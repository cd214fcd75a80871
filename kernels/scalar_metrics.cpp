// Tensors without dimensions. The reference computes with numpy's scalars there, whose rules are those of numpy before version 2.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/cells.h"
#include "kernels/number_formats.h"

namespace msvis::kernels {
namespace {

/// One element. Integers are kept as two's complement in 64 bits, extended by their sign if they have one.
struct Scalar {
  DType dtype = DType::float64;  ///< after decoding: bfloat16 and the 8-bit formats have become float32
  double real = 0;               ///< integers rounded
  double imaginary = 0;
  std::uint64_t integer = 0;
};

template <typename T>
T read(const unsigned char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename Integer>
void set_integer(Scalar& scalar, Integer value) {
  if constexpr (std::is_signed_v<Integer>) {
    scalar.integer = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  } else {
    scalar.integer = value;
  }
  scalar.real = static_cast<double>(value);
}

std::array<unsigned char, 16> native_bytes(const TensorSpan& span) {
  std::array<unsigned char, 16> bytes{};
  const DTypeInfo& info = dtype_info(span.dtype);
  std::memcpy(bytes.data(), span.data, info.size);
  if (span.big_endian != (std::endian::native == std::endian::big)) {
    for (std::size_t at = 0; at < info.size; at += info.scalar_size) {
      std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin() + static_cast<std::ptrdiff_t>(at + info.scalar_size));
    }
  }
  return bytes;
}

Scalar decode(DType dtype, const unsigned char* bytes) {
  Scalar scalar;
  scalar.dtype = dtype;
  switch (dtype) {
    case DType::float64:
      scalar.real = read<double>(bytes);
      break;
    case DType::float32:
      scalar.real = static_cast<double>(read<float>(bytes));
      break;
    case DType::float16:
      scalar.real = static_cast<double>(float_from_half(read<std::uint16_t>(bytes)));
      break;
    case DType::bfloat16:
      scalar.real = static_cast<double>(float_from_bfloat16(read<std::uint16_t>(bytes)));
      scalar.dtype = DType::float32;
      break;
    case DType::float8_e4m3fn:
      scalar.real = static_cast<double>(float8_e4m3fn_values[*bytes]);
      scalar.dtype = DType::float32;
      break;
    case DType::float8_e5m2:
      scalar.real = static_cast<double>(float8_e5m2_values[*bytes]);
      scalar.dtype = DType::float32;
      break;
    case DType::float8_e4m3fnuz:
      scalar.real = static_cast<double>(float8_e4m3fnuz_values[*bytes]);
      scalar.dtype = DType::float32;
      break;
    case DType::float8_e5m2fnuz:
      scalar.real = static_cast<double>(float8_e5m2fnuz_values[*bytes]);
      scalar.dtype = DType::float32;
      break;
    case DType::int8:
      set_integer(scalar, read<std::int8_t>(bytes));
      break;
    case DType::int16:
      set_integer(scalar, read<std::int16_t>(bytes));
      break;
    case DType::int32:
      set_integer(scalar, read<std::int32_t>(bytes));
      break;
    case DType::int64:
      set_integer(scalar, read<std::int64_t>(bytes));
      break;
    case DType::uint8:
      set_integer(scalar, read<std::uint8_t>(bytes));
      break;
    case DType::uint16:
      set_integer(scalar, read<std::uint16_t>(bytes));
      break;
    case DType::uint32:
      set_integer(scalar, read<std::uint32_t>(bytes));
      break;
    case DType::uint64:
      set_integer(scalar, read<std::uint64_t>(bytes));
      break;
    case DType::boolean:
      set_integer(scalar, static_cast<std::uint8_t>(*bytes != 0 ? 1 : 0));
      break;
    case DType::complex64:
      scalar.real = static_cast<double>(read<float>(bytes));
      scalar.imaginary = static_cast<double>(read<float>(bytes + 4));
      break;
    case DType::complex128:
      scalar.real = read<double>(bytes);
      scalar.imaginary = read<double>(bytes + 8);
      break;
  }
  return scalar;
}

bool is_unsigned(DType dtype) {
  return dtype >= DType::uint8 && dtype <= DType::uint64;
}

/// Bits of the narrowest floating-point type that numpy deems fit for a type.
unsigned floating_bits(DType dtype) {
  switch (dtype) {
    case DType::float16:
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      return 16;
    case DType::float32:
    case DType::int16:
    case DType::uint16:
    case DType::complex64:
      return 32;
    default:
      return 64;
  }
}

/// numpy's common type of two types.
DType promoted(DType a, DType b) {
  if (a == b) {
    return a;
  }
  const unsigned bits = std::max(floating_bits(a), floating_bits(b));
  if (is_complex(a) || is_complex(b)) {
    return bits == 64 ? DType::complex128 : DType::complex64;
  }
  if (is_floating(a) || is_floating(b)) {
    return bits == 64 ? DType::float64 : bits == 32 ? DType::float32 : DType::float16;
  }
  if (a == DType::boolean) {
    return b;
  }
  if (b == DType::boolean) {
    return a;
  }
  if (is_unsigned(a) == is_unsigned(b)) {
    return dtype_size(a) > dtype_size(b) ? a : b;
  }
  const DType with_sign = is_unsigned(a) ? b : a;
  const DType without_sign = is_unsigned(a) ? a : b;
  if (dtype_size(with_sign) > dtype_size(without_sign)) {
    return with_sign;
  }
  switch (without_sign) {
    case DType::uint8:
      return DType::int16;
    case DType::uint16:
      return DType::int32;
    case DType::uint32:
      return DType::int64;
    default:
      return DType::float64;
  }
}

double wrapped_difference(const Scalar& target, const Scalar& golden, DType dtype) {
  const auto unused = static_cast<unsigned>(64 - 8 * dtype_size(dtype));
  const std::uint64_t difference = (target.integer - golden.integer) << unused;
  if (is_unsigned(dtype)) {
    return static_cast<double>(difference >> unused);
  }
  const std::int64_t value = static_cast<std::int64_t>(difference) >> unused;
  const std::int64_t smallest = INT64_MIN >> unused;
  return static_cast<double>(value < 0 && value != smallest ? -value : value);  // the smallest number is its own negative
}

/// |target - golden| in the type that numpy chooses.
double native_difference(const Scalar& target, const Scalar& golden) {
  if (target.dtype == DType::boolean) {
    return std::fabs(target.real - golden.real);
  }
  const DType dtype = promoted(target.dtype, golden.dtype);
  switch (dtype) {
    case DType::float16: {
      const float difference = static_cast<float>(target.real) - static_cast<float>(golden.real);
      return std::fabs(static_cast<double>(float_from_half(half_from_float(difference))));
    }
    case DType::float32:
      return static_cast<double>(std::fabs(static_cast<float>(target.real) - static_cast<float>(golden.real)));
    case DType::float64:
      return std::fabs(target.real - golden.real);
    case DType::complex64:
      return static_cast<double>(std::hypot(static_cast<float>(target.real) - static_cast<float>(golden.real),
                                            static_cast<float>(target.imaginary) - static_cast<float>(golden.imaginary)));
    case DType::complex128:
      return std::hypot(target.real - golden.real, target.imaginary - golden.imaginary);
    default:
      return wrapped_difference(target, golden, dtype);
  }
}

/// Beyond this numpy does not put a number into a float32 on its own.
bool needs_double(const Scalar& scalar, double value) {
  constexpr double limit = 3.4e38;
  return scalar.dtype != DType::float32 && scalar.dtype != DType::float16 && std::isfinite(value) && std::fabs(value) >= limit;
}

template <typename T>
double relative_error(double target, double golden, T epsilon) {
  auto n = static_cast<T>(target);
  auto b = static_cast<T>(golden);
  if (b == 0) {
    n += epsilon;
    b += epsilon;
  }
  const T difference = n - b;
  return static_cast<double>(std::fabs(difference / b));
}

void count(double value, ValueCounts& counts) {
  counts.nan += std::isnan(value) ? 1 : 0;
  counts.positive_infinity += std::isinf(value) && value > 0 ? 1 : 0;
  counts.negative_infinity += std::isinf(value) && value < 0 ? 1 : 0;
  counts.zero += value == 0 ? 1 : 0;
}

bool mismatch(double target, double golden, Compat compat) {
  if (std::isnan(target) != std::isnan(golden) || std::isinf(target) != std::isinf(golden)) {
    return true;
  }
  return compat == Compat::standard && std::isinf(target) && target != golden;
}

}  // namespace

TensorMetrics compare_scalars(const TensorSpan& target, const TensorSpan& golden, Compat compat) {
  const std::array<unsigned char, 16> target_bytes = native_bytes(target);
  const std::array<unsigned char, 16> golden_bytes = native_bytes(golden);
  const Scalar n = decode(target.dtype, target_bytes.data());
  const Scalar b = decode(golden.dtype, golden_bytes.data());
  const bool both_parts = compat == Compat::standard && (is_complex(target.dtype) || is_complex(golden.dtype));

  TensorMetrics metrics = TensorMetrics::of(MetricOutcome::compared_scalar);
  metrics.bit_identical = target.dtype == golden.dtype && target_bytes == golden_bytes;

  const bool in_double =
      needs_double(n, n.real) || needs_double(b, b.real) || (both_parts && (needs_double(n, n.imaginary) || needs_double(b, b.imaginary)));
  double max_abs = 0;
  double max_rel = 0;
  const auto add_part = [&](double n_part, double b_part, bool imaginary) {
    count(n_part, metrics.target_values);
    count(b_part, metrics.golden_values);
    metrics.non_finite_mismatches += mismatch(n_part, b_part, compat) ? 1 : 0;
    const double distance = std::fabs(n_part - b_part);
    if (std::isfinite(n_part) && std::isfinite(b_part) && distance > 0 && distance > max_abs) {
      metrics.worst = WorstElement{0, imaginary, n_part, b_part};
    }
    const double relative = in_double ? relative_error(n_part, b_part, 0x1p-52) : relative_error(n_part, b_part, 0x1p-23F);
    max_abs = std::isnan(distance) || distance > max_abs ? distance : max_abs;  // NaN stays
    max_rel = std::isnan(relative) || relative > max_rel ? relative : max_rel;
  };
  add_part(n.real, b.real, false);
  if (both_parts) {
    add_part(n.imaginary, b.imaginary, true);
  }
  metrics.max_abs_err = rounded_cell(compat == Compat::reference ? native_difference(n, b) : max_abs);
  metrics.max_relative_err = rounded_cell(max_rel);
  return metrics;
}

}  // namespace msvis::kernels
