// The central directory of a zip archive, as torch.save writes it. Section numbers: PKWARE's APPNOTE.TXT 6.3.10.
//
// A reader of our own, because payloads are used in place by their offset in the file, and every size is checked before it is used.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/byte_source.h"

namespace msvis {

/// Central directory header (4.3.12) with the ZIP64 extra field (4.5.3) applied.
struct ZipEntry {
  std::string_view name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t compressed_size = 0;
  std::uint64_t size = 0;
  std::uint64_t header_offset = 0;

  static constexpr std::uint16_t stored = 0;
  static constexpr std::uint16_t deflated = 8;
  static constexpr std::uint16_t encrypted_flag = 1;
};

class ZipDirectory {
 public:
  /// Finds the end record (4.3.16), the ZIP64 end record (4.3.14, 4.3.15) and checks the place of the directory. Throws TensorError.
  /// `source` must outlive this object.
  explicit ZipDirectory(const ByteSource& source);

  /// Name of the first entry; empty if there is none.
  [[nodiscard]] std::string_view first_name() const;
  /// The first entry of that name (folder + rest). Throws TensorError (damaged) if the directory is broken.
  [[nodiscard]] std::optional<ZipEntry> find(std::string_view folder, std::string_view rest) const;

  /// Checks an entry (method, encryption, sizes, local header 4.3.7) and gives the offset of its payload in the file.
  [[nodiscard]] std::uint64_t payload_offset(const ZipEntry& entry) const;
  /// The uncompressed content of an entry; in place if possible, else in `scratch`.
  std::span<const std::byte> content(const ZipEntry& entry, PooledBuffer& scratch) const;

 private:
  [[nodiscard]] ZipEntry parse_entry(std::size_t& at) const;
  [[noreturn]] void fail(const std::string& message) const;

  const ByteSource& source_;
  std::uint64_t directory_offset_ = 0;
  std::uint64_t entry_count_ = 0;
  std::span<const std::byte> directory_;
  PooledBuffer buffer_;
};

/// Inflates (RFC 1951) `compressed_size` bytes at `offset` of a file until `out` is full. If out is the whole content (`out.size() ==
/// size`), end mark and CRC are checked. Throws TensorError (damaged).
void inflate_at(const ByteSource& source, std::uint64_t offset, std::uint64_t compressed_size, std::uint64_t size, std::uint32_t crc,
                std::span<std::byte> out);

}  // namespace msvis
