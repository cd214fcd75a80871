// What both fuzzers of tensor files do with an input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "msvis/tensor.h"

namespace msvis::test {

/// Reads the input as a file of that name in both ways: as a whole and in blocks. Anything but a tensor or a TensorError is a fault.
inline void fuzz_tensor(const std::uint8_t* data, std::size_t size, const char* name, ReaderRule rule) {
  ReadHints hints;
  hints.rule = rule;
  hints.dtype = "torch.bfloat16";
  hints.max_buffer_bytes = std::uint64_t{4} << 20;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    Tensor tensor = read_tensor(bytes, name, hints);
    if (tensor.byte_count() > hints.max_buffer_bytes) {
      return;  // a view that repeats its elements; gathering it only costs time
    }
    if (tensor.contiguous().size() != tensor.byte_count() || !tensor.is_contiguous()) {
      std::abort();
    }
    TensorFile file = TensorFile::open(bytes, name, hints);
    if (file.can_stream()) {
      const std::span<const std::byte> whole = tensor.contiguous();
      const std::span<const std::byte> walked = file.read(0, file.element_count());
      if (!std::equal(whole.begin(), whole.end(), walked.begin(), walked.end())) {
        std::abort();
      }
    }
  } catch (const TensorError&) {
    // refused, as it should be
  }
}

}  // namespace msvis::test
