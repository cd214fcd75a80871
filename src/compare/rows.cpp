// Pairing of the items of two matched nodes, and the cells of statistics mode.
#include <algorithm>
#include <array>

#include "compare/compare.h"
#include "compare/numbers.h"

namespace msvis {
namespace {

constexpr std::array<ItemState, 4> group_order{ItemState::input, ItemState::parameters, ItemState::output, ItemState::parameters_grad};

/// The items of a node: of each state the indices in stored order, and where each group's slice of the stored order starts.
struct Groups {
  std::array<std::vector<std::uint32_t>, group_order.size()> members;
  std::array<std::uint32_t, group_order.size()> slice{};

  Groups(const Graph& graph, const Node& node) {
    for (std::uint32_t index = node.inputs_begin; index < node.items_end; ++index) {
      const auto place = std::find(group_order.begin(), group_order.end(), graph.items[index].state);
      if (place != group_order.end()) {
        members[static_cast<std::size_t>(place - group_order.begin())].push_back(index);
      }
    }
    std::uint32_t start = node.inputs_begin;
    for (std::size_t group = 0; group < group_order.size(); ++group) {
      slice[group] = start;
      start += static_cast<std::uint32_t>(members[group].size());
    }
  }
};

}  // namespace

std::vector<Row> pair_items(const Graph& target, const Node& target_node, const Graph& golden, const Node& golden_node, Compat compat) {
  const Groups ours(target, target_node);
  const Groups theirs(golden, golden_node);
  std::vector<Row> rows;
  for (std::size_t group = 0; group < group_order.size(); ++group) {
    for (std::uint32_t k = 0; k < ours.members[group].size(); ++k) {
      Row row;
      row.target_fact = ours.members[group][k];
      // Names and statistics of the reference come from a slice of the stored order, which may disagree with the states
      // when a module path contains `.input.` or `.output.`.
      row.target_item = compat == Compat::reference ? ours.slice[group] + k : row.target_fact;
      if (k < theirs.members[group].size()) {
        row.golden_fact = theirs.members[group][k];
        row.golden_item = compat == Compat::reference ? theirs.slice[group] + k : row.golden_fact;
        row.requires_grad_consistent =
            equal_values(target.items[row.target_item].requires_grad, golden.items[row.golden_item].requires_grad);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

void fill_statistics(std::span<Row> rows, const Graph& target, const Graph& golden) {
  constexpr std::size_t count = 4;
  for (Row& row : rows) {
    row.cells.assign(2 * count, Cell::of_blank());
    if (row.golden_item == no_node) {
      continue;
    }
    for (std::size_t statistic = 0; statistic < count; ++statistic) {
      auto [difference, relative] =
          compare_statistics(target.items[row.target_item].stats[statistic], golden.items[row.golden_item].stats[statistic]);
      row.cells[statistic] = std::move(difference);
      row.cells[count + statistic] = std::move(relative);
    }
  }
}

}  // namespace msvis
