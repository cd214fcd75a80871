#include "match/layer_mapping.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/printable.h"
#include "graph/names.h"
#include "msvis/error.h"

namespace msvis {
namespace {

constexpr std::string_view top_class = "TopLayer";
constexpr std::string_view old_top_class = "Cell";

[[noreturn]] void fail(ErrorCategory category, const std::filesystem::path& file, int line, const std::string& reason) {
  throw Error(category, line > 0 ? "line " + std::to_string(line) + ": " + reason : reason, file);
}

/// Line of a mark, from 1; 0 if it is unknown.
int line_of(const YAML::Mark& mark) {
  return mark.is_null() ? 0 : mark.line + 1;
}

bool all_of_set(std::string_view text, std::string_view set) {
  return !text.empty() && text.find_first_not_of(set) == std::string_view::npos;
}

/// What an unquoted scalar is in YAML's core schema; nullptr for a string.
const char* plain_kind(std::string_view text) {
  constexpr std::array<std::string_view, 5> nulls = {"", "~", "null", "Null", "NULL"};
  if (std::find(nulls.begin(), nulls.end(), text) != nulls.end()) {
    return "null";
  }
  constexpr std::array<std::string_view, 6> booleans = {"true", "True", "TRUE", "false", "False", "FALSE"};
  if (std::find(booleans.begin(), booleans.end(), text) != booleans.end()) {
    return "a truth value";
  }
  constexpr std::string_view decimal = "0123456789";
  if ((text.starts_with("0o") && all_of_set(text.substr(2), "01234567")) ||
      (text.starts_with("0x") && all_of_set(text.substr(2), "0123456789abcdefABCDEF"))) {
    return "a number";
  }
  constexpr std::array<std::string_view, 3> not_numbers = {".nan", ".NaN", ".NAN"};
  if (std::find(not_numbers.begin(), not_numbers.end(), text) != not_numbers.end()) {
    return "a number";
  }
  if (text.front() == '+' || text.front() == '-') {
    text.remove_prefix(1);
  }
  constexpr std::array<std::string_view, 3> infinities = {".inf", ".Inf", ".INF"};
  if (std::find(infinities.begin(), infinities.end(), text) != infinities.end()) {
    return "a number";
  }
  if (const std::size_t exponent = text.find_first_of("eE"); exponent != std::string_view::npos) {
    std::string_view power = text.substr(exponent + 1);
    if (power.starts_with('+') || power.starts_with('-')) {
      power.remove_prefix(1);
    }
    if (!all_of_set(power, decimal)) {
      return nullptr;
    }
    text = text.substr(0, exponent);
  }
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view fraction = point == std::string_view::npos ? std::string_view{} : text.substr(point + 1);
  const bool digits_only = (whole.empty() || all_of_set(whole, decimal)) && (fraction.empty() || all_of_set(fraction, decimal));
  return digits_only && !(whole.empty() && fraction.empty()) ? "a number" : nullptr;
}

/// What stands where a string is wanted.
struct Scalar {
  std::string text;
  const char* other_kind = nullptr;  ///< null, a number, ...; nullptr for a string
};

using Rules = std::vector<LayerMapping::Rule>;

/// One mapping of keys to values: the value of a class.
struct Section {
  Rules rules;
  std::unordered_map<std::string, std::size_t> by_key;
};

/// Reads the events of one document: a mapping of strings to mappings of strings to strings. Anything else is refused where it begins, so
/// that neither depth nor aliases can grow.
class MappingReader final : public YAML::EventHandler {
 public:
  explicit MappingReader(const std::filesystem::path& file) : file_(file) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      refuse(mark, "a second YAML document begins here; a mapping file has only one");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    // Where nothing is written, the mark is that of what comes next; the line of the key is nearer.
    YAML::Mark place = mark;
    if (((depth_ == 1 && class_name_) || (depth_ == 2 && key_)) && !mark.is_null()) {
      place.line = std::min(place.line, key_mark_line_);
    }
    take_scalar(place, anchor, Scalar{"", "null"});
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    Scalar scalar{value, nullptr};
    if (tag == "?") {
      scalar.other_kind = plain_kind(value);
    } else if (tag != "!" && tag != "tag:yaml.org,2002:str") {
      refuse(mark, "the tag " + printable(tag) + " is not that of a string");
    }
    take_scalar(mark, anchor, std::move(scalar));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (open_anchors_.contains(anchor)) {
      refuse(mark, "the alias stands inside of what it names: a cycle");
    }
    if (const auto scalar = scalars_.find(anchor); scalar != scalars_.end()) {
      take_scalar(mark, 0, scalar->second);
      return;
    }
    const auto section = sections_by_anchor_.find(anchor);
    if (section == sections_by_anchor_.end()) {
      refuse(mark, "the alias names nothing that was read");
    }
    if (depth_ != 1 || !class_name_) {
      refuse(mark, "found a mapping where " + wanted() + " is needed");
    }
    for (const LayerMapping::Rule& rule : section->second.rules) {
      count(mark, rule);
    }
    sections_.insert_or_assign(*class_name_, section->second);
    class_name_.reset();
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    refuse(mark, "found a list where " + wanted() + " is needed");
  }
  void OnSequenceEnd() override {}

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value /*style*/) override {
    if (depth_ > 1 || (depth_ == 1 && !class_name_)) {
      refuse(mark, "found a mapping where " + wanted() + " is needed");
    }
    if (tag != "?" && tag != "!" && tag != "tag:yaml.org,2002:map" && !tag.empty()) {
      refuse(mark, "the tag " + printable(tag) + " is not that of a mapping");
    }
    ++depth_;
    if (anchor != 0) {
      open_anchors_.insert(anchor);
    }
    if (depth_ == 2) {
      section_anchor_ = anchor;
      section_ = {};
    }
  }

