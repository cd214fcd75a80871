#include "msvis/tensor_pack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <system_error>

#include "tensor/byte_source.h"
#include "tensor/checksum.h"
#include "tensor/pack_content.h"
#include "tensor/pack_format.h"

namespace msvis {
namespace {

// Far beyond what a rank holds; what a header may make us allocate.
constexpr std::uint64_t max_entries = std::uint64_t{1} << 24;
constexpr std::uint64_t max_chunks = std::uint64_t{1} << 27;
constexpr std::uint64_t max_name_bytes = 255;

constexpr const char* remedy = "; make it again with msvis-pack, or copy it again";

bool plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

}  // namespace

TensorPack::Content::~Content() {
  if (file_descriptor >= 0) {
    ::close(file_descriptor);
  }
}

TensorPack::TensorPack(const std::filesystem::path& file) : file_(file), content_(std::make_unique<Content>()) {
  Content& content = *content_;
  do {
    content.file_descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  } while (content.file_descriptor < 0 && errno == EINTR);
  if (content.file_descriptor < 0) {
    const int code = errno;
    if (code == ENOENT || code == ENOTDIR) {
      fail(TensorFault::missing, no_such_file);
    }
    fail(TensorFault::unreadable, "can't be opened: " + std::generic_category().message(code));
  }
  struct stat status {};
  if (::fstat(content.file_descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    fail(TensorFault::unreadable, no_regular_file);
  }
  read_header(static_cast<std::uint64_t>(status.st_size));
  read_index();
  check_entries();
}

TensorPack::~TensorPack() = default;

void TensorPack::fail(TensorFault fault, const std::string& message) const {
  throw TensorError(fault, message, file_);
}

void TensorPack::read_header(std::uint64_t size) {
  PackHeader& header = content_->header;
  const std::string no_pack = "was not written by msvis-pack (its first bytes are others)";
  if (size < PackHeader::user_block) {
    fail(TensorFault::damaged, (size == 0 ? std::string("is empty") : no_pack) + remedy);
  }
  read(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.magic != PackHeader::right_magic) {
    fail(TensorFault::damaged, no_pack + remedy);
  }
  if (header.header_crc != continue_crc(0, std::as_bytes(std::span(&header, 1)).first(offsetof(PackHeader, header_crc)))) {
    fail(TensorFault::damaged, std::string("has a header whose checksum is wrong") + remedy);
  }
  if (header.version != PackHeader::right_version) {
    fail(TensorFault::refused, "has version " + std::to_string(header.version) + " of the format; " +
                                   std::to_string(PackHeader::right_version) +
                                   " is read; use the msvis-mpi that belongs to its msvis-pack");
  }
  if (header.file_bytes != size) {
    fail(TensorFault::damaged, "has " + std::to_string(size) + " bytes, but was written with " + std::to_string(header.file_bytes) +
                                   " (cut off, or changed by another program)" + remedy);
  }
}

void TensorPack::read_index() {
  Content& content = *content_;
  const PackHeader& header = content.header;
  if (header.entry_count > max_entries || header.names_bytes > max_entries * max_name_bytes || header.chunk_count > max_chunks ||
      header.shape_count > max_entries * TensorLimits::max_dimensions) {
    fail(TensorFault::too_large,
         "has an index for " + std::to_string(header.entry_count) + " files; the limit is " + std::to_string(max_entries));
  }
  // Nothing is allocated that the file does not hold.
  const auto require = [&](std::uint64_t offset, std::uint64_t bytes) {
    if (offset > header.file_bytes || bytes > header.file_bytes - offset) {
      fail(TensorFault::damaged, std::string("has an index that lies outside of the file") + remedy);
    }
  };
  std::uint32_t crc = 0;
  const auto load = [&](std::uint64_t offset, auto& values, std::uint64_t count) {
    using Value = typename std::decay_t<decltype(values)>::value_type;
    require(offset, count * sizeof(Value));
    values.resize(count);
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values.data(), values.size()));
    read(offset, bytes);
    crc = continue_crc(crc, bytes);
  };
  load(header.entries_offset, content.entries, header.entry_count);
  load(header.names_offset, content.names, header.names_bytes);
  load(header.shapes_offset, content.sizes, header.shape_count);
  load(header.chunks_offset, content.chunks, header.chunk_count);
  if (crc != header.index_crc) {
    fail(TensorFault::damaged, std::string("has an index whose checksum is wrong") + remedy);
  }
}

