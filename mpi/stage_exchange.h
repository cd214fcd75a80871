// The stages of merged ranks, folded by whoever is free, on their way to the processes that join them.
#pragma once

#include <memory>
#include <vector>

#include "mpi/scheduler.h"
#include "mpi/transport.h"
#include "run/run_item.h"
#include "run/run_merged_item.h"

namespace msvis {

struct StageToFold {
  WorkItem item;
  StageTask stage;
  std::vector<int> owners;  ///< processes that need it
};

/// Collective. Folds the stages of process 0 (those of others are ignored) and returns those that this process owns; null if there are none
/// at all. One that can't be folded is not among them: the item that needs it finds the fault again. `hooks`: idle and stop_wanted. Throws
/// AgreedError as run_schedule.
std::shared_ptr<StageStore> exchange_stages(Transport& transport, std::vector<StageToFold> stages,
                                            std::shared_ptr<const RunContext> context, unsigned threads, ScheduleHooks hooks,
                                            const ScheduleLimits& limits);

}  // namespace msvis
