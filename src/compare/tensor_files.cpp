#include "compare/tensor_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "dump/python_text.h"
#include "tensor/convert.h"

namespace msvis {
namespace {

/// Pieces of this size are read and compared while they are in the processor's cache.
constexpr std::size_t blocks_per_step = 4;

std::vector<std::uint64_t> squeezed(const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> result;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(result), [](std::uint64_t size) { return size != 1; });
  return result;
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const std::uint64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

/// The outcome that goes with some metrics of comparable files.
TensorOutcome described(const PairFacts& facts, const TensorMetrics& metrics) {
  TensorOutcome outcome;
  outcome.shape = facts.shape;
  outcome.elements = facts.elements;
  outcome.bytes = facts.elements * (dtype_size(facts.target) + dtype_size(facts.golden));
  if (metrics.outcome == MetricOutcome::not_available) {
    outcome.reason = "NaN or infinity on one side only at " + std::to_string(metrics.non_finite_mismatches) + " of " +
                     std::to_string(facts.elements) + " elements";
  } else if (facts.target != facts.golden) {
    outcome.reason = "the files hold " + std::string(dtype_name(facts.target)) + " and " + std::string(dtype_name(facts.golden)) +
                     "; the metrics are those of the converted values";
  } else if (metrics.cosine.state == MetricState::not_a_number) {
    outcome.reason = "no cosine: one side is all zeros, or its norm overflows";
  }
  outcome.metrics = metrics;
  return outcome;
}

/// Adds what is known of replicas to the reason: the worst one of those that differ, and how many more do.
void describe_replicas(TensorOutcome& outcome, std::string_view side, const std::vector<ReplicaDifference>& replicas) {
  const ReplicaDifference* worst = nullptr;
  std::size_t differing = 0;
  for (const ReplicaDifference& replica : replicas) {
    if (!replica.fault.empty()) {
      outcome.reason += (outcome.reason.empty() ? "" : "; ") + std::string(side) + " " + replica.name +
                        " was not compared with the other ranks: " + replica.fault;
    } else if (replica.elements > 0) {
      ++differing;
      worst = worst == nullptr || replica.max_abs > worst->max_abs ? &replica : worst;
    }
  }
  if (worst != nullptr) {
    std::string largest;
    append_float(largest, worst->max_abs);
    outcome.reason += (outcome.reason.empty() ? "" : "; ") + std::string(side) + " " + worst->name +
                      " should hold the same as the first rank but differs in " + std::to_string(worst->elements) + " of " +
                      std::to_string(outcome.elements) + " elements, by up to " + largest +
                      (differing > 1 ? "; so do " + std::to_string(differing - 1) + " other ranks" : "");
  }
}

/// Whether `left` is a worse result than `right`.
bool is_worse(const TensorMetrics& left, const TensorMetrics& right) {
  const auto badness = [](const TensorMetrics& metrics) {
    // A scalar has no distance, only the error.
    const MetricCell& cell = metrics.outcome == MetricOutcome::compared ? metrics.euclidean_distance : metrics.max_abs_err;
    return cell.state == MetricState::number && !std::isnan(cell.value) ? cell.value : std::numeric_limits<double>::infinity();
  };
  return badness(left) > badness(right);
}

/// Notes how `other` differs from `span`, which begins at element `first`.
void note_difference(const TensorSpan& span, const TensorSpan& other, ReplicaDifference& found) {
  const std::size_t size = dtype_size(span.dtype);
  if (std::memcmp(span.data, other.data, span.count * size) == 0) {
    return;
  }
  const auto* left = static_cast<const std::byte*>(span.data);
  const auto* right = static_cast<const std::byte*>(other.data);
  for (std::size_t k = 0; k < span.count; ++k, left += size, right += size) {
    if (std::memcmp(left, right, size) == 0) {
      continue;
    }
    ++found.elements;
    double of_left = 0;
    double of_right = 0;
    cast_elements(left, span.dtype, reinterpret_cast<std::byte*>(&of_left), DType::float64, 1);
    cast_elements(right, span.dtype, reinterpret_cast<std::byte*>(&of_right), DType::float64, 1);
    double difference = of_left == of_right ? 0 : std::abs(of_left - of_right);
    if (std::isnan(difference)) {
      difference = std::isnan(of_left) && std::isnan(of_right) ? 0 : std::numeric_limits<double>::infinity();
    }
    found.max_abs = std::max(found.max_abs, difference);
  }
}

/// Name of the rank that a part comes from.
std::string rank_name(const TensorParts& parts) {
  return parts.parts.empty() ? parts.directory.filename().string() : rank_name(parts.parts.front());
}

}  // namespace

void PairFinding::combine(const PairFinding& other) {
  partial.combine(other.partial);
  of_replicas.resize(std::max(of_replicas.size(), other.of_replicas.size()));
  for (std::size_t k = 0; k < other.of_replicas.size(); ++k) {
    of_replicas[k].combine(other.of_replicas[k]);
  }
  const auto join = [](std::vector<ReplicaDifference>& into, const std::vector<ReplicaDifference>& from) {
    into.resize(std::max(into.size(), from.size()));
    for (std::size_t k = 0; k < from.size(); ++k) {
      into[k].name = from[k].name;
      into[k].elements += from[k].elements;
      into[k].max_abs = std::max(into[k].max_abs, from[k].max_abs);
      if (into[k].fault.empty()) {
        into[k].fault = from[k].fault;
      }
    }
  };
  join(target_replicas, other.target_replicas);
  join(golden_replicas, other.golden_replicas);
}

TensorSpan OpenTensorPair::Side::read(std::uint64_t first, std::uint64_t count) {
  return {source->read(first, count).data(), source->dtype(), count, false};
}

std::optional<TensorSpan> OpenTensorPair::Side::read_replica(std::size_t k, std::uint64_t first, std::uint64_t count) {
  if (replicas[k]) {
    try {
      return TensorSpan{replicas[k]->read(first, count).data(), replicas[k]->dtype(), count, false};
    } catch (const TensorError& error) {
      found[k].fault = error.message();
      replicas[k].reset();
    }
  }
  return std::nullopt;
}

void OpenTensorPair::Side::vote(const TensorSpan& span, std::uint64_t first) {
  for (std::size_t k = 0; k < replicas.size(); ++k) {
    if (const auto other = read_replica(k, first, span.count)) {
      note_difference(span, *other, found[k]);
    }
  }
}

TensorOutcome unsupported_tensor(std::string reason, std::string kind) {
  TensorOutcome outcome;
  outcome.metrics = TensorMetrics::of(MetricOutcome::unsupported);
  outcome.reason = std::move(reason);
  outcome.skipped = std::move(kind);
  return outcome;
}

OpenTensorPair::OpenTensorPair(const TensorPair& pair, const TensorFileOptions& options) {
  options_.compat = options.compat;
  merged_ = pair.target_parts != nullptr || pair.golden_parts != nullptr;
  const auto hints_for = [&](std::string_view dtype, ReaderRule rule) {
    ReadHints hints;
    hints.dtype = dtype;
    hints.rule = rule;
    hints.compat = options.compat;
    hints.drop_cache = options.drop_cache;
    return hints;
  };
  open_side(target_, pair.target, pair.target_store.get(), pair.target_parts.get(), hints_for(pair.target_dtype, options.target_rule),
            *options.stores, "target");
  if (!decided_) {
    open_side(golden_, pair.golden, pair.golden_store.get(), pair.golden_parts.get(), hints_for(pair.golden_dtype, options.golden_rule),
              *options.stores, "golden");
  }
  if (!decided_) {
    diverged_ = pair.target_parts && pair.target_parts->diverged;
    decide_from_shapes();
  }
}

void OpenTensorPair::open_side(Side& side, const std::filesystem::path& file, const TensorStore* store, const TensorParts* parts,
                               const ReadHints& hints, TensorStores& stores, std::string_view name) {
  if (parts == nullptr) {
    try {
      side.source = TensorSource::open(store != nullptr ? store->open(file, hints) : TensorFile::open(file, hints));
    } catch (const TensorError& error) {
      decide_unreadable(name, error);
    }
    return;
  }
  std::optional<TensorError> first_fault;
  const auto open_part = [&](const TensorParts& part) -> std::unique_ptr<TensorSource> {
    try {
      return TensorSource::open(part, hints, stores);
    } catch (const TensorError& error) {
      side.found.push_back({rank_name(part), 0, 0, error.message()});
      side.replicas.emplace_back();
      if (!first_fault) {
        first_fault = error;
      }
      return nullptr;
    }
  };
  side.source = open_part(*parts);
  for (const TensorParts& replica : parts->replicas) {
    auto opened = open_part(replica);
    if (!opened) {
      continue;
    }
    if (!side.source) {
      side.source = std::move(opened);  // the first one that can be read stands for all
      continue;
    }
    side.found.push_back({rank_name(replica), 0, 0, {}});
    side.replicas.emplace_back();
    if (opened->dtype() != side.source->dtype() || opened->shape() != side.source->shape()) {
      side.found.back().fault = "it holds " + std::string(dtype_name(opened->dtype())) + " of shape " + shape_text(opened->shape());
    } else {
      side.replicas.back() = std::move(opened);
    }
  }
  if (!side.source) {
    decide_unreadable(name, *first_fault);
  }
}

OpenTensorPair::~OpenTensorPair() = default;

void OpenTensorPair::decide_unreadable(std::string_view side, const TensorError& error) {
  const std::string kind(tensor_fault_text(error.fault()));
  std::string file = error.file().filename().string();
  if (merged_ && error.file().has_parent_path()) {
    // Either in dump_tensor_data or, packed, beside it.
    const std::filesystem::path directory = error.file().parent_path();
    const bool inner = directory.filename() == "dump_tensor_data";
    file = (inner ? directory.parent_path() : directory).filename().string() + " " + file;
  }
  decided_ = unsupported_tensor(std::string(side) + (file.empty() ? "" : " " + file) + ": " + error.message(), kind);
}

void OpenTensorPair::decide_from_shapes() {
  facts_ = {target_.source->shape(), target_.source->element_count(), target_.source->dtype(), golden_.source->dtype()};
  const std::vector<std::uint64_t> ours = squeezed(facts_.shape);
  const std::vector<std::uint64_t> theirs = squeezed(golden_.source->shape());
  if (facts_.elements == 0) {
    decided_ = unsupported_tensor("the target has no elements", "empty tensor");
    decided_->shape = facts_.shape;
  } else if (ours != theirs) {
    decided_ = unsupported_tensor("shape " + shape_text(facts_.shape) + " against " + shape_text(golden_.source->shape()), "shapes differ");
    decided_->metrics = TensorMetrics::of(MetricOutcome::shape_unmatched);
    decided_->shape = facts_.shape;
    decided_->elements = facts_.elements;
  } else if (ours.empty()) {
    compare_scalars();
  }
}

void OpenTensorPair::compare_scalars() {
  MetricOptions scalar = options_;
  scalar.zero_d = true;
  const auto spans = read(0, 1);
  if (!spans) {
    return;
  }
  TensorMetrics metrics = compare_tensors(spans->first, spans->second, scalar);
  for (std::size_t k = 0; diverged_ && k < target_.replicas.size(); ++k) {
    if (const auto other = target_.read_replica(k, 0, 1)) {
      const TensorMetrics of_other = compare_tensors(*other, spans->second, scalar);
      metrics = is_worse(of_other, metrics) ? of_other : metrics;
    }
  }
  decided_ = described(facts_, metrics);
  describe_replicas(*decided_, "target", target_.found);
  describe_replicas(*decided_, "golden", golden_.found);
}

std::optional<std::pair<TensorSpan, TensorSpan>> OpenTensorPair::read(std::uint64_t first, std::uint64_t count) {
  std::string_view side = "target";
  try {
    const TensorSpan ours = target_.read(first, count);
    target_.vote(ours, first);
    side = "golden";
    const TensorSpan theirs = golden_.read(first, count);
    golden_.vote(theirs, first);
    return std::pair(ours, theirs);
  } catch (const TensorError& error) {
    decide_unreadable(side, error);
    return std::nullopt;
  }
}

std::size_t OpenTensorPair::blocks() const {
  return metric_blocks(facts_.elements);
}

std::optional<PairFinding> OpenTensorPair::accumulate(std::size_t first_block, std::size_t block_count) {
  PairFinding all;
  all.of_replicas.resize(diverged_ ? target_.replicas.size() : 0);
  const std::size_t end = first_block + std::min(block_count, blocks() - std::min(first_block, blocks()));
  for (std::size_t block = first_block; block < end; block += blocks_per_step) {
    const std::uint64_t first = std::uint64_t{block} * metric_block_elements;
    const std::uint64_t count =
        std::min<std::uint64_t>(facts_.elements - first, std::uint64_t{std::min(blocks_per_step, end - block)} * metric_block_elements);
    const auto spans = read(first, count);
    if (!spans) {
      return std::nullopt;
    }
    all.partial.combine(accumulate_metrics(spans->first, spans->second, options_, block));
    for (std::size_t k = 0; k < all.of_replicas.size(); ++k) {
      if (const auto other = target_.read_replica(k, first, count)) {
        all.of_replicas[k].combine(accumulate_metrics(*other, spans->second, options_, block));
      }
    }
  }
  all.target_replicas = target_.found;
  all.golden_replicas = golden_.found;
  return all;
}

TensorOutcome finish_pair(const PairFacts& facts, const PairFinding& finding, Compat compat) {
  MetricOptions options;
  options.compat = compat;
  TensorMetrics metrics = finish_metrics(finding.partial, facts.elements, options);
  for (std::size_t k = 0; k < finding.of_replicas.size(); ++k) {
    if (finding.target_replicas[k].fault.empty()) {
      const TensorMetrics of_replica = finish_metrics(finding.of_replicas[k], facts.elements, options);
      if (is_worse(of_replica, metrics)) {
        metrics = of_replica;
      }
    }
  }
  TensorOutcome outcome = described(facts, metrics);
  describe_replicas(outcome, "target", finding.target_replicas);
  describe_replicas(outcome, "golden", finding.golden_replicas);
  return outcome;
}

TensorOutcome compare_tensor_files(const TensorPair& pair, const TensorFileOptions& options) {
  OpenTensorPair files(pair, options);
  if (!files.decided()) {
    if (const auto finding = files.accumulate(0, files.blocks())) {
      return finish_pair(files.facts(), *finding, options.compat);
    }
  }
  return *files.decided();
}

namespace {

constexpr std::array metric_cells{
    &TensorMetrics::cosine,           &TensorMetrics::euclidean_distance,       &TensorMetrics::max_abs_err,
    &TensorMetrics::max_relative_err, &TensorMetrics::one_thousandth_err_ratio, &TensorMetrics::five_thousandths_err_ratio};

void put_counts(ByteWriter& out, const ValueCounts& counts) {
  out.put(counts.nan);
  out.put(counts.positive_infinity);
  out.put(counts.negative_infinity);
  out.put(counts.zero);
}

ValueCounts get_value_counts(ByteReader& in) {
  ValueCounts counts;
  counts.nan = in.get<std::uint64_t>();
  counts.positive_infinity = in.get<std::uint64_t>();
  counts.negative_infinity = in.get<std::uint64_t>();
  counts.zero = in.get<std::uint64_t>();
  return counts;
}

}  // namespace

void put(ByteWriter& out, const TensorMetrics& metrics) {
  out.put(metrics.outcome);
  for (const auto cell : metric_cells) {
    out.put((metrics.*cell).state);
    out.put((metrics.*cell).value);
  }
  out.put(metrics.bit_identical);
  put_counts(out, metrics.target_values);
  put_counts(out, metrics.golden_values);
  out.put(metrics.non_finite_mismatches);
  out.put(metrics.worst.has_value());
  const WorstElement worst = metrics.worst.value_or(WorstElement{});
  out.put(worst.index);
  out.put(worst.imaginary);
  out.put(worst.target);
  out.put(worst.golden);
  out.put(metrics.target_norm);
  out.put(metrics.golden_norm);
}

void put(ByteWriter& out, const TensorOutcome& outcome) {
  put(out, outcome.metrics);
  out.put(outcome.reason);
  out.put(outcome.skipped);
  out.put_all(outcome.shape);
  out.put(outcome.elements);
  out.put(outcome.bytes);
}

TensorMetrics get_tensor_metrics(ByteReader& in) {
  TensorMetrics metrics;
  metrics.outcome = in.get<MetricOutcome>();
  for (const auto cell : metric_cells) {
    (metrics.*cell).state = in.get<MetricState>();
    (metrics.*cell).value = in.get<double>();
  }
  metrics.bit_identical = in.get<bool>();
  metrics.target_values = get_value_counts(in);
  metrics.golden_values = get_value_counts(in);
  metrics.non_finite_mismatches = in.get<std::uint64_t>();
  const bool has_worst = in.get<bool>();
  WorstElement worst;
  worst.index = in.get<std::uint64_t>();
  worst.imaginary = in.get<bool>();
  worst.target = in.get<double>();
  worst.golden = in.get<double>();
  if (has_worst) {
    metrics.worst = worst;
  }
  metrics.target_norm = in.get<double>();
  metrics.golden_norm = in.get<double>();
  return metrics;
}

TensorOutcome get_tensor_outcome(ByteReader& in) {
  TensorOutcome outcome;
  outcome.metrics = get_tensor_metrics(in);
  outcome.reason = in.get_string();
  outcome.skipped = in.get_string();
  outcome.shape = in.get_all([](ByteReader& reader) { return reader.get<std::uint64_t>(); });
  outcome.elements = in.get<std::uint64_t>();
  outcome.bytes = in.get<std::uint64_t>();
  return outcome;
}

void put(ByteWriter& out, const PairFacts& facts) {
  out.put_all(facts.shape);
  out.put(facts.elements);
  out.put(facts.target);
  out.put(facts.golden);
}

void put(ByteWriter& out, const PairFinding& finding) {
  const auto put_replica = [](ByteWriter& to, const ReplicaDifference& replica) {
    to.put(replica.name);
    to.put(replica.elements);
    to.put(replica.max_abs);
    to.put(replica.fault);
  };
  out.put(finding.partial.to_bytes());
  out.put_all(finding.of_replicas, [](ByteWriter& to, const PartialMetrics& partial) { to.put(partial.to_bytes()); });
  out.put_all(finding.target_replicas, put_replica);
  out.put_all(finding.golden_replicas, put_replica);
}

PairFinding get_pair_finding(ByteReader& in) {
  const auto get_replica = [](ByteReader& from) {
    ReplicaDifference replica;
    replica.name = from.get_string();
    replica.elements = from.get<std::uint64_t>();
    replica.max_abs = from.get<double>();
    replica.fault = from.get_string();
    return replica;
  };
  PairFinding finding;
  finding.partial = PartialMetrics::from_bytes(in.get_view());
  finding.of_replicas = in.get_all([](ByteReader& from) { return PartialMetrics::from_bytes(from.get_view()); });
  finding.target_replicas = in.get_all(get_replica);
  finding.golden_replicas = in.get_all(get_replica);
  return finding;
}

PairFacts get_pair_facts(ByteReader& in) {
  PairFacts facts;
  facts.shape = in.get_all([](ByteReader& reader) { return reader.get<std::uint64_t>(); });
  facts.elements = in.get<std::uint64_t>();
  facts.target = in.get<DType>();
  facts.golden = in.get<DType>();
  return facts;
}

}  // namespace msvis
