#include "compare/tensor_files.h"

#include <algorithm>
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
  shape_ = target_->file.shape();
  elements_ = target_->elements;
  const std::vector<std::uint64_t> ours = squeezed(shape_);
  const std::vector<std::uint64_t> theirs = squeezed(golden_->file.shape());
  if (elements_ == 0) {
    decided_ = unsupported_tensor("the target has no elements", "empty tensor");
    decided_->shape = shape_;
  } else if (ours != theirs) {
    decided_ = unsupported_tensor("shape " + shape_text(shape_) + " against " + shape_text(golden_->file.shape()), "shapes differ");
    decided_->metrics = TensorMetrics::of(MetricOutcome::shape_unmatched);
    decided_->shape = shape_;
    decided_->elements = elements_;
  } else if (ours.empty()) {
    MetricOptions scalar = options_;
    scalar.zero_d = true;
    try {
      decided_ = described(compare_tensors(target_->span(0, 1), golden_->span(0, 1), scalar));
    } catch (const TensorError& error) {
      decide_unreadable("target or golden", error);
    }
  }
}

std::size_t OpenTensorPair::blocks() const {
  return metric_blocks(elements_);
}

std::optional<PartialMetrics> OpenTensorPair::accumulate(std::size_t first_block, std::size_t block_count) {
  PartialMetrics all;
  std::string_view side = "target";
  try {
    const std::size_t end = std::min(first_block + block_count, blocks());
    for (std::size_t block = first_block; block < end; block += blocks_per_step) {
      const std::uint64_t first = std::uint64_t{block} * metric_block_elements;
      const std::uint64_t count =
          std::min<std::uint64_t>(elements_ - first, std::uint64_t{std::min(blocks_per_step, end - block)} * metric_block_elements);
      side = "target";
      const TensorSpan ours = target_->span(first, count);
      side = "golden";
      const TensorSpan theirs = golden_->span(first, count);
      all.combine(accumulate_metrics(ours, theirs, options_, block));
    }
  } catch (const TensorError& error) {
    decide_unreadable(side, error);
    return std::nullopt;
  }
  return all;
}

TensorOutcome OpenTensorPair::finish(const PartialMetrics& partial) const {
  return described(finish_metrics(partial, elements_, options_));
}

TensorOutcome OpenTensorPair::described(TensorMetrics metrics) const {
  TensorOutcome outcome;
  outcome.shape = shape_;
  outcome.elements = elements_;
  outcome.bytes = elements_ * (dtype_size(target_->dtype) + dtype_size(golden_->dtype));
  if (metrics.outcome == MetricOutcome::not_available) {
    outcome.reason = "NaN or infinity on one side only at " + std::to_string(metrics.non_finite_mismatches) + " of " +
                     std::to_string(elements_) + " elements";
  } else if (target_->dtype != golden_->dtype) {
    outcome.reason = "the files hold " + std::string(dtype_name(target_->dtype)) + " and " + std::string(dtype_name(golden_->dtype)) +
                     "; the metrics are those of the converted values";
  } else if (metrics.cosine.state == MetricState::not_a_number) {
    outcome.reason = "no cosine: one side is all zeros, or its norm overflows";
  }
  outcome.metrics = std::move(metrics);
  return outcome;
}

TensorOutcome compare_tensor_files(const TensorPair& pair, const TensorFileOptions& options) {
  OpenTensorPair files(pair, options);
  if (!files.decided()) {
    if (const auto partial = files.accumulate(0, files.blocks())) {
      return files.finish(*partial);
    }
  }
  return *files.decided();
}

}  // namespace msvis
