// The rows of the parameter table while a run goes on: batches in a file beside the partial result.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "table/metrics_batch.h"

namespace msvis {

/// A file of frames: batches, and notes that all batches of a (step, rank) up to there do not count. Each frame has its length and a check
/// sum, so that a torn end is found. One thread at a time. All functions throw Error (io) naming the file.
class MetricsSpill {
 public:
  /// Where a batch is.
  struct Frame {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    MetricsBatchHeader header;
  };

  /// Creates the file, which must not exist, with mode 0640.
  explicit MetricsSpill(std::filesystem::path file);
  /// Opens the file of an interrupted run and drops all behind `committed` bytes, a value of size(). Throws as well if a frame before that
  /// is damaged.
  static MetricsSpill resume(std::filesystem::path file, std::uint64_t committed);
  /// Removes the file, unless keep(true) was called.
  ~MetricsSpill();
  MetricsSpill(MetricsSpill&& other) noexcept;
  MetricsSpill& operator=(MetricsSpill&&) = delete;
  MetricsSpill(const MetricsSpill&) = delete;
  MetricsSpill& operator=(const MetricsSpill&) = delete;

  /// Adds a batch of make_metrics_batches.
  void append(std::string_view batch);
  /// Takes back all batches of one (step, rank).
  void remove(std::int64_t step, std::int64_t rank);
  /// Bytes so far; after sync() they survive a crash of the machine.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Forgets what was added behind `size` bytes, a value that size() had.
  void truncate(std::uint64_t size);
  void sync();
  /// Whether the file stays when the object goes.
  void keep(bool keep) { kept_ = keep; }
  [[nodiscard]] const std::filesystem::path& path() const { return file_; }

  /// Batches that count, sorted by step, rank and block; batches of one block stand in the order in which they came.
  [[nodiscard]] std::vector<Frame> frames() const;
  /// The bytes of a batch. Throws if they are not those that were written.
  [[nodiscard]] std::string read(const Frame& frame) const;

 private:
  MetricsSpill(std::filesystem::path file, int descriptor) : file_(std::move(file)), descriptor_(descriptor) {}
  void append_frame(std::uint32_t kind, std::string_view content);
  /// Finds the frames of the first `size` bytes.
  void scan(std::uint64_t size);
  [[noreturn]] void fail(const std::string& what, int error) const;
  [[noreturn]] void fail_damaged(std::uint64_t offset) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  bool kept_ = false;
  std::vector<Frame> frames_;  ///< in the order of the file, also those of a (step, rank) that was removed later
  struct Removal {
    std::uint64_t offset;
    std::int64_t step;
    std::int64_t rank;
  };
  std::vector<Removal> removals_;
};

}  // namespace msvis
