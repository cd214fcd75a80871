#include "mpi_test_main.h"

#include <gtest/gtest.h>

namespace msvis {
namespace {
std::unique_ptr<Transport> test_transport;
}  // namespace

Transport& transport() {
  return *test_transport;
}

}  // namespace msvis

// Every process runs all tests; a test that fails in one process makes the launcher report failure.
int main(int argc, char** argv) {
  msvis::test_transport = msvis::make_transport(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  if (msvis::transport().process() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  const int failed = RUN_ALL_TESTS();
  const auto worst = msvis::transport().maximum(failed, "ending the tests");
  msvis::test_transport.reset();
  return static_cast<int>(worst);
}
