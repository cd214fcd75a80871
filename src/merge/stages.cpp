#include "merge/stages.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/names.h"
#include "merge/fold.h"
#include "merge/names.h"

namespace msvis {
namespace {

/// A chunk on a stage; they follow each other in the model in this order.
using Place = std::pair<std::int64_t, std::size_t>;  // chunk, stage

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<std::int64_t> number_in(std::string_view digits) {
  std::int64_t number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return !digits.empty() && result.ec == std::errc() && result.ptr == digits.data() + digits.size() ? std::optional(number) : std::nullopt;
}

/// A name that belongs to a module of the model.
bool is_model_module(std::string_view name) {
  return name.starts_with("Module.") || name.starts_with("Cell.");
}

class Join {
 public:
  Join(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, std::int64_t chunks, MergeTally& tally)
      : forest_(forest), main_(main), chunks_(chunks), tally_(tally) {
    stages_.push_back(main);
    stages_.insert(stages_.end(), others.begin(), others.end());
  }

  void run() {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      survey(stage);
    }
    number_layers();
    name_nodes();
    check_borders();
    join_roots();
    rename_all();
  }

 private:
  [[nodiscard]] TreeNode& node(std::uint32_t index) { return forest_.nodes[index]; }
  [[nodiscard]] std::uint32_t root_of(std::size_t stage) const { return forest_.ranks[stages_[stage]].root; }
  [[nodiscard]] std::int64_t rank_of(std::size_t stage) const { return forest_.ranks[stages_[stage]].rank; }

  [[nodiscard]] std::int64_t chunk_of(std::string_view name) const {
    if (chunks_ < 2 || !name.starts_with("Module.")) {
      return 0;
    }
    const std::string_view rest = name.substr(7);
    const auto chunk = number_in(rest.substr(0, rest.find('.')));
    return chunk && *chunk >= 0 && *chunk < chunks_ ? *chunk : 0;
  }

  [[nodiscard]] std::string without_chunk(std::string_view name) const {
    if (chunks_ < 2 || chunk_of(name) == 0) {
      return std::string(name);
    }
    return "Module.0" + std::string(name.substr(name.find('.', 7)));
  }

  /// All nodes of a stage below its root, parents first; API collections are left out.
  std::vector<std::uint32_t> nodes_of(std::size_t stage) {
    std::vector<std::uint32_t> found;
    std::vector<std::uint32_t> waiting{root_of(stage)};
    while (!waiting.empty()) {
      const std::uint32_t at = waiting.back();
      waiting.pop_back();
      if (node(at).type == NodeType::api_collection) {
        continue;
      }
      found.push_back(at);
      waiting.insert(waiting.end(), node(at).children.rbegin(), node(at).children.rend());
    }
    return found;
  }

  // --- layers -------------------------------------------------------------------------------------------------------------------------

  struct Layer {
    std::string key;  ///< the name in front of the number, of chunk 0
    std::int64_t number = 0;
    std::string rest;  ///< of the name behind the number
  };

  [[nodiscard]] std::optional<Layer> layer_of(std::string_view name) const {
    const auto found = is_model_module(name) ? find_layer_number(name) : std::nullopt;
    constexpr std::size_t most_digits = 9;  // so that sums stay far from overflow
    const auto number = found && found->size <= most_digits ? number_in(name.substr(found->at, found->size)) : std::nullopt;
    if (!number) {
      return std::nullopt;
    }
    return Layer{without_chunk(name.substr(0, found->at)), *number, std::string(name.substr(found->at + found->size))};
  }

  void survey(std::size_t stage) {
    for (const std::uint32_t index : nodes_of(stage)) {
      const std::string_view name = forest_.name(index);
      if (const auto layer = layer_of(name)) {
        numbers_[layer->key][{chunk_of(name), stage}].insert(layer->number);
      }
    }
  }

  void number_layers() {
    for (const auto& [key, places] : numbers_) {
      std::int64_t before = 0;
      for (const auto& [place, numbers] : places) {
        // Numbers that go on where the place before ended are those of the whole model already.
        const bool whole = before > 0 && *numbers.begin() >= before;
        const std::int64_t shift = whole ? 0 : before - *numbers.begin();
        shifts_[key][place] = before == 0 ? 0 : shift;
        borders_[key].push_back(*numbers.rbegin() + shifts_[key][place]);
        before = *numbers.rbegin() + shifts_[key][place] + 1;
      }
    }
  }

