#include "merge/reference.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/names.h"
#include "merge/entries.h"
#include "merge/names.h"
#include "msvis/error.h"

namespace msvis {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_optimizer(std::string_view name) {
  return name == "optimizer" || name == "clip_grad";
}

/// The digits at the end of a name after a prefix.
std::string_view index_behind(std::string_view name, std::string_view prefix) {
  return name.substr(prefix.size());
}

// --- pipeline ------------------------------------------------------------------------------------------------------------------------

/// Nodes that were moved carry the place and the rank they come from until they get their names.
struct Mark {
  std::size_t position = 0;
  std::uint32_t rank = 0;
  std::string name;  ///< before
};

class Stages {
 public:
  Stages(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others) : forest_(forest), main_(main), others_(others) {}

  void merge() {
    const std::vector<std::uint32_t> top = forest_.nodes[root()].children;
    for (const std::uint32_t child : top) {
      if (forest_.nodes[child].type == NodeType::module && !is_optimizer(forest_.name(child))) {
        merge_node(child);
        settle_below(child);
      }
    }
    merge_root_layers();
  }

  void merge_chunks(std::int64_t chunks) {
    take_chunk_data(chunks - 1);
    std::vector<std::uint32_t> parents(layer_parents_.begin(), layer_parents_.end());
    std::sort(parents.begin(), parents.end());
    for (const std::uint32_t parent : parents) {
      if (chunk_of(parent) == "0") {
        join_chunks(parent, chunks);
      }
    }
  }

 private:
  [[nodiscard]] std::uint32_t root() const { return forest_.ranks[main_].root; }
  [[nodiscard]] TreeNode& node(std::uint32_t index) { return forest_.nodes[index]; }
  [[nodiscard]] std::int64_t number_of(std::uint32_t rank) const { return forest_.ranks[rank].rank; }

  void merge_node(std::uint32_t main_node) {
    std::vector<std::uint32_t> partners;
    for (const std::uint32_t other : others_) {
      const std::uint32_t partner = forest_.find(other, node(main_node).name);
      if (partner == no_node) {
        return;
      }
      partners.push_back(partner);
    }
    std::vector<const std::vector<TreeEntry>*> inputs;
    std::vector<const std::vector<TreeEntry>*> outputs;
    for (const std::uint32_t partner : partners) {
      inputs.push_back(&node(partner).inputs);
      outputs.push_back(&node(partner).outputs);
    }
    const bool inputs_differ = !different_entries(forest_.texts, node(main_node).inputs, inputs, true).empty();
    const bool outputs_differ = !different_entries(forest_.texts, node(main_node).outputs, outputs, true).empty();
    const std::string name(forest_.name(main_node));
    const bool backward = contains(name, ".backward.");
    if ((inputs_differ && outputs_differ && find_layer_number(name)) ||
        (backward && split_layers_.contains(replace_all(name, ".backward.", ".forward.")))) {
      split_layers_.insert(name);
      layers_.insert(main_node);
      layer_parents_.insert(node(main_node).parent);
      for (std::size_t k = 0; k < others_.size(); ++k) {
        move(partners[k], others_[k], node(main_node).parent);
      }
      return;
    }
    if (contains(name, ".forward.") && !inputs_differ && outputs_differ) {
      node(main_node).outputs = node(partners.back()).outputs;
    } else if (backward && inputs_differ && !outputs_differ) {
      node(main_node).inputs = node(partners.back()).inputs;
    }
    const std::vector<std::uint32_t> own_children = node(main_node).children;
    move_unique_children(main_node, partners);
    for (const std::uint32_t child : own_children) {
      if (node(child).type == NodeType::module) {
        merge_node(child);
      }
    }
  }

