#include "merge/export.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dump/python_text.h"
#include "graph/names.h"
#include "msvis/error.h"
#include "visdb/json_text.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;

constexpr mode_t file_mode = 0640;
constexpr mode_t directory_mode = 0750;
constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

/// A file under another name until it is complete.
class OutputFile {
 public:
  explicit OutputFile(fs::path path) : path_(std::move(path)), partial_(path_.string() + ".partial") {
    descriptor_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, file_mode);
    if (descriptor_ < 0 || fchmod(descriptor_, file_mode) != 0) {
      fail("can't be created");
    }
  }
  ~OutputFile() {
    if (descriptor_ >= 0) {
      close(descriptor_);
      unlink(partial_.c_str());
    }
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  std::string& text() { return text_; }
  void flush_if_large() {
    if (text_.size() >= buffer_bytes) {
      flush();
    }
  }
  void publish() {
    text_ += '\n';
    flush();
    if (fsync(descriptor_) != 0) {
      fail("could not be written");
    }
    close(descriptor_);
    descriptor_ = -1;
    if (std::rename(partial_.c_str(), path_.c_str()) != 0) {
      const int fault = errno;
      unlink(partial_.c_str());
      errno = fault;
      fail("could not be given its name");
    }
  }

 private:
  void flush() {
    std::string_view rest = text_;
    while (!rest.empty()) {
      const ssize_t written = write(descriptor_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written <= 0) {
        fail("could not be written");
      }
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    text_.clear();
  }
  [[noreturn]] void fail(const char* what) { throw Error(ErrorCategory::io, std::string(what) + ": " + std::strerror(errno), path_); }

  fs::path path_;
  std::string partial_;
  int descriptor_ = -1;
  std::string text_;
};

/// Appends JSON with an indentation of two.
class JsonWriter {
 public:
  explicit JsonWriter(OutputFile& file) : file_(file) {}

  void begin(char bracket) {
    out() += bracket;
    open_.push_back(bracket == '{' ? '}' : ']');
    first_ = true;
  }
  void end() {
    const char bracket = open_.back();
    open_.pop_back();
    if (!first_) {
      new_line();
    }
    out() += bracket;
    first_ = false;
    file_.flush_if_large();
  }
  void key(std::string_view text) {
    element();
    append_json_string(out(), text);
    out() += ": ";
  }
  /// In front of an element of an array.
  void element() {
    out() += first_ ? "" : ",";
    first_ = false;
    new_line();
  }
  void text(std::string_view text) { append_json_string(out(), text); }
  void literal(std::string_view token) { out() += token; }
  /// Numbers as they were written.
  void value(JsonValue value) {
    struct Level {
      bool object;
      JsonValue::ElementRange::iterator element, element_end;
      JsonValue::MemberRange::iterator member, member_end;
    };
    std::vector<Level> levels;
    const auto start = [&](JsonValue item) {
      if (item.is_object()) {
        levels.push_back({true, {}, {}, item.members().begin(), item.members().end()});
        begin('{');
      } else if (item.is_array()) {
        levels.push_back({false, item.elements().begin(), item.elements().end(), {}, {}});
        begin('[');
      } else if (!item || item.is_null()) {
        literal("null");
      } else if (item.is_string()) {
        text(item.text());
      } else if (item.is(JsonKind::boolean)) {
        literal(item.boolean() ? "true" : "false");
      } else {
        literal(item.text());
      }
    };
    start(value);
    while (!levels.empty()) {
      Level& level = levels.back();
      if (level.object ? level.member == level.member_end : level.element == level.element_end) {
        levels.pop_back();
        end();
        continue;
      }
      if (level.object) {
        const JsonValue::Member member = *level.member;
        ++level.member;
        key(member.key);
        start(member.value);
      } else {
        const JsonValue item = *level.element;
        ++level.element;
        element();
        start(item);
      }
    }
  }

 private:
  std::string& out() { return file_.text(); }
  void new_line() {
    out() += '\n';
    out().append(2 * open_.size(), ' ');
  }
  OutputFile& file_;
  std::vector<char> open_;
  bool first_ = true;
};

constexpr std::array<std::string_view, 4> statistic_keys{"Max", "Min", "Mean", "Norm"};

std::optional<std::size_t> statistic_of(std::string_view key) {
  const auto* const found = std::find(statistic_keys.begin(), statistic_keys.end(), key);
  return found == statistic_keys.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - statistic_keys.begin()));
}

