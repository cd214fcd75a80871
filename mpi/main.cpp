// The program msvis-mpi: mpirun -n 64 msvis-mpi -tp TARGET -gp GOLDEN -o OUT
#include <sys/resource.h>

#include "mpi/main_frame.h"
#include "mpi/program.h"

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
  return msvis::run_main(argc, argv, msvis::exit_failed, msvis::run_program, msvis::print_last_error);
}
