// Graphs of communication calls, written by hand, and what is linked between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msvis/dump.h"
#include "msvis/graph.h"
#include "msvis/links.h"

namespace msvis {

/// A flat graph: the calls in node_order, then the root.
class HandGraph {
 public:
  HandGraph() {
    Node root;
    root.name = root_name;
    graph_.nodes.push_back(root);
    graph_.order.push_back(0);
  }

  Node& add(const std::string& name, const std::string& entry) {
    const JsonDocument& document = documents_.emplace_back(JsonDocument::parse(entry));
    Node node;
    node.name = graph_.pool.keep(name);
    node.type = NodeType::function_api;
    node.entry = document.root();
    ItemLists lists;
    build_items(node.name, node.entry, graph_.pool, lists);
    node.inputs_begin = static_cast<std::uint32_t>(graph_.items.size());
    graph_.items.insert(graph_.items.end(), lists.inputs.begin(), lists.inputs.end());
    node.outputs_begin = static_cast<std::uint32_t>(graph_.items.size());
    graph_.items.insert(graph_.items.end(), lists.outputs.begin(), lists.outputs.end());
    node.items_end = static_cast<std::uint32_t>(graph_.items.size());
    graph_.order.insert(graph_.order.end() - 1, static_cast<std::uint32_t>(graph_.nodes.size()));
    graph_.nodes.push_back(node);
    return graph_.nodes.back();
  }

  /// The next forward call of an API, numbered by itself.
  Node& call(const std::string& api, const std::string& arguments, const std::string& keywords) {
    return add("Distributed." + api + "." + std::to_string(numbers_[api]++) + ".forward",
               R"({"input_args": )" + arguments + R"(, "input_kwargs": )" + keywords + R"(, "output": []})");
  }

  Graph& graph() { return graph_; }

 private:
  std::deque<JsonDocument> documents_;
  std::map<std::string, int> numbers_;
  Graph graph_;
};

inline const std::string tensor =
    R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.5, "Mean": 0.75, "Norm": 1.1})";

inline std::string integer(const std::string& value) {
  return R"({"type": "int", "value": )" + value + "}";
}

inline std::string group(const std::string& ranks, const std::string& id = R"("g")", const std::string& type = "torch.ProcessGroup") {
  return R"({"type": ")" + type + R"(", "group_ranks": )" + ranks + R"(, "group_id": )" + id + "}";
}

inline std::string keyword(const std::string& name, const std::string& value) {
  return "{\"" + name + "\": " + value + "}";
}

inline std::string keywords(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string text = "{";
  for (const auto& [name, value] : members) {
    text += (text.size() == 1 ? "\"" : ", \"") + name + "\": " + value;
  }
  return text + "}";
}

using Ranks = std::map<std::int64_t, HandGraph>;
/// Text of the column by rank and by node without `Distributed.` and `.forward`; unlinked nodes are not in it.
using Cells = std::map<std::pair<std::int64_t, std::string>, std::string>;

inline std::string short_name(std::string_view name) {
  constexpr std::string_view prefix = "Distributed.";
  constexpr std::string_view suffix = ".forward";
  if (name.starts_with(prefix)) {
    name.remove_prefix(prefix.size());
  }
  if (name.ends_with(suffix)) {
    name.remove_suffix(suffix.size());
  }
  return std::string(name);
}

inline std::vector<LinkRecord> records_of(Ranks& ranks, const LinkOptions& options) {
  std::vector<LinkRecord> records;
  for (auto& [rank, hand] : ranks) {
    const auto more = link_records(hand.graph(), Side::target, 0, rank, options);
    records.insert(records.end(), more.begin(), more.end());
  }
  return records;
}

inline Cells cells_of(const std::vector<Link>& links) {
  Cells cells;
  for (const Link& link : links) {
    cells[{link.rank, short_name(link.name)}] = link_json(link);
  }
  return cells;
}

inline Cells link_all(Ranks& ranks, const LinkOptions& options = {}) {
  return cells_of(merge_batch_links(pair_records(records_of(ranks, options))));
}

/// The column for partners without an index.
inline std::string cell(const std::string& type, const std::vector<std::pair<int, std::string>>& partners,
                        const std::string& index = "Nan") {
  std::string text = "{\"communications_type\": \"" + type + "\", \"nodes_info\": {";
  bool first = true;
  for (const auto& [rank, name] : partners) {
    text += std::string(first ? "" : ", ") + "\"" + std::to_string(rank) + "\": [\"" + index + "\", \"Distributed." + name + ".forward\"]";
    first = false;
  }
  return text + "}}";
}

}  // namespace msvis
