// A dump directory of which one file is the fuzzer's input.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "msvis/dump.h"
#include "msvis/error.h"

namespace msvis {

class FuzzDirectory {
 public:
  explicit FuzzDirectory(const std::string& name = "dump") {
    std::error_code none;
    const std::filesystem::path base =
        std::filesystem::is_directory("/dev/shm", none) ? "/dev/shm" : std::filesystem::temp_directory_path();
    directory_ = base / ("msvis-fuzz-" + std::to_string(getpid()) + "-" + name);
    std::filesystem::create_directories(directory_);
    write("dump.json", R"({"data":{"a":{"output":[null]}}})");
    write("stack.json", "{}");
    write("construct.json", R"({"a":null})");
  }
  ~FuzzDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  FuzzDirectory(const FuzzDirectory&) = delete;
  FuzzDirectory& operator=(const FuzzDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return directory_; }

  void write(const std::string& name, std::string_view text) const { std::ofstream(directory_ / name, std::ios::binary) << text; }

  /// Reads the dump with this text as the file `name` and asks it everything.
  void read_with(const std::string& name, std::string_view text) const {
    write(name, text);
    try {
      const Dump dump = Dump::read(directory_);
      for (std::size_t k = 0; k < dump.construct.size(); ++k) {
        if (dump.construct_index(dump.construct[k].child) != k) {
          std::abort();
        }
        (void)dump.entry(dump.construct[k].parent);
      }
      for (const auto& [key, value] : dump.stack_root.members()) {
        (void)dump.stack(key);
        for (const JsonValue group : value.elements()) {
          for (const JsonValue element : group.elements()) {
            (void)dump.stack(element.text());
          }
        }
      }
      for (const auto& [key, value] : dump.data.members()) {
        if (!dump.entry(key).same_as(value)) {
          std::abort();
        }
      }
      (void)dump.has_md5();
      (void)dump.detected_framework();
    } catch (const Error&) {
      return;  // refused: all that is asked of wrong input
    }
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace msvis
