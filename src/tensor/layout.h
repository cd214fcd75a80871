// What a file says about its tensor, before the elements are read.
#pragma once

#include <cstdint>
#include <vector>

#include "msvis/tensor.h"
#include "tensor/byte_source.h"

namespace msvis {

struct TensorLayout {
  /// Where the storage (the array that the tensor is a view of) is.
  enum class Place : std::uint8_t {
    file,      ///< as it is, at storage_offset of the file
    deflated,  ///< compressed, at storage_offset of the file
    buffer,    ///< in `storage`
    chunks,    ///< in the chunks of a pack
  };

  DType stored = DType::float32;  ///< type in the storage
  DType dtype = DType::float32;   ///< type of the tensor; elements are converted if it differs
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;  ///< elements
  std::uint64_t first = 0;             ///< element of the storage where the tensor begins
  bool swap = false;                   ///< the storage is big endian
  bool conjugate = false;              ///< imaginary parts are to be negated
  bool negate = false;                 ///< all values are to be negated

  Place place = Place::file;
  std::uint64_t storage_offset = 0;
  std::uint64_t storage_bytes = 0;     ///< what the tensor may use, uncompressed
  std::uint64_t compressed_bytes = 0;  ///< deflated only
  std::uint64_t record_bytes = 0;      ///< deflated only: size of the whole record, uncompressed
  std::uint32_t crc = 0;               ///< deflated only
  PooledBuffer storage;

  // Set by check_layout:
  std::uint64_t element_count = 0;
  std::uint64_t extent = 0;  ///< elements of the storage from `first` to the last element of the tensor
};

/// Row-major strides of a shape, saturating (check_layout finds the overflow).
std::vector<std::uint64_t> row_major_strides(const std::vector<std::uint64_t>& shape);

/// Whether the elements of such a view stand in logical order without gaps. Also true without elements.
bool is_row_major(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& strides);

/// Checks dimensions, overflow and that every element is inside the storage; sets element_count and extent. Throws TensorError.
void check_layout(TensorLayout& layout, const ByteSource& source);

/// `.pt`, either container.
TensorLayout read_torch_layout(const ByteSource& source, const ReadHints& hints);
/// Whether the file starts like one of them.
bool looks_like_torch(std::span<const std::byte> start);

/// `.npy`.
TensorLayout read_npy_layout(const ByteSource& source, const ReadHints& hints);
bool looks_like_npy(std::span<const std::byte> start);

}  // namespace msvis
