// Wakes the main thread of a process when a worker has something for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace msvis {

class Wakeup {
 public:
  /// From any thread. A wait under way, or else the next one, ends at once.
  void notify() {
    {
      const std::lock_guard lock(mutex_);
      due_ = true;
    }
    changed_.notify_one();
  }
  /// Sleeps until notify() or at most this long.
  void wait(std::chrono::microseconds longest) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest, [this] { return due_; });
    due_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool due_ = false;
};

}  // namespace msvis
