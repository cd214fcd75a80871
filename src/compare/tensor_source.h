// Elements of a tensor in logical order, piece by piece, whether they are in one file or in those of several ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "msvis/tensor.h"
#include "msvis/tensor_pack.h"
#include "msvis/tensor_parts.h"

namespace msvis {

/// One thread at a time.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<std::uint64_t>& shape() const { return shape_; }
  [[nodiscard]] std::uint64_t element_count() const { return elements_; }

  /// `count` elements from `first` on, contiguous; valid until the next call. first + count must not exceed element_count(). The memory
  /// used is a few times that of what is asked for, whatever the size of the tensor (except for files that can't be read in pieces). Throws
  /// TensorError.
  virtual std::span<const std::byte> read(std::uint64_t first, std::uint64_t count) = 0;

  /// One file. `hints.dtype` counts. Throws TensorError.
  static std::unique_ptr<TensorSource> open(TensorFile&& file);
  /// A tree of files; the dtypes in it count. Throws TensorError, also if the shapes of the parts do not fit together.
  static std::unique_ptr<TensorSource> open(const TensorParts& parts, const ReadHints& hints, TensorStores& stores);

 protected:
  TensorSource() = default;
  DType dtype_ = DType::float32;
  std::vector<std::uint64_t> shape_;
  std::uint64_t elements_ = 0;
};

}  // namespace msvis
