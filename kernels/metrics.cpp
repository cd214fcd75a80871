// The driver: divides tensors into blocks and chunks, chooses the kernels, adds up in a fixed order, and makes cells of the sums.
#include "msvis/metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/cells.h"
#include "kernels/kernel_table.h"
#include "msvis/error.h"

namespace msvis {
namespace {

using kernels::chunk_numbers;
using kernels::ChunkSums;
using kernels::KernelTable;
using Sums = PartialMetrics::Sums;
using Node = PartialMetrics::Node;

static_assert(std::is_trivially_copyable_v<Node> && sizeof(Sums) == 23 * sizeof(double) && sizeof(Node) == 25 * sizeof(double));

constexpr std::size_t max_chunks_per_block = 2 * metric_block_elements / chunk_numbers;  // two numbers per complex element

/// float32 and narrower: relative errors are computed in float32 if both sides are so.
bool counts_as_float(DType dtype) {
  return is_floating(dtype) && dtype != DType::float64;
}

template <typename Word>
void swap_words(const unsigned char* from, std::size_t bytes, unsigned char* to) {
  for (std::size_t at = 0; at < bytes; at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, from + at, sizeof word);
    if constexpr (sizeof word == 2) {
      word = __builtin_bswap16(word);
    } else if constexpr (sizeof word == 4) {
      word = __builtin_bswap32(word);
    } else {
      word = __builtin_bswap64(word);
    }
    std::memcpy(to + at, &word, sizeof word);
  }
}

/// Reads the chunks of a pair of pieces and runs the kernels on them.
class Pair {
 public:
  Pair(const TensorSpan& target, const TensorSpan& golden, const MetricOptions& options)
      : table_(kernels::table_for(options.instruction_set)),
        numbers_per_element_(options.compat == Compat::standard && (is_complex(target.dtype) || is_complex(golden.dtype)) ? 2 : 1),
        as_float_(counts_as_float(target.dtype) && counts_as_float(golden.dtype)),
        same_type_(target.dtype == golden.dtype),
        target_(side(target)),
        golden_(side(golden)),
        direct_(direct_kernels()) {}

  [[nodiscard]] std::size_t numbers_per_element() const { return numbers_per_element_; }
  [[nodiscard]] std::size_t chunk_elements() const { return chunk_numbers / numbers_per_element_; }

  /// To be called at the start of each block: how sums are computed depends on the chunks before, but only on those of the block.
  void begin_block() { far_apart_ = false; }

  /// Sums of `elements` <= chunk_elements() elements from `first` on. Returns whether both sides have the same bits.
  bool sum(std::size_t first, std::size_t elements, ChunkSums& sums) {
    const unsigned char* target = raw(target_, first, elements, swapped_target_);
    const unsigned char* golden = raw(golden_, first, elements, swapped_golden_);
    const bool same = same_type_ && std::memcmp(target, golden, elements * target_.element_size) == 0;
    const std::size_t numbers = elements * numbers_per_element_;
    const kernels::Kernels& kernel = direct_ != nullptr ? *direct_ : as_float_ ? table_.float32 : table_.float64;
    const void* target_numbers = direct_ != nullptr ? target : converted(target_, target, elements, target_buffer_);
    if (same) {
      kernel.same(target_numbers, numbers, sums);
    } else {
      const void* golden_numbers = direct_ != nullptr ? golden : converted(golden_, golden, elements, golden_buffer_);
      bool done = false;
      if (kernel.close != nullptr && !far_apart_) {
        kernel.close(target_numbers, golden_numbers, numbers, sums);
        far_apart_ = sums.far_apart > numbers / 64;
        done = !(sums.golden_squares < sums.target_squares / 4);
      }
      if (!done) {
        kernel.pair(target_numbers, golden_numbers, numbers, sums);
      }
    }
    if (!std::isfinite(sums.target_squares) || !std::isfinite(sums.golden_squares)) {
      // NaN, infinities, or float64 numbers whose squares overflow.
      (as_float_ ? table_.float32_masked : table_.float64_masked)(converted(target_, target, elements, target_buffer_),
                                                                  converted(golden_, golden, elements, golden_buffer_), numbers, sums);
    }
    return same;
  }

