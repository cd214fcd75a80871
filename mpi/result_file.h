// One result file of process 0 while it grows: its rows, and what became of its items.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msvis/options.h"
#include "msvis/visdb.h"
#include "run/run_item.h"
#include "table/metrics_spill.h"

namespace msvis {

/// As messages call it.
std::string item_name(std::int64_t step, std::int64_t rank);

/// What is kept of an item until the end; about 300 bytes.
struct Outcome {
  ItemRecord record;
  std::optional<CompareMode> mode;
  std::int64_t micro_steps = 1;
  [[nodiscard]] bool done() const { return record.status == "done"; }
};

/// One thread at a time. Throws what VisDbWriter throws. Without a writer (the items write files of their own) only the outcomes are kept.
class ResultFile {
 public:
  using ItemKey = std::pair<std::int64_t, std::int64_t>;  ///< (step, rank)

  ResultFile(const RunOptions& options, std::unique_ptr<VisDbWriter> writer) : options_(options), writer_(std::move(writer)) {}

  void begin(const ItemKey& item);
  /// A batch of mpi/batches.h.
  void store(std::string_view batch);
  /// All batches of the item are stored, or it failed: then they are taken back (`stored`: there may be some).
  void end(const ItemResult& result, bool stored);
  /// An item of an earlier run.
  void restore(const ItemResult& result);
  /// Takes an item back, so that it can be done again.
  void take_back(const ItemKey& item);

  [[nodiscard]] const std::map<ItemKey, Outcome>& outcomes() const { return outcomes_; }
  [[nodiscard]] std::size_t failed() const;
  [[nodiscard]] VisDbWriter& writer() { return *writer_; }

  /// Batches of the parameter table are kept beside the file from now on: anew, or with those that an earlier run committed.
  void collect_metrics(MetricsSpill&& spill) { spill_.emplace(std::move(spill)); }
  void collect_metrics_again(const std::filesystem::path& spill);
  [[nodiscard]] const MetricsSpill* metrics() const { return spill_ ? &*spill_ : nullptr; }

  /// Makes durable what was stored so far, at once or as VisDbWriter::commit_if_due.
  void commit();
  void commit_if_due(bool idle);
  /// Whether the unfinished file stays when the object goes.
  void keep(bool keep);

  /// Of the items with rows.
  [[nodiscard]] RunConfig config() const;
  /// Sentences about what the viewer will not show as it is: pairs without rows, several modes.
  [[nodiscard]] std::vector<std::string> surprises_in_the_viewer() const;
  /// Sentences about groups that their ranks used unequally often.
  [[nodiscard]] std::vector<std::string> unequal_counts();
  std::filesystem::path finish(const RunRecord& run);

 private:
  void note(const ItemResult& result);
  void remove(const ItemKey& item);

  const RunOptions& options_;
  std::unique_ptr<VisDbWriter> writer_;
  std::optional<MetricsSpill> spill_;
  std::map<ItemKey, Outcome> outcomes_;
};

}  // namespace msvis
