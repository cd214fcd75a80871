#include "tensor/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace msvis {
namespace {

constexpr std::size_t largest_read = std::size_t{1} << 30;  // Linux takes a little less than 2 GiB per call

std::string system_text(int code) {
  return std::generic_category().message(code);
}

}  // namespace

std::string one_line(std::string_view text, std::size_t max_length) {
  std::string out;
  for (const char c : text.substr(0, max_length)) {
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  if (text.size() > max_length) {
    out += "...";
  }
  return out;
}

std::string text_of_size_limit(std::uint64_t size, std::uint64_t limit) {
  return "has " + std::to_string(size) + " bytes; the limit is " + std::to_string(limit);
}

ByteSource::ByteSource(const std::filesystem::path& file, BufferPool& pool, std::uint64_t max_buffer_bytes, std::uint64_t max_file_bytes,
                       bool drop_cache)
    : name_(file), pool_(pool), max_buffer_bytes_(max_buffer_bytes), drop_cache_(drop_cache) {
  do {
    // O_NONBLOCK: a named pipe must not hold the program up before it is found to be no file.
    descriptor_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) {
    const int code = errno;
    if (code == ENOENT || code == ENOTDIR) {
      fail(TensorFault::missing, no_such_file);
    }
    fail(TensorFault::unreadable, "can't be opened: " + system_text(code));
  }
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      fail(TensorFault::unreadable, "can't be examined: " + system_text(errno));
    }
    if (!S_ISREG(status.st_mode)) {
      fail(TensorFault::unreadable, no_regular_file);
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
    if (size_ > max_file_bytes) {
      fail(TensorFault::too_large, text_of_size_limit(size_, max_file_bytes));
    }
    read_small_file();
  } catch (...) {
    close_file();
    throw;
  }
}

ByteSource::ByteSource(std::span<const std::byte> bytes, const std::filesystem::path& name, BufferPool& pool,
                       std::uint64_t max_buffer_bytes)
    : name_(name), pool_(pool), max_buffer_bytes_(max_buffer_bytes), size_(bytes.size()), memory_(bytes) {}

ByteSource::ByteSource(int descriptor, std::uint64_t offset, std::uint64_t size, const std::filesystem::path& name, BufferPool& pool,
                       std::uint64_t max_buffer_bytes, bool drop_cache)
    : name_(name),
      pool_(pool),
      max_buffer_bytes_(max_buffer_bytes),
      drop_cache_(drop_cache),
      descriptor_(descriptor),
      owns_descriptor_(false),
      begin_(offset),
      size_(size) {
  read_small_file();
}

void ByteSource::read_small_file() {
  if (size_ <= TensorLimits::whole_file_bytes) {
    whole_ = acquire(size_);
    read_exactly(descriptor_, begin_, whole_.bytes(), name_);
    memory_ = whole_.bytes();
    close_file();
  }
}

ByteSource::~ByteSource() {
  close_file();
}

void ByteSource::close_file() {
  if (descriptor_ >= 0) {
    if (drop_cache_ && size_ > 0) {
      (void)::posix_fadvise(descriptor_, static_cast<off_t>(begin_), owns_descriptor_ ? 0 : static_cast<off_t>(size_), POSIX_FADV_DONTNEED);
    }
    if (owns_descriptor_) {
      ::close(descriptor_);
    }
    descriptor_ = -1;
  }
}

void ByteSource::require(std::uint64_t offset, std::uint64_t size) const {
  if (offset > size_ || size > size_ - offset) {
    fail(TensorFault::damaged,
         "ends early: " + std::to_string(size) + " bytes are needed here, the file has " + std::to_string(size_) + " bytes", offset);
  }
}

void read_exactly(int descriptor, std::uint64_t offset, std::span<std::byte> out, const std::filesystem::path& name) {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor, out.data(), std::min(out.size(), largest_read), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw TensorError(TensorFault::unreadable, "can't be read: " + system_text(errno), name, offset);
    }
    if (got == 0) {
      throw TensorError(TensorFault::damaged, "became shorter while it was read", name, offset);
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void ByteSource::read(std::uint64_t offset, std::span<std::byte> out) const {
  require(offset, out.size());
  if (!in_memory()) {
    read_exactly(descriptor_, begin_ + offset, out, name_);
  } else if (!out.empty()) {
    std::memcpy(out.data(), memory_.data() + offset, out.size());
  }
}

std::span<const std::byte> ByteSource::view(std::uint64_t offset, std::uint64_t size, PooledBuffer& scratch) const {
  require(offset, size);
  if (in_memory()) {
    return memory_.subspan(offset, size);
  }
  scratch = acquire(size);
  read_exactly(descriptor_, begin_ + offset, scratch.bytes(), name_);
  return scratch.bytes();
}

PooledBuffer ByteSource::acquire(std::uint64_t bytes) const {
  if (bytes > max_buffer_bytes_) {
    fail(TensorFault::too_large,
         "needs a buffer of " + std::to_string(bytes) + " bytes; the limit is " + std::to_string(max_buffer_bytes_));
  }
  return pool_.acquire(bytes);
}

void ByteSource::fail(TensorFault fault, const std::string& message) const {
  throw TensorError(fault, message, name_);
}

void ByteSource::fail(TensorFault fault, const std::string& message, std::uint64_t offset) const {
  throw TensorError(fault, message, name_, offset);
}

}  // namespace msvis
