#include "run/run_merged_item.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "merge/micro_batches.h"
#include "merge/reference.h"
#include "merge/replicas.h"
#include "merge/standard.h"
#include "run/run_item.h"

namespace msvis {
namespace {

const MergeSide& sizes_of(const MergeOptions& options, Side side) {
  return side == Side::target ? options.target : options.golden;
}

/// Reads one rank into a forest.
std::uint32_t read_rank(Forest& forest, const Replica& replica, std::int64_t rank, KeepPayload keep, const RunContext& context,
                        bool paged) {
  const Compat compat = context.options.compat;
  Graph graph = build_graph(Dump::read(rank_directory(replica, rank)), compat);
  const std::int64_t micro_steps = paged ? assign_micro_steps(graph, nullptr, compat) : 1;
  const std::uint64_t removed = context.options.overflow_check ? classify_overflow(graph, context.ignore_rules) : 0;
  const std::uint32_t index = add_rank(forest, graph, rank, keep, compat);
  forest.ranks[index].micro_steps = micro_steps;
  forest.ranks[index].removed_levels = removed;
  return index;
}

class Merging {
 public:
  /// Of one side: one replica, or several of the golden side that are compared with one of the target.
  Merging(const WorkItem& item, Side side, const RunContext& context)
      : item_(item), side_(side), sizes_(sizes_of(*context.options.merge, side)), context_(context) {}

  MergedReplica run() {
    const std::uint32_t main = context_.options.compat == Compat::reference ? run_reference() : run_standard();
    if (paged_) {
      result_.micro_steps = forest_.ranks[main].micro_steps;
    }
    note_ranks();
    result_.graph = to_graph(forest_, main);
    return std::move(result_);
  }

 private:
  std::uint32_t run_reference() {
    const Replica& replica = item_.replicas[side_ == Side::target ? 0 : 1];
    std::map<std::int64_t, std::uint32_t> by_number;
    for (const std::int64_t rank : replica.ranks) {
      by_number[rank] = read_rank(forest_, replica, rank, KeepPayload::all, context_, paged_);
    }
    return merge_reference(forest_, by_number, merge_strategy(sizes_), replica.tp_groups, replica.pp_groups, sizes_.vpp);
  }

  std::uint32_t run_standard() {
    const MergeOptions& options = *context_.options.merge;
    const bool unlike = context_.options.comparing() && options.unlike_replicas();
    const RankGrid grid(sizes_, "");
    std::vector<std::uint32_t> mains;
    const std::uint32_t first = side_ == Side::target ? 0 : 1;
    const std::size_t last = side_ == Side::target ? 1 : item_.replicas.size();
    for (std::uint32_t replica = first; replica < last; ++replica) {
      const StageSource source = [&](std::int64_t stage) {
        std::string bytes = context_.stages ? context_.stages->take(item_, {replica, stage}) : std::string();
        return bytes.empty() ? run_stage(item_, {replica, stage}, context_) : bytes;
      };
      const std::uint32_t main = merge_standard(forest_, grid, sizes_.vpp, source, result_.tally, result_.warnings);
      if (unlike) {
        number_micro_batches(forest_, main, item_.replicas[replica].number, sizes_.dp());
        if (side_ == Side::golden) {
          keep_micro_batches(forest_, main, item_.replicas.front().number, options.target.dp());
        }
      }
      mains.push_back(main);
    }
    if (mains.size() > 1) {
      join_replicas(forest_, mains.front(), std::span<const std::uint32_t>(mains).subspan(1));
    }
    return mains.front();
  }

  /// What the dumps of the ranks had wrong, ascending by rank.
  void note_ranks() {
    constexpr std::size_t most = 5;  // of each rank
    std::map<std::int64_t, const TreeRank*> ranks;
    for (const TreeRank& rank : forest_.ranks) {
      ranks[rank.rank] = &rank;
    }
    std::uint64_t removed = 0;
    for (const auto& [number, rank] : ranks) {
      const std::string name = "rank " + std::to_string(number) + ": ";
      for (std::size_t k = 0; k < std::min(most, rank->warnings.size()); ++k) {
        result_.warnings.push_back(name + rank->warnings[k]);
      }
      if (rank->warnings.size() > most) {
        result_.warnings.push_back(name + std::to_string(rank->warnings.size() - most) + " more warnings of this kind");
      }
      if (rank->lost_nodes > 0) {
        result_.warnings.push_back(name + std::to_string(rank->lost_nodes) +
                                   " nodes hang below a parent that is not recorded and are left out (--compat=reference)");
      }
      removed += rank->removed_levels;
    }
    if (removed > 0) {
      result_.warnings.push_back(std::to_string(removed) + " overflow levels were removed by the ignore rules");
    }
  }

  const WorkItem& item_;
  Side side_;
  const MergeSide& sizes_;
  const RunContext& context_;
  Forest forest_;
  MergedReplica result_;
  /// The reference pages every rank of a build before it merges.
  bool paged_ = context_.options.compat == Compat::reference && !context_.options.comparing();
};

}  // namespace

std::vector<StageTask> stage_tasks(const WorkItem& item, const MergeOptions& options) {
  std::vector<StageTask> tasks;
  for (std::uint32_t replica = 0; replica < item.replicas.size(); ++replica) {
    const std::int64_t stages = sizes_of(options, replica == 0 ? Side::target : Side::golden).pp;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      tasks.push_back({replica, stage});
    }
  }
  return tasks;
}

std::string run_stage(const WorkItem& item, const StageTask& task, const RunContext& context) {
  const Replica& replica = item.replicas.at(task.replica);
  const RankGrid grid(sizes_of(*context.options.merge, task.replica == 0 ? Side::target : Side::golden), "");
  const RankSource source = [&](Forest& forest, std::int64_t rank, KeepPayload keep) {
    return read_rank(forest, replica, rank, keep, context, false);
  };
  return fold_stage(grid, replica.number, task.stage, source);
}

void StageStore::add(const WorkItem& item, const StageTask& task, std::string bytes) {
  const std::lock_guard lock(mutex_);
  stages_[key(item, task)] = std::move(bytes);
}

std::string StageStore::take(const WorkItem& item, const StageTask& task) {
  const std::lock_guard lock(mutex_);
  const auto found = stages_.find(key(item, task));
  if (found == stages_.end()) {
    return {};
  }
  std::string bytes = std::move(found->second);
  stages_.erase(found);
  return bytes;
}

MergedReplica merge_replica(const WorkItem& item, Side side, const RunContext& context) {
  return Merging(item, side, context).run();
}

}  // namespace msvis
