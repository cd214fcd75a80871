#include "table/metrics_csv.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

namespace msvis {
namespace {

constexpr std::string_view line_end = "\r\n";

void append_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
    return;
  }
  std::array<char, 32> text{};
  const auto [end, fault] = std::to_chars(text.data(), text.data() + text.size(), value);  // shortest that reads back the same
  out.append(text.data(), end);
}

void append_cell(std::string& out, const PieceRows::Item& item, const MetricsColumn& column, const TextDictionary& dictionary) {
  const MetricsRow& row = item.row;
  switch (column.type) {
    case MetricsColumn::Type::step:
      out += std::to_string(item.step);
      return;
    case MetricsColumn::Type::rank:
      out += std::to_string(item.rank);
      return;
    case MetricsColumn::Type::node_order:
      out += std::to_string(row.node_order);
      return;
    case MetricsColumn::Type::position:
      out += std::to_string(row.position);
      return;
    case MetricsColumn::Type::md5_equal:
      out += std::to_string(row.md5_equal);
      return;
    case MetricsColumn::Type::number:
      append_number(out, row.numbers[column.index]);
      return;
    case MetricsColumn::Type::text:
      append_csv_text(out, dictionary.text(kind_of_text[column.index], row.texts[column.index]));
      return;
    case MetricsColumn::Type::checksum: {
      const auto& text = row.checksums[column.index];
      append_csv_text(out, {text.data(), strnlen(text.data(), text.size())});
      return;
    }
  }
}

}  // namespace

void append_csv_text(std::string& out, std::string_view text) {
  constexpr std::string_view formula = "=+-@\t\r";
  const std::string_view mark = !text.empty() && formula.find(text.front()) != std::string_view::npos ? "'" : "";
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += mark;
    out += text;
    return;
  }
  out += '"';
  out += mark;
  for (const char c : text) {
    out += c;
    if (c == '"') {
      out += c;
    }
  }
  out += '"';
}

std::string csv_header() {
  std::string line;
  for (const MetricsColumn& column : metrics_columns()) {
    line += line.empty() ? "" : ",";
    line += column.name;
  }
  line += line_end;
  return line;
}

void append_csv_rows(std::string& out, const PieceRows& piece, const TextDictionary& dictionary) {
  for (const PieceRows::Item& item : piece.rows) {
    bool first = true;
    for (const MetricsColumn& column : metrics_columns()) {
      out += first ? "" : ",";
      first = false;
      append_cell(out, item, column, dictionary);
    }
    out += line_end;
  }
}

}  // namespace msvis
