// The kernels, once for every instruction set: included by each kernels_*.cpp after it has chosen one for simd.h.
//
// A chunk is walked in columns: column c holds lanes [c * width, (c + 1) * width) of the 16 lanes, with width that of a float vector, so a
// set with narrow vectors walks the (cached) chunk several times with all its accumulators in registers, and lane k gets the same numbers
// in the same order on every set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernel_table.h"
#include "kernels/number_formats.h"
#include "kernels/simd.h"

namespace msvis::kernels {
namespace {

constexpr std::size_t column_width = Isa::float_width;
constexpr std::size_t columns = lanes / column_width;
constexpr std::size_t doubles_per_column = Isa::float_width / Isa::double_width;

// How a kernel reads its input.
struct ReadFloat32 {
  static constexpr std::size_t size = 4;
  static MSVIS_INLINE Isa::Float load(const unsigned char* at) { return Isa::load_float(at); }
  static MSVIS_INLINE Isa::Wide widen(const unsigned char* at, const Isa::Float& value) { return Isa::widen_from(at, value); }
};
struct ReadBFloat16 {
  static constexpr std::size_t size = 2;
  static MSVIS_INLINE Isa::Float load(const unsigned char* at) { return Isa::load_bfloat16(at); }
  static MSVIS_INLINE Isa::Wide widen(const unsigned char* /*at*/, const Isa::Float& value) { return Isa::widen(value); }
};
struct ReadFloat16 {
  static constexpr std::size_t size = 2;
  static MSVIS_INLINE Isa::Float load(const unsigned char* at) { return Isa::load_float16(at); }
  static MSVIS_INLINE Isa::Wide widen(const unsigned char* /*at*/, const Isa::Float& value) { return Isa::widen(value); }
};

/// Lane k + lane k + half, with half = 8, 4, 2, 1.
template <std::size_t half = lanes / 2>
MSVIS_INLINE double tree_sum(double* lane) {
  for (std::size_t k = 0; k < half; ++k) {
    lane[k] += lane[k + half];
  }
  if constexpr (half > 1) {
    return tree_sum<half / 2>(lane);
  } else {
    return lane[0];
  }
}

template <typename Number, typename Vector>
MSVIS_INLINE double largest(const Vector& vector) {
  Number all[sizeof(Vector) / sizeof(Number)];
  Isa::store(vector, all);
  Number most = all[0];
  for (const Number number : all) {
    most = number > most ? number : most;
  }
  return static_cast<double>(most);
}

/// The rows of a chunk: full ones in place, the rest of the numbers in a copy that ends with zeros. Zeros on both sides change no sum and
/// no maximum; the counts are corrected afterwards.
template <std::size_t size>
struct Rows {
  static constexpr std::size_t row_bytes = lanes * size;
  const unsigned char* full;
  std::size_t count;
  std::size_t padding;
  alignas(64) unsigned char rest[row_bytes];

  MSVIS_INLINE Rows(const void* data, std::size_t numbers)
      : full(static_cast<const unsigned char*>(data)), count(numbers / lanes), padding((lanes - numbers % lanes) % lanes) {
    if (padding != 0) {
      std::memset(rest, 0, sizeof rest);
      std::memcpy(rest, full + count * row_bytes, (lanes - padding) * size);
    }
  }
};

/// Sums and maxima in double of one column.
struct ColumnSums {
  Isa::Double dot[doubles_per_column];
  Isa::Double target_squares[doubles_per_column];
  Isa::Double golden_squares[doubles_per_column];
  Isa::Double distance_squares[doubles_per_column];
  Isa::Double max_abs = Isa::set(0.0);

  MSVIS_INLINE ColumnSums() {
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      dot[k] = target_squares[k] = golden_squares[k] = distance_squares[k] = Isa::set(0.0);
    }
  }

