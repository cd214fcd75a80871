#include "merge/tree.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

#include "dump/python_text.h"
#include "graph/builder.h"
#include "graph/names.h"
#include "merge/names.h"
#include "msvis/error.h"

namespace msvis {
namespace {

std::string text_of(JsonValue value) {
  std::string text;
  append_str(text, value);
  return text;
}

/// A statistic as a number; texts such as `nan` count with Compat::standard.
Number number_of(JsonValue value, Compat compat) {
  Number number;
  if (value.is(JsonKind::integer)) {
    const std::string_view token = value.text();
    const auto result = std::from_chars(token.data(), token.data() + token.size(), number.integer);
    if (result.ec == std::errc()) {
      number.kind = Number::Kind::integer;
      return number;
    }
    return Number::of(value.number());
  }
  if (value.is(JsonKind::real)) {
    return Number::of(value.number());
  }
  if (value.is_string() && (value.text() == "True" || value.text() == "False")) {
    return {Number::Kind::truth, value.text() == "True" ? 1 : 0, 0};
  }
  if (compat == Compat::standard && value.is_string()) {
    for (const auto& [text, real] : {std::pair("nan", std::nan("")), std::pair("inf", HUGE_VAL), std::pair("-inf", -HUGE_VAL)}) {
      if (value.text() == text) {
        return Number::of(real);
      }
    }
  }
  return number;
}

void append_escaped(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      constexpr std::string_view digits = "0123456789abcdef";
      out += "\\u00";
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    } else {
      out += c;
    }
  }
  out += '"';
}

class RankReader {
 public:
  RankReader(Forest& forest, const Graph& graph, std::uint32_t rank, KeepPayload keep, Compat compat)
      : forest_(forest), graph_(graph), rank_(rank), keep_(keep), compat_(compat) {}

  void read() {
    std::vector<std::uint32_t> place(graph_.nodes.size());
    const auto first = static_cast<std::uint32_t>(forest_.nodes.size());
    std::unordered_map<const JsonCell*, Text> stacks;
    std::string payload = "[";
    std::uint32_t payloads = 0;
    for (std::uint32_t index = 0; index < graph_.nodes.size(); ++index) {
      const Node& node = graph_.nodes[index];
      const std::uint32_t added = forest_.add(rank_, node.name, node.type);
      TreeNode& tree = forest_.nodes[added];
      tree.micro_step = node.micro_step;
      tree.overflow = node.overflow;
      if (keeps(index)) {
        const auto [known, is_new] = stacks.try_emplace(node.stack.cell(), 0);
        if (is_new) {
          text_.clear();
          append_exact_json(text_, node.stack);
          known->second = forest_.texts.id(text_);
        }
        tree.stack = known->second;
        if (node.entry && node.items_end > node.inputs_begin) {
          payload += payloads == 0 ? "" : ",";
          append_exact_json(payload, node.entry);
          tree.payload = payloads++;
        }
      }
      entries(added, node, node.inputs_begin, node.outputs_begin, false);
      entries(added, node, node.outputs_begin, node.items_end, true);
    }
    for (std::uint32_t index = 0; index < graph_.nodes.size(); ++index) {
      forest_.nodes[first + index].parent = graph_.nodes[index].parent == no_node ? no_node : first + graph_.nodes[index].parent;
      for (const std::uint32_t child : graph_.children(index)) {
        forest_.nodes[first + index].children.push_back(first + child);
      }
    }
    for (const auto& [name, index] : forest_.ranks[rank_].by_name) {
      forest_.ranks[rank_].own_names.insert(name);
    }
    forest_.ranks[rank_].root = first;
    forest_.ranks[rank_].payload = payload + "]";
  }

 private:
  [[nodiscard]] bool keeps(std::uint32_t index) const {
    if (keep_ == KeepPayload::all || index == 0) {
      return true;
    }
    const Node& node = graph_.nodes[index];
    if (node.parent == 0) {
      if (node.type != NodeType::module) {
        return true;
      }
      for (std::uint32_t child = node.first_child; child != no_node; child = graph_.nodes[child].next_sibling) {
        if (graph_.nodes[child].type == NodeType::module) {
          return false;
        }
      }
      return true;
    }
    return node.parent != no_node && graph_.nodes[node.parent].type == NodeType::api_collection;
  }

