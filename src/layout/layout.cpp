#include "layout/layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "base/printable.h"
#include "layout/listing.h"
#include "msvis/error.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;
using layout::Listing;
using layout::NameForm;

enum class Form : std::uint8_t { files, ranks, steps };

const char* describe(Form form) {
  switch (form) {
    case Form::files:
      return "a single dump (the JSON files themselves)";
    case Form::ranks:
      return "rank directories";
    case Form::steps:
      return "step directories";
  }
  return "";
}

constexpr const char* kExpected =
    "expected is a directory with dump.json, stack.json and construct.json, or one whose sub-directories are all called rank0, rank1, ... "
    "(or "
    "one rank, or one proc{number}), or all step0, step1, ... with such directories in them";

/// One side of the run, as its messages call it.
struct Side {
  fs::path path;
  std::string name;    ///< `target`, `golden`
  std::string option;  ///< `-tp`, `-gp`
  [[nodiscard]] std::string what() const { return name + " (" + option + ")"; }
};

/// A rank directory found below a side.
struct RankDirectory {
  std::string name;
  std::int64_t number = 0;
  bool process = false;  ///< proc{pid}: a program without ranks
};

bool all_have(const std::vector<std::string>& names, const auto& test) {
  return std::all_of(names.begin(), names.end(), test);
}

bool is_proc(std::string_view name) {
  const NameForm form = layout::name_form(name, "proc");
  return form == NameForm::numbered || form == NameForm::leading_zero;
}

bool has_digits(std::string_view name, std::string_view prefix) {
  const NameForm form = layout::name_form(name, prefix);
  return form == NameForm::numbered || form == NameForm::leading_zero;
}

/// A few names for a message.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  std::string text;
  for (std::size_t k = 0; k < std::min(most, names.size()); ++k) {
    text += (k == 0 ? "" : ", ") + printable(names[k], 60);
  }
  return names.size() > most ? text + ", ... (" + std::to_string(names.size()) + " in all)" : text;
}

std::string sub_directories(const Listing& listing) {
  return listing.directories.empty() ? "it has no sub-directories" : "its sub-directories are " + some_of(listing.directories);
}

/// What kind of directory a side is. Only sub-directories count, so neither stray files nor the order of the listing matter.
Form classify(const Side& side, const Listing& listing) {
  if (listing.empty) {
    throw Error(ErrorCategory::path, side.what() + " is empty; " + kExpected, side.path);
  }
  if (listing.has_tensor_data || listing.directories.empty()) {
    return Form::files;
  }
  const auto& names = listing.directories;
  const bool single_bare_rank = std::count(names.begin(), names.end(), "rank") == 1 &&
                                all_have(names, [](const std::string& name) { return name == "rank" || is_proc(name); });
  if (single_bare_rank || all_have(names, [](const std::string& name) { return has_digits(name, "rank") || is_proc(name); })) {
    return Form::ranks;
  }
  if (all_have(names, [](const std::string& name) { return has_digits(name, "step"); })) {
    return Form::steps;
  }
  std::string hint;
  if (all_have(names, [](const std::string& name) { return name == "graph" || name == "pynative"; })) {
    hint = "; for this MindSpore dump give the graph or the pynative directory";
  }
  throw Error(ErrorCategory::path, side.what() + " has an unexpected form: " + sub_directories(listing) + "; " + kExpected + hint,
              side.path);
}

class Discovery {
 public:
  explicit Discovery(const RunOptions& options) : options_(options) {
    sides_.push_back({options.target, "target", "-tp"});
    if (options.comparing()) {
      sides_.push_back({options.golden, "golden", "-gp"});
    }
  }