  std::string name_in_model(std::size_t stage, std::uint32_t index) {
    const std::string_view name = forest_.name(index);
    if (is_model_module(name)) {
      if (const auto layer = layer_of(name)) {
        return layer->key + std::to_string(layer->number + shifts_[layer->key][{chunk_of(name), stage}]) + layer->rest;
      }
      return without_chunk(name);
    }
    const bool shared = index == root_of(stage) || name.starts_with("optimizer") || name.starts_with("clip_grad");
    return stage == 0 || shared ? std::string(name) : with_rank(name, rank_of(stage));
  }

  void name_nodes() {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (const std::uint32_t index : nodes_of(stage)) {
        names_[index] = forest_.texts.id(name_in_model(stage, index));
        stage_[index] = stage;
        note_layer(index);
      }
    }
  }

  /// Layer modules themselves, and which nodes hold them.
  void note_layer(std::uint32_t index) {
    const std::string_view name = forest_.texts[names_.at(index)];
    const auto layer = layer_of(name);
    if (!layer || count_fields(layer->rest) != 4) {  // "", class, direction, call
      return;
    }
    layers_[{layer->key, layer->number, layer->rest.substr(layer->rest.find('.', 1))}] = index;
    for (std::uint32_t at = node(index).parent; at != no_node && holders_.insert(names_at(at)).second; at = node(at).parent) {
    }
  }

  Text names_at(std::uint32_t index) {
    const auto known = names_.find(index);
    return known == names_.end() ? node(index).name : known->second;
  }

  // --- what is sent and received ------------------------------------------------------------------------------------------------------

  void check_borders() {
    for (const auto& [key, lasts] : borders_) {
      for (std::size_t k = 0; k + 1 < lasts.size(); ++k) {
        for (const auto& [layer, index] : layers_) {
          const auto& [layer_key, number, call] = layer;
          if (layer_key != key || number != lasts[k]) {
            continue;
          }
          const auto next = layers_.find({key, number + 1, call});
          if (next == layers_.end() || stage_.at(next->second) == stage_.at(index)) {
            continue;
          }
          const bool forward = call.starts_with(".forward.");
          const std::uint32_t sender = forward ? index : next->second;
          const std::uint32_t receiver = forward ? next->second : index;
          check_border(sender, receiver);
        }
      }
    }
  }

  void check_border(std::uint32_t sender, std::uint32_t receiver) {
    const TreeEntry* sent = hidden_state(node(sender).outputs);
    const TreeEntry* received = hidden_state(node(receiver).inputs);
    if (sent == nullptr || received == nullptr) {
      return;
    }
    const ShardRecord left = shard_record(forest_.texts, *sent);
    const ShardRecord right = shard_record(forest_.texts, *received);
    if (left.shape != right.shape || left.dtype != right.dtype) {
      return;  // something else is passed on
    }
    ++tally_.entries["sent between stages"];
    if (!same_record(left, right)) {
      tally_.find("pipeline mismatches", "what rank " + std::to_string(rank_of(stage_.at(receiver))) + " receives as " +
                                             std::string(forest_.texts[received->key]) + " of " + std::string(forest_.name(receiver)) +
                                             " is not what rank " + std::to_string(rank_of(stage_.at(sender))) + " sends as " +
                                             std::string(forest_.texts[sent->key]) + " of " + std::string(forest_.name(sender)));
    }
  }

  const TreeEntry* hidden_state(const std::vector<TreeEntry>& entries) {
    for (const TreeEntry& entry : entries) {
      const std::string_view dtype = forest_.texts[entry.dtype];
      if (entry.state != ItemState::parameters && is_tensor(forest_.texts, entry) &&
          (contains(dtype, "float") || contains(dtype, "Float"))) {
        return &entry;
      }
    }
    return nullptr;
  }

  // --- the tree -------------------------------------------------------------------------------------------------------------------------

  struct Container {
    std::uint32_t base = no_node;
    std::vector<std::uint32_t> others;  ///< in the order of the model
  };

