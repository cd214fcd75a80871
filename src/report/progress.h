// How far a run is: the lines that the viewer's page reads (-progress_log), and a bar on a terminal.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "report/log.h"

namespace msvis {

/// The text after the prefix of a progress line: `PROGRESS: {"current_progress": 20.0, "process_running": true, "error_msg": []}`.
/// Nothing in it can be taken for a second mark, and it is one line of valid JSON whatever the error texts are.
std::string progress_text(double percent, bool running, const std::vector<std::string>& errors);

/// Used by one thread. At most a few lines a second are printed, since the page sleeps after each.
class Progress {
 public:
  struct Options {
    bool lines = false;                           ///< -progress_log
    std::FILE* bar = nullptr;                     ///< a terminal; null: no bar
    std::chrono::milliseconds line_period{350};   ///< shortest time between two lines of numbers
    std::chrono::milliseconds error_pause{1100};  ///< the page must see an error while the run is still going
  };
  Progress(Logger& logger, const Options& options);
  /// Prints the final line if finish() was not reached.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Percent done, 0 to 100; smaller values than before are ignored.
  void set(double percent);
  /// Prints what was held back because lines came too fast, and moves the bar. To be called now and then.
  void tick();
  /// An error: printed at once, with all errors before it.
  void error(std::string_view text);
  /// The last line. With errors, waits first so that the page sees them. Later calls do nothing.
  void finish();
  /// Like finish(), with this pause at most: somebody is about to kill the process.
  void finish_soon(std::chrono::milliseconds longest_pause);

 private:
  using Clock = std::chrono::steady_clock;
  void print_line(bool running);
  void draw_bar(bool last);
  void end(std::chrono::milliseconds pause);

  Logger& logger_;
  Options options_;
  double percent_ = 0;
  double printed_percent_ = 0;
  std::vector<std::string> errors_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_line_;
  Clock::time_point last_bar_;
  Clock::time_point last_error_;
  bool finished_ = false;
};

/// From now on, a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) prints an error line and the final line of -progress_log on stdout
/// before the process dies of the signal, so that the page does not wait for ever.
void guard_against_crash(bool progress_lines);

/// A file that a crash must not leave behind; the last one given counts, an empty name is none. One thread.
void remove_at_crash(const std::string& file);

}  // namespace msvis
