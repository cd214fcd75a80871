// One work item through all stages: dumps, graphs, matching, comparison, overflow levels, rows. No MPI here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compare/tensor_rows.h"
#include "match/match.h"
#include "match/suggest.h"
#include "msvis/compare.h"
#include "msvis/links.h"
#include "msvis/options.h"
#include "msvis/visdb.h"
#include "msvis/work_item.h"
#include "overflow/overflow.h"
#include "report/findings.h"
#include "run/run_merged_item.h"

namespace msvis {

/// What all items of a run share; read once per process.
struct RunContext {
  RunOptions options;
  std::shared_ptr<StageStore> stages;  ///< stages of merged items that were folded before; may be null
  bool sides_at_once =
      false;  ///< cores are free: both sides of an item are read, and encoded, at once; the sink is called from two threads
  unsigned tensor_threads = 1;                                    ///< that read and compare the tensors of an item
  TensorLog tensor_log;                                           ///< may be empty; called from several threads
  bool link_ranks = false;                                        ///< communication nodes are linked
  std::map<std::int64_t, std::vector<std::int64_t>> world_ranks;  ///< by step, the ranks of the run, ascending
  IgnoreRules ignore_rules;                                       ///< with options.overflow_check
  std::optional<LayerMapping> mapping;  ///< with options.layer_mapping; empty there: the file is unusable, nodes are matched by name
};

/// What remains of an item when its rows are on their way.
struct ItemResult {
  ItemRecord record;                ///< seconds included
  std::optional<CompareMode> mode;  ///< empty in a build or when the item failed
  std::int64_t micro_steps = 1;
  std::vector<LinkRecord> links;           ///< empty without link_ranks
  std::vector<GroupCount> group_counts;    ///< how often each group was used, to tell where ranks disagree; empty without link_ranks
  Findings findings;                       ///< counts, worst nodes, first divergence
  std::optional<Suggestions> suggestions;  ///< why nodes have no partner; with --suggest-mapping or --summary-json
  MappingUsage mapping_usage;              ///< with suggestions and a mapping
  std::string deferred;                    ///< of a share: what it found of nodes that no share owns; empty if there are none
  /// Adds the result of another share of the same (step, rank). A failed share makes the whole fail.
  void join(const ItemResult& other);
  std::vector<std::string> warnings;  ///< one sentence each, naming step, rank and side
};

/// Without the link records, which go a way of their own (links/packed_records.h).
std::string pack(const ItemResult& result);
ItemResult unpack_item_result(std::string_view bytes);
std::string pack(const WorkItem& item);
WorkItem unpack_work_item(std::string_view bytes);

/// What the shares of one item found of deferred nodes, in the order of the shares, as the `deferred` of a work item that finishes them;
/// empty if there is nothing to finish.
std::string join_deferred(const std::vector<std::string>& of_shares);

/// Takes batches of the parameter table (table/metrics_batch.h); may block.
using MetricsSink = std::function<void(std::string&&)>;

/// Runs one item, or a share of it. Rows go to `sink` in batches of bounded size (it may block). A fault of the input does not throw: the
/// result then has status "failed" and one line in record.error that names step, rank, side and file; no row was given to `sink`. What
/// `sink` throws passes through. The rows of the parameter table go to `metrics` in the same way, if there is one.
ItemResult run_item(const WorkItem& item, const RunContext& context, const std::function<void(RowBatch&&)>& sink,
                    const MetricsSink& metrics = {});

}  // namespace msvis