  void join_roots() {
    const std::uint32_t root = root_of(0);
    // Children of all roots by their place in the model.
    std::map<Place, std::vector<std::uint32_t>> children;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (const std::uint32_t child : node(root_of(stage)).children) {
        if (stage == 0 || node(child).type != NodeType::api_collection) {
          children[{chunk_of(forest_.name(child)), stage}].push_back(child);
        }
      }
    }
    const std::vector<std::uint32_t> own = std::move(children[{0, 0}]);
    children.erase({0, 0});
    std::vector<std::vector<std::uint32_t>> others;
    others.reserve(children.size());
    for (auto& [place, list] : children) {
      others.push_back(std::move(list));
    }
    std::vector<Container> waiting;
    join_children(root, own, others, waiting);
    while (!waiting.empty()) {
      const Container container = std::move(waiting.back());
      waiting.pop_back();
      join_data(container);
      std::vector<std::vector<std::uint32_t>> lists;
      for (const std::uint32_t other : container.others) {
        lists.push_back(node(other).children);
      }
      const std::vector<std::uint32_t> base_children = node(container.base).children;
      join_children(container.base, base_children, lists, waiting);
    }
  }

  /// Makes one list of children; pairs of containers go to `waiting`.
  void join_children(std::uint32_t parent, const std::vector<std::uint32_t>& own, const std::vector<std::vector<std::uint32_t>>& others,
                     std::vector<Container>& waiting) {
    std::unordered_map<Text, std::vector<std::uint32_t>> by_name;
    std::vector<Text> order;
    std::vector<std::uint32_t> plain = own;
    std::vector<std::vector<std::uint32_t>> added;
    for (const std::uint32_t child : own) {
      by_name[names_at(child)].push_back(child);
    }
    for (const auto& list : others) {
      auto& news = added.emplace_back();
      for (const std::uint32_t child : list) {
        auto& same = by_name[names_at(child)];
        if (same.empty()) {
          news.push_back(child);
        } else if (same.size() == 1) {
          order.push_back(names_at(child));
        }
        same.push_back(child);
      }
    }
    std::vector<std::uint32_t> result;
    const bool backward = contains(forest_.name(parent), ".backward.");
    if (backward) {
      for (std::size_t left = added.size(); left > 0; --left) {
        result.insert(result.end(), added[left - 1].begin(), added[left - 1].end());
      }
    }
    result.insert(result.end(), plain.begin(), plain.end());
    if (!backward) {
      for (const auto& list : added) {
        result.insert(result.end(), list.begin(), list.end());
      }
    }
    for (const Text name : order) {
      const std::vector<std::uint32_t>& same = by_name.at(name);
      if (is_container(same, parent)) {
        waiting.push_back({same.front(), {same.begin() + 1, same.end()}});
      } else {
        keep_copies(same, result);
      }
    }
    for (const std::uint32_t child : result) {
      node(child).parent = parent;
    }
    node(parent).children = std::move(result);
  }

  bool is_container(const std::vector<std::uint32_t>& same, std::uint32_t parent) {
    const bool modules = std::all_of(same.begin(), same.end(), [this](std::uint32_t index) {
      return node(index).type == NodeType::module && is_model_module(forest_.name(index));
    });
    if (!modules) {
      return false;
    }
    if (parent == root_of(0) || holders_.contains(names_at(same.front()))) {
      return true;
    }
    if (!layers_.empty()) {
      return false;
    }
    // A model without layers that can be told by name: what has other children on other stages holds a part of the model on each.
    const auto children = [this](std::uint32_t index) {
      std::set<Text> names;
      for (const std::uint32_t child : node(index).children) {
        if (node(child).type == NodeType::module) {
          names.insert(names_at(child));
        }
      }
      return names;
    };
    return std::any_of(same.begin() + 1, same.end(), [&](std::uint32_t index) { return children(index) != children(same.front()); });
  }

  /// The data of a container on several stages.
  void join_data(const Container& container) {
    const std::string_view name = forest_.name(container.base);
    TreeNode& base = node(container.base);
    for (const std::uint32_t other : container.others) {
      base.overflow = std::max(base.overflow, node(other).overflow);
    }
    const std::uint32_t last = container.others.back();
    if (contains(name, ".forward.")) {
      base.outputs = node(last).outputs;
      for (const std::uint32_t other : container.others) {
        add_missing(base.inputs, node(other).inputs);
      }
    } else if (contains(name, ".backward.")) {
      base.inputs = node(last).inputs;
      for (const std::uint32_t other : container.others) {
        add_missing(base.outputs, node(other).outputs);
      }
    }
    for (const std::uint32_t other : container.others) {
      base.info.insert(base.info.end(), node(other).info.begin(), node(other).info.end());
    }
  }

  /// Entries that only a later stage has, or that are null before it.
  void add_missing(std::vector<TreeEntry>& entries, const std::vector<TreeEntry>& more) {
    for (const TreeEntry& entry : more) {
      const auto known = std::find_if(entries.begin(), entries.end(), [&](const TreeEntry& own) { return own.key == entry.key; });
      if (known == entries.end()) {
        entries.push_back(entry);
      } else if (known->dtype == 0 && entry.dtype != 0) {
        *known = entry;
      }
    }
  }

  /// The same name on several stages, but no container.
  void keep_copies(const std::vector<std::uint32_t>& same, std::vector<std::uint32_t>& children) {
    for (std::size_t k = 1; k < same.size(); ++k) {
      const std::uint32_t copy = same[k];
      check_shared(same.front(), copy);
      if (equal_trees(same.front(), copy)) {
        ++tally_.entries["equal copies on several stages"];
        continue;
      }
      children.push_back(copy);
      std::vector<std::uint32_t> waiting{copy};
      while (!waiting.empty()) {
        const std::uint32_t at = waiting.back();
        waiting.pop_back();
        const std::string_view name = forest_.texts[names_at(at)];
        if (!find_rank_suffix(name)) {
          names_[at] = forest_.texts.id(with_rank(name, rank_of(stage_.at(at))));
        }
        waiting.insert(waiting.end(), node(at).children.begin(), node(at).children.end());
      }
    }
  }

  /// Weights that two stages hold for one layer must be equal.
  void check_shared(std::uint32_t left, std::uint32_t right) {
    for (const TreeEntry& entry : node(left).inputs) {
      if (entry.state != ItemState::parameters) {
        continue;
      }
      const auto& others = node(right).inputs;
      const auto other = std::find_if(others.begin(), others.end(), [&](const TreeEntry& found) { return found.key == entry.key; });
      if (other == others.end()) {
        continue;
      }
      ++tally_.entries["shared between stages"];
      if (!same_record(shard_record(forest_.texts, entry), shard_record(forest_.texts, *other))) {
        tally_.find("shared weights differ", std::string(forest_.texts[entry.key]) + " of " + std::string(forest_.name(left)) +
                                                 " is not equal on the ranks " + std::to_string(rank_of(stage_.at(left))) + " and " +
                                                 std::to_string(rank_of(stage_.at(right))));
      }
    }
  }

  bool equal_trees(std::uint32_t left, std::uint32_t right) {
    const auto equal = [this](const std::vector<TreeEntry>& a, const std::vector<TreeEntry>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), [this](const TreeEntry& x, const TreeEntry& y) {
        return x.key == y.key && same_record(shard_record(forest_.texts, x), shard_record(forest_.texts, y));
      });
    };
    std::vector<std::pair<std::uint32_t, std::uint32_t>> waiting{{left, right}};
    while (!waiting.empty()) {
      const auto [a, b] = waiting.back();
      waiting.pop_back();
      const auto& ours = node(a).children;
      const auto& theirs = node(b).children;
      if (!equal(node(a).inputs, node(b).inputs) || !equal(node(a).outputs, node(b).outputs) || ours.size() != theirs.size()) {
        return false;
      }
      for (std::size_t k = 0; k < ours.size(); ++k) {
        waiting.emplace_back(ours[k], theirs[k]);
      }
    }
    return true;
  }

  void rename_all() {
    TreeRank& main = forest_.ranks[main_];
    main.by_name.clear();
    main.created.clear();
    std::vector<std::uint32_t> waiting{main.root};
    while (!waiting.empty()) {
      const std::uint32_t at = waiting.back();
      waiting.pop_back();
      node(at).name = names_at(at);
      main.by_name.emplace(node(at).name, at);
      main.created.push_back(at);
      waiting.insert(waiting.end(), node(at).children.rbegin(), node(at).children.rend());
    }
  }

  Forest& forest_;
  std::uint32_t main_;
  std::int64_t chunks_;
  MergeTally& tally_;
  std::vector<std::uint32_t> stages_;
  std::map<std::string, std::map<Place, std::set<std::int64_t>>> numbers_;  ///< layers by what stands in front of the number
  std::map<std::string, std::map<Place, std::int64_t>> shifts_;             ///< from the number in the dump to that in the model
  std::map<std::string, std::vector<std::int64_t>> borders_;                ///< last layers of the places
  std::unordered_map<std::uint32_t, Text> names_;                           ///< in the model
  std::unordered_map<std::uint32_t, std::size_t> stage_;
  std::map<std::tuple<std::string, std::int64_t, std::string>, std::uint32_t> layers_;  ///< by key, number, `.direction.call`
  std::unordered_set<Text> holders_;                                                    ///< names of modules above layers
};

}  // namespace

void join_stages(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, std::int64_t chunks, MergeTally& tally) {
  if (!others.empty()) {
    Join(forest, main, others, chunks, tally).run();
  }
}

}  // namespace msvis
