// Re-execution of activations, and collections of APIs between modules.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "graph/builder.h"
#include "graph/names.h"

namespace msvis {
namespace {

struct Frame {
  std::string_view path;
  std::string_view function;
};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\f\v");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t\r\n\f\v") - first + 1);
}

/// `File <path>, line <n>, in <function>, ...`; false if a part is missing.
bool parse_frame(std::string_view text, Frame& frame) {
  const std::size_t line = text.find(", line ");
  if (line == std::string_view::npos) {
    return false;
  }
  const std::size_t in = text.find(", in ", line);
  if (in == std::string_view::npos) {
    return false;
  }
  frame.path = text.substr(0, line);
  if (frame.path.starts_with("File ")) {
    frame.path.remove_prefix(5);
  }
  frame.path = trimmed(frame.path);
  const std::string_view rest = text.substr(in + 5);
  frame.function = trimmed(rest.substr(0, rest.find(',')));
  return true;
}

/// Whether a call stack is that of a re-executed forward pass (graph rules, 6.1).
bool says_recompute(JsonValue stack) {
  std::vector<Frame> frames;
  for (const JsonValue line : stack.elements()) {
    Frame frame;
    if (line.is_string() && parse_frame(line.text(), frame)) {
      frames.push_back(frame);
    }
  }
  for (std::size_t k = 0; k < frames.size(); ++k) {
    const Frame& frame = frames[k];
    if (frame.function == "recompute_fn" && frame.path.ends_with("torch/utils/checkpoint.py")) {
      return true;
    }
    if (frame.function == "backward" ||
        (frame.function == "checkpoint_function_backward" && frame.path.find("megatron") != std::string_view::npos)) {
      for (std::size_t next = k + 1; next < std::min(k + 3, frames.size()); ++next) {
        if (frames[next].path.ends_with("torch/autograd/function.py")) {
          return true;
        }
      }
    }
  }
  return false;
}

/// Names of inner modules are longer than those of a model's top (the numbers are list indices).
bool looks_nested(const std::vector<std::string_view>& fields) {
  if (fields.size() > 7) {
    return true;
  }
  if (fields.size() == 7) {
    return !(all_digits(fields[1]) && all_digits(fields[3]));
  }
  return fields.size() == 6 && !all_digits(fields[1]);
}

std::string opposite(std::string_view name) {
  return split_module_call(name, "forward") ? with_direction(name, "forward", "backward") : with_direction(name, "backward", "forward");
}

bool is_above(const Graph& graph, std::uint32_t candidate, std::uint32_t node) {
  std::size_t steps = 0;
  for (std::uint32_t at = node; at != no_node && steps <= graph.nodes.size(); at = graph.nodes[at].parent, ++steps) {
    if (at == candidate) {
      return true;
    }
  }
  return false;
}

}  // namespace

void move_recomputed(Graph& graph) {
  const bool needs_stack = graph.dump.framework.empty() || graph.dump.framework == "pytorch";
  std::vector<std::uint32_t> candidates;
  std::unordered_set<std::string> twins;
  const std::vector<std::uint32_t> top = graph.children(0);
  for (const std::uint32_t index : top) {
    const Node& node = graph.nodes[index];
    if (node.type != NodeType::module) {
      continue;
    }
    if (needs_stack && !says_recompute(graph.dump.stack(with_direction(node.name, "backward", "forward")))) {
      continue;
    }
    if (twins.contains(std::string(node.name))) {
      candidates.push_back(index);
      continue;
    }
    if (!looks_nested(split_fields(node.name))) {
      continue;
    }
    const std::string twin = opposite(node.name);
    const std::uint32_t twin_index = graph.find(twin);
    if (twin != node.name && twin_index != no_node && graph.nodes[twin_index].parent == 0) {
      candidates.push_back(index);
      twins.insert(twin);
    }
  }
  if (candidates.empty()) {
    return;
  }

  std::unordered_map<std::string_view, std::vector<std::uint32_t>> originals;
  for (const std::uint32_t index : candidates) {
    originals.try_emplace(drop_fields(graph.nodes[index].name, 2));
  }
  for (std::uint32_t index = 0; index < graph.nodes.size(); ++index) {
    const Node& node = graph.nodes[index];
    const ModuleCall call = split_module_call(node.name, "forward");
    if (node.type == NodeType::module && call && node.parent != no_node && node.parent != 0) {
      const auto list = originals.find(call.base);
      if (list != originals.end()) {
        list->second.push_back(index);
      }
    }
  }

  struct Used {
    std::size_t forward = 0;
    std::size_t backward = 0;
  };
  std::unordered_map<std::string_view, Used> used;
  std::unordered_set<std::uint32_t> moved;
  for (const std::uint32_t index : candidates) {
    const std::string_view name = graph.nodes[index].name;
    const std::string_view prefix = drop_fields(name, 2);
    std::size_t& next = split_module_call(name, "forward") ? used[prefix].forward : used[prefix].backward;
    const std::vector<std::uint32_t>& list = originals[prefix];
    if (next >= list.size()) {
      continue;
    }
    const std::uint32_t original_parent = graph.nodes[list[next++]].parent;
    const std::uint32_t target = graph.find(with_direction(graph.nodes[original_parent].name, "forward", "backward"));
    if (target == no_node || is_above(graph, index, target)) {
      continue;
    }
    moved.insert(index);
    append_child(graph, target, index);
  }
  if (moved.empty()) {
    return;
  }
  // append_child changed the sibling links of what it moved, so the root's list is made anew from the copy.
  std::vector<std::uint32_t> stay;
  for (const std::uint32_t index : top) {
    if (!moved.contains(index)) {
      stay.push_back(index);
    }
  }
  set_children(graph, 0, stay);
}

void collect_apis(Graph& graph) {
  const std::vector<std::uint32_t> top = graph.children(0);
  std::vector<std::uint32_t> kept;
  std::uint64_t number = 0;
  for (std::size_t k = 0; k < top.size();) {
    std::size_t end = k;
    while (end < top.size() && graph.nodes[top[end]].type == NodeType::function_api) {
      ++end;
    }
    if (end - k < 2) {
      kept.push_back(top[k++]);
      continue;
    }
    std::string name = "Apis_Between_Modules." + std::to_string(number++);
    while (graph.find(name) != no_node) {  // a dump may hold any name
      name = "Apis_Between_Modules." + std::to_string(number++);
    }
    Node collection;
    collection.name = graph.pool.keep(name);
    collection.type = NodeType::api_collection;
    collection.micro_step = graph.nodes[top[k]].micro_step;
    collection.stack = graph.nodes[0].stack;
    const auto index = static_cast<std::uint32_t>(graph.nodes.size());
    graph.nodes.push_back(collection);
    graph.by_name.emplace(collection.name, index);
    set_children(graph, index, {top.begin() + static_cast<std::ptrdiff_t>(k), top.begin() + static_cast<std::ptrdiff_t>(end)});
    kept.push_back(index);
    k = end;
  }
  set_children(graph, 0, kept);
}

}  // namespace msvis