  /// Children that only one stage has.
  void move_unique_children(std::uint32_t main_node, const std::vector<std::uint32_t>& partners) {
    std::unordered_map<Text, std::size_t> stages_with;
    const auto count = [&](std::uint32_t parent) {
      std::unordered_set<Text> names;
      for (const std::uint32_t child : node(parent).children) {
        names.insert(node(child).name);
      }
      for (const Text name : names) {
        ++stages_with[name];
      }
    };
    count(main_node);
    for (const std::uint32_t partner : partners) {
      count(partner);
    }
    for (std::size_t k = 0; k < partners.size(); ++k) {
      const std::vector<std::uint32_t> children = node(partners[k]).children;
      for (const std::uint32_t child : children) {
        if (stages_with.at(node(child).name) == 1) {
          move(child, others_[k], main_node);
        }
      }
    }
  }

  /// Marks a subtree of another stage and hangs it below a node of the main one.
  void move(std::uint32_t moved, std::uint32_t rank, std::uint32_t parent) {
    std::vector<std::uint32_t> waiting{moved};
    while (!waiting.empty()) {
      const std::uint32_t at = waiting.back();
      waiting.pop_back();
      std::size_t position = 0;
      if (node(at).parent != no_node) {
        const auto& siblings = node(node(at).parent).children;
        position = static_cast<std::size_t>(std::find(siblings.begin(), siblings.end(), at) - siblings.begin());
      }
      const std::string name(forest_.name(at));
      marks_[at] = {position, rank, name};
      forest_.rename(main_, at, name + "%" + std::to_string(position) + "%" + std::to_string(number_of(rank)));
      const auto& children = node(at).children;
      waiting.insert(waiting.end(), children.rbegin(), children.rend());
    }
    moved_tops_.insert(moved);
    unsettled_.insert(parent);
    forest_.append_child(parent, moved);
  }

  [[nodiscard]] bool is_forward(std::uint32_t marked) const {
    const std::string_view name = forest_.name(marked);
    return contains(name, ".forward.") || contains(name, ".forward%");
  }

  /// Brings the children of every node that got moved ones into order, and gives the moved ones their names.
  void settle_below(std::uint32_t top) {
    std::vector<std::uint32_t> waiting{top};
    while (!waiting.empty()) {
      const std::uint32_t at = waiting.back();
      waiting.pop_back();
      if (unsettled_.erase(at) > 0) {
        settle(at);
      }
      for (const std::uint32_t child : node(at).children) {
        waiting.push_back(child);
      }
    }
    settle_parent_of(top);
  }

  /// A split layer at the root's edge hangs its counterparts to the root.
  void settle_parent_of(std::uint32_t top) {
    if (const std::uint32_t parent = node(top).parent; unsettled_.erase(parent) > 0) {
      settle(parent);
    }
  }

  void settle(std::uint32_t parent) {
    std::vector<std::uint32_t> backward;
    std::vector<std::uint32_t> plain;
    std::vector<std::uint32_t> forward;
    for (const std::uint32_t child : node(parent).children) {
      (!moved_tops_.contains(child) ? plain : is_forward(child) ? forward : backward).push_back(child);
    }
    const auto by_place = [this](std::uint32_t a, std::uint32_t b, bool descending) {
      const Mark& left = marks_.at(a);
      const Mark& right = marks_.at(b);
      const std::int64_t left_rank = number_of(left.rank);
      const std::int64_t right_rank = number_of(right.rank);
      return left_rank != right_rank ? (descending ? left_rank > right_rank : left_rank < right_rank) : left.position < right.position;
    };
    std::stable_sort(backward.begin(), backward.end(), [&](std::uint32_t a, std::uint32_t b) { return by_place(a, b, true); });
    std::stable_sort(forward.begin(), forward.end(), [&](std::uint32_t a, std::uint32_t b) { return by_place(a, b, false); });
    std::vector<std::uint32_t> order = std::move(backward);
    order.insert(order.end(), plain.begin(), plain.end());
    order.insert(order.end(), forward.begin(), forward.end());
    node(parent).children = order;

    std::unordered_map<std::uint32_t, std::string> numbers;
    const auto count = [&](auto begin, auto end, bool of_forward) {
      std::int64_t number = -1;
      for (auto at = begin; at != end; ++at) {
        const bool layer = find_layer_number(forest_.name(*at)).has_value();
        number += layer ? 1 : 0;
        if (moved_tops_.contains(*at) && is_forward(*at) == of_forward) {
          numbers[*at] = layer ? std::to_string(number) : std::string();
        }
      }
    };
    count(order.begin(), order.end(), true);
    count(order.rbegin(), order.rend(), false);
    for (const std::uint32_t child : order) {
      if (moved_tops_.erase(child) > 0) {
        name_subtree(child, numbers.at(child));
        moved_.insert(child);
      }
    }
  }

