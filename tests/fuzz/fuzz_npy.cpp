// Arbitrary bytes as a `.npy` file.
#include "fuzz/fuzz_tensor.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  msvis::test::fuzz_tensor(data, size, "input.npy", msvis::ReaderRule::npy_only);
  return 0;
}
