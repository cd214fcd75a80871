// Which dumps below -tp and -gp are complete, while a job still writes them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "msvis/options.h"
#include "msvis/work_item.h"

namespace msvis {

/// A dump of a (step, rank) is complete when its dump.json is there and a later step of the same rank exists beside it, or when its JSON
/// files and directories have not changed for `settle_seconds`, as seen by this process: clocks of other machines do not matter. A pair
/// of a comparison is complete when both its dumps are. A step is complete when all its pairs are, those of ranks that other steps have
/// included; ranks that it still lacks are no longer waited for when nothing in it has changed for `settle_seconds`.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  using Key = std::pair<std::int64_t, std::int64_t>;  ///< (step, rank)

  explicit Watch(const RunOptions& options) : options_(options) {}

  struct Found {
    std::vector<WorkItem> complete;   ///< with sizes; each once, and again when its files have changed since
    std::vector<std::int64_t> steps;  ///< complete now, ascending, each once; their pairs are in `complete` now or were earlier
    bool changed = false;             ///< anything, since the last look
    std::string reason;               ///< why nothing can be seen at all: the directory is not there yet, ...
  };
  /// Looks at the directories once; steps that were reported as complete are left alone, so that a long job costs no more than a short one.
  Found look(Clock::time_point now);
  /// Looks at all once more, for the end: whatever is there counts as complete.
  Found rest(Clock::time_point now) { return look_with(now, true); }

  /// A pair that was worked on before, and steps that were reported before, are not reported again unless they change.
  void skip(const Key& pair) { skipped_.insert(pair); }
  void skip_step(std::int64_t step) { reported_.insert(step); }

  /// Of the last look: what it saw, whether communication nodes are linked, and what only one side has.
  [[nodiscard]] const WorkPlan& plan() const { return plan_; }

 private:
  struct Pair {
    std::size_t files = 0;    // a hash of how they were at the last look
    Clock::time_point since;  // unchanged
    std::size_t given = 0;    // the same when they were reported; 0: not yet
  };

  Found look_with(Clock::time_point now, bool all);
  [[nodiscard]] bool has_settled(Clock::time_point since, Clock::time_point now) const;
  [[nodiscard]] std::vector<std::int64_t> complete_steps(Clock::time_point now, bool all);

  const RunOptions& options_;
  WorkPlan plan_;
  std::map<Key, Pair> pairs_;
  std::map<std::int64_t, Clock::time_point> step_changed_;
  std::set<std::int64_t> ranks_;  // of all steps
  std::set<Key> skipped_;
  std::set<std::int64_t> reported_;
};

}  // namespace msvis
