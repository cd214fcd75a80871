// The program msvis-pack: mpirun -n 8 msvis-pack --replace DUMP...
#include "mpi/main_frame.h"
#include "mpi/pack_program.h"
#include "mpi/program.h"

int main(int argc, char** argv) {
  return msvis::run_main(argc, argv, msvis::exit_failed, msvis::run_pack_program, msvis::print_last_pack_error);
}
