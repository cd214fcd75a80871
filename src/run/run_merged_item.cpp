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

class Merging {
 public:
  /// `replicas`: one, or several of the golden side that are compared with one of the target.
  Merging(std::span<const Replica> replicas, Side side, const RunContext& context)
      : replicas_(replicas),
        side_(side),
        sizes_(side == Side::target ? context.options.merge->target : context.options.merge->golden),
        context_(context) {}

  MergedReplica run(std::int64_t target_replica) {
    const std::uint32_t main = context_.options.compat == Compat::reference ? run_reference() : run_standard(target_replica);
    if (paged_) {
      result_.micro_steps = forest_.ranks[main].micro_steps;
    }
    note_ranks();
    result_.graph = to_graph(forest_, main);
    return std::move(result_);
  }

 private:
  std::uint32_t run_reference() {
    const Replica& replica = replicas_.front();
    std::map<std::int64_t, std::uint32_t> by_number;
    for (const std::int64_t rank : replica.ranks) {
      by_number[rank] = read(forest_, replica, rank, KeepPayload::all);
    }
    return merge_reference(forest_, by_number, merge_strategy(sizes_), replica.tp_groups, replica.pp_groups, sizes_.vpp);
  }

  std::uint32_t run_standard(std::int64_t target_replica) {
    const MergeOptions& options = *context_.options.merge;
    const bool unlike = context_.options.comparing() && options.unlike_replicas();
    std::vector<std::uint32_t> mains;
    for (const Replica& replica : replicas_) {
      const RankSource source = [&](Forest& forest, std::int64_t rank, KeepPayload keep) { return read(forest, replica, rank, keep); };
      const std::uint32_t main =
          merge_standard(forest_, RankGrid(sizes_, ""), replica.number, sizes_.vpp, source, result_.tally, result_.warnings);
      if (unlike) {
        number_micro_batches(forest_, main, replica.number, sizes_.dp());
        if (side_ == Side::golden) {
          keep_micro_batches(forest_, main, target_replica, options.target.dp());
        }
      }
      mains.push_back(main);
    }
    if (mains.size() > 1) {
      join_replicas(forest_, mains.front(), std::span<const std::uint32_t>(mains).subspan(1));
    }
    return mains.front();
  }

  std::uint32_t read(Forest& forest, const Replica& replica, std::int64_t rank, KeepPayload keep) {
    const Compat compat = context_.options.compat;
    Graph graph = build_graph(Dump::read(rank_directory(replica, rank)), compat);
    std::int64_t micro_steps = 1;
    if (paged_) {
      micro_steps = assign_micro_steps(graph, nullptr, compat);
    }
    std::uint64_t removed = 0;
    if (context_.options.overflow_check) {
      removed = classify_overflow(graph, context_.ignore_rules);
    }
    const std::uint32_t index = add_rank(forest, graph, rank, keep, compat);
    forest.ranks[index].micro_steps = micro_steps;
    forest.ranks[index].removed_levels = removed;
    return index;
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

  std::span<const Replica> replicas_;
  Side side_;
  const MergeSide& sizes_;
  const RunContext& context_;
  Forest forest_;
  MergedReplica result_;
  /// The reference pages every rank of a build before it merges.
  bool paged_ = context_.options.compat == Compat::reference && !context_.options.comparing();
};

}  // namespace

MergedReplica merge_replica(const WorkItem& item, Side side, const RunContext& context) {
  const std::span<const Replica> replicas(item.replicas);
  return Merging(side == Side::target ? replicas.first(1) : replicas.subspan(1), side, context).run(replicas.front().number);
}

}  // namespace msvis
