#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "msvis/tensor.h"

namespace msvis {
namespace {

constexpr std::size_t smallest_buffer = 4096;
constexpr std::size_t huge_page = std::size_t{2} << 20;
// A request may take an idle buffer that is this many times larger; beyond that large buffers would be spent on small files.
constexpr std::uint64_t waste_factor = 16;
constexpr std::uint64_t small_enough_for_anyone = std::uint64_t{512} << 10;

/// Rounds up so that buffers of similar sizes can stand in for each other: to a power of two, above 1 MiB to an eighth of one.
std::uint64_t rounded_capacity(std::uint64_t bytes) {
  if (bytes <= smallest_buffer) {
    return smallest_buffer;
  }
  const std::uint64_t power = std::bit_floor(bytes - 1) * 2;
  if (power <= std::uint64_t{1} << 20) {
    return power;
  }
  const std::uint64_t step = std::max<std::uint64_t>(power / 16, huge_page);
  return (bytes + step - 1) / step * step;
}

std::byte* allocate(std::uint64_t capacity) {
  const bool large = capacity >= 2 * huge_page;
  void* raw = std::aligned_alloc(large ? huge_page : BufferPool::alignment, capacity);
  if (raw == nullptr) {
    throw TensorError(TensorFault::too_large, "no memory for a buffer of " + std::to_string(capacity) + " bytes; use fewer threads");
  }
  if (large) {
    (void)::madvise(raw, capacity, MADV_HUGEPAGE);  // only a wish: the kernel may not have it
  }
  return static_cast<std::byte*>(raw);
}

}  // namespace

struct BufferPoolState {
  struct Idle {
    std::byte* data;
    std::size_t capacity;
  };
  BufferPoolState(std::uint64_t idle_bytes_limit, std::size_t idle_buffers_limit)
      : max_idle_bytes(idle_bytes_limit), max_idle_buffers(idle_buffers_limit) {
    idle.reserve(max_idle_buffers + 1);  // giving back must not throw
  }
  BufferPoolState(const BufferPoolState&) = delete;
  BufferPoolState& operator=(const BufferPoolState&) = delete;
  ~BufferPoolState() { free_all(); }

  void free_all() {
    for (const Idle& buffer : idle) {
      std::free(buffer.data);
    }
    idle.clear();
    idle_bytes = 0;
  }

  void give_back(std::byte* data, std::size_t capacity) noexcept {
    const std::lock_guard lock(mutex);
    bytes_in_use -= capacity;
    idle.push_back({data, capacity});
    idle_bytes += capacity;
    while (!idle.empty() && (idle.size() > max_idle_buffers || idle_bytes > max_idle_bytes)) {
      auto victim = std::min_element(idle.begin(), idle.end(), [](const Idle& a, const Idle& b) { return a.capacity < b.capacity; });
      if (idle_bytes - victim->capacity > max_idle_bytes) {  // one buffer alone breaks the limit: no small one needs to go for it
        victim = std::max_element(idle.begin(), idle.end(), [](const Idle& a, const Idle& b) { return a.capacity < b.capacity; });
      }
      std::free(victim->data);
      idle_bytes -= victim->capacity;
      *victim = idle.back();
      idle.pop_back();
    }
  }

  mutable std::mutex mutex;
  std::vector<Idle> idle;
  std::uint64_t max_idle_bytes;
  std::size_t max_idle_buffers;
  std::uint64_t idle_bytes = 0;
  std::uint64_t bytes_in_use = 0;
};

PooledBuffer::PooledBuffer(PooledBuffer&& other) noexcept
    : pool_(std::move(other.pool_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

PooledBuffer& PooledBuffer::operator=(PooledBuffer&& other) noexcept {
  if (this != &other) {
    PooledBuffer old(std::move(*this));
    pool_ = std::move(other.pool_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
  }
  return *this;
}

PooledBuffer::~PooledBuffer() {
  if (data_ != nullptr) {
    pool_->give_back(data_, capacity_);
  }
}

BufferPool::BufferPool(std::uint64_t max_idle_bytes, std::size_t max_idle_buffers)
    : state_(std::make_shared<BufferPoolState>(max_idle_bytes, max_idle_buffers)) {}

BufferPool::~BufferPool() = default;

PooledBuffer BufferPool::acquire(std::uint64_t bytes) {
  if (bytes > (std::uint64_t{1} << 62)) {
    throw TensorError(TensorFault::too_large, "a buffer of " + std::to_string(bytes) + " bytes is asked for");
  }
  PooledBuffer buffer;
  const std::uint64_t largest_useful = std::max(small_enough_for_anyone, bytes * waste_factor);
  {
    const std::lock_guard lock(state_->mutex);
    auto best = state_->idle.end();
    for (auto candidate = state_->idle.begin(); candidate != state_->idle.end(); ++candidate) {
      if (candidate->capacity >= bytes && candidate->capacity <= largest_useful &&
          (best == state_->idle.end() || candidate->capacity < best->capacity)) {
        best = candidate;
      }
    }
    if (best != state_->idle.end()) {
      buffer.data_ = best->data;
      buffer.capacity_ = best->capacity;
      state_->idle_bytes -= best->capacity;
      *best = state_->idle.back();
      state_->idle.pop_back();
      state_->bytes_in_use += buffer.capacity_;
    }
  }
  if (buffer.data_ == nullptr) {
    const std::uint64_t capacity = rounded_capacity(bytes);
    buffer.data_ = allocate(capacity);
    buffer.capacity_ = capacity;
    const std::lock_guard lock(state_->mutex);
    state_->bytes_in_use += capacity;
  }
  buffer.size_ = bytes;
  buffer.pool_ = state_;
  return buffer;
}

void BufferPool::trim() {
  const std::lock_guard lock(state_->mutex);
  state_->free_all();
}

std::uint64_t BufferPool::idle_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->idle_bytes;
}

std::uint64_t BufferPool::bytes_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes_in_use;
}

BufferPool& BufferPool::shared() {
  static BufferPool pool;
  return pool;
}

}  // namespace msvis
