// A SQLite database of ours: connection, statements, and where SQLite puts its files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace msvis::sqlite {

/// A connection. Failures are Error (io) naming `shown`, the path that the user knows.
class Database {
 public:
  /// Opens an existing (empty) file `name` in the directory whose name with a trailing slash is `directory_prefix`. SQLite's temporary
  /// files go to that directory, too, and are unlinked while they are in use. `file_system` names the SQLite VFS that does the work.
  Database(const std::string& directory_prefix, const std::string& name, const std::filesystem::path& shown, const char* file_system);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs statements that give no rows (or whose rows do not matter).
  void run(const char* sql);
  /// Rows changed by the last INSERT, UPDATE or DELETE.
  [[nodiscard]] std::uint64_t changes() const;
  /// Closes the file and reports what closing can report. All statements must be gone.
  void close();
  /// From any thread: what is running fails soon.
  void interrupt();
  [[nodiscard]] sqlite3* handle() const { return handle_; }
  /// Throws the Error for a result code of SQLite.
  [[noreturn]] void fail(int code, const char* doing) const;
  /// Primary or extended code of the last failure.
  [[nodiscard]] int last_code() const;

 private:
  struct FileSystem;
  std::unique_ptr<FileSystem> file_system_;
  std::filesystem::path shown_;
  sqlite3* handle_ = nullptr;
  std::mutex ending_;  // interrupt() against close()
};

/// Whether a failure of this code means that the file system can't lock files, or that somebody else has the lock.
bool is_lock_failure(int code);
/// Whether somebody else has the lock.
bool is_busy(int code);

/// A prepared statement. Bound texts must live until step().
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int place, std::string_view text);
  void bind(int place, std::int64_t number);
  void bind(int place, double number);
  void bind_null(int place);
  void bind_blob(int place, std::string_view bytes);
  /// Runs the statement once and makes it ready for the next values; bindings stay.
  void run();
  /// The next row of a query; false, and ready for the next values, after the last.
  bool next();
  // Columns of the row, from 0; texts and blobs live until the next call.
  [[nodiscard]] std::int64_t number(int column) const;
  [[nodiscard]] std::string_view text(int column) const;

 private:
  void check(int code) const;
  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
};

}  // namespace msvis::sqlite