  void OnMapEnd() override {
    --depth_;
    if (depth_ == 1) {
      if (section_anchor_ != 0) {
        open_anchors_.erase(section_anchor_);
        sections_by_anchor_.emplace(section_anchor_, section_);
      }
      sections_.insert_or_assign(*class_name_, std::move(section_));
      class_name_.reset();
    }
  }

  [[nodiscard]] bool found_document() const { return documents_ > 0; }

  /// The sections by class.
  [[nodiscard]] std::map<std::string, Section, std::less<>>& sections() { return sections_; }

 private:
  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& reason) const {
    fail(ErrorCategory::format, file_, line_of(mark), reason);
  }

  /// What should stand at the place that was reached.
  [[nodiscard]] std::string wanted() const {
    if (depth_ == 0) {
      return "a mapping of class names (at the top level)";
    }
    if (depth_ == 1) {
      return class_name_ ? "a mapping of attribute paths (below class " + printable(*class_name_) + ")" : "a class name";
    }
    return key_ ? "an attribute path of the golden model (for " + printable(*key_) + ")" : "an attribute path of the target model";
  }

  void take_scalar(const YAML::Mark& mark, YAML::anchor_t anchor, Scalar scalar) {
    if (anchor != 0) {
      scalars_.insert_or_assign(anchor, scalar);
    }
    const bool string_wanted = depth_ == 2 || (depth_ == 1 && !class_name_);
    if (!string_wanted) {
      refuse(mark,
             std::string("found ") + (scalar.other_kind != nullptr ? scalar.other_kind : "a text") + " where " + wanted() + " is needed");
    }
    if (scalar.other_kind != nullptr) {
      refuse(mark, "found " + std::string(scalar.other_kind) + (scalar.text.empty() ? "" : " (" + printable(scalar.text) + ")") +
                       " where " + wanted() + " is needed; put a text in quotes");
    }
    if (depth_ == 1) {
      if (scalar.text.empty()) {
        refuse(mark, "the class name is empty");
      }
      class_name_ = std::move(scalar.text);
      key_mark_line_ = mark.line;
      return;
    }
    std::string path = attribute_path(mark, scalar.text);
    if (!key_) {
      key_ = std::move(path);
      key_line_ = line_of(mark);
      key_mark_line_ = mark.line;
      return;
    }
    add_rule(mark, *key_, path);
    key_.reset();
  }

  /// A key or value without its remark in parentheses.
  [[nodiscard]] std::string attribute_path(const YAML::Mark& mark, std::string_view text) const {
    const std::size_t parenthesis = text.find('(');
    std::string_view path = text.substr(0, parenthesis);
    if (parenthesis != std::string_view::npos) {
      path = path.substr(0, path.find_last_not_of(" \t") + 1);
    }
    if (path.empty()) {
      refuse(mark, (text.empty() ? std::string("found an empty text") : "found nothing before the parenthesis of " + printable(text)) +
                       " where " + wanted() + " is needed");
    }
    if (path.size() > LayerMapping::max_path_bytes) {
      fail(ErrorCategory::limit, file_, line_of(mark),
           "an attribute path is longer than " + std::to_string(LayerMapping::max_path_bytes) + " bytes");
    }
    if (count_fields(path) > LayerMapping::max_path_fields) {
      fail(ErrorCategory::limit, file_, line_of(mark),
           "an attribute path has more than " + std::to_string(LayerMapping::max_path_fields) + " fields");
    }
    return std::string(path);
  }

  void add_rule(const YAML::Mark& mark, const std::string& key, std::string_view value) {
    LayerMapping::Rule rule;
    for (const std::string_view field : split_fields(key)) {
      rule.from.emplace_back(field);
    }
    for (const std::string_view field : split_fields(value)) {
      rule.to.emplace_back(field);
    }
    rule.line = key_line_;
    count(mark, rule);
    const auto [place, added] = section_.by_key.try_emplace(key, section_.rules.size());
    if (added) {
      section_.rules.push_back(std::move(rule));
    } else {
      section_.rules[place->second] = std::move(rule);
    }
  }

  void count(const YAML::Mark& mark, const LayerMapping::Rule& rule) {
    if (++rules_ > LayerMapping::max_rules) {
      fail(ErrorCategory::limit, file_, line_of(mark), "there are more than " + std::to_string(LayerMapping::max_rules) + " rules");
    }
    for (const auto* fields : {&rule.from, &rule.to}) {
      for (const std::string& field : *fields) {
        bytes_ += field.size() + 1;
      }
    }
    if (bytes_ > LayerMapping::max_rule_bytes) {
      fail(ErrorCategory::limit, file_, line_of(mark),
           "the rules have more than " + std::to_string(LayerMapping::max_rule_bytes) + " bytes together");
    }
  }

  const std::filesystem::path& file_;
  int documents_ = 0;
  int depth_ = 0;  ///< of open mappings
  std::optional<std::string> class_name_;
  std::optional<std::string> key_;
  int key_line_ = 0;
  int key_mark_line_ = 0;  ///< of the last class name or key, as the parser counts
  Section section_;
  YAML::anchor_t section_anchor_ = 0;
  std::map<std::string, Section, std::less<>> sections_;
  std::unordered_map<YAML::anchor_t, Scalar> scalars_;
  std::unordered_map<YAML::anchor_t, Section> sections_by_anchor_;
  std::set<YAML::anchor_t> open_anchors_;
  std::size_t rules_ = 0;
  std::size_t bytes_ = 0;
};

