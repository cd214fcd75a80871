#include "mpi/worker_pool.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "mpi/thread_name.h"

namespace msvis {
namespace {

std::atomic<unsigned> threads_left_behind{0};

}  // namespace

// Shared with the threads, so that one that is left behind still finds it.
struct WorkerPool::State {
  RunItem run;
  std::size_t queue_bytes = 0;
  std::shared_ptr<Wakeup> wakeup;

  std::mutex mutex;
  std::condition_variable work_changed;   // for workers without an item
  std::condition_variable space_changed;  // for workers with a batch
  std::condition_variable thread_ended;
  std::deque<std::pair<std::size_t, std::string>> items;
  std::deque<Output> outputs;
  std::size_t queued_bytes = 0;
  std::vector<std::size_t> new_batches;
  bool ending = false;   // no more items
  bool stopped = false;  // give up
  std::chrono::milliseconds grace{};
  unsigned running = 0;
  std::vector<std::thread> threads;

  void put_batch(std::size_t item, std::string&& bytes) {
    {
      std::unique_lock lock(mutex);
      space_changed.wait(lock, [&] { return stopped || queued_bytes == 0 || queued_bytes + bytes.size() <= queue_bytes; });
      if (stopped) {
        throw Stopped();
      }
      queued_bytes += bytes.size();
      new_batches.push_back(bytes.size());
      outputs.push_back({Output::Kind::rows, item, std::move(bytes)});
    }
    wakeup->notify();
  }

  void put(Output&& output) {
    {
      const std::lock_guard lock(mutex);
      outputs.push_back(std::move(output));
    }
    wakeup->notify();
  }

  void work() {
    name_thread("msvis-worker");
    for (;;) {
      std::pair<std::size_t, std::string> item;
      {
        std::unique_lock lock(mutex);
        work_changed.wait(lock, [&] { return ending || stopped || !items.empty(); });
        if (stopped || items.empty()) {
          break;
        }
        item = std::move(items.front());
        items.pop_front();
      }
      try {
        std::string result =
            run(item.first, item.second, [this, number = item.first](std::string&& bytes) { put_batch(number, std::move(bytes)); });
        put({Output::Kind::result, item.first, std::move(result)});
      } catch (const Stopped&) {
        break;
      } catch (const std::exception& error) {
        put({Output::Kind::fault, item.first, error.what()});
      }
    }
    const std::lock_guard lock(mutex);
    --running;
    thread_ended.notify_all();
  }
};

WorkerPool::WorkerPool(unsigned threads, RunItem run, std::size_t queue_bytes, std::shared_ptr<Wakeup> wakeup)
    : state_(std::make_shared<State>()) {
  state_->run = std::move(run);
  state_->queue_bytes = queue_bytes;
  state_->wakeup = std::move(wakeup);
  for (unsigned thread = 0; thread < threads; ++thread) {
    {
      const std::lock_guard lock(state_->mutex);
      ++state_->running;
    }
    try {
      state_->threads.emplace_back([state = state_] { state->work(); });
    } catch (const std::system_error&) {
      // The system allows no more threads: carry on with those that there are.
      const std::lock_guard lock(state_->mutex);
      --state_->running;
      if (state_->threads.empty()) {
        throw;
      }
      break;
    }
  }
}

WorkerPool::~WorkerPool() {
  {
    std::unique_lock lock(state_->mutex);
    state_->ending = true;
    state_->work_changed.notify_all();
    const auto all_ended = [&] { return state_->running == 0; };
    if (!state_->stopped) {
      state_->thread_ended.wait(lock, all_ended);
    } else if (!state_->thread_ended.wait_for(lock, state_->grace, all_ended)) {
      threads_left_behind += state_->running;
      for (auto& thread : state_->threads) {
        thread.detach();
      }
      return;
    }
  }
  for (auto& thread : state_->threads) {
    thread.join();
  }
}

unsigned WorkerPool::threads() const {
  return static_cast<unsigned>(state_->threads.size());
}

void WorkerPool::give(std::size_t item, std::string bytes) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->items.emplace_back(item, std::move(bytes));
  }
  state_->work_changed.notify_one();
}

std::vector<std::size_t> WorkerPool::new_batches() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->new_batches, {});
}

std::optional<WorkerPool::Output> WorkerPool::take_non_batch() {
  const std::lock_guard lock(state_->mutex);
  if (state_->outputs.empty() || state_->outputs.front().kind == Output::Kind::rows) {
    return std::nullopt;
  }
  Output output = std::move(state_->outputs.front());
  state_->outputs.pop_front();
  return output;
}

WorkerPool::Output WorkerPool::take_batch() {
  Output output;
  {
    const std::lock_guard lock(state_->mutex);
    output = std::move(state_->outputs.front());
    state_->outputs.pop_front();
    state_->queued_bytes -= output.bytes.size();
  }
  state_->space_changed.notify_all();
  return output;
}

void WorkerPool::stop(std::chrono::milliseconds grace) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->grace = grace;
    state_->stopped = true;
  }
  state_->work_changed.notify_all();
  state_->space_changed.notify_all();
}

unsigned WorkerPool::left_behind() {
  return threads_left_behind.load();
}

}  // namespace msvis
