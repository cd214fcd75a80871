// The parameter table as CSV (RFC 4180).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "table/metrics_pieces.h"

namespace msvis {

/// The text of a cell that is no number: with an apostrophe in front where a spreadsheet would take it for a formula (first character = + -
/// @, tab or carriage return), in quotes where the format asks for it.
void append_csv_text(std::string& out, std::string_view text);

/// The names of the columns, with the end of the line.
std::string csv_header();

/// One line for each row. Texts are codes in `dictionary`.
void append_csv_rows(std::string& out, const PieceRows& piece, const TextDictionary& dictionary);

}  // namespace msvis
