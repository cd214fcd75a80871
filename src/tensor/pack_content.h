// What TensorPack keeps of its file.
#pragma once

#include <string>
#include <vector>

#include "msvis/tensor_pack.h"
#include "tensor/pack_format.h"

namespace msvis {

struct TensorPack::Content {
  Content() = default;
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;
  ~Content();

  [[nodiscard]] int descriptor() const { return file_descriptor; }

  int file_descriptor = -1;
  PackHeader header;
  std::vector<PackEntry> entries;
  std::string names;
  std::vector<std::uint64_t> sizes;
  std::vector<PackChunk> chunks;
};

}  // namespace msvis