  WorkPlan find() {
    std::vector<Listing> listings;
    std::vector<Form> forms;
    for (const Side& side : sides_) {
      listings.push_back(layout::list_directory(side.path, side.what()));
      forms.push_back(classify(side, listings.back()));
    }
    if (forms.front() != forms.back()) {
      throw Error(ErrorCategory::mismatch,
                  "target (-tp) holds " + std::string(describe(forms.front())) + ", but golden (-gp) " + sides_.back().path.string() +
                      " holds " + describe(forms.back()) + "; give directories of the same level on both sides",
                  sides_.front().path);
    }
    switch (forms.front()) {
      case Form::files:
        if (options_.merge && options_.merge->as_json) {
          throw Error(
              ErrorCategory::mismatch,
              "target (-tp) is the dump of a single rank; --file_type json merges several ranks: give the directory that holds them",
              sides_.front().path);
        }
        if (options_.merge) {
          plan_.warnings.emplace_back(
              "-tp is the dump of a single rank: there is nothing to merge, --rank_size and its like have no effect");
        }
        single_dump();
        break;
      case Form::ranks:
        ranks_of_step(direct_step(), paths(), std::move(listings), true);
        plan_.link_ranks = !options_.merge;
        break;
      case Form::steps:
        steps(listings);
        plan_.link_ranks = !options_.merge;
        break;
    }
    std::sort(plan_.items.begin(), plan_.items.end(),
              [](const WorkItem& a, const WorkItem& b) { return std::pair(a.step, a.rank) < std::pair(b.step, b.rank); });
    return std::move(plan_);
  }

  WorkPlan find_with_sizes() {
    plan_ = find();
    find_all_sizes();
    plan_.tensor_mode = options_.comparing() && std::any_of(plan_.items.begin(), plan_.items.end(), [](const WorkItem& item) {
                          return item.tensor_bytes > 0 && layout::states_tensor_task(item.target);
                        });
    return std::move(plan_);
  }

 private:
  [[nodiscard]] std::vector<fs::path> paths() const {
    std::vector<fs::path> all;
    for (const Side& side : sides_) {
      all.push_back(side.path);
    }
    return all;
  }

  void add_item(std::int64_t step, std::int64_t rank, const std::vector<fs::path>& directories) {
    WorkItem item;
    item.step = step;
    item.rank = rank;
    item.target = directories.front();
    if (directories.size() > 1) {
      item.golden = directories.back();
    }
    plan_.items.push_back(std::move(item));
  }

  // Nearly all of the time that discovery takes, and most of that is waiting for the file system.
  void find_all_sizes() {
    constexpr unsigned looks_at_once = 16;
    std::vector<std::vector<fs::path>> doubled(plan_.items.size());
    parallel_for(plan_.items.size(), looks_at_once, [&](std::size_t number) {
      WorkItem& item = plan_.items[number];
      find_sizes(item, options_.comparing());
      for (const fs::path& directory : {item.target, item.golden}) {
        if (options_.comparing() && !directory.empty() && layout::has_both_tensor_stores(directory)) {
          doubled[number].push_back(directory);
        }
      }
    });
    for (const std::vector<fs::path>& directories : doubled) {
      for (const fs::path& directory : directories) {
        plan_.warnings.push_back(directory.string() + " holds both dump_tensor_data and dump_tensor_data.h5; the directory is read");
      }
    }
  }

  void require_selected(const Selection& selection, const char* option, const char* kind, std::int64_t number) const {
    if (!selection.contains(number)) {
      throw Error(ErrorCategory::mismatch,
                  std::string(option) + " selects nothing: the dump given by -tp is " + kind + " " + std::to_string(number),
                  sides_.front().path);
    }
  }

  void single_dump() {
    require_selected(options_.steps, "--steps", "step", 0);
    require_selected(options_.ranks, "--ranks", "rank", 0);
    add_item(0, 0, paths());
  }

  /// The number of the target directory when it is itself a stepN, else 0.
  std::int64_t direct_step() {
    std::int64_t step = 0;
    // Merge builds of the reference store the number, too.
    if (options_.compat == Compat::standard || (options_.merge && !options_.comparing())) {
      const auto from_name = [](const fs::path& path) -> std::optional<std::int64_t> {
        fs::path full = fs::absolute(path).lexically_normal();
        if (full.filename().empty()) {  // a slash at the end
          full = full.parent_path();
        }
        const std::string name = full.filename().string();
        if (layout::name_form(name, "step") != NameForm::numbered) {
          return std::nullopt;
        }
        return layout::number_of(name, "step", path);
      };
      const auto target = from_name(sides_.front().path);
      step = target.value_or(0);
      if (const auto golden = from_name(sides_.back().path); target && golden && golden != target) {
        plan_.warnings.push_back("target (-tp) is step " + std::to_string(*target) + " and golden (-gp) is step " +
                                 std::to_string(*golden) + "; the result is stored as step " + std::to_string(step));
      }
    }
    require_selected(options_.steps, "--steps", "step", step);
    return step;
  }

