// Command line to RunOptions.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "msvis/options.h"

namespace msvis {

struct ParsedCommandLine {
  std::optional<RunOptions> options;  ///< empty: print `text` and end with `exit_code`
  std::string text;                   ///< help, version, or a usage error (to stderr if exit_code is not 0)
  int exit_code = 0;
};

/// Parses argv (argv[0] is the program). Never throws for bad input: usage errors give exit code 2.
ParsedCommandLine parse_command_line(std::span<const char* const> argv);

}  // namespace msvis
