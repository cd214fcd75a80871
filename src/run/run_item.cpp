#include "run/run_item.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <future>
#include <utility>

#include "base/bytes.h"
#include "compare/compare.h"
#include "merge/export.h"
#include "merge/resolve.h"
#include "msvis/error.h"
#include "run/run_merged_item.h"
#include "table/metrics_batch.h"

namespace msvis {
namespace {

/// Bytes of one batch of rows on its way to the writer.
constexpr std::size_t batch_bytes = std::size_t{1} << 20;
/// A dump with a fault in every node must not drown the user in warnings.
constexpr std::size_t max_warnings = 20;

std::string item_name(const WorkItem& item) {
  return "step " + std::to_string(item.step) + " rank " + std::to_string(item.rank);
}

std::string_view side_name(Side side) {
  return side == Side::target ? "target" : "golden";
}

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The side whose dump a file belongs to, if any.
std::optional<Side> side_of(const std::filesystem::path& file, const WorkItem& item) {
  const auto below = [&file](const std::filesystem::path& directory) {
    std::error_code fault;  // the file may name the directory by another way, or not exist
    return !directory.empty() && (file.native().starts_with(directory.native() + "/") || file == directory ||
                                  std::filesystem::equivalent(file.parent_path(), directory, fault));
  };
  for (const Replica& replica : item.replicas) {
    for (const std::string& name : replica.names) {
      if (below(replica.directory / name)) {
        return &replica == &item.replicas.front() ? Side::target : Side::golden;
      }
    }
  }
  if (below(item.target)) {
    return Side::target;
  }
  return below(item.golden) ? std::optional(Side::golden) : std::nullopt;
}

class ItemRun {
 public:
  ItemRun(const WorkItem& item, const RunContext& context, const std::function<void(RowBatch&&)>& sink, const MetricsSink& metrics,
          ItemResult& result)
      : item_(item), context_(context), sink_(sink), metrics_(metrics), result_(result) {}

  /// All that can fail; nothing has gone to the sink when it throws.
  void compute() {
    const Stopwatch reading;
    if (merging()) {
      merge();
    } else {
      both_sides([this] { target_ = build_graph(Dump::read(item_.target), context_.options.compat); },
                 [this] { golden_ = build_graph(Dump::read(item_.golden), context_.options.compat); });
    }
    note_graph(target_, Side::target);
    if (comparing()) {
      note_graph(golden_, Side::golden);
    }
    const double read_seconds = reading.seconds();
    const Stopwatch comparing_time;
    if (comparing()) {
      compare();
    }
    if (!merged_micro_steps_) {
      result_.micro_steps = assign_micro_steps(target_, comparing() ? &golden_ : nullptr, context_.options.compat);
    }
    if (context_.options.overflow_check && !merging()) {  // else the levels come from the ranks
      classify(target_, Side::target);
      if (comparing()) {
        classify(golden_, Side::golden);
      }
    }
    if (merging() && context_.options.merge->as_json) {
      export_dump(target_, context_.options.compat,
                  context_.options.output / ("step" + std::to_string(item_.step)) / ("rank" + std::to_string(item_.rank)));
    }
    summarize();
    result_.findings.read_seconds = read_seconds;
    result_.findings.compare_seconds = comparing_time.seconds();
  }

  void emit() {
    if (context_.options.merge && context_.options.merge->as_json) {
      return;  // compute() wrote the files
    }
    const Stopwatch encoding;
    const std::optional<CompareMode> mode = comparing() ? std::optional(comparison_.mode) : std::nullopt;
    both_sides([&] { encode(target_, comparing() ? &golden_ : nullptr, comparing() ? &comparison_ : nullptr, mode, Side::target); },
               [&] {
                 if (leads()) {
                   encode(golden_, &target_, nullptr, mode, Side::golden);
                 }
               });
    if (metrics_) {
      MetricsSource source{&target_, nullptr, nullptr, item_.step, item_.rank, context_.options.compat, owned()};
      if (comparing()) {
        source.golden = &golden_;
        source.comparison = &comparison_;
      }
      make_metrics_batches(source, batch_bytes, metrics_);
    }
    collect_links(target_, Side::target, owned());
    if (comparing() && leads()) {
      collect_links(golden_, Side::golden, nullptr);
    }
    result_.findings.encode_seconds = encoding.seconds();
  }

 private:
  [[nodiscard]] bool merging() const { return !item_.replicas.empty(); }

