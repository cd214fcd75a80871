// Packs as docs/pack-format.md describes them, made by hand and without HDF5: only what the reader looks at.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "support/tensor_files.h"
#include "tensor/checksum.h"
#include "tensor/pack_format.h"

namespace msvis::test {

/// Sets the checksums of a pack, as somebody would who means harm, and the size if that is wished. False if there is no header.
inline bool seal_pack(std::string& pack, bool set_size) {
  PackHeader header;
  if (pack.size() < PackHeader::user_block) {
    return false;
  }
  std::memcpy(&header, pack.data(), sizeof header);
  const std::span<const std::byte> all = std::as_bytes(std::span(pack));
  header.index_crc = 0;
  const auto add = [&](std::uint64_t offset, std::uint64_t count, std::size_t size) {
    if (offset < all.size() && count <= (all.size() - offset) / size) {
      header.index_crc = continue_crc(header.index_crc, all.subspan(offset, count * size));
    }
  };
  add(header.entries_offset, header.entry_count, sizeof(PackEntry));
  add(header.names_offset, header.names_bytes, 1);
  add(header.shapes_offset, header.shape_count, sizeof(std::uint64_t));
  add(header.chunks_offset, header.chunk_count, sizeof(PackChunk));
  if (set_size) {
    header.file_bytes = pack.size();
  }
  header.header_crc = continue_crc(0, std::as_bytes(std::span(&header, 1)).first(offsetof(PackHeader, header_crc)));
  std::memcpy(pack.data(), &header, sizeof header);
  return true;
}

/// A pack of four files: a contiguous tensor, a chunked one (one chunk deflated, one plain), a `.npy` kept byte by byte, a directory.
inline std::string hand_made_pack() {
  std::string pack(PackHeader::user_block, '\0');
  const auto append = [&](const void* data, std::size_t size) {
    const std::uint64_t at = pack.size();
    pack.append(static_cast<const char*>(data), size);
    return at;
  };
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<std::uint16_t> numbers(15);
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    numbers[k] = static_cast<std::uint16_t>(k);
  }
  std::vector<std::uint16_t> second(numbers.begin() + 10, numbers.end());
  second.resize(10, 0);
  std::vector<Bytef> deflated(100);
  auto size = static_cast<uLongf>(deflated.size());
  compress(deflated.data(), &size, reinterpret_cast<const Bytef*>(numbers.data()), 20);
  const std::string bfloat16 = npy("|V2", {2}, false, "abcd");

  const std::vector<PackChunk> chunks = {{append(deflated.data(), size), static_cast<std::uint32_t>(size), 0},
                                         {append(second.data(), 20), 20, PackChunk::plain}};
  std::vector<PackEntry> entries(4);
  const std::vector<std::string> names = {"a.pt", "b.npy", "c.npy", "d"};
  std::string all_names;
  for (std::size_t k = 0; k < names.size(); ++k) {
    entries[k].name_offset = all_names.size();
    entries[k].name_bytes = static_cast<std::uint32_t>(names[k].size());
    all_names += names[k];
  }
  const std::vector<std::uint64_t> sizes = {2, 3, 3, 5};
  entries[0].kind = PackKind::pt;
  entries[0].dtype = static_cast<std::uint8_t>(DType::float32);
  entries[0].bytes = 24;
  entries[0].file_bytes = 900;
  entries[0].offset = append(values.data(), 24);
  entries[0].dimensions = 2;
  entries[1].kind = PackKind::npy;
  entries[1].dtype = static_cast<std::uint8_t>(DType::uint16);
  entries[1].bytes = 30;
  entries[1].file_bytes = 158;
  entries[1].shape_first = 2;
  entries[1].dimensions = 2;
  entries[1].storage = PackEntry::chunked;
  entries[1].chunk_count = 2;
  entries[1].chunk_axis = 0;
  entries[1].chunk_rows = 2;
  entries[2].kind = PackKind::bytes;
  entries[2].bytes = bfloat16.size();
  entries[2].file_bytes = bfloat16.size();
  entries[2].offset = append(bfloat16.data(), bfloat16.size());
  entries[3].kind = PackKind::irregular;

  PackHeader header;
  header.original_bytes = 900 + 158 + bfloat16.size();
  header.entry_count = entries.size();
  header.entries_offset = append(entries.data(), entries.size() * sizeof(PackEntry));
  header.names_bytes = all_names.size();
  header.names_offset = append(all_names.data(), all_names.size());
  header.shape_count = sizes.size();
  header.shapes_offset = append(sizes.data(), sizes.size() * sizeof(std::uint64_t));
  header.chunk_count = chunks.size();
  header.chunks_offset = append(chunks.data(), chunks.size() * sizeof(PackChunk));
  std::memcpy(pack.data(), &header, sizeof header);
  seal_pack(pack, true);
  return pack;
}

}  // namespace msvis::test
