#include "match/match.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "match/record_scope.h"
#include "match/translation.h"
#include "msvis/error.h"

namespace msvis {
namespace {

void reset_links(Graph& graph) {
  for (Node& node : graph.nodes) {
    node.link = no_node;
  }
}

void link(Graph& target, std::uint32_t target_node, Graph& golden, std::uint32_t golden_node) {
  target.nodes[target_node].link = golden_node;
  golden.nodes[golden_node].link = target_node;
}

/// Visits the nodes that hang below the root, breadth-first, children in order.
template <typename Visit>
void walk(const Graph& graph, Visit&& visit) {
  if (graph.nodes.empty()) {
    return;
  }
  std::deque<std::uint32_t> waiting{0};
  while (!waiting.empty()) {
    const std::uint32_t node = waiting.front();
    waiting.pop_front();
    visit(node);
    for (std::uint32_t child = graph.nodes[node].first_child; child != no_node; child = graph.nodes[child].next_sibling) {
      waiting.push_back(child);
    }
  }
}

std::uint32_t find_node(const Graph& graph, std::string_view name) {
  const auto found = graph.by_name.find(name);
  return found == graph.by_name.end() ? no_node : found->second;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) {
    ++at;
  }
  return at;
}

/// A name without its call numbers and rank suffixes.
std::string name_without_counts(std::string_view name) {
  std::string without_calls;
  for (std::size_t at = 0; at < name.size();) {
    without_calls += name[at];
    const std::size_t end = name[at] == '.' ? skip_digits(name, at + 1) : at + 1;
    const bool number = end > at + 1 && end < name.size() && name[end] == '.';
    at = number ? end + 1 : at + 1;  // the dot behind the number does not begin another number
  }
  constexpr std::string_view rank = "_rank";
  std::string key;
  for (std::size_t at = 0; at < without_calls.size();) {
    if (std::string_view(without_calls).substr(at).starts_with(rank)) {
      const std::size_t end = skip_digits(without_calls, at + rank.size());
      if (end > at + rank.size()) {
        at = end;
        continue;
      }
    }
    key += without_calls[at++];
  }
  return key;
}

/// API children of a node by name without counts and number of occurrence. Where two children get the same key the later one stands.
std::unordered_map<std::string, std::uint32_t> api_children(const Graph& graph, std::uint32_t parent) {
  std::unordered_map<std::string, std::uint32_t> by_key;
  std::unordered_map<std::string, std::uint64_t> occurrences;
  for (std::uint32_t child = graph.nodes[parent].first_child; child != no_node; child = graph.nodes[child].next_sibling) {
    if (graph.nodes[child].type == NodeType::function_api) {
      std::string key = name_without_counts(graph.nodes[child].name);
      const std::uint64_t occurrence = ++occurrences[key];
      by_key.insert_or_assign(key + std::to_string(occurrence), child);
    }
  }
  return by_key;
}

using NameMap = std::unordered_map<std::string_view, std::string_view>;

/// Golden name by target record; empty if there is none.
NameMap map_records(const Graph& target, const Graph& golden, const LayerMapping& mapping, Compat compat, MappingUsage* usage) {
  const std::vector<RecordScope> target_records = record_scopes(target.dump, compat);
  const std::vector<RecordScope> golden_records = record_scopes(golden.dump, compat);
  const ScopeTree target_tree(target_records);
  const ScopeTree golden_tree(golden_records);
  const Translator translator(target_records, target_tree, golden_tree, mapping);
  NameMap names;
  names.reserve(target_records.size());
  std::vector<Translator::Applied> applied;
  for (std::size_t record = 0; record < target_records.size(); ++record) {
    const std::uint32_t partner = translator.translate(record, applied);
    names.emplace(target_records[record].name, partner == no_node ? std::string_view{} : golden_records[partner].name);
    if (usage != nullptr) {
      for (const auto& [class_name, rule] : applied) {
        MappingUsage::Count& count = usage->counts_by_class.find(class_name)->second[rule];
        ++count.applied;
        count.matched += partner == no_node ? 0 : 1;
      }
    }
  }
  return names;
}

}  // namespace

