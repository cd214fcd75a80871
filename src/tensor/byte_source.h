// The bytes of one file, in memory or read piece by piece. Every access is checked against the size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "msvis/tensor.h"

namespace msvis {

/// Reads little-endian numbers of a header whose size was checked by the caller.
template <typename T>
[[nodiscard]] T load_little(std::span<const std::byte> bytes, std::size_t at) {
  T value = 0;
  for (std::size_t k = 0; k < sizeof(T); ++k) {
    value = static_cast<T>(value | (static_cast<T>(std::to_integer<std::uint8_t>(bytes[at + k])) << (8 * k)));
  }
  return value;
}

/// a × b and a + b; false on overflow.
[[nodiscard]] inline bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}
[[nodiscard]] inline bool checked_add(std::uint64_t a, std::uint64_t b, std::uint64_t& out) {
  return !__builtin_add_overflow(a, b, &out);
}

/// Text of a file for a message: one line, printable ASCII, shortened.
std::string one_line(std::string_view text, std::size_t max_length = 80);

// What is said of a file that is the same whether it lies in a directory or in a pack.
inline constexpr const char* no_such_file = "there is no such file";
inline constexpr const char* no_regular_file = "is not a regular file";
std::string text_of_size_limit(std::uint64_t size, std::uint64_t limit);

/// Reads `out.size()` bytes at `offset` with pread. Throws TensorError naming `name` (damaged if the file is shorter, unreadable).
void read_exactly(int descriptor, std::uint64_t offset, std::span<std::byte> out, const std::filesystem::path& name);

class ByteSource {
 public:
  /// Opens a regular file; one of at most TensorLimits::whole_file_bytes is read and closed at once. Throws TensorError (missing,
  /// unreadable, too_large).
  ByteSource(const std::filesystem::path& file, BufferPool& pool, std::uint64_t max_buffer_bytes, std::uint64_t max_file_bytes,
             bool drop_cache);
  /// A file that is in memory; the bytes must outlive this object.
  ByteSource(std::span<const std::byte> bytes, const std::filesystem::path& name, BufferPool& pool, std::uint64_t max_buffer_bytes);
  /// A part of an open file, which must stay open as long as this object lives; it is taken for a file of its own. A small one is read at
  /// once.
  ByteSource(int descriptor, std::uint64_t offset, std::uint64_t size, const std::filesystem::path& name, BufferPool& pool,
             std::uint64_t max_buffer_bytes, bool drop_cache);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::filesystem::path& name() const { return name_; }
  [[nodiscard]] BufferPool& pool() const { return pool_; }
  [[nodiscard]] bool in_memory() const { return descriptor_ < 0; }

  /// Copies out.size() bytes from `offset`. Throws TensorError: damaged if the file is (or has become) shorter, unreadable.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// The same bytes in place if the file is in memory, else in `scratch`.
  std::span<const std::byte> view(std::uint64_t offset, std::uint64_t size, PooledBuffer& scratch) const;
  /// A buffer of the pool, within the limit of this reader. Throws TensorError (too_large).
  [[nodiscard]] PooledBuffer acquire(std::uint64_t bytes) const;
  /// The buffer that holds a file which was read wholly; empty if there is none.
  PooledBuffer take_buffer() { return std::move(whole_); }

  [[noreturn]] void fail(TensorFault fault, const std::string& message) const;
  [[noreturn]] void fail(TensorFault fault, const std::string& message, std::uint64_t offset) const;

 private:
  void require(std::uint64_t offset, std::uint64_t size) const;
  void read_small_file();
  void close_file();

  std::filesystem::path name_;
  BufferPool& pool_;
  std::uint64_t max_buffer_bytes_;
  bool drop_cache_ = false;
  int descriptor_ = -1;
  bool owns_descriptor_ = true;
  std::uint64_t begin_ = 0;  ///< of a part within its file
  std::uint64_t size_ = 0;
  std::span<const std::byte> memory_;
  PooledBuffer whole_;
};

}  // namespace msvis
