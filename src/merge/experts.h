// Joining the experts of expert-parallel ranks (merge rules, 13.5).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "merge/tally.h"
#include "merge/tree.h"

namespace msvis {

/// The ranks of an expert-parallel group (ascending in their coordinate; `own` is the place of the one whose tree is the result). Expert i
/// of place e gets the number e * (experts of a rank) + i in the names of all its modules, and the experts of the other ranks are hung
/// beside the own ones, in the order of their numbers; their APIs get `_rank{r}`. Entries of the modules that hold the experts (tokens,
/// grouped weights) are combined over the group. Everything else stays as the own rank has it.
void join_experts(Forest& forest, const std::vector<std::uint32_t>& group, std::size_t own, MergeTally& tally);

/// Whether the entries of a module hold what all experts of a rank hold: its path ends in `experts`.
bool holds_experts(std::string_view name);

}  // namespace msvis
