#include "tensor/convert.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace msvis {
namespace {

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

std::uint16_t reversed(std::uint16_t value) {
  return __builtin_bswap16(value);
}
std::uint32_t reversed(std::uint32_t value) {
  return __builtin_bswap32(value);
}
std::uint64_t reversed(std::uint64_t value) {
  return __builtin_bswap64(value);
}

template <typename T>
void swap_all(std::span<std::byte> bytes) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    store(bytes.data() + at, reversed(load<T>(bytes.data() + at)));
  }
}

// ---- gather

struct Dimension {
  std::uint64_t size;
  std::uint64_t stride;
};

struct Element16 {
  std::uint64_t halves[2];
};

constexpr std::uint64_t tile = 32;

/// Copies a matrix of `rows` × `columns`; the output is row-major with a distance of `out_stride` elements between rows.
template <typename T>
void copy_matrix(const std::byte* from, Dimension row, Dimension column, std::byte* out, std::uint64_t out_stride) {
  // In tiles, because for a transposed view neighbours of the output are far apart in the input.
  for (std::uint64_t row_tile = 0; row_tile < row.size; row_tile += tile) {
    const std::uint64_t row_end = std::min(row.size, row_tile + tile);
    for (std::uint64_t column_tile = 0; column_tile < column.size; column_tile += tile) {
      const std::uint64_t column_end = std::min(column.size, column_tile + tile);
      for (std::uint64_t r = row_tile; r < row_end; ++r) {
        const std::byte* source = from + (r * row.stride + column_tile * column.stride) * sizeof(T);
        std::byte* target = out + (r * out_stride + column_tile) * sizeof(T);
        for (std::uint64_t c = column_tile; c < column_end; ++c) {
          std::memcpy(target, source, sizeof(T));
          source += column.stride * sizeof(T);
          target += sizeof(T);
        }
      }
    }
  }
}

template <typename T>
void gather_all(const std::byte* first, const std::vector<Dimension>& dimensions, std::byte* out) {
  const std::size_t rank = dimensions.size();
  const Dimension inner = dimensions.back();
  std::vector<std::uint64_t> out_strides(rank, 1);
  for (std::size_t d = rank - 1; d > 0; --d) {
    out_strides[d - 1] = out_strides[d] * dimensions[d].size;
  }
  // The partner of the last dimension in the tiles: the one that is fastest in the input.
  std::size_t partner = rank;
  if (inner.stride != 1) {
    for (std::size_t d = 0; d + 1 < rank; ++d) {
      if (dimensions[d].stride > 0 && (partner == rank || dimensions[d].stride < dimensions[partner].stride)) {
        partner = d;
      }
    }
  }
  const Dimension row = partner < rank ? dimensions[partner] : Dimension{1, 0};
  const std::uint64_t row_out_stride = partner < rank ? out_strides[partner] : 0;

  std::vector<std::uint64_t> index(rank, 0);
  std::uint64_t from_at = 0;
  std::uint64_t out_at = 0;
  while (true) {
    if (inner.stride == 1) {
      std::memcpy(out + out_at * sizeof(T), first + from_at * sizeof(T), inner.size * sizeof(T));
    } else {
      copy_matrix<T>(first + from_at * sizeof(T), row, inner, out + out_at * sizeof(T), row_out_stride);
    }
    std::size_t d = rank - 1;
    while (d > 0) {
      --d;
      if (d == partner) {
        if (d == 0) {
          return;
        }
        continue;
      }
      ++index[d];
      from_at += dimensions[d].stride;
      out_at += out_strides[d];
      if (index[d] < dimensions[d].size) {
        break;
      }
      from_at -= dimensions[d].stride * index[d];
      out_at -= out_strides[d] * index[d];
      index[d] = 0;
      if (d == 0) {
        return;
      }
    }
    if (rank == 1) {
      return;
    }
  }
}

// ---- narrow floating point