std::optional<std::size_t> index_of(std::string_view text) {
  std::size_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && result.ec == std::errc() && result.ptr == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// The key of an item behind the name of its node and the dot.
std::string_view short_key(const Node& node, const Item& item) {
  return item.key.size() > node.name.size() + 1 && item.key.starts_with(node.name) ? item.key.substr(node.name.size() + 1) : item.key;
}

class Exporter {
 public:
  Exporter(const Graph& graph, Compat compat) : graph_(graph), compat_(compat) {}

  void construct(JsonWriter& out) const {
    out.begin('{');
    if (compat_ == Compat::standard && graph_.dump.megatron_micro_steps) {
      out.key("megatron_micro_step_number");
      out.literal(std::to_string(*graph_.dump.megatron_micro_steps));
    }
    for (const std::uint32_t index : graph_.order) {
      const Node& node = graph_.nodes[index];
      if (index == 0 || (compat_ == Compat::standard && !stands_in_construct(node))) {
        continue;
      }
      out.key(node.name);
      const std::string parent = parent_name(node);
      if (compat_ == Compat::standard && graph_.dump.megatron_micro_steps) {
        out.begin('[');
        out.element();
        parent.empty() ? out.literal("null") : out.text(parent);
        out.element();
        out.literal(std::to_string(std::max<std::int64_t>(node.micro_step, 0)));
        out.end();
      } else {
        parent.empty() ? out.literal("null") : out.text(parent);
      }
    }
    out.end();
  }

  void stacks(JsonWriter& out) const {
    std::vector<std::vector<std::uint32_t>> groups;
    std::map<std::string, std::size_t> group_of;
    for (const std::uint32_t index : graph_.order) {
      const JsonValue stack = graph_.nodes[index].stack;
      if (stack.size() == 0) {
        continue;
      }
      std::string text;
      append_json_value(text, stack);
      const auto [known, is_new] = group_of.try_emplace(std::move(text), groups.size());
      if (is_new) {
        groups.emplace_back();
      }
      groups[known->second].push_back(index);
    }
    out.begin('{');
    for (std::size_t k = 0; k < groups.size(); ++k) {
      out.key(std::to_string(k));
      out.begin('[');
      out.element();
      out.begin('[');
      for (const std::uint32_t index : groups[k]) {
        out.element();
        out.text(graph_.nodes[index].name);
      }
      out.end();
      out.element();
      out.value(graph_.nodes[groups[k].front()].stack);
      out.end();
    }
    out.end();
  }

  void data(JsonWriter& out) const {
    const Dump& dump = graph_.dump;
    out.begin('{');
    out.key("task");
    // The files of the tensors belong to single ranks.
    out.text(compat_ == Compat::standard && dump.task == "tensor" ? "statistics" : dump.task);
    out.key("level");
    out.text(dump.level);
    out.key("framework");
    out.text(dump.framework);
    out.key("dump_data_dir");
    dump.dump_data_dir ? out.text(*dump.dump_data_dir) : out.literal("null");
    out.key("is_merged");
    out.literal("true");
    out.key("data");
    out.begin('{');
    for (const std::uint32_t index : graph_.order) {
      if (index == 0 || graph_.nodes[index].items_end == graph_.nodes[index].inputs_begin) {
        continue;
      }
      if (compat_ == Compat::standard) {
        whole_entry(out, index);
      } else if (!graph_.moved.contains(index)) {
        copied_entry(out, index);
      } else {
        rebuilt_entry(out, index);
      }
    }
    out.end();
    out.end();
  }

 private:
  /// Nodes that building a graph adds by itself: gradients of parameters (from dump.json).
  [[nodiscard]] static bool stands_in_construct(const Node& node) {
    return field_is(node.name, "parameters_grad") == std::string_view::npos;
  }

  static std::size_t field_is(std::string_view name, std::string_view field) {
    const std::size_t dot = name.rfind('.');
    std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
    if (all_digits(last) && dot != std::string_view::npos) {
      const std::size_t before = name.substr(0, dot).rfind('.');
      last = name.substr(before == std::string_view::npos ? 0 : before + 1, dot - (before == std::string_view::npos ? 0 : before + 1));
    }
    return last == field ? 0 : std::string_view::npos;
  }

  [[nodiscard]] std::string parent_name(const Node& node) const {
    if (compat_ == Compat::standard && node.parent == 0) {
      return {};  // null: a reader hangs it to its root
    }
    return std::string(graph_.nodes[node.parent].name);
  }

  void merge_lines(JsonWriter& out, std::uint32_t index) const {
    const auto info = graph_.merge_info.find(index);
    if (info == graph_.merge_info.end()) {
      return;
    }
    out.key("parallel_merge_info");
    out.begin('[');
    for (const std::string& line : info->second) {
      out.element();
      out.text(line);
    }
    out.end();
  }

  // --- the reference's form ---------------------------------------------------------------------------------------------------------

  [[nodiscard]] const Item* find_item(const Node& node, std::string_view key) const {
    for (std::uint32_t at = node.inputs_begin; at < node.items_end; ++at) {
      if (short_key(node, graph_.items[at]) == key) {
        return &graph_.items[at];
      }
    }
    return nullptr;
  }

  /// An element of an entry with the statistics of its item.
  void copied_value(JsonWriter& out, const Node& node, JsonValue value, const std::string& key) const {
    const Item* item = value.is_object() ? find_item(node, key) : nullptr;
    if (item == nullptr) {
      out.value(value);
      return;
    }
    out.begin('{');
    std::array<bool, 4> written{};
    for (const auto [name, member] : value.members()) {
      out.key(name);
      const auto statistic = statistic_of(name);
      out.value(statistic ? item->stats[*statistic] : member);
      if (statistic) {
        written[*statistic] = true;
      }
    }
    for (std::size_t statistic = 0; statistic < written.size(); ++statistic) {
      if (!written[statistic]) {
        out.key(statistic_keys[statistic]);
        out.value(item->stats[statistic]);
      }
    }
    out.end();
  }

  void copied_entry(JsonWriter& out, std::uint32_t index) const {
    const Node& node = graph_.nodes[index];
    out.key(node.name);
    out.begin('{');
    for (const auto [field, content] : node.entry.members()) {
      out.key(field);
      const bool list = (field == "input_args" || field == "output") && content.is_array();
      if (!list && !(field == "input_kwargs" && content.is_object())) {
        out.value(content);
        continue;
      }
      out.begin(list ? '[' : '{');
      std::size_t position = 0;
      for (const JsonValue element : content.elements()) {
        out.element();
        copied_value(out, node, element, (field == "output" ? "output." : "input.") + std::to_string(position++));
      }
      for (const auto [name, element] : content.members()) {
        out.key(name);
        copied_value(out, node, element, "input." + std::string(name));
      }
      out.end();
    }
    merge_lines(out, index);
    out.end();
  }

  void rebuilt_item(JsonWriter& out, const Item& item) const {
    std::vector<JsonValue::Member> members;
    list_members(item, members);
    std::erase_if(members, [](const JsonValue::Member& member) {
      return member.key == "data_name" || member.key == "md5" || (member.key == "requires_grad" && member.value.is_null());
    });
    if (std::all_of(members.begin(), members.end(), [](const JsonValue::Member& member) { return member.value.is_null(); })) {
      out.literal("null");
      return;
    }
    out.begin('{');
    for (const JsonValue::Member& member : members) {
      out.key(member.key);
      const bool text = member.value.is_string();
      if (member.key == "requires_grad" && text && (member.value.text() == "True" || member.value.text() == "False")) {
        out.literal(member.value.text() == "True" ? "true" : "false");
      } else if (member.key == "shape" && text && member.value.text().starts_with('[') &&
                 member.value.text().find_first_not_of("[]0123456789, ") == std::string_view::npos) {
        out.literal(member.value.text());
      } else {
        out.value(member.value);
      }
    }
    out.end();
  }

  void rebuilt_entry(JsonWriter& out, std::uint32_t index) const {
    const Node& node = graph_.nodes[index];
    std::map<std::size_t, const Item*> positional;
    std::vector<std::pair<std::string_view, const Item*>> named;
    std::map<std::size_t, const Item*> outputs;
    for (std::uint32_t at = node.inputs_begin; at < node.items_end; ++at) {
      const Item& item = graph_.items[at];
      const std::vector<std::string_view> fields = split_fields(short_key(node, item));
      if (fields.size() != 2) {
        continue;
      }
      const auto place = index_of(fields[1]);
      if (fields[0] == "input" && place) {
        positional[*place] = &item;
      } else if (fields[0] == "input") {
        named.emplace_back(fields[1], &item);
      } else if (fields[0] == "output" && place) {
        outputs[*place] = &item;
      }
    }
    const auto info = graph_.merge_info.find(index);
    if (positional.empty() && named.empty() && outputs.empty() && info == graph_.merge_info.end()) {
      return;
    }
    out.key(node.name);
    out.begin('{');
    const auto list = [&](const char* field, const std::map<std::size_t, const Item*>& items) {
      if (items.empty()) {
        return;
      }
      out.key(field);
      out.begin('[');
      for (const auto& [place, item] : items) {
        out.element();
        rebuilt_item(out, *item);
      }
      out.end();
    };
    list("input_args", positional);
    if (!named.empty()) {
      out.key("input_kwargs");
      out.begin('{');
      for (const auto& [name, item] : named) {
        out.key(name);
        rebuilt_item(out, *item);
      }
      out.end();
    }
    list("output", outputs);
    merge_lines(out, index);
    out.end();
  }

  // --- all that the graph holds -------------------------------------------------------------------------------------------------------

  /// Items by the way to them.
  struct Branch {
    std::string_view name;
    const Item* item = nullptr;
    std::vector<Branch> children;  ///< in order of appearance
    Branch& child(std::string_view wanted) {
      const auto known = std::find_if(children.begin(), children.end(), [&](const Branch& branch) { return branch.name == wanted; });
      if (known != children.end()) {
        return *known;
      }
      Branch& added = children.emplace_back();
      added.name = wanted;
      return added;
    }
  };

  void whole_item(JsonWriter& out, const Item& item) const {
    if (!item.leaf && !item.p2p) {
      out.literal("null");
      return;
    }
    if (item.p2p) {
      out.begin('{');
      for (const auto [name, member] : item.p2p.members()) {
        out.key(name);
        if (name == "tensor" && item.leaf) {
          whole_leaf(out, item);
        } else {
          out.value(member);
        }
      }
      out.end();
      return;
    }
    whole_leaf(out, item);
  }

  void whole_leaf(JsonWriter& out, const Item& item) const {
    out.begin('{');
    for (const auto [name, member] : item.leaf.members()) {
      if (name == "data_name") {
        continue;
      }
      const auto statistic = statistic_of(name);
      if (name == "md5" && !(item.md5.is_string() && item.md5.text() == (member.is_string() ? member.text() : std::string_view()))) {
        continue;
      }
      out.key(name);
      if (statistic) {
        out.value(member.is(JsonKind::boolean) ? member : item.stats[*statistic]);
      } else if (name == "shape") {
        out.value(item.shape);
      } else {
        out.value(member);
      }
    }
    out.end();
  }

  void branch(JsonWriter& out, const Branch& at, bool by_place) const {
    // The keys of a dump are not nested deep: a name is as long as its depth.
    if (at.item != nullptr) {
      whole_item(out, *at.item);
      return;
    }
    std::map<std::size_t, const Branch*> places;
    for (const Branch& child : at.children) {
      if (const auto place = index_of(child.name); place && *place < most_elements) {
        places[*place] = &child;
      }
    }
    if (!by_place || places.size() != at.children.size()) {
      out.begin('{');
      for (const Branch& child : at.children) {
        out.key(child.name);
        branch(out, child, true);
      }
      out.end();
      return;
    }
    out.begin('[');
    std::size_t next = 0;
    for (const auto& [place, child] : places) {
      for (; next < place; ++next) {  // an empty list keeps the places of those behind it
        out.element();
        out.literal("[]");
      }
      out.element();
      branch(out, *child, true);
      ++next;
    }
    out.end();
  }

  void whole_entry(JsonWriter& out, std::uint32_t index) const {
    const Node& node = graph_.nodes[index];
    Branch root;
    Branch positional;
    Branch named;
    for (std::uint32_t at = node.inputs_begin; at < node.items_end; ++at) {
      const Item& item = graph_.items[at];
      std::vector<std::string_view> fields = split_fields(short_key(node, item));
      if (fields.size() > deepest) {
        continue;
      }
      Branch* place = &root;
      std::size_t from = 0;
      if (item.state == ItemState::input && fields.size() > 1 && fields[0] == "input") {
        place = index_of(fields[1]) ? &positional : &named;
        from = 1;
      }
      for (; from < fields.size(); ++from) {
        place = &place->child(fields[from]);
      }
      place->item = &item;
    }
    out.key(node.name);
    out.begin('{');
    const bool gradients = !root.children.empty() && item_state(node) == ItemState::parameters_grad;
    if (!gradients) {
      const bool plain = node.entry && node.entry.find("input") && !node.entry.find("input_args");
      if (!positional.children.empty() || (node.entry && node.entry.find("input_args"))) {
        out.key(plain ? "input" : "input_args");
        positional.children.empty() ? out.literal("[]") : branch(out, positional, true);
      }
      if (!named.children.empty() || (node.entry && node.entry.find("input_kwargs"))) {
        out.key("input_kwargs");
        named.children.empty() ? out.literal("{}") : branch(out, named, false);
      }
    }
    for (const Branch& child : root.children) {
      out.key(child.name);
      if (gradients && child.item != nullptr) {
        out.begin('[');
        out.element();
        whole_item(out, *child.item);
        out.end();
      } else {
        branch(out, child, child.name != "parameters");
      }
    }
    merge_lines(out, index);
    out.end();
  }

  [[nodiscard]] ItemState item_state(const Node& node) const { return graph_.items[node.inputs_begin].state; }

  static constexpr std::size_t most_elements = 1U << 20U;
  static constexpr std::size_t deepest = 200;

  const Graph& graph_;
  Compat compat_;
};

void make_directories(const fs::path& directory) {
  std::vector<fs::path> missing;
  for (fs::path at = directory; !at.empty() && !fs::exists(at); at = at.parent_path()) {
    missing.push_back(at);
  }
  for (std::size_t left = missing.size(); left > 0; --left) {
    const fs::path& at = missing[left - 1];
    // Another process may make the step's directory at the same time.
    if (mkdir(at.c_str(), directory_mode) == 0) {
      chmod(at.c_str(), directory_mode);
    } else if (errno != EEXIST) {
      throw Error(ErrorCategory::io, std::string("can't be made: ") + std::strerror(errno), at);
    }
  }
}

}  // namespace

void export_dump(const Graph& graph, Compat compat, const std::filesystem::path& directory) {
  make_directories(directory);
  const Exporter exporter(graph, compat);
  const auto write = [&](const char* name, auto member) {
    OutputFile file(directory / name);
    JsonWriter out(file);
    (exporter.*member)(out);
    file.publish();
  };
  write("construct.json", &Exporter::construct);
  write("stack.json", &Exporter::stacks);
  write("dump.json", &Exporter::data);
}

}  // namespace msvis