  void warn_leading_zero(const Listing& listing, std::string_view prefix, const fs::path& directory) {
    for (const std::string& name : listing.directories) {
      if (layout::name_form(name, prefix) == NameForm::leading_zero) {
        plan_.warnings.push_back((directory / name).string() + " is ignored: numbers in directory names have no leading zeros");
      }
    }
  }

  /// The ranks in a directory; when there are none, the one process directory; nothing when there is neither.
  std::vector<RankDirectory> rank_directories(const Listing& listing, const fs::path& directory) {
    warn_leading_zero(listing, "rank", directory);
    std::vector<RankDirectory> ranks;
    std::vector<std::string> processes;
    bool rank_zero = false;
    for (const std::string& name : listing.directories) {
      const NameForm form = layout::name_form(name, "rank");
      if (form == NameForm::numbered) {
        ranks.push_back({name, layout::number_of(name, "rank", directory), false});
        rank_zero = rank_zero || ranks.back().number == 0;
      } else if (is_proc(name)) {
        processes.push_back(name);
      }
    }
    if (std::binary_search(listing.directories.begin(), listing.directories.end(), "rank")) {
      if (rank_zero) {
        plan_.warnings.push_back((directory / "rank").string() + " is ignored: it counts as rank 0, and there is a directory rank0");
      } else {
        ranks.push_back({"rank", 0, false});
      }
    }
    if (ranks.empty() && processes.size() == 1) {
      ranks.push_back({processes.front(), 0, true});
    }
    return ranks;
  }

  static std::string no_ranks_reason(const Listing& listing) {
    const auto processes = std::count_if(listing.directories.begin(), listing.directories.end(), is_proc);
    if (processes > 1) {
      return "holds no rank directory but " + std::to_string(processes) + " process directories, of which only one can be processed (" +
             some_of(listing.directories) + ")";
    }
    return "holds no rank directory (" + sub_directories(listing) + "); expected are rank0, rank1, ..., or one rank, or one proc{number}";
  }

  /// Adds the items of one step. `only`: there is no other step, so having none is an error; else a step without work is dropped with a
  /// sentence.
  void ranks_of_step(std::int64_t step, const std::vector<fs::path>& directories, std::vector<Listing> listings, bool only) {
    if (options_.merge) {
      merge_step(step, directories, listings);
      return;
    }
    std::vector<std::vector<RankDirectory>> ranks;
    for (std::size_t side = 0; side < sides_.size(); ++side) {
      ranks.push_back(rank_directories(listings[side], directories[side]));
      if (ranks.back().empty()) {
        skip_step(step, only, ErrorCategory::path, sides_[side].what() + " " + no_ranks_reason(listings[side]), directories[side]);
        return;
      }
      if (!select_ranks(ranks.back(), step, only, side, directories[side])) {
        return;
      }
    }
    if (sides_.size() == 1) {
      for (const RankDirectory& rank : ranks[0]) {
        add_item(step, rank.number, {directories[0] / rank.name});
      }
      return;
    }
    pair_ranks(step, only, directories, ranks);
  }

  /// One item with all ranks of both sides, which the merge room divides into replicas. A step that can't be merged stops the run: nothing
  /// was done yet.
  void merge_step(std::int64_t step, const std::vector<fs::path>& directories, const std::vector<Listing>& listings) {
    WorkItem item;
    item.step = step;
    for (std::size_t side = 0; side < sides_.size(); ++side) {
      std::vector<RankDirectory> ranks = rank_directories(listings[side], directories[side]);
      std::sort(ranks.begin(), ranks.end(), [](const RankDirectory& a, const RankDirectory& b) { return a.number < b.number; });
      const std::int64_t wanted = (side == 0 ? options_.merge->target : options_.merge->golden).rank_size;
      if (static_cast<std::int64_t>(ranks.size()) != wanted || ranks.front().process) {
        throw Error(ErrorCategory::mismatch,
                    sides_[side].what() + " holds " + std::to_string(ranks.empty() || ranks.front().process ? 0 : ranks.size()) +
                        " rank directories, but --rank_size says " + std::to_string(wanted),
                    directories[side]);
      }
      Replica& all = item.replicas.emplace_back();
      all.directory = directories[side];
      for (const RankDirectory& rank : ranks) {
        if (rank.number != static_cast<std::int64_t>(all.ranks.size())) {
          throw Error(ErrorCategory::mismatch,
                      sides_[side].what() + " has no rank " + std::to_string(all.ranks.size()) + "; to merge, the ranks 0 to " +
                          std::to_string(wanted - 1) + " must all be there",
                      directories[side]);
        }
        all.ranks.push_back(rank.number);
        all.names.push_back(rank.name);
      }
    }
    plan_.items.push_back(std::move(item));
  }

