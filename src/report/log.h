// Log lines in the form that the viewer's page and existing scripts know: `2026-01-31 16:53:53 (17217) [INFO] text`.
#pragma once

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace msvis {

enum class LogLevel : std::uint8_t { debug, info, warning, error, nothing };

/// The text as one harmless line: control characters and their percent-encoded forms (`%0a`) become `_`, and the mark by which
/// the viewer finds progress lines can't be forged.
std::string log_text(std::string_view text);

/// Writes and flushes. A stream that takes nothing any more is not an error of the run: there is nobody left to tell.
void print(std::FILE* stream, std::string_view text);

/// Lines on one stream, each flushed. Any thread.
class Logger {
 public:
  /// Shows lines from `lowest` up. The stream must outlive the logger.
  explicit Logger(std::FILE* stream, LogLevel lowest = level_from_environment());

  /// MSPROBE_LOG_LEVEL: 0 (all) to 4 (nothing); info when it is unset or something else.
  static LogLevel level_from_environment();

  void debug(std::string_view text) { line(LogLevel::debug, text); }
  void info(std::string_view text) { line(LogLevel::info, text); }
  void warning(std::string_view text) { line(LogLevel::warning, text); }
  void error(std::string_view text) { line(LogLevel::error, text); }
  void line(LogLevel level, std::string_view text);
  /// A line for a program that reads along: shown at any level, the text unchanged (it must be one line).
  void protocol_line(std::string_view text);

 private:
  void write(LogLevel level, std::string_view text);

  std::FILE* stream_;
  LogLevel lowest_;
  std::mutex mutex_;
};

}  // namespace msvis
