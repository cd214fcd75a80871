// The program msvis-pack: packs the ranks of dumps, or unpacks them, in one or many processes.
#pragma once

#include "mpi/transport.h"

namespace msvis {

/// Collective. Parses the command line (process 0 decides), works, and returns the exit code, the same in all processes. Only process 0
/// prints. Ends the process itself when a signal was noted.
int run_pack_program(Transport& transport, int argc, const char* const* argv);

/// Local. One line on stderr, with the number of the process if there are several (`transport` may be null).
void print_last_pack_error(const Transport* transport, const char* text);

}  // namespace msvis
