#include "compare/compare.h"

#include <utility>

namespace msvis {
namespace {

CheckRules rules_for(CompareMode mode, Compat compat, const Graph& target, const Graph& golden) {
  return {mode, compat, cross_framework(target.dump, golden.dump), target.merged || golden.merged};
}

/// Items of the golden node beyond those that have a counterpart; they give no row.
std::uint64_t surplus(const Node& golden_node, const std::vector<Row>& rows) {
  std::uint64_t paired = 0;
  for (const Row& row : rows) {
    paired += row.golden_item == no_node ? 0U : 1U;
  }
  return golden_node.items_end - golden_node.inputs_begin - paired;
}

}  // namespace

Comparison compare_graphs(Graph& target, const Graph& golden, CompareMode mode, Compat compat) {
  Comparison comparison;
  comparison.mode = mode;
  const CheckRules rules = rules_for(mode, compat, target, golden);
  std::vector<std::uint32_t> queue{0};  // breadth first
  queue.reserve(target.order.size());
  for (std::size_t at = 0; at < queue.size(); ++at) {
    const std::uint32_t index = queue[at];
    for (std::uint32_t child = target.nodes[index].first_child; child != no_node; child = target.nodes[child].next_sibling) {
      queue.push_back(child);
    }
    const Node& node = target.nodes[index];
    if (node.link == no_node || mode == CompareMode::structure) {
      continue;
    }
    NodeRows rows{index, pair_items(target, node, golden, golden.nodes[node.link], compat)};
    comparison.golden_only_items += surplus(golden.nodes[node.link], rows.rows);
    if (rows.rows.empty()) {
      continue;
    }
    if (mode == CompareMode::summary) {
      fill_statistics(rows.rows, target, golden);
    }
    if (mode != CompareMode::tensor) {
      check_node(rows, target, golden, rules);
    }
    comparison.rows.push_back(std::move(rows));
  }
  if (mode != CompareMode::tensor || compat == Compat::reference) {
    // In tensor mode the reference does this before there are metrics, so that its collections are always 0.
    aggregate_collections(target);
  }
  return comparison;
}

void finish_tensor_comparison(Comparison& comparison, Graph& target, const Graph& golden, Compat compat) {
  const CheckRules rules = rules_for(comparison.mode, compat, target, golden);
  for (NodeRows& node : comparison.rows) {
    check_node(node, target, golden, rules);
  }
  if (compat == Compat::standard) {
    aggregate_collections(target);
  }
}

}  // namespace msvis
