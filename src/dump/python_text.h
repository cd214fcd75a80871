// Text of values as the result file shows them: Python's repr and str, and the dump viewer's clean-ups.
#pragma once

#include <string>
#include <string_view>

#include "msvis/json.h"

namespace msvis {

/// Shortest decimal that round-trips, in Python's layout: `1.0`, `1e-05`, `1e+16`, `nan`, `inf`, `-0.0` (graph rules, 8.2).
void append_float(std::string& out, double value);
/// Integer token as Python prints the integer: digits as written, `-0` as `0`.
void append_integer(std::string& out, std::string_view token);
/// Python repr: strings quoted, `None`, `True`, `[2, 3]`, `{'a': None}`. Iterative or depth-limited: never overflows the stack.
void append_repr(std::string& out, JsonValue value);
/// Python str: as repr, but a string at top level stands bare. Absent prints nothing.
void append_str(std::string& out, JsonValue value);
/// Stored text of one display value (graph rules, 8.2): strings lose every `'`, `None` becomes `null`, and long plain decimals are rounded
/// to six places; null becomes `null`; all else is its repr.
void append_display(std::string& out, JsonValue value);
/// The string rule of append_display on a text.
void append_display_text(std::string& out, std::string_view text);
/// CRC-32 (zlib polynomial) as 8 lower-case hex digits.
std::string crc32_hex(std::string_view text);

}  // namespace msvis
