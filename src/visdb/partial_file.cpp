#include "visdb/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "msvis/error.h"

namespace msvis {
namespace {

constexpr int name_tries = 100'000;  // seconds that may be taken, more than a day
constexpr mode_t file_mode = 0640;   // the viewer refuses files that others may write

std::string system_text(int error) {
  return std::generic_category().message(error);
}

[[noreturn]] void fail(ErrorCategory category, const std::string& what, int error, const std::filesystem::path& file) {
  throw Error(category, what + ": " + system_text(error), file);
}

bool exists(int directory, const std::string& name) {
  struct stat status {};
  return ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/// 0, or the number of the error. Never replaces a file.
int rename_without_replacing(int directory, const std::string& from, const std::string& onto) {
  if (::renameat2(directory, from.c_str(), directory, onto.c_str(), RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return errno;
  }
  // A file system that does not know the flag (some network file systems): a hard link does not replace either.
  if (::linkat(directory, from.c_str(), directory, onto.c_str(), 0) == 0) {
    ::unlinkat(directory, from.c_str(), 0);
    return 0;
  }
  if (errno == EEXIST) {
    return EEXIST;
  }
  if (exists(directory, onto)) {
    return EEXIST;
  }
  return ::renameat(directory, from.c_str(), directory, onto.c_str()) == 0 ? 0 : errno;
}

struct Stamp {
  std::size_t begin = 0;
  std::time_t time = 0;
};

/// Where in `<prefix><YYYYMMDDhhmmss>.vis.db.partial` the time stamp stands; nothing for other names.
std::optional<Stamp> stamp_of(const std::string& name) {
  constexpr std::string_view ending = ".vis.db.partial";
  constexpr std::size_t digits = 14;
  if (!name.ends_with(ending) || name.size() < digits + ending.size()) {
    return std::nullopt;
  }
  const std::size_t begin = name.size() - ending.size() - digits;
  const std::string text = name.substr(begin, digits);
  struct tm local {};
  const char* end = text.find_first_not_of("0123456789") == std::string::npos ? ::strptime(text.c_str(), "%Y%m%d%H%M%S", &local) : nullptr;
  if (end == nullptr || *end != '\0') {
    return std::nullopt;
  }
  local.tm_isdst = -1;
  return Stamp{begin, std::mktime(&local)};
}

}  // namespace

void PartialFile::open_directory(const std::filesystem::path& directory) {
  std::error_code ignored;
  directory_ = std::filesystem::absolute(directory, ignored);
  if (ignored) {
    directory_ = directory;
  }
  directory_descriptor_ = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_descriptor_ < 0) {
    fail(ErrorCategory::path, "the output directory can't be opened", errno, directory_);
  }
  directory_prefix_ = "/proc/self/fd/" + std::to_string(directory_descriptor_) + "/";
  if (::access(directory_prefix_.c_str(), F_OK) != 0) {
    directory_prefix_ = directory_.string() + "/";
  }
}

PartialFile::PartialFile(const std::filesystem::path& existing) {
  const std::string name = existing.filename().string();
  const auto stamp = stamp_of(name);
  if (!stamp) {
    throw Error(ErrorCategory::path, "the name is none of an unfinished result", existing);
  }
  prefix_ = name.substr(0, stamp->begin);
  time_ = stamp->time;
  open_directory(existing.parent_path());
  path_ = directory_ / name;
  struct stat status {};
  if (::fstatat(directory_descriptor_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) {
    close_directory();
    throw Error(ErrorCategory::path, "the unfinished result is no regular file", existing);
  }
  kept_ = true;
}

std::vector<std::filesystem::path> PartialFile::find(const std::filesystem::path& directory, const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const auto stamp = stamp_of(name);
    if (stamp && name.substr(0, stamp->begin) == prefix) {
      names.push_back(name);
    }
  }
  std::sort(names.rbegin(), names.rend());  // the stamps have one length
  std::vector<std::filesystem::path> files;
  std::transform(names.begin(), names.end(), std::back_inserter(files), [&](const std::string& name) { return directory / name; });
  return files;
}

PartialFile::PartialFile(const std::filesystem::path& directory, const std::string& prefix, std::time_t now) : prefix_(prefix) {
  open_directory(directory);
  for (int tried = 0; tried < name_tries; ++tried) {
    time_ = now + tried;
    const std::string name = final_name(time_);
    if (exists(directory_descriptor_, name)) {
      continue;
    }
    path_ = directory_ / (name + ".partial");
    const int file = ::openat(directory_descriptor_, this->name().c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file_mode);
    if (file < 0) {
      if (errno == EEXIST) {
        continue;
      }
      const int error = errno;
      close_directory();
      const bool forbidden = error == EACCES || error == EPERM || error == EROFS;
      fail(forbidden ? ErrorCategory::path : ErrorCategory::io, "the result file can't be created", error, path_);
    }
    const int changed = ::fchmod(file, file_mode);
    const int error = errno;
    ::close(file);  // before SQLite opens it: closing any descriptor of a file drops the locks of the process
    if (changed != 0) {
      ::unlinkat(directory_descriptor_, this->name().c_str(), 0);
      close_directory();
      fail(ErrorCategory::io, "the mode of the result file can't be set", error, path_);
    }
    return;
  }
  close_directory();
  throw Error(ErrorCategory::io, "no time stamp is free for the result file: remove old results or choose another directory", directory_);
}

PartialFile::~PartialFile() {
  const std::string journal = name() + "-journal";
  struct stat status {};
  if (kept_ && ::fstatat(directory_descriptor_, journal.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_size == 0) {
    ::unlinkat(directory_descriptor_, journal.c_str(), 0);  // nothing to roll back
  }
  if (!published_ && !kept_) {
    ::unlinkat(directory_descriptor_, journal.c_str(), 0);
    ::unlinkat(directory_descriptor_, name().c_str(), 0);
  }
  close_directory();
}

void PartialFile::close_directory() noexcept {
  ::close(directory_descriptor_);
  directory_descriptor_ = -1;
}

std::string PartialFile::final_name(std::time_t time) const {
  struct tm local {};
  ::localtime_r(&time, &local);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y%m%d%H%M%S", &local);
  return prefix_ + std::string(text.data(), length) + ".vis.db";
}

std::filesystem::path PartialFile::publish() {
  const int file = ::openat(directory_descriptor_, name().c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) {
    fail(ErrorCategory::io, "the finished file can't be opened for the last sync", errno, path_);
  }
  const int sync_error = ::fsync(file) == 0 ? 0 : errno;
  const int close_error = ::close(file) == 0 ? 0 : errno;
  if (sync_error != 0 || close_error != 0) {
    fail(ErrorCategory::io, "the finished file can't be synced to disk", sync_error != 0 ? sync_error : close_error, path_);
  }
  ::unlinkat(directory_descriptor_, (name() + "-journal").c_str(), 0);  // empty by now; some journal modes keep it
  for (int tried = 0; tried < name_tries; ++tried) {
    const std::string name_now = final_name(time_ + tried);
    const int error = rename_without_replacing(directory_descriptor_, name(), name_now);
    if (error == 0) {
      published_ = true;
      if (::fsync(directory_descriptor_) != 0 && errno != EINVAL) {  // EINVAL: the file system does not sync directories
        fail(ErrorCategory::io, "the output directory can't be synced to disk", errno, directory_);
      }
      return directory_ / name_now;
    }
    if (error != EEXIST) {
      fail(ErrorCategory::io, "the finished file can't be renamed to " + name_now, error, path_);
    }
  }
  throw Error(ErrorCategory::io, "no time stamp is free for the result file: remove old results", directory_);
}

}  // namespace msvis
