#include "dump/python_text.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

namespace msvis {
namespace {

void append_hex_escape(std::string& out, unsigned byte) {
  constexpr std::string_view hex = "0123456789abcdef";
  out += "\\x";
  out += hex[byte >> 4 & 15];
  out += hex[byte & 15];
}

/// repr of a string. Printable characters stand as they are; beyond ASCII only the C1 controls and the two invisible Latin-1 characters
/// (no-break space, soft hyphen) are escaped.
void append_quoted(std::string& out, std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      append_hex_escape(out, byte);
    } else if (byte == 0xC2 && at + 1 < text.size() &&
               (static_cast<unsigned char>(text[at + 1]) <= 0xA0 || static_cast<unsigned char>(text[at + 1]) == 0xAD)) {
      append_hex_escape(out, static_cast<unsigned char>(text[++at]));
    } else {
      out += c;
    }
  }
  out += quote;
}

/// repr of everything but arrays and objects.
void append_scalar(std::string& out, JsonValue value) {
  switch (value.kind()) {
    case JsonKind::null:
      out += "None";
      break;
    case JsonKind::boolean:
      out += value.boolean() ? "True" : "False";
      break;
    case JsonKind::integer:
      append_integer(out, value.text());
      break;
    case JsonKind::real:
      append_float(out, value.number());
      break;
    case JsonKind::string:
      append_quoted(out, value.text());
      break;
    case JsonKind::array:
    case JsonKind::object:
      break;
  }
}

/// A container that is being written.
struct Level {
  bool is_object = false;
  bool is_first = true;
  JsonValue::MemberRange::iterator member, last_member;
  JsonValue::ElementRange::iterator element, last_element;
};

Level enter(std::string& out, JsonValue container) {
  Level level;
  level.is_object = container.is_object();
  out += level.is_object ? '{' : '[';
  if (level.is_object) {
    level.member = container.members().begin();
    level.last_member = container.members().end();
  } else {
    level.element = container.elements().begin();
    level.last_element = container.elements().end();
  }
  return level;
}

bool is_container(JsonValue value) {
  return value.is_array() || value.is_object();
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t count_digits(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

/// If `text` is a plain decimal of the rounding rule (at most 20 digits before and after the point, more than six after it, perhaps `%`),
/// appends it with six places and returns true.
bool append_rounded(std::string& out, std::string_view text) {
  constexpr std::size_t most_digits = 20;
  constexpr std::size_t places = 6;
  const std::size_t whole = count_digits(text);
  if (whole == 0 || whole > most_digits || whole == text.size() || text[whole] != '.') {
    return false;
  }
  const std::size_t fraction = count_digits(text.substr(whole + 1));
  const std::size_t length = whole + 1 + fraction;
  const bool percent = length + 1 == text.size() && text[length] == '%';
  if (fraction <= places || fraction > most_digits || (length != text.size() && !percent)) {
    return false;
  }
  double value = 0;
  std::from_chars(text.data(), text.data() + length, value);
  std::array<char, 64> digits;
  const auto result =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed, static_cast<int>(places));
  out.append(digits.data(), result.ptr);
  if (percent) {
    out += '%';
  }
  return true;
}

}  // namespace

void append_float(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "nan";
    return;
  }
  if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
    return;
  }
  // `-d.ddde-XX`: the shortest digits that round-trip, to be laid out anew.
  std::array<char, 40> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(result.ptr - buffer.data()));
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  const std::string_view exponent_text = text.substr(e + (text[e + 1] == '+' ? 2 : 1));
  int exponent = 0;
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  std::array<char, 32> digits;
  std::size_t count = 0;
  for (const char c : text.substr(0, e)) {
    if (c != '.') {
      digits[count++] = c;
    }
  }
  const std::string_view all(digits.data(), count);
  if (exponent < -4 || exponent >= 16) {
    out += all.front();
    if (count > 1) {
      out += '.';
      out += all.substr(1);
    }
    out += exponent < 0 ? "e-" : "e+";
    const unsigned size = static_cast<unsigned>(std::abs(exponent));
    if (size < 10) {
      out += '0';
    }
    out += std::to_string(size);
  } else if (exponent < 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-exponent - 1), '0');
    out += all;
  } else {
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (count > whole) {
      out += all.substr(0, whole);
      out += '.';
      out += all.substr(whole);
    } else {
      out += all;
      out.append(whole - count, '0');
      out += ".0";
    }
  }
}

void append_integer(std::string& out, std::string_view token) {
  out += token == "-0" ? "0" : token;
}

void append_repr(std::string& out, JsonValue value) {
  if (!value) {
    out += "None";
    return;
  }
  if (!is_container(value)) {
    append_scalar(out, value);
    return;
  }
  // The nesting is the dump's, so it is not followed by recursion.
  std::vector<Level> levels;
  levels.push_back(enter(out, value));
  while (!levels.empty()) {
    Level& level = levels.back();
    const bool at_end = level.is_object ? level.member == level.last_member : level.element == level.last_element;
    if (at_end) {
      out += level.is_object ? '}' : ']';
      levels.pop_back();
      continue;
    }
    if (!level.is_first) {
      out += ", ";
    }
    level.is_first = false;
    JsonValue child;
    if (level.is_object) {
      const JsonValue::Member member = *level.member;
      ++level.member;
      append_quoted(out, member.key);
      out += ": ";
      child = member.value;
    } else {
      child = *level.element;
      ++level.element;
    }
    if (is_container(child)) {
      levels.push_back(enter(out, child));  // ends the use of `level`
    } else {
      append_scalar(out, child);
    }
  }
}

void append_str(std::string& out, JsonValue value) {
  if (!value) {
    return;
  }
  if (value.is_string()) {
    out += value.text();
  } else {
    append_repr(out, value);
  }
}

void append_display(std::string& out, JsonValue value) {
  if (!value || value.is_null()) {
    out += "null";
  } else if (value.is_string()) {
    append_display_text(out, value.text());
  } else {
    append_repr(out, value);
  }
}

void append_display_text(std::string& out, std::string_view text) {
  if (!text.empty() && is_digit(text.front()) && append_rounded(out, text)) {
    return;
  }
  constexpr std::string_view none = "None";
  if (text.find('\'') == std::string_view::npos) {
    while (true) {
      const std::size_t at = text.find(none);
      if (at == std::string_view::npos) {
        out += text;
        return;
      }
      out += text.substr(0, at);
      out += "null";
      text.remove_prefix(at + none.size());
    }
  }
  // Quotes go first: `N'one` becomes null, and `'1.12345678'` is rounded.
  std::string bare;
  std::copy_if(text.begin(), text.end(), std::back_inserter(bare), [](char c) { return c != '\''; });
  append_display_text(out, bare);
}

std::string crc32_hex(std::string_view text) {
  const auto crc = static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
  std::string hex(8, '0');
  for (std::size_t k = 0; k < hex.size(); ++k) {
    hex[k] = "0123456789abcdef"[crc >> (28 - 4 * k) & 15];
  }
  return hex;
}

}  // namespace msvis
