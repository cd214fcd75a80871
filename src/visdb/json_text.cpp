#include "visdb/json_text.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dump/python_text.h"

namespace msvis {
namespace {

constexpr std::uint64_t every_byte = 0x0101010101010101U;
constexpr std::uint64_t every_high_bit = 0x8080808080808080U;

/// High bit of each byte that is zero; the lowest one set is right, which is all that the callers need.
constexpr std::uint64_t zero_bytes(std::uint64_t word) {
  return (word - every_byte) & ~word & every_high_bit;
}

std::uint64_t load_word(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

constexpr bool stands_for_itself(unsigned char byte) {
  return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

/// Number of bytes at the beginning of `text` that need no escape.
std::size_t plain_prefix(std::string_view text) {
  std::size_t at = 0;
  while (text.size() - at >= sizeof(std::uint64_t)) {
    const std::uint64_t word = load_word(text.data() + at);
    const std::uint64_t control = (word - every_byte * 0x20U) & ~word & every_high_bit;
    const std::uint64_t special =
        zero_bytes(word ^ (every_byte * '"')) | zero_bytes(word ^ (every_byte * '\\')) | zero_bytes(word ^ (every_byte * 0x7FU));
    if ((control | special | (word & every_high_bit)) != 0) {
      break;
    }
    at += sizeof word;
  }
  while (at < text.size() && stands_for_itself(static_cast<unsigned char>(text[at]))) {
    ++at;
  }
  return at;
}

struct Character {
  std::uint32_t code = 0xFFFD;
  std::size_t bytes = 1;
  bool valid = false;
};

/// The character at the beginning of a text that is not empty. An invalid sequence is as long as the part that could have begun a
/// character.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1, true};
  }
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  std::uint32_t code = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    code = lead & 0x1FU;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    code = lead & 0x0FU;
    low = lead == 0xE0 ? 0xA0 : 0x80;   // no overlong form
    high = lead == 0xED ? 0x9F : 0xBF;  // no surrogate
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    code = lead & 0x07U;
    low = lead == 0xF0 ? 0x90 : 0x80;
    high = lead == 0xF4 ? 0x8F : 0xBF;  // nothing beyond U+10FFFF
  } else {
    return {};
  }
  for (std::size_t at = 1; at < length; ++at) {
    if (at >= text.size() || byte(at) < low || byte(at) > high) {
      return {0xFFFD, at, false};
    }
    code = (code << 6U) | (byte(at) & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {code, length, true};
}

void append_unit(std::string& out, std::uint32_t unit) {
  static constexpr std::string_view digits = "0123456789abcdef";
  const std::array<char, 6> text{
      '\\', 'u', digits[(unit >> 12U) & 15U], digits[(unit >> 8U) & 15U], digits[(unit >> 4U) & 15U], digits[unit & 15U]};
  out.append(text.data(), text.size());
}

void append_escape(std::string& out, std::uint32_t code) {
  switch (code) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\b':
      out += "\\b";
      return;
    default:
      break;
  }
  if (code >= 0x10000) {
    append_unit(out, 0xD800U + ((code - 0x10000U) >> 10U));
    append_unit(out, 0xDC00U + ((code - 0x10000U) & 0x3FFU));
  } else {
    append_unit(out, code);
  }
}

void append_number(std::string& out, JsonValue value) {
  if (value.kind() == JsonKind::integer) {
    append_integer(out, value.text());
    return;
  }
  const double number = value.number();
  if (std::isnan(number)) {
    out += "\"NaN\"";
  } else if (std::isinf(number)) {
    out += number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    append_float(out, number);
  }
}

/// An array or object that is being written.
struct OpenValue {
  bool object = false;
  bool first = true;
  JsonValue::ElementRange::iterator element;
  JsonValue::ElementRange::iterator element_end;
  JsonValue::MemberRange::iterator member;
  JsonValue::MemberRange::iterator member_end;
};

/// Writes a scalar, or the opening bracket of a value whose content `open` then has to give.
void begin_value(std::string& out, JsonValue value, std::vector<OpenValue>& open) {
  if (!value) {
    out += "null";
    return;
  }
  switch (value.kind()) {
    case JsonKind::null:
      out += "null";
      break;
    case JsonKind::boolean:
      out += value.boolean() ? "true" : "false";
      break;
    case JsonKind::integer:
    case JsonKind::real:
      append_number(out, value);
      break;
    case JsonKind::string:
      append_json_string(out, value.text());
      break;
    case JsonKind::array: {
      out += '[';
      OpenValue array;
      array.element = value.elements().begin();
      array.element_end = value.elements().end();
      open.push_back(array);
      break;
    }
    case JsonKind::object: {
      out += '{';
      OpenValue object;
      object.object = true;
      object.member = value.members().begin();
      object.member_end = value.members().end();
      open.push_back(object);
      break;
    }
  }
}

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t plain = plain_prefix(text);
    out.append(text.data(), plain);
    text.remove_prefix(plain);
    if (text.empty()) {
      return;
    }
    const Character character = first_character(text);
    append_escape(out, character.code);
    text.remove_prefix(character.bytes);
  }
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append_json_value(std::string& out, JsonValue value) {
  std::vector<OpenValue> open;
  begin_value(out, value, open);
  while (!open.empty()) {
    OpenValue& innermost = open.back();
    const bool at_end = innermost.object ? innermost.member == innermost.member_end : innermost.element == innermost.element_end;
    if (at_end) {
      out += innermost.object ? '}' : ']';
      open.pop_back();
      continue;
    }
    if (!innermost.first) {
      out += ", ";
    }
    innermost.first = false;
    if (innermost.object) {
      const JsonValue::Member member = *innermost.member;
      ++innermost.member;
      append_json_string(out, member.key);
      out += ": ";
      begin_value(out, member.value, open);
    } else {
      const JsonValue element = *innermost.element;
      ++innermost.element;
      begin_value(out, element, open);
    }
  }
}

void append_valid_utf8(std::string& out, std::string_view text) {
  static constexpr std::string_view replacement = "\xEF\xBF\xBD";
  std::size_t good = 0;
  while (good < text.size()) {
    if (text.size() - good >= sizeof(std::uint64_t) && (load_word(text.data() + good) & every_high_bit) == 0) {
      good += sizeof(std::uint64_t);
      continue;
    }
    const Character character = first_character(text.substr(good));
    if (character.valid) {
      good += character.bytes;
      continue;
    }
    out.append(text.data(), good);
    out += replacement;
    text.remove_prefix(good + character.bytes);
    good = 0;
  }
  out.append(text);
}

bool is_valid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= sizeof(std::uint64_t) && (load_word(text.data() + at) & every_high_bit) == 0) {
      at += sizeof(std::uint64_t);
      continue;
    }
    const Character character = first_character(text.substr(at));
    if (!character.valid) {
      return false;
    }
    at += character.bytes;
  }
  return true;
}

}  // namespace msvis
