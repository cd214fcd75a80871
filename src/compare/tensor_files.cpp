#include "compare/tensor_files.h"

#include <algorithm>
#include <array>
#include <utility>

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
TensorOutcome described(const PairFacts& facts, TensorMetrics metrics) {
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
  outcome.metrics = std::move(metrics);
  return outcome;
}

}  // namespace

/// One file: read piece by piece if its elements stand in order, else loaded as a whole.
struct OpenTensorPair::Side {
  TensorFile file;
  std::optional<Tensor> loaded;
  DType dtype;
  std::uint64_t elements;

  Side(const std::filesystem::path& path, const ReadHints& hints)
      : file(TensorFile::open(path, hints)), dtype(file.dtype()), elements(file.element_count()) {}

  TensorSpan span(std::uint64_t first, std::uint64_t count) {
    if (!loaded && !file.can_stream()) {
      loaded = std::move(file).load();
    }
    if (!loaded) {
      return {file.read(first, count).data(), dtype, count, false};
    }
    const TensorSpan all{loaded->contiguous().data(), dtype, elements, false};
    return all.slice(first, count);
  }
};

TensorOutcome unsupported_tensor(std::string reason, std::string kind) {
  TensorOutcome outcome;
  outcome.metrics = TensorMetrics::of(MetricOutcome::unsupported);
  outcome.reason = std::move(reason);
  outcome.skipped = std::move(kind);
  return outcome;
}

OpenTensorPair::OpenTensorPair(const TensorPair& pair, const TensorFileOptions& options) {
  options_.compat = options.compat;
  const auto open = [&](const std::filesystem::path& path, std::string_view dtype, ReaderRule rule, std::string_view side) {
    ReadHints hints;
    hints.dtype = dtype;
    hints.rule = rule;
    hints.compat = options.compat;
    hints.drop_cache = options.drop_cache;
    try {
      return std::make_unique<Side>(path, hints);
    } catch (const TensorError& error) {
      decide_unreadable(side, error);
      return std::unique_ptr<Side>();
    }
  };
  target_ = open(pair.target, pair.target_dtype, options.target_rule, "target");
  if (!decided_) {
    golden_ = open(pair.golden, pair.golden_dtype, options.golden_rule, "golden");
  }
  if (!decided_) {
    decide_from_shapes();
  }
}

OpenTensorPair::~OpenTensorPair() = default;

void OpenTensorPair::decide_unreadable(std::string_view side, const TensorError& error) {
  const std::string kind(tensor_fault_text(error.fault()));
  decided_ = unsupported_tensor(std::string(side) + " " + error.file().filename().string() + ": " + error.message(), kind);
}

void OpenTensorPair::decide_from_shapes() {
  facts_ = {target_->file.shape(), target_->elements, target_->dtype, golden_->dtype};
  const std::vector<std::uint64_t> ours = squeezed(facts_.shape);
  const std::vector<std::uint64_t> theirs = squeezed(golden_->file.shape());
  if (facts_.elements == 0) {
    decided_ = unsupported_tensor("the target has no elements", "empty tensor");
    decided_->shape = facts_.shape;
  } else if (ours != theirs) {
    decided_ = unsupported_tensor("shape " + shape_text(facts_.shape) + " against " + shape_text(golden_->file.shape()), "shapes differ");
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
  if (const auto spans = read(0, 1)) {
    decided_ = described(facts_, compare_tensors(spans->first, spans->second, scalar));
  }
}

std::optional<std::pair<TensorSpan, TensorSpan>> OpenTensorPair::read(std::uint64_t first, std::uint64_t count) {
  std::string_view side = "target";
  try {
    const TensorSpan ours = target_->span(first, count);
    side = "golden";
    return std::pair(ours, golden_->span(first, count));
  } catch (const TensorError& error) {
    decide_unreadable(side, error);
    return std::nullopt;
  }
}

std::size_t OpenTensorPair::blocks() const {
  return metric_blocks(facts_.elements);
}

std::optional<PartialMetrics> OpenTensorPair::accumulate(std::size_t first_block, std::size_t block_count) {
  PartialMetrics all;
  const std::size_t end = first_block + std::min(block_count, blocks() - std::min(first_block, blocks()));
  for (std::size_t block = first_block; block < end; block += blocks_per_step) {
    const std::uint64_t first = std::uint64_t{block} * metric_block_elements;
    const std::uint64_t count =
        std::min<std::uint64_t>(facts_.elements - first, std::uint64_t{std::min(blocks_per_step, end - block)} * metric_block_elements);
    const auto spans = read(first, count);
    if (!spans) {
      return std::nullopt;
    }
    all.combine(accumulate_metrics(spans->first, spans->second, options_, block));
  }
  return all;
}

TensorOutcome finish_pair(const PairFacts& facts, const PartialMetrics& partial, Compat compat) {
  MetricOptions options;
  options.compat = compat;
  return described(facts, finish_metrics(partial, facts.elements, options));
}

TensorOutcome compare_tensor_files(const TensorPair& pair, const TensorFileOptions& options) {
  OpenTensorPair files(pair, options);
  if (!files.decided()) {
    if (const auto partial = files.accumulate(0, files.blocks())) {
      return finish_pair(files.facts(), *partial, options.compat);
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

PairFacts get_pair_facts(ByteReader& in) {
  PairFacts facts;
  facts.shape = in.get_all([](ByteReader& reader) { return reader.get<std::uint64_t>(); });
  facts.elements = in.get<std::uint64_t>();
  facts.target = in.get<DType>();
  facts.golden = in.get<DType>();
  return facts;
}

}  // namespace msvis
