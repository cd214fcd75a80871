// From argv to option values: the step in front of CLI11, which can't tell -tp from --tp (the first is a path, the second a number).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msvis::cli {

/// How many values an option takes.
enum class Arity : std::uint8_t { flag, one, optional, many };

struct OptionSpec {
  std::string_view short_name;  ///< with one dash, more than one letter allowed; empty: none
  std::string_view long_name;   ///< with two dashes
  Arity arity;
  bool abbreviable;  ///< a unique prefix of the long name is accepted
};

/// Every option of the program. Only the names that the reference has may be abbreviated, so that a new option of ours never
/// makes an old abbreviation ambiguous.
std::span<const OptionSpec> option_specs();

/// The option with this exact long name; the name must exist.
const OptionSpec& spec_of(std::string_view long_name);

/// `-tp/--target_path` or `--threads`, as messages name an option.
std::string display_name(const OptionSpec& spec);

struct Arguments {
  /// Values by long name; of a repeated option the last occurrence only. A flag, or an optional value left away, has no values.
  std::map<std::string_view, std::vector<std::string>> given;
  bool help = false;
  bool version = false;
  std::optional<std::string> error;  ///< the first fault of syntax, one line

  [[nodiscard]] bool has(std::string_view long_name) const { return given.contains(long_name); }
};

/// Reads the words behind the program's name. A leading `graph_visualize` is skipped.
Arguments read_arguments(std::span<const std::string> words);

}  // namespace msvis::cli