  /// Final names of a moved subtree.
  void name_subtree(std::uint32_t top, const std::string& number) {
    std::vector<std::uint32_t> waiting{top};
    while (!waiting.empty()) {
      const std::uint32_t at = waiting.back();
      waiting.pop_back();
      const auto mark = marks_.find(at);
      if (mark != marks_.end()) {
        const std::string& name = mark->second.name;
        if (node(at).type == NodeType::module) {
          forest_.rename(main_, at, with_layer_number(name, number));
        } else {
          forest_.rename(main_, at, with_rank(name, number_of(mark->second.rank)));
        }
        marks_.erase(mark);
      }
      const auto& children = node(at).children;
      waiting.insert(waiting.end(), children.rbegin(), children.rend());
    }
  }

  /// Layers that hang at the root itself (7.4).
  void merge_root_layers() {
    std::unordered_set<Text> names;
    std::int64_t number = -1;
    for (const std::uint32_t child : node(root()).children) {
      names.insert(node(child).name);
      number += find_layer_number(forest_.name(child)) ? 1 : 0;
    }
    if (number < 0) {
      return;
    }
    std::vector<std::pair<std::pair<std::int64_t, std::size_t>, std::uint32_t>> found;
    for (const std::uint32_t other : others_) {
      const std::vector<std::uint32_t> children = node(forest_.ranks[other].root).children;
      for (std::size_t k = 0; k < children.size(); ++k) {
        const std::uint32_t child = children[k];
        if (node(child).type != NodeType::api_collection && !names.contains(node(child).name)) {
          move(child, other, root());
          found.push_back({{number_of(other), k}, child});
        }
      }
    }
    unsettled_.erase(root());
    std::sort(found.begin(), found.end());
    auto& children = node(root()).children;
    std::erase_if(children, [this](std::uint32_t child) { return moved_tops_.contains(child); });
    for (const auto& [place, child] : found) {
      children.push_back(child);
      const bool layer = find_layer_number(forest_.name(child)).has_value();
      number += layer ? 1 : 0;
      moved_tops_.erase(child);
      moved_.insert(child);
      name_subtree(child, layer ? std::to_string(number) : std::string());
    }
  }

  // --- virtual pipeline ---------------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::string_view chunk_of(std::uint32_t index) const {
    const std::vector<std::string_view> fields = split_fields(forest_.name(index));
    return fields.size() > 1 ? fields[1] : std::string_view();
  }

  static std::string with_chunk(std::string_view name, std::string_view chunk) {
    const std::size_t first = name.find('.');
    if (first == std::string_view::npos) {
      return std::string(name);
    }
    const std::size_t second = std::min(name.find('.', first + 1), name.size());
    std::string text(name.substr(0, first + 1));
    text += chunk;
    text += name.substr(second);
    return text;
  }

