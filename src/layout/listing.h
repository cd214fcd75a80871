// The entries of one directory, and the numbers in names such as rank12.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msvis::layout {

struct Listing {
  std::vector<std::string> directories;  ///< names, sorted; links to directories included
  bool empty = true;                     ///< no entry of any kind
  bool has_tensor_data = false;          ///< an entry `dump_tensor_data`, or a packed one
};

/// Reads a directory. `what` names it in messages (`target (-tp)`). Throws Error (path) when it is missing, no directory, or can't be
/// read or searched.
Listing list_directory(const std::filesystem::path& directory, const std::string& what);

/// How a name reads as `prefix` + number.
enum class NameForm : std::uint8_t {
  none,          ///< something else
  bare,          ///< the prefix alone
  numbered,      ///< digits without a leading zero
  leading_zero,  ///< digits with one: no rank or step, but easily taken for one
};

NameForm name_form(std::string_view name, std::string_view prefix);

/// The number of a `numbered` name (0 for a `bare` one). Throws Error (limit) naming the directory when it is beyond 64 bits.
std::int64_t number_of(std::string_view name, std::string_view prefix, const std::filesystem::path& directory);

/// Sum of the sizes of dump.json, stack.json and construct.json; 0 for those that are missing or can't be looked at.
std::uint64_t json_bytes(const std::filesystem::path& directory);

/// With more tensor files than this, only about so many are looked at: on a network file system a look costs a message to its server.
constexpr std::size_t tensor_files_looked_at = 256;

/// Sum of the sizes of the files in dump_tensor_data, estimated from some of them when they are many, or of those that were packed; 0 when
/// there is neither.
std::uint64_t tensor_bytes(const std::filesystem::path& directory);
/// Whether both the directory and the pack are there.
bool has_both_tensor_stores(const std::filesystem::path& directory);

/// Whether dump.json says near its beginning that its task is "tensor". A guess that only steers how the work is divided; false if
/// unreadable.
bool states_tensor_task(const std::filesystem::path& directory);

}  // namespace msvis::layout
