#include "msvis/dump.h"

#include <charconv>
#include <cstring>
#include <system_error>

#include "dump/name_map.h"
#include "msvis/error.h"

namespace msvis {
namespace {

constexpr std::string_view micro_step_member = "megatron_micro_step_number";

std::string text_or_empty(JsonValue value) {
  return value.is_string() ? std::string(value.text()) : std::string();
}

/// Shortened for a message.
std::string shown(std::string_view key) {
  return "\"" + std::string(key.substr(0, 200)) + (key.size() > 200 ? "...\"" : "\"");
}

std::string_view kind_name(JsonValue value) {
  switch (value.kind()) {
    case JsonKind::null:
      return "null";
    case JsonKind::boolean:
      return "a boolean";
    case JsonKind::integer:
    case JsonKind::real:
      return "a number";
    case JsonKind::string:
      return "a string";
    case JsonKind::array:
      return "a list";
    case JsonKind::object:
      return "an object";
  }
  return "a value";
}

void require_object(JsonValue root, const std::filesystem::path& file) {
  if (!root.is_object()) {
    throw Error(ErrorCategory::format, "holds " + std::string(kind_name(root)) + " where an object was expected", file);
  }
}

std::int64_t micro_step_of(JsonValue value, std::string_view key, const std::filesystem::path& file) {
  std::int64_t number = 0;
  if (value.is(JsonKind::integer)) {
    const std::string_view token = value.text();
    const auto result = std::from_chars(token.data(), token.data() + token.size(), number);
    if (result.ec == std::errc()) {
      return number;
    }
  }
  throw Error(ErrorCategory::format, "has a micro step that is no (64-bit) integer at " + shown(key), file);
}

std::string_view parent_of(JsonValue value, std::string_view key, const std::filesystem::path& file) {
  if (value.is_null()) {
    return {};
  }
  if (!value.is_string()) {
    throw Error(ErrorCategory::format,
                "has " + std::string(kind_name(value)) + " as the parent of " + shown(key) + ": a name or null was expected", file);
  }
  return value.text();
}

/// Directory part of a path text, as written: everything before the last slash.
std::string_view parent_text(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) {
    return {};
  }
  std::string_view parent = path.substr(0, slash);
  while (parent.ends_with('/')) {
    parent.remove_suffix(1);
  }
  return parent.empty() ? path.substr(0, 1) : parent;
}

/// The framework that the types of the recorded values tell: the first line with a type of either framework counts, and in a line
/// `mindspore` counts before `torch`.
Framework framework_of_types(std::string_view text) {
  constexpr std::string_view key = "\"type\":";
  Framework found = Framework::unknown;
  std::string_view rest = text;
  while (true) {
    const void* hit = memmem(rest.data(), rest.size(), key.data(), key.size());
    if (hit == nullptr) {
      return found;
    }
    const auto skipped = static_cast<std::size_t>(static_cast<const char*>(hit) - rest.data());
    if (found != Framework::unknown && rest.substr(0, skipped).find_first_of("\n\r") != std::string_view::npos) {
      return found;
    }
    rest.remove_prefix(skipped + key.size());
    std::string_view value = rest;
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    if (value.starts_with("\"mindspore")) {
      return Framework::mindspore;
    }
    if (value.starts_with("\"torch")) {
      found = Framework::pytorch;
    }
  }
}

/// Whether a value "contains" md5: an object the key, a list an element, a string the text.
bool contains_md5(JsonValue value) {
  constexpr std::string_view md5 = "md5";
  if (value.is_string()) {
    return value.text().find(md5) != std::string_view::npos;
  }
  for (const JsonValue element : value.elements()) {
    if (element.is_string() && element.text() == md5) {
      return true;
    }
  }
  return static_cast<bool>(value.find(md5));
}

}  // namespace

struct Dump::Storage {
  JsonDocument dump;
  JsonDocument stack;
  JsonDocument construct;
  NameMap<JsonValue> stacks;  ///< of a stack.json in groups
  bool stacks_in_groups = false;
  std::optional<std::uint32_t> micro_step_position;  ///< of the Megatron member in construct.json
};

Dump::Dump() = default;
Dump::~Dump() = default;
Dump::Dump(Dump&&) noexcept = default;
Dump& Dump::operator=(Dump&&) noexcept = default;

