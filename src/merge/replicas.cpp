#include "merge/replicas.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "layout/listing.h"
#include "merge/groups.h"
#include "merge/parameters.h"
#include "msvis/error.h"

namespace msvis {
namespace {

std::map<std::int64_t, GroupHint> read_hints(const Replica& all) {
  std::map<std::int64_t, GroupHint> hints;
  for (const std::int64_t rank : all.ranks) {
    try {
      hints[rank] = group_hint(build_graph(Dump::read(rank_directory(all, rank)), Compat::reference), rank);
    } catch (const Error&) {
      hints[rank] = {};  // the item of this rank tells the fault
    }
  }
  return hints;
}

/// Some ranks of a side as a replica.
Replica select(const Replica& all, const std::set<std::int64_t>& ranks, std::size_t number) {
  Replica replica;
  replica.directory = all.directory;
  replica.number = static_cast<std::int64_t>(number);
  for (std::size_t k = 0; k < all.ranks.size(); ++k) {
    if (ranks.contains(all.ranks[k])) {
      replica.ranks.push_back(all.ranks[k]);
      replica.names.push_back(all.names[k]);
    }
  }
  return replica;
}

std::set<std::int64_t> ranks_of(const RankGroups& groups) {
  std::set<std::int64_t> ranks;
  for (const auto& group : groups) {
    ranks.insert(group.begin(), group.end());
  }
  return ranks;
}

void require_present(const RankGroups& groups, const Replica& all) {
  for (const auto& group : groups) {
    for (const std::int64_t rank : group) {
      if (std::find(all.ranks.begin(), all.ranks.end(), rank) == all.ranks.end()) {
        throw Error(ErrorCategory::mismatch,
                    "a communication group in the dumps names rank " + std::to_string(rank) + ", which is not there", all.directory);
      }
    }
  }
}

std::vector<Replica> reference_replicas(const Replica& all, const MergeSide& side, const RankGrid& grid, std::string_view what,
                                        std::vector<std::string>& warnings) {
  const MergeStrategy strategy = merge_strategy(side);
  std::vector<std::string> told;
  RankGroups tp{all.ranks};
  RankGroups pp{all.ranks};
  if (strategy != MergeStrategy::none) {
    const auto hints = read_hints(all);
    tp = strategy == MergeStrategy::pp ? grid.groups(Dimension::tp) : tp_groups_of(hints, grid, told);
    pp = strategy == MergeStrategy::tp ? grid.groups(Dimension::pp) : pp_groups_of(hints, grid, told);
  }
  for (const std::string& warning : told) {
    warnings.push_back(std::string(what) + ": " + warning);
  }
  require_present(tp, all);
  require_present(pp, all);
  std::vector<Replica> replicas;
  const auto add = [&](RankGroups tp_groups, RankGroups pp_groups, const std::set<std::int64_t>& ranks) {
    Replica& replica = replicas.emplace_back(select(all, ranks, replicas.size()));
    replica.main = !pp_groups.empty() ? pp_groups.front().front() : tp_groups.front().front();
    replica.tp_groups = std::move(tp_groups);
    replica.pp_groups = std::move(pp_groups);
  };
  switch (strategy) {
    case MergeStrategy::none:
      add(tp, pp, ranks_of(tp));
      break;
    case MergeStrategy::tp:
      for (const auto& group : tp) {
        add({group}, {}, ranks_of({group}));
      }
      break;
    case MergeStrategy::pp:
      for (const auto& group : pp) {
        add({}, {group}, ranks_of({group}));
      }
      break;
    case MergeStrategy::tp_pp:
      add(tp, pp, ranks_of({all.ranks}));
      break;
    case MergeStrategy::full:
      for (const auto& group : tp) {
        RankGroups stages;
        for (const std::int64_t rank : group) {
          for (const auto& chain : pp) {
            if (chain.front() == rank) {
              stages.push_back(chain);
            }
          }
        }
        if (!stages.empty()) {
          const auto ranks = ranks_of(stages);
          add(tp, std::move(stages), ranks);
        }
      }
      break;
  }
  return replicas;
}

std::vector<Replica> standard_replicas(const Replica& all, const RankGrid& grid) {
  constexpr auto dp = static_cast<std::size_t>(Dimension::dp);
  std::vector<std::set<std::int64_t>> own(static_cast<std::size_t>(grid.size(Dimension::dp)));
  std::vector<std::set<std::int64_t>> needed(own.size());
  for (const std::int64_t rank : all.ranks) {
    const auto replica = static_cast<std::size_t>(grid.coordinates(rank)[dp]);
    own[replica].insert(rank);
    for (const std::int64_t other : grid.expert_group(rank)) {  // ranks of other replicas that share the experts
      needed[replica].insert(other);
    }
  }
  std::vector<Replica> replicas;
  for (std::size_t k = 0; k < own.size(); ++k) {
    Replica& replica = replicas.emplace_back(select(all, needed[k], k));
    replica.main = *own[k].begin();
  }
  return replicas;
}

}  // namespace

std::filesystem::path rank_directory(const Replica& replica, std::int64_t rank) {
  const auto found = std::find(replica.ranks.begin(), replica.ranks.end(), rank);
  return replica.directory / replica.names.at(static_cast<std::size_t>(found - replica.ranks.begin()));
}

void plan_replicas(WorkPlan& plan, const RunOptions& options) {
  if (!options.merge) {
    return;
  }
  const bool comparing = options.comparing();
  constexpr std::string_view target_name = "target (-tp)";
  constexpr std::string_view golden_name = "golden (-gp)";
  std::vector<WorkItem> items;
  for (WorkItem& step : plan.items) {
    if (step.replicas.empty()) {
      items.push_back(std::move(step));
      continue;
    }
    std::vector<std::vector<Replica>> sides;
    for (std::size_t side = 0; side < step.replicas.size(); ++side) {
      const MergeSide& sizes = side == 0 ? options.merge->target : options.merge->golden;
      const std::string_view what = side == 0 ? target_name : golden_name;
      const RankGrid grid(sizes, what);
      sides.push_back(options.compat == Compat::reference ? reference_replicas(step.replicas[side], sizes, grid, what, plan.warnings)
                                                          : standard_replicas(step.replicas[side], grid));
    }
    if (comparing && options.compat == Compat::reference && sides[0].size() != sides[1].size()) {
      throw Error(ErrorCategory::mismatch, "merging gives " + std::to_string(sides[0].size()) + " graphs of the target (-tp) and " +
                                               std::to_string(sides[1].size()) +
                                               " of the golden (-gp); with --compat=reference both need as many data-parallel replicas");
    }
    for (std::size_t k = 0; k < sides[0].size(); ++k) {
      WorkItem item;
      item.step = step.step;
      item.rank = sides[0][k].main;
      item.replicas.push_back(sides[0][k]);
      if (comparing) {
        // With as many replicas on both sides it is the k-th; else all that run a micro-batch of the k-th target replica.
        const std::size_t common = std::gcd(sides[0].size(), sides[1].size());
        for (std::size_t other = k % common; other < sides[1].size(); other += common) {
          item.replicas.push_back(sides[1][other]);
        }
      }
      for (const Replica& replica : item.replicas) {
        for (const std::int64_t rank : replica.ranks) {
          const std::uint64_t bytes = layout::json_bytes(rank_directory(replica, rank));
          item.json_bytes += bytes;
          item.largest_rank_bytes = std::max(item.largest_rank_bytes, bytes);
          if (comparing) {
            item.tensor_bytes += layout::tensor_bytes(rank_directory(replica, rank));
          }
        }
      }
      item.target = rank_directory(item.replicas.front(), item.rank);
      if (comparing) {
        item.golden = rank_directory(item.replicas[1], item.replicas[1].main);
      }
      items.push_back(std::move(item));
    }
  }
  plan.items = std::move(items);
  plan.tensor_mode = comparing && std::any_of(plan.items.begin(), plan.items.end(), [](const WorkItem& item) {
                       return item.tensor_bytes > 0 && layout::states_tensor_task(item.target);
                     });
}

}  // namespace msvis
