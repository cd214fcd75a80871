#include "mpi/pack_program.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/printable.h"
#include "cli/pack_cli.h"
#include "layout/layout.h"
#include "mpi/node_resources.h"
#include "mpi/program.h"
#include "mpi/scheduler.h"
#include "mpi/signals.h"
#include "pack/pack_rank.h"
#include "report/log.h"
#include "report/progress.h"

namespace msvis {
namespace {

using Clock = std::chrono::steady_clock;

// How long a process that is to end waits for its threads to remove what they had begun.
constexpr std::chrono::milliseconds patience_with_threads{800};
// Time for process 0 to say what happened before another process, which got the same signal, ends all.
constexpr std::chrono::milliseconds patience_with_process_0{900};
constexpr std::chrono::milliseconds between_reports{200};
constexpr std::chrono::seconds between_progress_lines{15};
// Every rank costs something, however little it holds.
constexpr std::uint64_t least_cost = std::uint64_t{1} << 16U;

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  static_cast<void>(std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]));
  return text.data();
}

std::string counted(std::uint64_t number, const char* one, const char* many) {
  return std::to_string(number) + " " + (number == 1 ? one : many);
}

/// What a worker tells of a rank.
struct RankReport {
  std::string error;  ///< empty: done
  PackResult result;
};

std::string pack(const RankReport& report) {
  ByteWriter out;
  out.put(report.error);
  out.put(report.result.outcome);
  out.put(report.result.tensors);
  out.put(report.result.kept_as_bytes);
  out.put(report.result.irregular);
  out.put(report.result.original_bytes);
  out.put(report.result.packed_bytes);
  out.put(report.result.removed);
  out.put_all(report.result.notes);
  return out.take();
}

RankReport unpack_report(std::string_view bytes) {
  ByteReader in(bytes);
  RankReport report;
  report.error = in.get_string();
  report.result.outcome = in.get<PackResult::Outcome>();
  report.result.tensors = in.get<std::uint64_t>();
  report.result.kept_as_bytes = in.get<std::uint64_t>();
  report.result.irregular = in.get<std::uint64_t>();
  report.result.original_bytes = in.get<std::uint64_t>();
  report.result.packed_bytes = in.get<std::uint64_t>();
  report.result.removed = in.get<bool>();
  report.result.notes = in.get_all([](ByteReader& from) { return from.get_string(); });
  return report;
}

/// Counts the ranks that threads of this process have in work.
class InWork {
 public:
  explicit InWork(std::atomic<int>& count) : count_(count) { ++count_; }
  ~InWork() { --count_; }
  InWork(const InWork&) = delete;
  InWork& operator=(const InWork&) = delete;

 private:
  std::atomic<int>& count_;
};

std::string run_rank(const std::filesystem::path& rank, PackOptions options, const BatchSink& sink, std::atomic<int>& in_work) {
  const InWork counted_here(in_work);
  std::uint64_t untold = 0;
  auto last = Clock::now();
  options.interrupted = [] { return noted_signal() != 0; };
  options.progress = [&](std::uint64_t bytes) {
    untold += bytes;
    if (const auto now = Clock::now(); now - last > between_reports) {
      ByteWriter out;
      out.put(std::exchange(untold, 0));
      sink(out.take());
      last = now;
    }
  };
  RankReport report;
  try {
    report.result = pack_rank(rank, options);
  } catch (const Error& error) {
    report.error = error.what();
  } catch (const std::bad_alloc&) {
    report.error = rank.string() + ": not enough memory; use fewer threads (--threads)";
  } catch (const Stopped&) {
    throw;
  } catch (const std::exception& error) {
    report.error = rank.string() + ": unexpected: " + error.what();
  }
  return pack(report);
}

class PackProgram {
 public:
  PackProgram(Transport& transport, PackCommand command) : transport_(transport), command_(std::move(command)) {
    options_.compression = command_.compression;
    options_.verify = command_.verify;
    options_.replace = command_.replace;
    options_.unpack = command_.unpack;
    if (leads()) {
      Progress::Options shown;
      shown.bar = ::isatty(STDERR_FILENO) != 0 ? stderr : nullptr;
      log_.emplace(stdout);
      progress_.emplace(*log_, shown);
    }
  }

  // Collective.
  int run() {
    transport_.set_idle_check([this] { idle(); });
    int exit_code = exit_failed;
    try {
      const auto fault = capture_fault([&] {
        if (leads()) {
          find_ranks();
        }
      });
      agree(transport_, fault, "looking for ranks");
      choose_threads();
      work();
      if (leads()) {
        exit_code = tell_result();
      }
    } catch (const AgreedError& error) {
      if (leads()) {
        log_->error(error.what());
        progress_->finish();
        print_last_pack_error(nullptr, error.what());
      }
      exit_code = error.category() == ErrorCategory::usage ? exit_usage : exit_failed;
    }
    exit_code = static_cast<int>(transport_.maximum(leads() ? exit_code : 0, "ending"));
    transport_.set_idle_check(nullptr);
    return exit_code;
  }

