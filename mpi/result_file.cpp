#include "mpi/result_file.h"

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "mpi/batches.h"

namespace msvis {

namespace {

constexpr std::string_view metrics_bytes_key = "bytes of the parameter table";

}  // namespace

std::string item_name(std::int64_t step, std::int64_t rank) {
  return "step " + std::to_string(step) + " rank " + std::to_string(rank);
}

void ResultFile::begin(const ItemKey& item) {
  if (writer_) {
    writer_->begin_item(item.first, item.second);
  }
}

void ResultFile::store(std::string_view batch) {
  ByteReader in(batch);
  switch (in.get<BatchKind>()) {
    case BatchKind::rows:
      writer_->add(unpack_row_batch(batch.substr(sizeof(BatchKind))));
      return;
    case BatchKind::link_records: {
      const auto step = in.get<std::int64_t>();
      const auto rank = in.get<std::int64_t>();
      writer_->add_link_records(step, rank, in.get_view());
      return;
    }
    case BatchKind::metrics:
      if (spill_) {
        spill_->append(batch.substr(sizeof(BatchKind)));
      }
      return;
  }
  throw Error(ErrorCategory::internal, "a batch of unknown kind");
}

void ResultFile::note(const ItemResult& result) {
  outcomes_[{result.record.step, result.record.rank}] = {result.record, result.mode, result.micro_steps};
}

void ResultFile::end(const ItemResult& result, bool stored) {
  note(result);
  if (!writer_) {
    return;
  }
  const ItemRecord& record = result.record;
  if (record.status == "done") {
    writer_->add_group_counts(result.group_counts);
    writer_->end_item(record.step, record.rank, pack(result));
  } else if (stored) {
    remove({record.step, record.rank});
  }
}

void ResultFile::remove(const ItemKey& item) {
  writer_->remove(item.first, item.second);
  if (spill_) {
    spill_->remove(item.first, item.second);
  }
}

void ResultFile::restore(const ItemResult& result) {
  note(result);
}

void ResultFile::take_back(const ItemKey& item) {
  outcomes_.erase(item);
  remove(item);
}

void ResultFile::collect_metrics_again(const std::filesystem::path& spill) {
  const auto bytes = writer_->saved(metrics_bytes_key);
  spill_.emplace(MetricsSpill::resume(spill, bytes ? std::stoull(*bytes) : 0));
  spill_->keep(true);
}

void ResultFile::commit() {
  if (!writer_) {
    return;
  }
  if (spill_) {
    spill_->sync();
    writer_->save(metrics_bytes_key, std::to_string(spill_->size()));
  }
  writer_->commit();
}

void ResultFile::commit_if_due(bool idle) {
  if (writer_ && writer_->commit_is_due(idle)) {
    commit();
  }
}

void ResultFile::keep(bool keep) {
  writer_->keep(keep);
  if (spill_) {
    spill_->keep(keep);
  }
}

std::size_t ResultFile::failed() const {
  return static_cast<std::size_t>(std::count_if(outcomes_.begin(), outcomes_.end(), [](const auto& item) { return !item.second.done(); }));
}

RunConfig ResultFile::config() const {
  RunConfig config;
  config.compare = options_.comparing();
  config.overflow_check = options_.overflow_check;
  std::set<std::int64_t> steps;
  std::set<std::int64_t> ranks;
  bool first = true;
  for (const auto& [item, outcome] : outcomes_) {
    if (!outcome.done()) {
      continue;
    }
    steps.insert(item.first);
    ranks.insert(item.second);
    if (first) {
      config.micro_steps = outcome.micro_steps;
      config.mode = outcome.mode.value_or(config.mode);
    } else if (options_.compat == Compat::standard) {
      config.micro_steps = std::max(config.micro_steps, outcome.micro_steps);
    }
    first = false;
  }
  config.steps.assign(steps.begin(), steps.end());
  if (options_.merge && options_.compat == Compat::reference && !options_.comparing() && steps.size() == 1) {
    // A merge build of the reference over one step lists step 0, whatever its rows have.
    const std::filesystem::path target = options_.target.filename().empty() ? options_.target.parent_path() : options_.target;
    if (target.filename() == "step" + std::to_string(*steps.begin())) {
      config.steps = {0};
    }
  }
  config.ranks.assign(ranks.begin(), ranks.end());
  return config;
}

std::vector<std::string> ResultFile::surprises_in_the_viewer() const {
  std::vector<std::string> sentences;
  const auto name = [](const ItemKey& item) { return item_name(item.first, item.second); };
  // The page offers every step with every rank.
  const RunConfig offered = config();
  const std::size_t holes = offered.steps.size() * offered.ranks.size() - (outcomes_.size() - failed());
  const auto first_hole = [&]() -> ItemKey {
    for (const auto step : offered.steps) {
      for (const auto rank : offered.ranks) {
        if (const auto there = outcomes_.find({step, rank}); there == outcomes_.end() || !there->second.done()) {
          return {step, rank};
        }
      }
    }
    return {};
  };
  if (holes > 0) {
    sentences.push_back("the result has no rows for " + name(first_hole()) +
                        (holes == 1 ? std::string() : " and " + std::to_string(holes - 1) + " other pairs") +
                        ", although the viewer offers them: not every step has every rank");
  }
  // It knows one mode per file.
  const auto with_mode = [](const auto& item) { return item.second.done() && item.second.mode.has_value(); };
  const auto first = std::find_if(outcomes_.begin(), outcomes_.end(), with_mode);
  const auto other =
      std::find_if(first, outcomes_.end(), [&](const auto& item) { return with_mode(item) && item.second.mode != first->second.mode; });
  if (other != outcomes_.end()) {
    const std::string taken(task_text(*first->second.mode));
    sentences.push_back(name(other->first) + " was compared in mode " + std::string(task_text(*other->second.mode)) + ", " +
                        name(first->first) + " in mode " + taken + ": the viewer will take all for " + taken);
  }
  return sentences;
}

std::vector<std::string> ResultFile::unequal_counts() {
  std::map<std::int64_t, std::vector<std::int64_t>> ranks;
  for (const auto& [item, outcome] : outcomes_) {
    if (outcome.done()) {
      ranks[item.first].push_back(item.second);
    }
  }
  std::vector<std::string> sentences;
  writer_->for_each_group([&](std::vector<GroupCount>&& counts) {
    const std::int64_t step = counts.front().step;
    for (std::string& sentence : group_count_warnings(std::move(counts), ranks[step])) {
      sentences.push_back(std::move(sentence));
    }
  });
  return sentences;
}

std::filesystem::path ResultFile::finish(const RunRecord& run) {
  std::vector<ItemRecord> records;
  records.reserve(outcomes_.size());
  for (const auto& [item, outcome] : outcomes_) {
    records.push_back(outcome.record);
  }
  auto path = writer_->finish(config(), records, run);
  if (spill_) {
    spill_->keep(false);
    spill_.reset();
  }
  return path;
}

}  // namespace msvis
