// CRC-32 as zip and packs have it.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace msvis {

/// Continues a checksum (0 at the beginning) over more bytes. No bytes leave it as it is; zlib would begin anew at a null pointer.
inline std::uint32_t continue_crc(std::uint32_t crc, std::span<const std::byte> bytes) {
  return bytes.empty() ? crc : static_cast<std::uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace msvis
