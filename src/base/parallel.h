// Work on many pieces by a few threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace msvis {

/// Calls `work(k)` once for each k < count on up to `threads` threads (the caller is one of them), in ascending order of start. The first
/// exception ends the handing out and is thrown to the caller when all threads have ended.
template <typename Work>
void parallel_for(std::size_t count, unsigned threads, Work&& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr fault;
  std::mutex fault_mutex;
  const auto run = [&] {
    try {
      for (std::size_t k = next++; k < count; k = next++) {
        work(k);
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(fault_mutex);
      if (!fault) {
        fault = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t k = 1; k < threads && k < count; ++k) {
      helpers.emplace_back(run);
    }
    run();
  }
  if (fault) {
    std::rethrow_exception(fault);
  }
}

}  // namespace msvis