  /// Both graphs from all the ranks of their replicas.
  void merge() {
    const auto of_side = [this](Side side) {
      MergedReplica merged = merge_replica(item_, side, context_);
      (side == Side::target ? target_ : golden_) = std::move(merged.graph);
      return merged;
    };
    MergedReplica golden;
    MergedReplica target;
    both_sides([&] { target = of_side(Side::target); }, [&] { golden = of_side(Side::golden); });
    for (const MergedReplica* merged : {&target, &golden}) {
      if (!leads()) {
        break;  // another process says it
      }
      const Side side = merged == &target ? Side::target : Side::golden;
      for (const std::string& warning : merged->warnings) {
        warn(side, warning);
      }
      tallies_[side == Side::target ? 0 : 1] = merged->tally;
    }
    if (target.micro_steps) {
      merged_micro_steps_ = true;
      result_.micro_steps = *target.micro_steps;
    }
  }

  /// What merging found: a warning for each kind, and all for the summary.
  void note_tallies() {
    for (const Side side : {Side::target, Side::golden}) {
      MergeTally& tally = tallies_[side == Side::target ? 0 : 1];
      for (std::string& finding : tally.findings) {
        finding = item_name(item_) + " " + std::string(side_name(side)) + ": " + finding;
      }
      for (const auto& [kind, count] : tally.finding_counts) {
        warn(side, "merging found " + std::to_string(count) + " " + kind + "; the summary has examples");
      }
      result_.findings.merging.add(tally);
    }
  }

  [[nodiscard]] bool comparing() const { return context_.options.comparing(); }

  /// The same work for both sides (a build has one), at once if cores are free. The fault of the target goes first.
  template <typename OfTarget, typename OfGolden>
  void both_sides(OfTarget&& of_target, OfGolden&& of_golden) {
    if (!comparing() || !context_.sides_at_once) {
      of_target();
      if (comparing()) {
        of_golden();
      }
      return;
    }
    std::future<void> golden = std::async(std::launch::async, of_golden);
    of_target();  // if this throws, the end of the other thread is waited for
    golden.get();
  }

  void warn(Side side, std::string_view text) {
    result_.warnings.push_back(item_name(item_) + " " + std::string(side_name(side)) + ": " + std::string(text));
  }

  void note_graph(const Graph& graph, Side side) {
    if (!leads()) {
      return;  // another process says it
    }
    for (std::size_t k = 0; k < graph.warnings.size(); ++k) {
      if (k == max_warnings) {
        warn(side, std::to_string(graph.warnings.size() - k) + " more warnings of this kind");
        break;
      }
      warn(side, graph.warnings[k]);
    }
    if (graph.lost_nodes > 0) {
      warn(side,
           std::to_string(graph.lost_nodes) + " nodes hang below a parent that is not recorded and are left out (--compat=reference)");
    }
  }

  [[nodiscard]] const LayerMapping& mapping() const {
    static const LayerMapping none;
    return context_.mapping ? *context_.mapping : none;
  }

  void match(std::vector<std::string>& warnings) {
    const RunOptions& options = context_.options;
    if (options.fuzzy_match || merging()) {
      match_fuzzy(target_, golden_);
    } else if (options.layer_mapping && !context_.mapping) {
      match_by_name(target_, golden_);
    } else if (options.layer_mapping) {
      match_mapped(target_, golden_, mapping(), options.compat, warnings, &result_.mapping_usage);
    } else {
      match_exact(target_, golden_);
    }
  }

  /// What the ranks of one side can't tell, the shapes of the other side do, if its tensors are whole.
  void resolve_shapes() {
    const auto ranks = [](const MergeSide& side) { return side.tp * side.cp; };
    const MergeOptions& options = *context_.options.merge;
    std::vector<std::string> withdrawn;
    const auto note = [&](std::uint64_t resolved, Side side) {
      MergeTally& tally = tallies_[side == Side::target ? 0 : 1];
      if (resolved > 0 && leads()) {
        tally.entries["split by the shape of the other side"] += resolved;
      }
      for (const std::string& finding : withdrawn) {
        std::erase(tally.findings, finding);
        if (const auto count = tally.finding_counts.find("diverged replicas");
            count != tally.finding_counts.end() && --count->second == 0) {
          tally.finding_counts.erase(count);
        }
      }
    };
    if (ranks(options.golden) == 1) {
      note(resolve_by_shape(target_, golden_, options.target.tp, withdrawn), Side::target);
    } else if (ranks(options.target) == 1) {
      note(resolve_by_shape(golden_, target_, options.golden.tp, withdrawn), Side::golden);
    }
  }

