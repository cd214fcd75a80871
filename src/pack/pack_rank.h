// Packing, checking and unpacking the tensor files of one rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace msvis {

struct PackOptions {
  int compression = 0;                                                                 ///< 0: none; 1 to 9
  bool verify = false;                                                                 ///< compare with the originals afterwards
  bool replace = false;                                                                ///< remove the originals after that; implies verify
  bool unpack = false;                                                                 ///< the other way
  unsigned threads = 1;                                                                ///< that compress
  std::function<bool()> interrupted = [] { return false; };                            ///< asked often; true ends the work with an Error
  std::function<void(std::uint64_t bytes)> progress = [](std::uint64_t /*bytes*/) {};  ///< original bytes done since the last call
};

/// What became of a rank.
struct PackResult {
  enum class Outcome : std::uint8_t {
    packed,
    unpacked,
    checked,  ///< was packed before; its checksums were verified if that was asked for
  };
  Outcome outcome = Outcome::packed;
  std::uint64_t tensors = 0;
  std::uint64_t kept_as_bytes = 0;   ///< files that are no tensors, or that only their own bytes describe in full
  std::uint64_t irregular = 0;       ///< directories, pipes, ...: only named
  std::uint64_t original_bytes = 0;  ///< of all files
  std::uint64_t packed_bytes = 0;    ///< size of the pack
  bool removed = false;              ///< what was replaced is gone
  std::vector<std::string> notes;    ///< one sentence each
};

/// The bytes of progress that a rank will report: its files, once more if they are verified. 0 if there is nothing.
std::uint64_t pack_cost(const std::filesystem::path& rank_directory, const PackOptions& options);

/// Packs `rank_directory/dump_tensor_data` into `rank_directory/dump_tensor_data.h5`, or the other way round. The new one appears complete
/// or not at all; the old one goes, if that is wished, in one step after the new one is on the disk and has been compared. Throws Error:
/// the old state is then unchanged.
PackResult pack_rank(const std::filesystem::path& rank_directory, const PackOptions& options);

}  // namespace msvis
