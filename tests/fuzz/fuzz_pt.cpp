// Arbitrary bytes as a `.pt` file.
#include "fuzz/fuzz_tensor.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  msvis::test::fuzz_tensor(data, size, "input.pt", msvis::ReaderRule::pt_only);
  return 0;
}
