// What process 0 tells the user during and after a run: log lines, progress, the last lines on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/options.h"
#include "report/log.h"
#include "report/progress.h"

namespace msvis {

/// Used by the main thread of process 0.
class RunReport {
 public:
  explicit RunReport(const RunOptions& options);

  Logger& log() { return log_; }
  Progress& progress() { return progress_; }

  /// An important line.
  void info(std::string_view text) { log_.info(text); }
  /// A line that may be left out when many come at once.
  void detail(std::string_view text) { sparse(LogLevel::info, text); }
  void warning(std::string_view text) { sparse(LogLevel::warning, text); }
  /// The run goes on: an error of one item.
  void item_error(std::string_view text);
  /// The run ends: error line, progress protocol, and one line on stderr. At most once.
  void fatal(std::string_view text);
  /// A warning that must not be left out.
  void important_warning(std::string_view text) { log_.warning(text); }
  /// Tells how many lines were left out, if any.
  void tell_left_out();

  /// How much of the whole each item is; then its state. Percent follow from the costs; without them (a run beside a job that writes) there
  /// are none.
  void set_items(std::vector<std::uint64_t> costs);
  enum class ItemState : std::uint8_t { waiting, started, rows, done };
  void set_item_state(std::size_t item, ItemState state);

 private:
  void sparse(LogLevel level, std::string_view text);

  Logger log_;
  Progress progress_;
  double lines_per_second_;
  double line_budget_;
  std::chrono::steady_clock::time_point last_line_ = std::chrono::steady_clock::now();
  std::uint64_t left_out_ = 0;
  bool fatal_told_ = false;
  std::vector<std::uint64_t> costs_;
  std::vector<ItemState> states_;
  double total_cost_ = 0;
  double done_cost_ = 0;
};

}  // namespace msvis