  /// Micro-batches are paired by their number in the job: that is right only if both jobs had the same data in the same order. Gradients of
  /// parameters are sums over the micro-batches of a replica, which can't be compared then.
  void check_micro_batches() {
    for (const std::uint32_t child : target_.children(0)) {
      const Node& ours = target_.nodes[child];
      if (ours.link == no_node || ours.type != NodeType::module) {
        continue;
      }
      const Node& theirs = golden_.nodes[ours.link];
      for (std::uint32_t at = ours.inputs_begin; at < ours.outputs_begin; ++at) {
        const Item& item = target_.items[at];
        const std::uint32_t other = theirs.inputs_begin + (at - ours.inputs_begin);
        if (other >= theirs.outputs_begin || !item.dtype.is_string() || item.dtype.text().find("int") == std::string_view::npos) {
          continue;
        }
        const Item& partner = golden_.items[other];
        for (std::size_t statistic = 0; statistic < item.stats.size(); ++statistic) {
          if (item.stats[statistic].is_number() && partner.stats[statistic].is_number() &&
              item.stats[statistic].number() != partner.stats[statistic].number()) {
            throw Error(
                ErrorCategory::mismatch,
                "the two sides have unlike numbers of data-parallel replicas, so that micro-batches are paired by their number in the "
                "job; but " +
                    std::string(item.key) + " differs from that of the golden side: the jobs had not the same data in the same order");
          }
        }
      }
    }
    std::uint64_t gradients = 0;
    for (Node& node : target_.nodes) {
      if (node.link != no_node && node.name.find(".parameters_grad") != std::string_view::npos) {
        golden_.nodes[node.link].link = no_node;
        node.link = no_node;
        ++gradients;
      }
    }
    if (gradients > 0) {
      warn(Side::target,
           std::to_string(gradients) +
               " gradients of parameters are not compared: with unlike numbers of replicas they are sums over other micro-batches");
    }
  }

  void compare() {
    std::vector<std::string> warnings;
    const CompareMode mode = choose_mode(target_.dump, golden_.dump, context_.options.layer_mapping, warnings);
    match(warnings);
    if (merging() && context_.options.compat == Compat::standard) {
      resolve_shapes();
    }
    if (merging() && context_.options.compat == Compat::standard && context_.options.merge->unlike_replicas()) {
      check_micro_batches();
    }
    if (leads() && (!context_.options.suggest_mapping.empty() || !context_.options.summary_json.empty())) {
      result_.suggestions = suggest(target_, golden_, mapping(), context_.options.compat);
    }
    for (const std::string& warning : warnings) {
      if (leads()) {
        result_.warnings.push_back(item_name(item_) + ": " + warning);
      }
    }
    comparison_ = compare_graphs(target_, golden_, mode, context_.options.compat);
    if (mode == CompareMode::tensor) {
      compare_tensors();
    } else if (item_.shares > 1) {
      // Nothing to divide after all.
      owned_.assign(target_.nodes.size(), leads());
      drop_foreign_rows();
    }
    result_.mode = mode;
  }

  void compare_tensors() {
    const RunOptions& options = context_.options;
    const TensorWork work = plan_tensor_work(comparison_, target_, golden_, options.compat, options.drop_cache);
    const TensorDivision division = divide_tensor_work(work, comparison_, target_, item_.shares, context_.tensor_threads);
    std::uint32_t owner = item_.share;
    if (item_.deferred.empty()) {
      const auto deferred =
          run_tensor_work(work, division, item_.share, comparison_, target_, {context_.tensor_threads, context_.tensor_log});
      if (!deferred.empty()) {
        result_.deferred = pack(deferred);
      }
    } else {
      owner = TensorDivision::deferred;
      apply_deferred(work, division, unpack_deferred_tensors(item_.deferred), comparison_);
    }
    if (leads()) {
      for (const TensorError& fault : work.options.stores->faults()) {
        result_.warnings.push_back(item_name(item_) + ": " + fault.what() + " (its tensors have no metrics)");
      }
    }
    if (item_.shares > 1) {
      owned_.resize(target_.nodes.size());
      for (std::uint32_t node = 0; node < target_.nodes.size(); ++node) {
        owned_[node] = division.node_owner[node] == owner;
      }
      drop_foreign_rows();
    }
    finish_tensor_comparison(comparison_, target_, golden_, options.compat);
  }

  void drop_foreign_rows() {
    std::erase_if(comparison_.rows, [this](const NodeRows& rows) { return !owned_[rows.node]; });
  }

  /// Whether this process gives the rows that belong to the item as a whole: the golden side, the stacks.
  [[nodiscard]] bool leads() const { return item_.share == 0 && item_.deferred.empty(); }

  [[nodiscard]] const std::vector<bool>* owned() const { return owned_.empty() ? nullptr : &owned_; }

  void classify(Graph& graph, Side side) {
    const std::uint64_t removed = classify_overflow(graph, context_.ignore_rules);
    if (removed > 0) {
      warn(side, std::to_string(removed) + " overflow levels were removed by the ignore rules");
    }
  }

