// Where the records of one dump stand in the model: the scopes by which layer mapping compares two models.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/dump.h"
#include "msvis/options.h"

namespace msvis {

/// One record of dump.json with what the other two files say of it.
struct RecordSource {
  std::string_view name;
  std::string_view parent;  ///< from construct.json; empty: none
  JsonValue stack;          ///< from stack.json as it is written; absent if there is none
};

struct RecordScope {
  std::string_view name;
  std::string_view type_name;  ///< class of a module, or the name of an API
  std::string_view state;      ///< forward, backward, parameters_grad
  std::string full_scope;      ///< dot-separated; the first field is no part of the path
};

/// Steps A to C of the comparison rules, 3.4, in the order of the sources. Throws Error (format) for a name with fewer than four fields
/// and for a malformed stack; `directory` is that of the files named in errors. Numbers of more than 18 digits are not renumbered.
std::vector<RecordScope> record_scopes(std::span<const RecordSource> sources, Framework framework, Compat compat,
                                       const std::filesystem::path& directory);

/// The same for a dump; empty if its stack.json or construct.json is. Throws Error (format) also if its framework is unknown.
std::vector<RecordScope> record_scopes(const Dump& dump, Compat compat);

}  // namespace msvis
