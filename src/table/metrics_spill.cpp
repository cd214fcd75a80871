#include "table/metrics_spill.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "msvis/error.h"

namespace msvis {
namespace {

constexpr mode_t file_mode = 0640;
constexpr std::uint32_t batch_frame = 0x4D56'5342;
constexpr std::uint32_t removal_frame = 0x4D56'5352;
/// Kind, check sum, number of bytes of the content.
constexpr std::size_t frame_head = 2 * sizeof(std::uint32_t) + sizeof(std::uint64_t);

std::uint32_t check_sum(std::uint32_t kind, std::string_view content) {
  const auto begin = ::crc32_z(0, reinterpret_cast<const Bytef*>(&kind), sizeof kind);
  return static_cast<std::uint32_t>(::crc32_z(begin, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

/// Bytes read; fewer than asked for at the end of the file, -1 for an error.
ssize_t read_at(int descriptor, char* to, std::size_t size, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(descriptor, to + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return -1;
    }
    if (got == 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

bool write_at(int descriptor, std::string_view bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      return false;
    }
    offset += static_cast<std::size_t>(put);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace

MetricsSpill::MetricsSpill(std::filesystem::path file) : file_(std::move(file)) {
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file_mode);
  if (descriptor_ < 0) {
    kept_ = true;
    fail("the rows of the parameter table (--metrics) can't be stored there", errno);
  }
  ::fchmod(descriptor_, file_mode);
}

MetricsSpill MetricsSpill::resume(std::filesystem::path file, std::uint64_t committed) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  MetricsSpill spill(std::move(file), descriptor);
  spill.kept_ = true;  // a file that can't be used is left for a look at it
  if (descriptor < 0) {
    spill.fail("the rows of the parameter table (--metrics) of the interrupted run can't be opened", errno);
  }
  spill.scan(committed);
  spill.truncate(committed);
  spill.kept_ = false;
  return spill;
}

MetricsSpill::MetricsSpill(MetricsSpill&& other) noexcept
    : file_(std::move(other.file_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      kept_(std::exchange(other.kept_, true)),
      frames_(std::move(other.frames_)),
      removals_(std::move(other.removals_)) {}

MetricsSpill::~MetricsSpill() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    if (!kept_) {
      ::unlink(file_.c_str());
    }
  }
}

void MetricsSpill::fail(const std::string& what, int error) const {
  throw Error(ErrorCategory::io, what + ": " + std::generic_category().message(error), file_);
}

void MetricsSpill::fail_damaged(std::uint64_t offset) const {
  throw Error(ErrorCategory::io, "the stored rows of the parameter table (--metrics) are damaged; start the run anew", file_, offset);
}

void MetricsSpill::append_frame(std::uint32_t kind, std::string_view content) {
  std::array<char, frame_head> head{};
  const std::uint32_t sum = check_sum(kind, content);
  const std::uint64_t bytes = content.size();
  std::memcpy(head.data(), &kind, sizeof kind);
  std::memcpy(head.data() + sizeof kind, &sum, sizeof sum);
  std::memcpy(head.data() + sizeof kind + sizeof sum, &bytes, sizeof bytes);
  if (!write_at(descriptor_, {head.data(), head.size()}, size_) || !write_at(descriptor_, content, size_ + head.size())) {
    fail("the rows of the parameter table (--metrics) could not be stored", errno);
  }
  size_ += head.size() + content.size();
}

void MetricsSpill::append(std::string_view batch) {
  const MetricsBatchHeader header = read_metrics_header(batch);
  const std::uint64_t offset = size_;
  append_frame(batch_frame, batch);
  frames_.push_back({offset, batch.size(), header});
}

void MetricsSpill::remove(std::int64_t step, std::int64_t rank) {
  const std::uint64_t offset = size_;
  ByteWriter content;
  content.put(step);
  content.put(rank);
  append_frame(removal_frame, content.bytes());
  removals_.push_back({offset, step, rank});
}

void MetricsSpill::truncate(std::uint64_t size) {
  std::erase_if(frames_, [size](const Frame& frame) { return frame.offset >= size; });
  std::erase_if(removals_, [size](const Removal& removal) { return removal.offset >= size; });
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    fail("the rows of the parameter table (--metrics) can't be cut", errno);
  }
  size_ = size;
}

void MetricsSpill::sync() {
  if (::fdatasync(descriptor_) != 0) {
    fail("the rows of the parameter table (--metrics) can't be synced to disk", errno);
  }
}

void MetricsSpill::scan(std::uint64_t size) {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    fail("the rows of the parameter table (--metrics) can't be examined", errno);
  }
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) < size) {
    fail_damaged(static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0)));
  }
  std::string content;
  for (std::uint64_t offset = 0; offset < size;) {
    std::array<char, frame_head> head{};
    std::uint32_t kind = 0;
    std::uint32_t sum = 0;
    std::uint64_t bytes = 0;
    if (size - offset < frame_head || read_at(descriptor_, head.data(), head.size(), offset) != static_cast<ssize_t>(frame_head)) {
      fail_damaged(offset);
    }
    std::memcpy(&kind, head.data(), sizeof kind);
    std::memcpy(&sum, head.data() + sizeof kind, sizeof sum);
    std::memcpy(&bytes, head.data() + sizeof kind + sizeof sum, sizeof bytes);
    if ((kind != batch_frame && kind != removal_frame) || bytes > size - offset - frame_head) {
      fail_damaged(offset);
    }
    content.resize(bytes);
    if (read_at(descriptor_, content.data(), bytes, offset + frame_head) != static_cast<ssize_t>(bytes) ||
        check_sum(kind, content) != sum) {
      fail_damaged(offset);
    }
    if (kind == batch_frame) {
      frames_.push_back({offset, bytes, read_metrics_header(content)});
    } else {
      ByteReader in(content);
      const auto step = in.get<std::int64_t>();
      removals_.push_back({offset, step, in.get<std::int64_t>()});
    }
    offset += frame_head + bytes;
  }
  size_ = size;
}

std::vector<MetricsSpill::Frame> MetricsSpill::frames() const {
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> removed;
  for (const Removal& removal : removals_) {
    removed[{removal.step, removal.rank}] = removal.offset;  // the last one is the farthest
  }
  std::vector<Frame> counted;
  for (const Frame& frame : frames_) {
    const auto until = removed.find({frame.header.step, frame.header.rank});
    if (until == removed.end() || frame.offset > until->second) {
      counted.push_back(frame);
    }
  }
  std::stable_sort(counted.begin(), counted.end(), [](const Frame& left, const Frame& right) {
    return std::tie(left.header.step, left.header.rank, left.header.block) <
           std::tie(right.header.step, right.header.rank, right.header.block);
  });
  return counted;
}

std::string MetricsSpill::read(const Frame& frame) const {
  std::string bytes(frame_head + frame.size, '\0');
  const ssize_t got = read_at(descriptor_, bytes.data(), bytes.size(), frame.offset);
  if (got < 0) {
    fail("the stored rows of the parameter table (--metrics) can't be read", errno);
  }
  std::uint32_t sum = 0;
  std::memcpy(&sum, bytes.data() + sizeof(std::uint32_t), sizeof sum);
  if (got != static_cast<ssize_t>(bytes.size()) || check_sum(batch_frame, std::string_view(bytes).substr(frame_head)) != sum) {
    fail_damaged(frame.offset);
  }
  bytes.erase(0, frame_head);
  return bytes;
}

}  // namespace msvis