void TensorPack::check_entries() const {
  const Content& content = *content_;
  const std::uint64_t end = content.header.file_bytes;
  const auto within = [](std::uint64_t first, std::uint64_t count, std::uint64_t all) { return first <= all && count <= all - first; };
  const auto require = [&](bool good, std::size_t index) {
    if (!good) {
      fail(TensorFault::damaged, "has an index that contradicts itself at entry " + std::to_string(index) + remedy);
    }
  };
  std::string_view before;
  for (std::size_t k = 0; k < content.entries.size(); ++k) {
    const PackEntry& entry = content.entries[k];
    require(within(entry.name_offset, entry.name_bytes, content.names.size()), k);
    const std::string_view own = name(k);
    require(plain_name(own) && (k == 0 || before < own), k);
    before = own;
    require(entry.kind <= PackKind::irregular && entry.storage <= PackEntry::chunked, k);
    const bool tensor = entry.kind == PackKind::pt || entry.kind == PackKind::npy;
    require(!tensor || entry.dtype < dtype_count, k);
    require(entry.dimensions <= TensorLimits::max_dimensions && within(entry.shape_first, entry.dimensions, content.sizes.size()), k);
    std::uint64_t bytes = tensor ? dtype_size(static_cast<DType>(entry.dtype)) : 1;
    if (tensor) {
      for (const std::uint64_t size : shape(entry)) {
        require(checked_multiply(bytes, size, bytes), k);
      }
      require(bytes == entry.bytes, k);
    }
    if (entry.storage == PackEntry::contiguous) {
      require(entry.bytes == 0 || within(entry.offset, entry.bytes, end), k);
      continue;
    }
    require(tensor && entry.bytes > 0 && entry.chunk_axis < entry.dimensions && entry.chunk_rows > 0, k);
    require(within(entry.chunk_first, entry.chunk_count, content.chunks.size()), k);
    require(entry.chunk_rows <= shape(entry)[entry.chunk_axis], k);
    const ChunkGrid grid = chunk_grid(shape(entry), entry.chunk_axis, entry.chunk_rows);
    const std::uint64_t element = dtype_size(static_cast<DType>(entry.dtype));
    require(grid.chunk_count() == entry.chunk_count && grid.chunk_elements() <= ChunkGrid::max_bytes / element, k);
    for (const PackChunk& chunk : chunks(entry)) {
      require(within(chunk.offset, chunk.bytes, end) && chunk.bytes <= 2 * ChunkGrid::max_bytes && chunk.flags <= PackChunk::plain, k);
      require(chunk.flags != PackChunk::plain || chunk.bytes == grid.chunk_elements() * element, k);
    }
  }
}

std::uint64_t TensorPack::file_bytes() const {
  return content_->header.file_bytes;
}

std::size_t TensorPack::size() const {
  return content_->entries.size();
}

std::string_view TensorPack::name(std::size_t index) const {
  const PackEntry& entry = content_->entries[index];
  return std::string_view(content_->names).substr(entry.name_offset, entry.name_bytes);
}

const PackEntry& TensorPack::entry(std::size_t index) const {
  return content_->entries[index];
}

std::span<const std::uint64_t> TensorPack::shape(const PackEntry& entry) const {
  return std::span(content_->sizes).subspan(entry.shape_first, entry.dimensions);
}

std::span<const PackChunk> TensorPack::chunks(const PackEntry& entry) const {
  return std::span(content_->chunks).subspan(entry.chunk_first, entry.chunk_count);
}