struct NarrowFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  enum class Special : std::uint8_t {
    ieee,  // the highest exponent is infinity and NaN
    fn,    // no infinity; NaN is all ones
    fnuz,  // no infinity, no negative zero; NaN is the sign bit alone
  } special;

  [[nodiscard]] std::uint32_t sign_bit() const { return 1U << (exponent_bits + mantissa_bits); }
  [[nodiscard]] std::uint32_t infinity() const { return ((1U << exponent_bits) - 1U) << mantissa_bits; }
  /// Largest finite magnitude.
  [[nodiscard]] std::uint32_t largest() const {
    switch (special) {
      case Special::ieee:
        return infinity() - 1;
      case Special::fn:
        return sign_bit() - 2;
      case Special::fnuz:
        break;
    }
    return sign_bit() - 1;
  }
  [[nodiscard]] std::uint32_t nan() const {
    switch (special) {
      case Special::ieee:
        return infinity() | (1U << (mantissa_bits - 1));
      case Special::fn:
        return sign_bit() - 1;
      case Special::fnuz:
        break;
    }
    return sign_bit();
  }

  [[nodiscard]] double decode(std::uint32_t bits) const {
    const std::uint32_t magnitude = bits & (sign_bit() - 1);
    const bool negative = (bits & sign_bit()) != 0;
    double value = 0;
    if (special == Special::fnuz && bits == sign_bit()) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (magnitude > largest()) {
      value = special == Special::ieee && magnitude == infinity() ? std::numeric_limits<double>::infinity()
                                                                  : std::numeric_limits<double>::quiet_NaN();
    } else {
      const auto exponent = static_cast<int>(magnitude >> mantissa_bits);
      const auto mantissa = static_cast<double>(magnitude & ((1U << mantissa_bits) - 1U));
      const double hidden = exponent == 0 ? 0.0 : std::ldexp(1.0, mantissa_bits);
      value = std::ldexp(hidden + mantissa, std::max(exponent, 1) - bias - mantissa_bits);
    }
    return negative ? -value : value;
  }

  [[nodiscard]] std::uint32_t encode(float wide) const {
    const auto value = static_cast<double>(wide);
    const std::uint32_t sign = std::signbit(wide) ? sign_bit() : 0;
    if (std::isnan(value)) {
      return special == Special::fnuz ? nan() : nan() | sign;
    }
    const double magnitude = std::fabs(value);
    std::uint32_t bits = 0;
    if (std::isinf(value)) {
      bits = largest() + 1;
    } else if (magnitude > 0) {
      const int lowest = 1 - bias;
      const int exponent = std::max(std::ilogb(magnitude), lowest);
      // Exact scaling, then to nearest even; a carry runs into the exponent as it should.
      const double steps = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
      const std::int64_t code = (static_cast<std::int64_t>(exponent - lowest) << mantissa_bits) + static_cast<std::int64_t>(steps);
      bits = static_cast<std::uint32_t>(std::min<std::int64_t>(code, static_cast<std::int64_t>(largest()) + 1));
    }
    if (bits > largest()) {
      if (special == Special::fnuz) {
        return nan();
      }
      return (special == Special::ieee ? infinity() : nan()) | sign;
    }
    return special == Special::fnuz && bits == 0 ? 0 : bits | sign;
  }
};

constexpr NarrowFloat float16_format{5, 10, 15, NarrowFloat::Special::ieee};
constexpr NarrowFloat bfloat16_format{8, 7, 127, NarrowFloat::Special::ieee};
constexpr NarrowFloat e4m3fn_format{4, 3, 7, NarrowFloat::Special::fn};
constexpr NarrowFloat e5m2_format{5, 2, 15, NarrowFloat::Special::ieee};
constexpr NarrowFloat e4m3fnuz_format{4, 3, 8, NarrowFloat::Special::fnuz};
constexpr NarrowFloat e5m2fnuz_format{5, 2, 16, NarrowFloat::Special::fnuz};

// ---- casts

/// Any element: integers are kept exactly (two's complement in `integer`), the others as floating point.
struct AnyValue {
  enum class Kind : std::uint8_t { signed_integer, unsigned_integer, floating } kind = Kind::floating;
  std::uint64_t integer = 0;
  double real = 0;
  double imaginary = 0;

  [[nodiscard]] double as_double() const {
    switch (kind) {
      case Kind::signed_integer:
        return static_cast<double>(static_cast<std::int64_t>(integer));
      case Kind::unsigned_integer:
        return static_cast<double>(integer);
      case Kind::floating:
        break;
    }
    return real;
  }
  [[nodiscard]] float as_float() const {
    switch (kind) {
      case Kind::signed_integer:
        return static_cast<float>(static_cast<std::int64_t>(integer));
      case Kind::unsigned_integer:
        return static_cast<float>(integer);
      case Kind::floating:
        break;
    }
    return static_cast<float>(real);
  }
  [[nodiscard]] bool as_bool() const { return kind == Kind::floating ? real != 0 || imaginary != 0 : integer != 0; }
  template <typename T>
  [[nodiscard]] T as_integer() const {
    if (kind != Kind::floating) {
      return static_cast<T>(integer);
    }
    if (std::isnan(real)) {
      return 0;
    }
    const double whole = std::trunc(real);
    // The upper bound as a double is one past the largest value, or that value itself where it is exact.
    if (whole >= std::ldexp(1.0, std::numeric_limits<T>::digits)) {
      return std::numeric_limits<T>::max();
    }
    if (whole <= static_cast<double>(std::numeric_limits<T>::min())) {
      return std::numeric_limits<T>::min();
    }
    return static_cast<T>(whole);
  }
};

