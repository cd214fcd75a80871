// From the tensors of the ranks of a group to the tensor of the whole, as a plan for reading: nothing is read or built here.
#pragma once

#include <vector>

#include "merge/classify.h"
#include "msvis/tensor_parts.h"

namespace msvis {

/// The whole of an entry that was classified. `of_ranks`: the tensor of each rank (in the order of the group); `of_reduction`: the outputs
/// of the reduction from which the classification has its statistics, else empty.
///
/// Replicated and diverged entries are the tensor of the first rank, and the other ranks vote (not if equal checksums in the dump did). A
/// partial sum is the output of its reduction, or is summed. Shards are joined along their dimension; if that is not known, or the entry
/// can't be merged, or a rank has no file, the plan is TensorParts::Kind::none with the reason.
TensorParts whole_of(const Classification& classification, std::vector<TensorParts> of_ranks, std::vector<TensorParts> of_reduction,
                     bool reduction_scatters);

}  // namespace msvis
