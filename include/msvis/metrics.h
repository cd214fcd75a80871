// Metrics of two tensors: similarity, distances, relative errors, and what is worth knowing of their values.
//
// The values come from raw memory; one fused pass reads both sides once. The result is the same, bit for bit, on every instruction set and
// for every division of the work, because sums follow a fixed tree: 16 lanes in a chunk of 2^11 numbers, chunks pairwise in a block of 2^16
// elements, blocks pairwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/dtype.h"
#include "msvis/options.h"

namespace msvis {

/// Elements in memory: contiguous, in logical (row-major) order, of any alignment. Owns nothing.
struct TensorSpan {
  const void* data = nullptr;  ///< may be null if count is 0
  DType dtype = DType::float32;
  std::size_t count = 0;    ///< elements; a complex number is one
  bool big_endian = false;  ///< byte order of the elements (of each half, for complex types)

  /// `elements` elements from element `first` on; clipped to the end.
  [[nodiscard]] TensorSpan slice(std::size_t first, std::size_t elements) const;
};

enum class InstructionSet : std::uint8_t { best, scalar, sse2, avx2, avx512, neon };

/// scalar, sse2, avx2, avx512, neon; `best` is "best".
[[nodiscard]] std::string_view instruction_set_name(InstructionSet set);

/// Those that this build has and this machine can run, slowest first; `scalar` is always among them.
[[nodiscard]] std::vector<InstructionSet> available_instruction_sets();

struct MetricOptions {
  /// reference: +inf equals -inf; complex numbers are reduced to their real part; 0-d absolute errors are computed in the type of the
  /// elements (integers wrap). standard: infinities have a sign; a complex number is two reals; 0-d absolute errors are computed in
  /// float64.
  Compat compat = Compat::standard;
  /// The squeezed shape has no dimension, so that other rules hold. Only looked at if there is one element.
  bool zero_d = false;
  /// `best`: the fastest one available, or the one that the environment variable MSVIS_ISA names.
  InstructionSet instruction_set = InstructionSet::best;
};

enum class MetricState : std::uint8_t {
  number,
  not_a_number,     ///< text `Nan`
  unsupported,      ///< text `unsupported`
  shape_unmatched,  ///< text `shape unmatched`
  not_available,    ///< text `N/A`: NaN or infinities at different positions
};

/// Text of a cell that is no number; empty for `number`.
[[nodiscard]] std::string_view metric_text(MetricState state);

struct MetricCell {
  MetricState state = MetricState::unsupported;
  double value = 0;  ///< rounded as it is to be printed; only with `number`; may be infinite

  friend bool operator==(const MetricCell&, const MetricCell&) = default;
};

/// How often special values occur on one side. Complex numbers count as two with Compat::standard; only their real parts count with
/// Compat::reference.
struct ValueCounts {
  std::uint64_t nan = 0;
  std::uint64_t positive_infinity = 0;
  std::uint64_t negative_infinity = 0;
  std::uint64_t zero = 0;  ///< both signs

  friend bool operator==(const ValueCounts&, const ValueCounts&) = default;
};

/// Where the absolute error is largest (the first such place).
struct WorstElement {
  std::uint64_t index = 0;  ///< of the element, in logical order
  bool imaginary = false;   ///< it is the imaginary part of a complex element
  double target = 0;
  double golden = 0;

  friend bool operator==(const WorstElement&, const WorstElement&) = default;
};

enum class MetricOutcome : std::uint8_t {
  compared,         ///< one or more dimensions: all six cells are computed
  compared_scalar,  ///< 0-d: the two largest errors are computed, the other cells are unsupported
  unsupported,      ///< no elements in the target
  shape_unmatched,  ///< the numbers of elements differ
  not_available,    ///< NaN or infinities at different positions
};

struct TensorMetrics {
  MetricOutcome outcome = MetricOutcome::unsupported;
  MetricCell cosine;
  MetricCell euclidean_distance;
  MetricCell max_abs_err;
  MetricCell max_relative_err;
  MetricCell one_thousandth_err_ratio;
  MetricCell five_thousandths_err_ratio;

  /// Below: filled for compared, compared_scalar, not_available.
  bool bit_identical = false;  ///< same element type and same bits (after byte order)
  ValueCounts target_values;
  ValueCounts golden_values;
  /// Positions where one side is NaN or infinite and the other is not so; with Compat::standard also infinities of different sign.
  std::uint64_t non_finite_mismatches = 0;
  /// Of the pairs that are finite on both sides; nothing if there is no difference.
  std::optional<WorstElement> worst;
  double target_norm = 0;  ///< L2, of the pairs that are finite on both sides; 0 for 0-d
  double golden_norm = 0;

