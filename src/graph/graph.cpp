#include "msvis/graph.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graph/builder.h"
#include "graph/names.h"
#include "msvis/error.h"

namespace msvis {
namespace {

constexpr std::string_view missing_forward_notice =
    "The forward node of this backward node was not recorded before it, so its call stack is not known.";

/// `.` in these patterns stands for any character.
bool begins_like(std::string_view name, std::string_view pattern) {
  if (name.size() < pattern.size()) {
    return false;
  }
  return std::equal(pattern.begin(), pattern.end(), name.begin(), [](char wanted, char found) { return wanted == '.' || wanted == found; });
}

class Builder {
 public:
  Builder(Graph& graph, Compat compat) : graph_(graph), compat_(compat), no_stack_(graph.pool.string_array({})) {}

  void run() {
    add_root();
    read_construct();
    if (compat_ == Compat::standard) {
      attach_lost();
    }
    move_recomputed(graph_);
    collect_apis(graph_);
    add_parameter_gradients();
    number_nodes(graph_);
  }

 private:
  [[nodiscard]] const Dump& dump() const { return graph_.dump; }

  void add_root() {
    Node root;
    root.name = root_name;
    root.stack = no_stack_;
    graph_.nodes.push_back(root);
    graph_.by_name.emplace(root_name, 0);
  }

  [[nodiscard]] std::string_view construct_parent(std::string_view child) const {
    const auto index = dump().construct_index(child);
    return index ? dump().construct[*index].parent : std::string_view{};
  }

  [[nodiscard]] bool in_construct(std::string_view name) const { return dump().construct_index(name).has_value(); }

  /// The forward twin of a backward API, and the way back. The reference replaces the word wherever it stands in the name.
  [[nodiscard]] std::string api_twin(std::string_view name, std::string_view from, std::string_view to) const {
    if (compat_ == Compat::reference) {
      return replace_all(name, from, to);
    }
    if (name.size() > from.size() && name.ends_with(from) && name[name.size() - from.size() - 1] == '.') {
      return std::string(name.substr(0, name.size() - from.size())).append(to);
    }
    return with_direction(name, from, to);
  }

  /// Parent of a node whose construct entry has none (4.1); empty: the root.
  [[nodiscard]] std::string_view missing_parent(std::string_view child) const {
    std::string wanted;
    if (split_module_call(child, "backward")) {
      const std::string_view forward_parent = construct_parent(with_direction(child, "backward", "forward"));
      if (!forward_parent.empty()) {
        wanted = with_direction(forward_parent, "forward", "backward");
      }
    } else if (child.ends_with(".backward")) {
      const std::string_view forward_parent = construct_parent(api_twin(child, "backward", "forward"));
      if (!forward_parent.empty()) {
        wanted = api_twin(forward_parent, "forward", "backward");
      }
    }
    return construct_key(wanted);
  }

  /// The construct's own copy of a name, so that views stay valid; empty if it is no key.
  [[nodiscard]] std::string_view construct_key(std::string_view name) const {
    const auto index = name.empty() ? std::nullopt : dump().construct_index(name);
    return index ? dump().construct[*index].child : std::string_view{};
  }

  /// Corrects the parent of a backward module inside an in-place layer (4.2); empty: the root.
  [[nodiscard]] std::string_view inplace_parent(std::string_view child, std::string_view parent) const {
    if (!split_module_call(child, "backward") || count_fields(child) < 5 || count_fields(parent) < 4) {
      return parent;
    }
    if (drop_fields(child, 4) == drop_fields(parent, 3)) {
      return parent;
    }
    const auto forward = dump().construct_index(with_direction(child, "backward", "forward"));
    if (!forward) {
      return parent;
    }
    const std::string_view forward_parent = dump().construct[*forward].parent;
    if (forward_parent.empty()) {
      return {};
    }
    const std::string_view better = construct_key(with_direction(forward_parent, "forward", "backward"));
    return better.empty() ? parent : better;
  }

