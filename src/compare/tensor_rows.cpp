#include "compare/tensor_rows.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/parallel.h"
#include "dump/python_text.h"
#include "msvis/error.h"

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

/// Cost of reading an item, with its replicas.
std::uint64_t cost_of(const Item& item, const TensorParts* parts) {
  constexpr std::uint64_t most_files = 1000;
  const std::uint64_t bytes = stated_size(item).bytes;
  const std::uint64_t copies = parts != nullptr ? 1 + std::min<std::uint64_t>(parts->replicas.size(), most_files) : 1;
  const std::uint64_t files = parts != nullptr ? std::clamp<std::uint64_t>(parts->parts.size(), 1, most_files) : 1;
  return copies * (files * tensor_read_cost(0) + bytes);
}

std::string text_of(JsonValue value) {
  std::string text;
  append_str(text, value);
  return text;
}

std::shared_ptr<const TensorParts> parts_of(const Graph& graph, std::uint32_t item) {
  const auto found = graph.tensor_parts.find(item);
  return found != graph.tensor_parts.end() ? found->second : nullptr;
}

/// Vocabularies are padded so that they can be split; the other side may have fewer rows, or other padding.
std::shared_ptr<const TensorParts> without_padding(std::shared_ptr<const TensorParts> parts, const Item& other) {
  if (!parts || !parts->padded || parts->kind != TensorParts::Kind::joined) {
    return parts;
  }
  std::uint32_t dimension = 0;
  double wanted = -1;
  for (const JsonValue size : other.shape.elements()) {
    if (dimension++ == parts->dimension && size.is(JsonKind::integer)) {
      wanted = size.number();
    }
  }
  double rows = 0;
  for (const TensorParts::Run& run : parts->runs) {
    rows += static_cast<double>(run.length);
  }
  const double surplus = rows - wanted;
  if (wanted < 0 || surplus <= 0 || surplus >= static_cast<double>(parts->runs.back().length)) {
    return parts;
  }
  auto cut = std::make_shared<TensorParts>(*parts);
  cut->runs.back().length -= static_cast<std::uint64_t>(surplus);
  return cut;
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
  // Merged graphs have no directory of their own: their parts say where they are.
  const auto target_store = work.options.stores->of(target.dump.directory);
  const auto golden_store = work.options.stores->of(golden.dump.directory);
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
      job.files.target_parts = without_padding(parts_of(target, rows[row].target_item), theirs);
      job.files.golden_parts = without_padding(parts_of(golden, rows[row].golden_item), ours);
      const std::string target_name = job.files.target_parts ? std::string() : text_of(ours.data_name);
      const std::string golden_name = job.files.golden_parts ? std::string() : text_of(theirs.data_name);
      const TensorParts* impossible = nullptr;
      for (const auto* parts : {job.files.target_parts.get(), job.files.golden_parts.get()}) {
        impossible = parts != nullptr && parts->kind == TensorParts::Kind::none ? parts : impossible;
      }
      if (impossible != nullptr) {
        apply_outcome(comparison, job, unsupported_tensor(impossible->reason, "not mergeable"));
        continue;
      }
      if (target_name == no_file || golden_name == no_file) {
        const std::string side = target_name != no_file ? "the golden" : golden_name != no_file ? "the target" : "neither side";
        apply_outcome(
            comparison, job,
            unsupported_tensor(side + (target_name != golden_name ? " has no tensor file" : " has a tensor file"), "no tensor file"));
        continue;
      }
      try {
        if (!job.files.target_parts) {
          job.files.target = target_store->resolve(target_name, compat);
          job.files.target_store = target_store;
        }
        if (!job.files.golden_parts) {
          job.files.golden = golden_store->resolve(golden_name, compat);
          job.files.golden_store = golden_store;
        }
      } catch (const TensorError& error) {
        apply_outcome(comparison, job, unsupported_tensor(error.message(), std::string(tensor_fault_text(error.fault()))));
        continue;
      }
      job.files.target_dtype = ours.dtype.is_string() ? ours.dtype.text() : std::string_view{};
      job.files.golden_dtype = theirs.dtype.is_string() ? theirs.dtype.text() : std::string_view{};
      job.start = work.cost;
      job.cost = cost_of(ours, job.files.target_parts.get()) + cost_of(theirs, job.files.golden_parts.get());
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

TensorDivision divide_tensor_work(const TensorWork& work, const Comparison& comparison, const Graph& target, std::uint32_t shares,
                                  unsigned threads) {
  TensorDivision division;
  const auto share_at = [&](std::uint64_t offset) {
    __extension__ using Wide = unsigned __int128;  // cost * shares may exceed 64 bits
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(static_cast<std::uint64_t>(Wide{offset} * shares / std::max<std::uint64_t>(work.cost, 1)), shares - 1));
  };
  const bool cut = shares > 1 || threads > 1;
  division.node_owner.assign(target.nodes.size(), 0);
  std::vector<bool> owned(target.nodes.size(), false);
  const auto claim = [&](std::uint32_t node, std::uint32_t share) {
    division.node_owner[node] = !owned[node] || division.node_owner[node] == share ? share : TensorDivision::deferred;
    owned[node] = true;
  };
  const auto unit_of = [&](const TensorJob& job) {
    const std::uint32_t node = comparison.rows[job.node].node;
    const std::uint32_t parent = target.nodes[node].parent;
    return parent != no_node && target.nodes[parent].type == NodeType::api_collection ? parent : node;
  };
  for (std::uint32_t index = 0; index < work.jobs.size(); ++index) {
    const TensorJob& job = work.jobs[index];
    const std::size_t blocks = metric_blocks(stated_size(target.items[comparison.rows[job.node].rows[job.row].target_item]).elements);
    // Enough pieces to divide the work evenly, large enough to make up for opening the files again.
    const std::size_t piece =
        shares == 1 ? blocks_per_task : std::clamp<std::size_t>(blocks / (16 * std::size_t{shares}), 1, blocks_per_task);
    const std::size_t pieces = cut ? std::max<std::size_t>(1, (blocks + piece - 1) / piece) : 1;
    for (std::size_t k = 0; k < pieces; ++k) {
      TensorTask task{index, 0, 0, share_at(job.start + job.cost / pieces * k)};
      if (pieces > 1) {
        task.first_block = k * piece;
        // The last piece takes what the files hold beyond the statement in dump.json.
        task.block_count = k + 1 == pieces ? std::numeric_limits<std::size_t>::max() : piece;
      }
      claim(unit_of(job), task.share);
      division.tasks.push_back(task);
    }
  }
  for (std::uint32_t node = 0; node < target.nodes.size(); ++node) {
    const std::uint32_t parent = target.nodes[node].parent;
    if (parent != no_node && target.nodes[parent].type == NodeType::api_collection) {
      division.node_owner[node] = division.node_owner[parent];
    }
  }
  for (const TensorJob& job : work.jobs) {
    division.job_owner.push_back(division.node_owner[comparison.rows[job.node].node]);
  }
  return division;
}

