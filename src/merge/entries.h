// Comparing and combining the entries of one node over several ranks, as the reference does (merge rules, 4.2 and 5).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "merge/tree.h"

namespace msvis {

/// Whether two statistics differ: Max and Min exactly, Mean and Norm with a tolerance of 1e-6.
bool statistics_differ(std::size_t statistic, const Number& main, const Number& other);

/// One entry that differs: its place in the main list, and the items of the ranks in order, the main one first. Places, not addresses:
/// the list of entries of the k-th node.
struct DifferentEntry {
  std::size_t place = 0;
  std::vector<TreeEntry> items;
};

/// The entries of `main` that differ over the lists `others` (or, without by_value, all that can take part).
std::vector<DifferentEntry> different_entries(const TextStore& texts, const std::vector<TreeEntry>& main,
                                              std::span<const std::vector<TreeEntry>* const> others, bool by_value);

/// The statistic of several items together, each a number.
Number combine_statistic(std::size_t statistic, std::span<const Number> values);

/// Combines the items of one entry into `main` and appends a line for each statistic. `key` names the entry in the lines.
void combine_entry(TreeEntry& main, const std::vector<TreeEntry>& items, std::string_view key, std::vector<std::string>& lines);

/// `[0, 1]`
std::string rank_list(std::span<const std::int64_t> ranks);
/// The first line of a node that is merged over these ranks.
std::string merged_over_line(std::span<const std::int64_t> ranks);

}  // namespace msvis
