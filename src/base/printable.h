// Names from outside (arguments, directory entries) in messages that are one line.
#pragma once

#include <string>
#include <string_view>

namespace msvis {

/// The text in single quotes, control characters as \xNN, cut after `limit` bytes (never inside a UTF-8 character), so that a
/// message stays one line of sensible length whatever the name is.
inline std::string printable(std::string_view text, std::size_t limit = 200) {
  bool cut = false;
  if (text.size() > limit) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) {
      --limit;
    }
    text = text.substr(0, limit);
    cut = true;
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out += digits[byte >> 4U];
      out += digits[byte & 0xFU];
    } else {
      out += c;
    }
  }
  out += cut ? "...'" : "'";
  return out;
}

}  // namespace msvis
