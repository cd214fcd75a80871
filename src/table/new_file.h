// A file that appears under its name complete or not at all.
#pragma once

#include <filesystem>

namespace msvis {

class NewFile {
 public:
  /// Creates an empty file beside `file`, under a name of its own; the umask rules its mode. `file` may exist: it is replaced in the end
  /// (what a symbolic link points to, not the link). Throws Error (path) if that is not possible or `file` is no regular file.
  explicit NewFile(const std::filesystem::path& file);
  /// Removes the file unless publish() was reached.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// What to write to.
  [[nodiscard]] const std::filesystem::path& path() const { return temporary_; }
  /// Syncs the file, which nobody may have open for writing any more, and gives it its name. Throws Error (io).
  void publish();

 private:
  std::filesystem::path file_;
  std::filesystem::path temporary_;
};

}  // namespace msvis