/// Takes any document.
class Ignore final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/, const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}
};

void read_events(std::string text, YAML::EventHandler& handler) {
  std::istringstream stream{std::move(text)};
  YAML::Parser parser(stream);
  while (parser.HandleNextDocument(handler)) {
  }
}

/// Length of the UTF-8 character at the beginning of a text that is not empty; 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  if (first < 0x80U) {
    return 1;
  }
  const std::size_t length = first >= 0xF0U ? 4 : first >= 0xE0U ? 3 : 2;
  if (first < 0xC2U || first > 0xF4U || text.size() < length) {
    return 0;
  }
  const unsigned second = byte(1);
  const unsigned least = first == 0xE0U ? 0xA0U : first == 0xF0U ? 0x90U : 0x80U;
  const unsigned most = first == 0xEDU ? 0x9FU : first == 0xF4U ? 0x8FU : 0xBFU;
  if (second < least || second > most) {
    return 0;
  }
  for (std::size_t at = 2; at < length; ++at) {
    if ((byte(at) & 0xC0U) != 0x80U) {
      return 0;
    }
  }
  return length;
}

/// The parser takes some control characters for the end of the file, and does not check the encoding.
void check_characters(std::string_view text, const std::filesystem::path& file) {
  int line = 1;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      fail(ErrorCategory::format, file, line, "the text is not UTF-8");
    }
    const auto byte = static_cast<unsigned char>(text.front());
    if (byte < 0x20U && byte != '\t' && byte != '\n' && byte != '\r') {
      fail(ErrorCategory::format, file, line, "found a control character");
    }
    line += byte == '\n' ? 1 : 0;
    text.remove_prefix(length);
  }
}

