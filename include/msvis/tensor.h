// Tensor files of a dump (`.pt`, `.npy`) as typed views: dtype, shape, strides, bytes.
//
// Files are read with pread into reused, aligned buffers, never mapped: a file that shrinks while it is read is an error of that file,
// not the end of the process. Nothing in a file is executed; every size is checked before it is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/dtype.h"
#include "msvis/error.h"
#include "msvis/options.h"

namespace msvis {

/// Why a tensor could not be had.
enum class TensorFault : std::uint8_t {
  bad_name,           ///< the data_name of the dump is no plain file name
  missing,            ///< there is no such file
  unreadable,         ///< no permission, no regular file, or reading failed
  wrong_suffix,       ///< not the suffix that the reader rule wants
  too_large,          ///< above a documented limit
  damaged,            ///< the content contradicts itself or ends early
  refused,            ///< content that is never interpreted: foreign globals or opcodes, encryption, big-endian `.pt`
  unsupported_dtype,  ///< well formed, but of an element type that is not read; the message names it
  not_a_tensor,       ///< well formed, but a list, dict, number, sparse, quantised or meta tensor
};

/// Canonical text: `missing file`, `unsupported dtype`, ...
std::string_view tensor_fault_text(TensorFault fault);

/// What all functions below throw. category(): path (bad_name, missing, wrong_suffix), io (unreadable), limit (too_large), format (else).
class TensorError : public Error {
 public:
  TensorError(TensorFault fault, const std::string& message, std::filesystem::path file = {},
              std::optional<std::uint64_t> offset = std::nullopt);
  [[nodiscard]] TensorFault fault() const noexcept { return fault_; }

 private:
  TensorFault fault_;
};

// ---------------------------------------------------------------------------------------------------------------------- buffers

class BufferPool;

/// Bytes on loan from a pool; they go back when the object dies. Movable. Aligned to BufferPool::alignment.
class PooledBuffer {
 public:
  PooledBuffer() = default;
  PooledBuffer(PooledBuffer&& other) noexcept;
  PooledBuffer& operator=(PooledBuffer&& other) noexcept;
  PooledBuffer(const PooledBuffer&) = delete;
  PooledBuffer& operator=(const PooledBuffer&) = delete;
  ~PooledBuffer();

  [[nodiscard]] std::byte* data() const { return data_; }
  /// Bytes asked for.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Bytes there are (at least size()).
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class BufferPool;
  std::shared_ptr<struct BufferPoolState> pool_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Keeps returned buffers for the next tensor, because the first touch of fresh memory can cost more than the arithmetic. Thread-safe.
/// Buffers may outlive the pool.
class BufferPool {
 public:
  static constexpr std::size_t alignment = 64;

  /// Of returned buffers at most `max_idle_buffers` with together at most `max_idle_bytes` are kept, the largest first.
  explicit BufferPool(std::uint64_t max_idle_bytes = std::uint64_t{1} << 30, std::size_t max_idle_buffers = 64);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// At least `bytes` bytes of any content. Throws TensorError (too_large) if the memory can't be had.
  PooledBuffer acquire(std::uint64_t bytes);
  /// Frees all idle buffers.
  void trim();
  [[nodiscard]] std::uint64_t idle_bytes() const;
  [[nodiscard]] std::uint64_t bytes_in_use() const;

  /// The pool of the process, used where no other is given.
  static BufferPool& shared();

 private:
  std::shared_ptr<BufferPoolState> state_;
};

// ---------------------------------------------------------------------------------------------------------------------- reading

/// Which files are taken. The restricted rules are those of the reference: the suffix of the name must fit, and the content as well.
enum class ReaderRule : std::uint8_t {
  any,       ///< by the first bytes of the file, whatever its name
  pt_only,   ///< `.pt`
  npy_only,  ///< `.npy`
};

struct ReadHints {
  /// Element type that dump.json gives (`torch.bfloat16`, `BFloat16`); tells what a two-byte void `.npy` holds. May be empty.
  std::string_view dtype;
  ReaderRule rule = ReaderRule::any;
  /// reference: a file of 10 GiB or more is too large, and a pickle is refused as soon as it names a foreign global. standard: a foreign
  /// global is refused when it is to be used (it may stand where the class of a tensor is recorded).
  Compat compat = Compat::standard;
  /// Null: BufferPool::shared().
  BufferPool* pool = nullptr;
  /// Asks the kernel to forget the file afterwards, for comparisons beside a training job that needs the memory.
  bool drop_cache = false;
  /// Most bytes that one buffer may take; 0: half of the machine's memory.
  std::uint64_t max_buffer_bytes = 0;
};

/// Named limits of the readers. A file beyond them is TensorFault::too_large (or damaged, where no honest file can be beyond).
struct TensorLimits {
  static constexpr std::size_t max_dimensions = 64;
  static constexpr std::uint64_t reference_max_file_bytes = std::uint64_t{10} << 30;  ///< equal is too large
  static constexpr std::uint64_t whole_file_bytes = std::uint64_t{256} << 10;         ///< up to here one read takes the file
  static constexpr std::uint64_t max_zip_entries = 65'536;
  static constexpr std::uint64_t max_zip_directory_bytes = std::uint64_t{32} << 20;
  static constexpr std::uint64_t max_deflate_ratio = 1032;  ///< the format can't do better
  static constexpr std::uint64_t max_pickle_operations = 262'144;
  static constexpr std::uint64_t max_pickle_stack = 65'536;
  static constexpr std::uint64_t max_pickle_memo = 65'536;
  static constexpr std::uint64_t max_npy_header_bytes = std::uint64_t{1} << 20;
  static constexpr std::uint64_t max_expansion_bytes = std::uint64_t{1} << 30;  ///< growth of a view that repeats elements (stride 0)
};

/// One tensor in memory. Movable.
class Tensor {
 public:
  /// Element type of the bytes (bfloat16 and float8 are not widened here). Complex: real, imaginary. Booleans are bytes; 0 is false.
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<std::uint64_t>& shape() const { return shape_; }
  /// Elements, not bytes; never negative.
  [[nodiscard]] const std::vector<std::uint64_t>& strides() const { return strides_; }
  /// Shape without the dimensions of size 1.
  [[nodiscard]] std::vector<std::uint64_t> squeezed_shape() const;
  [[nodiscard]] std::uint64_t element_count() const { return element_count_; }
  /// element_count() × size of an element.
  [[nodiscard]] std::uint64_t byte_count() const { return element_count_ * dtype_size(dtype_); }
  /// First element of the view, in native byte order. Aligned to the size of a scalar. Null if there are no elements.
  [[nodiscard]] const std::byte* data() const { return data_; }
  /// Whether the elements stand in logical (row-major) order without gaps.
  [[nodiscard]] bool is_contiguous() const;
  /// All elements in logical order: in place if they stand so, else they are gathered once into a buffer of the pool, which the tensor
  /// keeps (data() and strides() change accordingly). Valid until the tensor dies or is assigned to.
  std::span<const std::byte> contiguous();

