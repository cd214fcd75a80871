#include "merge/classify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "msvis/error.h"

namespace msvis {
namespace {

using Shape = std::vector<std::uint64_t>;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return contains(text, part); });
}

/// Dotted component number `from_end` of a name, 0 is the last one; empty if there are fewer.
std::string_view component(std::string_view name, std::size_t from_end) {
  for (std::size_t k = 0;; ++k) {
    const std::size_t dot = name.rfind('.');
    if (k == from_end) {
      return dot == std::string_view::npos ? name : name.substr(dot + 1);
    }
    if (dot == std::string_view::npos) {
      return {};
    }
    name = name.substr(0, dot);
  }
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool same_number(const std::optional<double>& left, const std::optional<double>& right) {
  return left == right || (left && right && std::isnan(*left) && std::isnan(*right));
}

bool is_floating(std::string_view dtype) {
  return contains_any(dtype, {"float", "Float"});
}

/// Elements of a shape; empty if the product does not fit.
std::optional<std::uint64_t> element_count(const std::optional<Shape>& shape) {
  if (!shape) {
    return std::nullopt;
  }
  std::uint64_t count = 1;
  for (const std::uint64_t size : *shape) {
    if (__builtin_mul_overflow(count, size, &count)) {
      return std::nullopt;
    }
  }
  return count;
}

// ------------------------------------------------------------------------------------------------------------------- places

enum class Role : std::uint8_t { unknown, replicated, partial, split, masked };

/// What the place of an entry says of it.
struct Expectation {
  Role role = Role::unknown;
  /// Along which dimension (with `unknown`: if it should be split); negative counts from the end, empty: not known.
  std::optional<int> dimension;
  std::uint64_t blocks = 1;
  /// Several neighbouring ranks hold the same: as many as that hold different values (keys and values with few groups). 0: each its own.
  std::uint64_t distinct = 0;
};

/// Expectation::distinct that the values of the ranks tell.
constexpr std::uint64_t by_values = UINT64_MAX;

constexpr int last = -1;

Expectation replicated() {
  return {Role::replicated, {}, 1, 0};
}
Expectation partial() {
  return {Role::partial, {}, 1, 0};
}
Expectation split(std::optional<int> dimension, std::uint64_t blocks = 1) {
  return {Role::split, dimension, blocks, 0};
}

/// Views of the parts of an EntryPlace that the rules need.
class Place {
 public:
  Place(const EntryPlace& place, const ShardRecord& record)
      : place_(place), record_(record), class_(module_class(place.module)), dimensions_(record.shape ? record.shape->size() : 0) {
    const std::string_view direction = component(place.module, 1);
    backward_ = direction == "backward";
    is_api_ = place.node != place.module;
    gradient_node_ = place.state == ItemState::parameters_grad;
    parameter_ = place.state == ItemState::parameters || gradient_node_ ? component(place.argument, 0) : std::string_view();
  }

  [[nodiscard]] Expectation expectation() const {
    if (place_.axis == ParallelAxis::context) {
      return of_sequence();
    }
    if (place_.axis == ParallelAxis::expert) {
      return of_experts();
    }
    if (!parameter_.empty()) {
      return of_parameter();
    }
    if (is_linear("ColumnParallel")) {
      return is_api_ ? of_column_api() : of_column();
    }
    if (is_linear("RowParallel")) {
      return is_api_ ? of_row_api() : of_row();
    }
    if (contains(class_, "VocabParallelEmbedding")) {
      return of_embedding();
    }
    if (contains(class_, "Norm") || contains(class_, "Router") || contains(class_, "Dropout")) {
      return residual();
    }
    if (is_core_attention()) {
      return of_core_attention();
    }
    if (is_attention() || contains(class_, "MLP")) {
      return is_api_ ? inside_block() : residual();
    }
    if (contains_any(class_, {"TransformerLayer", "TransformerBlock", "Embedding"})) {
      return residual();
    }
    if (is_api_ && contains(class_, "Model") && dimensions_ == 3 && is_floating(record_.dtype)) {
      // Loss of logits whose vocabulary is split, if they are not the same on all ranks.
      return {Role::unknown, last, 1, 0};
    }
    return {};
  }

 private:
  [[nodiscard]] bool is_output() const { return place_.state == ItemState::output; }
  [[nodiscard]] bool argument_is(std::string_view name) const { return place_.argument == name; }
  /// Of this kind, also from other libraries and in groups: TEColumnParallelGroupedLinear.
  [[nodiscard]] bool is_linear(std::string_view kind) const { return contains(class_, kind) && contains(class_, "Linear"); }
  [[nodiscard]] bool is_core_attention() const {
    return contains_any(
        class_, {"CoreAttention", "DotProductAttention", "FlashAttention", "FlashSelfAttention", "FusedSoftmax", "FusedScaleMaskSoftmax"});
  }
  [[nodiscard]] bool is_attention() const { return contains(class_, "Attention"); }

  /// Gate and up stand one after the other in each shard.
  [[nodiscard]] std::uint64_t gate_blocks() const {
    return place_.gated && contains_any(place_.module, {"fc1", "gate_up", "h_to_4h", "w13"}) ? 2 : 1;
  }

  /// Values between the linear layers: the sequence is split with sequence parallelism; vectors (a bias that is handed on) are not.
  [[nodiscard]] Expectation residual() const {
    if (!place_.sequence_parallel || dimensions_ < 2 || !is_floating(record_.dtype)) {
      return replicated();
    }
    return split(0);
  }

  [[nodiscard]] Expectation of_parameter() const {
    const bool weight = parameter_ == "weight" || contains(parameter_, "weight");
    if (is_linear("ColumnParallel")) {
      if (contains(parameter_, "layer_norm")) {
        return summed_gradient();  // a norm fused into the linear layer
      }
      return split(0, gate_blocks());
    }
    if (is_linear("RowParallel")) {
      return weight ? split(1) : summed_gradient();
    }
    if (contains(class_, "VocabParallelEmbedding")) {
      return split(0);
    }
    if (contains_any(class_, {"Norm", "Router", "Embedding"})) {
      return summed_gradient();
    }
    return {};
  }

  /// Parameters that all ranks have; with sequence parallelism their gradients are sums over the ranks.
  [[nodiscard]] Expectation summed_gradient() const { return gradient_node_ && place_.sequence_parallel ? partial() : replicated(); }

  [[nodiscard]] Expectation of_column() const {
    if (dimensions_ < 2) {
      return split(last, gate_blocks());  // output.1: its bias, if it is handed on
    }
    // Forward: input → output. Backward: gradient of the output → gradient of the input.
    return backward_ == is_output() ? residual() : split(last, gate_blocks());
  }

  [[nodiscard]] Expectation of_row() const {
    if (dimensions_ < 2) {
      return replicated();
    }
    return backward_ == is_output() ? split(last) : residual();
  }

  [[nodiscard]] bool is_matmul() const { return contains_any(place_.node, {"matmul", "linear", ".mm.", ".addmm."}); }

  /// A matrix product whose result is the gradient of the weight, by its result or its operands.
  [[nodiscard]] bool of_weight_gradient() const {
    if (dimensions_ != 2 || !place_.weight_shape || place_.weight_shape->size() != 2 || !record_.shape) {
      return false;
    }
    const Shape& weight = *place_.weight_shape;
    if (place_.result_shape) {
      return *place_.result_shape == weight;
    }
    const Shape& shape = *record_.shape;
    if (is_output()) {
      return shape == weight;
    }
    return argument_is("input.0") ? shape[0] == weight[0] && shape[1] != weight[0] : shape[1] == weight[1] && shape[0] != weight[0];
  }

  [[nodiscard]] Expectation of_column_api() const {
    if (!is_matmul()) {
      // All-gather of the input, a bias: by their values.
      return {};
    }
    const std::uint64_t blocks = gate_blocks();
    const bool functional = contains(place_.node, "linear");
    if (!backward_) {
      if (argument_is("input.0")) {
        return replicated();  // gathered before, if the sequence is split
      }
      if (argument_is("input.1")) {
        return split(functional ? 0 : last, blocks);  // matmul has the weight transposed
      }
      return argument_is("input.2") ? split(0, blocks) : split(last, blocks);
    }
    if (of_weight_gradient()) {
      return argument_is("input.1") ? replicated() : split(0, blocks);
    }
    if (argument_is("input.0")) {
      return split(last, blocks);
    }
    return argument_is("input.1") ? split(0, blocks) : partial();
  }

  [[nodiscard]] Expectation of_row_api() const {
    if (!is_matmul()) {
      return {};
    }
    const bool functional = contains(place_.node, "linear");
    if (!backward_) {
      if (argument_is("input.0")) {
        return split(last);
      }
      if (argument_is("input.1")) {
        return split(functional ? last : 0);
      }
      return is_output() ? partial() : replicated();
    }
    if (of_weight_gradient()) {
      return argument_is("input.0") ? replicated() : split(last);
    }
    if (argument_is("input.0")) {
      return replicated();
    }
    return argument_is("input.1") ? split(1) : split(last);
  }

  [[nodiscard]] Expectation of_embedding() const {
    if (!is_api_) {
      if (!is_floating(record_.dtype)) {
        return replicated();
      }
      // Forward the result of the reduction, backward its gradient.
      return residual();
    }
    if (contains(place_.node, "embedding")) {
      if (is_output()) {
        return backward_ || contains(place_.node, ".backward") ? Expectation{} : partial();
      }
      if (!is_floating(record_.dtype)) {
        return {Role::masked, {}, 1, 0};
      }
      return argument_is("input.1") ? split(0) : Expectation{};
    }
    return {};
  }

  [[nodiscard]] Expectation heads_of_kv(Expectation expected) const {
    expected.distinct = place_.kv_groups != 0 ? place_.kv_groups : by_values;
    return expected;
  }

  [[nodiscard]] Expectation of_core_attention() const {
    if (!is_floating(record_.dtype) || dimensions_ == 0) {
      return replicated();  // masks, sizes
    }
    if (is_api_) {
      if (dimensions_ == 4) {
        return split(1);  // [b, heads, sq, sk]
      }
      return dimensions_ == 3 ? split(0, place_.batch) : Expectation{};  // [b·heads, sq, sk]
    }
    if (dimensions_ == 4) {
      const bool of_keys = is_output() == backward_ && (contains_any(place_.argument, {"key", "value"}) ||
                                                        component(place_.argument, 0) == "1" || component(place_.argument, 0) == "2");
      return of_keys ? heads_of_kv(split(2)) : split(2);  // [s, b, heads, size of a head]
    }
    return dimensions_ == 3 ? split(last) : Expectation{};
  }

  /// Operations between a column-parallel and a row-parallel layer.
  [[nodiscard]] Expectation inside_block() const {
    if (!is_floating(record_.dtype) || dimensions_ < 2 || starts_with_distributed()) {
      return {};
    }
    if (is_attention()) {
      return dimensions_ == 4 ? split(2) : Expectation{};
    }
    const bool of_argument = is_output() == contains(place_.node, ".backward");  // forward inputs, gradients of them
    const bool halves = place_.gated && of_argument && contains_any(place_.node, {"chunk", "swiglu", "split", "geglu"});
    return split(last, halves ? 2 : 1);
  }

  [[nodiscard]] bool starts_with_distributed() const { return place_.node.starts_with("Distributed"); }

  /// Modules that hold all experts of a rank: tokens in rows, weights of all experts in one.
  [[nodiscard]] Expectation of_experts() const {
    if (dimensions_ == 0) {
      return {};
    }
    if (parameter_.empty() || dimensions_ != 2) {
      return split(0);
    }
    if (contains(parameter_, "weight1")) {
      return split(1);  // GroupedMLP: [hidden, experts·ffn]
    }
    return contains(parameter_, "weight2") ? split(0) : split(std::nullopt);
  }

  /// Context parallelism: parameters are on all ranks, their gradients are sums, activations are split along the sequence.
  [[nodiscard]] Expectation of_sequence() const {
    if (!parameter_.empty()) {
      return gradient_node_ ? partial() : replicated();
    }
    if (dimensions_ == 0) {
      return {};
    }
    if (!is_floating(record_.dtype)) {
      return dimensions_ == 2 ? split(sequence_dimension(1)) : Expectation{};  // ids [b, s]
    }
    const bool linear = contains(class_, "Linear");
    if (is_api_ && linear && is_matmul()) {
      if (!backward_) {
        return argument_is("input.0") || is_output() ? split(0) : replicated();
      }
      if (of_weight_gradient()) {
        return is_output() ? partial() : split(argument_is("input.0") ? last : 0);
      }
      return argument_is("input.1") ? replicated() : split(0);
    }
    if (dimensions_ == 1) {
      return replicated();  // a weight or bias that is handed on
    }
    if (contains(class_, "VocabParallelEmbedding")) {
      return dimensions_ == 3 ? split(sequence_dimension(1)) : replicated();  // [b, s, h]; the weight
    }
    if (is_core_attention() && is_api_) {
      return split(dimensions_ == 4 ? 2 : 1);  // rows of the scores
    }
    // A loss is [b, s] in the end, [s, b] while the model computes it.
    const bool loss = dimensions_ == 2 && (class_.empty() || (!is_api_ && contains_any(class_, {"Model", "Module"})));
    return split(sequence_dimension(loss ? 1 : 0));
  }

  /// Of the first two dimensions the one that is not that of the samples, if that can be told.
  [[nodiscard]] int sequence_dimension(int otherwise) const {
    const Shape& shape = *record_.shape;
    if (shape.size() < 2 || (shape[0] == place_.batch) == (shape[1] == place_.batch)) {
      return otherwise;
    }
    return shape[0] == place_.batch ? 1 : 0;
  }

  const EntryPlace& place_;
  const ShardRecord& record_;
  std::string_view class_;
  std::size_t dimensions_;
  bool backward_ = false;
  bool is_api_ = false;
  bool gradient_node_ = false;
  std::string_view parameter_;
};

// ------------------------------------------------------------------------------------------------------------------- shapes

bool same_shapes(const std::vector<ShardRecord>& records) {
  return std::all_of(records.begin(), records.end(), [&](const ShardRecord& r) { return r.shape == records.front().shape; });
}

/// Whether all shards have shapes that differ at most along `dimension`.
bool can_concatenate(const std::vector<ShardRecord>& records, std::size_t dimension) {
  const std::optional<Shape>& first = records.front().shape;
  return std::all_of(records.begin(), records.end(), [&](const ShardRecord& record) {
    if (!record.shape || !first || record.shape->size() != first->size() || dimension >= first->size()) {
      return false;
    }
    for (std::size_t d = 0; d < first->size(); ++d) {
      if (d != dimension && (*record.shape)[d] != (*first)[d]) {
        return false;
      }
    }
    return true;
  });
}

/// Σ over the ranks of one size; empty if it does not fit.
std::optional<std::uint64_t> summed_size(const std::vector<ShardRecord>& records, std::size_t dimension) {
  std::uint64_t sum = 0;
  for (const ShardRecord& record : records) {
    if (__builtin_add_overflow(sum, (*record.shape)[dimension], &sum)) {
      return std::nullopt;
    }
  }
  return sum;
}

/// The one dimension along which the shards add up to `whole`; empty if there is none or several (a size of 0).
std::optional<std::uint32_t> dimension_of(const std::vector<ShardRecord>& records, const Shape& whole) {
  std::optional<std::uint32_t> found;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (!can_concatenate(records, d) || records.front().shape->size() != whole.size()) {
      continue;
    }
    Shape sum = *records.front().shape;
    const auto size = summed_size(records, d);
    if (!size) {
      continue;
    }
    sum[d] = *size;
    if (sum == whole && whole != *records.front().shape) {
      if (found) {
        return std::nullopt;
      }
      found = static_cast<std::uint32_t>(d);
    }
  }
  return found;
}

