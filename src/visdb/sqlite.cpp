#include "visdb/sqlite.h"

#include <sqlite3.h>

#include <atomic>
#include <cstring>
#include <system_error>
#include <utility>

#include "msvis/error.h"

namespace msvis::sqlite {

/// A thin layer over one of SQLite's own file systems. It changes two things: temporary files go beside the database instead of /tmp (which
/// may be small, or memory), and names are taken as they are (SQLite would resolve links and refuse more than 512 bytes).
struct Database::FileSystem {
  sqlite3_vfs layer{};
  sqlite3_vfs* base = nullptr;
  std::string name;
  std::string temporary_prefix;
  unsigned temporary_files = 0;

  FileSystem(const char* base_name, std::string prefix) : base(sqlite3_vfs_find(base_name)), temporary_prefix(std::move(prefix)) {
    if (base == nullptr) {
      throw Error(ErrorCategory::internal, std::string("SQLite has no file system ") + base_name);
    }
    static std::atomic<std::uint64_t> instances{0};
    name = "msvis-" + std::to_string(instances++);
    layer = *base;
    layer.pNext = nullptr;
    layer.zName = name.c_str();
    layer.xOpen = open;
    layer.xFullPathname = full_name;
    sqlite3_vfs_register(&layer, 0);
  }
  ~FileSystem() { sqlite3_vfs_unregister(&layer); }
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  // `layer` is the first member, so its address is that of the object.
  static FileSystem& self(sqlite3_vfs* vfs) { return *reinterpret_cast<FileSystem*>(vfs); }

  static int open(sqlite3_vfs* vfs, const char* file, sqlite3_file* handle, int flags, int* out_flags) {
    FileSystem& mine = self(vfs);
    if (file != nullptr) {
      return mine.base->xOpen(mine.base, file, handle, flags, out_flags);
    }
    handle->pMethods = nullptr;
    try {
      std::string temporary = mine.temporary_prefix + std::to_string(mine.temporary_files++);
      temporary.append(2, '\0');  // SQLite looks for URI parameters behind the name
      return mine.base->xOpen(mine.base, temporary.c_str(), handle, flags, out_flags);
    } catch (const std::bad_alloc&) {
      return SQLITE_NOMEM;
    }
  }

  static int full_name(sqlite3_vfs* /*vfs*/, const char* file, int room, char* out) {
    const std::size_t length = std::strlen(file);
    if (room <= 0 || length >= static_cast<std::size_t>(room)) {
      return SQLITE_CANTOPEN;
    }
    std::memcpy(out, file, length + 1);
    return SQLITE_OK;
  }
};

Database::Database(const std::string& directory_prefix, const std::string& name, const std::filesystem::path& shown,
                   const char* file_system)
    : file_system_(std::make_unique<FileSystem>(file_system, directory_prefix + name + "-tmp")), shown_(shown) {
  const std::string path = directory_prefix + name;
  const int code = sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                                   file_system_->name.c_str());
  if (code != SQLITE_OK) {
    const std::string text = handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_);
    sqlite3_close(handle_);
    handle_ = nullptr;
    throw Error(ErrorCategory::io, "can't open the database: " + text, shown_);
  }
  sqlite3_extended_result_codes(handle_, 1);
}

Database::~Database() {
  sqlite3_close(handle_);
}

void Database::run(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    fail(code, "can't write");
  }
}

std::uint64_t Database::changes() const {
  return static_cast<std::uint64_t>(sqlite3_changes64(handle_));
}

void Database::close() {
  const std::lock_guard lock(ending_);
  const int code = sqlite3_close(handle_);
  if (code != SQLITE_OK) {
    fail(code, "can't close");
  }
  handle_ = nullptr;
}

void Database::interrupt() {
  const std::lock_guard lock(ending_);
  if (handle_ != nullptr) {
    sqlite3_interrupt(handle_);
  }
}

void Database::fail(int code, const char* doing) const {
  std::string text = doing;
  text += ": ";
  text += sqlite3_errmsg(handle_);
  const int primary = code & 0xFF;
  if (primary == SQLITE_IOERR || primary == SQLITE_FULL || primary == SQLITE_CANTOPEN) {
    const int system = sqlite3_system_errno(handle_);
    if (system != 0) {
      text += " (" + std::generic_category().message(system) + ")";
    }
    text += "; check space, quota and file size limit of the output directory";
  }
  throw Error(primary == SQLITE_TOOBIG ? ErrorCategory::limit : ErrorCategory::io, text, shown_);
}

int Database::last_code() const {
  return sqlite3_extended_errcode(handle_);
}

bool is_lock_failure(int code) {
  switch (code) {
    case SQLITE_IOERR_LOCK:
    case SQLITE_IOERR_RDLOCK:
    case SQLITE_IOERR_UNLOCK:
    case SQLITE_IOERR_CHECKRESERVEDLOCK:
      return true;
    default:
      break;
  }
  const int primary = code & 0xFF;
  return primary == SQLITE_BUSY || primary == SQLITE_PERM || primary == SQLITE_PROTOCOL || primary == SQLITE_NOLFS;
}

bool is_busy(int code) {
  return (code & 0xFF) == SQLITE_BUSY;
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  const int code =
      sqlite3_prepare_v3(database_.handle(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &handle_, nullptr);
  check(code);
}

Statement::~Statement() {
  sqlite3_finalize(handle_);
}

void Statement::check(int code) const {
  if (code != SQLITE_OK) {
    database_.fail(code, "can't write");
  }
}

void Statement::bind(int place, std::string_view text) {
  // A null pointer would be bound as NULL.
  check(sqlite3_bind_text64(handle_, place, text.empty() ? "" : text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void Statement::bind(int place, std::int64_t number) {
  check(sqlite3_bind_int64(handle_, place, number));
}

void Statement::bind(int place, double number) {
  check(sqlite3_bind_double(handle_, place, number));
}

void Statement::bind_null(int place) {
  check(sqlite3_bind_null(handle_, place));
}

void Statement::bind_blob(int place, std::string_view bytes) {
  check(sqlite3_bind_blob64(handle_, place, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC));
}

bool Statement::next() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code != SQLITE_DONE) {
    sqlite3_reset(handle_);
    database_.fail(code, "can't read");
  }
  check(sqlite3_reset(handle_));
  return false;
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(handle_, column);
}

std::string_view Statement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(handle_, column));
  return bytes == nullptr ? std::string_view() : std::string_view(bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column)));
}

void Statement::run() {
  const int code = sqlite3_step(handle_);
  if (code != SQLITE_DONE && code != SQLITE_ROW) {
    sqlite3_reset(handle_);
    database_.fail(code, "can't write");
  }
  check(sqlite3_reset(handle_));
}

}  // namespace msvis::sqlite
