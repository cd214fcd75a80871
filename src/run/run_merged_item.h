// One side of a work item whose ranks are merged: from the rank directories of a replica to one graph. No MPI here.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "merge/tally.h"
#include "msvis/graph.h"
#include "msvis/links.h"
#include "msvis/options.h"
#include "msvis/work_item.h"

namespace msvis {

struct RunContext;

struct MergedReplica {
  Graph graph;
  std::optional<std::int64_t> micro_steps;  ///< of the main rank, where the micro steps of the nodes are those of their ranks
  MergeTally tally;                         ///< nothing with Compat::reference
  std::vector<std::string> warnings;        ///< one sentence each, naming the rank where it matters
};

/// A stage of a replica of an item, to be folded apart.
struct StageTask {
  std::uint32_t replica = 0;  ///< index in WorkItem::replicas
  std::int64_t stage = 0;
};

/// The stages of an item that may be folded on different processes (Compat::standard).
std::vector<StageTask> stage_tasks(const WorkItem& item, const MergeOptions& options);

/// Folds one stage; the bytes are for a StageStore. Throws Error.
std::string run_stage(const WorkItem& item, const StageTask& task, const RunContext& context);

/// Folded stages that wait in this process for their item. Thread-safe.
class StageStore {
 public:
  void add(const WorkItem& item, const StageTask& task, std::string bytes);
  /// Empty if there is none.
  std::string take(const WorkItem& item, const StageTask& task);

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::uint32_t, std::int64_t>;
  static Key key(const WorkItem& item, const StageTask& task) { return {item.step, item.rank, task.replica, task.stage}; }
  std::mutex mutex_;
  std::map<Key, std::string> stages_;
};

/// Reads the ranks of one side one after the other and folds them; stages that are in the context's store are taken from there. Overflow
/// levels of all ranks are in the graph. Throws Error.
MergedReplica merge_replica(const WorkItem& item, Side side, const RunContext& context);

}  // namespace msvis