std::optional<std::uint32_t> resolve_dimension(const std::vector<ShardRecord>& records, std::optional<int> dimension) {
  if (!dimension || !records.front().shape) {
    return std::nullopt;
  }
  const int count = static_cast<int>(records.front().shape->size());
  const int d = *dimension < 0 ? count + *dimension : *dimension;
  if (d < 0 || d >= count || !can_concatenate(records, static_cast<std::size_t>(d))) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(d);
}

// ------------------------------------------------------------------------------------------------------------------- combination

/// Largest (or smallest) value; NaN wins. Empty if a rank that has elements has none.
void combine_extreme(const std::vector<ShardRecord>& records, Statistic statistic, MergedRecord& merged) {
  std::optional<std::uint32_t> best;
  for (std::uint32_t rank = 0; rank < records.size(); ++rank) {
    const std::optional<double>& value = records[rank].stats[statistic];
    if (!value) {
      if (element_count(records[rank].shape) == 0) {
        continue;
      }
      return;
    }
    if (!best) {
      best = rank;
      continue;
    }
    const double current = *records[*best].stats[statistic];
    if (!std::isnan(current) && (std::isnan(*value) || (statistic == stat_max ? *value > current : *value < current))) {
      best = rank;
    }
  }
  if (best) {
    merged.stats[statistic] = records[*best].stats[statistic];
    merged.same_as[statistic] = best;
  }
}

