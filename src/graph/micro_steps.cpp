// Paging of a graph by micro steps (graph rules, 7.2).
#include <algorithm>
#include <charconv>

#include "graph/names.h"
#include "msvis/graph.h"

namespace msvis {
namespace {

/// Every node without a micro step takes its parent's, from the top down.
void inherit(Graph& graph) {
  for (auto at = graph.order.rbegin(); at != graph.order.rend(); ++at) {  // parents come before children
    Node& node = graph.nodes[*at];
    if (node.micro_step < 0 && node.parent != no_node) {
      node.micro_step = graph.nodes[node.parent].micro_step;
    }
  }
}

/// The call number of an unmatched golden node serves as a guess of its micro step.
std::int64_t number_at_end(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  std::int64_t number = 0;
  if (!all_digits(last) || std::from_chars(last.data(), last.data() + last.size(), number).ec != std::errc{}) {
    return 0;
  }
  return number;
}

std::int64_t largest(const Graph& graph) {
  std::int64_t micro_step = 0;
  for (const std::uint32_t index : graph.order) {
    micro_step = std::max(micro_step, graph.nodes[index].micro_step);
  }
  return micro_step;
}

}  // namespace

std::int64_t assign_micro_steps(Graph& target, Graph* golden, Compat compat) {
  std::int64_t count = 1;
  if (target.dump.megatron_micro_steps) {
    count = *target.dump.megatron_micro_steps + 1;
  } else {
    std::int64_t step = 0;
    bool backward_seen = false;
    for (const std::uint32_t child : target.children(0)) {
      Node& node = target.nodes[child];
      if (node.type == NodeType::module) {
        if (node.name.find(".forward.") == std::string_view::npos) {
          backward_seen = true;
        } else if (backward_seen) {
          ++step;
          backward_seen = false;
        }
      }
      node.micro_step = step;
      if (golden != nullptr && node.link != no_node) {
        golden->nodes[node.link].micro_step = step;
      }
    }
    count = step + 1;
    inherit(target);
    if (golden != nullptr) {
      for (const std::uint32_t child : golden->children(0)) {
        Node& node = golden->nodes[child];
        if (node.micro_step < 0) {
          node.micro_step = number_at_end(node.name);
          if (compat == Compat::standard) {
            node.micro_step = std::min(node.micro_step, count - 1);
          }
        }
      }
      inherit(*golden);
    }
  }
  if (compat == Compat::reference) {
    return count;
  }
  // Whatever a dump claims, the viewer's menu must reach every node.
  count = std::max(count, largest(target) + 1);
  return golden == nullptr ? count : std::max(count, largest(*golden) + 1);
}

}  // namespace msvis
