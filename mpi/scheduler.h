// Hands out items to the worker threads of all processes and brings what they produce to process 0. The items are opaque bytes here:
// the scheduler knows nothing of dumps or databases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/transport.h"
#include "mpi/worker_pool.h"

namespace msvis {

struct ScheduledItem {
  std::string bytes;         ///< what the worker gets
  std::uint64_t cost = 0;    ///< larger ones are handed out first
  std::uint64_t memory = 0;  ///< bytes that a process needs for it, estimated
  int only_on = -1;          ///< process that has to do it; -1: any
};

struct ScheduleLimits {
  std::size_t window_bytes = std::size_t{16} << 20;  ///< batches on their way to process 0 or waiting there for the writer, all together
  std::size_t queue_bytes = std::size_t{8} << 20;    ///< batches waiting in one process
  std::vector<std::uint64_t> node_memory;            ///< bytes for items in work, by node; used on process 0; empty: no limit
};

struct ScheduleHooks {
  /// Every process, in a worker thread.
  RunItem run;
  /// Process 0, in the writer thread: before the first batch of an item. Optional.
  std::function<void(std::size_t item)> store_start;
  /// Process 0, in the writer thread: batches of an item in the order in which it gave them. An exception stops the whole run.
  std::function<void(std::size_t item, std::string_view batch)> store;
  /// Process 0, in the writer thread, after all batches of the item. Optional.
  std::function<void(std::size_t item, std::string_view result)> store_result;
  /// Process 0, in the writer thread: after each of the above, with whether nothing else waits, and now and then in a pause. Optional.
  std::function<void(bool idle)> stored;
  /// Process 0, main thread; all optional.
  std::function<void(std::size_t item, int process)> started;
  std::function<void(std::size_t item)> rows_arrived;
  std::function<void(std::size_t item, std::string&& result)> finished;
  /// Every process, main thread: after a stop, when nothing is stored any more and before the workers are waited for. Optional.
  std::function<void()> stopped;
  /// Every process, main thread, at least every 50 ms. What it throws leaves run_schedule at once.
  std::function<void()> idle;
  /// Every process, main thread, as often: a fault for which all shall stop, if there is one. Optional.
  std::function<std::optional<Fault>()> stop_wanted;
};

/// Collective. Runs all items of process 0 (those of others are ignored). A process gets an item whenever one of its `threads` worker
/// threads is free and the memory of its node allows (a node may always have one item). Returns when all results are stored.
/// Throws AgreedError on all processes when a hook of process 0 or a `run` threw, or when a process wants to stop.
void run_schedule(Transport& transport, std::vector<ScheduledItem> items, unsigned threads, const ScheduleHooks& hooks,
                  const ScheduleLimits& limits);

}  // namespace msvis
