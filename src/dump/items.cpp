#include "msvis/items.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

#include "dump/name_map.h"
#include "dump/python_text.h"
#include "msvis/error.h"

namespace msvis {
namespace {

constexpr std::string_view grad_segment = "parameters_grad";
constexpr std::string_view p2p_class = "torch.distributed.P2POp";

/// A string value with static text.
class FixedText {
 public:
  explicit constexpr FixedText(std::string_view text) {
    cell_.text = text.data();
    cell_.size = static_cast<std::uint32_t>(text.size());
    cell_.tag = JsonCell::Tag::string;
  }
  [[nodiscard]] JsonValue value() const { return JsonValue(&cell_); }

 private:
  JsonCell cell_;
};

constexpr JsonCell null_cell{};
constexpr FixedText no_file("-1");
constexpr FixedText true_text("True");
constexpr FixedText false_text("False");
constexpr FixedText empty_list("[]");
constexpr FixedText class_none("<class 'NoneType'>");
constexpr FixedText class_bool("<class 'bool'>");
constexpr FixedText class_int("<class 'int'>");
constexpr FixedText class_float("<class 'float'>");
constexpr FixedText class_str("<class 'str'>");
constexpr FixedText class_list("<class 'list'>");
constexpr FixedText class_dict("<class 'dict'>");

JsonValue null_value() {
  return JsonValue(&null_cell);
}
JsonValue or_null(JsonValue value) {
  return value ? value : null_value();
}

/// A direct member of a leaf as the item holds it: booleans are texts.
JsonValue stored(JsonValue value) {
  if (value.is(JsonKind::boolean)) {
    return value.boolean() ? true_text.value() : false_text.value();
  }
  return value;
}

JsonValue class_text(JsonValue value) {
  if (!value) {
    return class_none.value();
  }
  switch (value.kind()) {
    case JsonKind::null:
      return class_none.value();
    case JsonKind::boolean:
      return class_bool.value();
    case JsonKind::integer:
      return class_int.value();
    case JsonKind::real:
      return class_float.value();
    case JsonKind::string:
      return class_str.value();
    case JsonKind::array:
      return class_list.value();
    case JsonKind::object:
      return class_dict.value();
  }
  return class_none.value();
}

/// The members that decide about an item.
struct LeafMembers {
  JsonValue type, class_type, dtype, shape, requires_grad, data_name, md5, value, group_ranks;
  std::array<JsonValue, 4> stats;
};

LeafMembers leaf_members(JsonValue object) {
  LeafMembers found;
  for (const auto [key, value] : object.members()) {
    switch (key.size()) {
      case 3:
        if (key == "Max") {
          found.stats[stat_max] = value;
        } else if (key == "Min") {
          found.stats[stat_min] = value;
        } else if (key == "md5") {
          found.md5 = value;
        }
        break;
      case 4:
        if (key == "Mean") {
          found.stats[stat_mean] = value;
        } else if (key == "Norm") {
          found.stats[stat_norm] = value;
        } else if (key == "type") {
          found.type = value;
        }
        break;
      case 5:
        if (key == "dtype") {
          found.dtype = value;
        } else if (key == "shape") {
          found.shape = value;
        } else if (key == "value") {
          found.value = value;
        }
        break;
      case 9:
        if (key == "data_name") {
          found.data_name = value;
        }
        break;
      case 10:
        if (key == "class_type") {
          found.class_type = value;
        }
        break;
      case 11:
        if (key == "group_ranks") {
          found.group_ranks = value;
        }
        break;
      case 13:
        if (key == "requires_grad") {
          found.requires_grad = value;
        }
        break;
      default:
        break;
    }
  }
  return found;
}

bool is_text(JsonValue value, std::string_view text) {
  return value.is_string() && value.text() == text;
}

std::string_view without_last_part(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

std::string_view last_part(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

bool has_segment(std::string_view name, std::string_view segment) {
  for (std::size_t at = name.find(segment); at != std::string_view::npos; at = name.find(segment, at + 1)) {
    const std::size_t end = at + segment.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) {
      return true;
    }
  }
  return false;
}

/// Whether the entry of this node is a gradient of parameters: the segment is the last or the last but one.
bool is_grad_node(std::string_view name) {
  return last_part(name) == grad_segment
             ? name.size() > grad_segment.size()
             : last_part(without_last_part(name)) == grad_segment && without_last_part(name).size() < name.size();
}

/// Text of the shape that an array would have as a numpy array: `(3,)`, `(2, 3)`; elements of unequal length end it.
std::string array_shape_text(JsonValue value) {
  constexpr std::size_t most_dimensions = 32;
  std::string text = "(";
  std::size_t dimensions = 0;
  for (bool regular = value.is_array(); regular && dimensions < most_dimensions; ++dimensions) {
    text += (dimensions == 0 ? "" : ", ") + std::to_string(value.size());
    // All values of a level have one shape as long as the walk goes on, so the first stands for all once they are compared.
    const auto elements = value.elements();
    regular = value.size() != 0;
    for (const JsonValue element : elements) {
      regular = regular && element.is_array() && element.size() == (*elements.begin()).size();
    }
    if (regular) {
      value = *elements.begin();
    }
  }
  return text + (dimensions == 1 ? ",)" : ")");
}

std::string str_or_none(JsonValue value) {
  std::string text;
  append_str(text, or_null(value));
  return text;
}

/// Collects the items of one node.
class Collector {
 public:
  Collector(JsonPool& pool, ItemLists& lists, std::string_view node_name) : pool_(pool), lists_(lists), node_name_(node_name) {}

  /// Walks one member of the entry under the name node + suffix.
  void walk(JsonValue root, std::string_view suffix, ItemState state) {
    state_ = state;
    name_.assign(node_name_);
    name_ += suffix;
    // Names repeat the path to an item: allow what real dumps need many times over, but not the square of a file's size.
    name_bytes_left_ += (std::uint64_t{1} << 20) + (root && root.cell() != nullptr ? root.cell()->cells() * 512 : 0);
    levels_.clear();
    visit(root, has_segment(name_, grad_segment));
    while (!levels_.empty()) {
      Level& level = levels_.back();
      name_.resize(level.name_size);
      bool in_grad = level.in_grad;
      JsonValue child;
      if (level.is_object) {
        if (level.member == level.last_member) {
          levels_.pop_back();
          continue;
        }
        const JsonValue::Member member = *level.member;
        ++level.member;
        name_ += '.';
        name_ += member.key;
        in_grad = in_grad || has_segment(member.key, grad_segment);
        child = member.value;
      } else {
        if (level.element == level.last_element) {
          levels_.pop_back();
          continue;
        }
        child = *level.element;
        ++level.element;
        if (!in_grad) {
          std::array<char, 24> digits;
          const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), level.index);
          name_ += '.';
          name_.append(digits.data(), result.ptr);
        }
        ++level.index;
      }
      visit(child, in_grad);  // may add a level: ends the use of `level`
    }
  }