  template <bool exact_products>
  MSVIS_INLINE void add(const Isa::Wide& target, const Isa::Wide& golden) {
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      const Isa::Double t = target.part[k];
      const Isa::Double g = golden.part[k];
      if constexpr (exact_products) {
        dot[k] = Isa::add_exact_product(dot[k], t, g);
        target_squares[k] = Isa::add_exact_product(target_squares[k], t, t);
        golden_squares[k] = Isa::add_exact_product(golden_squares[k], g, g);
      } else {
        dot[k] = dot[k] + t * g;
        target_squares[k] = target_squares[k] + t * t;
        golden_squares[k] = golden_squares[k] + g * g;
      }
      const Isa::Double distance = t - g;
      distance_squares[k] = distance_squares[k] + distance * distance;
      max_abs = Isa::max_abs(max_abs, distance);
    }
  }
};

/// The lanes of all columns, to be reduced in one fixed tree.
struct LaneSums {
  alignas(64) double dot[lanes];
  alignas(64) double target_squares[lanes];
  alignas(64) double golden_squares[lanes];
  alignas(64) double distance_squares[lanes];

  MSVIS_INLINE void put(std::size_t column, const ColumnSums& sums) {
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      const std::size_t lane = column * column_width + k * Isa::double_width;
      Isa::store(sums.dot[k], dot + lane);
      Isa::store(sums.target_squares[k], target_squares + lane);
      Isa::store(sums.golden_squares[k], golden_squares + lane);
      Isa::store(sums.distance_squares[k], distance_squares + lane);
    }
  }

  MSVIS_INLINE void reduce(ChunkSums& sums) {
    sums.dot = tree_sum(dot);
    sums.target_squares = tree_sum(target_squares);
    sums.golden_squares = tree_sum(golden_squares);
    sums.distance_squares = tree_sum(distance_squares);
  }
};

/// Relative errors of one type, and the counts of zeros.
template <typename Vector, typename Counter, typename Number>
struct RelativeErrors {
  Vector max_rel = Isa::set(Number{0});
  Counter below_one_thousandth;
  Counter below_five_thousandths;
  Counter target_zero;
  Counter golden_zero;

  MSVIS_INLINE void count_zeros(const Vector& target, const Vector& golden) {
    const Vector zero = Isa::set(Number{0});
    target_zero.add(target == zero);
    golden_zero.add(golden == zero);
  }

  template <bool with_zeros>
  MSVIS_INLINE void add(const Vector& target, const Vector& golden) {
    Vector error = Isa::abs((target - golden) / golden);
    // A zero on either side makes the quotient 1, infinite or NaN. Where all are smaller there is nothing else to do.
    if (!Isa::all(error < Isa::set(Number{1}))) [[unlikely]] {
      if constexpr (with_zeros) {
        count_zeros(target, golden);
      }
      // Zeros are moved by epsilon, a power of two: multiplying by its inverse is dividing by it, bit for bit.
      constexpr Number epsilon = sizeof(Number) == 4 ? static_cast<Number>(0x1p-23) : static_cast<Number>(0x1p-52);
      const Vector of_zero = Isa::abs(((target + Isa::set(epsilon)) - Isa::set(epsilon)) * Isa::set(1 / epsilon));
      error = Isa::select(golden == Isa::set(Number{0}), of_zero, error);
    }
    max_rel = Isa::max(max_rel, error);
    below_one_thousandth.add(error < Isa::set(static_cast<Number>(0.001)));
    below_five_thousandths.add(error < Isa::set(static_cast<Number>(0.005)));
  }

  MSVIS_INLINE void put(ChunkSums& sums) const {
    const double most = largest<Number>(max_rel);
    sums.max_rel = most > sums.max_rel ? most : sums.max_rel;
    sums.below_one_thousandth += below_one_thousandth.total();
    sums.below_five_thousandths += below_five_thousandths.total();
    sums.target_zero += target_zero.total();
    sums.golden_zero += golden_zero.total();
  }
};

using FloatErrors = RelativeErrors<Isa::Float, Isa::FloatCounter, float>;
using DoubleErrors = RelativeErrors<Isa::Double, Isa::DoubleCounter, double>;

