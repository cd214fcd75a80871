#include "dump/memory_block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

namespace msvis {
namespace {

constexpr std::size_t mapping_from = std::size_t{512} << 10;
constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t mapping_size(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) {
    throw std::bad_alloc();
  }
  return (bytes + huge_page - 1) / huge_page * huge_page;
}

void* map_pages(std::size_t bytes) {
  void* pages = mmap(nullptr, mapping_size(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    throw std::bad_alloc();
  }
  return pages;
}

}  // namespace

void MemoryBlock::release() {
  if (mapped_) {
    munmap(data_, mapping_size(size_));
  } else {
    std::free(data_);
  }
  data_ = nullptr;
  size_ = 0;
  mapped_ = false;
}

void MemoryBlock::resize(std::size_t bytes) {
  if (mapped_) {
    // A mapping stays one, however small it becomes: an address that moves to the heap would cost a copy for nothing.
    if (mapping_size(bytes) == mapping_size(size_)) {
      size_ = bytes;
      return;
    }
    void* moved = mremap(data_, mapping_size(size_), std::max(mapping_size(bytes), huge_page), MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) {
      throw std::bad_alloc();
    }
    data_ = moved;
    size_ = std::max<std::size_t>(bytes, 1);
  } else if (bytes >= mapping_from) {
    void* pages = map_pages(bytes);
    if (size_ != 0) {
      std::memcpy(pages, data_, size_);
    }
    std::free(data_);
    data_ = pages;
    size_ = bytes;
    mapped_ = true;
  } else {
    void* moved = std::realloc(data_, std::max<std::size_t>(bytes, 1));
    if (moved == nullptr) {
      throw std::bad_alloc();
    }
    data_ = moved;
    size_ = bytes;
    return;
  }
  if (mapped_) {
    // Only advice: where it is refused, ordinary pages do.
    (void)madvise(data_, mapping_size(size_), MADV_HUGEPAGE);
  }
}

}  // namespace msvis
