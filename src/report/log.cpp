#include "report/log.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>

namespace msvis {
namespace {

constexpr std::string_view progress_mark = "PROGRESS: ";

bool is_control(unsigned value) {
  return value < 0x20 || value == 0x7f;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return {text.data(), size};
}

std::string_view level_name(LogLevel level) {
  constexpr std::array<std::string_view, 4> names = {"DEBUG", "INFO", "WARNING", "ERROR"};
  return names.at(static_cast<std::size_t>(level));
}

}  // namespace

std::string log_text(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '%' && at + 2 < text.size()) {
      const int high = hex_digit(text[at + 1]);
      const int low = hex_digit(text[at + 2]);
      if (high >= 0 && low >= 0 && is_control(static_cast<unsigned>(high * 16 + low))) {
        clean += '_';
        at += 2;
        continue;
      }
    }
    clean += is_control(static_cast<unsigned char>(text[at])) ? '_' : text[at];
  }
  for (auto at = clean.find(progress_mark); at != std::string::npos; at = clean.find(progress_mark, at)) {
    clean[at + progress_mark.size() - 2] = '_';
  }
  return clean;
}

void print(std::FILE* stream, std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stream));
  static_cast<void>(std::fflush(stream));
}

Logger::Logger(std::FILE* stream, LogLevel lowest) : stream_(stream), lowest_(lowest) {}

LogLevel Logger::level_from_environment() {
  const char* text = std::getenv("MSPROBE_LOG_LEVEL");
  if (text == nullptr || text[0] < '0' || text[0] > '4' || text[1] != '\0') {
    return LogLevel::info;
  }
  return static_cast<LogLevel>(text[0] - '0');
}

void Logger::line(LogLevel level, std::string_view text) {
  if (level >= lowest_ && level < LogLevel::nothing) {
    write(level, log_text(text));
  }
}

void Logger::protocol_line(std::string_view text) {
  write(LogLevel::info, text);
}

void Logger::write(LogLevel level, std::string_view text) {
  std::string whole = time_text();
  whole += " (" + std::to_string(getpid()) + ") [";
  whole += level_name(level);
  whole += "] ";
  whole += text;
  whole += '\n';
  const std::lock_guard lock(mutex_);
  print(stream_, whole);
}

}  // namespace msvis
