// What the tests of packs share: a rank directory with tensor files, and what a reader finds in it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "msvis/tensor.h"
#include "msvis/tensor_pack.h"
#include "pack/pack_rank.h"
#include "support/temporary_directory.h"
#include "support/tensor_files.h"

namespace msvis::test {

namespace fs = std::filesystem;

inline std::string read_bytes(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

inline std::string random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(random());
  }
  return bytes;
}

inline std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * std::max<std::int64_t>(shape[d], 1);
  }
  return strides;
}

inline std::size_t count_of(const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) {
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

/// A contiguous tensor of random bits as torch.save would write it.
inline std::string random_pt(DType dtype, const std::vector<std::int64_t>& shape, std::uint64_t seed) {
  TorchSpec spec;
  spec.dtype = dtype;
  spec.size = shape;
  spec.stride = strides_of(shape);
  spec.storage = random_bytes(count_of(shape) * dtype_size(dtype), seed);
  return torch_zip(spec);
}

inline std::string random_npy(DType dtype, const std::vector<std::int64_t>& shape, std::uint64_t seed) {
  const DTypeInfo& info = dtype_info(dtype);
  return npy((info.scalar_size > 1 ? "<" : "|") + std::string(info.numpy_code), shape, false,
             random_bytes(count_of(shape) * dtype_size(dtype), seed));
}

/// A rank directory that lives as long as a test.
class Rank {
 public:
  Rank() { fs::create_directory(tensors()); }
  [[nodiscard]] fs::path path() const { return directory_.path(); }
  [[nodiscard]] fs::path tensors() const { return path() / "dump_tensor_data"; }
  [[nodiscard]] fs::path packed() const { return path() / "dump_tensor_data.h5"; }
  void add(const std::string& name, const std::string& bytes) const { std::ofstream(tensors() / name, std::ios::binary) << bytes; }
  /// Names in the rank directory.
  [[nodiscard]] std::set<std::string> holds() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(tensors())) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }

 private:
  TemporaryDirectory directory_;
};

/// What a reader finds under a name: type, shape and elements, or what is wrong.
inline std::string found_in(const TensorStore& store, const std::string& name, const ReadHints& hints) {
  try {
    const fs::path file = store.resolve(name, hints.compat);
    Tensor tensor = store.open(file, hints).load();
    std::string text(dtype_name(tensor.dtype()));
    for (const std::uint64_t size : tensor.shape()) {
      text += " " + std::to_string(size);
    }
    const auto elements = tensor.contiguous();
    return text + ": " + std::string(reinterpret_cast<const char*>(elements.data()), elements.size());
  } catch (const TensorError& error) {
    if (error.fault() == TensorFault::bad_name) {
      return "forbidden: " + error.message();  // no file to name
    }
    return "fault " + std::string(tensor_fault_text(error.fault())) + " in " + error.file().filename().string() + ": " + error.message();
  }
}

/// The same of all names under every reading rule.
inline std::map<std::string, std::string> found_in(const fs::path& rank, const std::set<std::string>& names) {
  const TensorStore store(rank);
  std::map<std::string, std::string> found;
  for (const std::string& name : names) {
    for (const Compat compat : {Compat::standard, Compat::reference}) {
      for (const ReaderRule rule : {ReaderRule::any, ReaderRule::pt_only, ReaderRule::npy_only}) {
        for (const std::string_view dtype : {"", "torch.bfloat16"}) {
          ReadHints hints;
          hints.compat = compat;
          hints.rule = rule;
          hints.dtype = dtype;
          found[name + " " + std::to_string(static_cast<int>(compat)) + std::to_string(static_cast<int>(rule)) + std::string(dtype)] =
              found_in(store, name, hints);
        }
      }
    }
  }
  return found;
}

}  // namespace msvis::test
