#include "table/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "msvis/error.h"

namespace msvis {
namespace {

constexpr int name_tries = 1000;

[[noreturn]] void fail(ErrorCategory category, const std::string& what, int error, const std::filesystem::path& file) {
  throw Error(category, what + ": " + std::generic_category().message(error), file);
}

/// The file that is going to be replaced.
std::filesystem::path resolved(const std::filesystem::path& file) {
  std::error_code fault;
  const std::filesystem::path absolute = std::filesystem::absolute(file, fault);
  const std::filesystem::path real = std::filesystem::weakly_canonical(absolute, fault);
  return fault || real.empty() ? absolute : real;
}

std::filesystem::path directory_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

/// Throws if `real` must not be replaced; `file` is what the user calls it.
void check_replaceable(const std::filesystem::path& real, const std::filesystem::path& file) {
  std::error_code fault;
  const auto status = std::filesystem::status(real, fault);
  if (!std::filesystem::exists(status)) {
    return;
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw Error(ErrorCategory::path, "is no regular file, so it can't be written; name another file", file);
  }
  if (::access(real.c_str(), W_OK) != 0) {
    fail(ErrorCategory::path, "can't be replaced; name another file", errno, file);
  }
}

}  // namespace

NewFile::NewFile(const std::filesystem::path& file) : file_(resolved(file)) {
  check_replaceable(file_, file);
  for (int tried = 0; tried < name_tries; ++tried) {
    temporary_ = file_;
    temporary_ += ".partial-" + std::to_string(::getpid()) + (tried == 0 ? std::string() : "-" + std::to_string(tried));
    const int descriptor = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      ::close(descriptor);
      return;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  const int error = errno;
  temporary_.clear();
  fail(ErrorCategory::path, "can't be written there; name a file in an existing, writable directory", error, file);
}

NewFile::~NewFile() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void NewFile::publish() {
  const int descriptor = ::open(temporary_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) {
    fail(ErrorCategory::io, "can't be opened for the last sync", errno, temporary_);
  }
  const int sync_error = ::fsync(descriptor) == 0 ? 0 : errno;
  const int close_error = ::close(descriptor) == 0 ? 0 : errno;
  if (sync_error != 0 || close_error != 0) {
    fail(ErrorCategory::io, "can't be synced to disk", sync_error != 0 ? sync_error : close_error, temporary_);
  }
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) {
    fail(ErrorCategory::io, "can't be renamed to " + file_.filename().string(), errno, temporary_);
  }
  temporary_.clear();
  const std::filesystem::path directory = directory_of(file_);
  const int folder = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);  // some file systems can't sync directories
    ::close(folder);
  }
}

}  // namespace msvis
