// Writes the seeds of fuzz_pt, fuzz_npy and fuzz_pack: make_tensor_seeds DIRECTORY creates DIRECTORY/pt, DIRECTORY/npy and DIRECTORY/pack.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "support/pack_files.h"
#include "support/tensor_files.h"

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    std::cerr << "usage: make_tensor_seeds DIRECTORY\n";
    return 2;
  }
  const std::filesystem::path directory = arguments[1];
  int number = 0;
  auto files = msvis::test::seed_tensor_files();
  files.emplace_back(".pack", msvis::test::hand_made_pack());
  for (const auto& [suffix, bytes] : files) {
    const std::filesystem::path folder = directory / suffix.substr(1);
    std::filesystem::create_directories(folder);
    std::ofstream out(folder / (std::to_string(number++) + suffix), std::ios::binary);
    out << bytes;
    if (!out.flush()) {
      std::cerr << "can't write below " << directory << '\n';
      return 1;
    }
  }
  return 0;
}