 private:
  struct Level {
    bool is_object = false;
    bool in_grad = false;
    std::size_t name_size = 0;
    std::uint64_t index = 0;
    JsonValue::MemberRange::iterator member, last_member;
    JsonValue::ElementRange::iterator element, last_element;
  };

  void visit(JsonValue value, bool in_grad) {
    if (value.is_null()) {
      add_null_item({});
      return;
    }
    if (value.size() == 0) {
      return;  // empty containers and bare scalars
    }
    Level level;
    level.in_grad = in_grad;
    level.name_size = name_.size();
    if (value.is_object()) {
      const LeafMembers found = leaf_members(value);
      if (is_text(found.class_type, p2p_class)) {
        const JsonValue tensor = value.find("tensor");
        if (tensor.is_object()) {
          add_leaf_item(tensor, leaf_members(tensor), value);
        } else {
          add_null_item(value);
        }
        return;
      }
      if (found.type.is_string()) {
        add_leaf_item(value, found, {});
        return;
      }
      level.is_object = true;
      level.member = value.members().begin();
      level.last_member = value.members().end();
    } else {
      level.element = value.elements().begin();
      level.last_element = value.elements().end();
    }
    levels_.push_back(level);
  }

  std::string_view keep_name() {
    if (name_.size() > name_bytes_left_) {
      throw Error(ErrorCategory::limit, "the names of the parameters of " + std::string(node_name_.substr(0, 200)) + " are too long");
    }
    name_bytes_left_ -= name_.size();
    return pool_.keep(name_);
  }