  void entries(std::uint32_t tree, const Node& node, std::uint32_t begin, std::uint32_t end, bool outputs) {
    std::vector<TreeEntry> all;
    all.reserve(end - begin);
    for (std::uint32_t at = begin; at < end; ++at) {
      const Item& item = graph_.items[at];
      TreeEntry& entry = all.emplace_back();
      std::string_view key = item.key;
      entry.whole_key = !(key.size() > node.name.size() && key.starts_with(node.name) && key[node.name.size()] == '.');
      if (!entry.whole_key) {
        key.remove_prefix(node.name.size() + 1);
      }
      entry.key = forest_.texts.id(key);
      entry.dtype = item.dtype.is_null() ? 0 : forest_.texts.id(text_of(item.dtype));
      entry.shape = item.shape.is_null() ? 0 : forest_.texts.id(text_of(item.shape));
      entry.data_name = is_file(item) ? forest_.texts.id(item.data_name.text()) : 0;
      entry.md5 = text_is(item.dtype, "torch.ProcessGroup")        ? forest_.texts.id(text_of(item.md5))
                  : item.leaf && item.leaf.find("md5").is_string() ? forest_.texts.id(item.leaf.find("md5").text())
                                                                   : 0;
      entry.requires_grad = item.requires_grad.is_null() ? 0 : forest_.texts.id(text_of(item.requires_grad));
      entry.state = item.state;
      entry.source_node = tree;
      entry.source_item = at - begin;
      entry.source_output = outputs;
      for (std::size_t statistic = 0; statistic < item.stats.size(); ++statistic) {
        entry.set_stat(statistic, number_of(item.stats[statistic], compat_));
      }
    }
    (outputs ? forest_.nodes[tree].outputs : forest_.nodes[tree].inputs) = std::move(all);
  }

  static bool text_is(JsonValue value, std::string_view text) { return value.is_string() && value.text() == text; }
  static bool is_file(const Item& item) { return item.data_name.is_string() && item.data_name.text() != "-1"; }

  Forest& forest_;
  const Graph& graph_;
  std::uint32_t rank_;
  KeepPayload keep_;
  Compat compat_;
  std::string text_;
};

}  // namespace

Text TextStore::id(std::string_view text) {
  const auto known = ids_.find(text);
  if (known != ids_.end()) {
    return known->second;
  }
  if (texts_.size() >= UINT32_MAX) {
    throw Error(ErrorCategory::limit, "more than 4294967295 names in the ranks that are merged");
  }
  const std::string_view kept = pool_.keep(text);
  const auto id = static_cast<Text>(texts_.size());
  texts_.push_back(kept);
  ids_.emplace(kept, id);
  return id;
}

std::string Number::text() const {
  std::string out;
  if (kind == Kind::integer) {
    out = std::to_string(integer);
  } else if (kind == Kind::real) {
    append_float(out, real);
  } else if (kind == Kind::truth) {
    out = integer != 0 ? "True" : "False";
  } else if (kind == Kind::unknown) {
    out = "N/A";
  }
  return out;
}

Number TreeEntry::stat(std::size_t statistic) const {
  switch (kinds[statistic]) {
    case Number::Kind::integer:
    case Number::Kind::truth:
      return {kinds[statistic], bits[statistic], 0};
    case Number::Kind::real:
      return Number::of(std::bit_cast<double>(bits[statistic]));
    case Number::Kind::unknown:
      return Number::unknown();
    case Number::Kind::none:
      break;
  }
  return {};
}

void TreeEntry::set_stat(std::size_t statistic, const Number& number) {
  kinds[statistic] = number.kind;
  bits[statistic] = number.kind == Number::Kind::real ? std::bit_cast<std::int64_t>(number.real) : number.integer;
}

std::uint32_t Forest::find(std::uint32_t rank, Text name) const {
  const auto found = ranks[rank].by_name.find(name);
  return found == ranks[rank].by_name.end() ? no_node : found->second;
}

std::uint32_t Forest::find(std::uint32_t rank, std::string_view name) {
  return find(rank, texts.id(name));
}