std::vector<DeferredTensor> run_tensor_work(const TensorWork& work, const TensorDivision& division, std::uint32_t share,
                                            Comparison& comparison, const Graph& target, const TensorRunOptions& options) {
  /// What the tasks of one job have found so far. Each opens the files for itself.
  struct Found {
    DeferredTensor tensor;
    std::size_t failed_block = std::numeric_limits<std::size_t>::max();
    std::size_t tasks_left = 0;
  };
  std::vector<TensorTask> tasks;
  std::map<std::uint32_t, Found> cut_jobs;
  std::vector<DeferredTensor> deferred;
  for (const TensorTask& task : division.tasks) {
    if (task.share == share) {
      tasks.push_back(task);
      if (task.block_count > 0) {
        ++cut_jobs[task.job].tasks_left;
      }
    }
  }
  std::mutex mutex;
  const auto name_of = [&](const TensorJob& job) {
    return std::string(target.items[comparison.rows[job.node].rows[job.row].target_item].full_name);
  };
  /// With the lock held.
  const auto deliver = [&](std::uint32_t index, DeferredTensor&& tensor) {
    const TensorJob& job = work.jobs[index];
    if (division.job_owner[index] == TensorDivision::deferred) {
      tensor.job = index;
      deferred.push_back(std::move(tensor));
      return;
    }
    const TensorOutcome outcome =
        tensor.outcome ? std::move(*tensor.outcome) : finish_pair(tensor.facts, tensor.finding, work.options.compat);
    if (options.log) {
      options.log(log_line(name_of(job), outcome));
    }
    apply_outcome(comparison, job, outcome);
  };
  parallel_for(tasks.size(), options.threads, [&](std::size_t k) {
    const TensorTask& task = tasks[k];
    const TensorJob& job = work.jobs[task.job];
    if (options.log && task.first_block == 0) {
      options.log("tensor " + name_of(job) + ": comparing");
    }
    if (task.block_count == 0) {
      DeferredTensor whole;
      whole.outcome = compare_tensor_files(job.files, work.options);
      const std::lock_guard lock(mutex);
      deliver(task.job, std::move(whole));
      return;
    }
    OpenTensorPair files(job.files, work.options);
    const std::optional<PairFinding> finding = files.decided() ? std::nullopt : files.accumulate(task.first_block, task.block_count);
    const std::lock_guard lock(mutex);
    Found& found = cut_jobs.at(task.job);
    if (finding) {
      found.tensor.facts = files.facts();
      found.tensor.finding.combine(*finding);
    } else if (task.first_block < found.failed_block) {
      found.failed_block = task.first_block;
      found.tensor.outcome = files.decided();
    }
    if (--found.tasks_left == 0) {
      deliver(task.job, std::move(found.tensor));
    }
  });
  std::sort(deferred.begin(), deferred.end(), [](const DeferredTensor& left, const DeferredTensor& right) { return left.job < right.job; });
  return deferred;
}

