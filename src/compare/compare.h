// Steps of the comparison of one pair of graphs (comparison rules, sections 2, 5 to 8).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "msvis/compare.h"

namespace msvis {

/// Pairs the items of two matched nodes into rows, without metrics (section 5).
std::vector<Row> pair_items(const Graph& target, const Node& target_node, const Graph& golden, const Node& golden_node, Compat compat);

/// Fills the cells of statistics mode (section 7.1).
void fill_statistics(std::span<Row> rows, const Graph& target, const Graph& golden);

/// What the checkers of one run depend on.
struct CheckRules {
  CompareMode mode = CompareMode::summary;
  Compat compat = Compat::standard;
  bool cross_framework = false;  ///< dtypes are compared by canonical name (Compat::standard)
  bool merged = false;           ///< names of APIs may have a rank; shapes of the reference are those of a shard (merge rules, 10.5)
};

/// Runs the checkers of the mode over the rows of one node and sets its precision index (section 8).
void check_node(NodeRows& node, Graph& target, const Graph& golden, const CheckRules& rules);

/// Sets the precision index of API collections from their children (section 8.6).
void aggregate_collections(Graph& target);

/// Statistics, md5 and structure comparison of two graphs whose links are set: rows, verdicts, indices. In tensor mode rows are paired but
/// have no cells yet and nothing is checked: the caller fills them and calls finish_tensor_comparison.
Comparison compare_graphs(Graph& target, const Graph& golden, CompareMode mode, Compat compat);

/// Tensor mode, after all cells are there: verdicts, indices, collections.
void finish_tensor_comparison(Comparison& comparison, Graph& target, const Graph& golden, Compat compat);

/// Whether the two dumps come from different frameworks (section 1.5, D1; an undetectable one counts as PyTorch).
bool cross_framework(const Dump& target, const Dump& golden);

}  // namespace msvis
