// The whole program: from options to the result file, in one or many processes.
#pragma once

#include "mpi/link_exchange.h"
#include "mpi/scheduler.h"
#include "mpi/transport.h"
#include "msvis/options.h"

namespace msvis {

inline constexpr int exit_done = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;
inline constexpr int exit_some_failed = 3;
inline constexpr int exit_interrupted = 4;  ///< --resume goes on
inline constexpr int exit_found = 5;        ///< --fail-on

/// Collective. Parses the command line (process 0 decides), runs, and returns the exit code, the same in all processes. Only process 0
/// prints. Ends the process itself when a signal was noted.
int run_program(Transport& transport, int argc, const char* const* argv);

/// Local. One line on stderr, with the number of the process if there are several (`transport` may be null).
void print_last_error(const Transport* transport, const char* text);

}  // namespace msvis
