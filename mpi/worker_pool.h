// The worker threads of one process and the bounded queue between them and the main thread. No MPI here.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/wakeup.h"

namespace msvis {

/// Thrown by a sink when the run is being stopped; passes through the work of an item.
class Stopped : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "the run is being stopped"; }
};

/// Takes a batch of rows; may block; throws Stopped.
using BatchSink = std::function<void(std::string&&)>;

/// Runs an item and returns its result. What it throws (Stopped aside) stops the whole run.
using RunItem = std::function<std::string(std::size_t item, std::string_view bytes, const BatchSink& sink)>;

class WorkerPool {
 public:
  /// What a worker hands to the main thread, in this order per item: rows, then the result.
  struct Output {
    enum class Kind : unsigned char { rows, result, fault } kind = Kind::rows;
    std::size_t item = 0;
    std::string bytes;
  };

  /// Batches wait in a queue of at most `queue_bytes` (or a single batch); a worker with more blocks. `wakeup` must outlive the run.
  WorkerPool(unsigned threads, RunItem run, std::size_t queue_bytes, std::shared_ptr<Wakeup> wakeup);
  /// Stops and joins the workers. One that is in the middle of an item after stop() and does not end within its grace is left behind
  /// (see left_behind()): it can't be interrupted, and the process is about to end.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  [[nodiscard]] unsigned threads() const;
  void give(std::size_t item, std::string bytes);
  /// The sizes of batches queued since the last call.
  std::vector<std::size_t> new_batches();
  /// Takes the front of the queue unless it is a batch.
  std::optional<Output> take_non_batch();
  /// Takes the batch at the front; there must be one.
  Output take_batch();
  /// No further work: items not begun are dropped, sinks throw.
  void stop(std::chrono::milliseconds grace);

  /// Number of worker threads of this program that were left behind. If it is not 0, the program must end by _Exit.
  static unsigned left_behind();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace msvis
