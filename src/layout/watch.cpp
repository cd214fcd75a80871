#include "layout/watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "layout/layout.h"
#include "layout/listing.h"
#include "msvis/error.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;

/// The part of a selection that is not among these steps.
Selection without(const Selection& selection, const std::set<std::int64_t>& steps) {
  Selection rest;
  const std::vector<std::pair<std::int64_t, std::int64_t>> all{{0, INT64_MAX}};
  for (auto [first, last] : selection.all() ? all : selection.ranges) {
    for (auto step = steps.lower_bound(first); step != steps.end() && *step <= last; ++step) {
      if (first < *step) {
        rest.ranges.emplace_back(first, *step - 1);
      }
      if (*step == last) {
        first = last;
        last = first - 1;  // nothing is left
        break;
      }
      first = *step + 1;
    }
    if (first <= last) {
      rest.ranges.emplace_back(first, last);
    }
  }
  if (rest.ranges.empty()) {
    rest.ranges.emplace_back(-1, -1);  // an empty selection would be all
  }
  return rest;
}

/// Size and time of what the dumper changes: the JSON files, and the directories, which change with each new file in them.
std::string files_text(const fs::path& directory) {
  std::string text;
  for (const char* name : {"", "dump.json", "stack.json", "construct.json", "dump_tensor_data", "dump_tensor_data.h5"}) {
    struct stat status {};
    if (stat((directory / name).c_str(), &status) == 0) {
      text += std::to_string(status.st_size) + ":" + std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec);
    }
    text += ',';
  }
  return text;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// The step directories beside that of a rank, by number; none where the ranks are not in step directories.
class LaterSteps {
 public:
  /// Whether a later step has this rank, too.
  bool has(const fs::path& rank_directory) {
    const fs::path step_directory = rank_directory.parent_path();
    const auto number = number_of_step(step_directory);
    if (!number) {
      return false;
    }
    const std::vector<std::int64_t>& steps = steps_in(step_directory.parent_path());
    for (auto later = std::upper_bound(steps.begin(), steps.end(), *number); later != steps.end(); ++later) {
      if (is_there(step_directory.parent_path() / ("step" + std::to_string(*later)) / rank_directory.filename())) {
        return true;
      }
    }
    return false;
  }

 private:
  static std::optional<std::int64_t> number_of_step(const fs::path& directory) {
    const std::string name = directory.filename().string();
    if (layout::name_form(name, "step") != layout::NameForm::numbered) {
      return std::nullopt;
    }
    return layout::number_of(name, "step", directory);
  }

  const std::vector<std::int64_t>& steps_in(const fs::path& directory) {
    const auto [entry, is_new] = listed_.try_emplace(directory);
    if (is_new) {
      std::error_code error;
      for (fs::directory_iterator step(directory, error), end; !error && step != end; step.increment(error)) {
        if (const auto number = number_of_step(step->path())) {
          entry->second.push_back(*number);
        }
      }
      std::sort(entry->second.begin(), entry->second.end());
    }
    return entry->second;
  }

  std::map<fs::path, std::vector<std::int64_t>> listed_;
};

}  // namespace

bool Watch::has_settled(Clock::time_point since, Clock::time_point now) const {
  return std::chrono::duration<double>(now - since).count() >= options_.settle_seconds;
}

Watch::Found Watch::look(Clock::time_point now) {
  return look_with(now, false);
}

Watch::Found Watch::look_with(Clock::time_point now, bool all) {
  Found found;
  try {
    RunOptions options = options_;
    if (!all) {
      options.steps = without(options_.steps, reported_);
    }
    plan_ = list_work(options);
  } catch (const Error& error) {
    if (error.category() != ErrorCategory::path && error.category() != ErrorCategory::mismatch) {
      throw;
    }
    found.reason = error.what();
    return found;
  }
  LaterSteps later_steps;
  for (WorkItem& item : plan_.items) {
    const Key key{item.step, item.rank};
    std::string files = files_text(item.target);
    if (!item.golden.empty()) {
      files += files_text(item.golden);
    }
    const std::size_t now_there = std::hash<std::string>()(files) | 1U;
    Pair& pair = pairs_[key];
    if (pair.files != now_there) {
      pair.files = now_there;
      pair.since = now;
      step_changed_[item.step] = now;
      found.changed = true;
      if (skipped_.erase(key) > 0) {
        pair.given = pair.files;
      }
    }
    if (pair.given == pair.files) {
      continue;
    }
    const auto is_complete = [&](const fs::path& directory) {
      return directory.empty() || (is_there(directory / "dump.json") && later_steps.has(directory));
    };
    if (all || has_settled(pair.since, now) || (is_complete(item.target) && is_complete(item.golden))) {
      pair.given = pair.files;
      find_sizes(item, options_.comparing());
      found.complete.push_back(item);
    }
  }
  found.steps = complete_steps(now, all);
  return found;
}

std::vector<std::int64_t> Watch::complete_steps(Clock::time_point now, bool all) {
  std::map<std::int64_t, std::set<std::int64_t>> of_step;
  std::map<std::int64_t, bool> given;
  for (const WorkItem& item : plan_.items) {
    const Pair& pair = pairs_[{item.step, item.rank}];
    ranks_.insert(item.rank);
    of_step[item.step].insert(item.rank);
    given.try_emplace(item.step, true).first->second &= pair.given == pair.files;
  }
  std::vector<std::int64_t> complete;
  for (const auto& [step, there] : of_step) {
    // The first step alone can't tell how many ranks there will be.
    const bool has_all_ranks = there == ranks_ && (of_step.size() > 1 || !reported_.empty());
    if (given[step] && !reported_.contains(step) && (all || has_all_ranks || has_settled(step_changed_[step], now))) {
      reported_.insert(step);
      complete.push_back(step);
    }
  }
  return complete;
}

}  // namespace msvis
