#include "table/metrics_pieces.h"

#include <algorithm>
#include <tuple>

#include "base/bytes.h"
#include "msvis/error.h"

namespace msvis {

std::vector<MetricsPiece> cut_into_pieces(const std::vector<MetricsSpill::Frame>& frames, std::uint64_t bytes) {
  const auto same_block = [](const MetricsBatchHeader& left, const MetricsBatchHeader& right) {
    return left.step == right.step && left.rank == right.rank && left.block == right.block;
  };
  std::vector<MetricsPiece> pieces;
  std::uint64_t row = 0;
  std::uint64_t filled = 0;
  for (const MetricsSpill::Frame& frame : frames) {
    const bool continues = !pieces.empty() && same_block(pieces.back().frames.back().header, frame.header);
    if (pieces.empty() || (!continues && filled >= bytes)) {
      pieces.emplace_back().first_row = row;
      filled = 0;
    }
    MetricsPiece& piece = pieces.back();
    piece.frames.push_back(frame);
    piece.rows += frame.header.rows;
    row += frame.header.rows;
    filled += frame.size;
  }
  return pieces;
}

std::string encode_piece(const MetricsSpill& spill, const MetricsPiece& piece, TextDictionary& dictionary) {
  ByteWriter out;
  out.put(piece.first_row);
  out.put(piece.rows);
  out.put(static_cast<std::uint64_t>(piece.frames.size()));
  for (const MetricsSpill::Frame& frame : piece.frames) {
    const std::string bytes = spill.read(frame);
    const MetricsBatch batch = unpack_metrics_batch(bytes);
    out.put(batch.header.step);
    out.put(batch.header.rank);
    for (std::size_t kind = 0; kind < text_kinds; ++kind) {
      out.put_all(batch.texts[kind],
                  [&](ByteWriter& to, std::string_view text) { to.put(dictionary.number(static_cast<TextKind>(kind), text)); });
    }
    out.put(batch.packed_rows);
  }
  return out.take();
}

PieceRows decode_piece(std::string_view bytes) {
  ByteReader in(bytes);
  PieceRows piece;
  piece.first_row = in.get<std::uint64_t>();
  const auto rows = in.get<std::uint64_t>();
  const auto frames = in.get<std::uint64_t>();
  if (rows > bytes.size() || frames > bytes.size()) {  // each has several bytes
    throw Error(ErrorCategory::internal, "a piece of the parameter table is damaged");
  }
  piece.rows.reserve(rows);
  for (std::uint64_t frame = 0; frame < frames; ++frame) {
    PieceRows::Item item;
    item.step = in.get<std::int64_t>();
    item.rank = in.get<std::int64_t>();
    std::array<std::vector<std::uint32_t>, text_kinds> codes;
    std::array<std::size_t, text_kinds> sizes{};
    for (std::size_t kind = 0; kind < text_kinds; ++kind) {
      codes[kind] = in.get_all([](ByteReader& from) { return from.get<std::uint32_t>(); });
      sizes[kind] = codes[kind].size();
    }
    MetricsRowReader reader(in.get_view(), sizes);
    while (reader.next(item.row)) {
      for (std::size_t k = 0; k < text_columns; ++k) {
        item.row.texts[k] = codes[static_cast<std::size_t>(kind_of_text[k])][item.row.texts[k]];
      }
      piece.rows.push_back(item);
    }
  }
  if (piece.rows.size() != rows || !in.at_end()) {
    throw Error(ErrorCategory::internal, "a piece of the parameter table has other rows than announced");
  }
  const auto place = [](const PieceRows::Item& item) {
    return std::tuple(item.step, item.rank, item.row.node_order, item.row.texts[text_parameter], item.row.position);
  };
  std::sort(piece.rows.begin(), piece.rows.end(),
            [&](const PieceRows::Item& left, const PieceRows::Item& right) { return place(left) < place(right); });
  return piece;
}

}  // namespace msvis