 private:
  friend class TensorFile;
  DType dtype_ = DType::float32;
  std::vector<std::uint64_t> shape_;
  std::vector<std::uint64_t> strides_;
  std::uint64_t element_count_ = 0;
  const std::byte* data_ = nullptr;
  PooledBuffer owner_;
  BufferPool* pool_ = nullptr;
};

class TensorPack;

/// The two kinds of files that tensors come in.
enum class TensorFormat : std::uint8_t { pt, npy };

/// A tensor file that was opened and understood, but whose elements may not have been read yet. Movable. One thread at a time.
class TensorFile {
 public:
  /// Opens a file and reads what describes the tensor (a small file wholly, in one read). Throws TensorError.
  static TensorFile open(const std::filesystem::path& file, const ReadHints& hints = {});
  /// The same for a file that is already in memory; `bytes` must outlive the result and all tensors made of it. `name` stands for the file
  /// in messages and for the suffix rule.
  static TensorFile open(std::span<const std::byte> bytes, const std::filesystem::path& name, const ReadHints& hints = {});
  /// The same for a file of a pack: same tensor, same errors as the file that was packed. The last component of `name` is looked up; the
  /// rest stands in messages.
  static TensorFile open(std::shared_ptr<const TensorPack> pack, const std::filesystem::path& name, const ReadHints& hints = {});

  TensorFile(TensorFile&&) noexcept;
  TensorFile& operator=(TensorFile&&) noexcept;
  ~TensorFile();

  [[nodiscard]] TensorFormat format() const;
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] const std::vector<std::uint64_t>& shape() const;
  [[nodiscard]] std::uint64_t element_count() const;
  [[nodiscard]] std::uint64_t byte_count() const;

  /// Whether read() works: the elements stand in logical order in the file, and uncompressed (or in the chunks of a pack). True for what
  /// dumpers write.
  [[nodiscard]] bool can_stream() const;
  /// `count` elements from `first` on in native byte order, for walking a large tensor with a small buffer. Valid until the next call.
  /// first + count must not exceed element_count(). Throws TensorError (the file became shorter, ...).
  std::span<const std::byte> read(std::uint64_t first, std::uint64_t count);

  /// All elements. Throws TensorError. The object is spent afterwards.
  Tensor load() &&;

 private:
  struct Impl;
  explicit TensorFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// TensorFile::open(...).load(). Safe to call from several threads.
Tensor read_tensor(const std::filesystem::path& file, const ReadHints& hints = {});
/// The same for a file in memory (see TensorFile::open).
Tensor read_tensor(std::span<const std::byte> bytes, const std::filesystem::path& name, const ReadHints& hints = {});

/// Path of a tensor file from the name that dump.json gives it. The name must be that of a file directly in `directory`: throws TensorError
/// (bad_name) for an empty name, `.`, `..`, or one with `/` or NUL; with Compat::reference also for more than 255 bytes or characters
/// outside `a-z A-Z 0-9 _ . : -`. Does not look at the file system.
std::filesystem::path resolve_data_name(const std::filesystem::path& directory, std::string_view data_name,
                                        Compat compat = Compat::standard);

/// Cost of reading and comparing a tensor file in bytes of a large one: its size plus what opening and parsing a file costs. For dividing
/// work.
[[nodiscard]] constexpr std::uint64_t tensor_read_cost(std::uint64_t file_bytes) {
  constexpr std::uint64_t cost_of_opening = std::uint64_t{64}
                                            << 10;  // measured: a small file takes as long as this many bytes of a large one
  return file_bytes + cost_of_opening;
}

}  // namespace msvis