 private:
  [[nodiscard]] bool leads() const { return transport_.process() == 0; }

  // Called again and again in all waits.
  void idle() {
    if (const int signal_number = noted_signal(); signal_number != 0) {
      end_by_signal(signal_number);
    }
    if (progress_) {
      progress_->set(percent());
      progress_->tick();
      if (const auto now = Clock::now(); total_cost_ > 0 && now - last_line_ > between_progress_lines) {
        last_line_ = now;
        log_->info(std::to_string(static_cast<int>(percent())) + " % done, " + std::to_string(reports_done_) + " of " +
                   counted(ranks_.size(), "rank", "ranks"));
      }
    }
  }

  [[nodiscard]] double percent() const {
    return total_cost_ == 0 ? 0 : std::min(99.0, 100 * static_cast<double>(done_cost_.load()) / static_cast<double>(total_cost_));
  }

  // The threads see the signal as well and remove what they had begun; a large read may keep them.
  [[noreturn]] void end_by_signal(int signal_number) {
    const auto begin = Clock::now();
    while (in_work_->load() > 0 && Clock::now() - begin < patience_with_threads) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (!leads()) {
      std::this_thread::sleep_until(begin + patience_with_process_0);
      transport_.abort(exit_code_of_signal(signal_number));
    }
    const std::string text = std::string("interrupted by signal ") + std::to_string(signal_number) + " (" + strsignal(signal_number) +
                             "); ranks that were not complete are as they were before";
    log_->error(text);
    progress_->finish_soon(std::chrono::milliseconds(0));
    print_last_pack_error(nullptr, text.c_str());
    transport_.abort(exit_code_of_signal(signal_number));
  }

  void find_ranks() {
    std::set<std::filesystem::path> known;
    for (const std::filesystem::path& dump : command_.dumps) {
      RunOptions options;
      options.target = dump;
      options.steps = command_.steps;
      options.ranks = command_.ranks;
      const WorkPlan plan = find_work(options);
      for (const std::string& warning : plan.warnings) {
        log_->warning(warning);
      }
      for (const std::string& dropped : plan.dropped) {
        log_->warning(dropped);
      }
      for (const WorkItem& item : plan.items) {
        std::error_code ignored;
        if (known.insert(std::filesystem::weakly_canonical(item.target, ignored)).second) {
          ranks_.push_back(item.target);
        }
      }
    }
    if (ranks_.empty()) {
      throw Error(ErrorCategory::path, "no rank was found; look at the directory and at the selection of steps and ranks");
    }
    for (const std::filesystem::path& rank : ranks_) {
      costs_.push_back(pack_cost(rank, options_) + least_cost);
      total_cost_ += costs_.back();
    }
  }

  void choose_threads() {
    const auto nodes = gather_nodes(transport_);
    unsigned position = 0;
    for (int process = 0; process < transport_.process(); ++process) {
      position += transport_.node_of(process) == transport_.node_of(transport_.process()) ? 1 : 0;
    }
    threads_ = command_.threads > 0 ? command_.threads
                                    : default_threads(nodes[static_cast<std::size_t>(transport_.node_of(transport_.process()))], position);
    const auto sums = transport_.sum({threads_, ranks_.size()}, "counting threads");
    // Threads that have no rank of their own help to compress.
    options_.threads = static_cast<unsigned>(std::clamp<std::uint64_t>(sums[0] / std::max<std::uint64_t>(sums[1], 1), 1, threads_));
    if (leads()) {
      log_->info(std::string(command_.unpack ? "Unpacking " : "Packing ") + counted(ranks_.size(), "rank", "ranks") + ", " +
                 counted(static_cast<std::uint64_t>(transport_.processes()), "process", "processes") + ", " +
                 counted(sums[0], "worker thread", "worker threads"));
    }
  }