  /// Finds in the same range where the absolute error is `sums.max_abs`.
  void locate(std::size_t first, std::size_t elements, Sums& sums) {
    const void* target = converted(target_, raw(target_, first, elements, swapped_target_), elements, target_buffer_);
    const void* golden = converted(golden_, raw(golden_, first, elements, swapped_golden_), elements, golden_buffer_);
    const std::size_t numbers = elements * numbers_per_element_;
    std::size_t found = 0;
    if (as_float_) {
      const float* target_floats = aligned<float>(target, numbers, target_buffer_);
      const float* golden_floats = aligned<float>(golden, numbers, golden_buffer_);
      found = table_.find_float32(target_floats, golden_floats, numbers, sums.max_abs);
      if (found < numbers) {
        sums.worst_target = static_cast<double>(target_floats[found]);
        sums.worst_golden = static_cast<double>(golden_floats[found]);
      }
    } else {
      const double* target_doubles = aligned<double>(target, numbers, target_buffer_);
      const double* golden_doubles = aligned<double>(golden, numbers, golden_buffer_);
      found = table_.find_float64(target_doubles, golden_doubles, numbers, sums.max_abs);
      if (found < numbers) {
        sums.worst_target = target_doubles[found];
        sums.worst_golden = golden_doubles[found];
      }
    }
    sums.worst_index = first * numbers_per_element_ + found;
  }

 private:
  struct Side {
    const unsigned char* data;
    std::size_t element_size;
    std::size_t word_size;  ///< 1: no need to swap bytes
    bool spread;            ///< a real side against a complex one: imaginary parts are 0
    std::size_t numbers;    ///< stored numbers that are converted per element
    DType number;           ///< their type
    bool as_stored;         ///< a number is stored as the kernels want it
  };
  using Buffer = std::array<double, chunk_numbers>;
  using RawBuffer = std::array<unsigned char, chunk_numbers * 16>;

  [[nodiscard]] Side side(const TensorSpan& span) const {
    const DTypeInfo& info = dtype_info(span.dtype);
    Side side{};
    side.data = static_cast<const unsigned char*>(span.data);
    side.element_size = info.size;
    side.word_size = span.big_endian == (std::endian::native == std::endian::big) ? 1 : info.scalar_size;
    side.number = span.dtype;
    side.numbers = 1;
    if (numbers_per_element_ == 2) {
      if (is_complex(span.dtype)) {
        side.numbers = 2;
        side.number = span.dtype == DType::complex64 ? DType::float32 : DType::float64;
      } else {
        side.spread = true;
      }
    }
    side.as_stored = !side.spread && side.number == (as_float_ ? DType::float32 : DType::float64);
    return side;
  }

  [[nodiscard]] const kernels::Kernels* direct_kernels() const {
    if (target_.as_stored && golden_.as_stored) {
      return as_float_ ? &table_.float32 : &table_.float64;
    }
    if (same_type_ && as_float_ && target_.number == DType::bfloat16) {
      return &table_.bfloat16;
    }
    if (same_type_ && as_float_ && target_.number == DType::float16) {
      return &table_.float16;
    }
    return nullptr;
  }

  /// The bytes of the elements, in native order.
  static const unsigned char* raw(const Side& side, std::size_t first, std::size_t elements, RawBuffer& buffer) {
    const unsigned char* bytes = side.data + first * side.element_size;
    const std::size_t size = elements * side.element_size;
    switch (side.word_size) {
      case 2:
        swap_words<std::uint16_t>(bytes, size, buffer.data());
        return buffer.data();
      case 4:
        swap_words<std::uint32_t>(bytes, size, buffer.data());
        return buffer.data();
      case 8:
        swap_words<std::uint64_t>(bytes, size, buffer.data());
        return buffer.data();
      default:
        return bytes;
    }
  }

