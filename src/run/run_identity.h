// By what a run tells whether an unfinished result is its own: the version, the options that matter for the rows, and the input files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msvis/options.h"
#include "msvis/work_item.h"

namespace msvis {

struct RunIdentity {
  std::map<std::string, std::string> settings;  ///< name as the user knows it and value
  /// By (step, rank): each JSON file as the user knows it, with size and time.
  std::map<std::pair<std::int64_t, std::int64_t>, std::map<std::string, std::string>> items;
};

/// Looks at the files. One that is missing has its own text; nothing is thrown for it.
RunIdentity identity_of(const RunOptions& options, const std::string& version, const std::vector<WorkItem>& items);

std::string pack(const RunIdentity& identity);
/// Throws Error (internal) on anything that pack did not write.
RunIdentity unpack_run_identity(std::string_view bytes);

/// What differs, a sentence each, at most a few of them; empty if the unfinished result can be continued. Items for which `counts` says no
/// (they are done anew) may differ, and there may be more items now if the unfinished result followed a job.
std::vector<std::string> differences(const RunIdentity& unfinished, const RunIdentity& now,
                                     const std::function<bool(std::int64_t step, std::int64_t rank)>& counts, bool more_items);

}  // namespace msvis
