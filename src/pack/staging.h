// Files and directories that get their final name when they are complete, or vanish.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace msvis {

/// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  [[nodiscard]] int number() const { return number_; }
  int release() noexcept;

 private:
  int number_;
};

/// Throws Error (io): what could not be done, and errno's text.
[[noreturn]] void fail_io(const std::string& what, const std::filesystem::path& file);

/// Permission to read and write of a file or directory, without execution. Throws Error (io).
unsigned read_write_mode(const std::filesystem::path& path);
/// Makes a new file with this mode whatever the umask; never follows a link or takes one that is there. `directory` < 0: relative to the
/// current directory. Throws Error (io).
Descriptor create_exclusively(const std::filesystem::path& file, unsigned mode, int directory = -1);
/// Writes all bytes at `offset`. Throws Error (io).
void write_exactly(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes, const std::filesystem::path& file);
/// Puts a file on the disk. Throws Error (io).
void sync_file(int descriptor, const std::filesystem::path& file);
/// Makes names in a directory lasting. Throws Error (io).
void sync_directory(const std::filesystem::path& directory);
/// Puts everything of a directory's file system on the disk: cheaper than syncing very many files. Throws Error (io).
void sync_file_system(const std::filesystem::path& directory);

/// A new, empty file under a temporary name, which a dead run may have left there. Removed when the object dies, unless publish() was
/// reached or somebody else has taken the name meanwhile.
class StagedFile {
 public:
  StagedFile(std::filesystem::path file, unsigned mode);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return descriptor_.number(); }
  /// Whether the name still belongs to this file.
  [[nodiscard]] bool own() const;
  /// Renames, replacing a file of that name, and syncs the directory. The file must have been synced. Throws Error (io).
  void publish(const std::filesystem::path& final_path);

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  bool published_ = false;
};

/// The same for a directory.
class StagedDirectory {
 public:
  /// `mode`: of files in it; who may read may also search.
  StagedDirectory(std::filesystem::path path, unsigned mode);
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return descriptor_.number(); }
  /// Renames; there must be no such name. Syncs the directory above. Throws Error (io).
  void publish(const std::filesystem::path& final_path);

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  bool published_ = false;
};

}  // namespace msvis
