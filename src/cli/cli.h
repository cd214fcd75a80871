// Command line to RunOptions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "msvis/options.h"

namespace msvis {

struct ParsedCommandLine {
  std::optional<RunOptions> options;  ///< empty: print `text` and end with `exit_code`
  std::string text;                   ///< help, version, or an error of one line (to stderr if exit_code is not 0); no line end
  int exit_code = 0;
  std::vector<std::string> warnings;  ///< options that have no effect; the run goes on
};

/// Parses argv (argv[0] is the program, a null pointer ends the list). Never throws: wrong syntax, count or type of options gives exit code
/// 2, options that exclude each other although each is well-formed (`--file_type json` with -gp) exit code 1.
ParsedCommandLine parse_command_line(std::span<const char* const> argv);

}  // namespace msvis
