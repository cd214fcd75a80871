// A growing block of raw memory for the text of a file and its cells.
#pragma once

#include <cstddef>
#include <utility>

namespace msvis {

/// Small blocks come from the heap; large ones are page mappings of their own, which grow without a copy, use huge pages where the
/// system offers them (a first touch of memory costs more than parsing it), and take no memory before they are written.
class MemoryBlock {
 public:
  MemoryBlock() = default;
  ~MemoryBlock() { release(); }
  MemoryBlock(MemoryBlock&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), mapped_(std::exchange(other.mapped_, false)) {}
  MemoryBlock& operator=(MemoryBlock&& other) noexcept {
    if (this != &other) {
      release();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
      mapped_ = std::exchange(other.mapped_, false);
    }
    return *this;
  }
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;

  [[nodiscard]] char* data() const { return static_cast<char*>(data_); }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Makes the block `bytes` large; the first min(size(), bytes) bytes are kept, the address may change. Throws std::bad_alloc.
  void resize(std::size_t bytes);

 private:
  void release();
  void* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
};

}  // namespace msvis
