// Reading the tensors of a packed rank against those of the directory, warm cache, as the comparison reads them.
//
//   pack_bench [DIRECTORY [FILES [LARGE_MIB]]]      (default: the temporary directory, 100000, 256)
//
// Small tensors: opened by name and read, files per second of the pack over those of the directory (goal: 3). Large tensor: walked in
// blocks of 1 MiB with a sum over the values, bytes per second of the pack over those of the file (goal: 0.9); compressed as well. The two
// take turns; the best of five rounds counts. Seconds are those of the processor, and those of the clock behind them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "msvis/tensor_pack.h"
#include "pack/pack_rank.h"
#include "support/tensor_files.h"

namespace {

namespace fs = std::filesystem;
using msvis::PackOptions;
using msvis::ReadHints;
using msvis::TensorFile;
using msvis::TensorStore;

struct Seconds {
  double processor = 1e99;
  double clock = 1e99;
};

void time_into(Seconds& best, const std::function<void()>& work) {
  const auto processor = [] {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  const double begin = processor();
  const auto clock_begin = std::chrono::steady_clock::now();
  work();
  best.clock = std::min(best.clock, std::chrono::duration<double>(std::chrono::steady_clock::now() - clock_begin).count());
  best.processor = std::min(best.processor, processor() - begin);
}

void add_tensor(const fs::path& file, std::size_t elements) {
  msvis::test::TorchSpec spec;
  spec.size = {static_cast<std::int64_t>(elements)};
  spec.stride = {1};
  spec.storage.resize(elements * sizeof(float));
  for (std::size_t k = 0; k < elements; ++k) {
    const float value = static_cast<float>(k * 2654435761U % 1000003) * 1e-3F;
    std::memcpy(spec.storage.data() + k * sizeof value, &value, sizeof value);
  }
  std::ofstream(file, std::ios::binary) << msvis::test::torch_zip(spec);
}

std::uint64_t sum = 0;

void add_up(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    sum += word;
  }
}

void walk(const TensorStore& store, const std::string& name) {
  constexpr std::uint64_t block = std::uint64_t{1} << 18;  // elements
  TensorFile file = store.open(store.resolve(name, msvis::Compat::standard), ReadHints{});
  for (std::uint64_t first = 0; first < file.element_count(); first += block) {
    add_up(file.read(first, std::min(block, file.element_count() - first)));
  }
}

void tell(const char* what, double amount, const char* unit, const Seconds& directory, const Seconds& pack) {
  std::printf("%-32s directory %10.1f %s, pack %10.1f %s, ratio %.2f (by the clock %.2f)\n", what, amount / directory.processor, unit,
              amount / pack.processor, unit, directory.processor / pack.processor, directory.clock / pack.clock);
}

/// A copy of the rank whose files are packed.
fs::path packed_copy(const fs::path& rank, const char* name, int compression) {
  const fs::path copy = rank.parent_path() / name;
  fs::create_directory(copy);
  fs::create_directory_symlink(rank / "dump_tensor_data", copy / "dump_tensor_data");
  PackOptions options;
  options.compression = compression;
  options.threads = 2;
  msvis::pack_rank(copy, options);
  fs::remove(copy / "dump_tensor_data");
  return copy;
}

void bench(const fs::path& folder, const std::vector<std::string>& names, double amount, const char* what, const char* unit,
           int compression) {
  const fs::path packed = packed_copy(folder / "rank0", compression > 0 ? "compressed" : "packed", compression);
  Seconds of_directory;
  Seconds of_pack;
  for (int round = 0; round < 5; ++round) {
    for (auto& [rank, seconds] : {std::pair(folder / "rank0", &of_directory), std::pair(packed, &of_pack)}) {
      time_into(*seconds, [&rank = rank, &names] {
        const TensorStore store(rank);  // reading the index counts
        for (const std::string& name : names) {
          walk(store, name);
        }
      });
    }
  }
  tell(what, amount, unit, of_directory, of_pack);
  fs::remove_all(packed);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const fs::path folder =
        fs::path(argc > 1 ? argv[1] : fs::temp_directory_path().c_str()) / ("msvis-pack-bench-" + std::to_string(::time(nullptr)));
    const std::size_t files = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 100'000;
    const std::size_t large_bytes = (argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 256) << 20;
    fs::create_directories(folder / "rank0" / "dump_tensor_data");
    const fs::path data = folder / "rank0" / "dump_tensor_data";
    std::vector<std::string> names;
    for (std::size_t k = 0; k < files; ++k) {
      names.push_back("Module.layers.0.mlp.Linear.forward." + std::to_string(k) + ".output.0.pt");
      add_tensor(data / names.back(), 1024);
    }
    bench(folder, names, static_cast<double>(files), "tensors of 4 KiB", "files/s", 0);
    fs::remove_all(data);
    fs::create_directory(data);
    add_tensor(data / "large.pt", large_bytes / sizeof(float));
    bench(folder, {"large.pt"}, static_cast<double>(large_bytes) / 1e6, "large tensor", "MB/s", 0);
    bench(folder, {"large.pt"}, static_cast<double>(large_bytes) / 1e6, "large tensor, compressed", "MB/s", 1);
    fs::remove_all(folder);
    return sum == 0 ? 1 : 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