  /// Numbers of the type that the kernels want; in the buffer if they aren't stored so.
  const void* converted(const Side& side, const unsigned char* bytes, std::size_t elements, Buffer& buffer) const {
    if (side.as_stored) {
      return bytes;
    }
    const auto number = static_cast<std::size_t>(side.number);
    if (as_float_) {
      table_.to_float[number](bytes, elements, reinterpret_cast<float*>(buffer.data()));
    } else {
      table_.to_double[number](bytes, elements * side.numbers, buffer.data());
    }
    if (side.spread) {
      for (std::size_t k = elements; k-- > 0;) {
        buffer[2 * k] = buffer[k];
        buffer[2 * k + 1] = 0;
      }
    }
    return buffer.data();
  }

  template <typename Number>
  static const Number* aligned(const void* numbers, std::size_t count, Buffer& buffer) {
    if (numbers != buffer.data()) {
      std::memcpy(buffer.data(), numbers, count * sizeof(Number));
    }
    return reinterpret_cast<const Number*>(buffer.data());
  }

  alignas(64) Buffer target_buffer_;
  alignas(64) Buffer golden_buffer_;
  alignas(64) RawBuffer swapped_target_;
  alignas(64) RawBuffer swapped_golden_;
  const KernelTable& table_;
  std::size_t numbers_per_element_;
  bool as_float_;
  bool same_type_;
  bool far_apart_ = false;  ///< many numbers of the block differ by much, so that the `close` kernels don't pay
  Side target_;
  Side golden_;
  const kernels::Kernels* direct_;
};

/// Sums of one block, chunks added pairwise. Sets worst_index only if max_abs exceeds `located`.
Sums sum_block(Pair& pair, std::size_t first, std::size_t elements, double located) {
  Sums sums;
  sums.numbers = elements * pair.numbers_per_element();
  std::array<std::array<double, 4>, max_chunks_per_block> tree{};
  std::size_t worst_chunk = 0;
  std::size_t chunk = 0;
  const std::size_t chunk_elements = pair.chunk_elements();
  pair.begin_block();
  for (std::size_t begin = 0; begin < elements; begin += chunk_elements, ++chunk) {
    ChunkSums part;
    const bool same = pair.sum(first + begin, std::min(chunk_elements, elements - begin), part);
    tree[chunk] = {part.dot, part.target_squares, part.golden_squares, part.distance_squares};
    if (part.max_abs > sums.max_abs) {
      sums.max_abs = part.max_abs;
      worst_chunk = begin;
    }
    sums.max_rel = std::max(sums.max_rel, part.max_rel);
    sums.below_one_thousandth += part.below_one_thousandth;
    sums.below_five_thousandths += part.below_five_thousandths;
    sums.class_mismatches += part.class_mismatches;
    sums.sign_mismatches += part.sign_mismatches;
    sums.differing_chunks += same ? 0 : 1;
    sums.target_nan += part.target_nan;
    sums.target_positive_infinity += part.target_positive_infinity;
    sums.target_negative_infinity += part.target_negative_infinity;
    sums.target_zero += part.target_zero;
    sums.golden_nan += part.golden_nan;
    sums.golden_positive_infinity += part.golden_positive_infinity;
    sums.golden_negative_infinity += part.golden_negative_infinity;
    sums.golden_zero += part.golden_zero;
  }
  while (chunk > 1) {  // an absent neighbour is a zero
    for (std::size_t k = 0; k < (chunk + 1) / 2; ++k) {
      for (std::size_t sum = 0; sum < 4; ++sum) {
        tree[k][sum] = tree[2 * k][sum] + (2 * k + 1 < chunk ? tree[2 * k + 1][sum] : 0.0);
      }
    }
    chunk = (chunk + 1) / 2;
  }
  sums.dot = tree[0][0];
  sums.target_squares = tree[0][1];
  sums.golden_squares = tree[0][2];
  sums.distance_squares = tree[0][3];
  if (sums.max_abs > located) {
    pair.locate(first + worst_chunk, std::min(chunk_elements, elements - worst_chunk), sums);
  }
  return sums;
}

/// Sums of two neighbouring ranges.
Sums combined(const Sums& left, const Sums& right) {
  Sums sums = left;
  sums.dot += right.dot;
  sums.target_squares += right.target_squares;
  sums.golden_squares += right.golden_squares;
  sums.distance_squares += right.distance_squares;
  if (right.max_abs > left.max_abs) {
    sums.max_abs = right.max_abs;
    sums.worst_index = right.worst_index;
    sums.worst_target = right.worst_target;
    sums.worst_golden = right.worst_golden;
  }
  sums.max_rel = std::max(left.max_rel, right.max_rel);
  sums.numbers += right.numbers;
  sums.below_one_thousandth += right.below_one_thousandth;
  sums.below_five_thousandths += right.below_five_thousandths;
  sums.class_mismatches += right.class_mismatches;
  sums.sign_mismatches += right.sign_mismatches;
  sums.differing_chunks += right.differing_chunks;
  sums.target_nan += right.target_nan;
  sums.target_positive_infinity += right.target_positive_infinity;
  sums.target_negative_infinity += right.target_negative_infinity;
  sums.target_zero += right.target_zero;
  sums.golden_nan += right.golden_nan;
  sums.golden_positive_infinity += right.golden_positive_infinity;
  sums.golden_negative_infinity += right.golden_negative_infinity;
  sums.golden_zero += right.golden_zero;
  return sums;
}

std::uint64_t first_block_of(const Node& node) {
  return node.index << node.level;
}
std::uint64_t end_block_of(const Node& node) {
  return (node.index + 1) << node.level;
}

MetricCell cosine_cell(const Sums& sums) {
  constexpr double tiny = 0x1p-52;
  const double target_norm = std::sqrt(sums.target_squares);
  const double golden_norm = std::sqrt(sums.golden_squares);
  if (target_norm <= tiny && golden_norm <= tiny) {
    return kernels::number_cell(1.0);
  }
  if (target_norm <= tiny || golden_norm <= tiny) {
    return {MetricState::not_a_number, 0};
  }
  const double cosine = kernels::round_decimals(sums.dot / (target_norm * golden_norm), 12);
  return kernels::number_cell(cosine > 0.9999 ? kernels::round_decimals(cosine, 6) : cosine);
}

TensorMetrics make_metrics(const Sums& sums, Compat compat, std::size_t numbers_per_element) {
  TensorMetrics metrics;
  metrics.bit_identical = sums.differing_chunks == 0;
  metrics.target_values = {sums.target_nan, sums.target_positive_infinity, sums.target_negative_infinity, sums.target_zero};
  metrics.golden_values = {sums.golden_nan, sums.golden_positive_infinity, sums.golden_negative_infinity, sums.golden_zero};
  metrics.non_finite_mismatches = sums.class_mismatches + (compat == Compat::standard ? sums.sign_mismatches : 0);
  if (sums.max_abs > 0) {
    metrics.worst = WorstElement{sums.worst_index / numbers_per_element, sums.worst_index % numbers_per_element != 0, sums.worst_target,
                                 sums.worst_golden};
  }
  metrics.target_norm = std::sqrt(sums.target_squares);
  metrics.golden_norm = std::sqrt(sums.golden_squares);
  if (metrics.non_finite_mismatches != 0) {
    const TensorMetrics cells = TensorMetrics::of(MetricOutcome::not_available);
    metrics.outcome = cells.outcome;
    metrics.cosine = metrics.euclidean_distance = metrics.max_abs_err = metrics.max_relative_err = cells.cosine;
    metrics.one_thousandth_err_ratio = metrics.five_thousandths_err_ratio = cells.cosine;
    return metrics;
  }
  metrics.outcome = MetricOutcome::compared;
  metrics.cosine = cosine_cell(sums);
  metrics.euclidean_distance = kernels::number_cell(std::sqrt(sums.distance_squares));
  metrics.max_abs_err = kernels::rounded_cell(sums.max_abs);
  metrics.max_relative_err = kernels::rounded_cell(sums.max_rel);
  const auto numbers = static_cast<double>(sums.numbers);
  metrics.one_thousandth_err_ratio = kernels::rounded_cell(static_cast<double>(sums.below_one_thousandth) / numbers);
  metrics.five_thousandths_err_ratio = kernels::rounded_cell(static_cast<double>(sums.below_five_thousandths) / numbers);
  return metrics;
}

}  // namespace

