#include "compare/numbers.h"

#include <array>
#include <boost/multiprecision/cpp_int.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "dump/python_text.h"

namespace msvis {
namespace {

using boost::multiprecision::cpp_int;

/// Longer integers are taken as floats (that is, as infinite): exact arithmetic on them could take for ever.
constexpr std::size_t max_exact_digits = 4300;

std::optional<std::int64_t> small_integer(JsonValue value) {
  const std::string_view text = value.text();
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

cpp_int big_integer(JsonValue value) {
  std::string_view text = value.text();
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 1 : 0);
  // A leading zero would mean octal to the library; JSON has none but the number zero.
  cpp_int number(text.empty() ? std::string("0") : std::string(text));
  return negative ? cpp_int(-number) : number;
}

/// The quotient of two integers, correctly rounded.
double divide(const cpp_int& numerator, const cpp_int& denominator) {
  if (numerator == 0) {
    return 0.0;
  }
  cpp_int top = abs(numerator);
  cpp_int bottom = abs(denominator);
  // A quotient of 65 or 66 bits, the last of which also says whether there is a remainder, rounds as the exact one.
  const auto shift = 65 - (static_cast<std::int64_t>(msb(top)) - static_cast<std::int64_t>(msb(bottom)));
  if (shift >= 0) {
    top <<= static_cast<std::size_t>(shift);
  } else {
    bottom <<= static_cast<std::size_t>(-shift);
  }
  cpp_int quotient;
  cpp_int remainder;
  divide_qr(top, bottom, quotient, remainder);
  bool sticky = remainder != 0;
  std::int64_t dropped = 0;
  while (msb(quotient) > 62) {
    sticky = sticky || bit_test(quotient, 0);
    quotient >>= 1;
    ++dropped;
  }
  const std::uint64_t bits = static_cast<std::uint64_t>(quotient) | (sticky ? 1U : 0U);
  const double magnitude =
      std::ldexp(static_cast<double>(bits), static_cast<int>(std::clamp<std::int64_t>(dropped - shift, -20000, 20000)));
  return (numerator < 0) != (denominator < 0) ? -magnitude : magnitude;
}

Cell difference_cell(double value) {
  // The reference marks infinite differences with a tab, so that spreadsheets keep them as text.
  if (std::isinf(value)) {
    return Cell::of_text(value > 0 ? "inf\t" : "-inf\t");
  }
  return Cell::of_number(value);
}

StatisticsCells integer_cells(JsonValue target, JsonValue golden) {
  const auto small_target = small_integer(target);
  const auto small_golden = small_integer(golden);
  const auto exact_in_double = [](std::int64_t number) {
    constexpr std::int64_t limit = std::int64_t{1} << 53;
    return -limit <= number && number <= limit;
  };
  if (small_target && small_golden) {
    std::int64_t difference = 0;
    if (!__builtin_sub_overflow(*small_target, *small_golden, &difference)) {
      const Cell cell = Cell::of_text(std::to_string(difference));
      if (*small_golden == 0) {
        return {cell, Cell::of_text("N/A")};
      }
      if (exact_in_double(difference) && exact_in_double(*small_golden)) {
        return {cell, Cell::of_percent(std::abs(static_cast<double>(difference) / static_cast<double>(*small_golden) * 100))};
      }
    }
  }
  const cpp_int ours = big_integer(target);
  const cpp_int theirs = big_integer(golden);
  const cpp_int difference = ours - theirs;
  const Cell cell = Cell::of_text(difference.str());
  if (theirs == 0) {
    return {cell, Cell::of_text("N/A")};
  }
  return {cell, Cell::of_percent(std::abs(divide(difference, theirs) * 100))};
}

/// Text under which a statistic is compared when it is no finite number; empty for all others.
std::string special_text(JsonValue value) {
  if (value.is(JsonKind::real)) {
    const double number = value.number();
    if (std::isnan(number)) {
      return "Nan";
    }
    if (std::isinf(number)) {
      return number > 0 ? "inf" : "-inf";
    }
  }
  if (value.is_string() && (value.text() == "inf" || value.text() == "-inf")) {
    return std::string(value.text());
  }
  if (value.is_null()) {
    return "None";
  }
  return {};
}

double as_double(JsonValue value) {
  return value.is(JsonKind::boolean) ? (value.boolean() ? 1.0 : 0.0) : value.number();
}

bool is_numeric(JsonValue value) {
  return value.is_number() || value.is(JsonKind::boolean);
}

bool equal_numbers(JsonValue left, JsonValue right) {
  if (left.is(JsonKind::integer) && right.is(JsonKind::integer)) {
    std::string ours;
    std::string theirs;
    append_integer(ours, left.text());
    append_integer(theirs, right.text());
    return ours == theirs;
  }
  if (left.is(JsonKind::integer) != right.is(JsonKind::integer) && is_numeric(left) && is_numeric(right)) {
    // Python compares an integer with a float exactly, not after rounding.
    const JsonValue whole = left.is(JsonKind::integer) ? left : right;
    const double real = as_double(left.is(JsonKind::integer) ? right : left);
    if (!std::isfinite(real) || std::trunc(real) != real || whole.text().size() > 320) {
      return false;
    }
    return big_integer(whole) == cpp_int(real);
  }
  return as_double(left) == as_double(right);
}

bool equal_at_depth(JsonValue left, JsonValue right, int depth);

bool equal_objects(JsonValue left, JsonValue right, int depth) {
  if (left.size() != right.size()) {
    return false;
  }
  for (const auto& [key, value] : left.members()) {
    const JsonValue other = right.find(key);
    if (!other || !equal_at_depth(value, other, depth + 1)) {
      return false;
    }
  }
  return true;
}

bool equal_at_depth(JsonValue left, JsonValue right, int depth) {
  constexpr int max_depth = 2000;  // deeper than any document that is read
  if (!left || !right || depth > max_depth) {
    return !left && !right;
  }
  if (is_numeric(left) && is_numeric(right)) {
    return equal_numbers(left, right);
  }
  if (left.kind() != right.kind()) {
    return false;
  }
  switch (left.kind()) {
    case JsonKind::string:
      return left.text() == right.text();
    case JsonKind::array: {
      if (left.size() != right.size()) {
        return false;
      }
      auto other = right.elements().begin();
      for (const JsonValue element : left.elements()) {
        if (!equal_at_depth(element, *other, depth + 1)) {
          return false;
        }
        ++other;
      }
      return true;
    }
    case JsonKind::object:
      return equal_objects(left, right, depth);
    default:
      return true;  // null with null
  }
}

}  // namespace

StatisticsCells compare_statistics(JsonValue target, JsonValue golden) {
  if (!target.is_number() || !golden.is_number()) {
    return {Cell::of_text("N/A"), Cell::of_text("N/A")};
  }
  if (target.is(JsonKind::integer) && golden.is(JsonKind::integer)) {
    if (target.text() == golden.text() && target.text().size() > max_exact_digits) {
      return {Cell::of_text("0"), Cell::of_percent(0)};
    }
    if (target.text().size() <= max_exact_digits && golden.text().size() <= max_exact_digits) {
      return integer_cells(target, golden);
    }
  }
  const double ours = target.number();
  const double theirs = golden.number();
  const double difference = ours - theirs;
  if (std::isnan(difference)) {
    return {Cell::of_text("Nan"), Cell::of_text("Nan")};
  }
  if (theirs == 0) {
    return {difference_cell(difference), Cell::of_text("N/A")};
  }
  return {difference_cell(difference), Cell::of_percent(std::abs(difference / theirs * 100))};
}

bool equal_values(JsonValue left, JsonValue right) {
  return equal_at_depth(left, right, 0);
}

bool equal_statistics(JsonValue left, JsonValue right) {
  const std::string ours = special_text(left);
  const std::string theirs = special_text(right);
  if (!ours.empty() || !theirs.empty()) {
    const auto plain = [](JsonValue value, const std::string& special) {
      return special.empty() && value.is_string() ? std::string(value.text()) : special;
    };
    return plain(left, ours) == plain(right, theirs);
  }
  return equal_values(left, right);
}

bool is_not_finite(JsonValue value) {
  if (value.is(JsonKind::real)) {
    return !std::isfinite(value.number());
  }
  if (!value.is_string()) {
    return false;
  }
  std::string_view text = value.text();
  constexpr std::string_view blanks = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) {
    return false;
  }
  text = text.substr(first, text.find_last_not_of(blanks) - first + 1);
  if (text.size() > 4) {
    return false;
  }
  std::string lower;
  for (const char c : text) {
    lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return lower == "inf" || lower == "-inf" || lower == "nan";
}

void Cell::append_to(std::string& out) const {
  switch (kind) {
    case Kind::blank:
      out += ' ';
      break;
    case Kind::number:
      append_float(out, value);
      break;
    case Kind::percent:
      append_float(out, value);
      out += '%';
      break;
    case Kind::text:
      out += text;
      break;
  }
}

}  // namespace msvis
