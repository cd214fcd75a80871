// Command line of msvis-pack.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msvis/options.h"

namespace msvis {

struct PackCommand {
  std::vector<std::filesystem::path> dumps;
  Selection steps;
  Selection ranks;
  int compression = 0;  ///< 0: none, 1 to 9
  bool verify = false;
  bool replace = false;
  bool unpack = false;
  unsigned threads = 0;  ///< worker threads per process; 0: a share of the cores
};

struct ParsedPackCommand {
  std::optional<PackCommand> command;  ///< empty: print `text` and end with `exit_code`
  std::string text;                    ///< help, version, or an error of one line (to stderr if exit_code is not 0); no line end
  int exit_code = 0;
};

/// Parses argv as parse_command_line() does. Never throws.
ParsedPackCommand parse_pack_command(std::span<const char* const> argv);

}  // namespace msvis
