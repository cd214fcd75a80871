#include "layout/listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <memory>
#include <system_error>

#include "base/pack_header.h"
#include "base/printable.h"
#include "msvis/error.h"

namespace msvis::layout {
namespace {

namespace fs = std::filesystem;

struct DirectoryCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};
using DirectoryHandle = std::unique_ptr<DIR, DirectoryCloser>;

[[noreturn]] void fail(const fs::path& directory, const std::string& what, const std::string& reason) {
  throw Error(ErrorCategory::path, what + " " + reason, directory);
}

/// Whether the entry is a directory or a link to one.
bool is_directory(const fs::directory_entry& entry, const fs::path& directory, const std::string& what) {
  std::error_code fault;
  const bool yes = entry.is_directory(fault);
  if (fault == std::errc::permission_denied) {
    fail(directory, what, "can't be searched (permission to read and search is needed)");
  }
  return yes && !fault;  // a dangling link is a stray entry
}

/// What was packed, by the header of the pack: a guess for the division of work, so its checksum does not matter.
std::uint64_t packed_bytes(const fs::path& file) {
  std::error_code fault;
  if (!fs::is_regular_file(file, fault)) {
    return 0;
  }
  PackHeader header;
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  constexpr std::uint64_t absurd = std::uint64_t{1} << 50;
  return in && header.magic == PackHeader::right_magic && header.original_bytes < absurd ? header.original_bytes : 0;
}

}  // namespace

Listing list_directory(const fs::path& directory, const std::string& what) {
  std::error_code fault;
  const fs::file_status status = fs::status(directory, fault);
  if (status.type() == fs::file_type::not_found) {
    fail(directory, what, "does not exist; give a directory of a dump");
  }
  if (fault) {
    fail(directory, what, "can't be looked at: " + fault.message());
  }
  if (status.type() != fs::file_type::directory) {
    fail(directory, what, "is not a directory; give a directory of a dump");
  }
  fs::directory_iterator entry(directory, fault);
  if (!fault && faccessat(AT_FDCWD, directory.c_str(), X_OK, AT_EACCESS) != 0) {
    fault = std::error_code(errno, std::generic_category());
  }
  if (fault) {
    fail(directory, what, "can't be read: " + fault.message() + " (permission to read and search is needed)");
  }
  Listing listing;
  for (; entry != fs::directory_iterator(); entry.increment(fault)) {
    listing.empty = false;
    std::string name = entry->path().filename().string();
    listing.has_tensor_data = listing.has_tensor_data || name == tensor_directory_name || name == pack_file_name;
    if (is_directory(*entry, directory, what)) {
      listing.directories.push_back(std::move(name));
    }
  }
  if (fault) {
    fail(directory, what, "can't be read to its end: " + fault.message());
  }
  std::sort(listing.directories.begin(), listing.directories.end());
  return listing;
}

NameForm name_form(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) {
    return NameForm::none;
  }
  const std::string_view digits = name.substr(prefix.size());
  if (digits.empty()) {
    return NameForm::bare;
  }
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return NameForm::none;
  }
  return digits.size() > 1 && digits[0] == '0' ? NameForm::leading_zero : NameForm::numbered;
}

std::int64_t number_of(std::string_view name, std::string_view prefix, const fs::path& directory) {
  const std::string_view digits = name.substr(prefix.size());
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (!digits.empty() && fault != std::errc()) {
    throw Error(ErrorCategory::limit, "the number in the directory name " + printable(name) + " does not fit into 64 bits", directory);
  }
  return number;
}

std::uint64_t json_bytes(const fs::path& directory) {
  std::uint64_t sum = 0;
  for (const char* name : {"dump.json", "stack.json", "construct.json"}) {
    struct stat status {};
    if (stat((directory / name).c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      sum += static_cast<std::uint64_t>(status.st_size);
    }
  }
  return sum;
}

std::uint64_t tensor_bytes(const fs::path& directory) {
  const DirectoryHandle handle(opendir((directory / tensor_directory_name).c_str()));
  if (!handle) {
    return packed_bytes(directory / pack_file_name);
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(handle.get())) {
    if (entry->d_type != DT_DIR) {
      names.emplace_back(entry->d_name);
    }
  }
  // Sorted, so that ranks with the same files come to the same sum.
  const std::size_t stride = (names.size() + tensor_files_looked_at - 1) / tensor_files_looked_at;
  if (stride > 1) {
    std::sort(names.begin(), names.end());
  }
  std::uint64_t sum = 0;
  std::size_t looked_at = 0;
  for (std::size_t place = 0; place < names.size(); place += stride) {
    struct stat status {};
    if (fstatat(dirfd(handle.get()), names[place].c_str(), &status, 0) == 0 && S_ISREG(status.st_mode)) {
      sum += static_cast<std::uint64_t>(status.st_size);
    }
    ++looked_at;
  }
  return stride > 1 ? sum / looked_at * names.size() + sum % looked_at * names.size() / looked_at : sum;
}

bool has_both_tensor_stores(const fs::path& directory) {
  std::error_code fault;
  return fs::is_directory(directory / tensor_directory_name, fault) && fs::exists(directory / pack_file_name, fault);
}

bool states_tensor_task(const fs::path& directory) {
  constexpr std::size_t enough = 4096;
  std::error_code fault;
  if (!fs::is_regular_file(directory / "dump.json", fault)) {
    return false;  // reading from a pipe could wait for ever
  }
  std::ifstream file(directory / "dump.json", std::ios::binary);
  std::string text(enough, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; });
  return text.find("\"task\":\"tensor\"") != std::string::npos;
}

}  // namespace msvis::layout
