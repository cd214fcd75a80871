// What process 0 decides before the work, as the others and the record of the run need it. No MPI here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/options.h"
#include "msvis/work_item.h"

namespace msvis {

/// What all processes must know of the plan.
struct SharedPlan {
  bool link_ranks = false;
  bool tensor_mode = false;                                       ///< an item occupies all threads of its process
  bool divided = false;                                           ///< some items are shared by several processes
  std::map<std::int64_t, std::vector<std::int64_t>> world_ranks;  ///< by step
};

/// `open_items`: those that are still to be done.
SharedPlan share_of(const WorkPlan& plan, std::size_t open_items, int processes);
std::string pack(const SharedPlan& shared);
SharedPlan unpack_shared_plan(std::string_view bytes);

/// How many processes share each item: by bytes, every process has one share. There are not more items than processes.
std::vector<std::uint32_t> shares_of(const std::vector<WorkItem>& items, int processes);

/// Bytes of memory that an item needs whose JSON files have so many.
std::uint64_t memory_for(std::uint64_t json_bytes);

/// As the record of the run holds them.
std::string options_json(const RunOptions& options);

}  // namespace msvis
