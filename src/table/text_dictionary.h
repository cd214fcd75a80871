// The dictionaries of the parameter table: every distinct text once, in ascending order of bytes, numbered from 0.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "table/metrics_columns.h"

namespace msvis {

/// Takes any number of texts in bounded memory: what does not fit is sorted into temporary files, which have no name and go with the
/// object. Every dictionary holds the empty text as number 0. First add(), then finish(), then the rest. One thread at a time. All
/// functions throw Error (io) naming the directory, finish() also Error (limit) if there are more than 2^32 texts of a kind.
class TextDictionary {
 public:
  static constexpr std::size_t usual_memory = std::size_t{128} << 20;

  /// Temporary files go to `directory`.
  explicit TextDictionary(std::filesystem::path directory, std::size_t memory = usual_memory);
  ~TextDictionary();
  TextDictionary(const TextDictionary&) = delete;
  TextDictionary& operator=(const TextDictionary&) = delete;

  void add(TextKind kind, std::string_view text);
  /// No more texts come.
  void finish();

  [[nodiscard]] std::uint64_t size(TextKind kind) const;
  /// The text of a number. The view is good as long as the dictionary.
  [[nodiscard]] std::string_view text(TextKind kind, std::uint64_t number) const;
  /// The number of a text that was added; throws Error (internal) for others.
  [[nodiscard]] std::uint32_t number(TextKind kind, std::string_view text);

 private:
  class Scratch;
  class RunReader;
  struct Mapped;
  using Entry = std::pair<TextKind, std::string_view>;
  /// What is in memory, sorted.
  [[nodiscard]] std::vector<Entry> sorted_entries() const;
  void spill();
  void forget_texts();

  std::filesystem::path directory_;
  std::size_t memory_;
  std::array<std::unordered_set<std::string>, text_kinds> texts_;
  std::size_t bytes_ = 0;
  std::vector<std::unique_ptr<Scratch>> runs_;                                    ///< sorted pieces
  std::unique_ptr<Mapped> mapped_;                                                ///< after finish()
  std::array<std::unordered_map<std::string, std::uint32_t>, text_kinds> known_;  ///< numbers asked for lately
  std::size_t known_bytes_ = 0;
};

}  // namespace msvis