/// Rules with the same first field together, in order of appearance; the longest of them first.
void order_rules(Rules& rules) {
  std::unordered_map<std::string, std::size_t> groups;
  for (const LayerMapping::Rule& rule : rules) {
    groups.try_emplace(rule.from.front(), groups.size());
  }
  std::stable_sort(rules.begin(), rules.end(), [&](const LayerMapping::Rule& left, const LayerMapping::Rule& right) {
    const std::size_t left_group = groups.find(left.from.front())->second;
    const std::size_t right_group = groups.find(right.from.front())->second;
    return left_group != right_group ? left_group < right_group : left.from.size() > right.from.size();
  });
}

}  // namespace

void LayerMapping::set(std::string_view class_name, Rule rule) {
  auto found = rules_by_class.find(class_name);
  if (found == rules_by_class.end()) {
    found = rules_by_class.emplace(class_name, Rules{}).first;
  }
  Rules& rules = found->second;
  auto place = rules.end();
  for (auto other = rules.begin(); other != rules.end(); ++other) {
    if (other->from == rule.from) {
      *other = std::move(rule);
      return;
    }
    if (other->from.front() == rule.from.front() && (place == rules.end() || other->from.size() >= rule.from.size())) {
      place = other->from.size() >= rule.from.size() ? other + 1 : other;
    }
  }
  rules.insert(place, std::move(rule));
}

LayerMapping LayerMapping::parse(std::string_view text, const std::filesystem::path& name) {
  if (text.size() > max_file_bytes) {
    fail(ErrorCategory::limit, name, 0, "the mapping file is larger than " + std::to_string(max_file_bytes) + " bytes");
  }
  check_characters(text, name);
  MappingReader reader(name);
  try {
    read_events(std::string(text), reader);
    if (text.find('\'') != std::string_view::npos) {
      // The parser lets a text in single quotes end with the file; the mark of a document's end is an error inside quotes.
      Ignore ignore;
      read_events(std::string(text) + "\n...\n", ignore);
    }
  } catch (const YAML::Exception& error) {
    fail(ErrorCategory::format, name, line_of(error.mark), "no valid YAML: " + error.msg);
  }
  if (!reader.found_document()) {
    fail(ErrorCategory::format, name, 0, "the file is empty; a mapping of class names to rules is needed");
  }
  LayerMapping mapping;
  mapping.file = name;
  auto& sections = reader.sections();
  if (const auto old = sections.find(old_top_class); old != sections.end()) {
    sections.insert_or_assign(std::string(top_class), std::move(old->second));
    sections.erase(sections.find(old_top_class));
  }
  for (auto& [class_name, section] : sections) {
    order_rules(section.rules);
    mapping.rules_by_class.emplace(class_name, std::move(section.rules));
  }
  return mapping;
}

LayerMapping LayerMapping::read(const std::filesystem::path& file) {
  std::error_code failure;
  const auto status = std::filesystem::status(file, failure);
  if (!std::filesystem::exists(status)) {
    const bool missing = status.type() == std::filesystem::file_type::not_found;
    fail(ErrorCategory::path, file, 0,
         "the mapping file " + (missing ? std::string("does not exist") : "can't be reached: " + failure.message()));
  }
  if (!std::filesystem::is_regular_file(status)) {
    fail(ErrorCategory::path, file, 0, "the mapping file is no regular file");
  }
  if (!file.native().ends_with(".yaml")) {
    fail(ErrorCategory::path, file, 0, "the name of the mapping file must end in .yaml");
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    fail(ErrorCategory::path, file, 0, "the mapping file can't be read; check its permissions");
  }
  std::string text(max_file_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) {
    fail(ErrorCategory::io, file, 0, "reading the mapping file failed");
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return parse(text, file);
}

}  // namespace msvis