void MappingUsage::add(const MappingUsage& other) {
  for (const auto& [class_name, counts] : other.counts_by_class) {
    std::vector<Count>& sums = counts_by_class[class_name];
    sums.resize(std::max(sums.size(), counts.size()));
    for (std::size_t rule = 0; rule < counts.size(); ++rule) {
      sums[rule].applied += counts[rule].applied;
      sums[rule].matched += counts[rule].matched;
    }
  }
}

void match_exact(Graph& target, Graph& golden) {
  reset_links(target);
  reset_links(golden);
  if (golden.nodes.empty()) {
    return;
  }
  // Names are unique in a graph, so equal ancestors means: the parents are partners.
  walk(target, [&](std::uint32_t node) {
    if (node == 0) {
      link(target, 0, golden, 0);
      return;
    }
    const std::uint32_t parent_link = target.nodes[target.nodes[node].parent].link;
    if (parent_link == no_node) {
      return;
    }
    const std::uint32_t partner = find_node(golden, target.nodes[node].name);
    if (partner != no_node && golden.nodes[partner].parent == parent_link) {
      link(target, node, golden, partner);
    }
  });
}

void match_fuzzy(Graph& target, Graph& golden) {
  reset_links(target);
  reset_links(golden);
  std::unordered_map<std::string_view, std::uint32_t> golden_by_match_name;
  for (const auto& [node, name] : golden.match_names) {
    golden_by_match_name.emplace(name, node);
  }
  const auto partner_of = [&](std::uint32_t node) {
    const auto own = target.match_names.find(node);
    if (own == target.match_names.end()) {
      return find_node(golden, target.nodes[node].name);
    }
    const auto found = golden_by_match_name.find(own->second);
    return found == golden_by_match_name.end() ? no_node : found->second;
  };
  walk(target, [&](std::uint32_t node) {
    if (target.nodes[node].type == NodeType::function_api) {
      return;
    }
    const std::uint32_t partner = partner_of(node);
    if (partner == no_node) {
      return;
    }
    link(target, node, golden, partner);
    const auto golden_children = api_children(golden, partner);
    for (const auto& [key, child] : api_children(target, node)) {
      if (const auto found = golden_children.find(key); found != golden_children.end()) {
        link(target, child, golden, found->second);
      }
    }
  });
}

void match_by_name(Graph& target, Graph& golden) {
  reset_links(target);
  reset_links(golden);
  walk(target, [&](std::uint32_t node) {
    if (const std::uint32_t partner = find_node(golden, target.nodes[node].name); partner != no_node) {
      link(target, node, golden, partner);
    }
  });
}

void match_mapped(Graph& target, Graph& golden, const LayerMapping& mapping, Compat compat, std::vector<std::string>& warnings,
                  MappingUsage* usage) {
  reset_links(target);
  reset_links(golden);
  MappingUsage counts;
  for (const auto& [class_name, rules] : mapping.rules_by_class) {
    counts.counts_by_class[class_name].resize(rules.size());
  }
  NameMap names;
  try {
    names = map_records(target, golden, mapping, compat, usage == nullptr ? nullptr : &counts);
  } catch (const Error& error) {
    warnings.push_back(std::string("layer mapping is not applied, nodes are matched by equal names: ") + error.what());
  }
  if (usage != nullptr) {
    usage->add(counts);
  }
  walk(target, [&](std::uint32_t node) {
    std::string_view wanted = target.nodes[node].name;
    if (const auto found = names.find(wanted); found != names.end()) {
      if (found->second.empty()) {
        return;
      }
      wanted = found->second;
    }
    if (const std::uint32_t partner = find_node(golden, wanted); partner != no_node) {
      link(target, node, golden, partner);
    }
  });
}

}  // namespace msvis
