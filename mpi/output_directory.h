// The directory of the result: checked and created before any work.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace msvis {

class OutputDirectory {
 public:
  /// Creates the directory and missing parents with mode 0750 whatever the umask. Throws Error (path) if that is not possible, if the
  /// path is no directory, or if it is not writable.
  explicit OutputDirectory(const std::filesystem::path& path);
  /// Removes the directories that the constructor made, unless keep() was called or they are not empty.
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  void keep() { created_.clear(); }
  /// One sentence for each thing that the viewer will not like: another result, a symbolic link, write permission for others.
  [[nodiscard]] std::vector<std::string> warnings() const;

 private:
  void remove_created() const;

  std::filesystem::path path_;
  std::vector<std::filesystem::path> created_;  // innermost first
};

}  // namespace msvis
