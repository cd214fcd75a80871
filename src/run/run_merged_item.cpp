#include "run/run_merged_item.h"

#include <map>
#include <utility>

#include "merge/reference.h"
#include "merge/replicas.h"
#include "run/run_item.h"

namespace msvis {
namespace {

class Merging {
 public:
  Merging(const Replica& replica, const MergeSide& sizes, const RunContext& context)
      : replica_(replica), sizes_(sizes), context_(context) {}

  MergedReplica run() {
    for (const std::int64_t rank : replica_.ranks) {
      read(rank);
    }
    const std::uint32_t main =
        merge_reference(forest_, by_number_, merge_strategy(sizes_), replica_.tp_groups, replica_.pp_groups, sizes_.vpp);
    if (paged_) {
      result_.micro_steps = forest_.ranks[main].micro_steps;
    }
    result_.graph = to_graph(forest_, main);
    return std::move(result_);
  }

 private:
  void read(std::int64_t rank) {
    const Compat compat = context_.options.compat;
    Graph graph = build_graph(Dump::read(rank_directory(replica_, rank)), compat);
    std::int64_t micro_steps = 1;
    if (paged_) {
      micro_steps = assign_micro_steps(graph, nullptr, compat);
    }
    std::uint64_t removed = 0;
    if (context_.options.overflow_check) {
      removed = classify_overflow(graph, context_.ignore_rules);
    }
    const std::uint32_t index = add_rank(forest_, graph, rank, KeepPayload::all, compat);
    forest_.ranks[index].micro_steps = micro_steps;
    forest_.ranks[index].removed_levels = removed;
    by_number_[rank] = index;
  }

  const Replica& replica_;
  const MergeSide& sizes_;
  const RunContext& context_;
  Forest forest_;
  std::map<std::int64_t, std::uint32_t> by_number_;
  MergedReplica result_;
  /// The reference pages every rank of a build before it merges.
  bool paged_ = context_.options.compat == Compat::reference && !context_.options.comparing();
};

}  // namespace

MergedReplica merge_replica(const WorkItem& item, Side side, const RunContext& context) {
  const MergeOptions& options = *context.options.merge;
  return side == Side::target ? Merging(item.replicas.front(), options.target, context).run()
                              : Merging(item.replicas.back(), options.golden, context).run();
}

}  // namespace msvis