void apply_deferred(const TensorWork& work, const TensorDivision& division, const std::vector<DeferredTensor>& found,
                    Comparison& comparison) {
  std::map<std::uint32_t, DeferredTensor> by_job;
  for (const DeferredTensor& piece : found) {
    const auto [place, added] = by_job.try_emplace(piece.job, piece);
    if (added) {
      continue;
    }
    DeferredTensor& whole = place->second;
    if (!whole.outcome && piece.outcome) {
      whole.outcome = piece.outcome;
    } else if (!whole.outcome) {
      whole.finding.combine(piece.finding);
    }
  }
  for (std::uint32_t index = 0; index < work.jobs.size(); ++index) {
    if (division.job_owner[index] != TensorDivision::deferred) {
      continue;
    }
    const auto whole = by_job.find(index);
    if (whole == by_job.end()) {
      throw Error(ErrorCategory::internal,
                  "no process compared " +
                      (work.jobs[index].files.target.empty() ? "a merged tensor" : work.jobs[index].files.target.string()) +
                      "; did the dump change during the run?");
    }
    apply_outcome(
        comparison, work.jobs[index],
        whole->second.outcome ? *whole->second.outcome : finish_pair(whole->second.facts, whole->second.finding, work.options.compat));
  }
}

std::string pack(const std::vector<DeferredTensor>& tensors) {
  ByteWriter out;
  out.put_all(tensors, [](ByteWriter& to, const DeferredTensor& tensor) {
    to.put(tensor.job);
    to.put(tensor.outcome.has_value());
    if (tensor.outcome) {
      put(to, *tensor.outcome);
    } else {
      put(to, tensor.facts);
      put(to, tensor.finding);
    }
  });
  return out.take();
}

std::vector<DeferredTensor> unpack_deferred_tensors(std::string_view bytes) {
  ByteReader in(bytes);
  return in.get_all([](ByteReader& from) {
    DeferredTensor tensor;
    tensor.job = from.get<std::uint32_t>();
    if (from.get<bool>()) {
      tensor.outcome = get_tensor_outcome(from);
    } else {
      tensor.facts = get_pair_facts(from);
      tensor.finding = get_pair_finding(from);
    }
    return tensor;
  });
}

}  // namespace msvis