  void work() {
    std::vector<ScheduledItem> items;
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
      items.push_back({ranks_[k].string(), costs_[k], 0, -1});
    }
    told_.assign(ranks_.size(), 0);
    ScheduleHooks hooks;
    // The captured values keep alive what a thread needs that is left behind.
    hooks.run = [options = options_, in_work = in_work_](std::size_t, std::string_view rank, const BatchSink& sink) {
      return run_rank(std::string(rank), options, sink, *in_work);
    };
    hooks.store = [this](std::size_t rank, std::string_view batch) {
      const std::uint64_t bytes = std::min(ByteReader(batch).get<std::uint64_t>(), costs_[rank] - told_[rank]);
      told_[rank] += bytes;
      done_cost_ += bytes;
    };
    hooks.store_result = [this](std::size_t rank, std::string_view) { done_cost_ += costs_[rank] - told_[rank]; };
    hooks.finished = [this](std::size_t rank, std::string&& bytes) { tell_rank(ranks_[rank], unpack_report(bytes)); };
    hooks.idle = [this] { idle(); };
    run_schedule(transport_, std::move(items), threads_, hooks, {});
  }

  void tell_rank(const std::filesystem::path& rank, const RankReport& report) {
    ++reports_done_;
    const PackResult& result = report.result;
    for (const std::string& note : result.notes) {
      log_->warning(rank.string() + ": " + note);
    }
    if (!report.error.empty()) {
      ++failed_;
      log_->error(report.error);
      first_error_ = first_error_.empty() ? report.error : first_error_;
      return;
    }
    tensors_ += result.tensors;
    original_bytes_ += result.original_bytes;
    packed_bytes_ += result.packed_bytes;
    std::string text;
    switch (result.outcome) {
      case PackResult::Outcome::packed:
        text = "packed " + rank.string();
        break;
      case PackResult::Outcome::unpacked:
        text = "unpacked " + rank.string();
        break;
      case PackResult::Outcome::checked:
        text = rank.string() + " was packed before" + (options_.verify ? ", checksums are right" : "");
        break;
    }
    text += ": " + counted(result.tensors, "tensor", "tensors");
    if (result.kept_as_bytes > 0) {
      text += ", " + counted(result.kept_as_bytes, "file", "files") + " kept byte by byte";
    }
    text += ", files " + bytes_text(result.original_bytes) + ", pack " + bytes_text(result.packed_bytes);
    if (result.removed) {
      text += std::string("; ") + (command_.unpack ? "the pack was removed" : "the originals were removed");
    }
    log_->info(text);
  }

  int tell_result() {
    progress_->set(100);
    progress_->finish();
    std::string text = "msvis-pack: " + std::to_string(ranks_.size() - failed_) + " of " + counted(ranks_.size(), "rank", "ranks") + " " +
                       (command_.unpack ? "unpacked" : "packed") + ", " + counted(tensors_, "tensor", "tensors") + ", files " +
                       bytes_text(original_bytes_) + ", packs " + bytes_text(packed_bytes_);
    if (failed_ > 0) {
      text += "; " + std::to_string(failed_) + " failed, first: " + log_text(first_error_);
    }
    print(stderr, text + "\n");
    return failed_ == 0 ? exit_done : failed_ == ranks_.size() ? exit_failed : exit_some_failed;
  }

  Transport& transport_;
  PackCommand command_;
  PackOptions options_;
  std::optional<Logger> log_;
  std::optional<Progress> progress_;
  std::vector<std::filesystem::path> ranks_;
  std::vector<std::uint64_t> costs_;
  std::vector<std::uint64_t> told_;  ///< of the writer thread
  std::uint64_t total_cost_ = 0;
  std::atomic<std::uint64_t> done_cost_ = 0;
  Clock::time_point last_line_ = Clock::now();
  unsigned threads_ = 1;
  std::shared_ptr<std::atomic<int>> in_work_ = std::make_shared<std::atomic<int>>(0);
  std::size_t reports_done_ = 0;
  std::size_t failed_ = 0;
  std::string first_error_;
  std::uint64_t tensors_ = 0;
  std::uint64_t original_bytes_ = 0;
  std::uint64_t packed_bytes_ = 0;
};

}  // namespace

int run_pack_program(Transport& transport, int argc, const char* const* argv) {
  require_one_copy(transport);
  ParsedPackCommand parsed = parse_pack_command(std::span(argv, static_cast<std::size_t>(argc)));
  // Process 0 decides: 0 goes on, else the exit code.
  std::string verdict;
  if (transport.process() == 0 && !parsed.command) {
    print(parsed.exit_code == 0 ? stdout : stderr, parsed.text + "\n");
    verdict = std::to_string(parsed.exit_code);
  }
  transport.broadcast(verdict, "reading the command line");
  if (!verdict.empty()) {
    return std::stoi(verdict);
  }
  if (!parsed.command) {
    throw Error(ErrorCategory::usage, parsed.text);
  }
  return PackProgram(transport, *std::move(parsed.command)).run();
}

void print_last_pack_error(const Transport* transport, const char* text) {
  std::string line = "msvis-pack: error: ";
  if (transport != nullptr && transport->processes() > 1) {
    line += "process " + std::to_string(transport->process()) + ": ";
  }
  print(stderr, line + log_text(text) + "\n");
}

}  // namespace msvis