/// Counts special values of both sides and replaces pairs that are not finite on both sides by zeros.
template <typename Vector, typename Counter, typename Number>
struct SpecialValues {
  Counter target_numbers;
  Counter target_positive;
  Counter target_negative;
  Counter golden_numbers;
  Counter golden_positive;
  Counter golden_negative;
  Counter matches;
  Counter sign_mismatches;
  std::uint32_t all = 0;

  MSVIS_INLINE void mask(Vector& target, Vector& golden) {
    const Vector infinity = Isa::set(static_cast<Number>(__builtin_inf()));
    const Vector minus_infinity = Isa::set(static_cast<Number>(-__builtin_inf()));
    const auto target_is_number = target == target;
    const auto golden_is_number = golden == golden;
    const auto target_is_positive = target == infinity;
    const auto target_is_negative = target == minus_infinity;
    const auto golden_is_positive = golden == infinity;
    const auto golden_is_negative = golden == minus_infinity;
    const auto target_is_infinite = Isa::either(target_is_positive, target_is_negative);
    const auto golden_is_infinite = Isa::either(golden_is_positive, golden_is_negative);
    const auto both_infinite = Isa::both(target_is_infinite, golden_is_infinite);
    const auto both_numbers = Isa::both(target_is_number, golden_is_number);
    const auto finite = Isa::both(both_numbers, Isa::inverse(Isa::either(target_is_infinite, golden_is_infinite)));
    const auto neither_number = Isa::inverse(Isa::either(target_is_number, golden_is_number));
    target_numbers.add(target_is_number);
    target_positive.add(target_is_positive);
    target_negative.add(target_is_negative);
    golden_numbers.add(golden_is_number);
    golden_positive.add(golden_is_positive);
    golden_negative.add(golden_is_negative);
    matches.add(Isa::either(Isa::either(finite, both_infinite), neither_number));
    sign_mismatches.add(Isa::either(Isa::both(target_is_positive, golden_is_negative), Isa::both(target_is_negative, golden_is_positive)));
    all += static_cast<std::uint32_t>(sizeof(Vector) / sizeof(Number));
    const Vector zero = Isa::set(Number{0});
    target = Isa::select(finite, target, zero);
    golden = Isa::select(finite, golden, zero);
  }

  MSVIS_INLINE void put(ChunkSums& sums) const {
    sums.target_nan += all - target_numbers.total();
    sums.target_positive_infinity += target_positive.total();
    sums.target_negative_infinity += target_negative.total();
    sums.golden_nan += all - golden_numbers.total();
    sums.golden_positive_infinity += golden_positive.total();
    sums.golden_negative_infinity += golden_negative.total();
    sums.class_mismatches += all - matches.total();
    sums.sign_mismatches += sign_mismatches.total();
  }
};

MSVIS_INLINE void correct_counts(ChunkSums& sums, std::size_t padding) {
  const auto zeros = static_cast<std::uint32_t>(padding);  // pairs of zeros have a relative error of 0
  sums.below_one_thousandth -= zeros;
  sums.below_five_thousandths -= zeros;
  sums.target_zero -= zeros;
  sums.golden_zero -= zeros;
}

/// Numbers that count as float: float32 and narrower.
template <typename Read>
struct AsFloat {
  static constexpr std::size_t size = Read::size;
  static constexpr bool exact_products = true;
  using Errors = RelativeErrors<Isa::Float, Isa::FloatCounter, float>;
  using Special = SpecialValues<Isa::Float, Isa::FloatCounter, float>;

  template <bool masked>
  static MSVIS_INLINE void add(const unsigned char* target_at, const unsigned char* golden_at, ColumnSums& column, Errors& errors,
                               Special& special) {
    Isa::Float target = Read::load(target_at);
    Isa::Float golden = Read::load(golden_at);
    if constexpr (masked) {
      errors.count_zeros(target, golden);
      special.mask(target, golden);
      column.add<true>(Isa::widen(target), Isa::widen(golden));
    } else {
      column.add<true>(Read::widen(target_at, target), Read::widen(golden_at, golden));
    }
    errors.template add<!masked>(target, golden);
  }

