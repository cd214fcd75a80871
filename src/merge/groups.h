// Which ranks belong together as the dumps tell it (merge rules, 3.2).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/parameters.h"
#include "msvis/graph.h"

namespace msvis {

/// What the communication nodes of one rank tell.
struct GroupHint {
  std::optional<std::vector<std::int64_t>> reduce_group;  ///< ranks of the first reduction
  std::optional<std::int64_t> successor;                  ///< rank to which the first send goes
};

GroupHint group_hint(const Graph& graph, std::int64_t rank);

/// Distinct reduction groups in rank order; the default groups if there is none, or (with a warning) if the first has not `tp` members.
RankGroups tp_groups_of(const std::map<std::int64_t, GroupHint>& hints, const RankGrid& grid, std::vector<std::string>& warnings);

/// Chains of successors, from every rank that has one and is in no chain yet.
RankGroups trace_chains(const std::map<std::int64_t, std::int64_t>& successors);

/// The chains of successors; the default groups if there is none, or (with a warning) if the first has not `pp` members.
RankGroups pp_groups_of(const std::map<std::int64_t, GroupHint>& hints, const RankGrid& grid, std::vector<std::string>& warnings);

/// Where the dumps contradict the groups that follow from --order; one sentence for each kind of group.
std::vector<std::string> group_contradictions(const std::map<std::int64_t, GroupHint>& hints, const RankGrid& grid);

}  // namespace msvis
