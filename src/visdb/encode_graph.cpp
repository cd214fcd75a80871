#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dump/python_text.h"
#include "msvis/error.h"
#include "msvis/items.h"
#include "msvis/visdb.h"
#include "visdb/json_text.h"
#include "visdb/rows_by_name.h"

namespace msvis {
namespace {

constexpr std::string_view consistent_key = "Requires_grad Consistent";
constexpr std::string_view result_key = "Result";
constexpr std::string_view message_key = "Err_message";
constexpr std::string_view null_item = R"({"value": "null"})";
constexpr std::string_view batch_marker = "batch_isend_irecv";

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// What the display objects of a node are made from.
struct DisplayRules {
  bool keep_md5 = false;
  bool keep_checksummed = false;  ///< an item with a checksum is shown although it has no statistics
  std::vector<std::string_view> metric_keys;
  CompareMode mode = CompareMode::structure;
};

/// Writes input_data and output_data. Buffers are reused from item to item.
class DisplayWriter {
 public:
  explicit DisplayWriter(DisplayRules rules) : rules_(std::move(rules)) {
    for (const std::string_view key : rules_.metric_keys) {
      added_lengths_ |= length_bit(key);
    }
    for (const std::string_view key : {consistent_key, result_key, message_key}) {
      added_lengths_ |= length_bit(key);
    }
  }

  /// Sets the node whose items come next, with its rows, if any.
  void begin_node(const Graph& graph, const Node& node, const NodeRows* rows) {
    batch_ = node.name.find(batch_marker) != std::string_view::npos;
    rows_.set(graph, rules_.mode == CompareMode::structure ? nullptr : rows);
  }

  /// Items [begin, end) of the node as one JSON object.
  void append_items(std::string& out, const Graph& graph, std::uint32_t begin, std::uint32_t end) {
    out += '{';
    for (std::uint32_t at = begin; at < end; ++at) {
      if (at != begin) {
        out += ", ";
      }
      const Item& item = graph.items[at];
      append_json_string(out, item.key);
      out += ": ";
      append_item(out, item, rows_.find(item.key));
    }
    out += '}';
  }

 private:
  static std::uint64_t length_bit(std::string_view key) { return std::uint64_t{1} << (key.size() & 63U); }

  /// Whether the comparison adds this key itself (it then takes the place of a member that the dump had under that name).
  [[nodiscard]] bool is_added(std::string_view key) const {
    if ((added_lengths_ & length_bit(key)) == 0) {
      return false;
    }
    return is_one_of(key, {consistent_key, result_key, message_key}) ||
           std::find(rules_.metric_keys.begin(), rules_.metric_keys.end(), key) != rules_.metric_keys.end();
  }

  [[nodiscard]] bool keeps(std::string_view key, bool group) const {
    if (is_one_of(key, {"state", "full_op_name"}) || (key == "md5" && !rules_.keep_md5)) {
      return false;
    }
    if (batch_ && is_one_of(key, {"op", "peer", "tag", "group_id"})) {
      return false;
    }
    return !group || is_one_of(key, {"type", "group_ranks", "group_id", "data_name"});
  }

  void append_item(std::string& out, const Item& item, const Row* row) {
    list_members(item, members_);
    const auto type = std::find_if(members_.begin(), members_.end(), [](const auto& member) { return member.key == "type"; });
    const bool group = type != members_.end() && type->value.is_string() && type->value.text() == "torch.ProcessGroup";
    const bool collapses = !(rules_.keep_checksummed && item.md5.is_string() && !item.md5.text().empty());
    const std::size_t start = out.size();
    const Row* added = group ? nullptr : row;
    replaced_.clear();
    out += '{';
    first_ = true;
    for (const JsonValue::Member& member : members_) {
      if (!keeps(member.key, group)) {
        continue;
      }
      if (added != nullptr && is_added(member.key)) {
        replaced_.push_back(member.key);
        added_text(*added, member.key);
        append_shown(out, member.key);
        continue;
      }
      if (member.key == "error_key" && member.value.is_array()) {
        append_key(out, member.key);
        append_json_value(out, member.value);
        continue;
      }
      shown_.clear();
      append_display(shown_, member.value);
      if (member.key == "Max" && collapses && shown_ == "null") {
        out.resize(start);
        out += null_item;
        return;
      }
      append_shown(out, member.key);
    }
    if (added != nullptr) {
      append_comparison(out, *added);
    }
    out += '}';
  }

  void append_comparison(std::string& out, const Row& row) {
    const auto append = [&](std::string_view key) {
      if (replaced_.empty() || std::find(replaced_.begin(), replaced_.end(), key) == replaced_.end()) {
        added_text(row, key);
        append_shown(out, key);
      }
    };
    if (rules_.mode == CompareMode::md5) {
      append(result_key);
      append(consistent_key);
      append(message_key);
      return;
    }
    for (std::size_t k = 0; k < rules_.metric_keys.size() && k < row.cells.size(); ++k) {
      append(rules_.metric_keys[k]);
    }
    append(consistent_key);
    append(result_key);
    append(message_key);
  }

