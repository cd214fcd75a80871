#include "links/call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>
#include <utility>

#include "dump/python_text.h"

namespace msvis {
namespace {

constexpr std::string_view communication_prefix = "Distributed";
constexpr std::string_view process_group_type = "torch.ProcessGroup";
constexpr std::string_view batch_name = "batch_isend_irecv";

constexpr std::array<std::pair<std::string_view, ApiRule>, 9> api_rules{{
    {"send", {LinkKind::p2p, true, 'b', "dst", "1", "group_dst"}},
    {"recv", {LinkKind::p2p, false, 'b', "src", "1", "group_src"}},
    {"isend", {LinkKind::p2p, true, 'n', "dst", "1", "group_dst"}},
    {"irecv", {LinkKind::p2p, false, 'n', "src", "1", "group_src"}},
    {"broadcast", {LinkKind::rooted, true, '\0', "1", "src", "group_src"}},
    {"scatter", {LinkKind::rooted, true, '\0', "src", "2", "group_src"}},
    {"gather", {LinkKind::rooted, false, '\0', "dst", "2", "group_dst"}},
    {"reduce", {LinkKind::rooted, false, '\0', "1", "dst", "group_dst"}},
    {batch_name, {LinkKind::batch, false, '\0', {}, {}, {}}},
}};

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

std::string_view strip(std::string_view text) {
  while (!text.empty() && blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

/// Whether a word can stand in a list without quotes: a number, True, False, None.
bool plain_literal(std::string_view word) {
  if (word == "True" || word == "False" || word == "None") {
    return true;
  }
  if (!word.empty() && (word.front() == '+' || word.front() == '-')) {
    word.remove_prefix(1);
  }
  if (word.empty() || (word.front() != '.' && (word.front() < '0' || word.front() > '9'))) {
    return false;  // from_chars reads "inf" and "nan", which are no literals
  }
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool leading_zero = word.size() > 1 && word.front() == '0' && word.find_first_not_of("0123456789") == std::string_view::npos &&
                            word.find_first_not_of('0') != std::string_view::npos;
  return error != std::errc::invalid_argument && end == word.data() + word.size() && !leading_zero;
}

/// Elements of a flat list written as text, such as `[0, 1]`; nullopt if it is anything else.
std::optional<std::vector<std::string>> parse_list(std::string_view text) {
  text = strip(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return std::nullopt;
  }
  text = strip(text.substr(1, text.size() - 2));
  std::vector<std::string> elements;
  while (!text.empty()) {
    std::size_t end = 0;
    const char first = text.front();
    if (first == '\'' || first == '"') {
      end = text.find(first, 1);
      if (end == std::string_view::npos || text.substr(0, end).find('\\') != std::string_view::npos) {
        return std::nullopt;
      }
      elements.emplace_back(text.substr(1, end - 1));
      ++end;
    } else {
      end = std::min(text.find(','), text.size());
      const std::string_view word = strip(text.substr(0, end));
      if (!plain_literal(word)) {
        return std::nullopt;
      }
      elements.emplace_back(word);
    }
    text = strip(text.substr(end));
    if (text.empty()) {
      break;
    }
    if (text.front() != ',') {
      return std::nullopt;
    }
    text = strip(text.substr(1));  // a comma may also stand at the end
  }
  return elements;
}

std::string plain_text(JsonValue value) {
  std::string text;
  if (value.is_null()) {
    text = "null";
  } else {
    append_str(text, value);
  }
  return text;
}

/// Elements of `group_ranks`: a list, or a text that is one.
std::optional<std::vector<std::string>> list_elements(JsonValue value) {
  if (value.is_string()) {
    return parse_list(value.text());
  }
  if (!value.is_array()) {
    return std::nullopt;
  }
  std::vector<std::string> elements;
  elements.reserve(value.size());
  for (const JsonValue element : value.elements()) {
    // A list within the list is no rank: its text does not matter, but it counts as an element.
    elements.push_back(element.is_array() || element.is_object() ? "[]" : plain_text(element));
  }
  return elements;
}

bool all_digits_between(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::string_view> communication_api(std::string_view node_name) {
  if (!node_name.starts_with(communication_prefix)) {
    return std::nullopt;
  }
  const std::size_t dot = node_name.find('.');
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = node_name.substr(dot + 1);
  return rest.substr(0, rest.find('.'));
}

ApiRule api_rule(std::string_view api) {
  const auto* const found = std::find_if(api_rules.begin(), api_rules.end(), [&](const auto& row) { return row.first == api; });
  return found == api_rules.end() ? ApiRule{} : found->second;
}

std::optional<std::int64_t> rank_number(std::string_view text) {
  if (!all_digits_between(text) || (text.size() > 1 && text.front() == '0')) {
    return std::nullopt;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

const Item* CallReader::input(std::string_view parameter) const {
  constexpr std::string_view middle = ".input.";
  const std::string_view name = node_.name;
  for (std::uint32_t index = node_.inputs_begin; index < node_.outputs_begin; ++index) {
    const std::string_view key = graph_.items[index].key;
    if (key.size() == name.size() + middle.size() + parameter.size() && key.starts_with(name) && key.ends_with(parameter) &&
        key.substr(name.size(), middle.size()) == middle) {
      return &graph_.items[index];
    }
  }
  return nullptr;
}

std::optional<std::string> CallReader::member(const Item& item, std::string_view name) const {
  if (compat_ == Compat::standard) {
    if (!item.leaf) {
      return name == "value" ? std::optional<std::string>("null") : std::nullopt;
    }
    const JsonValue value = item.leaf.find(name);
    return value ? std::optional(plain_text(value)) : std::nullopt;
  }
  // The stored form: members are dropped, all else is text, and an item without a maximum shrinks to {"value": "null"}.
  const JsonValue type = item.leaf.find("type");
  const bool process_group = type.is_string() && type.text() == process_group_type;
  const bool batch = node_.name.find(batch_name) != std::string_view::npos;
  std::vector<JsonValue::Member> members;
  list_members(item, members);
  std::optional<std::string> found;
  bool collapsed = false;
  for (const auto& [key, value] : members) {
    if (process_group && key != "type" && key != "group_ranks" && key != "group_id" && key != "data_name") {
      continue;
    }
    if (batch && (key == "op" || key == "peer" || key == "tag" || key == "group_id")) {
      continue;
    }
    if (key == name) {
      found.emplace();
      append_display(*found, value);
    } else if (key == "Max") {
      std::string maximum;
      append_display(maximum, value);
      collapsed = maximum == "null";
    }
  }
  if (collapsed) {
    return name == "value" ? std::optional<std::string>("null") : std::nullopt;
  }
  return found;
}

std::optional<std::string> CallReader::value(std::string_view parameter) const {
  const Item* item = input(parameter);
  return item == nullptr ? std::nullopt : member(*item, "value");
}

std::optional<CallGroup> CallReader::group_of(const Item& item) const {
  std::optional<std::vector<std::string>> elements;
  if (compat_ == Compat::standard) {
    elements = list_elements(item.leaf.find("group_ranks"));
  } else if (const auto text = member(item, "group_ranks")) {
    elements = parse_list(*text);
  }
  if (!elements || elements->empty()) {
    return std::nullopt;
  }
  auto id = member(item, "group_id");
  if (!id || id->empty()) {
    return std::nullopt;
  }
  CallGroup group;
  group.id = std::move(*id);
  std::unordered_set<std::int64_t> seen;
  for (const std::string& element : *elements) {
    if (const auto rank = rank_number(element); rank && seen.insert(*rank).second) {
      group.ranks.push_back(*rank);
    }
  }
  return group;
}

std::optional<CallGroup> CallReader::group() const {
  const Item* item = input("group");
  return item == nullptr ? std::nullopt : group_of(*item);
}

const Item* CallReader::positional_group_item() const {
  constexpr std::string_view middle = ".input.";
  for (std::uint32_t index = node_.inputs_begin; index < node_.outputs_begin; ++index) {
    const Item& item = graph_.items[index];
    const std::size_t before = node_.name.size() + middle.size();
    if (item.key.size() > before && item.key.starts_with(node_.name) && item.key.substr(node_.name.size(), middle.size()) == middle &&
        all_digits_between(item.key.substr(before)) && item.leaf.find("group_ranks")) {
      return &item;
    }
  }
  return nullptr;
}

std::optional<CallGroup> CallReader::positional_group() const {
  const Item* item = positional_group_item();
  return item == nullptr ? std::nullopt : group_of(*item);
}

bool CallReader::names_group() const {
  const Item* item = input("group");
  const bool none = item == nullptr || !item->leaf || (item->leaf.find("value").is_null() && !item->leaf.find("group_ranks"));
  return !none || positional_group_item() != nullptr;
}

}  // namespace msvis