  void summarize() {
    result_.findings = comparing() ? find_in_pair(target_, &golden_, &comparison_, item_.step, item_.rank, owned(), leads())
                                   : find_in_pair(target_, nullptr, nullptr, item_.step, item_.rank, nullptr, true);
    note_tallies();
    result_.record.target_nodes = result_.findings.target_nodes;
    result_.record.golden_nodes = result_.findings.golden_nodes;
    result_.record.matched_nodes = result_.findings.matched;
    result_.record.compared_parameters = result_.findings.parameters_compared;
  }

  void encode(const Graph& graph, const Graph* other, const Comparison* comparison, std::optional<CompareMode> mode, Side side) {
    EncodeSelection selection;
    selection.nodes = side == Side::target ? owned() : nullptr;
    selection.stacks = leads();
    encode_graph(graph, other, comparison, mode, side, item_.step, item_.rank, batch_bytes, sink_, context_.options.compat, selection);
  }

  void collect_links(const Graph& graph, Side side, const std::vector<bool>* nodes) {
    if (!context_.link_ranks) {
      return;
    }
    LinkOptions options;
    options.compat = context_.options.compat;
    options.mode = context_.options.links;
    options.overflow_index = context_.options.overflow_check;
    const auto world = context_.world_ranks.find(item_.step);
    if (world != context_.world_ranks.end()) {
      options.world_ranks = world->second;
    }
    if (leads()) {
      std::vector<GroupCount> counts = group_counts(graph, side, item_.step, item_.rank, options);
      result_.group_counts.insert(result_.group_counts.end(), std::make_move_iterator(counts.begin()),
                                  std::make_move_iterator(counts.end()));
    }
    std::vector<LinkRecord> records = link_records(graph, side, item_.step, item_.rank, options);
    if (nodes != nullptr) {
      std::erase_if(records, [&](const LinkRecord& record) { return !(*nodes)[graph.order[record.node_order]]; });
    }
    result_.links.insert(result_.links.end(), std::make_move_iterator(records.begin()), std::make_move_iterator(records.end()));
  }

  const WorkItem& item_;
  const RunContext& context_;
  const std::function<void(RowBatch&&)>& sink_;
  const MetricsSink& metrics_;
  ItemResult& result_;
  Graph target_;
  Graph golden_;
  Comparison comparison_;
  std::array<MergeTally, 2> tallies_;  ///< target, golden
  bool merged_micro_steps_ = false;    ///< result_.micro_steps is that of the main rank
  std::vector<bool> owned_;            ///< by target node, where the item is shared; empty: all
};

}  // namespace

void ItemResult::join(const ItemResult& other) {
  if (record.status != "done") {
    return;
  }
  if (other.record.status != "done") {
    *this = other;
    return;
  }
  record.seconds = std::max(record.seconds, other.record.seconds);
  findings.merge(other.findings);
  record.target_nodes = findings.target_nodes;
  record.golden_nodes = findings.golden_nodes;
  record.matched_nodes = findings.matched;
  record.compared_parameters = findings.parameters_compared;
}

std::string join_deferred(const std::vector<std::string>& of_shares) {
  std::vector<DeferredTensor> all;
  for (const std::string& bytes : of_shares) {
    if (!bytes.empty()) {
      std::vector<DeferredTensor> some = unpack_deferred_tensors(bytes);
      all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    }
  }
  return all.empty() ? std::string() : pack(all);
}

ItemResult run_item(const WorkItem& item, const RunContext& context, const std::function<void(RowBatch&&)>& sink,
                    const MetricsSink& metrics) {
  const Stopwatch whole;
  ItemResult result;
  result.record.step = item.step;
  result.record.rank = item.rank;
  result.record.status = "done";
  ItemRun run(item, context, sink, metrics, result);
  const auto fail = [&](const std::string& reason, std::optional<Side> side = std::nullopt) {
    result.record.status = "failed";
    result.record.error = item_name(item) + (side ? " " + std::string(side_name(*side)) : "") + ": " + reason;
    result.mode.reset();
  };
  bool computed = false;
  try {
    run.compute();
    computed = true;
  } catch (const Error& error) {
    fail(error.what(), side_of(error.file(), item));
  } catch (const std::bad_alloc&) {
    fail("not enough memory; run fewer items at once (--threads) or more nodes");
  } catch (const std::exception& error) {
    fail(std::string("unexpected: ") + error.what());
  }
  if (computed) {
    run.emit();
  }
  result.record.seconds = whole.seconds();
  return result;
}

}  // namespace msvis
