// The sizes of a parallel split: their rules, and which ranks belong together.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/options.h"

namespace msvis {

/// A list of groups of rank numbers.
using RankGroups = std::vector<std::vector<std::int64_t>>;

/// How the ranks of a side are folded (merge rules, section 2).
enum class MergeStrategy : std::uint8_t { none, tp, pp, tp_pp, full };

/// The first row of the table that fits valid sizes. Context parallelism counts as its own dimension.
MergeStrategy merge_strategy(const MergeSide& side);

/// Checks the sizes of one side with each other. `what` names the side in messages (`target`). Throws Error (mismatch).
void check_merge_side(const MergeSide& side, std::string_view what);

/// The dimensions of rank numbers.
enum class Dimension : std::uint8_t { tp, cp, dp, pp };
inline constexpr std::size_t dimension_count = 4;
using Coordinates = std::array<std::int64_t, dimension_count>;  ///< by Dimension

/// Rank numbers as a mixed-radix number (merge rules, 3.1).
class RankGrid {
 public:
  /// Reads the order of a side. Throws Error (mismatch) naming what is wrong with it.
  RankGrid(const MergeSide& side, std::string_view what);

  [[nodiscard]] std::int64_t ranks() const { return ranks_; }
  [[nodiscard]] std::int64_t size(Dimension dimension) const { return sizes_[static_cast<std::size_t>(dimension)]; }
  [[nodiscard]] Coordinates coordinates(std::int64_t rank) const;
  [[nodiscard]] std::int64_t rank(const Coordinates& coordinates) const;
  /// The groups along one dimension: over the other dimensions, the fastest first; in a group ascending along the dimension.
  [[nodiscard]] RankGroups groups(Dimension dimension) const;
  /// Coordinate of a rank among the `ep` ranks that share the experts, which lie along the dp dimension: dp modulo ep if `ep` stands before
  /// `dp` in the order, else dp divided by the number of replicas of an expert.
  [[nodiscard]] std::int64_t expert_coordinate(std::int64_t rank) const;
  /// The ranks that differ from a rank in the expert coordinate only, ascending in it.
  [[nodiscard]] std::vector<std::int64_t> expert_group(std::int64_t rank) const;

 private:
  [[nodiscard]] std::int64_t dp_of_expert(std::int64_t dp, std::int64_t expert) const;

  std::array<std::int64_t, dimension_count> sizes_{};
  std::array<Dimension, dimension_count> order_{};
  std::int64_t ranks_ = 1;
  std::int64_t ep_ = 1;
  bool ep_first_ = true;
};

/// Whether the groups hold each of 0 ... ranks-1 exactly once.
bool is_partition(const RankGroups& groups, std::int64_t ranks);

}  // namespace msvis
