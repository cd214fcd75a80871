// A hash map from names to small values.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "msvis/error.h"

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

/// Keeps views of the names: the texts must outlive the map. At most 2^32 - 2 names (Error limit). The table holds a part of the hash
/// beside the number of the name, so that other names are passed over, and the table grown, without a look at their text.
template <typename Value>
class NameMap {
 public:
  /// Forgets everything and makes room for `count` names.
  void reset(std::size_t count) {
    entries_.clear();
    entries_.reserve(count);
    table_.assign(std::bit_ceil(count + count / 2 + 8), Slot{});
  }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

  /// The value of a name, or nullptr.
  [[nodiscard]] const Value* find(std::string_view name) const {
    const std::uint32_t number = number_of(name);
    return number != none ? &entries_[number].second : nullptr;
  }

  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  /// How many names were added before this one, or `none`.
  [[nodiscard]] std::uint32_t number_of(std::string_view name) const {
    return entries_.empty() ? none : table_[place_of(name, short_hash(name))].number - 1;
  }

  /// Adds a name if it is new. Returns its value's place (until the next insert) and whether it was added.
  std::pair<Value*, bool> insert(std::string_view name, Value value) { return insert(name, short_hash(name), value); }

  /// The hash for a later insert, whose place in the table is fetched meanwhile.
  [[nodiscard]] std::uint32_t prepare(std::string_view name) const {
    const std::uint32_t hash = short_hash(name);
    if (!table_.empty()) {
      __builtin_prefetch(&table_[hash & (table_.size() - 1)]);
    }
    return hash;
  }

  /// The same with the hash that prepare() gave.
  std::pair<Value*, bool> insert(std::string_view name, std::uint32_t hash, Value value) {
    if ((entries_.size() + 1) * 4 > table_.size() * 3) {
      grow();
    }
    Slot& slot = table_[place_of(name, hash)];
    if (slot.number != 0) {
      return {&entries_[slot.number - 1].second, false};
    }
    if (entries_.size() >= none - 1) {
      throw Error(ErrorCategory::limit, "there are more than 4294967294 names");
    }
    entries_.emplace_back(name, value);
    slot = {hash, static_cast<std::uint32_t>(entries_.size())};
    return {&entries_.back().second, true};
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t number = 0;  ///< of the entry, counted from 1; 0: free
  };
  [[nodiscard]] std::uint32_t short_hash(std::string_view name) const { return static_cast<std::uint32_t>(hash_name(name, seed_)); }

  /// Place of the slot of a name, or of the free slot where it would go.
  [[nodiscard]] std::size_t place_of(std::string_view name, std::uint32_t hash) const {
    const std::size_t mask = table_.size() - 1;
    std::size_t at = hash & mask;
    while (table_[at].number != 0 && (table_[at].hash != hash || entries_[table_[at].number - 1].first != name)) {
      at = (at + 1) & mask;
    }
    return at;
  }

  void grow() {
    std::vector<Slot> old(std::bit_ceil(table_.size() * 2 + 8));
    old.swap(table_);
    const std::size_t mask = table_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.number != 0) {
        std::size_t at = slot.hash & mask;
        while (table_[at].number != 0) {
          at = (at + 1) & mask;
        }
        table_[at] = slot;
      }
    }
  }

  std::vector<Slot> table_;
  std::vector<std::pair<std::string_view, Value>> entries_;
  std::uint64_t seed_ = name_hash_seed();
};

}  // namespace msvis
