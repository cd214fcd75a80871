// Numbers of micro-batches in the whole job, for sides with unlike numbers of data-parallel replicas (merge rules, 13.6).
#pragma once

#include <cstdint>
#include <span>

#include "merge/tree.h"

namespace msvis {

/// Call numbers of modules become those of the whole job: what replica d of `replicas` runs as its micro-batch m is micro-batch
/// m * replicas + d. A module that runs k times for each micro-batch keeps the order of these calls.
void number_micro_batches(Forest& forest, std::uint32_t rank, std::int64_t replica, std::int64_t replicas);

/// Takes away the modules of the root whose micro-batch (number of number_micro_batches) is none of replica d of `replicas`.
void keep_micro_batches(Forest& forest, std::uint32_t rank, std::int64_t replica, std::int64_t replicas);

/// Hangs what other replicas of the side have to the root of the first one, modules in the order of their micro-batches; names that are
/// taken get `_rank{r}`.
void join_replicas(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others);

}  // namespace msvis