/// Elements of each rank; all 1 if a shape is not known (then all weigh the same).
std::vector<double> weights_of(const std::vector<ShardRecord>& records) {
  std::vector<double> weights;
  for (const ShardRecord& record : records) {
    const auto count = element_count(record.shape);
    if (!count) {
      return std::vector<double>(records.size(), 1.0);
    }
    weights.push_back(static_cast<double>(*count));
  }
  return weights;
}

std::optional<double> combined_mean(const std::vector<ShardRecord>& records) {
  const std::vector<double> weights = weights_of(records);
  double total = 0;
  double sum = 0;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const std::optional<double>& mean = records[rank].stats[stat_mean];
    if (weights[rank] == 0) {
      continue;
    }
    if (!mean) {
      return std::nullopt;
    }
    sum += weights[rank] * *mean;
    total += weights[rank];
  }
  if (total == 0) {
    return std::nullopt;
  }
  return sum / total;
}

std::optional<double> combined_norm(const std::vector<ShardRecord>& records) {
  double largest = 0;
  bool any = false;
  for (const ShardRecord& record : records) {
    const std::optional<double>& norm = record.stats[stat_norm];
    if (!norm) {
      if (element_count(record.shape) == 0) {
        continue;
      }
      return std::nullopt;
    }
    any = true;
    if (std::isnan(*norm)) {
      return norm;
    }
    largest = std::max(largest, std::abs(*norm));
  }
  if (!any) {
    return std::nullopt;
  }
  if (largest == 0 || std::isinf(largest)) {
    return largest;
  }
  double sum = 0;
  for (const ShardRecord& record : records) {
    if (record.stats[stat_norm]) {
      const double scaled = *record.stats[stat_norm] / largest;
      sum += scaled * scaled;
    }
  }
  return largest * std::sqrt(sum);
}

