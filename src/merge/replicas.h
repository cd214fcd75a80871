// From the ranks of a step to the replicas that are merged.
#pragma once

#include "msvis/options.h"
#include "msvis/work_item.h"

namespace msvis {

/// Checks the sizes of both sides with each other and with the directories of the plan, and divides each item of the plan (a step with all
/// ranks of both sides) into one item for each pair of replicas. With Compat::reference the groups come from the dumps, which are read for
/// that; a dump that can't be read tells nothing here. Items without replicas (a single dump) stay. Throws Error (mismatch).
void plan_replicas(WorkPlan& plan, const RunOptions& options);

/// Directory of a rank of a replica; the rank must be one of it.
std::filesystem::path rank_directory(const Replica& replica, std::int64_t rank);

}  // namespace msvis
