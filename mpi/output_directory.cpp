#include "mpi/output_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/printable.h"
#include "msvis/error.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;

constexpr mode_t directory_mode = 0750;
constexpr mode_t writable_by_others = 0022;

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(ErrorCategory::path, "the output directory " + printable(path.string()) + " " + reason + "; choose another one with -o",
              path);
}

}  // namespace

OutputDirectory::OutputDirectory(const fs::path& path) : path_(fs::absolute(path).lexically_normal()) {
  if (!path_.has_filename()) {
    path_ = path_.parent_path();  // a slash at the end
  }
  std::vector<fs::path> missing;
  for (fs::path level = path_; level != level.root_path(); level = level.parent_path()) {
    struct stat status {};
    if (stat(level.c_str(), &status) == 0) {
      if (!S_ISDIR(status.st_mode)) {
        fail(level, "is not a directory");
      }
      break;
    }
    if (errno != ENOENT) {
      fail(level, std::string("can't be used (") + std::strerror(errno) + ")");
    }
    missing.push_back(level);
  }
  std::reverse(missing.begin(), missing.end());
  for (const auto& level : missing) {
    if (mkdir(level.c_str(), directory_mode) != 0) {
      if (errno == EEXIST) {
        continue;  // another program was faster
      }
      const std::string reason = std::strerror(errno);
      remove_created();
      fail(level, "can't be created (" + reason + ")");
    }
    created_.insert(created_.begin(), level);
    chmod(level.c_str(), directory_mode);
  }
  if (access(path_.c_str(), W_OK | X_OK) != 0) {
    fail(path_, "is not writable");
  }
}

OutputDirectory::~OutputDirectory() {
  remove_created();
}

void OutputDirectory::remove_created() const {
  for (const auto& level : created_) {
    if (rmdir(level.c_str()) != 0) {
      break;
    }
  }
}

std::vector<std::string> OutputDirectory::warnings() const {
  std::vector<std::string> found;
  const std::string name = "the output directory " + printable(path_.string());
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    found.push_back(name + " is a symbolic link: the viewer refuses it, point it to the real directory");
  }
  if (stat(path_.c_str(), &status) == 0 && (status.st_mode & writable_by_others) != 0) {
    found.push_back(name + " can be written by group or others: the viewer refuses it unless it runs as root");
  }
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().ends_with(".vis.db")) {
      found.push_back(name + " already holds " + printable(entry->path().filename().string()) +
                      ": the viewer shows one result of a directory only, use a fresh directory for each run");
      break;
    }
  }
  return found;
}

}  // namespace msvis