/// The record of one rank as that of the whole.
MergedRecord as_whole(const ShardRecord& record, std::uint32_t rank) {
  MergedRecord merged;
  merged.stats = record.stats;
  for (std::size_t s = 0; s < merged.stats.size(); ++s) {
    if (merged.stats[s]) {
      merged.same_as[s] = rank;
    }
  }
  merged.shape = record.shape;
  merged.elements = element_count(record.shape);
  merged.requires_grad = record.requires_grad;
  return merged;
}

/// The statistics of the first rank, except that NaN of any rank shows.
MergedRecord with_every_nan(const std::vector<ShardRecord>& records) {
  MergedRecord merged = as_whole(records.front(), 0);
  for (std::size_t s = 0; s < merged.stats.size(); ++s) {
    for (std::uint32_t rank = 0; rank < records.size(); ++rank) {
      const std::optional<double>& value = records[rank].stats[s];
      if (value && std::isnan(*value)) {
        merged.stats[s] = value;
        merged.same_as[s] = rank;
        break;
      }
    }
  }
  return merged;
}

std::vector<std::uint64_t> sizes_along(const std::vector<ShardRecord>& records, std::size_t dimension) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(records.size());
  for (const ShardRecord& record : records) {
    sizes.push_back((*record.shape)[dimension]);
  }
  return sizes;
}

