// Merging as it is right (merge rules, section 13).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "merge/parameters.h"
#include "merge/tally.h"
#include "merge/tree.h"

namespace msvis {

/// Adds a rank to the forest and returns its index there. Throws Error.
using RankSource = std::function<std::uint32_t(Forest& forest, std::int64_t rank, KeepPayload keep)>;

/// Folds the ranks of one data-parallel replica into one tree: first the tensor- and context-parallel ranks of each stage, then the stages.
/// Ranks are asked for one after the other and given back as soon as they are folded, so that only the first of each stage stays. Returns
/// the index of the rank whose tree is the result.
std::uint32_t merge_standard(Forest& forest, const RankGrid& grid, std::int64_t replica, std::int64_t chunks, const RankSource& source,
                             MergeTally& tally, std::vector<std::string>& warnings);

}  // namespace msvis
