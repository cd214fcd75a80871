// Which row of a node's comparison belongs to which of its items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msvis/compare.h"

namespace msvis {

/// Rows of one node by the full name of the item that they name. Buffers are reused from node to node.
class RowsByName {
 public:
  /// `rows` may be null: the node has none.
  void set(const Graph& graph, const NodeRows* rows) {
    names_.clear();
    by_name_.clear();
    if (rows == nullptr) {
      return;
    }
    for (const Row& row : rows->rows) {
      names_.emplace_back(graph.items.at(row.target_item).full_name, &row);
    }
    if (names_.size() > few_rows) {
      for (const auto& [name, row] : names_) {
        by_name_[name] = row;  // the last row of a name wins
      }
    }
  }

  /// The row of the item with this key; null if there is none.
  [[nodiscard]] const Row* find(std::string_view key) const {
    if (names_.size() > few_rows) {
      const auto found = by_name_.find(key);
      return found == by_name_.end() ? nullptr : found->second;
    }
    const auto last = std::find_if(names_.rbegin(), names_.rend(), [&](const auto& named) { return named.first == key; });
    return last == names_.rend() ? nullptr : last->second;
  }

 private:
  static constexpr std::size_t few_rows = 16;
  std::vector<std::pair<std::string_view, const Row*>> names_;
  std::unordered_map<std::string_view, const Row*> by_name_;
};

/// The rows of a comparison by node of the target; null where a node has none.
inline std::vector<const NodeRows*> rows_by_node(const Graph& target, const Comparison& comparison) {
  std::vector<const NodeRows*> rows_of(target.nodes.size(), nullptr);
  for (const NodeRows& rows : comparison.rows) {
    rows_of.at(rows.node) = &rows;
  }
  return rows_of;
}

}  // namespace msvis
