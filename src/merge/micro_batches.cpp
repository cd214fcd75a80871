#include "merge/micro_batches.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/names.h"
#include "merge/names.h"

namespace msvis {
namespace {

struct Call {
  std::string_view base;  ///< the name without the number
  std::int64_t number = 0;
};

std::optional<Call> call_of(std::string_view name) {
  constexpr std::size_t most_digits = 9;
  for (const std::string_view direction : {"forward", "backward"}) {
    if (const ModuleCall call = split_module_call(name, direction); call && call.number.size() <= most_digits) {
      Call found{name.substr(0, name.size() - call.number.size()), 0};
      std::from_chars(call.number.data(), call.number.data() + call.number.size(), found.number);
      return found;
    }
  }
  return std::nullopt;
}

std::vector<std::uint32_t> tree_of(const Forest& forest, std::uint32_t top) {
  std::vector<std::uint32_t> found;
  std::vector<std::uint32_t> waiting{top};
  while (!waiting.empty()) {
    const std::uint32_t at = waiting.back();
    waiting.pop_back();
    found.push_back(at);
    waiting.insert(waiting.end(), forest.nodes[at].children.rbegin(), forest.nodes[at].children.rend());
  }
  return found;
}

/// Gives the tables of a rank anew from its tree.
void set_names(Forest& forest, std::uint32_t rank, const std::vector<std::pair<std::uint32_t, std::string>>& names) {
  for (const auto& [index, name] : names) {
    forest.nodes[index].name = forest.texts.id(name);
  }
  TreeRank& tables = forest.ranks[rank];
  tables.created = tree_of(forest, tables.root);
  tables.by_name.clear();
  for (const std::uint32_t index : tables.created) {
    tables.by_name.emplace(forest.nodes[index].name, index);
  }
}

}  // namespace

void number_micro_batches(Forest& forest, std::uint32_t rank, std::int64_t replica, std::int64_t replicas) {
  std::unordered_map<std::string_view, std::set<std::int64_t>> calls;
  const std::vector<std::uint32_t> nodes = tree_of(forest, forest.ranks[rank].root);
  for (const std::uint32_t index : nodes) {
    if (forest.nodes[index].type == NodeType::module) {
      if (const auto call = call_of(forest.name(index))) {
        calls[call->base].insert(call->number);
      }
    }
  }
  std::size_t micro_batches = 0;
  for (const std::uint32_t child : forest.nodes[forest.ranks[rank].root].children) {
    if (const auto call = call_of(forest.name(child)); call && forest.nodes[child].type == NodeType::module) {
      micro_batches = std::max(micro_batches, calls.at(call->base).size());
    }
  }
  std::vector<std::pair<std::uint32_t, std::string>> names;
  for (const std::uint32_t index : nodes) {
    const auto call = forest.nodes[index].type == NodeType::module ? call_of(forest.name(index)) : std::nullopt;
    if (!call || micro_batches == 0) {
      continue;
    }
    const std::size_t count = calls.at(call->base).size();
    const auto each = static_cast<std::int64_t>(count % micro_batches == 0 ? count / micro_batches : 1);
    const std::int64_t micro_batch = call->number / each * replicas + replica;
    names.emplace_back(index, std::string(call->base) + std::to_string(micro_batch * each + call->number % each));
  }
  set_names(forest, rank, names);
}

void keep_micro_batches(Forest& forest, std::uint32_t rank, std::int64_t replica, std::int64_t replicas) {
  auto& children = forest.nodes[forest.ranks[rank].root].children;
  std::erase_if(children, [&](std::uint32_t child) {
    const auto call = forest.nodes[child].type == NodeType::module ? call_of(forest.name(child)) : std::nullopt;
    return call && call->number % replicas != replica;
  });
  set_names(forest, rank, {});
}

void join_replicas(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others) {
  const std::uint32_t root = forest.ranks[main].root;
  for (const std::uint32_t other : others) {
    const std::int64_t number = forest.ranks[other].rank;
    const std::vector<std::uint32_t> children = forest.nodes[forest.ranks[other].root].children;
    for (const std::uint32_t child : children) {
      const std::uint32_t same = forest.find(main, forest.nodes[child].name);
      const bool collection = forest.nodes[child].type == NodeType::api_collection;
      for (const std::uint32_t index : tree_of(forest, child)) {
        const std::string name(forest.name(index));
        const bool taken = forest.find(main, forest.nodes[index].name) != no_node;
        forest.rename(main, index, taken && !(collection && index == child) && !find_rank_suffix(name) ? with_rank(name, number) : name);
      }
      if (collection && same != no_node) {
        for (const std::uint32_t of_rank : forest.nodes[child].children) {
          forest.append_child(same, of_rank);
        }
        forest.ranks[main].by_name[forest.nodes[same].name] = same;
      } else {
        forest.append_child(root, child);
      }
    }
  }
  // Runs of one direction follow each other in the order of the micro-batches; the rest keeps its place.
  auto& children = forest.nodes[root].children;
  const auto key = [&](std::uint32_t child) {
    const auto call = forest.nodes[child].type == NodeType::module ? call_of(forest.name(child)) : std::nullopt;
    return call ? call->number : std::int64_t{-1};
  };
  std::vector<std::uint32_t> calls;
  for (const std::uint32_t child : children) {
    if (key(child) >= 0) {
      calls.push_back(child);
    }
  }
  std::stable_sort(calls.begin(), calls.end(), [&](std::uint32_t left, std::uint32_t right) { return key(left) < key(right); });
  std::size_t next = 0;
  for (std::uint32_t& child : children) {
    if (key(child) >= 0) {
      child = calls[next++];
    }
  }
  set_names(forest, main, {});
}

}  // namespace msvis
