#include "tensor/zip_directory.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>

namespace msvis {
namespace {

constexpr std::uint32_t end_signature = 0x06054b50;        // 4.3.16
constexpr std::uint32_t locator64_signature = 0x07064b50;  // 4.3.15
constexpr std::uint32_t end64_signature = 0x06064b50;      // 4.3.14
constexpr std::uint32_t entry_signature = 0x02014b50;      // 4.3.12
constexpr std::uint32_t local_signature = 0x04034b50;      // 4.3.7
constexpr std::uint16_t zip64_extra = 0x0001;              // 4.5.3

constexpr std::size_t end_size = 22;
constexpr std::size_t locator64_size = 20;
constexpr std::size_t end64_size = 56;
constexpr std::size_t entry_size = 46;
constexpr std::size_t local_size = 30;
constexpr std::size_t max_comment = 65535;  // 4.4.12

constexpr std::uint16_t saturated16 = 0xffff;
constexpr std::uint32_t saturated32 = 0xffffffff;

constexpr std::size_t inflate_chunk = std::size_t{256} << 10;

/// Ends zlib's state when the scope ends.
struct Inflater {
  z_stream stream{};
  Inflater() = default;
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

void ZipDirectory::fail(const std::string& message) const {
  source_.fail(TensorFault::damaged, message);
}

ZipDirectory::ZipDirectory(const ByteSource& source) : source_(source) {
  // The tail, which nearly always holds the whole directory.
  const std::uint64_t tail_size = std::min<std::uint64_t>(source.size(), max_comment + end_size + locator64_size + end64_size);
  const std::uint64_t tail_offset = source.size() - tail_size;
  PooledBuffer tail_buffer;
  const std::span<const std::byte> tail = source.view(tail_offset, tail_size, tail_buffer);
  if (tail.size() < end_size) {
    fail("is no complete zip archive: no end record");
  }
  // 4.3.16: the record whose comment reaches exactly to the end of the file.
  std::optional<std::size_t> end;
  const std::size_t last = tail.size() - end_size;
  for (std::size_t back = 0; back <= std::min(last, max_comment); ++back) {
    const std::size_t at = last - back;
    if (load_little<std::uint32_t>(tail, at) == end_signature && load_little<std::uint16_t>(tail, at + 20) == back) {
      end = at;
      break;
    }
  }
  if (!end) {
    fail("is no complete zip archive: no end record in its last " + std::to_string(tail.size()) + " bytes (was the file cut off?)");
  }
  std::uint64_t disk = load_little<std::uint16_t>(tail, *end + 4);
  std::uint64_t directory_disk = load_little<std::uint16_t>(tail, *end + 6);
  entry_count_ = load_little<std::uint16_t>(tail, *end + 10);
  std::uint64_t directory_size = load_little<std::uint32_t>(tail, *end + 12);
  directory_offset_ = load_little<std::uint32_t>(tail, *end + 16);
  std::uint64_t directory_limit = tail_offset + *end;

  const bool saturated = disk == saturated16 || directory_disk == saturated16 || entry_count_ == saturated16 ||
                         directory_size == saturated32 || directory_offset_ == saturated32;
  if (saturated && *end >= locator64_size && load_little<std::uint32_t>(tail, *end - locator64_size) == locator64_signature) {
    const std::uint64_t end64_offset = load_little<std::uint64_t>(tail, *end - locator64_size + 8);
    if (end64_offset > directory_limit - locator64_size || directory_limit - locator64_size - end64_offset < end64_size) {
      fail("its zip64 locator points outside the file");
    }
    PooledBuffer scratch;
    const std::span<const std::byte> record = source.view(end64_offset, end64_size, scratch);
    if (load_little<std::uint32_t>(record, 0) != end64_signature) {
      fail("has no zip64 end record where its locator points");
    }
    disk = load_little<std::uint32_t>(record, 16);
    directory_disk = load_little<std::uint32_t>(record, 20);
    entry_count_ = load_little<std::uint64_t>(record, 32);
    directory_size = load_little<std::uint64_t>(record, 40);
    directory_offset_ = load_little<std::uint64_t>(record, 48);
    directory_limit = end64_offset;
  }
  if (disk != 0 || directory_disk != 0) {
    fail("is one part of a divided zip archive");
  }
  if (entry_count_ > TensorLimits::max_zip_entries || directory_size > TensorLimits::max_zip_directory_bytes) {
    source.fail(TensorFault::too_large, "its zip directory has " + std::to_string(entry_count_) + " entries in " +
                                            std::to_string(directory_size) + " bytes; the limits are " +
                                            std::to_string(TensorLimits::max_zip_entries) + " and " +
                                            std::to_string(TensorLimits::max_zip_directory_bytes));
  }
  if (directory_offset_ > directory_limit || directory_size > directory_limit - directory_offset_) {
    fail("its zip directory does not fit into the file");
  }
  if (directory_offset_ >= tail_offset) {
    directory_ = tail.subspan(directory_offset_ - tail_offset, directory_size);
    buffer_ = std::move(tail_buffer);
  } else {
    directory_ = source.view(directory_offset_, directory_size, buffer_);
  }
}

ZipEntry ZipDirectory::parse_entry(std::size_t& at) const {
  const std::span<const std::byte> rest = directory_.subspan(at);
  if (rest.size() < entry_size || load_little<std::uint32_t>(rest, 0) != entry_signature) {
    source_.fail(TensorFault::damaged, "its zip directory is broken", directory_offset_ + at);
  }
  ZipEntry entry;
  entry.flags = load_little<std::uint16_t>(rest, 8);
  entry.method = load_little<std::uint16_t>(rest, 10);
  entry.crc = load_little<std::uint32_t>(rest, 16);
  entry.compressed_size = load_little<std::uint32_t>(rest, 20);
  entry.size = load_little<std::uint32_t>(rest, 24);
  const std::size_t name_size = load_little<std::uint16_t>(rest, 28);
  const std::size_t extra_size = load_little<std::uint16_t>(rest, 30);
  const std::size_t comment_size = load_little<std::uint16_t>(rest, 32);
  entry.header_offset = load_little<std::uint32_t>(rest, 42);
  const std::size_t total = entry_size + name_size + extra_size + comment_size;
  if (total > rest.size()) {
    source_.fail(TensorFault::damaged, "its zip directory is broken", directory_offset_ + at);
  }
  entry.name = {reinterpret_cast<const char*>(rest.data()) + entry_size, name_size};

  // 4.5.3: 8-byte values for exactly the saturated fields, in this order.
  std::span<const std::byte> extra = rest.subspan(entry_size + name_size, extra_size);
  while (extra.size() >= 4) {
    const auto id = load_little<std::uint16_t>(extra, 0);
    const std::size_t size = load_little<std::uint16_t>(extra, 2);
    if (size > extra.size() - 4) {
      break;  // padding of other writers
    }
    if (id == zip64_extra) {
      std::span<const std::byte> fields = extra.subspan(4, size);
      for (std::uint64_t* field : {&entry.size, &entry.compressed_size, &entry.header_offset}) {
        if (*field == saturated32 && fields.size() >= 8) {
          *field = load_little<std::uint64_t>(fields, 0);
          fields = fields.subspan(8);
        }
      }
    }
    extra = extra.subspan(4 + size);
  }
  at += total;
  return entry;
}

std::string_view ZipDirectory::first_name() const {
  std::size_t at = 0;
  return entry_count_ == 0 ? std::string_view() : parse_entry(at).name;
}

std::optional<ZipEntry> ZipDirectory::find(std::string_view folder, std::string_view rest) const {
  std::size_t at = 0;
  for (std::uint64_t k = 0; k < entry_count_; ++k) {
    const ZipEntry entry = parse_entry(at);
    if (entry.name.size() == folder.size() + rest.size() && entry.name.starts_with(folder) && entry.name.ends_with(rest)) {
      return entry;
    }
  }
  return std::nullopt;
}

std::uint64_t ZipDirectory::payload_offset(const ZipEntry& entry) const {
  const std::string name = one_line(entry.name);
  if ((entry.flags & ZipEntry::encrypted_flag) != 0) {
    source_.fail(TensorFault::refused, "its record " + name + " is encrypted");
  }
  if (entry.method != ZipEntry::stored && entry.method != ZipEntry::deflated) {
    source_.fail(TensorFault::refused, "its record " + name + " is compressed by method " + std::to_string(entry.method) +
                                           "; only 0 (stored) and 8 (deflate) are read");
  }
  if (entry.method == ZipEntry::stored && entry.compressed_size != entry.size) {
    fail("its stored record " + name + " has two different sizes");
  }
  // Divided first: a product could overflow.
  if (entry.method == ZipEntry::deflated && entry.size / TensorLimits::max_deflate_ratio > entry.compressed_size) {
    fail("its record " + name + " claims " + std::to_string(entry.size) + " bytes from " + std::to_string(entry.compressed_size) +
         "; deflate can't do that");
  }
  if (entry.header_offset > directory_offset_ || directory_offset_ - entry.header_offset < local_size) {
    fail("its record " + name + " begins outside the file");
  }
  std::byte header[local_size];
  source_.read(entry.header_offset, header);
  if (load_little<std::uint32_t>(header, 0) != local_signature) {
    source_.fail(TensorFault::damaged, "its record " + name + " has no header where the directory says", entry.header_offset);
  }
  // Sizes of name and extra field are taken from the local header: they differ from those of the directory. Its sizes of the payload
  // are zero when a data descriptor follows (4.4.4 bit 3), so they are not looked at.
  const std::uint64_t payload =
      entry.header_offset + local_size + load_little<std::uint16_t>(header, 26) + load_little<std::uint16_t>(header, 28);
  if (payload > directory_offset_ || entry.compressed_size > directory_offset_ - payload) {
    fail("its record " + name + " of " + std::to_string(entry.compressed_size) + " bytes does not fit into the file");
  }
  return payload;
}

std::span<const std::byte> ZipDirectory::content(const ZipEntry& entry, PooledBuffer& scratch) const {
  const std::uint64_t payload = payload_offset(entry);
  if (entry.method == ZipEntry::stored) {
    return source_.view(payload, entry.size, scratch);
  }
  scratch = source_.acquire(entry.size);
  inflate_at(source_, payload, entry.compressed_size, entry.size, entry.crc, scratch.bytes());
  return scratch.bytes();
}

void inflate_at(const ByteSource& source, std::uint64_t offset, std::uint64_t compressed_size, std::uint64_t size, std::uint32_t crc,
                std::span<std::byte> out) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {  // negative: no zlib header around the data
    source.fail(TensorFault::too_large, "no memory for decompression");
  }
  PooledBuffer scratch;
  const bool whole = out.size() == size;
  std::uint64_t written = 0;
  std::uint64_t taken = 0;
  uLong found_crc = crc32(0, nullptr, 0);
  Bytef nothing = 0;
  int status = Z_OK;
  while (status != Z_STREAM_END && (written < out.size() || whole)) {
    if (stream.avail_in == 0 && taken < compressed_size) {
      const std::uint64_t piece = std::min<std::uint64_t>(inflate_chunk, compressed_size - taken);
      const std::span<const std::byte> input = source.view(offset + taken, piece, scratch);
      taken += piece;
      stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input.data()));  // zlib's type; it does not write there
      stream.avail_in = static_cast<uInt>(piece);
    }
    const auto room = static_cast<uInt>(std::min<std::uint64_t>(out.size() - written, std::uint64_t{1} << 30));
    stream.next_out = room == 0 ? &nothing : reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = room;
    status = inflate(&stream, Z_NO_FLUSH);
    const uInt made = room - stream.avail_out;
    if (whole) {
      found_crc = crc32(found_crc, reinterpret_cast<const Bytef*>(out.data() + written), made);
    }
    written += made;
    if (status != Z_OK && status != Z_STREAM_END) {
      source.fail(TensorFault::damaged, "its compressed data is broken", offset);
    }
  }
  if (written < out.size()) {
    source.fail(TensorFault::damaged, "its compressed data has " + std::to_string(written) + " bytes instead of " + std::to_string(size),
                offset);
  }
  if (whole && found_crc != crc) {
    source.fail(TensorFault::damaged, "its compressed data has another checksum than the directory says", offset);
  }
}

}  // namespace msvis