namespace {

void read_construct(JsonValue root, JsonValue micro_steps, const std::filesystem::path& file, Dump& dump) {
  constexpr std::string_view advice = "holds no module hierarchy: a graph needs a dump at level L0 or mix";
  if (root.is_array()) {
    throw Error(ErrorCategory::format, std::string(advice), file);
  }
  require_object(root, file);
  if (micro_steps && !micro_steps.is_null()) {
    dump.megatron_micro_steps = micro_step_of(micro_steps, micro_step_member, file);
  }
  dump.construct.reserve(root.size());
  for (const auto [key, value] : root.members()) {
    if (key == micro_step_member) {
      continue;
    }
    ConstructEntry entry;
    entry.child = key;
    if (value.is_array()) {
      if (value.size() != 2) {
        throw Error(ErrorCategory::format,
                    "has a list of length " + std::to_string(value.size()) + " at " + shown(key) + ": [parent, micro step] was expected",
                    file);
      }
      auto element = value.elements().begin();
      entry.parent = parent_of(*element, key, file);
      entry.micro_step = micro_step_of(*++element, key, file);
    } else {
      entry.parent = parent_of(value, key, file);
    }
    dump.construct.push_back(entry);
  }
  if (dump.construct.empty()) {
    throw Error(ErrorCategory::format, std::string(advice), file);
  }
}

/// Names of a stack.json in groups; the last group of a name counts.
void read_groups(JsonValue root, NameMap<JsonValue>& stacks) {
  for (const auto [key, value] : root.members()) {
    if (!value.is_array() || value.size() != 2) {
      continue;
    }
    auto element = value.elements().begin();
    const JsonValue names = *element;
    const JsonValue frames = *++element;
    for (const JsonValue name : names.elements()) {
      if (name.is_string()) {
        *stacks.insert(name.text(), frames).first = frames;
      }
    }
  }
}

}  // namespace

Dump Dump::read(const std::filesystem::path& directory) {
  Dump dump;
  std::error_code error;
  dump.directory = std::filesystem::canonical(directory, error);
  if (error) {
    throw Error(ErrorCategory::path, "can't be opened: " + error.message(), directory);
  }
  dump.storage_ = std::make_unique<Storage>();
  Storage& storage = *dump.storage_;

  // The small files first: they tell early that a dump is of no use.
  const std::filesystem::path construct_file = dump.directory / "construct.json";
  storage.construct = JsonDocument::read(construct_file);
  dump.construct_root = storage.construct.root();
  read_construct(dump.construct_root, storage.construct.member(dump.construct_root, micro_step_member), construct_file, dump);
  storage.micro_step_position = storage.construct.position(dump.construct_root, micro_step_member);

  const std::filesystem::path stack_file = dump.directory / "stack.json";
  storage.stack = JsonDocument::read(stack_file);
  dump.stack_root = storage.stack.root();
  require_object(dump.stack_root, stack_file);
  storage.stacks_in_groups = storage.stack.member(dump.stack_root, "0").truthy();
  if (storage.stacks_in_groups) {
    read_groups(dump.stack_root, storage.stacks);
  }

  const std::filesystem::path dump_file = dump.directory / "dump.json";
  storage.dump = JsonDocument::read(dump_file);
  const JsonValue root = storage.dump.root();
  require_object(root, dump_file);
  dump.task = text_or_empty(root.find("task"));
  dump.level = text_or_empty(root.find("level"));
  dump.framework = text_or_empty(root.find("framework"));
  dump.data = root.find("data");
  const JsonValue tensors = root.find("dump_data_dir");
  if (!tensors) {
    dump.dump_data_dir = "";
  } else if (!tensors.is_null()) {
    const bool is_here = tensors.is_string() && parent_text(tensors.text()) == dump.directory.native();
    dump.dump_data_dir = is_here ? std::string(tensors.text()) : (dump.directory / "dump_tensor_data").string();
  }
  return dump;
}

JsonValue Dump::entry(std::string_view name) const {
  return storage_ ? storage_->dump.member(data, name) : JsonValue();
}

JsonValue Dump::stack(std::string_view name) const {
  if (!storage_) {
    return {};
  }
  if (!storage_->stacks_in_groups) {
    return storage_->stack.member(stack_root, name);
  }
  const JsonValue* found = storage_->stacks.find(name);
  return found != nullptr ? *found : JsonValue();
}

std::optional<std::uint32_t> Dump::construct_index(std::string_view child) const {
  if (!storage_ || child == micro_step_member) {
    return std::nullopt;
  }
  std::optional<std::uint32_t> position = storage_->construct.position(construct_root, child);
  if (position && storage_->micro_step_position && *position > *storage_->micro_step_position) {
    --*position;
  }
  return position;
}

Framework Dump::detected_framework() const {
  if (facts) {
    return facts->framework;
  }
  if (framework == "pytorch") {
    return Framework::pytorch;
  }
  if (framework == "mindspore") {
    return Framework::mindspore;
  }
  return storage_ ? framework_of_types(storage_->dump.text()) : Framework::unknown;
}

bool Dump::has_md5() const {
  if (facts) {
    return facts->md5;
  }
  for (const auto [name, record] : data.members()) {
    for (const auto [field, value] : record.members()) {
      if (value.is_array()) {
        for (const JsonValue element : value.elements()) {
          if (element.truthy() && contains_md5(element)) {
            return true;
          }
        }
      } else if (contains_md5(value)) {
        return true;
      }
    }
  }
  return false;
}

std::uint64_t Dump::bytes() const {
  return storage_ ? storage_->dump.text().size() + storage_->stack.text().size() + storage_->construct.text().size() : 0;
}

}  // namespace msvis
