// One side of a work item whose ranks are merged: from the rank directories of a replica to one graph. No MPI here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "merge/tally.h"
#include "msvis/graph.h"
#include "msvis/links.h"
#include "msvis/work_item.h"

namespace msvis {

struct RunContext;

struct MergedReplica {
  Graph graph;
  std::optional<std::int64_t> micro_steps;  ///< of the main rank, where the micro steps of the nodes are those of their ranks
  MergeTally tally;                         ///< nothing with Compat::reference
  std::vector<std::string> warnings;        ///< one sentence each, naming the rank where it matters
};

/// Reads the ranks of one side one after the other and folds them. Overflow levels of all ranks are in the graph. Throws Error.
MergedReplica merge_replica(const WorkItem& item, Side side, const RunContext& context);

}  // namespace msvis
