// The program msvis-mpi: mpirun -n 64 msvis-mpi -tp TARGET -gp GOLDEN -o OUT
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "mpi/program.h"
#include "mpi/signals.h"

namespace {

/// A tensor of merged ranks may be in hundreds of files, and every thread has two at work: the usual soft limit of 1024 open files is too
/// few.
void allow_many_files() {
  constexpr rlim_t enough = 65'536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < enough && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max < enough ? limit.rlim_max : enough;
    static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));  // if it may not be raised, it stays
  }
}

}  // namespace

int main(int argc, char** argv) {
  allow_many_files();
  std::unique_ptr<msvis::Transport> transport;
  int exit_code = msvis::exit_failed;
  try {
    msvis::note_signals();  // before MPI starts, which may take a while
    transport = msvis::make_transport(argc, argv);
    exit_code = msvis::run_program(*transport, argc, argv);
  } catch (const std::exception& error) {
    msvis::print_last_error(transport.get(), error.what());
    if (transport) {
      transport->abort(exit_code);
    }
    return exit_code;
  }
  transport.reset();
  if (msvis::WorkerPool::left_behind() > 0) {
    // Threads that could not be interrupted still use what would now be destroyed.
    static_cast<void>(std::fflush(nullptr));
    std::_Exit(exit_code);
  }
  return exit_code;
}
