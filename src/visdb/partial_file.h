// The result file while it is being written: created exclusively under a name of its own, published by rename.
#pragma once

#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

namespace msvis {

/// `<prefix><YYYYMMDDhhmmss>.vis.db.partial` in a directory, with mode 0640 whatever the umask.
class PartialFile {
 public:
  /// Creates the file with the first time stamp from `now` on (local time) for which neither the final nor the partial name exists.
  /// Throws Error (path) if the directory can't be used, Error (io) if the file can't be created.
  PartialFile(const std::filesystem::path& directory, const std::string& prefix, std::time_t now);
  /// Takes over a file that an earlier run left. Throws Error (path) if its name is none of a partial file or it can't be opened.
  explicit PartialFile(const std::filesystem::path& existing);
  /// The files of this form in a directory, newest time stamp first.
  static std::vector<std::filesystem::path> find(const std::filesystem::path& directory, const std::string& prefix);
  /// Removes the file, and its journal, unless publish() was reached or keep(true) was called.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// A name of the directory that stays good when the directory is moved and that is short however long its path is; ends in a slash.
  [[nodiscard]] const std::string& directory_prefix() const { return directory_prefix_; }
  [[nodiscard]] std::string name() const { return path_.filename().string(); }

  void keep(bool keep) { kept_ = keep; }

  /// Syncs the file, which nobody may have open any more, gives it its final name without replacing any file, and syncs the directory. If
  /// the final name has been taken meanwhile, the next free second is used. Returns the final path. Throws Error (io).
  std::filesystem::path publish();

 private:
  [[nodiscard]] std::string final_name(std::time_t time) const;
  void open_directory(const std::filesystem::path& directory);
  void close_directory() noexcept;

  std::filesystem::path directory_;
  std::filesystem::path path_;
  std::string prefix_;
  std::string directory_prefix_;
  std::time_t time_ = 0;
  int directory_descriptor_ = -1;
  bool published_ = false;
  bool kept_ = false;
};

}  // namespace msvis
