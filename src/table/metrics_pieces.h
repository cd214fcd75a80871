// The spilled rows in the order of the table, in pieces of bounded size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "table/metrics_batch.h"
#include "table/metrics_spill.h"
#include "table/text_dictionary.h"

namespace msvis {

/// Consecutive rows of the table: whole blocks.
struct MetricsPiece {
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
  std::vector<MetricsSpill::Frame> frames;
};

/// Cuts the table into pieces of about `bytes` (at least one block each).
std::vector<MetricsPiece> cut_into_pieces(const std::vector<MetricsSpill::Frame>& frames, std::uint64_t bytes);

/// The rows of a piece as bytes, with codes of the dictionary in place of texts: for a process that has neither spill file nor dictionary.
std::string encode_piece(const MetricsSpill& spill, const MetricsPiece& piece, TextDictionary& dictionary);

/// The rows of encode_piece() in the order of the table: by step, rank, node_order, parameter (bytes of the name), position; texts are
/// codes. Throws Error (internal) for damaged bytes.
struct PieceRows {
  struct Item {
    std::int64_t step = 0;
    std::int64_t rank = 0;
    MetricsRow row;
  };
  std::uint64_t first_row = 0;
  std::vector<Item> rows;
};
PieceRows decode_piece(std::string_view bytes);

}  // namespace msvis
