#include "mpi/run_report.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace msvis {
namespace {

// The viewer's page takes a tenth of a second per line of any kind; a person or a log file takes more.
constexpr double sparse_lines_per_second = 2;
constexpr double usual_lines_per_second = 20;
// What stands for opening files, so that items without size count as well.
constexpr std::uint64_t least_cost = std::uint64_t{1} << 16U;
// The rest is for links, indexes and the end.
constexpr double percent_of_items = 98;
// Share of an item's percent by state.
constexpr std::array<double, 4> share_of_state = {0, 0.1, 0.8, 1};

Progress::Options progress_options(const RunOptions& options) {
  Progress::Options progress;
  progress.lines = options.progress_log;
  progress.bar = isatty(STDERR_FILENO) != 0 ? stderr : nullptr;
  return progress;
}

}  // namespace

RunReport::RunReport(const RunOptions& options)
    : log_(stdout),
      progress_(log_, progress_options(options)),
      lines_per_second_(options.progress_log ? sparse_lines_per_second : usual_lines_per_second),
      line_budget_(lines_per_second_) {}

void RunReport::sparse(LogLevel level, std::string_view text) {
  const auto now = std::chrono::steady_clock::now();
  const double passed = std::chrono::duration<double>(now - last_line_).count();
  last_line_ = now;
  line_budget_ = std::min(lines_per_second_, line_budget_ + passed * lines_per_second_);
  if (line_budget_ < 1) {
    ++left_out_;
    return;
  }
  line_budget_ -= 1;
  log_.line(level, text);
}

void RunReport::item_error(std::string_view text) {
  sparse(LogLevel::error, text);
  progress_.error(text);
}

void RunReport::fatal(std::string_view text) {
  if (fatal_told_) {
    return;
  }
  fatal_told_ = true;
  log_.error(text);
  progress_.error(text);
  progress_.finish();
  print(stderr, "msvis-mpi: error: " + log_text(text) + "\n");
}

void RunReport::tell_left_out() {
  if (left_out_ > 0) {
    log_.info(std::to_string(left_out_) +
              " lines were left out of this log because many came at once; table msvis_item of the result "
              "holds what became of each (step, rank)");
    left_out_ = 0;
  }
}

void RunReport::set_items(std::vector<std::uint64_t> costs) {
  costs_ = std::move(costs);
  states_.assign(costs_.size(), ItemState::waiting);
  total_cost_ = 0;
  for (const auto cost : costs_) {
    total_cost_ += static_cast<double>(cost + least_cost);
  }
  done_cost_ = 0;
}

void RunReport::set_item_state(std::size_t item, ItemState state) {
  if (item >= states_.size()) {
    return;
  }
  const double before = share_of_state[static_cast<std::size_t>(states_[item])];
  const double after = share_of_state[static_cast<std::size_t>(state)];
  states_[item] = state;
  done_cost_ += (after - before) * static_cast<double>(costs_[item] + least_cost);
  progress_.set(percent_of_items * done_cost_ / total_cost_);
}

}  // namespace msvis
