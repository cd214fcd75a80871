// The index of a packed rank as it is in the file (docs/pack-format.md). Little endian, no gaps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/pack_header.h"
#include "msvis/dtype.h"
#include "msvis/tensor.h"

namespace msvis {

/// What a packed file was.
enum class PackKind : std::uint8_t {
  bytes,      ///< kept byte by byte: no tensor, or one that only its own bytes describe in full
  pt,         ///< tensor of a `.pt` file, whatever its name
  npy,        ///< tensor of a `.npy` file
  irregular,  ///< no regular file (a directory, a pipe): only its name is kept
};

/// One file. Entries are ascending by name, bytewise.
struct PackEntry {
  static constexpr std::uint8_t contiguous = 0;
  static constexpr std::uint8_t chunked = 1;
  static constexpr std::uint8_t no_dtype = 255;

  std::uint64_t name_offset = 0;  ///< within the names
  std::uint64_t offset = 0;       ///< in the file, of a contiguous payload; 0 if there is none
  std::uint64_t bytes = 0;        ///< of the payload, uncompressed
  std::uint64_t file_bytes = 0;   ///< size of the original file
  std::uint64_t shape_first = 0;  ///< place of the shape in the table of sizes
  std::uint64_t chunk_first = 0;  ///< place in the table of chunks
  std::uint64_t chunk_count = 0;
  std::uint64_t chunk_rows = 0;  ///< size of a chunk along chunk_axis; it is 1 along axes before and whole along axes after it
  std::uint32_t name_bytes = 0;
  std::uint32_t crc = 0;  ///< CRC-32 of the payload, uncompressed
  std::uint16_t dimensions = 0;
  std::uint16_t chunk_axis = 0;
  PackKind kind = PackKind::bytes;
  std::uint8_t dtype = no_dtype;  ///< DType
  std::uint8_t storage = contiguous;
  std::uint8_t reserved = 0;
};
static_assert(sizeof(PackEntry) == 80);

/// One chunk of a compressed payload, in row-major order of the chunks.
struct PackChunk {
  static constexpr std::uint32_t plain = 1;  ///< flag: the bytes are as they are, not a zlib stream
  std::uint64_t offset = 0;                  ///< in the file
  std::uint32_t bytes = 0;                   ///< in the file
  std::uint32_t flags = 0;
};
static_assert(sizeof(PackChunk) == 16);

/// How the elements of a tensor lie in chunks: each chunk is a run of elements in logical order, filled up with zeros at the end of the
/// axis.
struct ChunkGrid {
  static constexpr std::uint64_t target_bytes = std::uint64_t{1} << 20;
  static constexpr std::uint64_t max_bytes = std::uint64_t{16} << 20;

  std::size_t axis = 0;
  std::uint64_t rows = 1;   ///< of a chunk along the axis
  std::uint64_t inner = 1;  ///< elements in a row
  std::uint64_t outer = 1;  ///< product of the axes before
  std::uint64_t size = 1;   ///< of the axis

  [[nodiscard]] std::uint64_t chunks_along_axis() const { return (size + rows - 1) / rows; }
  [[nodiscard]] std::uint64_t chunk_count() const { return outer * chunks_along_axis(); }
  [[nodiscard]] std::uint64_t chunk_elements() const { return rows * inner; }
  /// First element of a chunk, and how many elements of it are real.
  [[nodiscard]] std::uint64_t first_of(std::uint64_t chunk) const {
    return (chunk / chunks_along_axis() * size + chunk % chunks_along_axis() * rows) * inner;
  }
  [[nodiscard]] std::uint64_t count_of(std::uint64_t chunk) const {
    return std::min(rows, size - chunk % chunks_along_axis() * rows) * inner;
  }
  [[nodiscard]] std::uint64_t chunk_with(std::uint64_t element) const {
    const std::uint64_t row = element / inner;
    return row / size * chunks_along_axis() + row % size / rows;
  }
};

/// The grid of a shape without zeros and with at least one dimension, whose product is known not to overflow.
inline ChunkGrid chunk_grid(std::span<const std::uint64_t> shape, std::size_t axis, std::uint64_t rows) {
  ChunkGrid grid;
  grid.axis = axis;
  grid.rows = rows;
  grid.size = shape[axis];
  for (std::size_t d = 0; d < shape.size(); ++d) {
    (d < axis ? grid.outer : grid.inner) *= d == axis ? 1 : shape[d];
  }
  return grid;
}

/// Chunks of about ChunkGrid::target_bytes, evenly cut.
inline ChunkGrid choose_chunk_grid(std::span<const std::uint64_t> shape, std::uint64_t element_size) {
  std::size_t axis = shape.size() - 1;
  std::uint64_t row_bytes = element_size;
  while (axis > 0 && row_bytes * shape[axis] <= ChunkGrid::target_bytes) {
    row_bytes *= shape[axis--];
  }
  const std::uint64_t most_rows = std::max<std::uint64_t>(1, ChunkGrid::target_bytes / row_bytes);
  const std::uint64_t chunks = (shape[axis] + most_rows - 1) / most_rows;
  return chunk_grid(shape, axis, (shape[axis] + chunks - 1) / chunks);
}

}  // namespace msvis
