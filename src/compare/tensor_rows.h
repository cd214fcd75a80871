// Tensor mode: which files the rows of a comparison need, the division of that work, and what their outcomes make of the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compare/compare.h"
#include "compare/tensor_files.h"

namespace msvis {

/// One row with a file on either side.
struct TensorJob {
  std::uint32_t node = 0;  ///< index in Comparison::rows
  std::uint32_t row = 0;   ///< index in its rows
  TensorPair files;
  std::uint64_t start = 0;  ///< cost of all jobs before it
  std::uint64_t cost = 1;   ///< about the bytes to read, from what dump.json says of both tensors
};

struct TensorWork {
  std::vector<TensorJob> jobs;  ///< in row order
  std::uint64_t cost = 0;       ///< of all jobs
  TensorFileOptions options;
};

/// Lists the jobs of a comparison whose rows were paired in tensor mode. Rows that have no file on one side are filled at once.
TensorWork plan_tensor_work(Comparison& comparison, const Graph& target, const Graph& golden, Compat compat, bool drop_cache);

/// Sets the six cells, the info and the extra facts of a row.
void apply_outcome(Comparison& comparison, const TensorJob& job, const TensorOutcome& outcome);

/// A piece of the work that one thread does at once: a whole pair, or some of the blocks of a large one.
struct TensorTask {
  std::uint32_t job = 0;
  std::size_t first_block = 0;
  std::size_t block_count = 0;  ///< 0: the whole pair
  std::uint32_t share = 0;
};

/// How the work of an item is divided among processes: by cost, whatever they find. A node whose rows fall into several shares belongs to
/// none of them: its tensors are compared by the shares, and the node is finished afterwards.
struct TensorDivision {
  static constexpr std::uint32_t deferred = UINT32_MAX;
  std::vector<TensorTask> tasks;          ///< in job and block order
  std::vector<std::uint32_t> node_owner;  ///< by target node: share, or deferred
  std::vector<std::uint32_t> job_owner;   ///< by job, that of its node
};

/// `shares` >= 1; pairs larger than some ten megabytes are cut for `threads` > 1 or `shares` > 1. API collections go with their children.
TensorDivision divide_tensor_work(const TensorWork& work, const Comparison& comparison, const Graph& target, std::uint32_t shares,
                                  unsigned threads);

/// What a share found of one pair of a deferred node.
struct DeferredTensor {
  std::uint32_t job = 0;
  std::optional<TensorOutcome> outcome;  ///< if there is nothing to combine
  PairFacts facts;
  PairFinding finding;
};

std::string pack(const std::vector<DeferredTensor>& tensors);
std::vector<DeferredTensor> unpack_deferred_tensors(std::string_view bytes);

/// Where a line for each compared tensor goes (-tensor_log); may be called from several threads.
using TensorLog = std::function<void(const std::string& line)>;

struct TensorRunOptions {
  unsigned threads = 1;  ///< that read and compare
  TensorLog log;         ///< may be empty
};

/// Runs the tasks of one share. Applies the outcomes of the nodes that it owns and returns what it found of deferred ones, by job.
std::vector<DeferredTensor> run_tensor_work(const TensorWork& work, const TensorDivision& division, std::uint32_t share,
                                            Comparison& comparison, const Graph& target, const TensorRunOptions& options);

/// Applies the outcomes of deferred nodes from what all shares found (in the order of the shares). Throws Error (internal) if a piece is
/// missing.
void apply_deferred(const TensorWork& work, const TensorDivision& division, const std::vector<DeferredTensor>& found,
                    Comparison& comparison);

}  // namespace msvis
