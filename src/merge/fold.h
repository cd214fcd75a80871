// Folding of the ranks of one parallel group into its first one, as it is right (merge rules, 13.1 and 13.2).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "merge/classify.h"
#include "merge/tally.h"
#include "merge/tree.h"

namespace msvis {

/// Combines every entry of every node of the main rank with those of the same names of the other ranks, by what the entries are to each
/// other. Nodes that only another rank has are hung to the counterpart of their parent, with `_rank{r}` in their names; API collections of
/// the root are left alone.
void fold_ranks(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, ParallelAxis axis, MergeTally& tally);

/// The record of an entry for classify(). The views live as long as the forest's texts.
ShardRecord shard_record(const TextStore& texts, const TreeEntry& entry);

/// Whether an entry is a tensor: an argument that is a number, a text, a group or a size is none.
bool is_tensor(const TextStore& texts, const TreeEntry& entry);

}  // namespace msvis