  /// The chunk-0 modules around the layers get the outputs (backward: the inputs) of the last chunk.
  void take_chunk_data(std::int64_t last) {
    std::vector<std::uint32_t> waiting;
    for (const std::uint32_t child : node(root()).children) {
      if (node(child).type == NodeType::module && chunk_of(child) == "0") {
        waiting.push_back(child);
      }
    }
    while (!waiting.empty()) {
      const std::uint32_t at = waiting.back();
      waiting.pop_back();
      if (layers_.contains(at) || moved_.contains(at)) {
        continue;
      }
      const std::string name(forest_.name(at));
      const std::uint32_t tail = forest_.find(main_, with_chunk(name, std::to_string(last)));
      if (tail != no_node) {
        if (contains(name, ".forward.")) {
          node(at).outputs = node(tail).outputs;
        } else if (contains(name, ".backward.")) {
          node(at).inputs = node(tail).inputs;
        }
      }
      for (const std::uint32_t child : node(at).children) {
        if (node(child).type == NodeType::module) {
          waiting.push_back(child);
        }
      }
    }
  }

  void join_chunks(std::uint32_t parent, std::int64_t chunks) {
    const std::string name(forest_.name(parent));
    const bool backward = contains(name, ".backward.");
    for (std::int64_t chunk = 1; chunk < chunks; ++chunk) {
      const std::uint32_t twin = forest_.find(main_, with_chunk(name, std::to_string(chunk)));
      if (twin == no_node) {
        continue;
      }
      const std::vector<std::uint32_t> moved = node(twin).children;
      auto& children = node(parent).children;
      children.insert(backward ? children.begin() : children.end(), moved.begin(), moved.end());
      for (const std::uint32_t child : moved) {
        node(child).parent = parent;
      }
      remove_with_ancestors(twin);
    }
    renumber(parent, backward);
  }

  void remove_with_ancestors(std::uint32_t twin) {
    std::uint32_t top = twin;
    for (std::uint32_t at = node(twin).parent; at != no_node && at != root(); at = node(at).parent) {
      forest_.ranks[main_].by_name.erase(node(at).name);
      top = at;
    }
    std::erase(node(root()).children, top);
  }

  void renumber(std::uint32_t parent, bool backward) {
    std::vector<std::uint32_t> children = node(parent).children;
    if (backward) {
      std::reverse(children.begin(), children.end());
    }
    std::int64_t number = -1;
    for (const std::uint32_t child : children) {
      const std::string name(forest_.name(child));
      const auto layer = find_layer_number(name);
      number += layer ? 1 : 0;
      if (node(child).type != NodeType::module || chunk_of(child) == "0") {
        continue;
      }
      const auto prefix_of = [&](std::string_view text) {
        std::string prefix = with_chunk(text, "0");
        if (const auto at = find_layer_number(prefix)) {
          prefix = prefix.substr(0, at->at) + std::to_string(number) + prefix.substr(at->at + at->size);
        }
        return prefix;
      };
      std::vector<std::uint32_t> waiting{child};
      while (!waiting.empty()) {
        const std::uint32_t at = waiting.back();
        waiting.pop_back();
        if (node(at).type == NodeType::module) {
          const std::string old(forest_.name(at));
          forest_.rename(main_, at, layer ? prefix_of(old) : with_chunk(old, "0"));
        }
        const auto& below = node(at).children;
        waiting.insert(waiting.end(), below.rbegin(), below.rend());
      }
    }
  }

  Forest& forest_;
  std::uint32_t main_;
  std::span<const std::uint32_t> others_;
  std::unordered_set<std::string> split_layers_;     ///< names in the main stage
  std::unordered_set<std::uint32_t> layers_;         ///< the same as nodes
  std::unordered_set<std::uint32_t> layer_parents_;  ///< nodes that got counterparts of split layers
  std::unordered_map<std::uint32_t, Mark> marks_;
  std::unordered_set<std::uint32_t> moved_tops_;  ///< tops of moved subtrees that have no name yet
  std::unordered_set<std::uint32_t> moved_;       ///< those that have
  std::unordered_set<std::uint32_t> unsettled_;   ///< parents that got moved children
};