AnyValue from_floating(double real, double imaginary = 0) {
  return {AnyValue::Kind::floating, 0, real, imaginary};
}

template <typename T>
AnyValue from_integer(const std::byte* at) {
  const T value = load<T>(at);
  if constexpr (std::is_signed_v<T>) {
    return {AnyValue::Kind::signed_integer, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)), 0, 0};
  } else {
    return {AnyValue::Kind::unsigned_integer, static_cast<std::uint64_t>(value), 0, 0};
  }
}

AnyValue load_any(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::float64:
      return from_floating(load<double>(at));
    case DType::float32:
      return from_floating(static_cast<double>(load<float>(at)));
    case DType::float16:
      return from_floating(float16_format.decode(load<std::uint16_t>(at)));
    case DType::bfloat16:
      return from_floating(bfloat16_format.decode(load<std::uint16_t>(at)));
    case DType::float8_e4m3fn:
      return from_floating(e4m3fn_format.decode(load<std::uint8_t>(at)));
    case DType::float8_e5m2:
      return from_floating(e5m2_format.decode(load<std::uint8_t>(at)));
    case DType::float8_e4m3fnuz:
      return from_floating(e4m3fnuz_format.decode(load<std::uint8_t>(at)));
    case DType::float8_e5m2fnuz:
      return from_floating(e5m2fnuz_format.decode(load<std::uint8_t>(at)));
    case DType::int8:
      return from_integer<std::int8_t>(at);
    case DType::int16:
      return from_integer<std::int16_t>(at);
    case DType::int32:
      return from_integer<std::int32_t>(at);
    case DType::int64:
      return from_integer<std::int64_t>(at);
    case DType::uint8:
      return from_integer<std::uint8_t>(at);
    case DType::uint16:
      return from_integer<std::uint16_t>(at);
    case DType::uint32:
      return from_integer<std::uint32_t>(at);
    case DType::uint64:
      return from_integer<std::uint64_t>(at);
    case DType::boolean:
      return {AnyValue::Kind::unsigned_integer, load<std::uint8_t>(at) != 0 ? 1U : 0U, 0, 0};
    case DType::complex64:
      return from_floating(static_cast<double>(load<float>(at)), static_cast<double>(load<float>(at + 4)));
    case DType::complex128:
      return from_floating(load<double>(at), load<double>(at + 8));
  }
  return {};
}

void store_any(std::byte* at, DType dtype, const AnyValue& value) {
  switch (dtype) {
    case DType::float64:
      return store(at, value.as_double());
    case DType::float32:
      return store(at, value.as_float());
    case DType::float16:
      return store(at, static_cast<std::uint16_t>(float16_format.encode(value.as_float())));
    case DType::bfloat16:
      return store(at, static_cast<std::uint16_t>(bfloat16_format.encode(value.as_float())));
    case DType::float8_e4m3fn:
      return store(at, static_cast<std::uint8_t>(e4m3fn_format.encode(value.as_float())));
    case DType::float8_e5m2:
      return store(at, static_cast<std::uint8_t>(e5m2_format.encode(value.as_float())));
    case DType::float8_e4m3fnuz:
      return store(at, static_cast<std::uint8_t>(e4m3fnuz_format.encode(value.as_float())));
    case DType::float8_e5m2fnuz:
      return store(at, static_cast<std::uint8_t>(e5m2fnuz_format.encode(value.as_float())));
    case DType::int8:
      return store(at, value.as_integer<std::int8_t>());
    case DType::int16:
      return store(at, value.as_integer<std::int16_t>());
    case DType::int32:
      return store(at, value.as_integer<std::int32_t>());
    case DType::int64:
      return store(at, value.as_integer<std::int64_t>());
    case DType::uint8:
      return store(at, value.as_integer<std::uint8_t>());
    case DType::uint16:
      return store(at, value.as_integer<std::uint16_t>());
    case DType::uint32:
      return store(at, value.as_integer<std::uint32_t>());
    case DType::uint64:
      return store(at, value.as_integer<std::uint64_t>());
    case DType::boolean:
      return store(at, static_cast<std::uint8_t>(value.as_bool() ? 1 : 0));
    case DType::complex64:
      store(at, value.as_float());
      return store(at + 4, static_cast<float>(value.imaginary));
    case DType::complex128:
      store(at, value.as_double());
      return store(at + 8, value.imaginary);
  }
}

