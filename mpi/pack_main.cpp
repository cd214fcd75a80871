// The program msvis-pack: mpirun -n 8 msvis-pack --replace DUMP...
#include <cstdio>
#include <cstdlib>

#include "mpi/pack_program.h"
#include "mpi/program.h"
#include "mpi/signals.h"

int main(int argc, char** argv) {
  std::unique_ptr<msvis::Transport> transport;
  int exit_code = msvis::exit_failed;
  try {
    transport = msvis::make_transport(argc, argv);
    msvis::note_signals();
    exit_code = msvis::run_pack_program(*transport, argc, argv);
  } catch (const std::exception& error) {
    msvis::print_last_pack_error(transport.get(), error.what());
    if (transport) {
      transport->abort(exit_code);
    }
    return exit_code;
  }
  transport.reset();
  if (msvis::WorkerPool::left_behind() > 0) {
    static_cast<void>(std::fflush(nullptr));
    std::_Exit(exit_code);
  }
  return exit_code;
}