  [[nodiscard]] JsonValue stack_of(std::string_view name) {
    const JsonValue own = dump().stack(name);
    if (own.truthy()) {
      return own;
    }
    std::string forward;
    if (const ModuleCall call = split_module_call(name, "backward")) {
      forward = std::string(call.base) + ".forward.0";
    } else if (name.ends_with(".backward")) {
      forward = api_twin(name, "backward", "forward");
    } else {
      return own ? own : no_stack_;
    }
    const std::uint32_t twin = graph_.find(forward);
    if (twin != no_node) {
      return graph_.nodes[twin].stack;
    }
    if (!notice_) {
      const std::array<std::string, 1> text{std::string(missing_forward_notice)};
      notice_ = graph_.pool.string_array(text);
    }
    return notice_;
  }

  std::uint32_t add_node(std::string_view name, std::int64_t micro_step) {
    if (graph_.nodes.size() >= no_node) {
      throw Error(ErrorCategory::limit, "more than 4294967294 nodes", dump().directory / "construct.json");
    }
    Node node;
    node.name = name;
    node.type = node_type_of(name);
    node.micro_step = micro_step;
    node.entry = dump().entry(name);
    node.stack = no_stack_;
    build_items(name, node.entry, graph_.pool, lists_);
    if (graph_.items.size() + lists_.inputs.size() + lists_.outputs.size() >= no_node) {
      throw Error(ErrorCategory::limit, "more than 4294967294 parameters", dump().directory / "dump.json");
    }
    node.inputs_begin = static_cast<std::uint32_t>(graph_.items.size());
    graph_.items.insert(graph_.items.end(), lists_.inputs.begin(), lists_.inputs.end());
    node.outputs_begin = static_cast<std::uint32_t>(graph_.items.size());
    graph_.items.insert(graph_.items.end(), lists_.outputs.begin(), lists_.outputs.end());
    node.items_end = static_cast<std::uint32_t>(graph_.items.size());
    const auto index = static_cast<std::uint32_t>(graph_.nodes.size());
    graph_.nodes.push_back(node);
    graph_.by_name.emplace(name, index);
    return index;
  }

  std::uint32_t get_or_create(std::string_view name) {
    const std::uint32_t known = graph_.find(name);
    if (known != no_node) {
      return known;
    }
    std::int64_t micro_step = -1;
    if (dump().megatron_micro_steps) {
      const auto index = dump().construct_index(name);
      micro_step = index ? dump().construct[*index].micro_step : 0;
    }
    const JsonValue stack = stack_of(name);
    const std::uint32_t index = add_node(name, micro_step);
    graph_.nodes[index].stack = stack;
    return index;
  }

  void read_construct() {
    if (dump().construct.empty()) {
      throw Error(ErrorCategory::format, "no module or API is recorded; a graph needs a dump at level L0 or mix",
                  dump().directory / "construct.json");
    }
    graph_.nodes.reserve(dump().construct.size() + dump().construct.size() / 8 + 16);
    graph_.by_name.reserve(dump().construct.size() + 16);
    for (const ConstructEntry& entry : dump().construct) {
      const std::string_view parent_name = entry.parent.empty() ? missing_parent(entry.child) : inplace_parent(entry.child, entry.parent);
      const std::uint32_t parent = parent_name.empty() ? 0 : get_or_create(parent_name);
      const std::uint32_t child = get_or_create(entry.child);
      // The first parent wins; nothing hangs below itself, and the root below nothing.
      if (child != parent && child != 0 && graph_.nodes[child].parent == no_node) {
        append_child(graph_, parent, child);
      }
    }
  }

  /// Attaches to the root what no parent chain connects with it: tops that are no construct key, and cycles (3.2).
  void attach_lost() {
    constexpr std::uint32_t unseen = 0;
    std::vector<std::uint32_t> walk_of(graph_.nodes.size(), unseen);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> tops;  // (place in construct, node)
    std::uint32_t walk = 0;
    walk_of[0] = ++walk;
    for (std::uint32_t place = 0; place < dump().construct.size(); ++place) {
      std::uint32_t at = graph_.find(dump().construct[place].child);
      ++walk;
      std::uint32_t last = no_node;
      while (at != no_node && walk_of[at] == unseen) {
        walk_of[at] = walk;
        last = at;
        at = graph_.nodes[at].parent;
      }
      if (at == no_node) {
        // `last` has no parent: a name that is no key (this entry is its first child's), or one that names only itself.
        const auto own = dump().construct_index(graph_.nodes[last].name);
        tops.emplace_back(own ? *own : place_of_first_child(last), last);
        warn_lost(last, own.has_value());
      } else if (last != no_node && walk_of[at] == walk) {
        const std::uint32_t top = first_of_cycle(at);
        detach(top);
        tops.emplace_back(*dump().construct_index(graph_.nodes[top].name), top);
        warn_lost(top, true);
      }
    }
    if (tops.empty()) {
      return;
    }
    for (const std::uint32_t child : graph_.children(0)) {
      tops.emplace_back(dump().construct_index(graph_.nodes[child].name).value_or(0), child);
    }
    std::sort(tops.begin(), tops.end());
    std::vector<std::uint32_t> children;
    children.reserve(tops.size());
    for (const auto& [place, node] : tops) {
      children.push_back(node);
    }
    set_children(graph_, 0, children);
  }

