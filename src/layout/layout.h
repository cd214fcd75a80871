// From the paths given by -tp and -gp to work items.
#pragma once

#include "msvis/options.h"
#include "msvis/work_item.h"

namespace msvis {

/// Finds the (step, rank) pairs below the target (and golden) directory, within the selections of the options
/// (command line rules, section 4; dump format, section 1). Throws Error (path, mismatch) naming the directory and the expected naming.
WorkPlan find_work(const RunOptions& options);

/// The same without a look into the dumps: no sizes, and no tensor mode.
WorkPlan list_work(const RunOptions& options);
/// The sizes of one item.
void find_sizes(WorkItem& item, bool comparing);

}  // namespace msvis
