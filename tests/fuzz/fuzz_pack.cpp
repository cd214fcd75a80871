// Arbitrary bytes as a packed rank, with checksums set right: otherwise nothing behind them would ever be reached.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "fuzz_dump_files.h"
#include "msvis/tensor_pack.h"
#include "support/pack_files.h"

namespace {

/// Reads all files of a pack as a whole and in pieces. Anything but tensors and TensorErrors is a fault.
void read_all(const std::filesystem::path& directory, msvis::Compat compat) {
  const msvis::TensorStore store(directory);
  if (store.fault()) {
    return;
  }
  const msvis::TensorPack pack(directory / msvis::pack_file_name);
  for (std::size_t k = 0; k < pack.size() && k < 50; ++k) {
    if (pack.find(pack.name(k)) != k) {
      std::abort();
    }
    msvis::ReadHints hints;
    hints.dtype = "torch.bfloat16";
    hints.compat = compat;
    hints.max_buffer_bytes = std::uint64_t{4} << 20;
    try {
      const std::filesystem::path name = store.resolve(pack.name(k), compat);
      msvis::Tensor tensor = store.open(name, hints).load();
      if (tensor.byte_count() > hints.max_buffer_bytes) {
        continue;
      }
      const std::span<const std::byte> whole = tensor.contiguous();
      msvis::TensorFile file = store.open(name, hints);
      if (whole.size() != file.byte_count()) {
        std::abort();
      }
      const std::uint64_t half = file.element_count() / 2;
      if (file.can_stream()) {
        const std::size_t size = msvis::dtype_size(file.dtype());
        const auto piece = file.read(half, file.element_count() - half);
        if (!std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<std::ptrdiff_t>(half * size), whole.end())) {
          std::abort();
        }
      }
      (void)pack.payload_crc(pack.entry(k), msvis::BufferPool::shared());
    } catch (const msvis::TensorError&) {
      // refused, as it should be
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const msvis::FuzzDirectory directory("pack");
  std::string pack(reinterpret_cast<const char*>(data), size);
  msvis::test::seal_pack(pack, size % 8 != 0);
  directory.write(msvis::pack_file_name, pack);
  read_all(directory.path(), size % 2 == 0 ? msvis::Compat::standard : msvis::Compat::reference);
  return 0;
}