  [[nodiscard]] std::uint32_t place_of_first_child(std::uint32_t node) const {
    return dump().construct_index(graph_.nodes[graph_.nodes[node].first_child].name).value_or(0);
  }

  [[nodiscard]] std::uint32_t first_of_cycle(std::uint32_t member) const {
    std::uint32_t first = member;
    for (std::uint32_t at = graph_.nodes[member].parent; at != member; at = graph_.nodes[at].parent) {
      if (*dump().construct_index(graph_.nodes[at].name) < *dump().construct_index(graph_.nodes[first].name)) {
        first = at;
      }
    }
    return first;
  }

  void detach(std::uint32_t node) {
    const std::uint32_t parent = graph_.nodes[node].parent;
    std::vector<std::uint32_t> children = graph_.children(parent);
    std::erase(children, node);
    set_children(graph_, parent, children);
    graph_.nodes[node].parent = no_node;
    graph_.nodes[node].next_sibling = no_node;
  }

  void warn_lost(std::uint32_t node, bool own_entry) {
    const std::string name(graph_.nodes[node].name);
    graph_.warnings.push_back(own_entry ? "construct.json: the parents of '" + name + "' form a cycle; it was attached to the root"
                                        : "construct.json: parent '" + name + "' has no entry of its own; it was attached to the root");
  }

  /// Gradients of parameters stand in dump.json only (6.3).
  void add_parameter_gradients() {
    if (!dump().data.is_object()) {
      return;
    }
    struct Pending {
      std::string_view name;
      std::string_view prefix;
    };
    constexpr std::string_view suffix = ".parameters_grad";
    std::vector<Pending> pending;
    for (const auto& [name, value] : dump().data.members()) {
      std::string_view head = name;
      const std::size_t dot = name.rfind('.');
      if (dot != std::string_view::npos && all_digits(name.substr(dot + 1))) {
        head = name.substr(0, dot);
      }
      if (head.ends_with(suffix) && graph_.find(name) == no_node) {
        pending.push_back({name, head.substr(0, head.size() - suffix.size())});
      }
    }
    if (pending.empty()) {
      return;
    }
    std::unordered_map<std::string_view, std::string_view> last_call;  // prefix -> digits of the largest call number
    for (const Node& node : graph_.nodes) {
      if (const ModuleCall call = split_module_call(node.name, "backward")) {
        std::string_view digits = call.number;
        digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
        auto [known, added] = last_call.emplace(call.base, digits);
        if (!added && std::pair(known->second.size(), known->second) < std::pair(digits.size(), digits)) {
          known->second = digits;
        }
      }
    }
    for (const Pending& gradient : pending) {
      const auto call = last_call.find(gradient.prefix);
      const std::string_view number = call == last_call.end() ? "0" : call->second;
      const std::uint32_t target = graph_.find(std::string(gradient.prefix).append(".backward.").append(number));
      if (target != no_node) {
        // The reference leaves them on the first page of a Megatron dump, away from their parent.
        const std::int64_t micro_step = compat_ == Compat::reference ? -1 : graph_.nodes[target].micro_step;
        const std::uint32_t node = add_node(gradient.name, micro_step);
        graph_.nodes[node].type = NodeType::module;
        append_child(graph_, target, node);
      }
    }
  }