// --- tensor parallel ------------------------------------------------------------------------------------------------------------------

class Shards {
 public:
  Shards(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, const ShardMap* shards)
      : forest_(forest), main_(main), others_(others), shards_(shards) {}

  void merge() {
    const std::vector<std::uint32_t> created = forest_.ranks[main_].created;
    std::unordered_set<std::uint32_t> seen;
    std::vector<std::uint32_t> nodes;
    for (const std::uint32_t index : created) {
      if (forest_.find(main_, node(index).name) == index && seen.insert(index).second) {
        nodes.push_back(index);
      }
    }
    for (const std::uint32_t index : nodes) {
      merge_by_value(index);
    }
    for (const std::uint32_t index : nodes) {
      merge_by_structure(index);
    }
  }

 private:
  [[nodiscard]] TreeNode& node(std::uint32_t index) { return forest_.nodes[index]; }

  void merge_by_value(std::uint32_t index) {
    const std::uint32_t parent = node(index).parent;
    if (parent == no_node || node(parent).type != NodeType::module || is_optimizer(forest_.name(parent)) ||
        forest_.name(index).starts_with("Distributed") || !node(index).info.empty()) {
      return;
    }
    merge_reduced_matmuls(index);
    const std::vector<std::uint32_t> partners = counterparts(index);
    if (partners.empty()) {
      return;
    }
    const auto inputs = different(index, partners, false, true);
    const auto outputs = different(index, partners, true, true);
    if (!inputs.empty() || !outputs.empty()) {
      add_rank_line(index, partners);
      combine(index, false, inputs);
      combine(index, true, outputs);
    }
  }

  std::vector<DifferentEntry> different(std::uint32_t index, const std::vector<std::uint32_t>& partners, bool outputs, bool by_value) {
    std::vector<const std::vector<TreeEntry>*> lists;
    lists.reserve(partners.size());
    for (const std::uint32_t partner : partners) {
      lists.push_back(outputs ? &node(partner).outputs : &node(partner).inputs);
    }
    return different_entries(forest_.texts, outputs ? node(index).outputs : node(index).inputs, lists, by_value);
  }

  void add_rank_line(std::uint32_t index, const std::vector<std::uint32_t>& partners) {
    std::vector<std::int64_t> ranks{forest_.ranks[node(index).rank].rank};
    for (const std::uint32_t partner : partners) {
      ranks.push_back(forest_.ranks[node(partner).rank].rank);
    }
    node(index).info.push_back(merged_over_line(ranks));
  }

  void combine(std::uint32_t index, bool outputs, const std::vector<DifferentEntry>& entries) {
    for (const DifferentEntry& entry : entries) {
      TreeEntry& main = (outputs ? node(index).outputs : node(index).inputs)[entry.place];
      combine_entry(main, entry.items, forest_.texts[main.key], node(index).info);
    }
  }

  // 6.1
  void merge_reduced_matmuls(std::uint32_t index) {
    const std::string_view name = forest_.name(index);
    if (count_fields(name) < 4) {
      return;
    }
    const std::string_view class_name = field_from_end(name, 3);
    const std::string_view direction = field_from_end(name, 2);
    if (!(direction == "forward" && contains(class_name, "RowParallelLinear")) &&
        !(direction == "backward" && contains(class_name, "ColumnParallelLinear"))) {
      return;
    }
    std::vector<std::uint32_t> matmuls;
    std::vector<std::uint32_t> reductions;
    for (const std::uint32_t child : node(index).children) {
      const std::string_view child_name = forest_.name(child);
      if (contains(child_name, "matmul")) {
        matmuls.push_back(child);
      } else if (contains(child_name, "_reduce_scatter_base") || contains(child_name, "reduce_scatter_tensor") ||
                 contains(child_name, "all_reduce")) {
        reductions.push_back(child);
      }
    }
    for (const std::uint32_t matmul : matmuls) {
      const auto found =
          std::find_if(reductions.begin(), reductions.end(), [&](std::uint32_t reduction) { return reduces(reduction, matmul); });
      if (found == reductions.end()) {
        continue;
      }
      const std::uint32_t reduction = *found;
      if (const auto partners = counterparts(matmul); !partners.empty()) {
        const auto inputs = different(matmul, partners, false, true);
        if (!inputs.empty()) {
          add_rank_line(matmul, partners);
          combine(matmul, false, inputs);
        }
      }
      if (!node(reduction).outputs.empty()) {
        const TreeEntry& reduced = node(reduction).outputs.front();
        TreeEntry& output = node(matmul).outputs.front();
        for (std::size_t statistic = 0; statistic < reduced.bits.size(); ++statistic) {
          output.change_stat(statistic, reduced.stat(statistic));
        }
        node(matmul).info.push_back("The statistics of the output are those of " + std::string(forest_.name(reduction)) + "." +
                                    std::string(forest_.texts[reduced.key]));
      }
      reductions.erase(found);
    }
  }

