// Overflow levels (-oc) from the statistics of a dump, and the rules that remove known false alarms.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "msvis/graph.h"

namespace msvis {

/// One row of the ignore rules (overflow rules, section 6). A part that is nullopt is not checked at all.
struct IgnoreRule {
  std::optional<std::set<std::size_t>> inputs;
  std::optional<std::set<std::string, std::less<>>> keywords;
  std::optional<std::set<std::size_t>> outputs;
};

/// Rules by the first two dot-separated fields of a node name, lower-cased.
struct IgnoreRules {
  std::map<std::string, IgnoreRule, std::less<>> rules;
  /// Reads a rule file (JSON, docs/ignore-rules.md). Throws Error (path, format, limit) that names the file and what was expected.
  static IgnoreRules read(const std::filesystem::path& file);
};

/// Level of one entry before the ignore rules.
Overflow overflow_level(JsonValue entry);

/// Whether a rule takes the level of an entry away: none of its checks finds a bad value where it allows none.
bool removes_level(const IgnoreRule& rule, JsonValue entry);

/// Sets Node::overflow of every node that has an entry (never of the root, of API collections or of parameters_grad nodes, which get
/// Overflow::none). Returns how many levels the rules removed.
std::uint64_t classify_overflow(Graph& graph, const IgnoreRules& rules);

/// The rule file that belongs to this program: the installed one, found from the place of the running program, else the one of the
/// source tree that it was built from. Throws Error (path) that tells `--ignore-rules` if there is neither.
std::filesystem::path default_ignore_rules_file();

/// The installed rule file that belongs to a program at this place, if it is there.
std::optional<std::filesystem::path> installed_ignore_rules_file(const std::filesystem::path& program);

}  // namespace msvis