std::uint32_t Forest::add(std::uint32_t rank, std::string_view name, NodeType type) {
  const auto index = static_cast<std::uint32_t>(nodes.size());
  TreeNode& node = nodes.emplace_back();
  node.name = node.source_name = texts.id(name);
  node.rank = rank;
  node.type = type;
  ranks[rank].created.push_back(index);
  ranks[rank].by_name[node.name] = index;
  return index;
}

void Forest::rename(std::uint32_t rank, std::uint32_t node, std::string_view name) {
  TreeRank& owner = ranks[rank];
  const auto old = owner.by_name.find(nodes[node].name);
  const bool listed = old != owner.by_name.end() && old->second == node;
  if (listed) {
    owner.by_name.erase(old);
  }
  nodes[node].name = texts.id(name);
  owner.by_name[nodes[node].name] = node;
  if (!listed) {
    owner.created.push_back(node);
  }
}

void Forest::append_child(std::uint32_t parent, std::uint32_t child) {
  nodes[child].parent = parent;
  nodes[parent].children.push_back(child);
}

void Forest::erase_nodes(std::uint32_t first, std::uint32_t last) {
  nodes.erase(nodes.begin() + first, nodes.begin() + last);
  const auto shift = [=](std::uint32_t& index) {
    if (index != no_node && index >= last) {
      index -= last - first;
    }
  };
  for (TreeNode& node : nodes) {
    shift(node.parent);
    std::for_each(node.children.begin(), node.children.end(), shift);
    for (auto* entries : {&node.inputs, &node.outputs}) {
      for (TreeEntry& entry : *entries) {
        shift(entry.source_node);
      }
    }
  }
  for (TreeRank& rank : ranks) {
    shift(rank.root);
    std::for_each(rank.created.begin(), rank.created.end(), shift);
    for (auto& [name, index] : rank.by_name) {
      shift(index);
    }
  }
}

void copy_node(Forest& forest, std::uint32_t from, std::uint32_t to) {
  const TreeNode& source = forest.nodes[from];
  TreeNode& copy = forest.nodes[to];
  copy.source_name = source.source_name;
  copy.rank = source.rank;
  copy.inputs = source.inputs;
  copy.outputs = source.outputs;
  copy.micro_step = source.micro_step;
  copy.payload = source.payload;
  copy.stack = source.stack;
  copy.overflow = source.overflow;
  copy.info = source.info;
  for (auto* entries : {&copy.inputs, &copy.outputs}) {
    for (TreeEntry& entry : *entries) {
      if (entry.source_node == from) {
        entry.source_node = to;
      }
    }
  }
}

void append_exact_json(std::string& out, JsonValue value) {
  struct Open {
    bool object;
    bool first = true;
    JsonValue::ElementRange::iterator element, element_end;
    JsonValue::MemberRange::iterator member, member_end;
  };
  std::vector<Open> open;
  const auto begin = [&](JsonValue item) {
    if (!item) {
      out += "null";
      return;
    }
    switch (item.kind()) {
      case JsonKind::null:
        out += "null";
        break;
      case JsonKind::boolean:
        out += item.boolean() ? "true" : "false";
        break;
      case JsonKind::integer:
      case JsonKind::real:
        out += item.text();
        break;
      case JsonKind::string:
        append_escaped(out, item.text());
        break;
      case JsonKind::array: {
        out += '[';
        Open& level = open.emplace_back();
        level.object = false;
        level.element = item.elements().begin();
        level.element_end = item.elements().end();
        break;
      }
      case JsonKind::object: {
        out += '{';
        Open& level = open.emplace_back();
        level.object = true;
        level.member = item.members().begin();
        level.member_end = item.members().end();
        break;
      }
    }
  };
  begin(value);
  while (!open.empty()) {
    Open& level = open.back();
    if (level.object ? level.member == level.member_end : level.element == level.element_end) {
      out += level.object ? '}' : ']';
      open.pop_back();
      continue;
    }
    if (!level.first) {
      out += ',';
    }
    level.first = false;
    if (level.object) {
      const JsonValue::Member member = *level.member;
      ++level.member;
      append_escaped(out, member.key);
      out += ':';
      begin(member.value);
    } else {
      const JsonValue element = *level.element;
      ++level.element;
      begin(element);
    }
  }
}

