// The one exception type of the library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace msvis {

/// What kind of thing went wrong. The command line maps it to an exit code.
enum class ErrorCategory : std::uint8_t {
  usage,        ///< wrong options (exit code 2)
  path,         ///< a file or directory is missing, unreadable, of the wrong kind, or can't be written
  format,       ///< the content of a file is not what it should be
  mismatch,     ///< two dumps that can't be compared with each other
  limit,        ///< a documented limit was exceeded
  io,           ///< reading or writing failed although the path is good (disk full, ...)
  internal,     ///< a fault of this program
  interrupted,  ///< somebody wants the run to end (a signal)
};

/// Thrown where a fault is found, caught at the boundary of a work item. `what()` is one line that names
/// the file (if there is one), where in the file, what was found, and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(ErrorCategory category, const std::string& message, std::filesystem::path file = {},
        std::optional<std::uint64_t> offset = std::nullopt);

  [[nodiscard]] ErrorCategory category() const noexcept { return category_; }
  /// What was found, without the file and the place.
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  /// The file concerned; empty when no file is.
  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }
  /// Byte offset in the file, if known.
  [[nodiscard]] std::optional<std::uint64_t> offset() const noexcept { return offset_; }

 private:
  ErrorCategory category_;
  std::string message_;
  std::filesystem::path file_;
  std::optional<std::uint64_t> offset_;
};

}  // namespace msvis
