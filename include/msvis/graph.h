// The module/API graph of one dump: flat vectors, 32-bit indices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "msvis/dump.h"
#include "msvis/items.h"
#include "msvis/options.h"
#include "msvis/tensor_parts.h"

namespace msvis {

struct UnresolvedEntry;

inline constexpr std::uint32_t no_node = UINT32_MAX;
inline constexpr std::string_view root_name = "DefaultModel";

/// Values are those of the column node_type.
enum class NodeType : std::uint8_t { module = 0, function_api = 1, api_collection = 9 };
/// Column precision_index: none is NULL, the others 0, 0.5, 1. Ordered from good to bad.
enum class Precision : std::uint8_t { none, pass, warning, error };
/// Column overflow_level, ordered from good to bad; none is NULL.
enum class Overflow : std::uint8_t { none, medium, high, critical };

/// One operation of a `batch_isend_irecv` node; members are null values where the dump has none.
struct BatchOperation {
  JsonValue op;
  JsonValue peer;
  JsonValue group_id;
};

struct Node {
  std::string_view name;
  std::uint32_t parent = no_node;
  std::uint32_t first_child = no_node;
  std::uint32_t last_child = no_node;
  std::uint32_t next_sibling = no_node;
  std::uint32_t inputs_begin = 0;   ///< items of input_data: [inputs_begin, outputs_begin) of Graph::items
  std::uint32_t outputs_begin = 0;  ///< items of output_data: [outputs_begin, items_end)
  std::uint32_t items_end = 0;
  std::uint32_t link = no_node;  ///< matched node of the other graph
  std::int64_t micro_step = -1;  ///< -1: none (written as 0)
  JsonValue entry;               ///< its member of `data`; absent if there is none
  JsonValue stack;               ///< always present; an empty array if there is none
  NodeType type = NodeType::module;
  Precision precision = Precision::none;
  Overflow overflow = Overflow::none;
};

/// Owns the dump it was built from. Node 0 is the root. Not copyable; views stay valid when moved.
struct Graph {
  Dump dump;
  JsonPool pool;
  std::vector<Node> nodes;  ///< in creation order
  std::vector<Item> items;
  std::vector<std::uint32_t> order;  ///< node indices by node_order (post-order, root last); only reachable nodes
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  std::vector<std::string> warnings;    ///< dangling parents, cycles; one sentence each
  std::uint64_t lost_nodes = 0;         ///< unreachable nodes (Compat::reference)
  bool merged = false;                  ///< folded from the ranks of a replica; only then:
  std::vector<JsonDocument> documents;  ///< hold values of nodes and items
  /// By node: name by which it finds its partner, where its own holds a rank number that the other side need not have.
  std::unordered_map<std::uint32_t, std::string> match_names;
  std::unordered_set<std::uint32_t> moved;                                 ///< nodes that the dump has not under their name
  std::unordered_map<std::uint32_t, std::vector<std::string>> merge_info;  ///< by node: how its data were merged, a sentence each
  /// By item: what merging could not tell from the ranks alone (src/merge/resolve.h).
  std::unordered_map<std::uint32_t, std::shared_ptr<const UnresolvedEntry>> unresolved;
  std::unordered_set<std::uint32_t> merged_items;  ///< items that are not as the first rank has them
  std::unordered_map<std::uint32_t, std::shared_ptr<const TensorParts>>
      tensor_parts;  ///< by item: where its elements are; else in one file of the dump

  [[nodiscard]] std::uint32_t find(std::string_view name) const;
  /// From the root to the parent of a node; empty for the root and for a node above which the parents form a cycle.
  [[nodiscard]] std::vector<std::uint32_t> ancestors(std::uint32_t node) const;
  /// Direct children in order.
  [[nodiscard]] std::vector<std::uint32_t> children(std::uint32_t node) const;
};

/// Builds the graph of a dump (graph rules, sections 3 to 6), with node_order. Throws Error (format).
Graph build_graph(Dump dump, Compat compat);

/// Text of the column overflow_level: medium, high, critical; empty for none.
std::string_view overflow_text(Overflow overflow);

/// Type of a node by the beginning of its name.
NodeType node_type_of(std::string_view name);

/// Operations of a batch_isend_irecv node from its entry; empty for all others.
std::vector<BatchOperation> batch_operations(std::string_view name, JsonValue entry);

/// Sets the micro steps of a graph and, if given, of its matched partner (graph rules, 7.2; links must be set). Returns the number of micro
/// steps, >= 1.
std::int64_t assign_micro_steps(Graph& target, Graph* golden, Compat compat);

}  // namespace msvis
