// What the ranks alone can't tell of an entry, from the shape that the other side has for it (merge rules, 13.1).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "merge/classify.h"
#include "msvis/graph.h"
#include "msvis/tensor_parts.h"

namespace msvis {

/// An entry whose split could not be told: kept until the other side's shape is known.
struct UnresolvedEntry {
  std::vector<ShardRecord> records;  ///< by rank; without texts
  std::vector<TensorParts> parts;    ///< by rank; empty without tensor files
  std::string finding;               ///< the sentence that calls it a diverged replica; empty if it was not taken for one
};

/// Decides the entries of `split` that are open, by the shapes of their partners in `whole`, a matched graph whose tensors are not split.
/// `ranks`: over how many ranks the tensors of `split` are split at most; entries that are equal on all of them are pieces if the whole is
/// that much larger. Returns how many entries were decided otherwise; findings that are none after all are added to `withdrawn`.
std::uint64_t resolve_by_shape(Graph& split, const Graph& whole, std::int64_t ranks, std::vector<std::string>& withdrawn);

}  // namespace msvis
