// Texts of option values: numbers, selections, and the validators that speak of them.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "msvis/options.h"

namespace msvis::cli {

template <typename Number>
std::optional<Number> read_number(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) {
      return std::nullopt;
    }
  }
  Number number{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || fault != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

/// `0,2-5`: ascending, overlapping and adjacent pieces joined. The text says what is wrong when it is no selection.
std::variant<Selection, std::string> read_selection(const std::string& text);
/// The selection of a text that was validated; an empty one selects everything.
Selection selection_of(const std::string& text);

CLI::Validator one_of(std::vector<std::string> allowed);
CLI::Validator is_selection();
/// 0 to 4096.
CLI::Validator is_count(const std::string& what, const std::string& meaning_of_zero);
CLI::Validator is_integer(const std::string& hint = {});

}  // namespace msvis::cli