TensorSpan TensorSpan::slice(std::size_t first, std::size_t elements) const {
  TensorSpan piece = *this;
  const std::size_t begin = std::min(first, count);
  piece.count = std::min(elements, count - begin);
  if (begin > 0) {
    piece.data = static_cast<const unsigned char*>(data) + begin * dtype_size(dtype);
  }
  return piece;
}

std::string_view metric_text(MetricState state) {
  switch (state) {
    case MetricState::not_a_number:
      return "Nan";
    case MetricState::unsupported:
      return "unsupported";
    case MetricState::shape_unmatched:
      return "shape unmatched";
    case MetricState::not_available:
      return "N/A";
    case MetricState::number:
      break;
  }
  return {};
}

TensorMetrics TensorMetrics::of(MetricOutcome outcome) {
  TensorMetrics metrics;
  metrics.outcome = outcome;
  MetricCell cell;
  if (outcome == MetricOutcome::shape_unmatched) {
    cell.state = MetricState::shape_unmatched;
  } else if (outcome == MetricOutcome::not_available) {
    cell.state = MetricState::not_available;
  }
  metrics.cosine = metrics.euclidean_distance = metrics.max_abs_err = metrics.max_relative_err = cell;
  metrics.one_thousandth_err_ratio = metrics.five_thousandths_err_ratio = cell;
  return metrics;
}

