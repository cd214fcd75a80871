// How the tensor of a merged parameter is made up from the files of several ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace msvis {

/// A tree: leaves are files of ranks. Every part may be made up of parts itself (tensor parallelism inside of context parallelism).
struct TensorParts {
  enum class Kind : std::uint8_t {
    file,    ///< one file of one rank
    joined,  ///< the parts one after the other along a dimension, as `runs` says
    summed,  ///< the sum of the parts
    none,    ///< can't be made up; `reason` says why
  };
  /// `length` from `offset` on along the dimension, of a part. The runs of a joined tensor are in its order.
  struct Run {
    std::uint32_t part = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };

  Kind kind = Kind::file;
  std::filesystem::path directory;  ///< file: the dump directory of the rank
  std::string data_name;            ///< file: as in dump.json
  std::string dtype;                ///< file: as in dump.json; may be empty
  std::uint32_t dimension = 0;      ///< joined
  std::vector<Run> runs;            ///< joined
  std::vector<TensorParts> parts;   ///< joined, summed
  bool padded = false;              ///< joined: the other side may have fewer rows at the end (vocabulary padding)
  std::string reason;               ///< none
  /// Tensors of other ranks that should hold the same bits; they are read as well, and what differs is reported.
  std::vector<TensorParts> replicas;
  /// The statistics of the replicas differ: each is compared, the worst is shown.
  bool diverged = false;
};

}  // namespace msvis
