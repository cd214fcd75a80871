// What the nodes of a run offer: cores and memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/transport.h"

namespace msvis {

/// Of one process.
struct ProcessResources {
  std::vector<bool> cores;             ///< on which it may run, by number
  unsigned core_quota = 0;             ///< cores' worth of time that its control group allows, rounded up; 0: no limit
  std::uint64_t available_memory = 0;  ///< bytes that the node and its control group can still give; 0: unknown
};

/// Local.
ProcessResources own_resources();
std::string pack(const ProcessResources& resources);
ProcessResources unpack_process_resources(std::string_view bytes);

struct NodeResources {
  unsigned processes = 0;
  unsigned cores = 0;                  ///< distinct ones that its processes may use, at least 1
  std::uint64_t available_memory = 0;  ///< the smallest that one of its processes saw; 0: unknown
};

/// What the processes of each node have together; `all` and `node_of` are by process.
std::vector<NodeResources> combine_by_node(const std::vector<ProcessResources>& all, const std::vector<int>& node_of);

/// Worker threads for the process that is the `position`-th of its node: the cores are shared out evenly, each process has at least one.
unsigned default_threads(const NodeResources& node, unsigned position);

/// Collective.
std::vector<NodeResources> gather_nodes(Transport& transport);

}  // namespace msvis
