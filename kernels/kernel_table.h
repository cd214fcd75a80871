// What each instruction set provides to the driver in metrics.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "msvis/dtype.h"
#include "msvis/metrics.h"

namespace msvis::kernels {

/// Numbers of one call of a kernel: both inputs as float32 fit into half of a first-level cache, so that a second look at them is cheap.
inline constexpr std::size_t chunk_numbers = 2048;
/// Number k of a chunk is summed in lane k % lanes, on every instruction set.
inline constexpr std::size_t lanes = 16;

struct ChunkSums {
  double dot;
  double target_squares;
  double golden_squares;
  double distance_squares;
  double max_abs;
  double max_rel;
  std::uint32_t below_one_thousandth;
  std::uint32_t below_five_thousandths;
  std::uint32_t target_zero;
  std::uint32_t golden_zero;
  std::uint32_t far_apart;  ///< only from the `close` kernels: pairs that they must treat singly
  // Only from the masked kernels; otherwise zero.
  std::uint32_t target_nan;
  std::uint32_t target_positive_infinity;
  std::uint32_t target_negative_infinity;
  std::uint32_t golden_nan;
  std::uint32_t golden_positive_infinity;
  std::uint32_t golden_negative_infinity;
  std::uint32_t class_mismatches;
  std::uint32_t sign_mismatches;
};

/// `count` <= chunk_numbers numbers of each side, of any alignment.
using PairKernel = void (*)(const void* target, const void* golden, std::size_t count, ChunkSums& sums);
/// For a pair whose sides have the same bits.
using SameKernel = void (*)(const void* both, std::size_t count, ChunkSums& sums);
/// Numbers of a type to float or double.
using ToFloat = void (*)(const void* numbers, std::size_t count, float* out);
using ToDouble = void (*)(const void* numbers, std::size_t count, double* out);

/// Kernels for inputs that are read as they are. Whether an input is NaN or infinite shows in the squares, which are then not finite; all
/// other results are void in that case.
struct Kernels {
  PairKernel pair;
  /// The same for float32 and narrower, but faster where the sides are close to each other, in which case their difference is a float32,
  /// without rounding. The sums are others (see kernel_impl.h): dot and golden_squares are exact enough only if golden_squares is not much
  /// smaller than target_squares; if it is, use `pair`. Null for float64.
  PairKernel close;
  SameKernel same;
};

struct KernelTable {
  InstructionSet set;
  Kernels float32;
  Kernels bfloat16;
  Kernels float16;
  Kernels float64;
  /// Pairs that are not finite on both sides count as zeros; finds mismatches and counts special values.
  PairKernel float32_masked;
  PairKernel float64_masked;
  /// First position with |target - golden| == max_abs, both finite; `count` if there is none.
  std::size_t (*find_float32)(const float* target, const float* golden, std::size_t count, double max_abs);
  std::size_t (*find_float64)(const double* target, const double* golden, std::size_t count, double max_abs);
  /// By DType. to_float: floating-point types but float64, else null. to_double: all; the real part of complex types.
  std::array<ToFloat, dtype_count> to_float;
  std::array<ToDouble, dtype_count> to_double;
};

/// Each is defined in the source of its instruction set; call only where the machine can run it.
const KernelTable& scalar_table();
const KernelTable& sse2_table();
const KernelTable& avx2_table();
const KernelTable& avx512_table();
const KernelTable& neon_table();

/// The kernels for `set`, resolving `best`. Throws Error (usage) if there are none.
const KernelTable& table_for(InstructionSet set);

}  // namespace msvis::kernels
