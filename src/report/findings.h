// What the comparison of one or many (step, rank) pairs found, in numbers: the stuff of the summary.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "merge/tally.h"
#include "msvis/compare.h"
#include "msvis/graph.h"

namespace msvis {

/// One target node with its verdict.
struct NodeFinding {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::uint32_t node_order = 0;
  std::string node;
  Precision precision = Precision::none;
  double badness = 0;     ///< NormRelativeErr (1 is 100 %) or 1 - Cosine of its worst parameter; 0 in other modes
  std::string parameter;  ///< key of the worst parameter
  std::string message;    ///< first message of the worst row; empty if there is none
  bool operator==(const NodeFinding&) const = default;
};

/// Counts over the target side. Mergeable: the result does not depend on the order of merging.
struct Findings {
  std::uint64_t target_nodes = 0;
  std::uint64_t golden_nodes = 0;
  std::uint64_t matched = 0;    ///< target nodes with a counterpart
  std::uint64_t unmatched = 0;  ///< target nodes without
  std::uint64_t golden_unmatched = 0;
  std::uint64_t passed = 0;  ///< target nodes by precision index, API collections aside
  std::uint64_t warned = 0;
  std::uint64_t failed = 0;
  std::uint64_t without_data = 0;  ///< matched, but nothing to compare
  std::uint64_t parameters_compared = 0;
  std::uint64_t parameters_target_only = 0;
  std::uint64_t parameters_golden_only = 0;
  std::uint64_t tensors_compared = 0;
  std::uint64_t tensor_bytes = 0;                        ///< bytes of the tensor files compared, both sides
  std::uint64_t structures = 0;                          ///< pairs compared by structure alone, where no parameter is expected
  double read_seconds = 0;                               ///< work of all processes: dumps and graphs
  double compare_seconds = 0;                            ///< matching, comparison, levels
  double encode_seconds = 0;                             ///< rows, with the wait for the writer
  std::map<std::string, std::uint64_t> tensors_skipped;  ///< by reason
  std::map<std::string, std::uint64_t> overflow_levels;  ///< target nodes by level (-oc)
  std::vector<NodeFinding> worst;                        ///< at most max_worst, worst first; only warnings and errors
  std::optional<NodeFinding> first_divergence;
  MergeTally merging;  ///< of both sides; nothing where no ranks are merged

  static constexpr std::size_t max_worst = 10;
  /// Whether a comparison compared anything at all.
  [[nodiscard]] bool compared_something() const { return parameters_compared > 0 || (structures > 0 && matched > 0); }
  void merge(const Findings& other);
};

void put(ByteWriter& out, const Findings& findings);
Findings get_findings(ByteReader& in);

/// Findings of one pair; `golden` and `comparison` are null in a build. Precision indices and overflow levels must be final.
/// Of a shared item only the target nodes of `owned` are counted (null: all), and the golden side `with_golden` only.
Findings find_in_pair(const Graph& target, const Graph* golden, const Comparison* comparison, std::int64_t step, std::int64_t rank,
                      const std::vector<bool>* owned = nullptr, bool with_golden = true);

/// Order of "worst": precision index, badness, then step, rank, node_order.
bool is_worse(const NodeFinding& left, const NodeFinding& right);

}  // namespace msvis