  Graph& graph_;
  Compat compat_;
  JsonValue no_stack_;
  JsonValue notice_;
  ItemLists lists_;
};

}  // namespace

std::uint32_t Graph::find(std::string_view name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? no_node : found->second;
}

std::vector<std::uint32_t> Graph::ancestors(std::uint32_t node) const {
  std::vector<std::uint32_t> path;
  for (std::uint32_t at = nodes[node].parent; at != no_node; at = nodes[at].parent) {
    if (path.size() == nodes.size()) {
      return {};  // a cycle, which has no beginning; only unreachable nodes can be part of one
    }
    path.push_back(at);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<std::uint32_t> Graph::children(std::uint32_t node) const {
  std::vector<std::uint32_t> list;
  for (std::uint32_t child = nodes[node].first_child; child != no_node; child = nodes[child].next_sibling) {
    list.push_back(child);
  }
  return list;
}

void append_child(Graph& graph, std::uint32_t parent, std::uint32_t child) {
  Node& above = graph.nodes[parent];
  graph.nodes[child].parent = parent;
  graph.nodes[child].next_sibling = no_node;
  if (above.last_child == no_node) {
    above.first_child = child;
  } else {
    graph.nodes[above.last_child].next_sibling = child;
  }
  above.last_child = child;
}

void set_children(Graph& graph, std::uint32_t parent, const std::vector<std::uint32_t>& children) {
  graph.nodes[parent].first_child = no_node;
  graph.nodes[parent].last_child = no_node;
  for (const std::uint32_t child : children) {
    append_child(graph, parent, child);
  }
}

void number_nodes(Graph& graph) {
  graph.order.clear();
  graph.order.reserve(graph.nodes.size());
  const auto first_leaf = [&graph](std::uint32_t at) {
    while (graph.nodes[at].first_child != no_node) {
      at = graph.nodes[at].first_child;
    }
    return at;
  };
  std::uint32_t at = first_leaf(0);
  for (; at != 0; at = graph.nodes[at].next_sibling == no_node ? graph.nodes[at].parent : first_leaf(graph.nodes[at].next_sibling)) {
    graph.order.push_back(at);
  }
  graph.order.push_back(0);
  graph.lost_nodes = graph.nodes.size() - graph.order.size();
}

std::string_view overflow_text(Overflow overflow) {
  switch (overflow) {
    case Overflow::medium:
      return "medium";
    case Overflow::high:
      return "high";
    case Overflow::critical:
      return "critical";
    case Overflow::none:
      break;
  }
  return {};
}

NodeType node_type_of(std::string_view name) {
  static constexpr std::array<std::string_view, 5> modules{"Module.", "Cell.", "optimizer", "clip_grad", "DefaultModel"};
  static constexpr std::array<std::string_view, 12> apis{"Tensor.",    "Torch.",       "Functional.",     "NPU.",
                                                         "VF.",        "Distributed.", "Aten.",           "Mint.",
                                                         "Primitive.", "Jit.",         "MintFunctional.", "MindSpeed."};
  const auto matches = [name](std::string_view pattern) { return begins_like(name, pattern); };
  if (std::none_of(modules.begin(), modules.end(), matches) && std::any_of(apis.begin(), apis.end(), matches)) {
    return NodeType::function_api;
  }
  return NodeType::module;
}

std::vector<BatchOperation> batch_operations(std::string_view name, JsonValue entry) {
  static constexpr JsonCell null_cell{};
  std::vector<BatchOperation> operations;
  if (name.find("batch_isend_irecv") == std::string_view::npos || !entry.is_object()) {
    return operations;
  }
  const JsonValue output = entry.find("output");
  if (!output.is_array() || output.size() == 0) {
    return operations;
  }
  const auto member = [](JsonValue object, std::string_view key) {
    const JsonValue found = object.find(key);
    return found ? found : JsonValue(&null_cell);
  };
  for (const JsonValue operation : (*output.elements().begin()).elements()) {
    if (operation.is_object()) {
      operations.push_back({member(operation, "op"), member(operation, "peer"), member(operation, "group_id")});
    }
  }
  return operations;
}

Graph build_graph(Dump dump, Compat compat) {
  Graph graph;
  graph.dump = std::move(dump);
  Builder(graph, compat).run();
  return graph;
}

}  // namespace msvis
