// The file that says which parts of two models correspond although their names differ.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace msvis {

/// A parsed layer mapping file (3.4, step E).
struct LayerMapping {
  struct Rule {
    std::vector<std::string> from;  ///< fields on the target side, never empty
    std::vector<std::string> to;    ///< fields on the golden side, never empty
    int line = 0;                   ///< 1-based line in the file
  };
  /// Limits of a mapping file; more is ErrorCategory::limit.
  static constexpr std::size_t max_file_bytes = std::size_t{4} << 20U;
  static constexpr std::size_t max_rules = 100'000;                      ///< rules after aliases are resolved
  static constexpr std::size_t max_path_bytes = 4096;                    ///< of one key or value
  static constexpr std::size_t max_path_fields = 256;                    ///< of one key or value
  static constexpr std::size_t max_rule_bytes = std::size_t{16} << 20U;  ///< of all keys and values, after aliases are resolved

  /// Per class: no two rules with equal `from`; rules with the same first field stand together, longest first.
  std::map<std::string, std::vector<Rule>, std::less<>> rules_by_class;
  std::filesystem::path file;

  /// Reads a mapping file. Throws Error (path, format, limit) with file, line and reason. Keys and values must be strings in the sense
  /// of YAML's core schema (an unquoted number, truth value or null is none). Text from the first `(` on, and blanks before it, are
  /// dropped. A key that is written twice counts once, with its last value; the class `Cell`, if there is one, takes the place of
  /// `TopLayer`. Anchors and aliases are allowed except in cycles.
  static LayerMapping read(const std::filesystem::path& file);
  /// The same for a text in memory; `name` stands for the file in errors.
  static LayerMapping parse(std::string_view text, const std::filesystem::path& name = "(memory)");

  /// Adds a rule to a class at its place, or replaces the one with the same `from`.
  void set(std::string_view class_name, Rule rule);
};

}  // namespace msvis