  /// Leaves the ranks of --ranks; false when none is left and the step is dropped.
  bool select_ranks(std::vector<RankDirectory>& ranks, std::int64_t step, bool only, std::size_t side, const fs::path& directory) {
    const std::string there = numbers_of(ranks);
    std::erase_if(ranks, [this](const RankDirectory& rank) { return !options_.ranks.contains(rank.number); });
    if (ranks.empty()) {
      skip_step(step, only, ErrorCategory::mismatch, "--ranks selects nothing in " + sides_[side].what() + "; there: " + there, directory);
    }
    return !ranks.empty();
  }

  void skip_step(std::int64_t step, bool only, ErrorCategory category, const std::string& reason, const fs::path& directory) {
    if (only) {
      throw Error(category, reason, directory);
    }
    plan_.dropped.push_back("step " + std::to_string(step) + " is left out: " + directory.string() + ": " + reason);
  }

  static std::string numbers_of(const std::vector<RankDirectory>& ranks) {
    std::vector<std::int64_t> numbers;
    numbers.reserve(ranks.size());
    for (const RankDirectory& rank : ranks) {
      numbers.push_back(rank.number);
    }
    std::sort(numbers.begin(), numbers.end());
    return "ranks " + list_of(numbers);
  }

  static std::string list_of(const std::vector<std::int64_t>& numbers) {
    constexpr std::size_t most = 20;
    std::string text;
    for (std::size_t k = 0; k < std::min(most, numbers.size()); ++k) {
      text += (k == 0 ? "" : ", ") + std::to_string(numbers[k]);
    }
    return numbers.size() > most ? text + ", ... (" + std::to_string(numbers.size()) + " in all)" : text;
  }

  /// By name, or by number when no name is common (`rank` against `rank0`).
  void pair_ranks(std::int64_t step, bool only, const std::vector<fs::path>& directories,
                  const std::vector<std::vector<RankDirectory>>& ranks) {
    const bool processes = ranks[0].front().process && ranks[1].front().process;
    std::map<std::string, const RankDirectory*> golden_by_name;
    std::map<std::int64_t, const RankDirectory*> golden_by_number;
    for (const RankDirectory& golden : ranks[1]) {
      golden_by_name[golden.name] = &golden;
      if (!golden.process) {
        golden_by_number[golden.number] = &golden;
      }
    }
    std::vector<std::pair<const RankDirectory*, const RankDirectory*>> pairs;
    for (const RankDirectory& target : ranks[0]) {
      if (const auto found = golden_by_name.find(target.name); found != golden_by_name.end()) {
        pairs.emplace_back(&target, found->second);
      }
    }
    if (pairs.empty() && processes) {
      pairs.emplace_back(&ranks[0].front(), &ranks[1].front());
    }
    if (pairs.empty()) {
      for (const RankDirectory& target : ranks[0]) {
        const auto found = golden_by_number.find(target.number);
        if (!target.process && found != golden_by_number.end()) {
          pairs.emplace_back(&target, found->second);
        }
      }
    }
    if (pairs.empty()) {
      skip_step(step, only, ErrorCategory::mismatch,
                "no rank is on both sides: target (-tp) has " + names_of(ranks[0]) + ", golden (-gp) " + directories[1].string() + " has " +
                    names_of(ranks[1]),
                directories[0]);
      return;
    }
    std::set<const RankDirectory*> paired;
    for (const auto& [target, golden] : pairs) {
      paired.insert({target, golden});
      add_item(step, target->number, {directories[0] / target->name, directories[1] / golden->name});
    }
    for (std::size_t side = 0; side < ranks.size(); ++side) {
      for (const RankDirectory& rank : ranks[side]) {
        if (!paired.contains(&rank)) {
          plan_.dropped.push_back("step " + std::to_string(step) + " rank " + std::to_string(rank.number) + " is left out: only " +
                                  sides_[side].what() + " has it (" + (directories[side] / rank.name).string() + ")");
        }
      }
    }
  }