  /// Whether a reduction takes what a matmul gives.
  bool reduces(std::uint32_t reduction, std::uint32_t matmul) {
    const std::size_t operand = contains(forest_.name(reduction), "all_reduce") ? 0 : 1;
    if (node(matmul).outputs.empty() || node(reduction).inputs.size() <= operand) {
      return false;
    }
    const TreeEntry& given = node(matmul).outputs.front();
    const TreeEntry& taken = node(reduction).inputs[operand];
    for (std::size_t statistic = 0; statistic < given.bits.size(); ++statistic) {
      const Number a = given.stat(statistic);
      const Number b = taken.stat(statistic);
      if (a.is_number() && b.is_number() && a.value() != b.value()) {
        return false;
      }
    }
    return true;
  }

  // 6.2
  std::vector<std::uint32_t> counterparts(std::uint32_t index) {
    const std::string name(forest_.name(index));
    std::vector<std::string> names(others_.size(), name);
    if (shards_ != nullptr) {
      if (const auto suffix = find_rank_suffix(name)) {
        const auto mapped = shards_->find(suffix->rank);
        if (mapped == shards_->end() || mapped->second.size() != others_.size()) {
          return {};
        }
        for (std::size_t k = 0; k < others_.size(); ++k) {
          names[k].replace(suffix->at, suffix->size, std::to_string(mapped->second[k]));
        }
      }
    }
    std::vector<std::uint32_t> found;
    for (std::size_t k = 0; k < others_.size(); ++k) {
      const std::uint32_t partner = forest_.find(others_[k], names[k]);
      if (partner == no_node || !same_ancestors(index, partner)) {
        return {};
      }
      found.push_back(partner);
    }
    return found;
  }

  bool same_ancestors(std::uint32_t left, std::uint32_t right) {
    left = node(left).parent;
    right = node(right).parent;
    for (std::size_t steps = 0; left != no_node && right != no_node; ++steps) {
      if (steps > forest_.nodes.size()) {
        return false;  // the parents of nodes that do not hang below the root may form a cycle
      }
      if (node(left).name != node(right).name) {
        return false;
      }
      left = node(left).parent;
      right = node(right).parent;
    }
    return left == right;
  }

