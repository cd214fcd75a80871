#include "match/record_scope.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/printable.h"
#include "graph/names.h"
#include "msvis/error.h"

namespace msvis {
namespace {

constexpr std::size_t least_fields = 4;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

class Scoper {
 public:
  Scoper(Framework framework, Compat compat, const std::filesystem::path& directory)
      : framework_(framework), compat_(compat), directory_(directory) {}

  /// Step A.
  [[nodiscard]] RecordScope scope_of(const RecordSource& source) const {
    const std::vector<std::string_view> fields = split_fields(source.name);
    const std::size_t count = fields.size();
    if (count < least_fields) {
      throw Error(ErrorCategory::format,
                  "record name " + printable(source.name) + " has fewer than 4 dot-separated fields, so it has no place in the model",
                  directory_ / "dump.json");
    }
    const auto last = [&](std::size_t position) { return fields[count - position]; };
    RecordScope record;
    record.name = source.name;
    std::string_view api_name;
    bool module = false;
    std::string& scope = record.full_scope;
    if (last(1) == "parameters_grad") {
      api_name = last(3);
      record.type_name = last(2);
      record.state = last(1);
      scope = drop_fields(source.name, 3);
    } else if (last(2) == "parameters_grad" && all_digits(last(1))) {
      api_name = last(4);
      record.type_name = last(3);
      record.state = last(2);
      // The reference leaves the module's own name in the scope, so that it stands there twice.
      scope = drop_fields(source.name, compat_ == Compat::reference ? 3 : 4);
    } else if (fields.front() == "Module" || fields.front() == "Cell") {
      module = true;
      api_name = last(4);
      record.type_name = last(3);
      record.state = last(2);
      scope = drop_fields(source.name, 4);
    } else {
      api_name = last(3);
      record.type_name = last(3);
      record.state = last(1);
      scope = parent_scope(source);
    }
    if (!module && fields.front() != "Primitive" && fields.front() != "Jit") {
      if (const auto function = frame_function(source)) {
        scope.append(".").append(*function);
      }
    }
    scope.append(".").append(api_name);
    return record;
  }

 private:
  [[nodiscard]] std::string_view parent_scope(const RecordSource& source) const {
    if (source.parent.empty()) {
      return "TopLayer";
    }
    if (contains(source.parent, ".") && count_fields(source.parent) < least_fields) {
      throw Error(ErrorCategory::format,
                  "parent " + printable(source.parent) + " of " + printable(source.name) + " has fewer than 4 dot-separated fields",
                  directory_ / "construct.json");
    }
    return drop_fields(source.parent, 3);
  }

  [[noreturn]] void stack_fault(const RecordSource& source, std::string_view reason) const {
    throw Error(ErrorCategory::format, "the stack of " + printable(source.name) + " " + std::string(reason), directory_ / "stack.json");
  }

  [[nodiscard]] static std::string_view comma_field(std::string_view line, std::size_t position) {
    for (; position > 0; --position) {
      const std::size_t comma = line.find(',');
      if (comma == std::string_view::npos) {
        return {};
      }
      line.remove_prefix(comma + 1);
    }
    return line.substr(0, line.find(','));
  }

  [[nodiscard]] bool leaves_template(std::string_view line) const {
    return framework_ == Framework::mindspore ? contains(line, "construct")
                                              : contains(line, "in forward,") || contains(line, "in backward,");
  }

  [[nodiscard]] static bool in_framework(std::string_view line) {
    constexpr std::array<std::string_view, 4> packages = {"site-packages/torch", "package/torch", "site-packages/mindspore",
                                                          "package/mindspore"};
    const std::string_view path = comma_field(line, 0);
    return std::any_of(packages.begin(), packages.end(), [&](std::string_view package) { return contains(path, package); });
  }

