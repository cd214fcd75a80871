// The transport over MPI.
#pragma once

#include <memory>

#include "mpi/transport.h"

namespace msvis {

/// Collective. Starts MPI (MPI_THREAD_FUNNELED); it ends with the object. Waiting sleeps instead of spinning.
std::unique_ptr<Transport> make_mpi_transport(int& argc, char**& argv);

}  // namespace msvis