  // 6.3
  void merge_by_structure(std::uint32_t index) {
    const std::string name(forest_.name(index));
    const std::uint32_t parent = node(index).parent;
    if (node(index).type != NodeType::module || !node(index).info.empty() || parent == no_node || field_from_end(name, 2) != "forward" ||
        !contains(field_from_end(name, 3), "ColumnParallelLinear")) {
      return;
    }
    const std::vector<std::uint32_t> siblings = node(parent).children;
    std::size_t first = siblings.size();
    std::size_t last = siblings.size();
    for (std::size_t k = 0; k < siblings.size(); ++k) {
      first = contains(forest_.name(siblings[k]), name) ? k : first;
      last = contains(forest_.name(siblings[k]), "RowParallelLinear") ? k : last;
    }
    if (first == siblings.size() || last == siblings.size() || last <= first) {
      return;
    }
    const std::uint32_t column = siblings[first];
    const std::uint32_t row = siblings[last];
    for (std::size_t k = first; k <= last; ++k) {
      std::vector<std::uint32_t> waiting{siblings[k]};
      while (!waiting.empty()) {
        const std::uint32_t at = waiting.back();
        waiting.pop_back();
        merge_all(at, column, row);
        const auto& children = node(at).children;
        waiting.insert(waiting.end(), children.rbegin(), children.rend());
      }
    }
  }

  void merge_all(std::uint32_t at, std::uint32_t column, std::uint32_t row) {
    if (!node(at).info.empty() || forest_.name(at).starts_with("Distributed")) {
      return;
    }
    const std::vector<std::uint32_t> partners = counterparts(at);
    if (partners.empty()) {
      return;
    }
    auto inputs = different(at, partners, false, false);
    auto outputs = different(at, partners, true, false);
    if (inputs.empty() && outputs.empty()) {
      return;
    }
    add_rank_line(at, partners);
    const bool matmul = contains(forest_.name(at), "matmul");
    const auto drop = [&](std::string_view key) {
      std::erase_if(inputs, [&](const DifferentEntry& entry) { return forest_.texts[node(at).inputs[entry.place].key] == key; });
    };
    if (at == column || (matmul && node(at).parent == column)) {
      drop("input.0");
    } else if (at == row || (matmul && node(at).parent == row)) {
      outputs.clear();
      drop("parameters.bias");
    }
    combine(at, false, inputs);
    combine(at, true, outputs);
  }

  Forest& forest_;
  std::uint32_t main_;
  std::span<const std::uint32_t> others_;
  const ShardMap* shards_;
};

std::uint32_t rank_index(const std::map<std::int64_t, std::uint32_t>& by_number, std::int64_t rank) {
  const auto found = by_number.find(rank);
  if (found == by_number.end()) {
    throw Error(ErrorCategory::mismatch, "a group of ranks in the dumps names rank " + std::to_string(rank) + ", which is not there");
  }
  return found->second;
}

}  // namespace

void gather_collections(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others) {
  const std::uint32_t root = forest.ranks[main].root;
  const std::vector<std::uint32_t> top = forest.nodes[root].children;
  std::vector<std::uint32_t> children;
  std::uint64_t number = 0;
  const auto add_rank_collection = [&](std::uint32_t all, std::uint32_t rank, std::uint32_t collection, std::string_view index) {
    const std::int64_t rank_number = forest.ranks[rank].rank;
    const std::uint32_t added = forest.add(
        main, std::string(rank_collection_prefix) + std::to_string(rank_number) + "." + std::string(index), NodeType::api_collection);
    forest.append_child(all, added);
    const std::vector<std::uint32_t> apis = forest.nodes[collection].children;
    for (const std::uint32_t api : apis) {
      if (rank != main) {
        forest.rename(rank, api, with_rank(forest.name(api), rank_number));
      }
      forest.append_child(added, api);
    }
  };
  for (const std::uint32_t child : top) {
    const std::string name(forest.name(child));
    if (forest.nodes[child].type == NodeType::api_collection && name.starts_with(collection_prefix)) {
      const std::string_view index = index_behind(name, collection_prefix);
      const std::uint32_t all = forest.add(main, std::string(all_ranks_prefix) + std::to_string(number++), NodeType::api_collection);
      forest.nodes[all].parent = root;
      children.push_back(all);
      add_rank_collection(all, main, child, index);
      for (const std::uint32_t other : others) {
        const std::uint32_t partner = forest.find(other, name);
        if (partner != no_node && forest.nodes[partner].parent == forest.ranks[other].root) {
          add_rank_collection(all, other, partner, index);
        }
      }
      continue;
    }
    if (forest.nodes[child].type == NodeType::api_collection && name.starts_with(all_ranks_prefix)) {
      for (const std::uint32_t other : others) {
        const std::uint32_t partner = forest.find(other, name);
        if (partner == no_node) {
          continue;
        }
        const std::vector<std::uint32_t> moved = forest.nodes[partner].children;
        for (const std::uint32_t collection : moved) {
          forest.append_child(child, collection);
        }
      }
    }
    children.push_back(child);
  }
  forest.nodes[root].children = children;
}

