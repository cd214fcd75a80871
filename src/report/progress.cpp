#include "report/progress.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

namespace msvis {
namespace {

constexpr std::chrono::milliseconds bar_period{200};
// The page shows them all; a run with thousands of broken ranks must not make lines of megabytes.
constexpr std::size_t most_errors = 50;
constexpr std::size_t longest_error = 1000;

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::min(seconds, 359999.0));
  std::array<char, 40> text{};
  static_cast<void>(std::snprintf(text.data(), text.size(), "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60));
  return text.data();
}

// Written by guard_against_crash() before a signal can come, read by the handler.
std::array<char, 512> crash_lines{};              // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::array<char, 512> crash_end_line{};           // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::array<char, 4200> crash_file{};              // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
volatile std::sig_atomic_t crash_file_there = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// May be called in a signal handler.
void write_text(const char* text) {
  const auto written = write(STDOUT_FILENO, text, strlen(text));
  static_cast<void>(written);
}

extern "C" void on_crash(int signal_number) {
  // Only calls that are allowed in a signal handler. The default action was restored by SA_RESETHAND.
  if (crash_file_there != 0) {
    unlink(crash_file.data());
  }
  if (crash_lines[0] != '\0') {
    write_text(crash_lines.data());
    sleep(2);
    write_text(crash_end_line.data());
  }
  static_cast<void>(raise(signal_number));
}

template <std::size_t size>
void copy_text(std::array<char, size>& to, const std::string& text) {
  const std::size_t count = std::min(text.size(), size - 1);
  std::copy_n(text.begin(), count, to.begin());
  to[count] = '\0';
}

}  // namespace

std::string progress_text(double percent, bool running, const std::vector<std::string>& errors) {
  std::array<char, 32> number{};
  static_cast<void>(std::snprintf(number.data(), number.size(), "%.1f", percent));
  std::string text = "PROGRESS: {\"current_progress\": ";
  text += percent >= 100 ? "100" : number.data();
  text += ", \"process_running\": ";
  text += running ? "true" : "false";
  text += ", \"error_msg\": [";
  for (std::size_t k = 0; k < errors.size(); ++k) {
    text += k == 0 ? "" : ", ";
    text += nlohmann::json(log_text(errors[k])).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  text += "]}";
  return text;
}

Progress::Progress(Logger& logger, const Options& options) : logger_(logger), options_(options) {}

Progress::~Progress() {
  try {
    finish();
  } catch (const std::exception&) {  // out of memory for the last line: nothing is left to be done
    finished_ = true;
  }
}

void Progress::set(double percent) {
  percent_ = std::clamp(percent, percent_, 100.0);
  tick();
}

void Progress::tick() {
  if (finished_) {
    return;
  }
  const auto now = Clock::now();
  // Tenths are what is printed.
  const bool changed = std::floor(percent_ * 10) > std::floor(printed_percent_ * 10);
  if (options_.lines && changed && now - last_line_ >= options_.line_period) {
    print_line(true);
  }
  if (options_.bar != nullptr && now - last_bar_ >= bar_period) {
    draw_bar(false);
  }
}

void Progress::error(std::string_view text) {
  if (finished_ || errors_.size() >= most_errors) {
    return;
  }
  errors_.emplace_back(text.substr(0, longest_error));
  last_error_ = Clock::now();
  if (options_.lines) {
    print_line(true);
  }
}

void Progress::finish() {
  end(options_.error_pause);
}

void Progress::finish_soon(std::chrono::milliseconds longest_pause) {
  end(std::min(longest_pause, options_.error_pause));
}

void Progress::end(std::chrono::milliseconds pause) {
  if (finished_) {
    return;
  }
  finished_ = true;
  if (options_.bar != nullptr) {
    draw_bar(true);
  }
  if (options_.lines) {
    if (!errors_.empty()) {
      std::this_thread::sleep_until(last_error_ + pause);
    }
    print_line(false);
  }
}

void Progress::print_line(bool running) {
  logger_.protocol_line(progress_text(percent_, running, errors_));
  printed_percent_ = percent_;
  last_line_ = Clock::now();
}

void Progress::draw_bar(bool last) {
  constexpr int width = 40;
  const auto now = Clock::now();
  last_bar_ = now;
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  const auto filled = static_cast<std::size_t>(percent_ / 100 * width);
  std::string bar = "\rComparing |" + std::string(filled, '#') + std::string(width - filled, ' ') + "| ";
  bar += std::to_string(static_cast<int>(percent_)) + "% " + duration_text(elapsed);
  if (percent_ > 0 && percent_ < 100) {
    bar += " left " + duration_text(elapsed / percent_ * (100 - percent_));
  }
  bar += "   ";
  if (last) {
    bar += '\n';
  }
  print(options_.bar, bar);
}

void guard_against_crash(bool progress_lines) {
  if (progress_lines) {
    const std::vector<std::string> errors = {"the program ended unexpectedly (internal fault)"};
    copy_text(crash_lines, progress_text(0, true, errors) + "\n");
    copy_text(crash_end_line, progress_text(0, false, errors) + "\n");
  }
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    sigaction(signal_number, &action, nullptr);
  }
}

void remove_at_crash(const std::string& file) {
  crash_file_there = 0;
  if (!file.empty() && file.size() < crash_file.size()) {
    copy_text(crash_file, file);
    crash_file_there = 1;
  }
}

}  // namespace msvis
