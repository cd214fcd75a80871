// What the main() of a program over MPI does around its work.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "mpi/signals.h"
#include "mpi/transport.h"
#include "mpi/worker_pool.h"

namespace msvis {

/// `run(transport, argc, argv)` returns the exit code; what it throws goes to `print_error(transport, text)` and ends all processes.
template <typename Run, typename PrintError>
int run_main(int argc, char** argv, int exit_code_of_errors, Run&& run, PrintError&& print_error) {
  std::unique_ptr<Transport> transport;
  int exit_code = exit_code_of_errors;
  try {
    note_signals();  // before MPI starts, which may take a while
    transport = make_transport(argc, argv);
    exit_code = run(*transport, argc, argv);
  } catch (const std::exception& error) {
    print_error(transport.get(), error.what());
    if (transport) {
      transport->abort(exit_code);
    }
    return exit_code;
  }
  transport.reset();
  if (WorkerPool::left_behind() > 0) {
    // Threads that could not be interrupted still use what would now be destroyed.
    static_cast<void>(std::fflush(nullptr));
    std::_Exit(exit_code);
  }
  return exit_code;
}

}  // namespace msvis
