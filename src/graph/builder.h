// Steps of build_graph, in the order in which they run.
#pragma once

#include <string_view>

#include "msvis/graph.h"

namespace msvis {

/// Appends an unattached child at the end of a parent's children.
void append_child(Graph& graph, std::uint32_t parent, std::uint32_t child);
/// Replaces the list of children of a parent; sets their parent.
void set_children(Graph& graph, std::uint32_t parent, const std::vector<std::uint32_t>& children);

/// Sets Graph::order and lost_nodes from the tree.
void number_nodes(Graph& graph);

/// Moves re-executed forward modules below the backward node of the module that holds the original (graph rules, 6.1).
void move_recomputed(Graph& graph);
/// Gathers runs of APIs among the root's children (6.2).
void collect_apis(Graph& graph);

}  // namespace msvis