bool has_nan(const ShardRecord& record) {
  return std::any_of(record.stats.begin(), record.stats.end(), [](const auto& value) { return value && std::isnan(*value); });
}

/// Largest difference of a statistic from that of the first rank, and the rank; NaN on one side only is infinite.
std::pair<double, std::uint32_t> largest_difference(const std::vector<ShardRecord>& records) {
  std::pair<double, std::uint32_t> found{0, 0};
  for (std::uint32_t rank = 1; rank < records.size(); ++rank) {
    for (std::size_t s = 0; s < 4; ++s) {
      const std::optional<double>& left = records[0].stats[s];
      const std::optional<double>& right = records[rank].stats[s];
      if (!left || !right || same_number(left, right)) {
        continue;
      }
      double difference = std::abs(*left - *right);
      if (std::isnan(difference)) {
        difference = std::numeric_limits<double>::infinity();
      }
      if (difference > found.first) {
        found = {difference, rank};
      }
    }
    if (found.second == 0 && !same_record(records[0], records[rank])) {
      found.second = rank;  // only shape, dtype or md5 tell it
    }
  }
  return found;
}

/// Whether all statistics are those of the first rank within 0.1 % of its largest absolute value: what noise does to a replica, hardly what
/// a shard has.
bool alike(const std::vector<ShardRecord>& records) {
  constexpr double noise = 1e-3;
  if (!same_shapes(records)) {
    return false;
  }
  const ShardRecord& first = records.front();
  if (!first.stats[stat_max] || !first.stats[stat_min]) {
    return false;
  }
  const double scale = std::max(std::abs(*first.stats[stat_max]), std::abs(*first.stats[stat_min]));
  for (const ShardRecord& record : records) {
    for (std::size_t s = 0; s < 4; ++s) {
      const std::optional<double>& left = first.stats[s];
      const std::optional<double>& right = record.stats[s];
      if (left.has_value() != right.has_value()) {
        return false;
      }
      const double of = s == stat_norm && left ? std::abs(*left) : scale;
      if (left && !same_number(left, right) && !(std::abs(*left - *right) <= noise * of)) {
        return false;
      }
    }
  }
  return true;
}

// ------------------------------------------------------------------------------------------------------------------- decision

class Decision {
 public:
  Decision(const EntryPlace& place, const std::vector<ShardRecord>& records) : place_(place), records_(records) {
    equal_ = std::all_of(records.begin() + 1, records.end(), [&](const ShardRecord& r) { return same_record(records.front(), r); });
  }