  /// Sets `shown_` to the text of a key that the comparison adds.
  void added_text(const Row& row, std::string_view key) {
    shown_.clear();
    if (key == consistent_key) {
      shown_ = row.requires_grad_consistent ? "True" : "False";
    } else if (key == result_key) {
      shown_ = level_text(row.level);
    } else if (key == message_key) {
      raw_.clear();
      append_json_array(raw_, row.messages);
      append_display_text(shown_, raw_);
    } else {
      const auto place = std::find(rules_.metric_keys.begin(), rules_.metric_keys.end(), key) - rules_.metric_keys.begin();
      const auto at = static_cast<std::size_t>(place);
      if (at < row.cells.size()) {
        append_cell(row.cells[at]);
      }
    }
  }

  void append_cell(const Cell& cell) {
    if (cell.kind == Cell::Kind::number || cell.kind == Cell::Kind::blank) {
      cell.append_to(shown_);  // a number is not text: never rounded
      return;
    }
    raw_.clear();
    cell.append_to(raw_);
    append_display_text(shown_, raw_);
  }

  void append_key(std::string& out, std::string_view key) {
    if (!first_) {
      out += ", ";
    }
    first_ = false;
    append_json_string(out, key);
    out += ": ";
  }

  void append_shown(std::string& out, std::string_view key) {
    append_key(out, key);
    append_json_string(out, shown_);
  }

