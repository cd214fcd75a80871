// Joining the stages of a pipeline, as it is right (merge rules, 13.7).
#pragma once

#include <cstdint>
#include <span>

#include "merge/tally.h"
#include "merge/tree.h"

namespace msvis {

/// Joins the trees of later stages with that of the first one. Layers get their number in the whole model: by the counts of layers on the
/// stages before (with `chunks` > 1 by chunk, then by stage), or keep it if the dump numbers them so already. Modules around the layers are
/// joined by name: all their children stay, inputs are those of the first stage and outputs those of the last one (backward the other way
/// round). A name that several stages have for something else is kept for each of them, with `_rank{r}`, unless all data are equal. APIs of
/// later stages get `_rank{r}`. Warns where a stage does not receive what the one before sends, and where weights that two stages share
/// differ. API collections of the root are left alone.
void join_stages(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, std::int64_t chunks, MergeTally& tally);

}  // namespace msvis
