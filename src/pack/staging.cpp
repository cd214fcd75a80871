#include "pack/staging.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "msvis/error.h"

namespace msvis {
namespace {

constexpr std::size_t largest_write = std::size_t{1} << 30;

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) {
    ::close(number_);
  }
}

int Descriptor::release() noexcept {
  return std::exchange(number_, -1);
}

void fail_io(const std::string& what, const std::filesystem::path& file) {
  const int code = errno;
  throw Error(ErrorCategory::io, what + ": " + std::generic_category().message(code), file);
}

unsigned read_write_mode(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    fail_io("can't be examined", path);
  }
  return (status.st_mode & 0666U) | 0600U;
}

Descriptor create_exclusively(const std::filesystem::path& file, unsigned mode, int directory) {
  Descriptor made(::openat(directory < 0 ? AT_FDCWD : directory, file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (made.number() < 0 || ::fchmod(made.number(), mode) != 0) {
    fail_io("can't be created", file);
  }
  return made;
}

void write_exactly(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes, const std::filesystem::path& file) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(descriptor, bytes.data(), std::min(bytes.size(), largest_write), static_cast<off_t>(offset));
    if (put < 0) {
      if (errno == EINTR) {
        continue;
      }
      fail_io("can't be written", file);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

void sync_file(int descriptor, const std::filesystem::path& file) {
  if (::fsync(descriptor) != 0) {
    fail_io("can't be written to the disk", file);
  }
}

void sync_directory(const std::filesystem::path& directory) {
  const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.number() < 0 || ::fsync(opened.number()) != 0) {
    fail_io("can't be written to the disk", directory);
  }
}

void sync_file_system(const std::filesystem::path& directory) {
  const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.number() < 0 || ::syncfs(opened.number()) != 0) {
    fail_io("can't be written to the disk", directory);
  }
}

// ---------------------------------------------------------------------------------------------------------------------- file

StagedFile::StagedFile(std::filesystem::path file, unsigned mode) : path_(std::move(file)) {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
    fail_io("is in the way and can't be removed", path_);
  }
  descriptor_ = create_exclusively(path_, mode);
}

StagedFile::~StagedFile() {
  if (!published_ && own()) {
    ::unlink(path_.c_str());
  }
}

bool StagedFile::own() const {
  struct stat named {};
  struct stat opened {};
  return ::lstat(path_.c_str(), &named) == 0 && ::fstat(descriptor_.number(), &opened) == 0 && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev;
}

void StagedFile::publish(const std::filesystem::path& final_path) {
  if (!own()) {
    throw Error(ErrorCategory::io, "was taken away while it was written; does another msvis-pack work on this rank?", path_);
  }
  if (::rename(path_.c_str(), final_path.c_str()) != 0) {
    fail_io("can't be given the name " + final_path.filename().string(), path_);
  }
  published_ = true;
  sync_directory(final_path.parent_path());
}

// ---------------------------------------------------------------------------------------------------------------------- directory

StagedDirectory::StagedDirectory(std::filesystem::path path, unsigned mode) : path_(std::move(path)) {
  std::error_code fault;
  std::filesystem::remove_all(path_, fault);
  if (fault) {
    throw Error(ErrorCategory::io, "is in the way and can't be removed: " + fault.message(), path_);
  }
  const unsigned search = (mode & 0444U) >> 2U;
  if (::mkdir(path_.c_str(), 0700) != 0 || ::chmod(path_.c_str(), mode | search) != 0) {
    fail_io("can't be made", path_);
  }
  descriptor_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (descriptor_.number() < 0) {
    fail_io("can't be opened", path_);
  }
}

StagedDirectory::~StagedDirectory() {
  if (!published_) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
}

void StagedDirectory::publish(const std::filesystem::path& final_path) {
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_path.c_str(), RENAME_NOREPLACE) != 0) {
    // Some file systems don't know the flag; an empty directory of the final name would be replaced then, which harms nobody.
    if (errno != EINVAL || ::rename(path_.c_str(), final_path.c_str()) != 0) {
      fail_io("can't be given the name " + final_path.filename().string(), path_);
    }
  }
  published_ = true;
  sync_directory(final_path.parent_path());
}

}  // namespace msvis
