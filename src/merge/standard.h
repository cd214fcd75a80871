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

/// Folds the tensor- and context-parallel ranks of one stage of a replica; with expert parallelism the experts of other replicas that share
/// them as well. Ranks are asked for one after the other and given back as soon as they are folded. Returns a packed FoldedStage.
std::string fold_stage(const RankGrid& grid, std::int64_t replica, std::int64_t stage, const RankSource& source);

/// Where the folded stages come from.
using StageSource = std::function<std::string(std::int64_t stage)>;

/// Joins the stages of a replica in `forest`. Returns the index of the rank whose tree is the result.
std::uint32_t merge_standard(Forest& forest, const RankGrid& grid, std::int64_t chunks, const StageSource& source, MergeTally& tally,
                             std::vector<std::string>& warnings);

}  // namespace msvis
