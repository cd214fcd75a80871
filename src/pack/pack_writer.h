// Writes a packed rank (docs/pack-format.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/tensor.h"

namespace msvis {

/// Gives `count` bytes of a payload from byte `first` on; called in ascending order without gaps. Valid until the next call.
using PayloadSource = std::function<std::span<const std::byte>(std::uint64_t first, std::uint64_t count)>;

/// What HDF5 can't hold as a dataset stays a file of bytes.
inline constexpr std::size_t max_packed_dimensions = 32;

class PackWriter {
 public:
  struct Options {
    int compression = 0;   ///< 0: none, 1 (fast) to 9 (small): of tensors that take some space
    unsigned threads = 1;  ///< that compress
  };

  /// Writes into an open, empty file that has this name. Throws Error (io) as all functions do.
  PackWriter(const std::filesystem::path& file, int descriptor, const Options& options);
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  /// Names must differ. Returns the CRC-32 of the payload. `file_bytes`: size of the original file.
  std::uint32_t add_tensor(std::string_view name, std::uint64_t file_bytes, TensorFormat format, DType dtype,
                           const std::vector<std::uint64_t>& shape, const PayloadSource& source);
  std::uint32_t add_bytes(std::string_view name, std::uint64_t file_bytes, const PayloadSource& source);
  /// Something that is no regular file: only its name is kept.
  void add_irregular(std::string_view name);

  /// Writes the index and the header and closes the file for HDF5; the descriptor stays open. Returns the size of the file.
  std::uint64_t finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace msvis