  static MSVIS_INLINE Isa::Wide load_wide(const unsigned char* at, Errors& errors) {
    const Isa::Float both = Read::load(at);
    errors.target_zero.add(both == Isa::set(0.0F));
    return Read::widen(at, both);
  }
};

struct AsDouble {
  static constexpr std::size_t size = 8;
  static constexpr bool exact_products = false;
  using Errors = RelativeErrors<Isa::Double, Isa::DoubleCounter, double>;
  using Special = SpecialValues<Isa::Double, Isa::DoubleCounter, double>;

  static MSVIS_INLINE Isa::Wide load(const unsigned char* at) {
    Isa::Wide wide;
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      wide.part[k] = Isa::load_double(at + k * Isa::double_width * size);
    }
    return wide;
  }

  template <bool masked>
  static MSVIS_INLINE void add(const unsigned char* target_at, const unsigned char* golden_at, ColumnSums& column, Errors& errors,
                               Special& special) {
    Isa::Wide target = load(target_at);
    Isa::Wide golden = load(golden_at);
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      if constexpr (masked) {
        errors.count_zeros(target.part[k], golden.part[k]);
        special.mask(target.part[k], golden.part[k]);
      }
      errors.template add<!masked>(target.part[k], golden.part[k]);
    }
    column.add<false>(target, golden);
  }

  static MSVIS_INLINE Isa::Wide load_wide(const unsigned char* at, Errors& errors) {
    const Isa::Wide both = load(at);
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      errors.target_zero.add(both.part[k] == Isa::set(0.0));
    }
    return both;
  }
};

template <typename As, bool masked>
void pair_kernel(const void* target, const void* golden, std::size_t count, ChunkSums& sums) {
  constexpr std::size_t row_bytes = Rows<As::size>::row_bytes;
  sums = {};
  LaneSums lane_sums;
  const Rows<As::size> target_rows(target, count);
  const Rows<As::size> golden_rows(golden, count);
  for (std::size_t column = 0; column < columns; ++column) {
    ColumnSums column_sums;
    typename As::Errors errors;
    typename As::Special special;
    const std::size_t offset = column * column_width * As::size;
    const unsigned char* target_at = target_rows.full + offset;
    const unsigned char* golden_at = golden_rows.full + offset;
    for (std::size_t row = 0; row < target_rows.count; ++row) {
      As::template add<masked>(target_at, golden_at, column_sums, errors, special);
      target_at += row_bytes;
      golden_at += row_bytes;
    }
    if (target_rows.padding != 0) {
      As::template add<masked>(target_rows.rest + offset, golden_rows.rest + offset, column_sums, errors, special);
    }
    lane_sums.put(column, column_sums);
    const double most = largest<double>(column_sums.max_abs);
    sums.max_abs = most > sums.max_abs ? most : sums.max_abs;
    errors.put(sums);
    if constexpr (masked) {
      special.put(sums);
    }
  }
  lane_sums.reduce(sums);
  const auto padding = static_cast<std::uint32_t>(target_rows.padding);  // pairs of zeros, with a relative error of 0
  sums.below_one_thousandth -= padding;
  sums.below_five_thousandths -= padding;
  sums.target_zero -= padding;
  sums.golden_zero -= padding;
}

