// What the command line asks for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace msvis {

/// `standard` does what is right; `reference` reproduces the Python tool's result, quirk for quirk (docs/deviations.md).
enum class Compat : std::uint8_t { standard, reference };

enum class LinkMode : std::uint8_t { standard, extended };

/// A selection such as `0,2-5`; empty selects everything.
struct Selection {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;  ///< inclusive
  [[nodiscard]] bool contains(std::int64_t number) const;
  [[nodiscard]] bool all() const { return ranges.empty(); }
};

/// How the ranks of one side were split (command line rules, merging).
struct MergeSide {
  std::int64_t rank_size = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t vpp = 1;  ///< model chunks of each pipeline stage
  std::int64_t cp = 1;
  std::int64_t ep = 1;
  std::string order = "tp-cp-ep-dp-pp";  ///< dimensions of the rank number, fastest first
  /// Data-parallel replicas; only of valid sizes.
  [[nodiscard]] std::int64_t dp() const { return rank_size / (tp * cp * pp); }
};

/// Folding of the ranks of one model replica into one graph.
struct MergeOptions {
  MergeSide target;
  MergeSide golden;  ///< unused in a build
  /// Whether the two sides of a comparison have unlike numbers of replicas, so that micro-batches are paired by their number in the job.
  [[nodiscard]] bool unlike_replicas() const { return target.dp() != golden.dp(); }
  bool as_json = false;  ///< a build writes the dumps of the merged graphs instead of a db file
};

enum class FailOn : std::uint8_t { never, warning, error };

/// Options of one run; the same on every MPI process.
struct RunOptions {
  std::filesystem::path target;
  std::filesystem::path golden;  ///< empty: build a single graph
  std::filesystem::path output;
  std::filesystem::path layer_mapping_file;  ///< empty with layer_mapping: mapping by equal names
  std::filesystem::path ignore_rules;        ///< overflow ignore rules; empty: the installed file
  std::filesystem::path summary_json;        ///< empty: none
  std::filesystem::path suggest_mapping;     ///< where suggested mapping rules go; empty: none are sought
  std::filesystem::path metrics;             ///< parameter table: name ends in .h5, .hdf5 or .csv; empty: none
  Selection steps;
  Selection ranks;
  std::optional<MergeOptions> merge;       ///< ranks are folded into one graph for each replica, which are matched fuzzily
  std::vector<std::string> command_line;   ///< argv as given
  double settle_seconds = 30;              ///< follow: a dump that has not changed for so long is complete
  double poll_seconds = 5;                 ///< follow: between two looks at the directories
  double idle_timeout_seconds = 0;         ///< follow: end when nothing has changed for so long; 0: never
  std::optional<std::int64_t> until_step;  ///< follow: end when this step is complete
  unsigned threads = 0;                    ///< worker threads per process; 0: cores of the node / processes on it, 1 with follow
  unsigned io_depth = 0;                   ///< pairs of tensor files in work at once in a process; 0: one for each thread
  int nice = 0;                            ///< priority of the process, 0 to 19
  Compat compat = Compat::standard;
  LinkMode links = LinkMode::standard;
  FailOn fail_on = FailOn::never;
  bool layer_mapping = false;
  bool overflow_check = false;
  bool fuzzy_match = false;
  bool tensor_log = false;
  bool progress_log = false;
  bool drop_cache = false;  ///< give the page cache of tensor files back
  bool resume = false;      ///< continue the newest unfinished result in `output`
  bool follow = false;      ///< beside a job that still writes

  [[nodiscard]] bool comparing() const { return !golden.empty(); }
};

}  // namespace msvis
