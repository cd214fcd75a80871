// Files of small dumps for tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

#include "support/temporary_directory.h"

namespace msvis::test {

inline void write_file(const std::filesystem::path& file, std::string_view text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

/// The three files of a dump; `dump` is the whole text of dump.json.
inline void write_dump(const std::filesystem::path& directory, std::string_view construct, std::string_view dump = R"({"data": {}})",
                       std::string_view stack = "{}") {
  write_file(directory / "construct.json", construct);
  write_file(directory / "dump.json", dump);
  write_file(directory / "stack.json", stack);
}

}  // namespace msvis::test
