#include "mpi/scheduler.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "base/bytes.h"
#include "mpi/thread_name.h"

namespace msvis {
namespace {

constexpr std::string_view hint = "handing out items";
// Alone, only the workers can bring news, and they wake the main thread.
constexpr std::chrono::microseconds longest_wait_alone{50'000};
constexpr std::chrono::microseconds longest_wait{5'000};
// A process without work waits for the end of the others.
constexpr std::chrono::microseconds longest_wait_without_work{20'000};
constexpr std::chrono::microseconds longest_wait_busy{200};
constexpr std::chrono::milliseconds pause_of_writer{100};
// For workers in the middle of an item. After a signal somebody may soon kill all.
constexpr std::chrono::milliseconds grace{2000};
constexpr std::chrono::milliseconds grace_when_interrupted{200};

enum class Kind : std::uint8_t {
  item,     // from process 0: number, bytes
  offer,    // to process 0: size of a batch that waits
  grant,    // from process 0: send the batch offered first
  rows,     // to process 0: item, batch
  result,   // to process 0: item, result
  fault,    // to process 0: category and text of a fault that stops the run
  stop,     // from process 0: category and text; all end
  stopped,  // to process 0: the last message of a process that was stopped
  finish,   // from process 0: all is done
};

constexpr std::size_t header_bytes = sizeof(Kind) + sizeof(std::uint64_t);

std::string make_message(Kind kind, std::uint64_t number, std::string_view rest = {}) {
  std::string bytes;
  bytes.reserve(header_bytes + rest.size());
  bytes.push_back(static_cast<char>(kind));
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  bytes.append(rest);
  return bytes;
}

// The thread of process 0 that stores. Its queue needs no bound of its own: the window bounds what is sent.
class WriterThread {
 public:
  struct Entry {
    enum class Kind : std::uint8_t { start, batch, result } kind = Kind::batch;
    std::size_t item = 0;
    std::string message;    // header and content; empty once a batch is stored
    std::size_t bytes = 0;  // of a batch
  };

  WriterThread(const ScheduleHooks& hooks, Wakeup& wakeup) : hooks_(hooks), wakeup_(wakeup), thread_([this] { work(); }) {}
  ~WriterThread() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  void give(Entry&& entry) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(entry));
    }
    changed_.notify_one();
  }
  std::vector<Entry> take_stored() {
    const std::lock_guard lock(mutex_);
    return std::exchange(stored_, {});
  }
  std::optional<Fault> fault() {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

 private:
  void work() {
    name_thread("msvis-writer");
    for (;;) {
      Entry entry;
      bool nothing_waits = false;
      {
        std::unique_lock lock(mutex_);
        const bool news =
            changed_.wait_for(lock, hooks_.stored ? pause_of_writer : std::chrono::hours(1), [&] { return ending_ || !waiting_.empty(); });
        if (ending_) {
          return;
        }
        if (!news) {
          lock.unlock();
          if (!finish_with(capture_fault([&] { call_stored(true); }))) {
            return;
          }
          continue;
        }
        entry = std::move(waiting_.front());
        waiting_.pop_front();
        nothing_waits = waiting_.empty();
      }
      auto fault = capture_fault([&] {
        store(entry);
        call_stored(nothing_waits);
      });
      if (entry.kind == Entry::Kind::batch) {
        std::string().swap(entry.message);
      }
      if (!fault && entry.kind != Entry::Kind::start) {
        const std::lock_guard lock(mutex_);
        stored_.push_back(std::move(entry));
      }
      if (!finish_with(std::move(fault))) {
        return;
      }
      wakeup_.notify();
    }
  }

  void store(const Entry& entry) {
    if (entry.kind == Entry::Kind::start) {
      if (hooks_.store_start) {
        hooks_.store_start(entry.item);
      }
      return;
    }
    const auto content = std::string_view(entry.message).substr(header_bytes);
    if (entry.kind == Entry::Kind::batch) {
      hooks_.store(entry.item, content);
    } else if (hooks_.store_result) {
      hooks_.store_result(entry.item, content);
    }
  }

  void call_stored(bool idle) {
    if (hooks_.stored) {
      hooks_.stored(idle);
    }
  }

  // Whether the thread goes on.
  bool finish_with(std::optional<Fault>&& fault) {
    if (!fault) {
      return true;
    }
    {
      const std::lock_guard lock(mutex_);
      fault_ = std::move(fault);
      ending_ = true;
    }
    wakeup_.notify();
    return false;
  }

  const ScheduleHooks& hooks_;
  Wakeup& wakeup_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> waiting_;
  std::vector<Entry> stored_;
  std::optional<Fault> fault_;
  bool ending_ = false;
  std::thread thread_;
};

// What process 0 knows and decides.
class Coordinator {
 public:
  Coordinator(Transport& transport, std::vector<ScheduledItem> items, const std::vector<std::string>& threads_of,
              const ScheduleHooks& hooks, const ScheduleLimits& limits, Wakeup& wakeup)
      : transport_(transport), hooks_(hooks), limits_(limits), items_(std::move(items)), writer_(hooks, wakeup) {
    for (int process = 0; process < transport.processes(); ++process) {
      auto& seat = seats_.emplace_back();
      seat.threads = ByteReader(threads_of[static_cast<std::size_t>(process)]).get<unsigned>();
      seat.node = static_cast<std::size_t>(transport.node_of(process));
      nodes_.resize(std::max(nodes_.size(), seat.node + 1));
    }
    std::vector<std::size_t> order(items_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return items_[a].cost > items_[b].cost; });
    for (const std::size_t item : order) {
      if (items_[item].only_on >= 0) {
        seats_[static_cast<std::size_t>(items_[item].only_on)].pinned.push_back(item);
      } else {
        waiting_.push_back(item);
      }
    }
    holders_.resize(items_.size(), -1);
    rows_seen_.resize(items_.size(), false);
  }

  void handle(Kind kind, std::size_t number, Message&& message) {
    switch (kind) {
      case Kind::offer:
        offers_.push_back({message.from, number});
        break;
      case Kind::rows:
        if (!stopping_) {
          if (!rows_seen_[number]) {
            rows_seen_[number] = true;
            call_hook([&] {
              if (hooks_.rows_arrived) {
                hooks_.rows_arrived(number);
              }
            });
          }
          const std::size_t bytes = message.bytes.size() - header_bytes;
          writer_.give({WriterThread::Entry::Kind::batch, number, std::move(message.bytes), bytes});
        }
        break;
      case Kind::result:
        if (!stopping_) {
          writer_.give({WriterThread::Entry::Kind::result, number, std::move(message.bytes), 0});
        }
        break;
      case Kind::fault:
        stop({static_cast<ErrorCategory>(number), message.bytes.substr(header_bytes)});
        break;
      case Kind::stopped:
        ++stopped_;
        break;
      default:
        throw Error(ErrorCategory::internal, "process 0 received a message that only it sends");
    }
  }

  // Takes what the writer has stored, grants room to waiting batches, hands out items. Returns whether anything happened.
  bool pump() {
    bool moved = false;
    if (const auto fault = writer_.fault(); fault && !stopping_) {
      stop(*fault);
      moved = true;
    }
    for (auto& entry : writer_.take_stored()) {
      moved = true;
      if (entry.kind == WriterThread::Entry::Kind::batch) {
        in_flight_ -= entry.bytes;
        continue;
      }
      auto& seat = seats_[static_cast<std::size_t>(holders_[entry.item])];
      --seat.in_work;
      --nodes_[seat.node].in_work;
      nodes_[seat.node].memory -= items_[entry.item].memory;
      ++done_;
      call_hook([&] {
        if (hooks_.finished) {
          hooks_.finished(entry.item, entry.message.substr(header_bytes));
        }
      });
    }
    if (stopping_) {
      return moved;
    }
    while (!offers_.empty() && (in_flight_ == 0 || in_flight_ + offers_.front().bytes <= limits_.window_bytes)) {
      in_flight_ += offers_.front().bytes;
      transport_.send(offers_.front().process, make_message(Kind::grant, 0), hint);
      offers_.pop_front();
      moved = true;
    }
    moved = hand_out() || moved;
    if (done_ == items_.size() && !finished_ && !stopping_) {
      finished_ = true;
      for (int process = 0; process < transport_.processes(); ++process) {
        transport_.send(process, make_message(Kind::finish, 0), hint);
      }
      moved = true;
    }
    return moved;
  }

  // After a stop: every process has sent its last message.
  [[nodiscard]] bool all_stopped() const { return stopped_ == transport_.processes(); }

 private:
  struct Seat {
    unsigned threads = 1;
    unsigned in_work = 0;
    std::size_t node = 0;
    std::deque<std::size_t> pinned;
  };
  struct Node {
    std::uint64_t memory = 0;
    unsigned in_work = 0;
  };
  struct Offer {
    int process = 0;
    std::size_t bytes = 0;
  };

  template <typename Hook>
  void call_hook(Hook&& hook) {
    if (const auto fault = capture_fault(hook)) {
      stop(*fault);
    }
  }

  void stop(const Fault& fault) {
    if (stopping_ || finished_) {
      return;
    }
    stopping_ = true;
    for (int process = 0; process < transport_.processes(); ++process) {
      transport_.send(process, make_message(Kind::stop, static_cast<std::uint64_t>(fault.category), fault.text), hint);
    }
  }

  // Hands out one item after another to the process with the smallest share of its threads in work, as long as there is one that can take
  // one.
  bool hand_out() {
    bool moved = false;
    std::vector<bool> full(nodes_.size(), false);  // no waiting item fits into the node's memory now
    while (!stopping_) {
      int best = -1;
      for (int process = 0; process < transport_.processes(); ++process) {
        const auto& seat = seats_[static_cast<std::size_t>(process)];
        const bool has_item = !seat.pinned.empty() || (!waiting_.empty() && !full[seat.node]);
        if (has_item && seat.in_work < seat.threads && (best < 0 || less_loaded(process, best))) {
          best = process;
        }
      }
      if (best < 0) {
        break;
      }
      auto& seat = seats_[static_cast<std::size_t>(best)];
      if (!seat.pinned.empty()) {
        const std::size_t item = seat.pinned.front();
        seat.pinned.pop_front();
        give(item, best);
      } else if (const auto item =
                     std::find_if(waiting_.begin(), waiting_.end(), [&](std::size_t number) { return fits(number, seat.node); });
                 item != waiting_.end()) {
        const std::size_t number = *item;
        waiting_.erase(item);
        give(number, best);
      } else {
        full[seat.node] = true;
        continue;
      }
      moved = true;
    }
    return moved;
  }

  // Process 0 also runs the event loop and the writer, so that others come first when all else is equal.
  [[nodiscard]] bool less_loaded(int process, int other) const {
    const auto& a = seats_[static_cast<std::size_t>(process)];
    const auto& b = seats_[static_cast<std::size_t>(other)];
    const auto load_a = std::uint64_t{a.in_work} * b.threads;
    const auto load_b = std::uint64_t{b.in_work} * a.threads;
    return load_a != load_b ? load_a < load_b : other == 0;
  }

  [[nodiscard]] bool fits(std::size_t item, std::size_t node) const {
    const auto& there = nodes_[node];
    if (there.in_work == 0 || node >= limits_.node_memory.size()) {
      return true;
    }
    const std::uint64_t limit = limits_.node_memory[node];
    return there.memory <= limit && items_[item].memory <= limit - there.memory;
  }

  void give(std::size_t item, int process) {
    auto& seat = seats_[static_cast<std::size_t>(process)];
    ++seat.in_work;
    ++nodes_[seat.node].in_work;
    nodes_[seat.node].memory += items_[item].memory;
    holders_[item] = process;
    writer_.give({WriterThread::Entry::Kind::start, item, {}, 0});
    transport_.send(process, make_message(Kind::item, item, items_[item].bytes), hint);
    std::string().swap(items_[item].bytes);
    call_hook([&] {
      if (hooks_.started) {
        hooks_.started(item, process);
      }
    });
  }

  Transport& transport_;
  const ScheduleHooks& hooks_;
  const ScheduleLimits& limits_;
  std::vector<ScheduledItem> items_;
  std::vector<Seat> seats_;
  std::vector<Node> nodes_;
  std::list<std::size_t> waiting_;  // largest first
  std::vector<int> holders_;        // process that has the item
  std::vector<bool> rows_seen_;
  std::deque<Offer> offers_;
  std::size_t in_flight_ = 0;
  std::size_t done_ = 0;
  int stopped_ = 0;
  bool stopping_ = false;
  bool finished_ = false;
  WriterThread writer_;
};

}  // namespace

void run_schedule(Transport& transport, std::vector<ScheduledItem> items, unsigned threads, const ScheduleHooks& hooks,
                  const ScheduleLimits& limits) {
  const auto wakeup = std::make_shared<Wakeup>();
  std::optional<WorkerPool> pool;
  const auto fault = capture_fault([&] { pool.emplace(std::max(threads, 1U), hooks.run, limits.queue_bytes, wakeup); });
  agree(transport, fault, "starting the worker threads");
  ByteWriter own_threads;
  own_threads.put(pool->threads());
  const auto threads_of = transport.gather_all(own_threads.bytes(), hint);
  std::optional<Coordinator> coordinator;
  if (transport.process() == 0) {
    coordinator.emplace(transport, std::move(items), threads_of, hooks, limits, *wakeup);
  }

  bool finished = false;
  bool stop_asked = false;
  std::optional<Fault> stop_reason;
  std::size_t in_work = 0;
  const auto forward_results = [&] {
    bool moved = false;
    while (auto output = pool->take_non_batch()) {
      const bool is_fault = output->kind == WorkerPool::Output::Kind::fault;
      transport.send(0,
                     is_fault ? make_message(Kind::fault, static_cast<std::uint64_t>(ErrorCategory::internal), output->bytes)
                              : make_message(Kind::result, output->item, output->bytes),
                     hint);
      --in_work;
      moved = true;
    }
    return moved;
  };
  // What the workers have produced goes on its way, in their order.
  const auto forward = [&] {
    const auto batches = pool->new_batches();
    for (const std::size_t bytes : batches) {
      transport.send(0, make_message(Kind::offer, bytes), hint);
    }
    return forward_results() || !batches.empty();
  };
  const auto handle = [&](Message&& message) {
    ByteReader in(message.bytes);
    const auto kind = in.get<Kind>();
    const auto number = static_cast<std::size_t>(in.get<std::uint64_t>());
    switch (kind) {
      case Kind::item:
        ++in_work;
        pool->give(number, message.bytes.substr(header_bytes));
        break;
      case Kind::grant: {
        forward_results();  // those of earlier batches must not be overtaken
        auto batch = pool->take_batch();
        transport.send(0, make_message(Kind::rows, batch.item, batch.bytes), hint);
        break;
      }
      case Kind::stop:
        stop_reason = Fault{static_cast<ErrorCategory>(number), message.bytes.substr(header_bytes)};
        pool->stop(stop_reason->category == ErrorCategory::interrupted ? grace_when_interrupted : grace);
        transport.send(0, make_message(Kind::stopped, 0), hint);
        break;
      case Kind::finish:
        finished = true;
        break;
      default:
        if (!coordinator) {
          throw Error(ErrorCategory::internal, "a message for process 0 came to another process");
        }
        coordinator->handle(kind, number, std::move(message));
    }
  };
  const bool alone = transport.processes() == 1;
  Backoff backoff(longest_wait_alone);
  while (!finished && !(stop_reason && (!coordinator || coordinator->all_stopped()))) {
    bool moved = false;
    while (auto message = transport.poll(hint)) {
      handle(std::move(*message));
      moved = true;
    }
    if (!stop_reason) {
      moved = forward() || moved;
    }
    if (coordinator) {
      moved = coordinator->pump() || moved;
    }
    if (hooks.idle) {
      hooks.idle();
    }
    if (hooks.stop_wanted && !stop_asked) {
      if (const auto reason = hooks.stop_wanted()) {
        stop_asked = true;
        transport.send(0, make_message(Kind::fault, static_cast<std::uint64_t>(reason->category), reason->text), hint);
      }
    }
    if (moved) {
      backoff.reset();
      continue;
    }
    auto wait = longest_wait_alone;
    if (!alone) {
      wait = std::min(backoff.next(), in_work == 0 && !coordinator ? longest_wait_without_work : longest_wait);
    }
    if (transport.busy()) {
      wait = std::min(wait, longest_wait_busy);
    }
    wakeup->wait(wait);
  }
  transport.finish_sends(hint);
  coordinator.reset();
  if (stop_reason && hooks.stopped) {
    hooks.stopped();
  }
  pool.reset();
  if (stop_reason) {
    throw AgreedError(stop_reason->category, stop_reason->text);
  }
}

}  // namespace msvis
