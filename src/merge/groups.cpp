#include "merge/groups.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace msvis {
namespace {

std::optional<std::int64_t> integer_of(JsonValue value) {
  std::int64_t number = 0;
  if (!value.is(JsonKind::integer)) {
    return std::nullopt;
  }
  const std::string_view token = value.text();
  const auto result = std::from_chars(token.data(), token.data() + token.size(), number);
  return result.ec == std::errc() && result.ptr == token.data() + token.size() ? std::optional(number) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> ranks_of(JsonValue list) {
  if (!list.is_array() || list.size() == 0) {
    return std::nullopt;
  }
  std::vector<std::int64_t> ranks;
  for (const JsonValue element : list.elements()) {
    const auto rank = integer_of(element);
    if (!rank) {
      return std::nullopt;
    }
    ranks.push_back(*rank);
  }
  return ranks;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<std::int64_t> successor_of(const Node& node, std::int64_t rank) {
  if (contains(node.name, ".batch_isend_irecv.")) {
    for (const BatchOperation& operation : batch_operations(node.name, node.entry)) {
      const auto peer = integer_of(operation.peer);
      if (operation.op.is_string() && operation.op.text() == "isend" && peer && *peer != rank) {
        return peer;
      }
    }
  } else if (contains(node.name, ".send.") || contains(node.name, ".isend.")) {
    return integer_of(node.entry.find("input_kwargs").find("dst").find("value"));
  }
  return std::nullopt;
}

std::string shown(const std::vector<std::int64_t>& group) {
  std::string text = "[";
  for (std::size_t k = 0; k < group.size() && k < 16; ++k) {
    text += (k == 0 ? "" : ", ") + std::to_string(group[k]);
  }
  return text + (group.size() > 16 ? ", ...]" : "]");
}

}  // namespace

GroupHint group_hint(const Graph& graph, std::int64_t rank) {
  GroupHint hint;
  bool reduced = false;
  for (const Node& node : graph.nodes) {
    if (!reduced && (contains(node.name, "reduce_scatter") || contains(node.name, "all_reduce"))) {
      reduced = true;
      hint.reduce_group = ranks_of(node.entry.find("input_kwargs").find("group").find("group_ranks"));
    }
    if (!hint.successor && node.name.starts_with("Distributed.")) {
      hint.successor = successor_of(node, rank);
    }
    if (reduced && hint.successor) {
      break;
    }
  }
  return hint;
}

RankGroups tp_groups_of(const std::map<std::int64_t, GroupHint>& hints, const RankGrid& grid, std::vector<std::string>& warnings) {
  RankGroups groups;
  for (const auto& [rank, hint] : hints) {
    if (hint.reduce_group && std::find(groups.begin(), groups.end(), *hint.reduce_group) == groups.end()) {
      groups.push_back(*hint.reduce_group);
    }
  }
  const std::int64_t wanted = grid.size(Dimension::tp);
  if (!groups.empty() && static_cast<std::int64_t>(groups.front().size()) != wanted) {
    warnings.push_back("the first reduction in the dumps is over the ranks " + shown(groups.front()) + ", which are not " +
                       std::to_string(wanted) + "; the tensor-parallel groups follow from --order");
    groups.clear();
  }
  return groups.empty() ? grid.groups(Dimension::tp) : groups;
}

RankGroups trace_chains(const std::map<std::int64_t, std::int64_t>& successors) {
  RankGroups chains;
  std::set<std::int64_t> visited;
  for (const auto& [first, unused] : successors) {
    std::vector<std::int64_t> chain;
    std::int64_t at = first;
    for (auto next = successors.find(at); next != successors.end() && visited.insert(at).second; next = successors.find(at)) {
      chain.push_back(at);
      at = next->second;
    }
    if (!chain.empty()) {
      chains.push_back(std::move(chain));
    }
  }
  return chains;
}

RankGroups pp_groups_of(const std::map<std::int64_t, GroupHint>& hints, const RankGrid& grid, std::vector<std::string>& warnings) {
  std::map<std::int64_t, std::int64_t> successors;
  for (const auto& [rank, hint] : hints) {
    if (hint.successor) {
      successors[rank] = *hint.successor;
    }
  }
  RankGroups chains = trace_chains(successors);
  const std::int64_t wanted = grid.size(Dimension::pp);
  if (!chains.empty() && static_cast<std::int64_t>(chains.front().size()) != wanted) {
    warnings.push_back("the sends in the dumps join the ranks " + shown(chains.front()) + ", which are not " + std::to_string(wanted) +
                       "; the pipeline groups follow from --order");
    chains.clear();
  }
  return chains.empty() ? grid.groups(Dimension::pp) : chains;
}

std::vector<std::string> group_contradictions(const std::map<std::int64_t, GroupHint>& hints, const RankGrid& grid) {
  std::vector<std::string> sentences;
  const RankGroups tp = grid.groups(Dimension::tp);
  for (const auto& [rank, hint] : hints) {
    if (grid.size(Dimension::tp) == 1 || !hint.reduce_group ||
        static_cast<std::int64_t>(hint.reduce_group->size()) != grid.size(Dimension::tp)) {
      continue;
    }
    std::vector<std::int64_t> told = *hint.reduce_group;
    std::sort(told.begin(), told.end());
    const auto same = [&told](std::vector<std::int64_t> group) {
      std::sort(group.begin(), group.end());
      return group == told;
    };
    if (std::none_of(tp.begin(), tp.end(), same)) {
      sentences.push_back("the first reduction of rank " + std::to_string(rank) + " is over the ranks " + shown(*hint.reduce_group) +
                          ", which is no tensor-parallel group by --order; if other ranks share its tensors, give the --order of the job");
      break;
    }
  }
  for (const auto& [rank, hint] : hints) {
    if (grid.size(Dimension::pp) == 1 || !hint.successor || *hint.successor < 0 || *hint.successor >= grid.ranks()) {
      continue;
    }
    Coordinates own = grid.coordinates(rank);
    Coordinates other = grid.coordinates(*hint.successor);
    const auto pp = static_cast<std::size_t>(Dimension::pp);
    own[pp] = other[pp] = 0;
    if (own != other) {
      sentences.push_back("the first send of rank " + std::to_string(rank) + " goes to rank " + std::to_string(*hint.successor) +
                          ", which is not in its pipeline by --order; give the --order of the job");
      break;
    }
  }
  return sentences;
}

}  // namespace msvis
