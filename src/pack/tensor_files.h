// Tensor files as they are restored from a pack.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "msvis/dtype.h"
#include "msvis/tensor.h"

namespace msvis {

/// What stands before and behind the elements (contiguous, row-major, little endian) in a file.
struct TensorFileFrame {
  std::string before;
  std::string behind;
};

/// Version 1.0 of the `.npy` format. The element type must be one of numpy's.
TensorFileFrame npy_frame(DType dtype, std::span<const std::uint64_t> shape);

/// The zip container of PyTorch >= 1.6 with a dense tensor that owns its storage. `crc`: CRC-32 of the elements, `bytes`: how many.
TensorFileFrame pt_frame(DType dtype, std::span<const std::uint64_t> shape, std::uint64_t bytes, std::uint32_t crc);

}  // namespace msvis