  /// All six cells in the state of `outcome`: for what the caller finds out alone (unsupported, shape_unmatched, not_available).
  [[nodiscard]] static TensorMetrics of(MetricOutcome outcome);
};

/// Metrics of two tensors. The caller has seen to the shapes (dimensions of size 1 removed, then equal). Order of the checks: no elements
/// in the target → unsupported; different counts → shape_unmatched; 0-d rules if options.zero_d; else NaN and infinities must stand at the
/// same positions (else not_available) and count as equal zeros. Throws Error (usage) if the instruction set asked for is not available or
/// MSVIS_ISA names none.
[[nodiscard]] TensorMetrics compare_tensors(const TensorSpan& target, const TensorSpan& golden, const MetricOptions& options = {});

/// Elements of one block: the unit in which the work on one pair of tensors is divided.
inline constexpr std::size_t metric_block_elements = std::size_t{1} << 16U;

/// Number of blocks of a tensor.
[[nodiscard]] constexpr std::size_t metric_blocks(std::size_t count) {
  return count / metric_block_elements + (count % metric_block_elements != 0 ? 1 : 0);
}

/// What is known of some blocks of a pair of tensors. Partials of disjoint sets of blocks can be combined in any order, with the same final
/// bits.
class PartialMetrics {
 public:
  /// Sums over a range of numbers; implementation detail, public for serialization only. No padding, plain numbers.
  struct Sums {
    double dot = 0;
    double target_squares = 0;
    double golden_squares = 0;
    double distance_squares = 0;
    double max_abs = 0;
    double max_rel = 0;
    double worst_target = 0;
    double worst_golden = 0;
    std::uint64_t worst_index = 0;  ///< in numbers from the start of the tensor
    std::uint64_t numbers = 0;
    std::uint64_t below_one_thousandth = 0;
    std::uint64_t below_five_thousandths = 0;
    std::uint64_t class_mismatches = 0;  ///< finite, NaN, infinite
    std::uint64_t sign_mismatches = 0;   ///< infinities
    std::uint64_t differing_chunks = 0;  ///< 0: bit-identical
    std::uint64_t target_nan = 0;
    std::uint64_t target_positive_infinity = 0;
    std::uint64_t target_negative_infinity = 0;
    std::uint64_t target_zero = 0;
    std::uint64_t golden_nan = 0;
    std::uint64_t golden_positive_infinity = 0;
    std::uint64_t golden_negative_infinity = 0;
    std::uint64_t golden_zero = 0;
  };
  /// Node of the binary tree over block numbers: blocks [index << level, (index + 1) << level).
  struct Node {
    std::uint64_t index = 0;
    std::uint64_t level = 0;
    Sums sums;
  };

  /// Adds the blocks of `other`. Throws Error (internal) if both hold the same block.
  void combine(const PartialMetrics& other);

  /// At most about 2 log2(blocks) for a contiguous range.
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }

  /// For the way between processes of the same program on the same kind of machine.
  [[nodiscard]] std::string to_bytes() const;
  /// Throws Error (internal) if `bytes` did not come from to_bytes().
  [[nodiscard]] static PartialMetrics from_bytes(std::string_view bytes);

 private:
  friend PartialMetrics accumulate_metrics(const TensorSpan&, const TensorSpan&, const MetricOptions&, std::size_t);
  void add(const Node& node);
  void check_disjoint() const;
  std::vector<Node> nodes_;  ///< by position, disjoint
};

/// Metrics of a piece of two tensors, for tensors of at least one dimension. `target` and `golden` are pieces that begin at block
/// `first_block` of their tensors and hold whole blocks (the last block of the tensor may be shorter). Thread-safe. Throws Error (internal)
/// if the counts of the pieces differ, and Error (usage) as compare_tensors.
[[nodiscard]] PartialMetrics accumulate_metrics(const TensorSpan& target, const TensorSpan& golden, const MetricOptions& options,
                                                std::size_t first_block = 0);

/// The metrics of tensors of `count` > 0 elements each, from all of their blocks. Same options as given to accumulate_metrics. The bits are
/// those of compare_tensors. Throws Error (internal) if blocks are missing or too many.
[[nodiscard]] TensorMetrics finish_metrics(const PartialMetrics& partial, std::size_t count, const MetricOptions& options);

}  // namespace msvis