  Classification run() {
    result_.requires_grad_differs = std::any_of(records_.begin(), records_.end(),
                                                [&](const ShardRecord& r) { return r.requires_grad != records_.front().requires_grad; });
    if (records_.size() == 1) {
      replicated();
      return std::move(result_);
    }
    const Expectation expected = Place(place_, records_.front()).expectation();
    if (is_operand() && expected.role != Role::split && !(equal_ && expected.role == Role::replicated)) {
      partial();
    } else if (!by_golden_shape(expected)) {
      by_place(expected);
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_operand() const {
    const Reduction* reduction = place_.reduction;
    if (reduction == nullptr || reduction->operands.size() != records_.size()) {
      return false;
    }
    bool any = false;
    for (std::size_t rank = 0; rank < records_.size(); ++rank) {
      for (std::size_t s = 0; s < 4; ++s) {
        if (!same_number(records_[rank].stats[s], reduction->operands[rank].stats[s])) {
          return false;
        }
        any = any || records_[rank].stats[s].has_value();
      }
    }
    return any;
  }

  /// True if the golden side's shape decides.
  bool by_golden_shape(const Expectation& expected) {
    if (!place_.golden_shape || !records_.front().shape || !same_ranks_dimensions()) {
      return false;
    }
    const Shape& whole = *place_.golden_shape;
    const auto by_class = resolve_dimension(records_, expected.dimension);
    if (expected.role == Role::split && by_class && concatenated(*by_class) == whole) {
      split(by_class, expected);  // also where a size is 0 or 1 and several dimensions would do
      return true;
    }
    if (const auto dimension = dimension_of(records_, whole)) {
      Expectation found = expected;
      if (by_class != dimension) {
        found.blocks = 1;
        found.distinct = 0;
      }
      split(dimension, found);
      return true;
    }
    if (same_shapes(records_) && *records_.front().shape == whole && expected.role != Role::partial && expected.role != Role::masked &&
        !(expected.role == Role::split && expected.distinct == 1)) {
      equal_ ? replicated() : diverged();
      return true;
    }
    return false;
  }

  [[nodiscard]] bool same_ranks_dimensions() const { return records_.front().shape->size() == place_.golden_shape->size(); }

  [[nodiscard]] std::optional<Shape> concatenated(std::uint32_t dimension) const {
    const auto size = summed_size(records_, dimension);
    if (!size) {
      return std::nullopt;
    }
    Shape shape = *records_.front().shape;
    shape[dimension] = *size;
    return shape;
  }

  void by_place(const Expectation& expected) {
    switch (expected.role) {
      case Role::replicated:
        equal_ ? replicated() : diverged();
        return;
      case Role::partial:
        // A sum that was reduced in place before it was recorded is the same on all ranks; so is a sum of equal parts, which can't be told
        // from it.
        equal_ ? replicated() : partial();
        return;
      case Role::masked:
        equal_ ? replicated() : not_mergeable();
        return;
      case Role::split:
        // Shards of a computed value are not equal: it was gathered, not scattered yet, or the layer is not split. Parameters may be
        // (biases of zeros).
        if (equal_ && !is_parameter() && !tells_nothing()) {
          replicated();
          return;
        }
        split(resolve_dimension(records_, expected.dimension), expected);
        return;
      case Role::unknown:
        break;
    }
    if (equal_) {
      replicated();
    } else if (!expected.dimension && alike(records_)) {
      diverged();
    } else {
      const auto dimension = unequal_dimension();
      split(dimension ? dimension : resolve_dimension(records_, expected.dimension), {});
    }
  }

  [[nodiscard]] bool is_parameter() const { return place_.state == ItemState::parameters || place_.state == ItemState::parameters_grad; }

  /// Equality tells nothing of slices of zeros, or of any one value, and of values that are not known.
  [[nodiscard]] bool tells_nothing() const {
    const ShardRecord& first = records_.front();
    const bool unknown =
        first.md5.empty() && std::none_of(first.stats.begin(), first.stats.end(), [](const auto& value) { return value.has_value(); });
    return unknown || (first.stats[stat_max] && first.stats[stat_max] == first.stats[stat_min]);
  }

  /// The only dimension in which the shards differ, if there is one.
  [[nodiscard]] std::optional<std::uint32_t> unequal_dimension() const {
    if (!records_.front().shape || same_shapes(records_)) {
      return std::nullopt;
    }
    for (std::size_t d = 0; d < records_.front().shape->size(); ++d) {
      if (can_concatenate(records_, d)) {
        return static_cast<std::uint32_t>(d);
      }
    }
    return std::nullopt;
  }

  void replicated() {
    result_.kind = ShardKind::replicated;
    result_.merged = as_whole(records_.front(), 0);
    if (!records_.front().md5.empty()) {
      result_.merged.md5 = records_.front().md5;
    }
  }

  void diverged() {
    result_.kind = ShardKind::diverged;
    result_.merged = with_every_nan(records_);
    std::tie(result_.divergence, result_.diverged_rank) = largest_difference(records_);
  }

  void not_mergeable() {
    result_.kind = ShardKind::not_mergeable;
    result_.complete = false;
    result_.merged.shape = records_.front().shape;
    result_.merged.elements = element_count(records_.front().shape);
    result_.merged.requires_grad = records_.front().requires_grad;
  }

  void partial() {
    result_.kind = ShardKind::partial;
    if (is_operand() && !place_.reduction->outputs.empty()) {
      const Reduction& reduction = *place_.reduction;
      const bool slices = reduction.scatters && reduction.outputs.size() == records_.size();
      if (slices || !reduction.scatters) {
        result_.from_reduction = true;
        result_.merged = slices ? combine_split(reduction.outputs, 0) : with_every_nan(reduction.outputs);
        result_.merged.same_as = {};
        if (slices && same_shapes(reduction.outputs) && reduction.outputs.front().shape && !reduction.outputs.front().shape->empty()) {
          result_.pieces = block_pieces(sizes_along(reduction.outputs, 0), 1);
        }
        result_.merged.shape = records_.front().shape;
        result_.merged.elements = element_count(records_.front().shape);
        result_.merged.requires_grad = records_.front().requires_grad;
        return;
      }
    }
    not_mergeable();
    result_.kind = ShardKind::partial;
    double sum = 0;
    for (const ShardRecord& record : records_) {
      if (!record.stats[stat_mean]) {
        return;
      }
      sum += *record.stats[stat_mean];
    }
    result_.merged.stats[stat_mean] = sum;
    if (std::any_of(records_.begin(), records_.end(), has_nan)) {
      // A sum with NaN has NaN.
      result_.merged.stats.fill(std::numeric_limits<double>::quiet_NaN());
    }
  }

  void split(std::optional<std::uint32_t> dimension, const Expectation& expected) {
    const std::size_t ranks = records_.size();
    if (expected.distinct == by_values) {
      const std::size_t repeats = tells_nothing() ? 1 : equal_neighbours();
      if (repeats > 1) {
        split_groups(dimension, repeats);
        return;
      }
    } else if (expected.distinct != 0 && expected.distinct < ranks && ranks % expected.distinct == 0) {
      split_groups(dimension, ranks / expected.distinct);
      return;
    }
    result_.kind = ShardKind::split;
    result_.dimension = dimension;
    result_.merged = combine_split(records_, dimension);
    if (dimension) {
      const std::vector<std::uint64_t> sizes = sizes_along(records_, *dimension);
      result_.may_be_padded = is_vocabulary(*dimension);
      result_.pieces = place_.axis == ParallelAxis::context ? zigzag_pieces(sizes) : block_pieces(sizes, expected.blocks);
      if (place_.golden_shape && *dimension < place_.golden_shape->size()) {
        const std::uint64_t whole = (*result_.merged.shape)[*dimension];
        const std::uint64_t wanted = (*place_.golden_shape)[*dimension];
        result_.padding = result_.may_be_padded && wanted < whole && whole - wanted < sizes.back() ? whole - wanted : 0;
      }
    }
  }

  /// Whether this is the dimension of the vocabulary: rows of weights, last one of logits.
  [[nodiscard]] bool is_vocabulary(std::uint32_t dimension) const {
    const std::size_t dimensions = records_.front().shape->size();
    return place_.axis == ParallelAxis::tensor && contains_any(place_.module, {"VocabParallelEmbedding", "output_layer"}) &&
           (dimension + 1 == dimensions || (dimension == 0 && dimensions == 2));
  }

  /// How many neighbours at most are equal, in groups that all have this size; 1 if there are no such groups.
  [[nodiscard]] std::size_t equal_neighbours() const {
    for (std::size_t repeats = records_.size() / 2; repeats > 1; --repeats) {
      bool all = records_.size() % repeats == 0;
      for (std::size_t rank = 0; all && rank < records_.size(); ++rank) {
        all = same_record(records_[rank - rank % repeats], records_[rank]);
      }
      if (all) {
        return repeats;
      }
    }
    return 1;
  }

  /// Keys and values with fewer groups than ranks: `repeats` neighbours hold the same.
  void split_groups(std::optional<std::uint32_t> dimension, std::size_t repeats) {
    std::vector<ShardRecord> distinct;
    for (std::size_t rank = 0; rank < records_.size(); rank += repeats) {
      for (std::size_t k = 1; k < repeats; ++k) {
        if (!same_record(records_[rank], records_[rank + k])) {
          diverged();
          return;
        }
      }
      distinct.push_back(records_[rank]);
    }
    if (distinct.size() == 1) {
      replicated();
      return;
    }
    result_.kind = ShardKind::split;
    result_.dimension = dimension;
    result_.merged = combine_split(distinct, dimension);
    for (auto& rank : result_.merged.same_as) {
      if (rank) {
        rank = static_cast<std::uint32_t>(*rank * repeats);
      }
    }
    if (dimension) {
      result_.pieces = block_pieces(sizes_along(distinct, *dimension), 1);
      for (Piece& piece : result_.pieces) {
        piece.rank = static_cast<std::uint32_t>(piece.rank * repeats);
      }
    }
  }

  const EntryPlace& place_;
  const std::vector<ShardRecord>& records_;
  bool equal_ = false;
  Classification result_;
};

}  // namespace

std::string_view shard_kind_text(ShardKind kind) {
  switch (kind) {
    case ShardKind::replicated:
      return "replicated";
    case ShardKind::partial:
      return "partial sum";
    case ShardKind::split:
      return "split";
    case ShardKind::diverged:
      return "diverged replica";
    case ShardKind::not_mergeable:
      return "not mergeable";
  }
  return {};
}

bool same_record(const ShardRecord& left, const ShardRecord& right) {
  for (std::size_t s = 0; s < left.stats.size(); ++s) {
    if (!same_number(left.stats[s], right.stats[s])) {
      return false;
    }
  }
  return left.shape == right.shape && left.dtype == right.dtype && left.md5 == right.md5;
}

std::string_view module_class(std::string_view name) {
  if (component(name, 0) == "parameters_grad") {
    return component(name, 1);
  }
  if (component(name, 1) == "parameters_grad") {
    return component(name, 2);
  }
  return is_number(component(name, 0)) ? component(name, 2) : std::string_view();
}

bool scatters_sequence(std::string_view module, std::string_view node) {
  return component(module, 1) == "forward" && contains(module_class(module), "RowParallel") && contains(node, "reduce_scatter");
}

bool gathers_sequence(std::string_view module, const std::optional<Shape>& input, const std::optional<Shape>& output, std::size_t ranks) {
  if (component(module, 1) != "forward" || !contains(module_class(module), "ColumnParallel") || !input || !output || input->size() != 3 ||
      output->size() != 3) {
    return false;
  }
  const auto& in = *input;
  const auto& out = *output;
  return ranks > 1 && in[0] != 0 && out[0] % ranks == 0 && out[0] / ranks == in[0] && in[1] == out[1];
}

bool names_gated_activation(std::string_view node) {
  return contains_any(node, {"swiglu", ".silu.", "geglu", "reglu", ".glu."});
}

std::vector<Piece> block_pieces(const std::vector<std::uint64_t>& sizes, std::uint64_t blocks) {
  if (blocks == 0 || std::any_of(sizes.begin(), sizes.end(), [&](std::uint64_t size) { return size % blocks != 0 || size == 0; })) {
    blocks = 1;
  }
  std::vector<Piece> pieces;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    for (std::uint32_t rank = 0; rank < sizes.size(); ++rank) {
      const std::uint64_t length = sizes[rank] / blocks;
      pieces.push_back({rank, block * length, length});
    }
  }
  return pieces;
}