  /// Function of the framework that the user's code called, if the stack shows one.
  [[nodiscard]] std::optional<std::string_view> frame_function(const RecordSource& source) const {
    if (!source.stack || !source.stack.truthy()) {
      return std::nullopt;
    }
    if (!source.stack.is_array()) {
      stack_fault(source, "is no list of lines");
    }
    std::vector<std::string_view> lines;
    lines.reserve(source.stack.size());
    for (const JsonValue line : source.stack.elements()) {
      if (!line.is_string()) {
        stack_fault(source, "has a line that is no text");
      }
      lines.push_back(line.text());
    }
    std::size_t begin = 0;
    std::size_t end = lines.size();
    bool started = false;
    for (std::size_t position = 0; position < lines.size(); ++position) {
      if (contains(lines[position], "Template")) {
        started = true;
        begin = position + 1;
      } else if (started && leaves_template(lines[position])) {
        end = position;
        break;
      }
    }
    std::optional<std::string_view> call;
    for (std::size_t position = begin; position < end && in_framework(lines[position]); ++position) {
      call = lines[position];
    }
    if (!call) {
      return std::nullopt;
    }
    if (std::count(call->begin(), call->end(), ',') < 2) {
      stack_fault(source, "has a line without file, line and function: " + printable(*call));
    }
    const std::string_view path = comma_field(*call, 0);
    const std::string_view function = comma_field(*call, 2);
    if (contains(path, "msprobe") || contains(path, "MindSpeed") || contains(function, "construct") || contains(function, "__call__")) {
      return std::nullopt;
    }
    constexpr std::string_view blanks = " \t\n\r\v\f";
    const std::size_t first_word = function.find_first_not_of(blanks);
    const std::size_t gap = function.find_first_of(blanks, first_word);
    const std::size_t second_word = function.find_first_not_of(blanks, gap);
    if (first_word == std::string_view::npos || gap == std::string_view::npos || second_word == std::string_view::npos) {
      stack_fault(source, "has a line without a function name: " + printable(*call));
    }
    return function.substr(second_word, function.find_first_of(blanks, second_word) - second_word);
  }

