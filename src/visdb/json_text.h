// The serializer of every JSON column: ASCII text, separators ", " and ": ", other characters as \uXXXX.
#pragma once

#include <string>
#include <string_view>

#include "msvis/json.h"

namespace msvis {

/// Appends `text` as it stands between the quotes of a JSON string. Bytes that are not UTF-8 become U+FFFD.
void append_json_escaped(std::string& out, std::string_view text);

/// Appends `text` as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

/// Appends any value. Numbers are written as Python writes them (`1.50` as `1.5`); NaN and infinities, which JSON does not
/// have, become the strings "NaN", "Infinity", "-Infinity". Never overflows the stack. Absent is written as null.
void append_json_value(std::string& out, JsonValue value);

/// Appends an array of strings from any range of texts.
template <typename Texts>
void append_json_array(std::string& out, const Texts& texts) {
  out += '[';
  bool first = true;
  for (const auto& text : texts) {
    if (!first) {
      out += ", ";
    }
    first = false;
    append_json_string(out, std::string_view(text));
  }
  out += ']';
}

/// Appends `text` with every byte that is not part of valid UTF-8 replaced by U+FFFD.
void append_valid_utf8(std::string& out, std::string_view text);

/// Whether `text` is valid UTF-8 (no surrogates, no overlong forms).
bool is_valid_utf8(std::string_view text);

}  // namespace msvis
