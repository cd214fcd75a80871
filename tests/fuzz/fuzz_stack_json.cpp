// Text of a stack.json, read as part of a dump.
#include <cstdint>

#include "fuzz/fuzz_dump_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const msvis::FuzzDirectory directory;
  directory.read_with("stack.json", {reinterpret_cast<const char*>(bytes), size});
  return 0;
}
