// Long calls that the main thread must not wait for blindly.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "mpi/thread_name.h"
#include "mpi/transport.h"
#include "mpi/wakeup.h"

namespace msvis {

/// Local. Runs `work` in a thread and calls `idle` every 50 ms until it is done. Returns what `work` threw, if anything.
inline std::optional<Fault> run_in_background(const std::function<void()>& work, const std::function<void()>& idle) {
  Wakeup wakeup;
  std::atomic<bool> done = false;
  std::optional<Fault> fault;
  std::jthread thread([&] {
    name_thread("msvis-finish");
    fault = capture_fault(work);
    done = true;
    wakeup.notify();
  });
  while (!done) {
    wakeup.wait(std::chrono::milliseconds(50));
    idle();
  }
  thread.join();
  return fault;
}

}  // namespace msvis
