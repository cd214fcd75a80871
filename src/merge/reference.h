// Merging as the reference does it, quirk for quirk (merge rules, sections 4 to 9).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "merge/parameters.h"
#include "merge/tree.h"

namespace msvis {

/// Gathers the API collections of the root: each `Apis_Between_Modules.k` of the main rank becomes an `..._All_Ranks.j` with the
/// collections of index k of all ranks below it.
void gather_collections(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others);

/// Sorts what is in the `..._All_Ranks` collections by rank.
void sort_collections(Forest& forest, std::uint32_t main);

/// Folds the stages of a pipeline into the first one. `chunks`: the virtual pipeline size.
void merge_stages(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, std::int64_t chunks);

/// For nodes of later stages: the first rank of a tensor-parallel group, and the others.
using ShardMap = std::map<std::int64_t, std::vector<std::int64_t>>;

/// Folds the shards of a tensor-parallel group into the first one. `shards` is null in a run without pipeline.
void merge_shards(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, const ShardMap* shards);

/// Folds the ranks of one replica. `by_number` gives the index in Forest::ranks. Returns the index of the rank whose tree is the result.
std::uint32_t merge_reference(Forest& forest, const std::map<std::int64_t, std::uint32_t>& by_number, MergeStrategy strategy,
                              const RankGroups& tp_groups, const RankGroups& pp_groups, std::int64_t chunks);

}  // namespace msvis
