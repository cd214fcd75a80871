// Tensor mode: which files the rows of a comparison need, the division of that work, and what their outcomes make of the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
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

/// Where a line for each compared tensor goes (-tensor_log); may be called from several threads.
using TensorLog = std::function<void(const std::string& line)>;

struct TensorRunOptions {
  unsigned threads = 1;  ///< that read and compare
  TensorLog log;         ///< may be empty
};

/// Runs all jobs and applies their outcomes.
void run_tensor_work(const TensorWork& work, Comparison& comparison, const Graph& target, const TensorRunOptions& options);

}  // namespace msvis