template <typename As>
void same_kernel(const void* both, std::size_t count, ChunkSums& sums) {
  constexpr std::size_t row_bytes = Rows<As::size>::row_bytes;
  sums = {};
  alignas(64) double squares[lanes];
  const Rows<As::size> rows(both, count);
  for (std::size_t column = 0; column < columns; ++column) {
    Isa::Double column_squares[doubles_per_column];
    for (Isa::Double& part : column_squares) {
      part = Isa::set(0.0);
    }
    typename As::Errors errors;
    const auto add = [&](const unsigned char* at) {
      const Isa::Wide wide = As::load_wide(at, errors);
      for (std::size_t k = 0; k < doubles_per_column; ++k) {
        if constexpr (As::exact_products) {
          column_squares[k] = Isa::add_exact_product(column_squares[k], wide.part[k], wide.part[k]);
        } else {
          column_squares[k] = column_squares[k] + wide.part[k] * wide.part[k];
        }
      }
    };
    const std::size_t offset = column * column_width * As::size;
    for (std::size_t row = 0; row < rows.count; ++row) {
      add(rows.full + row * row_bytes + offset);
    }
    if (rows.padding != 0) {
      add(rows.rest + offset);
    }
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      Isa::store(column_squares[k], squares + column * column_width + k * Isa::double_width);
    }
    errors.put(sums);
  }
  sums.dot = sums.target_squares = sums.golden_squares = tree_sum(squares);
  sums.target_zero -= static_cast<std::uint32_t>(rows.padding);
  sums.golden_zero = sums.target_zero;
  sums.below_one_thousandth = sums.below_five_thousandths = static_cast<std::uint32_t>(count);
}

template <typename Number>
std::size_t find_kernel(const Number* target, const Number* golden, std::size_t count, double max_abs) {
  // Groups first, without a branch inside, so that the compiler makes vectors of them. Differences with NaN or infinities never equal a
  // finite maximum, but an overflowing difference of finite numbers may be infinite.
  constexpr std::size_t group = 64;
  std::size_t begin = 0;
  for (; begin + group <= count; begin += group) {
    int found = 0;
    for (std::size_t k = begin; k < begin + group; ++k) {
      found |= __builtin_fabs(static_cast<double>(target[k]) - static_cast<double>(golden[k])) == max_abs ? 1 : 0;
    }
    if (found != 0) {
      for (std::size_t k = begin; k < begin + group; ++k) {
        const double t = static_cast<double>(target[k]);
        const double g = static_cast<double>(golden[k]);
        if (__builtin_fabs(t - g) == max_abs && __builtin_fabs(t) <= __DBL_MAX__ && __builtin_fabs(g) <= __DBL_MAX__) {
          return k;
        }
      }
    }
  }
  for (; begin < count; ++begin) {
    const double t = static_cast<double>(target[begin]);
    const double g = static_cast<double>(golden[begin]);
    if (__builtin_fabs(t - g) == max_abs && __builtin_fabs(t) <= __DBL_MAX__ && __builtin_fabs(g) <= __DBL_MAX__) {
      return begin;
    }
  }
  return count;
}

// Conversions. Plain loops: the compiler makes vectors of them, and a conversion has one right result.

/// `stride` numbers of type From per element, of which the first is taken.
template <typename From, typename To, std::size_t stride = 1>
void convert(const void* numbers, std::size_t count, To* out) {
  const auto* bytes = static_cast<const unsigned char*>(numbers);
  for (std::size_t k = 0; k < count; ++k) {
    From number;
    std::memcpy(&number, bytes + k * stride * sizeof(From), sizeof number);
    out[k] = static_cast<To>(number);
  }
}

template <typename To>
void convert_bool(const void* numbers, std::size_t count, To* out) {
  const auto* bytes = static_cast<const unsigned char*>(numbers);
  for (std::size_t k = 0; k < count; ++k) {
    out[k] = bytes[k] != 0 ? To{1} : To{0};
  }
}

template <const std::array<float, 256>& table, typename To>
void convert_float8(const void* numbers, std::size_t count, To* out) {
  const auto* codes = static_cast<const unsigned char*>(numbers);
  for (std::size_t k = 0; k < count; ++k) {
    out[k] = static_cast<To>(table[codes[k]]);
  }
}