std::vector<Piece> zigzag_pieces(const std::vector<std::uint64_t>& sizes) {
  if (std::any_of(sizes.begin(), sizes.end(), [&](std::uint64_t size) { return size % 2 != 0 || size != sizes.front(); })) {
    return block_pieces(sizes, 1);
  }
  const std::uint64_t length = sizes.empty() ? 0 : sizes.front() / 2;
  std::vector<Piece> pieces;
  for (std::uint32_t rank = 0; rank < sizes.size(); ++rank) {
    pieces.push_back({rank, 0, length});
  }
  for (std::size_t rank = sizes.size(); rank-- > 0;) {
    pieces.push_back({static_cast<std::uint32_t>(rank), length, length});
  }
  return pieces;
}

MergedRecord combine_split(const std::vector<ShardRecord>& records, std::optional<std::uint32_t> dimension) {
  MergedRecord merged;
  if (records.empty()) {
    return merged;
  }
  combine_extreme(records, stat_max, merged);
  combine_extreme(records, stat_min, merged);
  merged.stats[stat_mean] = combined_mean(records);
  merged.stats[stat_norm] = combined_norm(records);
  merged.requires_grad = records.front().requires_grad;
  if (dimension && can_concatenate(records, *dimension)) {
    if (const auto size = summed_size(records, *dimension)) {
      merged.shape = records.front().shape;
      (*merged.shape)[*dimension] = *size;
    }
  }
  std::uint64_t total = 0;
  for (const ShardRecord& record : records) {
    const auto count = element_count(record.shape);
    if (!count || __builtin_add_overflow(total, *count, &total)) {
      return merged;
    }
  }
  merged.elements = total;
  return merged;
}

Classification classify(const EntryPlace& place, const std::vector<ShardRecord>& records) {
  if (records.empty()) {
    throw Error(ErrorCategory::internal, "classify: no records");
  }
  return Decision(place, records).run();
}

}  // namespace msvis