std::optional<std::size_t> TensorPack::find(std::string_view wanted) const {
  std::size_t low = 0;
  std::size_t high = size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (name(middle) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < size() && name(low) == wanted ? std::optional(low) : std::nullopt;
}

void TensorPack::read(std::uint64_t offset, std::span<std::byte> out) const {
  read_exactly(content_->file_descriptor, offset, out, file_);
}

void TensorPack::read_payload(const PackEntry& entry, std::uint64_t first, std::span<std::byte> out, ChunkBuffer& buffer,
                              BufferPool& pool) const {
  if (first > entry.bytes || out.size() > entry.bytes - first) {
    throw Error(ErrorCategory::internal, "bytes are read that a packed file does not have", file_);
  }
  if (out.empty()) {
    return;
  }
  if (entry.storage == PackEntry::contiguous) {
    read(entry.offset + first, out);
    return;
  }
  const std::uint64_t element = dtype_size(static_cast<DType>(entry.dtype));
  const ChunkGrid grid = chunk_grid(shape(entry), entry.chunk_axis, entry.chunk_rows);
  const std::uint64_t chunk_bytes = grid.chunk_elements() * element;
  const std::span<const PackChunk> all = chunks(entry);
  while (!out.empty()) {
    const std::uint64_t number = grid.chunk_with(first / element);
    const std::uint64_t skipped = first - grid.first_of(number) * element;
    const std::size_t count = std::min<std::uint64_t>(out.size(), grid.count_of(number) * element - skipped);
    if (buffer.number != number) {
      buffer.number.reset();
      if (buffer.plain.capacity() < chunk_bytes) {
        buffer.plain = pool.acquire(chunk_bytes);
      }
      read_chunk(entry, all[number], number, {buffer.plain.data(), chunk_bytes}, buffer, pool);
      buffer.number = number;
    }
    std::memcpy(out.data(), buffer.plain.data() + skipped, count);
    out = out.subspan(count);
    first += count;
  }
}

void TensorPack::read_chunk(const PackEntry& entry, const PackChunk& chunk, std::uint64_t number, std::span<std::byte> out,
                            ChunkBuffer& buffer, BufferPool& pool) const {
  const bool plain = chunk.flags == PackChunk::plain;
  if (!plain && buffer.packed.capacity() < chunk.bytes) {
    buffer.packed = {};
    buffer.packed = pool.acquire(chunk.bytes);
  }
  const std::span<std::byte> stored = plain ? out : std::span(buffer.packed.data(), chunk.bytes);
  read(chunk.offset, stored);
  if (buffer.drop_cache) {
    (void)::posix_fadvise(content_->file_descriptor, static_cast<off_t>(chunk.offset), static_cast<off_t>(chunk.bytes),
                          POSIX_FADV_DONTNEED);
  }
  if (plain) {
    return;
  }
  auto size = static_cast<uLongf>(out.size());
  const int status = ::uncompress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(stored.data()),
                                  static_cast<uLong>(stored.size()));
  if (status != Z_OK || size != out.size()) {
    const auto index = static_cast<std::size_t>(&entry - content_->entries.data());
    fail(TensorFault::damaged, "has a damaged chunk (" + std::to_string(number) + ") of " + one_line(name(index)) + remedy);
  }
}

std::uint32_t TensorPack::payload_crc(const PackEntry& entry, BufferPool& pool) const {
  constexpr std::uint64_t step = std::uint64_t{4} << 20;
  PooledBuffer piece = pool.acquire(std::min(step, entry.bytes));
  ChunkBuffer chunk;
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < entry.bytes; at += step) {
    const std::span<std::byte> out(piece.data(), std::min(step, entry.bytes - at));
    read_payload(entry, at, out, chunk, pool);
    crc = continue_crc(crc, out);
  }
  return crc;
}

// ---------------------------------------------------------------------------------------------------------------------- store

TensorStore::TensorStore(const std::filesystem::path& rank_directory) : directory_(rank_directory / tensor_directory_name) {
  std::error_code ignored;
  const std::filesystem::path file = rank_directory / pack_file_name;
  if (std::filesystem::is_directory(directory_, ignored) || !std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) {
    return;
  }
  directory_ = file;
  try {
    pack_ = std::make_shared<const TensorPack>(file);
  } catch (const TensorError& error) {
    fault_ = error;
  }
}

std::filesystem::path TensorStore::resolve(std::string_view data_name, Compat compat) const {
  return resolve_data_name(directory_, data_name, compat);
}

TensorFile TensorStore::open(const std::filesystem::path& file, const ReadHints& hints) const {
  if (fault_) {
    throw TensorError(*fault_);
  }
  return pack_ ? TensorFile::open(pack_, file, hints) : TensorFile::open(file, hints);
}

std::shared_ptr<const TensorStore> TensorStores::of(const std::filesystem::path& rank_directory) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const TensorStore>& store = stores_[rank_directory];
  if (!store) {
    store = std::make_shared<const TensorStore>(rank_directory);
  }
  return store;
}

std::vector<TensorError> TensorStores::faults() const {
  const std::lock_guard lock(mutex_);
  std::vector<TensorError> found;
  for (const auto& [directory, store] : stores_) {
    if (store && store->fault()) {
      found.push_back(*store->fault());
    }
  }
  return found;
}

}  // namespace msvis