  Framework framework_;
  Compat compat_;
  const std::filesystem::path& directory_;
};

/// Step B: a backward record stands where its forward record stands.
void follow_forward(std::vector<RecordScope>& records) {
  std::unordered_map<std::string_view, std::size_t> by_name;
  by_name.reserve(records.size());
  for (std::size_t index = 0; index < records.size(); ++index) {
    by_name.emplace(records[index].name, index);
  }
  for (RecordScope& record : records) {
    const std::size_t head = drop_fields(record.name, 2).size();
    const std::string_view tail = record.name.substr(head);
    if (!contains(tail, "backward")) {
      continue;
    }
    const std::string twin = std::string(record.name.substr(0, head)) + replace_all(tail, "backward", "forward");
    // A forward name holds no `backward` in its tail, so its scope is never one that this loop has changed.
    if (const auto found = by_name.find(twin); found != by_name.end()) {
      record.full_scope = records[found->second].full_scope;
    }
  }
}

struct LayerNumber {
  std::size_t begin = 0;  ///< of the field, in the scope
  std::size_t size = 0;
  std::optional<std::int64_t> number;
};

/// Last run of digits in the field of a scope that begins at `begin`.
LayerNumber layer_number(std::string_view scope, std::size_t begin) {
  LayerNumber layer;
  layer.begin = begin;
  const std::string_view field = scope.substr(begin, scope.find('.', begin) - begin);
  layer.size = field.size();
  constexpr std::string_view digits = "0123456789";
  const std::size_t last = field.find_last_of(digits);
  if (last == std::string_view::npos) {
    return layer;
  }
  const std::size_t before = field.find_last_not_of(digits, last);
  const std::string_view run = field.substr(before == std::string_view::npos ? 0 : before + 1, last - before);
  std::int64_t value = 0;
  const auto parsed = std::from_chars(run.data(), run.data() + run.size(), value);
  constexpr std::int64_t too_large = 1'000'000'000'000'000'000;
  if (parsed.ec == std::errc() && value < too_large) {
    layer.number = value;
  }
  return layer;
}

/// Step C: layers of a pipeline stage count from 0.
void renumber_layers(std::vector<RecordScope>& records) {
  std::vector<std::string> prefixes;
  std::unordered_set<std::string> known;
  for (const RecordScope& record : records) {
    if (record.type_name == "ParallelTransformer") {
      std::string prefix = record.full_scope + ".layers.";
      if (known.insert(prefix).second) {
        prefixes.push_back(std::move(prefix));
      }
    }
  }
  if (prefixes.empty()) {
    return;
  }
  // Sorted, so that the records below a prefix are neighbours however many prefixes there are.
  std::multimap<std::string, std::size_t, std::less<>> by_scope;
  for (std::size_t index = 0; index < records.size(); ++index) {
    by_scope.emplace(std::move(records[index].full_scope), index);
  }
  for (const std::string& prefix : prefixes) {
    std::optional<std::int64_t> least;
    auto at = by_scope.lower_bound(prefix);
    const auto begin = at;
    for (; at != by_scope.end() && at->first.starts_with(prefix); ++at) {
      const auto number = layer_number(at->first, prefix.size()).number;
      if (number && (!least || *number < *least)) {
        least = number;
      }
    }
    if (!least) {
      continue;
    }
    std::vector<std::pair<std::string, std::size_t>> renumbered;
    for (auto each = begin; each != at;) {
      const LayerNumber layer = layer_number(each->first, prefix.size());
      if (!layer.number) {
        ++each;
        continue;
      }
      auto node = by_scope.extract(each++);
      std::string scope = std::move(node.key());
      scope.replace(layer.begin, layer.size, std::to_string(*layer.number - *least));
      renumbered.emplace_back(std::move(scope), node.mapped());
    }
    for (auto& [scope, index] : renumbered) {
      by_scope.emplace(std::move(scope), index);
    }
  }
  while (!by_scope.empty()) {
    auto node = by_scope.extract(by_scope.begin());
    records[node.mapped()].full_scope = std::move(node.key());
  }
}

}  // namespace

std::vector<RecordScope> record_scopes(std::span<const RecordSource> sources, Framework framework, Compat compat,
                                       const std::filesystem::path& directory) {
  const Scoper scoper(framework, compat, directory);
  std::vector<RecordScope> records;
  records.reserve(sources.size());
  for (const RecordSource& source : sources) {
    records.push_back(scoper.scope_of(source));
  }
  follow_forward(records);
  renumber_layers(records);
  return records;
}

std::vector<RecordScope> record_scopes(const Dump& dump, Compat compat) {
  if (!dump.stack_root || !dump.stack_root.truthy() || !dump.construct_root || !dump.construct_root.truthy()) {
    return {};
  }
  const Framework framework = dump.detected_framework();
  if (framework == Framework::unknown) {
    throw Error(ErrorCategory::format, "neither a framework nor a tensor type says whether this is a PyTorch or a MindSpore dump",
                dump.directory / "dump.json");
  }
  std::unordered_map<std::string_view, std::string_view> parents;
  parents.reserve(dump.construct.size());
  for (const ConstructEntry& entry : dump.construct) {
    parents.insert_or_assign(entry.child, entry.parent);
  }
  std::unordered_map<std::string_view, JsonValue> stacks;
  stacks.reserve(dump.stack_root.size());
  for (const auto& [name, stack] : dump.stack_root.members()) {
    stacks.insert_or_assign(name, stack);
  }
  std::vector<RecordSource> sources;
  sources.reserve(dump.data.size());
  for (const auto& [name, record] : dump.data.members()) {
    RecordSource& source = sources.emplace_back();
    source.name = name;
    if (const auto parent = parents.find(name); parent != parents.end()) {
      source.parent = parent->second;
    }
    if (const auto stack = stacks.find(name); stack != stacks.end()) {
      source.stack = stack->second;
    }
  }
  return record_scopes(sources, framework, compat, dump.directory);
}

}  // namespace msvis
