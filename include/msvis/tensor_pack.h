// Packed ranks: all files of `dump_tensor_data/` in one `dump_tensor_data.h5` (docs/pack-format.md).
//
// The file is HDF5 for everybody else. Here it is read without the HDF5 library: its first 512 bytes say where the index is, the index says
// where each payload is. So there is no lock and no lookup in the library for each tensor, and a damaged file can harm nobody.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/tensor.h"

namespace msvis {

struct PackEntry;
struct PackChunk;

/// The opened pack of one rank with its index. Safe to use from several threads.
class TensorPack {
 public:
  /// Reads and checks the header, the index and its checksum; payloads are not touched. Throws TensorError naming `file`: missing,
  /// unreadable, damaged (cut off, changed, no pack at all), too_large, refused (a version that is not known).
  explicit TensorPack(const std::filesystem::path& file);
  ~TensorPack();
  TensorPack(const TensorPack&) = delete;
  TensorPack& operator=(const TensorPack&) = delete;

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] std::uint64_t file_bytes() const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::string_view name(std::size_t index) const;
  [[nodiscard]] const PackEntry& entry(std::size_t index) const;
  [[nodiscard]] std::span<const std::uint64_t> shape(const PackEntry& entry) const;
  [[nodiscard]] std::span<const PackChunk> chunks(const PackEntry& entry) const;
  /// Position of a name, if it was packed.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view wanted) const;
  /// Copies bytes of the file. Throws TensorError (damaged, unreadable).
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// `out.size()` bytes of a payload, uncompressed, from byte `first` of it on; `buffer` holds the last chunk between calls. Throws
  /// TensorError (damaged: a chunk whose checksum is wrong, ...).
  struct ChunkBuffer {
    PooledBuffer plain;
    PooledBuffer packed;
    std::optional<std::uint64_t> number;
    bool drop_cache = false;  ///< give the page cache of chunks back once they were read
  };
  void read_payload(const PackEntry& entry, std::uint64_t first, std::span<std::byte> out, ChunkBuffer& buffer, BufferPool& pool) const;
  /// CRC-32 of a whole payload, uncompressed, to be compared with the one of the index. Throws as read_payload().
  [[nodiscard]] std::uint32_t payload_crc(const PackEntry& entry, BufferPool& pool) const;

 private:
  friend class TensorFile;
  struct Content;
  [[noreturn]] void fail(TensorFault fault, const std::string& message) const;
  void read_header(std::uint64_t size);
  void read_index();
  void check_entries() const;  ///< so that whoever uses an entry need not check again
  void read_chunk(const PackEntry& entry, const PackChunk& chunk, std::uint64_t number, std::span<std::byte> out, ChunkBuffer& buffer,
                  BufferPool& pool) const;

  std::filesystem::path file_;
  std::unique_ptr<Content> content_;
};

/// Where the tensor files of a rank are: the directory `dump_tensor_data` if there is one (also when there is a pack beside it), else the
/// pack. Opening a file of a pack that can't be used throws what is wrong with the pack.
class TensorStore {
 public:
  TensorStore() = default;
  /// Looks at the directory of dump.json. Does not throw for a broken pack; see fault().
  explicit TensorStore(const std::filesystem::path& rank_directory);

  /// As resolve_data_name(): where a file is, for messages. Throws TensorError (bad_name).
  [[nodiscard]] std::filesystem::path resolve(std::string_view data_name, Compat compat) const;
  /// Opens the file that resolve() gave. Throws TensorError.
  [[nodiscard]] TensorFile open(const std::filesystem::path& file, const ReadHints& hints) const;
  /// Why the pack can't be used, if there is one that can't.
  [[nodiscard]] const std::optional<TensorError>& fault() const { return fault_; }

 private:
  std::filesystem::path directory_;
  std::shared_ptr<const TensorPack> pack_;
  std::optional<TensorError> fault_;
};

/// The stores of a run by rank directory, each opened once, when it is first asked for. Thread-safe.
class TensorStores {
 public:
  std::shared_ptr<const TensorStore> of(const std::filesystem::path& rank_directory);
  /// What is wrong with packs that were asked for, by rank directory.
  [[nodiscard]] std::vector<TensorError> faults() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::filesystem::path, std::shared_ptr<const TensorStore>> stores_;
};

}  // namespace msvis