void sort_collections(Forest& forest, std::uint32_t main) {
  for (const std::uint32_t child : forest.nodes[forest.ranks[main].root].children) {
    if (forest.name(child).starts_with(all_ranks_prefix)) {
      auto& list = forest.nodes[child].children;
      std::stable_sort(list.begin(), list.end(), [&](std::uint32_t left, std::uint32_t right) {
        return rank_of_collection(forest.name(left)).value_or(0) < rank_of_collection(forest.name(right)).value_or(0);
      });
    }
  }
}

void merge_stages(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, std::int64_t chunks) {
  if (others.empty()) {
    return;
  }
  Stages stages(forest, main, others);
  stages.merge();
  if (chunks > 1) {
    stages.merge_chunks(chunks);
  }
}

void merge_shards(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, const ShardMap* shards) {
  if (!others.empty()) {
    Shards(forest, main, others, shards).merge();
  }
}

std::uint32_t merge_reference(Forest& forest, const std::map<std::int64_t, std::uint32_t>& by_number, MergeStrategy strategy,
                              const RankGroups& tp_groups, const RankGroups& pp_groups, std::int64_t chunks) {
  const auto indices = [&](const std::vector<std::int64_t>& group) {
    std::vector<std::uint32_t> all;
    all.reserve(group.size());
    for (const std::int64_t rank : group) {
      all.push_back(rank_index(by_number, rank));
    }
    return all;
  };
  ShardMap map;
  for (std::size_t k = 1; k < tp_groups.size(); ++k) {
    map[tp_groups[k].front()] = {tp_groups[k].begin() + 1, tp_groups[k].end()};
  }
  const auto others_of = [](const std::vector<std::uint32_t>& group) { return std::span(group).subspan(1); };
  switch (strategy) {
    case MergeStrategy::none: {
      const std::uint32_t only = by_number.begin()->second;
      gather_collections(forest, only, {});
      return only;
    }
    case MergeStrategy::tp: {
      const auto group = indices(tp_groups.front());
      gather_collections(forest, group.front(), others_of(group));
      merge_shards(forest, group.front(), others_of(group), nullptr);
      return group.front();
    }
    case MergeStrategy::pp: {
      const auto group = indices(pp_groups.front());
      gather_collections(forest, group.front(), others_of(group));
      merge_stages(forest, group.front(), others_of(group), chunks);
      return group.front();
    }
    case MergeStrategy::tp_pp:
    case MergeStrategy::full:
      break;
  }
  const bool full = strategy == MergeStrategy::full;
  if (!full) {
    std::vector<std::uint32_t> all;
    all.reserve(by_number.size());
    for (const auto& [number, index] : by_number) {
      all.push_back(index);
    }
    gather_collections(forest, all.front(), others_of(all));
  }
  std::vector<std::uint32_t> results;
  for (const auto& group : pp_groups) {
    const auto stages = indices(group);
    if (full) {
      gather_collections(forest, stages.front(), others_of(stages));
    }
    merge_stages(forest, stages.front(), others_of(stages), chunks);
    results.push_back(stages.front());
  }
  if (full) {
    gather_collections(forest, results.front(), others_of(results));
  }
  merge_shards(forest, results.front(), others_of(results), &map);
  sort_collections(forest, results.front());
  return results.front();
}

}  // namespace msvis