void PartialMetrics::add(const Node& node) {
  nodes_.push_back(node);
  while (nodes_.size() >= 2) {
    Node& left = nodes_[nodes_.size() - 2];
    const Node& right = nodes_.back();
    if (left.level != right.level || left.index % 2 != 0 || right.index != left.index + 1) {
      break;
    }
    left.sums = combined(left.sums, right.sums);
    left.index /= 2;
    ++left.level;
    nodes_.pop_back();
  }
}

void PartialMetrics::check_disjoint() const {
  for (std::size_t k = 1; k < nodes_.size(); ++k) {
    if (end_block_of(nodes_[k - 1]) > first_block_of(nodes_[k])) {
      throw Error(ErrorCategory::internal, "block " + std::to_string(first_block_of(nodes_[k])) + " of a tensor was added twice");
    }
  }
}

void PartialMetrics::combine(const PartialMetrics& other) {
  PartialMetrics both;
  both.nodes_.resize(nodes_.size() + other.nodes_.size());
  std::merge(nodes_.begin(), nodes_.end(), other.nodes_.begin(), other.nodes_.end(), both.nodes_.begin(),
             [](const Node& a, const Node& b) { return first_block_of(a) < first_block_of(b); });
  both.check_disjoint();
  PartialMetrics result;
  for (const Node& node : both.nodes_) {
    result.add(node);
  }
  nodes_ = std::move(result.nodes_);
}

std::string PartialMetrics::to_bytes() const {
  std::string bytes(nodes_.size() * sizeof(Node), '\0');
  if (!nodes_.empty()) {
    std::memcpy(bytes.data(), nodes_.data(), bytes.size());
  }
  return bytes;
}

