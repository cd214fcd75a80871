#include "dump/memory_block.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>

namespace msvis {
namespace {

constexpr std::size_t mapping_from = std::size_t{512} << 10;
constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t mapping_size(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) {
    throw std::bad_alloc();
  }
  return std::max((bytes + huge_page - 1) / huge_page, std::size_t{1}) * huge_page;
}

/// Only advice: where it is refused, ordinary pages do.
void ask_for_huge_pages(void* pages, std::size_t bytes) {
  (void)madvise(pages, bytes, MADV_HUGEPAGE);
}

struct Mapping {
  void* pages = nullptr;
  std::size_t bytes = 0;
};

/// Changes the size of a mapping, whose address may change; {} if there is no memory.
Mapping resized(Mapping mapping, std::size_t bytes) {
  if (mapping.bytes == bytes) {
    return mapping;
  }
  void* moved = mremap(mapping.pages, mapping.bytes, bytes, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) {
    return {};
  }
  if (bytes > mapping.bytes) {
    ask_for_huge_pages(moved, bytes);
  }
  return {moved, bytes};
}

/// Mappings that were released, for the next dump: their pages are there already.
class Spares {
 public:
  /// A mapping of this size, made from the spare that fits best; {} if there is none.
  Mapping take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Mapping* best = nullptr;
    for (Mapping& spare : spares_) {
      if (spare.pages != nullptr && (best == nullptr || fits_better(spare.bytes, best->bytes, bytes))) {
        best = &spare;
      }
    }
    if (best == nullptr) {
      return {};
    }
    const Mapping spare = *best;
    *best = {};
    kept_ -= spare.bytes;
    const Mapping result = resized(spare, bytes);
    if (result.pages == nullptr) {
      munmap(spare.pages, spare.bytes);
    }
    return result;
  }

  void give(Mapping mapping) {
    const std::lock_guard lock(mutex_);
    if (kept_ + mapping.bytes <= most_bytes) {
      for (Mapping& spare : spares_) {
        if (spare.pages == nullptr) {
          spare = mapping;
          kept_ += mapping.bytes;
          return;
        }
      }
    }
    munmap(mapping.pages, mapping.bytes);
  }

 private:
  static constexpr std::size_t most_bytes = std::size_t{1} << 30;

  /// The smallest that is large enough, else the largest.
  static bool fits_better(std::size_t a, std::size_t b, std::size_t wanted) {
    if ((a >= wanted) != (b >= wanted)) {
      return a >= wanted;
    }
    return a >= wanted ? a < b : a > b;
  }

  std::mutex mutex_;
  std::array<Mapping, 16> spares_{};
  std::size_t kept_ = 0;
};

Spares& spares() {
  static Spares all;  // never destroyed before the blocks of a static object: they would be given back to it
  return all;
}

Mapping new_mapping(std::size_t bytes) {
  Mapping mapping = spares().take(bytes);
  if (mapping.pages == nullptr) {
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
      throw std::bad_alloc();
    }
    ask_for_huge_pages(pages, bytes);
    mapping = {pages, bytes};
  }
  return mapping;
}

}  // namespace

void MemoryBlock::release() {
  if (mapped_) {
    spares().give({data_, mapping_size(size_)});
  } else {
    std::free(data_);
  }
  data_ = nullptr;
  size_ = 0;
  mapped_ = false;
}

void MemoryBlock::resize(std::size_t bytes) {
  if (mapped_) {
    // A mapping stays one, however small it becomes: moving to the heap would cost a copy for nothing.
    const Mapping moved = resized({data_, mapping_size(size_)}, mapping_size(bytes));
    if (moved.pages == nullptr) {
      throw std::bad_alloc();
    }
    data_ = moved.pages;
  } else if (bytes >= mapping_from) {
    const Mapping mapping = new_mapping(mapping_size(bytes));
    if (size_ != 0) {
      std::memcpy(mapping.pages, data_, size_);
    }
    std::free(data_);
    data_ = mapping.pages;
    mapped_ = true;
  } else {
    void* moved = std::realloc(data_, std::max<std::size_t>(bytes, 1));
    if (moved == nullptr) {
      throw std::bad_alloc();
    }
    data_ = moved;
  }
  size_ = bytes;
}

}  // namespace msvis