  DisplayRules rules_;
  std::uint64_t added_lengths_ = 0;
  std::vector<JsonValue::Member> members_;
  std::vector<std::string_view> replaced_;
  RowsByName rows_;
  std::string shown_;
  std::string raw_;
  bool first_ = true;
  bool batch_ = false;  ///< the node is a batch of point-to-point operations
};

/// Distinct stacks of a graph, numbered by first use in node_order.
struct StackTable {
  std::deque<std::string> texts;
  std::vector<std::uint32_t> number;  ///< by node index
};

std::string stack_text(JsonValue stack) {
  std::string text;
  if (!stack || stack.is_null()) {
    return "[]";
  }
  if (stack.is_array()) {
    append_json_value(text, stack);
    return text;
  }
  text += '[';  // the viewer joins the elements of an array: anything else becomes its only element
  append_json_value(text, stack);
  text += ']';
  return text;
}

StackTable number_stacks(const Graph& graph) {
  StackTable table;
  table.number.assign(graph.nodes.size(), 0);
  std::unordered_map<const JsonCell*, std::uint32_t> by_place;
  std::unordered_map<std::string_view, std::uint32_t> by_text;
  for (const std::uint32_t index : graph.order) {
    const JsonValue stack = graph.nodes[index].stack;
    const auto [place, unseen] = by_place.try_emplace(stack.cell(), 0);
    if (unseen) {
      std::string text = stack_text(stack);
      const auto known = by_text.find(text);
      if (known != by_text.end()) {
        place->second = known->second;
      } else {
        place->second = static_cast<std::uint32_t>(table.texts.size());
        table.texts.push_back(std::move(text));
        by_text.emplace(table.texts.back(), place->second);
      }
    }
    table.number[index] = place->second;
  }
  return table;
}

std::size_t row_bytes(const NodeRow& row) {
  return sizeof row + row.name.size() + row.up_node.size() + row.sub_nodes.size() + row.matched_node_link.size() + row.input_data.size() +
         row.output_data.size() + row.parallel_merge_info.size();
}

/// What is known of the tensor files of a node. Returns about the bytes added.
std::size_t append_tensors(std::vector<TensorRow>& tensors, const Graph& graph, const NodeRows& rows) {
  std::size_t bytes = 0;
  for (const Row& row : rows.rows) {
    if (row.tensor) {
      TensorRow& tensor = tensors.emplace_back();
      append_valid_utf8(tensor.node, graph.nodes[rows.node].name);
      append_valid_utf8(tensor.parameter, graph.items[row.target_item].key);
      tensor.skipped = row.tensor->skipped;
      append_valid_utf8(tensor.reason, row.info);
      tensor.shape = row.tensor->shape;
      tensor.elements = row.tensor->elements;
      tensor.metrics = row.tensor->metrics;
      bytes += sizeof tensor + tensor.node.size() + tensor.parameter.size() + tensor.reason.size();
    }
  }
  return bytes;
}

/// Array of the names of all direct children; empty text for a leaf.
void append_children(std::string& out, const Graph& graph, const Node& node) {
  if (node.first_child == no_node) {
    return;
  }
  out += '[';
  for (std::uint32_t child = node.first_child; child != no_node; child = graph.nodes[child].next_sibling) {
    if (child != node.first_child) {
      out += ", ";
    }
    append_json_string(out, graph.nodes[child].name);
  }
  out += ']';
}

/// Array of the names on the way from the root to a node, the node included. `way` is a buffer.
void append_way(std::string& out, const Graph& graph, std::uint32_t node, std::vector<std::uint32_t>& way) {
  way.clear();
  for (std::uint32_t at = node; at != no_node; at = graph.nodes[at].parent) {
    if (way.size() > graph.nodes.size()) {
      way.assign(1, node);  // a cycle above the node: it stands alone, see Graph::ancestors
      break;
    }
    way.push_back(at);
  }
  out += '[';
  for (std::size_t left = way.size(); left > 0; --left) {
    append_json_string(out, graph.nodes[way[left - 1]].name);
    if (left > 1) {
      out += ", ";
    }
  }
  out += ']';
}

}  // namespace

void encode_graph(const Graph& graph, const Graph* other, const Comparison* comparison, std::optional<CompareMode> mode, Side side,
                  std::int64_t step, std::int64_t rank, std::size_t batch_bytes, const std::function<void(RowBatch&&)>& sink, Compat compat,
                  const EncodeSelection& selection) {
  DisplayRules rules;
  rules.keep_md5 = mode == CompareMode::md5;
  rules.keep_checksummed = rules.keep_md5 && compat == Compat::standard;
  if (comparison != nullptr) {
    rules.mode = comparison->mode;
    if (rules.mode == CompareMode::summary || rules.mode == CompareMode::tensor) {
      rules.metric_keys = metric_keys(rules.mode);
    }
  }
  DisplayWriter display(std::move(rules));

  const std::vector<const NodeRows*> rows_of = comparison == nullptr ? std::vector<const NodeRows*>() : rows_by_node(graph, *comparison);

  StackTable stacks = number_stacks(graph);

  std::vector<std::uint32_t> sorted(graph.order.size());  // places in node_order
  std::iota(sorted.begin(), sorted.end(), 0U);
  const auto name_at = [&](std::uint32_t place) { return graph.nodes[graph.order[place]].name; };
  if (selection.nodes != nullptr) {
    std::erase_if(sorted, [&](std::uint32_t place) { return !(*selection.nodes)[graph.order[place]]; });
  }
  std::sort(sorted.begin(), sorted.end(), [&](std::uint32_t left, std::uint32_t right) { return name_at(left) < name_at(right); });

  RowBatch batch;
  std::size_t bytes = 0;
  std::uint32_t stack = 0;
  const auto start_batch = [&] {
    batch = RowBatch{};
    batch.side = side;
    batch.step = step;
    batch.rank = rank;
    batch.dump_data_dir = graph.dump.dump_data_dir;
    batch.first_stack = stack;
    bytes = 0;
  };
  const auto flush_if_full = [&] {
    if (bytes >= batch_bytes) {
      sink(std::move(batch));
      start_batch();
    }
  };

  start_batch();
  if (!selection.stacks) {
    stacks.texts.clear();
  }
  for (std::string& text : stacks.texts) {
    bytes += text.size() + sizeof(std::string);
    batch.stacks.push_back(std::move(text));
    ++stack;
    flush_if_full();
  }
  std::vector<std::uint32_t> way;
  for (const std::uint32_t place : sorted) {
    const std::uint32_t index = graph.order[place];
    const Node& node = graph.nodes[index];
    const NodeRows* rows = comparison == nullptr ? nullptr : rows_of[index];
    NodeRow& row = batch.nodes.emplace_back();
    row.node_order = place;
    append_valid_utf8(row.name, node.name);
    row.type = node.type;
    if (node.parent != no_node) {
      append_valid_utf8(row.up_node, graph.nodes[node.parent].name);
    }
    append_children(row.sub_nodes, graph, node);
    row.precision = node.precision;
    row.overflow = node.overflow;
    row.micro_step = std::max<std::int64_t>(node.micro_step, 0);
    if (other != nullptr && node.link != no_node) {
      row.matched_node_link.clear();
      append_way(row.matched_node_link, *other, node.link, way);
    }
    row.stack = stacks.number[index];
    if (const auto info = graph.merge_info.find(index); info != graph.merge_info.end()) {
      append_json_array(row.parallel_merge_info, info->second);
    }
    display.begin_node(graph, node, rows);
    if (node.outputs_begin > node.inputs_begin) {
      row.input_data.clear();
      display.append_items(row.input_data, graph, node.inputs_begin, node.outputs_begin);
    }
    if (node.items_end > node.outputs_begin) {
      row.output_data.clear();
      display.append_items(row.output_data, graph, node.outputs_begin, node.items_end);
    }
    bytes += row_bytes(row);
    if (rows != nullptr) {
      bytes += append_tensors(batch.tensors, graph, *rows);
    }
    flush_if_full();
  }
  if (!batch.nodes.empty() || !batch.stacks.empty()) {
    sink(std::move(batch));
  }
}

}  // namespace msvis