std::uint32_t add_rank(Forest& forest, const Graph& graph, std::int64_t rank, KeepPayload keep, Compat compat) {
  const auto index = static_cast<std::uint32_t>(forest.ranks.size());
  TreeRank& added = forest.ranks.emplace_back();
  const Dump& dump = graph.dump;
  added.rank = rank;
  added.directory = dump.directory;
  added.task = dump.task;
  added.level = dump.level;
  added.framework = dump.framework;
  added.dump_data_dir = dump.dump_data_dir;
  added.megatron_micro_steps = dump.megatron_micro_steps;
  added.detected = dump.detected_framework();
  added.has_data = dump.data.is_object();
  added.has_md5 = dump.has_md5();
  added.warnings = graph.warnings;
  added.lost_nodes = graph.lost_nodes;
  added.hint = group_hint(graph, rank);
  RankReader(forest, graph, index, keep, compat).read();
  return index;
}

Graph to_graph(Forest& forest, std::uint32_t rank) {
  Graph graph;
  TreeRank& main = forest.ranks[rank];
  static constexpr JsonCell empty_object = [] {
    JsonCell cell;
    cell.span = 1;
    cell.tag = JsonCell::Tag::object;
    return cell;
  }();
  graph.merged = true;
  graph.dump.directory = main.directory;
  graph.dump.task = main.task;
  graph.dump.level = main.level;
  graph.dump.framework = main.framework;
  graph.dump.dump_data_dir = main.dump_data_dir;
  graph.dump.megatron_micro_steps = main.megatron_micro_steps;
  graph.dump.facts = {main.detected, main.has_md5};
  if (main.has_data) {
    graph.dump.data = JsonValue(&empty_object);
  }
  const JsonDocument::Limits limits{JsonDocument::Limits{}.max_depth + 2, JsonDocument::Limits{}.max_piece_bytes};

  // What the nodes show.
  std::vector<std::vector<JsonValue>> payloads(forest.ranks.size());
  for (std::size_t k = 0; k < forest.ranks.size(); ++k) {
    if (forest.ranks[k].payload.size() > 2) {
      graph.documents.push_back(JsonDocument::parse(forest.ranks[k].payload, forest.ranks[k].directory / "dump.json", limits));
      for (const JsonValue entry : graph.documents.back().root().elements()) {
        payloads[k].push_back(entry);
      }
    }
    forest.ranks[k].payload = std::string();
  }
  // Nodes, depth-first, a parent before its children.
  std::vector<std::uint32_t> place(forest.nodes.size(), no_node);
  std::vector<std::uint32_t> waiting{main.root};
  std::vector<std::uint32_t> tree_of;
  while (!waiting.empty()) {
    const std::uint32_t tree = waiting.back();
    waiting.pop_back();
    place[tree] = static_cast<std::uint32_t>(tree_of.size());
    tree_of.push_back(tree);
    const auto& children = forest.nodes[tree].children;
    waiting.insert(waiting.end(), children.rbegin(), children.rend());
  }
  // Stacks and shapes that are texts so far, in one document.
  std::unordered_map<Text, JsonValue> parsed;
  std::vector<Text> to_parse;
  std::string all = "[";
  const auto note = [&](Text text) {
    if (text != 0 && parsed.try_emplace(text).second) {
      all += to_parse.empty() ? "" : ",";
      all += forest.texts[text];
      to_parse.push_back(text);
    }
  };
  for (const std::uint32_t tree : tree_of) {
    const TreeNode& node = forest.nodes[tree];
    note(node.stack);
    for (const auto* entries : {&node.inputs, &node.outputs}) {
      for (const TreeEntry& entry : *entries) {
        note(entry.merged_shape);
      }
    }
  }
  graph.documents.push_back(JsonDocument::parse(all + "]", "stack.json", limits));
  std::size_t next = 0;
  for (const JsonValue value : graph.documents.back().root().elements()) {
    parsed[to_parse[next++]] = value;
  }
  parsed[0] = graph.pool.string_array({});

  std::unordered_map<std::uint32_t, ItemLists> sources;
  const auto items_of = [&](std::uint32_t tree) -> const ItemLists& {
    const auto [known, is_new] = sources.try_emplace(tree);
    const TreeNode& node = forest.nodes[tree];
    if (is_new && node.payload != no_node) {
      build_items(forest.texts[node.source_name], payloads[node.rank][node.payload], graph.pool, known->second);
    }
    return known->second;
  };
  graph.nodes.reserve(tree_of.size());
  for (const std::uint32_t tree : tree_of) {
    TreeNode& from = forest.nodes[tree];
    Node node;
    node.name = graph.pool.keep(forest.texts[from.name]);
    node.type = from.type;
    node.micro_step = from.micro_step;
    node.overflow = from.overflow;
    node.stack = parsed.at(from.stack);
    if (from.payload != no_node) {
      node.entry = payloads[from.rank][from.payload];
    }
    const auto add_items = [&](const std::vector<TreeEntry>& entries) {
      for (const TreeEntry& entry : entries) {
        const ItemLists& lists = items_of(entry.source_node);
        const std::vector<Item>& list = entry.source_output ? lists.outputs : lists.inputs;
        if (entry.source_item >= list.size()) {
          continue;
        }
        Item item = list[entry.source_item];
        const std::string_view old = forest.texts[forest.nodes[entry.source_node].source_name];
        if (old != node.name) {
          item.key = graph.pool.keep(replace_all(item.key, old, node.name));
          item.full_name = graph.pool.keep(replace_all(item.full_name, old, node.name));
        }
        for (std::size_t statistic = 0; statistic < item.stats.size(); ++statistic) {
          if ((entry.changed & (1U << statistic)) != 0) {
            const Number number = entry.stat(statistic);
            item.stats[statistic] = number.is_number() ? graph.pool.number(number.text()) : graph.pool.string(number.text());
          }
        }
        if (entry.merged_shape != 0) {
          item.shape = parsed.at(entry.merged_shape);
        }
        if (entry.unresolved != nullptr) {
          graph.unresolved.emplace(static_cast<std::uint32_t>(graph.items.size()), entry.unresolved);
        }
        if (entry.changed != 0 || entry.merged_shape != 0) {
          graph.merged_items.insert(static_cast<std::uint32_t>(graph.items.size()));
        }
        if (entry.md5_lost) {
          item.md5 = graph.pool.string("N/A");
        }
        if (entry.parts == nullptr && entry.data_name != 0 && forest.nodes[entry.source_node].rank != rank) {
          // The file is in the directory of another rank.
          auto file = std::make_shared<TensorParts>();
          file->directory = forest.ranks[forest.nodes[entry.source_node].rank].directory;
          file->data_name = forest.texts[entry.data_name];
          file->dtype = forest.texts[entry.dtype];
          graph.tensor_parts.emplace(static_cast<std::uint32_t>(graph.items.size()), std::move(file));
        } else if (entry.parts != nullptr) {
          graph.tensor_parts.emplace(static_cast<std::uint32_t>(graph.items.size()), entry.parts);
        }
        graph.items.push_back(item);
      }
    };
    node.inputs_begin = static_cast<std::uint32_t>(graph.items.size());
    add_items(from.inputs);
    node.outputs_begin = static_cast<std::uint32_t>(graph.items.size());
    add_items(from.outputs);
    node.items_end = static_cast<std::uint32_t>(graph.items.size());
    sources.erase(tree);
    const auto index = static_cast<std::uint32_t>(graph.nodes.size());
    if (const auto collection = rank_of_collection(node.name); collection && !forest.ranks[from.rank].coordinates.empty()) {
      const std::string key = forest.ranks[from.rank].coordinates + std::string(node.name.substr(node.name.find('.')));
      graph.match_names.emplace(index, key);
    }
    if (!from.info.empty()) {
      graph.merge_info.emplace(index, std::move(from.info));
    }
    if (main.own_names.find(from.name) == main.own_names.end()) {
      graph.moved.insert(index);
    }
    graph.nodes.push_back(node);
    graph.by_name.emplace(node.name, index);
  }
  for (std::uint32_t index = 0; index < tree_of.size(); ++index) {
    for (const std::uint32_t child : forest.nodes[tree_of[index]].children) {
      append_child(graph, index, place[child]);
    }
  }
  number_nodes(graph);
  std::erase_if(graph.order, [&](std::uint32_t node) { return graph.by_name.at(graph.nodes[node].name) != node; });
  return graph;
}

}  // namespace msvis
