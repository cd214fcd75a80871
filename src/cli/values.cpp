#include "cli/values.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"

namespace msvis::cli {
namespace {

constexpr unsigned kLargestCount = 4096;  // of threads, of pairs of tensor files in work

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::variant<Selection, std::string> read_selection(const std::string& text) {
  constexpr std::string_view form = "; a selection is a list such as 0,2-5";
  Selection selection;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view piece = rest.substr(0, comma);
    const std::size_t dash = piece.find('-');
    const std::string_view low_text = piece.substr(0, dash);
    const std::string_view high_text = dash == std::string_view::npos ? low_text : piece.substr(dash + 1);
    const auto low = is_digits(low_text) ? read_number<std::int64_t>(low_text) : std::nullopt;
    const auto high = is_digits(high_text) ? read_number<std::int64_t>(high_text) : std::nullopt;
    if (!low || !high) {
      return printable(piece) + " is no number or range in " + printable(text) + std::string(form);
    }
    if (*high < *low) {
      return printable(piece) + " ends before it begins" + std::string(form);
    }
    selection.ranges.emplace_back(*low, *high);
    if (comma == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(comma + 1);
  }
  std::sort(selection.ranges.begin(), selection.ranges.end());
  std::vector<std::pair<std::int64_t, std::int64_t>> joined;
  for (const auto& [low, high] : selection.ranges) {
    if (!joined.empty() && (low <= joined.back().second || low == joined.back().second + 1)) {
      joined.back().second = std::max(joined.back().second, high);
    } else {
      joined.emplace_back(low, high);
    }
  }
  selection.ranges = std::move(joined);
  return selection;
}

Selection selection_of(const std::string& text) {
  return text.empty() ? Selection{} : std::get<Selection>(read_selection(text));
}

CLI::Validator one_of(std::vector<std::string> allowed) {
  return {[allowed = std::move(allowed)](const std::string& text) {
            if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) {
              return std::string();
            }
            std::string list;
            for (const std::string& choice : allowed) {
              list += (list.empty() ? "" : " or ") + choice;
            }
            return printable(text) + " is not known; give " + list;
          },
          "", ""};
}

CLI::Validator is_selection() {
  return {[](const std::string& text) {
            const auto result = read_selection(text);
            const auto* fault = std::get_if<std::string>(&result);
            return fault == nullptr ? std::string() : *fault;
          },
          "", ""};
}

CLI::Validator is_count(const std::string& what, const std::string& meaning_of_zero) {
  return {[what, meaning_of_zero](const std::string& text) {
            const auto count = read_number<unsigned>(text);
            return count && *count <= kLargestCount ? std::string()
                                                    : printable(text) + " is no number of " + what + "; give 1 to " +
                                                          std::to_string(kLargestCount) + ", or 0 for " + meaning_of_zero;
          },
          "", ""};
}

CLI::Validator is_integer(const std::string& hint) {
  return {[hint](const std::string& text) {
            return read_number<std::int64_t>(text) ? std::string() : printable(text) + " is no whole number" + hint;
          },
          "", ""};
}

}  // namespace msvis::cli