  void add_null_item(JsonValue p2p) {
    Item item;
    item.full_name = keep_name();
    item.p2p = p2p;
    item.data_name = no_file.value();
    item.requires_grad = item.dtype = item.shape = item.md5 = null_value();
    item.stats.fill(null_value());
    add(item);
  }

  void add_leaf_item(JsonValue leaf, const LeafMembers& found, JsonValue p2p) {
    Item item;
    item.leaf = leaf;
    item.p2p = p2p;
    const JsonValue file = stored(found.data_name);
    const bool has_file = file.is_string() && file.truthy() && file.text() != "-1";
    item.data_name = has_file ? file : no_file.value();
    item.full_name = has_file ? without_last_part(file.text()) : keep_name();
    item.requires_grad = or_null(stored(found.requires_grad));
    for (std::size_t k = 0; k < item.stats.size(); ++k) {
      item.stats[k] = or_null(stored(found.stats[k]));
    }
    item.dtype = or_null(stored(found.dtype));
    item.shape = or_null(stored(found.shape));
    item.md5 = or_null(stored(found.md5));
    if (!item.dtype.truthy()) {
      describe_argument(item, found);
    }
    if (!item.md5.truthy()) {
      text_.clear();
      append_str(text_, found.value);
      item.md5 = pool_.string(crc32_hex(text_));
    }
    add(item);
  }

  /// dtype, shape and statistics of what is no tensor; the first rule that matches.
  void describe_argument(Item& item, const LeafMembers& found) {
    const auto set = [&item](JsonValue dtype, JsonValue shape) {
      item.dtype = dtype;
      item.shape = shape;
    };
    if (is_text(found.type, "torch.Size")) {
      set(found.type, pool_.string(str_or_none(found.value)));
      return;
    }
    if (is_text(found.type, "slice")) {
      set(found.type, pool_.string(array_shape_text(found.value)));
      return;
    }
    if (is_text(found.type, "ellipsis")) {
      set(found.type, empty_list.value());
      item.stats.fill(or_null(found.value));
      return;
    }
    const std::string_view argument = last_part(name_);
    if (argument == "src" || argument == "dst" || argument == "group_src" || argument == "group_dst") {
      set(or_null(stored(found.type)), empty_list.value());
      item.md5 = pool_.string(str_or_none(found.value));
      item.stats.fill(item.md5);
      return;
    }
    if (is_text(found.type, "torch.ProcessGroup")) {
      set(found.type, empty_list.value());
      item.md5 = pool_.string(str_or_none(found.group_ranks));
      item.stats.fill(item.md5);
      return;
    }
    set(class_text(found.value), empty_list.value());
    item.stats.fill(or_null(found.value));
  }

  void add(Item& item) {
    item.key = item.full_name;
    item.state = state_;
    const bool is_output =
        item.full_name.find(".output.") != std::string_view::npos && item.full_name.find(".input.") == std::string_view::npos;
    add_to(is_output ? lists_.outputs : lists_.inputs, is_output ? output_keys_ : input_keys_, item);
  }

  /// A repeated key keeps its place and takes the new item. Short lists are searched, long ones have an index.
  static void add_to(std::vector<Item>& list, NameMap<std::uint32_t>& keys, const Item& item) {
    constexpr std::size_t long_list = 24;
    if (list.size() < long_list) {
      for (Item& present : list) {
        if (present.key == item.key) {
          present = item;
          return;
        }
      }
      list.push_back(item);
      return;
    }
    if (list.size() == long_list && keys.size() == 0) {
      keys.reset(4 * long_list);
      for (std::uint32_t k = 0; k < list.size(); ++k) {
        keys.insert(list[k].key, k);
      }
    }
    const auto [place, is_new] = keys.insert(item.key, static_cast<std::uint32_t>(list.size()));
    if (is_new) {
      list.push_back(item);
    } else {
      list[*place] = item;
    }
  }

