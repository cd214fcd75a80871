// What the tests of tensor files share: values to bytes and back, and what an error must say.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "msvis/tensor.h"
#include "support/temporary_directory.h"
#include "support/tensor_files.h"

namespace msvis::test {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return bytes;
}

template <typename T>
std::vector<T> values_of(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  }
  return values;
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A tensor together with the file in memory that it may point into.
struct Loaded : Tensor {
  explicit Loaded(std::string bytes, const ReadHints& hints = {}) : file(std::move(bytes)) {
    static_cast<Tensor&>(*this) = read_tensor(as_bytes(file), "memory", hints);
  }
  std::string file;
};

/// Values of a file in memory, in logical order.
template <typename T>
std::vector<T> read_values(const std::string& file, const ReadHints& hints = {}) {
  return values_of<T>(Loaded(file, hints).contiguous());
}

inline std::filesystem::path write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

/// Runs `function` and checks that it throws a TensorError of that kind whose text has `words` and is one line.
template <typename Function>
void expect_fault(TensorFault fault, std::string_view words, Function&& function) {
  try {
    function();
    FAIL() << "nothing was thrown, " << tensor_fault_text(fault) << " was expected";
  } catch (const TensorError& error) {
    EXPECT_EQ(tensor_fault_text(error.fault()), tensor_fault_text(fault)) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(std::string(words)));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
}

inline void expect_file_fault(TensorFault fault, std::string_view words, const std::string& file, const ReadHints& hints = {}) {
  expect_fault(fault, words, [&] { (void)read_tensor(as_bytes(file), "memory", hints).contiguous(); });
}

/// float32 0, 1, 2, ... in a storage, seen as `size` with `stride` from `offset`.
inline TorchSpec float_view(std::int64_t storage_elements, std::vector<std::int64_t> size, std::vector<std::int64_t> stride,
                            std::int64_t offset = 0) {
  std::vector<float> values(static_cast<std::size_t>(storage_elements));
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[k] = static_cast<float>(k);
  }
  TorchSpec spec;
  spec.size = std::move(size);
  spec.stride = std::move(stride);
  spec.offset = offset;
  spec.storage = bytes_of(values);
  return spec;
}

}  // namespace msvis::test
