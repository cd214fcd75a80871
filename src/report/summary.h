// What a person reads at the end of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "match/suggest.h"
#include "msvis/visdb.h"
#include "report/findings.h"

namespace msvis {

struct RunSummary {
  bool compare = false;
  std::vector<ItemRecord> items;           ///< ascending by (step, rank)
  std::vector<std::string> dropped;        ///< steps and ranks that only one side has, one sentence each
  Findings findings;                       ///< of all items that are done
  std::optional<Suggestions> suggestions;  ///< of all items that are done, if they were sought
  std::vector<UnusedRule> unused_rules;    ///< of the mapping file
  std::string version;
  std::string mode;           ///< summary, md5, all, structure; empty in a build
  double items_seconds = 0;   ///< wall time of the stages: items,
  double links_seconds = 0;   ///< links between ranks,
  double finish_seconds = 0;  ///< indexes and closing
  int exit_code = 0;
  std::uint64_t links = 0;     ///< nodes linked across ranks
  std::filesystem::path file;  ///< the result; empty: none was written
  double seconds = 0;
  int processes = 1;
  unsigned threads = 1;  ///< of all processes
};

/// One line: step, rank, node, verdict, and why.
std::string finding_text(const NodeFinding& finding);

/// A few lines, each ended by a line break. Names every failed item (the first 20) and everything that was dropped (the first 10).
std::string summary_text(const RunSummary& summary);

/// The same and more for programs: a JSON document by docs/summary.schema.json.
std::string summary_json(const RunSummary& summary);

}  // namespace msvis
