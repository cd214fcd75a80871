// A hash map from names to small values.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

namespace msvis {

/// Hash of a name: folded 64 x 64 -> 128 bit products of eight bytes at a time. The seed keeps a hostile dump from choosing names that
/// collide; it never shows in a result, since maps are only asked, not walked.
[[nodiscard]] inline std::uint64_t hash_name(std::string_view name, std::uint64_t seed) {
  __extension__ using Product = unsigned __int128;
  const auto fold = [](std::uint64_t a, std::uint64_t b) {
    const Product product = static_cast<Product>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  constexpr std::uint64_t odd1 = 0x9E3779B97F4A7C15;
  constexpr std::uint64_t odd2 = 0xD1B54A32D192ED03;
  const char* at = name.data();
  std::size_t left = name.size();
  std::uint64_t state = seed ^ (static_cast<std::uint64_t>(left) * odd1);
  while (left >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    state = fold(state ^ word, odd2 ^ seed);
    at += 8;
    left -= 8;
  }
  std::uint64_t word = 0;
  if (left != 0) {
    std::memcpy(&word, at, left);
  }
  return fold(state ^ word ^ odd1, odd2 ^ (seed >> 1));
}

/// The seed of this process.
[[nodiscard]] inline std::uint64_t name_hash_seed() {
  static const std::uint64_t seed = [] {
    std::random_device source;
    return (std::uint64_t{source()} << 32 | source()) | 1U;
  }();
  return seed;
}

/// Open addressing with linear probing. Keeps views of the names: the texts must outlive the map. Value must be cheap to copy.
template <typename Value>
class NameMap {
 public:
  NameMap() = default;

  /// Forgets everything and makes room for `count` names.
  void reset(std::size_t count) {
    const std::size_t slots = std::bit_ceil(count + count / 2 + 8);
    slots_.assign(slots, Slot{});
    used_ = 0;
  }
  [[nodiscard]] std::size_t size() const { return used_; }

  /// The value of a name, or nullptr.
  [[nodiscard]] const Value* find(std::string_view name) const {
    if (used_ == 0) {
      return nullptr;
    }
    const std::uint64_t hash = hash_name(name, seed_);
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (!slot.taken) {
        return nullptr;
      }
      if (slot.is(name, hash)) {
        return &slot.value;
      }
    }
  }

  /// Adds a name if it is new. Returns its value's place and whether it was added.
  std::pair<Value*, bool> insert(std::string_view name, Value value) {
    if ((used_ + 1) * 3 > slots_.size() * 2) {
      grow();
    }
    const std::uint64_t hash = hash_name(name, seed_);
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      Slot& slot = slots_[at];
      if (!slot.taken) {
        slot = Slot{name, static_cast<std::uint32_t>(hash >> 32), true, value};
        ++used_;
        return {&slot.value, true};
      }
      if (slot.is(name, hash)) {
        return {&slot.value, false};
      }
    }
  }

 private:
  struct Slot {
    std::string_view name;
    std::uint32_t hash_top = 0;
    bool taken = false;
    Value value{};

    [[nodiscard]] bool is(std::string_view other, std::uint64_t hash) const {
      return hash_top == static_cast<std::uint32_t>(hash >> 32) && name == other;
    }
  };
  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }
  void grow() {
    std::vector<Slot> old(std::bit_ceil(slots_.size() * 2 + 8));
    old.swap(slots_);
    used_ = 0;
    for (const Slot& slot : old) {
      if (slot.taken) {
        insert(slot.name, slot.value);
      }
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  std::uint64_t seed_ = name_hash_seed();
};

}  // namespace msvis
