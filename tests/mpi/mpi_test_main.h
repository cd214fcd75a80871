// Main program of tests that run in one or several processes.
#pragma once

#include "mpi/transport.h"

namespace msvis {

/// The transport that all tests of this program use.
Transport& transport();

}  // namespace msvis
