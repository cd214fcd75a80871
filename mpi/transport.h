// How the processes of one run talk to each other. Two implementations: one process without MPI, and MPI.
// Every function is marked local (concerns this process only, never waits for another one) or collective (all processes must call it,
// in the same order). One thread calls: the main thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/error.h"

namespace msvis {

struct Message {
  int from = 0;
  std::string bytes;
};

/// The hint of each call says what is being done ("handing out items"); it appears in the message of an error.
/// All functions that communicate throw Error (internal) when MPI reports a fault.
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Local. Number of this process, from 0.
  [[nodiscard]] virtual int process() const = 0;
  /// Local. Number of processes.
  [[nodiscard]] virtual int processes() const = 0;
  /// Local. Number of the node (machine) on which a process runs; nodes are counted from 0 in the order of their first process.
  [[nodiscard]] virtual int node_of(int process) const = 0;

  /// Local. Starts to send and returns at once. Messages from one process to another arrive in order. A process may send to itself.
  virtual void send(int to, std::string bytes, std::string_view hint) = 0;
  /// Local. The next message that has arrived completely, if there is one. Also moves messages under way forward.
  virtual std::optional<Message> poll(std::string_view hint) = 0;
  /// Local. Whether messages are under way in this process, so that poll() should be called again soon.
  [[nodiscard]] virtual bool busy() const = 0;
  /// Local. Waits until all messages given to send() have left; the receivers must be polling.
  virtual void finish_sends(std::string_view hint) = 0;

  /// Collective. The bytes of process 0 replace those of all others.
  virtual void broadcast(std::string& bytes, std::string_view hint) = 0;
  /// Collective. The largest value that a process gave.
  virtual std::int64_t maximum(std::int64_t value, std::string_view hint) = 0;
  /// Collective. Sums position by position; all processes give the same number of values.
  virtual std::vector<std::uint64_t> sum(std::vector<std::uint64_t> values, std::string_view hint) = 0;
  /// Collective. The (small) texts of all processes, by process.
  virtual std::vector<std::string> gather_all(std::string_view bytes, std::string_view hint) = 0;
  /// Collective. outgoing[p] goes to process p; returns what each process sent here. No process sends or receives more than about
  /// `round_bytes` (at least one byte per process) in one round; there are as many rounds as the fullest pair needs.
  virtual std::vector<std::string> all_to_all(std::vector<std::string> outgoing, std::size_t round_bytes, std::string_view hint) = 0;

  /// Local. Called again and again while a call waits; what it throws leaves the call. After that only abort() may be called.
  void set_idle_check(std::function<void()> check) { idle_check_ = std::move(check); }
  /// Local. Ends all processes at once, without agreement, with this exit code.
  [[noreturn]] void abort(int exit_code) {
    abort_all(exit_code);
    std::_Exit(exit_code);
  }

 protected:
  virtual void abort_all(int exit_code) = 0;
  void check_idle() const {
    if (idle_check_) {
      idle_check_();
    }
  }

 private:
  std::function<void()> idle_check_;
};

/// One process, no MPI at all.
std::unique_ptr<Transport> make_solo_transport();

/// Whether the environment says that a launcher (mpirun, srun, ...) started this process as one of several.
bool started_by_launcher();

/// MPI if a launcher is around, one process alone otherwise: without a launcher, starting MPI would only cost time.
std::unique_ptr<Transport> make_transport(int& argc, char**& argv);

/// Local. Throws Error (usage) when srun started several processes that do not know of each other: without an MPI plug-in, every one would
/// take itself for the only one.
void require_one_copy(const Transport& transport);

/// An error on which all processes have agreed: each of them throws it, so that all can end in an orderly way.
class AgreedError : public Error {
 public:
  AgreedError(ErrorCategory category, const std::string& message) : Error(category, message) {}
};

/// What went wrong in one process, if anything.
struct Fault {
  ErrorCategory category = ErrorCategory::internal;
  std::string text;
};

/// Collective. Returns if no process has a fault; else all processes throw the AgreedError of the lowest process that has one.
void agree(Transport& transport, const std::optional<Fault>& fault, std::string_view hint);

/// Local. Runs `work` and turns what it throws into a fault, for agree(). AgreedError and exceptions not derived from std::exception pass.
std::optional<Fault> capture_fault(const std::function<void()>& work);

/// Growing waits for a loop that polls: short after something happened, up to `longest` when nothing does.
class Backoff {
 public:
  explicit Backoff(std::chrono::microseconds longest) : longest_(longest) {}
  void reset() { wait_ = shortest; }
  [[nodiscard]] std::chrono::microseconds next() {
    const auto now = wait_;
    wait_ = std::min(longest_, wait_ + wait_ / 2);
    return std::min(now, longest_);
  }
  /// Sleeps for next().
  void sleep();

 private:
  static constexpr std::chrono::microseconds shortest{50};
  std::chrono::microseconds longest_;
  std::chrono::microseconds wait_ = shortest;
};

}  // namespace msvis
