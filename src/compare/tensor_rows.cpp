#include "compare/tensor_rows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/parallel.h"
#include "dump/python_text.h"

namespace msvis {
namespace {

constexpr std::string_view no_file = "-1";
/// A larger pair is walked by several threads.
constexpr std::size_t blocks_per_task = 64;

/// Size of a tensor as dump.json states it; zeros if that tells nothing sensible.
struct StatedSize {
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
};

StatedSize stated_size(const Item& item) {
  constexpr double absurd = 1e15;
  const auto dtype = item.dtype.is_string() ? dtype_from_name(item.dtype.text()) : std::nullopt;
  const std::uint64_t size = dtype ? dtype_size(*dtype) : 4;
  double elements = 1;
  for (const JsonValue dimension : item.shape.elements()) {
    elements *= dimension.is(JsonKind::integer) ? dimension.number() : -1;
  }
  if (!(elements >= 0 && elements * static_cast<double>(size) < absurd)) {
    return {};
  }
  const auto count = static_cast<std::uint64_t>(elements);
  return {count, count * size};
}

std::string text_of(JsonValue value) {
  std::string text;
  append_str(text, value);
  return text;
}

/// The reader that the reference would take for both sides (comparison rules, 1.5).
void set_reference_readers(TensorFileOptions& options, const Dump& target, const Dump& golden) {
  const bool pytorch = target.framework.empty() || target.framework == "pytorch";
  options.target_rule = pytorch ? ReaderRule::pt_only : ReaderRule::npy_only;
  options.golden_rule = pytorch || cross_framework(target, golden) ? ReaderRule::pt_only : ReaderRule::npy_only;
}

Cell cell_of(const MetricCell& metric) {
  return metric.state == MetricState::number ? Cell::of_number(metric.value) : Cell::of_text(metric_text(metric.state));
}

/// One line of -tensor_log.
std::string log_line(const std::string& name, const TensorOutcome& outcome) {
  std::string line = "tensor " + name + ":";
  const TensorMetrics& metrics = outcome.metrics;
  const std::vector<std::string_view> keys = metric_keys(CompareMode::tensor);
  const std::array cells{&metrics.cosine,           &metrics.euclidean_distance,       &metrics.max_abs_err,
                         &metrics.max_relative_err, &metrics.one_thousandth_err_ratio, &metrics.five_thousandths_err_ratio};
  if (!outcome.skipped.empty()) {
    return line + " no metrics: " + outcome.reason;
  }
  for (std::size_t k = 0; k < cells.size(); ++k) {
    line += (k == 0 ? " " : ", ") + std::string(keys[k]) + " ";
    cell_of(*cells[k]).append_to(line);
  }
  if (!outcome.reason.empty()) {
    line += " (" + outcome.reason + ")";
  }
  return line;
}

}  // namespace

TensorWork plan_tensor_work(Comparison& comparison, const Graph& target, const Graph& golden, Compat compat, bool drop_cache) {
  TensorWork work;
  work.options.compat = compat;
  work.options.drop_cache = drop_cache;
  if (compat == Compat::reference) {
    set_reference_readers(work.options, target.dump, golden.dump);
  }
  const std::filesystem::path target_directory = target.dump.directory / "dump_tensor_data";
  const std::filesystem::path golden_directory = golden.dump.directory / "dump_tensor_data";
  for (std::uint32_t node = 0; node < comparison.rows.size(); ++node) {
    std::vector<Row>& rows = comparison.rows[node].rows;
    for (std::uint32_t row = 0; row < rows.size(); ++row) {
      TensorJob job;
      job.node = node;
      job.row = row;
      const Item& ours = target.items[rows[row].target_item];
      if (rows[row].golden_item == no_node) {
        apply_outcome(comparison, job, unsupported_tensor("the golden has no such parameter", "no counterpart"));
        continue;
      }
      const Item& theirs = golden.items[rows[row].golden_item];
      const std::string target_name = text_of(ours.data_name);
      const std::string golden_name = text_of(theirs.data_name);
      if (target_name == no_file || golden_name == no_file) {
        const std::string side = target_name != no_file ? "the golden" : golden_name != no_file ? "the target" : "neither side";
        apply_outcome(
            comparison, job,
            unsupported_tensor(side + (target_name != golden_name ? " has no tensor file" : " has a tensor file"), "no tensor file"));
        continue;
      }
      try {
        job.files.target = resolve_data_name(target_directory, target_name, compat);
        job.files.golden = resolve_data_name(golden_directory, golden_name, compat);
      } catch (const TensorError& error) {
        apply_outcome(comparison, job, unsupported_tensor(error.message(), std::string(tensor_fault_text(error.fault()))));
        continue;
      }
      job.files.target_dtype = ours.dtype.is_string() ? ours.dtype.text() : std::string_view{};
      job.files.golden_dtype = theirs.dtype.is_string() ? theirs.dtype.text() : std::string_view{};
      job.start = work.cost;
      job.cost = tensor_read_cost(stated_size(ours).bytes) + tensor_read_cost(stated_size(theirs).bytes);
      work.cost += job.cost;
      work.jobs.push_back(std::move(job));
    }
  }
  return work;
}

void apply_outcome(Comparison& comparison, const TensorJob& job, const TensorOutcome& outcome) {
  const TensorMetrics& metrics = outcome.metrics;
  Row& row = comparison.rows[job.node].rows[job.row];
  row.cells = {cell_of(metrics.cosine),           cell_of(metrics.euclidean_distance),       cell_of(metrics.max_abs_err),
               cell_of(metrics.max_relative_err), cell_of(metrics.one_thousandth_err_ratio), cell_of(metrics.five_thousandths_err_ratio)};
  row.info = outcome.reason;
  row.tensor = std::make_shared<const TensorFacts>(TensorFacts{outcome.skipped, outcome.shape, outcome.elements, outcome.bytes, metrics});
}

void run_tensor_work(const TensorWork& work, Comparison& comparison, const Graph& target, const TensorRunOptions& options) {
  /// A pair whose blocks several threads walk. Each opens the files for itself.
  struct Shared {
    std::mutex mutex;
    PartialMetrics partial;
    std::optional<TensorOutcome> failed;
    std::atomic<std::size_t> tasks_left{0};
  };
  struct Task {
    std::uint32_t job;
    std::size_t first_block;
    std::size_t block_count;  // 0: the whole pair
    std::shared_ptr<Shared> shared;
  };
  std::vector<Task> tasks;
  for (std::uint32_t index = 0; index < work.jobs.size(); ++index) {
    const TensorJob& job = work.jobs[index];
    const std::size_t blocks = metric_blocks(stated_size(target.items[comparison.rows[job.node].rows[job.row].target_item]).elements);
    if (options.threads <= 1 || blocks <= blocks_per_task) {
      tasks.push_back({index, 0, 0, nullptr});
      continue;
    }
    const auto shared = std::make_shared<Shared>();
    const std::size_t pieces = blocks / blocks_per_task + 1;
    shared->tasks_left = pieces;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      // The last piece takes what the files hold beyond the statement in dump.json.
      const std::size_t first = piece * blocks_per_task;
      tasks.push_back({index, first, piece + 1 == pieces ? std::numeric_limits<std::size_t>::max() - first : blocks_per_task, shared});
    }
  }
  std::mutex apply_mutex;
  const auto apply = [&](const TensorJob& job, const TensorOutcome& outcome) {
    if (options.log) {
      options.log(log_line(std::string(target.items[comparison.rows[job.node].rows[job.row].target_item].full_name), outcome));
    }
    const std::lock_guard lock(apply_mutex);
    apply_outcome(comparison, job, outcome);
  };
  parallel_for(tasks.size(), options.threads, [&](std::size_t k) {
    const Task& task = tasks[k];
    const TensorJob& job = work.jobs[task.job];
    if (options.log && task.first_block == 0) {
      options.log("tensor " + std::string(target.items[comparison.rows[job.node].rows[job.row].target_item].full_name) + ": comparing");
    }
    if (!task.shared) {
      apply(job, compare_tensor_files(job.files, work.options));
      return;
    }
    Shared& shared = *task.shared;
    OpenTensorPair files(job.files, work.options);
    std::optional<PartialMetrics> partial;
    if (!files.decided()) {
      partial = files.accumulate(task.first_block, task.block_count);
    }
    {
      const std::lock_guard lock(shared.mutex);
      if (files.decided()) {
        shared.failed = *files.decided();
      } else {
        shared.partial.combine(*partial);
      }
    }
    if (--shared.tasks_left == 0) {
      apply(job, shared.failed ? *shared.failed : files.finish(shared.partial));
    }
  });
}

}  // namespace msvis