/// bfloat16 and float16.
template <typename Read, typename To>
void convert_16(const void* numbers, std::size_t count, To* out) {
  const auto* at = static_cast<const unsigned char*>(numbers);
  const auto step = [](const unsigned char* from, To* to) {
    const Isa::Float values = Read::load(from);
    if constexpr (sizeof(To) == sizeof(float)) {
      Isa::store(values, to);
    } else {
      const Isa::Wide wide = Isa::widen(values);
      for (std::size_t k = 0; k < doubles_per_column; ++k) {
        Isa::store(wide.part[k], to + k * Isa::double_width);
      }
    }
  };
  std::size_t k = 0;
  for (; k + Isa::float_width <= count; k += Isa::float_width) {
    step(at + k * Read::size, out + k);
  }
  if (k < count) {
    unsigned char rest[Isa::float_width * Read::size] = {};
    To converted[Isa::float_width];
    std::memcpy(rest, at + k * Read::size, (count - k) * Read::size);
    step(rest, converted);
    std::memcpy(out + k, converted, (count - k) * sizeof(To));
  }
}

constexpr KernelTable make_table(InstructionSet set) {
  KernelTable table{};
  table.set = set;
  table.float32 = {pair_kernel<AsFloat<ReadFloat32>, false>, same_kernel<AsFloat<ReadFloat32>>};
  table.bfloat16 = {pair_kernel<AsFloat<ReadBFloat16>, false>, same_kernel<AsFloat<ReadBFloat16>>};
  table.float16 = {pair_kernel<AsFloat<ReadFloat16>, false>, same_kernel<AsFloat<ReadFloat16>>};
  table.float64 = {pair_kernel<AsDouble, false>, same_kernel<AsDouble>};
  table.float32_masked = pair_kernel<AsFloat<ReadFloat32>, true>;
  table.float64_masked = pair_kernel<AsDouble, true>;
  table.find_float32 = find_kernel<float>;
  table.find_float64 = find_kernel<double>;
  const auto to_float = [&table](DType dtype, ToFloat function) { table.to_float[static_cast<std::size_t>(dtype)] = function; };
  to_float(DType::float32, convert<float, float>);
  to_float(DType::float16, convert_16<ReadFloat16, float>);
  to_float(DType::bfloat16, convert_16<ReadBFloat16, float>);
  to_float(DType::float8_e4m3fn, convert_float8<float8_e4m3fn_values, float>);
  to_float(DType::float8_e5m2, convert_float8<float8_e5m2_values, float>);
  to_float(DType::float8_e4m3fnuz, convert_float8<float8_e4m3fnuz_values, float>);
  to_float(DType::float8_e5m2fnuz, convert_float8<float8_e5m2fnuz_values, float>);
  const auto to_double = [&table](DType dtype, ToDouble function) { table.to_double[static_cast<std::size_t>(dtype)] = function; };
  to_double(DType::float64, convert<double, double>);
  to_double(DType::float32, convert<float, double>);
  to_double(DType::float16, convert_16<ReadFloat16, double>);
  to_double(DType::bfloat16, convert_16<ReadBFloat16, double>);
  to_double(DType::float8_e4m3fn, convert_float8<float8_e4m3fn_values, double>);
  to_double(DType::float8_e5m2, convert_float8<float8_e5m2_values, double>);
  to_double(DType::float8_e4m3fnuz, convert_float8<float8_e4m3fnuz_values, double>);
  to_double(DType::float8_e5m2fnuz, convert_float8<float8_e5m2fnuz_values, double>);
  to_double(DType::int8, convert<std::int8_t, double>);
  to_double(DType::int16, convert<std::int16_t, double>);
  to_double(DType::int32, convert<std::int32_t, double>);
  to_double(DType::int64, convert<std::int64_t, double>);
  to_double(DType::uint8, convert<std::uint8_t, double>);
  to_double(DType::uint16, convert<std::uint16_t, double>);
  to_double(DType::uint32, convert<std::uint32_t, double>);
  to_double(DType::uint64, convert<std::uint64_t, double>);
  to_double(DType::boolean, convert_bool<double>);
  to_double(DType::complex64, convert<float, double, 2>);
  to_double(DType::complex128, convert<double, double, 2>);
  return table;
}

}  // namespace
}  // namespace msvis::kernels