  JsonPool& pool_;
  ItemLists& lists_;
  std::string_view node_name_;
  ItemState state_ = ItemState::input;
  std::string name_;
  std::string text_;
  std::uint64_t name_bytes_left_ = 0;
  std::vector<Level> levels_;
  NameMap<std::uint32_t> input_keys_;
  NameMap<std::uint32_t> output_keys_;
};

constexpr std::array<std::string_view, 5> p2p_members = {"class_type", "op", "peer", "tag", "group_id"};

/// Members that every item has, in the order in which missing ones are added.
constexpr std::array<std::string_view, 9> derived_members = {"data_name", "requires_grad", "Max",   "Min", "Mean",
                                                             "Norm",      "dtype",         "shape", "md5"};

JsonValue derived_value(const Item& item, std::size_t which) {
  switch (which) {
    case 0:
      return item.data_name;
    case 1:
      return item.requires_grad;
    case 6:
      return item.dtype;
    case 7:
      return item.shape;
    case 8:
      return item.md5;
    default:
      return item.stats[which - 2];
  }
}

}  // namespace

void build_items(std::string_view node_name, JsonValue entry, JsonPool& pool, ItemLists& lists) {
  lists.inputs.clear();
  lists.outputs.clear();
  if (!entry) {
    return;
  }
  Collector collector(pool, lists, node_name);
  if (is_grad_node(node_name)) {
    collector.walk(entry, "", ItemState::parameters_grad);
    return;
  }
  if (node_name.ends_with(".debug")) {
    collector.walk(entry, "", ItemState::debug);
    return;
  }
  struct Part {
    std::string_view member;
    std::string_view suffix;
    ItemState state;
  };
  constexpr std::array<Part, 5> parts = {Part{"input_args", ".input", ItemState::input}, Part{"input_kwargs", ".input", ItemState::input},
                                         Part{"input", ".input", ItemState::input}, Part{"output", ".output", ItemState::output},
                                         Part{"parameters", ".parameters", ItemState::parameters}};
  for (const Part& part : parts) {
    if (const JsonValue value = entry.find(part.member)) {
      collector.walk(value, part.suffix, part.state);
    }
  }
}

void list_members(const Item& item, std::vector<JsonValue::Member>& members) {
  members.clear();
  if (item.leaf) {
    std::array<bool, derived_members.size()> present{};
    for (const auto [key, value] : item.leaf.members()) {
      if (key == "state" || key == "full_op_name") {
        continue;
      }
      const auto* const derived = std::find(derived_members.begin(), derived_members.end(), key);
      if (derived == derived_members.end()) {
        members.push_back({key, stored(value)});
        continue;
      }
      const auto which = static_cast<std::size_t>(derived - derived_members.begin());
      present[which] = true;
      members.push_back({key, derived_value(item, which)});
    }
    for (std::size_t which = 0; which < derived_members.size(); ++which) {
      const JsonValue value = derived_value(item, which);
      // A tensor without a shape has none in the result either.
      if (!present[which] && !(derived_members[which] == "shape" && value.is_null())) {
        members.push_back({derived_members[which], value});
      }
    }
  } else {
    for (const std::string_view key : {"type", "Max", "Min", "Mean", "Norm", "dtype", "shape", "md5", "value"}) {
      members.push_back({key, null_value()});
    }
    members.push_back({"data_name", item.data_name});
    members.push_back({"requires_grad", null_value()});
  }
  if (item.p2p) {
    const std::size_t own = members.size();
    for (const std::string_view key : p2p_members) {
      const JsonValue value = or_null(item.p2p.find(key));
      const auto end = members.begin() + static_cast<std::ptrdiff_t>(own);
      const auto same = std::find_if(members.begin(), end, [key](const JsonValue::Member& member) { return member.key == key; });
      if (same != end) {
        same->value = value;
      } else {
        members.push_back({key, value});
      }
    }
  }
}

}  // namespace msvis
