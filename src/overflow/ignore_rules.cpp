#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "msvis/error.h"
#include "overflow/overflow.h"

namespace msvis {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view file_name = "overflow_ignore_rules.json";
constexpr std::size_t max_file_bytes = std::size_t{1} << 20U;
constexpr int max_depth = 8;

/// Reads one rule file; every complaint names the file and the rule.
class RuleReader {
 public:
  explicit RuleReader(const fs::path& file) : file_(file) {}

  IgnoreRules read() {
    const Json document = parse(load());
    if (!document.is_object()) {
      fail("expected an object with the members \"version\" and \"rules\", found " + kind(document));
    }
    for (const auto& [key, value] : document.items()) {
      if (key != "version" && key != "rules") {
        fail("unknown member " + printable(key) + "; expected \"version\" and \"rules\"");
      }
    }
    const auto version = document.find("version");
    if (version == document.end() || !version->is_number_integer() || *version != 1) {
      fail("expected \"version\": 1, found " + (version == document.end() ? "none" : kind(*version)));
    }
    const auto rules = document.find("rules");
    if (rules == document.end() || !rules->is_array()) {
      fail("expected \"rules\" to be a list, found " + (rules == document.end() ? "none" : kind(*rules)));
    }
    IgnoreRules result;
    std::size_t number = 0;
    for (const Json& rule : *rules) {
      place_ = "rule " + std::to_string(++number);
      auto [name, columns] = read_rule(rule);
      if (!result.rules.emplace(name, std::move(columns)).second) {
        fail("there is an earlier rule with this name; put all that it allows into one rule");
      }
    }
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorCategory::format, place_.empty() ? message : place_ + ": " + message, file_);
  }

  static std::string kind(const Json& value) {
    if (value.is_number()) {
      return "the number " + value.dump();
    }
    return std::string(value.is_object() || value.is_array() ? "an " : "a ") + value.type_name();
  }

  [[nodiscard]] std::string load() const {
    std::error_code error;
    const fs::file_status status = fs::status(file_, error);
    if (!fs::is_regular_file(status)) {
      const char* what = fs::exists(status) ? "is no regular file" : "not found";
      throw Error(ErrorCategory::path, std::string("the rule file was ") + what + "; see --ignore-rules", file_);
    }
    std::ifstream stream(file_, std::ios::binary);
    if (!stream) {
      throw Error(ErrorCategory::path, "the rule file can't be opened for reading; check its permissions", file_);
    }
    std::string text(max_file_bytes + 1, '\0');
    stream.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (stream.bad()) {
      throw Error(ErrorCategory::io, "reading the rule file failed", file_);
    }
    text.resize(static_cast<std::size_t>(stream.gcount()));
    if (text.size() > max_file_bytes) {
      throw Error(ErrorCategory::limit, "a rule file has at most " + std::to_string(max_file_bytes) + " bytes", file_);
    }
    return text;
  }

  [[nodiscard]] Json parse(const std::string& text) const {
    // The parser keeps the last of repeated keys; in a rule file a repeated key is a slip that must not pass.
    std::vector<std::set<std::string>> open_objects;
    const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (depth > max_depth) {
        fail("nested too deeply for a rule file");
      }
      if (event == Json::parse_event_t::object_start) {
        open_objects.emplace_back();
      } else if (event == Json::parse_event_t::object_end) {
        open_objects.pop_back();
      } else if (event == Json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second) {
        fail("the key " + printable(parsed.get<std::string>()) + " is there twice in one object");
      }
      return true;
    };
    try {
      return Json::parse(text, watch);
    } catch (const Json::parse_error& error) {
      std::string_view message = error.what();
      message.remove_prefix(std::min(message.size(), message.find("] ") + 2));  // the library's own error number
      throw Error(ErrorCategory::format, "not valid JSON: " + std::string(message), file_, error.byte);
    } catch (const Json::exception& error) {
      throw Error(ErrorCategory::format, std::string("not usable as JSON: ") + error.what(), file_);
    }
  }

  std::pair<std::string, IgnoreRule> read_rule(const Json& rule) {
    if (!rule.is_object()) {
      fail("expected an object, found " + kind(rule));
    }
    const auto name = rule.find("name");
    if (name == rule.end() || !name->is_string()) {
      fail("expected \"name\" to be a string, found " + (name == rule.end() ? "none" : kind(*name)));
    }
    std::pair<std::string, IgnoreRule> result(name->get<std::string>(), {});
    place_ += " (" + printable(result.first) + ")";
    check_name(result.first);
    for (const auto& [key, value] : rule.items()) {
      if (key == "inputs") {
        result.second.inputs = positions(key, value);
      } else if (key == "keywords") {
        result.second.keywords = keywords(value);
      } else if (key == "outputs") {
        result.second.outputs = positions(key, value);
      } else if (key == "reason") {
        if (!value.is_string()) {
          fail("expected \"reason\" to be a string, found " + kind(value));
        }
      } else if (key != "name") {
        fail("unknown member " + printable(key) + "; expected \"name\", \"inputs\", \"keywords\", \"outputs\" or \"reason\"");
      }
    }
    return result;
  }

  /// A name that could never match is a slip.
  void check_name(const std::string& name) const {
    if (name.empty() || std::count(name.begin(), name.end(), '.') > 1) {
      fail("expected \"name\" to be the first two fields of a node name, such as \"torch.empty\"");
    }
    if (std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) {
      fail("expected \"name\" in lower case (names are compared in lower case)");
    }
  }

  [[nodiscard]] std::set<std::size_t> positions(const std::string& key, const Json& value) const {
    if (!value.is_array()) {
      fail("expected \"" + key + "\" to be a list of positions (0, 1, ...), found " + kind(value));
    }
    std::set<std::size_t> all;
    for (const Json& position : value) {
      if (!position.is_number_unsigned()) {
        fail("expected \"" + key + "\" to hold positions (0, 1, ...), found " + kind(position));
      }
      all.insert(position.get<std::size_t>());
    }
    return all;
  }

  [[nodiscard]] std::set<std::string, std::less<>> keywords(const Json& value) const {
    if (!value.is_array()) {
      fail("expected \"keywords\" to be a list of names, found " + kind(value));
    }
    std::set<std::string, std::less<>> all;
    for (const Json& keyword : value) {
      if (!keyword.is_string()) {
        fail("expected \"keywords\" to hold names, found " + kind(keyword));
      }
      all.insert(keyword.get<std::string>());
    }
    return all;
  }

  const fs::path& file_;
  std::string place_;
};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

}  // namespace

IgnoreRules IgnoreRules::read(const fs::path& file) {
  return RuleReader(file).read();
}

std::optional<fs::path> installed_ignore_rules_file(const fs::path& program) {
  fs::path file = (program.parent_path() / MSVIS_DATA_FROM_PROGRAM / file_name).lexically_normal();
  return is_file(file) ? std::optional(std::move(file)) : std::nullopt;
}

fs::path default_ignore_rules_file() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    if (auto installed = installed_ignore_rules_file(program)) {
      return *installed;
    }
  }
  fs::path in_source_tree = fs::path(MSVIS_BUILD_TREE_DATA) / file_name;
  if (is_file(in_source_tree)) {
    return in_source_tree;
  }
  throw Error(ErrorCategory::path, "the overflow ignore rules (" + std::string(file_name) +
                                       ") are neither installed beside the program nor in its source tree; name a rule file with "
                                       "--ignore-rules FILE");
}

}  // namespace msvis
