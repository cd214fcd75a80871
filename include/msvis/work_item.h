// The unit of work: one (step, rank) of the job, with its dump on one or both sides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace msvis {

/// The ranks of one side that are folded into one graph.
struct Replica {
  std::filesystem::path directory;  ///< holds the rank directories
  std::vector<std::int64_t> ranks;  ///< ascending
  std::vector<std::string> names;   ///< of their directories
  std::int64_t number = 0;          ///< among the replicas of the side
  std::int64_t main = 0;            ///< the rank whose number the graph has
  // Compat::reference only, where the dumps tell the groups:
  std::vector<std::vector<std::int64_t>> tp_groups;  ///< those that the merging needs
  std::vector<std::vector<std::int64_t>> pp_groups;
};

struct WorkItem {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::filesystem::path target;    ///< directory of dump.json
  std::filesystem::path golden;    ///< empty in a build
  std::uint64_t json_bytes = 0;    ///< size of the JSON files of both sides, 0 for those that can't be read
  std::uint64_t tensor_bytes = 0;  ///< size of the tensor files of both sides, estimated where they are many
  // With more processes than items, the tensors of an item are divided among several processes.
  std::uint32_t share = 0;
  std::uint32_t shares = 1;
  std::vector<Replica> replicas;  ///< where ranks are merged, the one of the target, then those of the golden (several if these have unlike
                                  ///< numbers of replicas); else empty
  std::string deferred;           ///< not empty: only the nodes that no share owns are to be finished, from what the shares found
  std::uint64_t largest_rank_bytes = 0;  ///< where ranks are merged: JSON bytes of the largest of them
  /// JSON bytes that are held at once: of merged ranks one after the other is read, and about what one has stays of all.
  [[nodiscard]] std::uint64_t held_json_bytes() const {
    return replicas.empty() ? json_bytes : std::min(json_bytes, largest_rank_bytes + json_bytes / 3);
  }
  [[nodiscard]] std::uint64_t cost() const { return json_bytes + tensor_bytes; }
};

/// What discovery found below -tp and -gp.
struct WorkPlan {
  std::vector<WorkItem> items;        ///< ascending by (step, rank)
  bool tensor_mode = false;           ///< the dumps say that they hold tensors (task "tensor")
  bool link_ranks = false;            ///< communication nodes are linked (runs over rank or step directories)
  std::vector<std::string> dropped;   ///< one sentence for each step or rank that only one side has, naming the side
  std::vector<std::string> warnings;  ///< anything else the user should know
};

}  // namespace msvis