// ---- sign

/// Flips the sign bit of every scalar, or of every second one.
template <typename T>
void flip_signs(std::span<std::byte> bytes, bool real_parts, bool imaginary_parts) {
  constexpr auto sign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  bool imaginary = false;
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    if (imaginary ? imaginary_parts : real_parts) {
      store(bytes.data() + at, static_cast<T>(load<T>(bytes.data() + at) ^ sign));
    }
    imaginary = !imaginary;
  }
}

template <typename T>
void negate_integers(std::span<std::byte> bytes) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    store(bytes.data() + at, static_cast<T>(T{0} - load<T>(bytes.data() + at)));
  }
}

template <typename Function8, typename Function16, typename Function32, typename Function64>
void by_size(std::size_t size, Function8 f8, Function16 f16, Function32 f32, Function64 f64) {
  switch (size) {
    case 1:
      return f8();
    case 2:
      return f16();
    case 4:
      return f32();
    default:
      return f64();
  }
}

}  // namespace

void swap_byte_order(std::span<std::byte> bytes, std::size_t scalar_size) {
  by_size(
      scalar_size, [] {}, [&] { swap_all<std::uint16_t>(bytes); }, [&] { swap_all<std::uint32_t>(bytes); },
      [&] { swap_all<std::uint64_t>(bytes); });
}

void gather(const std::byte* first, const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& strides,
            std::size_t element_size, std::byte* out) {
  std::vector<Dimension> dimensions;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) {
      return;
    }
    if (shape[d] == 1) {
      continue;
    }
    // A dimension that continues the one before is the same as one longer dimension.
    if (!dimensions.empty() && dimensions.back().stride == strides[d] * shape[d]) {
      dimensions.back() = {dimensions.back().size * shape[d], strides[d]};
    } else {
      dimensions.push_back({shape[d], strides[d]});
    }
  }
  if (dimensions.empty()) {
    dimensions.push_back({1, 1});
  }
  switch (element_size) {
    case 1:
      return gather_all<std::uint8_t>(first, dimensions, out);
    case 2:
      return gather_all<std::uint16_t>(first, dimensions, out);
    case 4:
      return gather_all<std::uint32_t>(first, dimensions, out);
    case 8:
      return gather_all<std::uint64_t>(first, dimensions, out);
    default:
      return gather_all<Element16>(first, dimensions, out);
  }
}

void apply_sign(std::span<std::byte> bytes, DType dtype, bool conjugate, bool negate) {
  const std::size_t size = dtype_info(dtype).scalar_size;
  bool real_parts = negate;
  bool imaginary_parts = negate;
  if (is_complex(dtype)) {
    imaginary_parts = negate != conjugate;
  } else if (is_integer(dtype)) {
    if (negate) {
      by_size(
          size, [&] { negate_integers<std::uint8_t>(bytes); }, [&] { negate_integers<std::uint16_t>(bytes); },
          [&] { negate_integers<std::uint32_t>(bytes); }, [&] { negate_integers<std::uint64_t>(bytes); });
    }
    return;
  } else if (dtype == DType::boolean) {
    return;
  } else if (dtype == DType::float8_e4m3fnuz || dtype == DType::float8_e5m2fnuz) {
    for (std::byte& value : bytes) {  // these have one zero, and the sign bit alone is NaN
      if (negate && (value & std::byte{0x7f}) != std::byte{0}) {
        value ^= std::byte{0x80};
      }
    }
    return;
  }
  if (real_parts || imaginary_parts) {
    by_size(
        size, [&] { flip_signs<std::uint8_t>(bytes, real_parts, imaginary_parts); },
        [&] { flip_signs<std::uint16_t>(bytes, real_parts, imaginary_parts); },
        [&] { flip_signs<std::uint32_t>(bytes, real_parts, imaginary_parts); },
        [&] { flip_signs<std::uint64_t>(bytes, real_parts, imaginary_parts); });
  }
}

void cast_elements(const std::byte* from, DType from_type, std::byte* to, DType to_type, std::uint64_t count) {
  const std::size_t from_size = dtype_size(from_type);
  const std::size_t to_size = dtype_size(to_type);
  for (std::uint64_t k = 0; k < count; ++k) {
    store_any(to + k * to_size, to_type, load_any(from + k * from_size, from_type));
  }
}

}  // namespace msvis
