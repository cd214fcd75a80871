// The first 512 bytes of a packed rank (docs/pack-format.md): where its index is. HDF5 leaves them to others (user block).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace msvis {

/// Name of a packed rank, beside dump.json.
inline constexpr const char* pack_file_name = "dump_tensor_data.h5";
/// Name of the directory that it stands for.
inline constexpr const char* tensor_directory_name = "dump_tensor_data";

/// As in the file: little endian, no gaps.
struct PackHeader {
  static constexpr std::size_t user_block = 512;
  static constexpr std::array<char, 16> right_magic = {'\x93', 'm', 's', 'v',  'i',  's',    '-',  'p',
                                                       'a',    'c', 'k', '\r', '\n', '\x1a', '\n', 0};
  static constexpr std::uint32_t right_version = 1;

  std::array<char, 16> magic = right_magic;
  std::uint32_t version = right_version;
  std::uint32_t reserved = 0;
  std::uint64_t file_bytes = 0;      ///< size of the whole file
  std::uint64_t original_bytes = 0;  ///< sum of the sizes of the files that were packed
  std::uint64_t entries_offset = 0;  ///< PackEntry[entry_count]
  std::uint64_t entry_count = 0;
  std::uint64_t names_offset = 0;  ///< names_bytes bytes
  std::uint64_t names_bytes = 0;
  std::uint64_t shapes_offset = 0;  ///< std::uint64_t[shape_count]
  std::uint64_t shape_count = 0;
  std::uint64_t chunks_offset = 0;  ///< PackChunk[chunk_count]
  std::uint64_t chunk_count = 0;
  std::uint32_t index_crc = 0;   ///< CRC-32 of entries, names, shapes and chunks, in this order
  std::uint32_t header_crc = 0;  ///< CRC-32 of all bytes before this one
};
static_assert(std::endian::native == std::endian::little, "the structures of the file are those of the memory");
static_assert(sizeof(PackHeader) == 112);

}  // namespace msvis
