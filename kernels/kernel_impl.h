// The kernels, once for every instruction set: included by each kernels_*.cpp after it has chosen one for simd.h.
//
// The 16 lanes are divided into columns, as wide as a vector of floats. A set with narrow vectors walks the (cached) chunk once for every
// column, with all its accumulators in registers, so lane k gets the same numbers in the same order on every set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/kernel_table.h"
#include "kernels/number_formats.h"
#include "kernels/simd.h"

namespace msvis::kernels {
namespace {  // NOLINT(cert-dcl59-cpp): every source that includes this has its own

inline constexpr std::size_t column_width = Isa::float_width;
inline constexpr std::size_t pass_width = column_width * Isa::columns_per_pass;
inline constexpr std::size_t doubles_per_column = Isa::float_width / Isa::double_width;

// How a kernel reads the numbers of some lanes of a row.
struct ReadFloat32 {
  static constexpr std::size_t size = 4;
  static MSVIS_INLINE Isa::Float load(const unsigned char* row, std::size_t lane) { return Isa::load_float(row + lane * size); }
  static MSVIS_INLINE Isa::Wide widen(const unsigned char* row, std::size_t lane, const Isa::Float& value) {
    return Isa::widen_from(row + lane * size, value);
  }
};
struct ReadFloat16 {
  static constexpr std::size_t size = 2;
  static MSVIS_INLINE Isa::Float load(const unsigned char* row, std::size_t lane) { return Isa::load_float16(row + lane * size); }
  static MSVIS_INLINE Isa::Wide widen(const unsigned char* /*row*/, std::size_t /*lane*/, const Isa::Float& value) {
    return Isa::widen(value);
  }
};
/// The first half of the lanes has the numbers with even places in the row, the second half those with odd ones: in a word of two numbers,
/// a shift or a mask makes a float of one of them.
struct ReadBFloat16 {
  static constexpr std::size_t size = 2;
  static MSVIS_INLINE Isa::Float load(const unsigned char* row, std::size_t lane) {
    return lane < lanes / 2 ? Isa::load_even_bfloat16(row + lane * 2 * size) : Isa::load_odd_bfloat16(row + (lane - lanes / 2) * 2 * size);
  }
  static MSVIS_INLINE Isa::Wide widen(const unsigned char* /*row*/, std::size_t /*lane*/, const Isa::Float& value) {
    return Isa::widen(value);
  }
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

MSVIS_INLINE double larger(double a, double b) {
  return a > b ? a : b;
}

template <typename Number, typename Vector>
MSVIS_INLINE double largest(const Vector& vector) {
  Number all[sizeof(Number) == sizeof(float) ? Isa::float_width : Isa::double_width];
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
  alignas(64) unsigned char rest[row_bytes] = {};
  const unsigned char* full;
  std::size_t count;
  std::size_t padding;

  MSVIS_INLINE Rows(const void* data, std::size_t numbers)
      : full(static_cast<const unsigned char*>(data)), count(numbers / lanes), padding((lanes - numbers % lanes) % lanes) {
    if (padding != 0) {
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
  Isa::Float max_abs_float = Isa::set(0.0F);

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

  /// For close_kernel: `dot` is that of the target and the distance. The distance is exact, that is, a float32.
  MSVIS_INLINE void add_near(const Isa::Wide& target, const Isa::Float& distance) {
    const Isa::Wide wide = Isa::widen(distance);
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      target_squares[k] = Isa::add_exact_product(target_squares[k], target.part[k], target.part[k]);
      dot[k] = Isa::add_exact_product(dot[k], target.part[k], wide.part[k]);
      distance_squares[k] = Isa::add_exact_product(distance_squares[k], wide.part[k], wide.part[k]);
    }
    max_abs_float = Isa::max(max_abs_float, Isa::abs(distance));
  }

  /// The same for any distance.
  MSVIS_INLINE void add_far(const Isa::Wide& target, const Isa::Wide& golden) {
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      const Isa::Double t = target.part[k];
      const Isa::Double distance = t - golden.part[k];
      target_squares[k] = Isa::add_exact_product(target_squares[k], t, t);
      dot[k] = dot[k] + t * distance;
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

  MSVIS_INLINE void put(std::size_t first_lane, const ColumnSums& sums) {
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      const std::size_t lane = first_lane + k * Isa::double_width;
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
    target_zero.add(Isa::equal(target, zero));
    golden_zero.add(Isa::equal(golden, zero));
  }

  template <bool with_zeros>
  MSVIS_INLINE void add(const Vector& target, const Vector& golden) {
    Vector error = Isa::abs(Isa::divide(target - golden, golden));
    // A zero on either side makes the quotient 1, infinite or NaN. Where all are smaller there is nothing else to do.
    if (!Isa::all(Isa::less(error, Isa::set(Number{1})))) [[unlikely]] {
      error = with_zero_divisors<with_zeros>(target, golden, error);
    }
    add_errors(error);
  }

  /// `error`, and where the golden number is zero, the error of both numbers moved by epsilon.
  template <bool count>
  MSVIS_INLINE Vector with_zero_divisors(const Vector& target, const Vector& golden, const Vector& error) {
    if constexpr (count) {
      count_zeros(target, golden);
    }
    // Epsilon is a power of two: multiplying by its inverse is dividing by it, bit for bit.
    constexpr Number epsilon = sizeof(Number) == 4 ? static_cast<Number>(0x1p-23) : static_cast<Number>(0x1p-52);
    const Vector of_zero = Isa::abs(((target + Isa::set(epsilon)) - Isa::set(epsilon)) * Isa::set(1 / epsilon));
    return Isa::select(Isa::equal(golden, Isa::set(Number{0})), of_zero, error);
  }

  MSVIS_INLINE void add_errors(const Vector& error) {
    max_rel = Isa::max(max_rel, error);
    below_one_thousandth.add(Isa::less(error, Isa::set(static_cast<Number>(0.001))));
    below_five_thousandths.add(Isa::less(error, Isa::set(static_cast<Number>(0.005))));
  }

  MSVIS_INLINE void put(ChunkSums& sums) const {
    sums.max_rel = larger(sums.max_rel, largest<Number>(max_rel));
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
    const auto target_is_number = Isa::equal(target, target);
    const auto golden_is_number = Isa::equal(golden, golden);
    const auto target_is_positive = Isa::equal(target, infinity);
    const auto target_is_negative = Isa::equal(target, minus_infinity);
    const auto golden_is_positive = Isa::equal(golden, infinity);
    const auto golden_is_negative = Isa::equal(golden, minus_infinity);
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
    all += static_cast<std::uint32_t>(sizeof(Number) == sizeof(float) ? Isa::float_width : Isa::double_width);
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
  static MSVIS_INLINE void add(const unsigned char* target_row, const unsigned char* golden_row, std::size_t lane, ColumnSums& column,
                               Errors& errors, Special& special) {
    Isa::Float target = Read::load(target_row, lane);
    Isa::Float golden = Read::load(golden_row, lane);
    if constexpr (masked) {
      errors.count_zeros(target, golden);
      special.mask(target, golden);
      column.add<true>(Isa::widen(target), Isa::widen(golden));
    } else {
      column.add<true>(Read::widen(target_row, lane, target), Read::widen(golden_row, lane, golden));
    }
    errors.template add<!masked>(target, golden);
  }

  static MSVIS_INLINE Isa::Wide load_wide(const unsigned char* row, std::size_t lane, Errors& errors) {
    const Isa::Float both = Read::load(row, lane);
    errors.target_zero.add(Isa::equal(both, Isa::set(0.0F)));
    return Read::widen(row, lane, both);
  }
};

struct AsDouble {
  static constexpr std::size_t size = 8;
  static constexpr bool exact_products = false;
  using Errors = RelativeErrors<Isa::Double, Isa::DoubleCounter, double>;
  using Special = SpecialValues<Isa::Double, Isa::DoubleCounter, double>;

  static MSVIS_INLINE Isa::Wide load(const unsigned char* row, std::size_t lane) {
    Isa::Wide wide;
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      wide.part[k] = Isa::load_double(row + (lane + k * Isa::double_width) * size);
    }
    return wide;
  }

  template <bool masked>
  static MSVIS_INLINE void add(const unsigned char* target_row, const unsigned char* golden_row, std::size_t lane, ColumnSums& column,
                               Errors& errors, Special& special) {
    Isa::Wide target = load(target_row, lane);
    Isa::Wide golden = load(golden_row, lane);
    for (std::size_t k = 0; k < doubles_per_column; ++k) {
      if constexpr (masked) {
        errors.count_zeros(target.part[k], golden.part[k]);
        special.mask(target.part[k], golden.part[k]);
      }
      errors.template add<!masked>(target.part[k], golden.part[k]);
    }
    column.add<false>(target, golden);
  }

  static MSVIS_INLINE Isa::Wide load_wide(const unsigned char* row, std::size_t lane, Errors& errors) {
    const Isa::Wide both = load(row, lane);
    for (const Isa::Double& part : both.part) {
      errors.target_zero.add(Isa::equal(part, Isa::set(0.0)));
    }
    return both;
  }
};

/// Calls action(std::integral_constant<std::size_t, column>) for the columns of a pass: constants, so that what belongs to a column stays
/// in registers.
template <typename Action, std::size_t... column>
MSVIS_INLINE void for_columns(Action&& action, std::index_sequence<column...> /*columns*/) {
  (action(std::integral_constant<std::size_t, column>()), ...);
}
template <typename Action>
MSVIS_INLINE void for_columns(Action&& action) {
  for_columns(action, std::make_index_sequence<Isa::columns_per_pass>());
}

/// Calls add(row of the target, row of the golden tensor, first lane, column in this pass) for all rows.
template <std::size_t size, typename Add>
MSVIS_INLINE void walk(const Rows<size>& target, const Rows<size>& golden, std::size_t first_lane, Add&& add) {
  const unsigned char* target_row = target.full;
  const unsigned char* golden_row = golden.full;
  for (std::size_t row = 0; row < target.count; ++row) {
    for_columns([&](auto column) MSVIS_INLINE_LAMBDA { add(target_row, golden_row, first_lane + column * column_width, column); });
    target_row += Rows<size>::row_bytes;
    golden_row += Rows<size>::row_bytes;
  }
  if (target.padding != 0) {
    for_columns([&](auto column) MSVIS_INLINE_LAMBDA { add(target.rest, golden.rest, first_lane + column * column_width, column); });
  }
}

/// The padding was counted as pairs of zeros, with a relative error of 0.
MSVIS_INLINE void remove_padding(ChunkSums& sums, std::size_t padding) {
  const auto zeros = static_cast<std::uint32_t>(padding);
  sums.below_one_thousandth -= zeros;
  sums.below_five_thousandths -= zeros;
  sums.target_zero -= zeros;
  sums.golden_zero -= zeros;
}

template <typename As, bool masked>
void pair_kernel(const void* target, const void* golden, std::size_t count, ChunkSums& sums) {
  sums = {};
  LaneSums lane_sums;
  const Rows<As::size> target_rows(target, count);
  const Rows<As::size> golden_rows(golden, count);
  for (std::size_t first_lane = 0; first_lane < lanes; first_lane += pass_width) {
    ColumnSums column_sums[Isa::columns_per_pass];
    typename As::Errors errors;
    typename As::Special special;
    walk(
        target_rows, golden_rows, first_lane,
        [&](const unsigned char* target_row, const unsigned char* golden_row, std::size_t lane, std::size_t column) __attribute__((
            always_inline)) { As::template add<masked>(target_row, golden_row, lane, column_sums[column], errors, special); });
    for_columns([&](auto column) MSVIS_INLINE_LAMBDA {
      lane_sums.put(first_lane + column * column_width, column_sums[column]);
      sums.max_abs = larger(sums.max_abs, largest<double>(column_sums[column].max_abs));
    });
    errors.put(sums);
    if constexpr (masked) {
      special.put(sums);
    }
  }
  lane_sums.reduce(sums);
  remove_padding(sums, target_rows.padding);
}

/// Where the sides are close, their float32 difference d = n - b is exact (if b / 2 <= n <= 2 b). Then less is to be computed in double:
///   sums of n n, n d, d d, and from them: n b = n n - n d and b b = n n - 2 n d + d d.
/// All products are exact there. Numbers that are farther apart, or have a zero among them, take the long way to the same sums.
template <typename Read>
void close_kernel(const void* target, const void* golden, std::size_t count, ChunkSums& sums) {
  sums = {};
  LaneSums lane_sums;
  const Rows<Read::size> target_rows(target, count);
  const Rows<Read::size> golden_rows(golden, count);
  for (std::size_t first_lane = 0; first_lane < lanes; first_lane += pass_width) {
    ColumnSums column_sums[Isa::columns_per_pass];
    typename AsFloat<Read>::Errors errors;
    typename Isa::FloatCounter far_apart;
    walk(target_rows, golden_rows, first_lane,
         [&](const unsigned char* target_row, const unsigned char* golden_row, std::size_t lane, auto column) MSVIS_INLINE_LAMBDA {
           const Isa::Float target_values = Read::load(target_row, lane);
           const Isa::Float golden_values = Read::load(golden_row, lane);
           const Isa::Float distance = target_values - golden_values;
           Isa::Float error = Isa::abs(Isa::divide(distance, golden_values));
           const auto near = Isa::less(error, Isa::set(0.49F));
           if (Isa::all(near)) [[likely]] {
             column_sums[column].add_near(Read::widen(target_row, lane, target_values), distance);
           } else {
             far_apart.add(Isa::inverse(near));
             column_sums[column].add_far(Read::widen(target_row, lane, target_values), Read::widen(golden_row, lane, golden_values));
             error = errors.template with_zero_divisors<true>(target_values, golden_values, error);
           }
           errors.add_errors(error);
         });
    for_columns([&](auto column) MSVIS_INLINE_LAMBDA {
      lane_sums.put(first_lane + column * column_width, column_sums[column]);
      sums.max_abs = larger(sums.max_abs, largest<double>(column_sums[column].max_abs));
      sums.max_abs = larger(sums.max_abs, largest<float>(column_sums[column].max_abs_float));
    });
    errors.put(sums);
    sums.far_apart += far_apart.total();
  }
  lane_sums.reduce(sums);
  const double target_distance = sums.dot;
  sums.dot = sums.target_squares - target_distance;
  sums.golden_squares = sums.dot + (sums.distance_squares - target_distance);
  remove_padding(sums, target_rows.padding);
  sums.far_apart -= static_cast<std::uint32_t>(target_rows.padding);
}

template <typename As>
void same_kernel(const void* both, std::size_t count, ChunkSums& sums) {
  sums = {};
  alignas(64) double squares[lanes];
  const Rows<As::size> rows(both, count);
  for (std::size_t first_lane = 0; first_lane < lanes; first_lane += pass_width) {
    Isa::Double column_squares[Isa::columns_per_pass][doubles_per_column];
    for (auto& column : column_squares) {
      for (Isa::Double& part : column) {
        part = Isa::set(0.0);
      }
    }
    typename As::Errors errors;
    walk(rows, rows, first_lane,
         [&](const unsigned char* row, const unsigned char* /*row*/, std::size_t lane, auto column) MSVIS_INLINE_LAMBDA {
           const Isa::Wide wide = As::load_wide(row, lane, errors);
           for (std::size_t k = 0; k < doubles_per_column; ++k) {
             Isa::Double& sum = column_squares[column][k];
             if constexpr (As::exact_products) {
               sum = Isa::add_exact_product(sum, wide.part[k], wide.part[k]);
             } else {
               sum = sum + wide.part[k] * wide.part[k];
             }
           }
         });
    for_columns([&](auto column) MSVIS_INLINE_LAMBDA {
      for (std::size_t k = 0; k < doubles_per_column; ++k) {
        Isa::store(column_squares[column][k], squares + first_lane + column * column_width + k * Isa::double_width);
      }
    });
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
template <Isa::Float (*load)(const unsigned char*), typename To>
void convert_16(const void* numbers, std::size_t count, To* out) {
  constexpr std::size_t size = 2;
  const auto* at = static_cast<const unsigned char*>(numbers);
  const auto step = [](const unsigned char* from, To* to) {
    const Isa::Float values = load(from);
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
    step(at + k * size, out + k);
  }
  if (k < count) {
    unsigned char rest[Isa::float_width * size] = {};
    To converted[Isa::float_width];
    std::memcpy(rest, at + k * size, (count - k) * size);
    step(rest, converted);
    std::memcpy(out + k, converted, (count - k) * sizeof(To));
  }
}

constexpr KernelTable make_table(InstructionSet set) {
  KernelTable table{};
  table.set = set;
  table.float32 = {pair_kernel<AsFloat<ReadFloat32>, false>, close_kernel<ReadFloat32>, same_kernel<AsFloat<ReadFloat32>>};
  table.bfloat16 = {pair_kernel<AsFloat<ReadBFloat16>, false>, close_kernel<ReadBFloat16>, same_kernel<AsFloat<ReadBFloat16>>};
  table.float16 = {pair_kernel<AsFloat<ReadFloat16>, false>, close_kernel<ReadFloat16>, same_kernel<AsFloat<ReadFloat16>>};
  table.float64 = {pair_kernel<AsDouble, false>, nullptr, same_kernel<AsDouble>};
  table.float32_masked = pair_kernel<AsFloat<ReadFloat32>, true>;
  table.float64_masked = pair_kernel<AsDouble, true>;
  table.find_float32 = find_kernel<float>;
  table.find_float64 = find_kernel<double>;
  const auto to_float = [&table](DType dtype, ToFloat function) { table.to_float[static_cast<std::size_t>(dtype)] = function; };
  to_float(DType::float32, convert<float, float>);
  to_float(DType::float16, convert_16<Isa::load_float16, float>);
  to_float(DType::bfloat16, convert_16<Isa::load_bfloat16, float>);
  to_float(DType::float8_e4m3fn, convert_float8<float8_e4m3fn_values, float>);
  to_float(DType::float8_e5m2, convert_float8<float8_e5m2_values, float>);
  to_float(DType::float8_e4m3fnuz, convert_float8<float8_e4m3fnuz_values, float>);
  to_float(DType::float8_e5m2fnuz, convert_float8<float8_e5m2fnuz_values, float>);
  const auto to_double = [&table](DType dtype, ToDouble function) { table.to_double[static_cast<std::size_t>(dtype)] = function; };
  to_double(DType::float64, convert<double, double>);
  to_double(DType::float32, convert<float, double>);
  to_double(DType::float16, convert_16<Isa::load_float16, double>);
  to_double(DType::bfloat16, convert_16<Isa::load_bfloat16, double>);
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