  static std::string names_of(const std::vector<RankDirectory>& ranks) {
    std::vector<std::string> names;
    names.reserve(ranks.size());
    for (const RankDirectory& rank : ranks) {
      names.push_back(rank.name);
    }
    return some_of(names);
  }

  /// The step directories of a side within --steps, by number.
  std::map<std::int64_t, fs::path> step_directories(const Side& side, const Listing& listing) {
    warn_leading_zero(listing, "step", side.path);
    std::map<std::int64_t, fs::path> steps;
    std::vector<std::int64_t> there;
    for (const std::string& name : listing.directories) {
      if (layout::name_form(name, "step") == NameForm::numbered) {
        const std::int64_t number = layout::number_of(name, "step", side.path);
        there.push_back(number);
        if (options_.steps.contains(number)) {
          steps[number] = side.path / name;
        }
      }
    }
    if (there.empty()) {
      throw Error(ErrorCategory::path,
                  side.what() + " holds no step directory (" + sub_directories(listing) + "); expected are step0, step1, ...", side.path);
    }
    if (steps.empty()) {
      std::sort(there.begin(), there.end());
      throw Error(ErrorCategory::mismatch, "--steps selects nothing in " + side.what() + "; there: steps " + list_of(there), side.path);
    }
    return steps;
  }

  void steps(const std::vector<Listing>& listings) {
    std::vector<std::map<std::int64_t, fs::path>> found;
    for (std::size_t side = 0; side < sides_.size(); ++side) {
      found.push_back(step_directories(sides_[side], listings[side]));
    }
    std::vector<std::int64_t> common;
    for (const auto& [number, path] : found.front()) {
      if (found.back().contains(number)) {
        common.push_back(number);
      }
    }
    if (common.empty()) {
      throw Error(ErrorCategory::mismatch,
                  "no step is on both sides: target (-tp) has steps " + list_of(keys(found.front())) + ", golden (-gp) " +
                      sides_.back().path.string() + " has steps " + list_of(keys(found.back())),
                  sides_.front().path);
    }
    for (std::size_t side = 0; side < found.size(); ++side) {
      for (const auto& [number, path] : found[side]) {
        if (!std::binary_search(common.begin(), common.end(), number)) {
          plan_.dropped.push_back("step " + std::to_string(number) + " is left out: only " + sides_[side].what() + " has it (" +
                                  path.string() + ")");
        }
      }
    }
    for (const std::int64_t step : common) {
      std::vector<fs::path> directories;
      std::vector<Listing> step_listings;
      for (std::size_t side = 0; side < sides_.size(); ++side) {
        directories.push_back(found[side].at(step));
        step_listings.push_back(layout::list_directory(directories.back(), "step " + std::to_string(step) + " of " + sides_[side].what()));
      }
      ranks_of_step(step, directories, std::move(step_listings), common.size() == 1);
    }
    if (plan_.items.empty()) {
      throw Error(ErrorCategory::mismatch, "no step has anything to process; " + plan_.dropped.back(), sides_.front().path);
    }
  }

  static std::vector<std::int64_t> keys(const std::map<std::int64_t, fs::path>& steps) {
    std::vector<std::int64_t> numbers;
    numbers.reserve(steps.size());
    for (const auto& [number, path] : steps) {
      numbers.push_back(number);
    }
    return numbers;
  }

  const RunOptions& options_;
  std::vector<Side> sides_;
  WorkPlan plan_;
};

}  // namespace

WorkPlan find_work(const RunOptions& options) {
  try {
    return Discovery(options).find_with_sizes();
  } catch (const fs::filesystem_error& fault) {  // the current directory is gone, ...
    throw Error(ErrorCategory::path, fault.code().message(), fault.path1());
  }
}

WorkPlan list_work(const RunOptions& options) {
  try {
    return Discovery(options).find();
  } catch (const fs::filesystem_error& fault) {
    throw Error(ErrorCategory::path, fault.code().message(), fault.path1());
  }
}

void find_sizes(WorkItem& item, bool comparing) {
  item.json_bytes = 0;
  item.tensor_bytes = 0;
  for (const fs::path& directory : {item.target, item.golden}) {
    if (directory.empty()) {
      continue;
    }
    item.json_bytes += layout::json_bytes(directory);
    if (comparing) {  // a build does not read tensors
      item.tensor_bytes += layout::tensor_bytes(directory);
    }
  }
}

}  // namespace msvis