PartialMetrics PartialMetrics::from_bytes(std::string_view bytes) {
  if (bytes.size() % sizeof(Node) != 0) {
    throw Error(ErrorCategory::internal,
                "partial metrics of " + std::to_string(bytes.size()) + " bytes, which is no multiple of " + std::to_string(sizeof(Node)));
  }
  PartialMetrics partial;
  partial.nodes_.resize(bytes.size() / sizeof(Node));
  if (!bytes.empty()) {
    std::memcpy(partial.nodes_.data(), bytes.data(), bytes.size());
  }
  for (const Node& node : partial.nodes_) {
    if (node.level > 47 || node.index >= (std::uint64_t{1} << (48 - node.level))) {  // 2^48 blocks of 2^16 elements are all there can be
      throw Error(ErrorCategory::internal, "partial metrics with a block number out of range");
    }
  }
  partial.check_disjoint();
  return partial;
}

PartialMetrics accumulate_metrics(const TensorSpan& target, const TensorSpan& golden, const MetricOptions& options,
                                  std::size_t first_block) {
  if (target.count != golden.count) {
    throw Error(ErrorCategory::internal,
                "pieces of " + std::to_string(target.count) + " and " + std::to_string(golden.count) + " elements can't be compared");
  }
  const kernels::FloatingPointSettings settings;
  PartialMetrics partial;
  Pair pair(target, golden, options);
  double located = 0;
  for (std::size_t block = 0; block < metric_blocks(target.count); ++block) {
    const std::size_t first = block * metric_block_elements;
    Node node;
    node.index = first_block + block;
    node.sums = sum_block(pair, first, std::min(metric_block_elements, target.count - first), located);
    node.sums.worst_index += first_block * metric_block_elements * pair.numbers_per_element();
    located = std::max(located, node.sums.max_abs);
    partial.add(node);
  }
  return partial;
}

TensorMetrics finish_metrics(const PartialMetrics& partial, std::size_t count, const MetricOptions& options) {
  const kernels::FloatingPointSettings settings;
  const std::vector<Node>& nodes = partial.nodes();
  std::uint64_t end = 0;
  for (const Node& node : nodes) {
    if (first_block_of(node) != end) {
      throw Error(ErrorCategory::internal, "block " + std::to_string(end) + " of a tensor was not compared");
    }
    end = end_block_of(node);
  }
  if (nodes.empty() || end != metric_blocks(count)) {
    throw Error(ErrorCategory::internal,
                std::to_string(end) + " blocks of a tensor were compared, but it has " + std::to_string(metric_blocks(count)));
  }
  // The nodes are the left siblings on the way from the root to the last block: what is right of each is one sum.
  Sums sums = nodes.back().sums;
  for (std::size_t k = nodes.size() - 1; k-- > 0;) {
    sums = combined(nodes[k].sums, sums);
  }
  if (sums.numbers != count && sums.numbers != 2 * count) {
    throw Error(ErrorCategory::internal,
                std::to_string(sums.numbers) + " numbers of a tensor were compared, but it has " + std::to_string(count));
  }
  return make_metrics(sums, options.compat, sums.numbers / count);
}

TensorMetrics compare_tensors(const TensorSpan& target, const TensorSpan& golden, const MetricOptions& options) {
  if (target.count == 0) {
    return TensorMetrics::of(MetricOutcome::unsupported);
  }
  if (target.count != golden.count) {
    return TensorMetrics::of(MetricOutcome::shape_unmatched);
  }
  if (options.zero_d && target.count == 1) {
    const kernels::FloatingPointSettings settings;
    return kernels::compare_scalars(target, golden, options.compat);
  }
  return finish_metrics(accumulate_metrics(target, golden, options), target.count, options);
}

}  // namespace msvis
