#include "mpi/program.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "layout/layout.h"
#include "layout/watch.h"
#include "merge/parameters.h"
#include "merge/replicas.h"
#include "mpi/background.h"
#include "mpi/batches.h"
#include "mpi/link_exchange.h"
#include "mpi/metrics_export.h"
#include "mpi/node_resources.h"
#include "mpi/output_directory.h"
#include "mpi/result_file.h"
#include "mpi/run_plan.h"
#include "mpi/run_report.h"
#include "mpi/signals.h"
#include "mpi/stage_exchange.h"
#include "msvis/visdb.h"
#include "report/summary.h"
#include "run/run_identity.h"
#include "run/run_item.h"
#include "table/new_file.h"

#ifndef MSVIS_VERSION
#define MSVIS_VERSION "unknown"
#endif

namespace msvis {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t percent_of_memory = 60;
// mpirun kills a second after its SIGTERM; the final progress line must be out by then.
constexpr std::chrono::milliseconds pause_when_killed{600};
// Process 0 gets the same signal, as a rule. If it does nothing for so long, another process ends all.
constexpr std::chrono::seconds patience_with_process_0{5};
constexpr std::size_t records_per_batch = 4096;
constexpr std::string_view identity_key = "identity";
constexpr std::string_view follow_key = "follow";  // steps that have a result of their own; there in runs beside a job
constexpr std::chrono::milliseconds longest_nap{200};
// Added to the name of the partial file.
constexpr const char* metrics_suffix = "-metrics";

std::string utc_text(std::time_t time) {
  std::tm utc{};
  gmtime_r(&time, &utc);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text.data(), size};
}

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  static_cast<void>(std::snprintf(text.data(), text.size(), "%.2f s", seconds));
  return text.data();
}

std::string pairs_text(std::size_t number) {
  return std::to_string(number) + (number == 1 ? " (step, rank) pair" : " (step, rank) pairs");
}

class Program {
 public:
  Program(Transport& transport, RunOptions options) : transport_(transport), options_(std::move(options)) {
    if (leads()) {
      report_.emplace(options_);
    }
  }

  // Collective.
  int run() {
    transport_.set_idle_check([this] { idle(); });
    int exit_code = exit_failed;
    try {
      prepare();
      summary_.items_seconds = timed([this] { options_.follow ? follow() : run_items(); });
      check_what_was_done();
      summary_.links_seconds = timed([this] { link_ranks(file_ ? &*file_ : nullptr); });
      write_metrics();
      summary_.finish_seconds = timed([this] { finish(); });
      exit_code = tell_result();
    } catch (const AgreedError& error) {
      over_ = true;
      exit_code = leads() ? end_without_result(error) : exit_failed;
    }
    exit_code = static_cast<int>(transport_.maximum(exit_code, "ending"));
    transport_.set_idle_check(nullptr);
    return exit_code;
  }

  RunReport* report() { return report_ ? &*report_ : nullptr; }

 private:
  [[nodiscard]] bool leads() const { return transport_.process() == 0; }
  // The items write the dumps of the merged graphs; there is no db file.
  [[nodiscard]] bool writes_json() const { return options_.merge && options_.merge->as_json; }

  // Called again and again in all waits.
  void idle() {
    if (report_) {
      report_->progress().tick();
    }
    const int signal_number = noted_signal();
    // Once the result has its name, the rest takes no time. A schedule asks itself.
    if (signal_number == 0 || complete_ || in_schedule_ || over_) {
      return;
    }
    if (finishing_) {
      file_->writer().interrupt();
      return;
    }
    if (leads()) {
      stop_wanted();
      transport_.abort(end_without_result(interruption()));
    }
    const auto now = Clock::now();
    signal_seen_ = signal_seen_.value_or(now);
    if (now - *signal_seen_ > patience_with_process_0) {
      transport_.abort(exit_interrupted);
    }
  }

  static AgreedError interruption() {
    const int number = noted_signal();
    return {ErrorCategory::interrupted, "interrupted by signal " + std::to_string(number) + " (" + strsignal(number) + ")"};
  }

  // The page learns it at once: after a signal there may be little time.
  std::optional<Fault> stop_wanted() {
    if (noted_signal() == 0) {
      return std::nullopt;
    }
    const std::string text = interruption().what();
    if (report_ && !following_) {
      report_->progress().error(text);
    }
    return Fault{ErrorCategory::interrupted, text};
  }

  // Process 0. Says why there is no result, and what becomes of the unfinished one. Returns the exit code.
  int end_without_result(const AgreedError& error) {
    std::string text = error.what();
    const bool interrupted = error.category() == ErrorCategory::interrupted;
    const bool keyboard = noted_signal() == SIGINT;
    bool kept = false;
    if (file_ && !writes_json()) {
      // What was done is worth keeping if the cause can go away; a requeued job finds even a file without anything done.
      const bool may_go_on = interrupted || error.category() == ErrorCategory::io || error.category() == ErrorCategory::internal;
      if (may_go_on) {
        static_cast<void>(capture_fault([&] { file_->commit(); }));  // what was committed before stays, even now
      }
      const std::size_t done = file_->writer().durable_items();
      kept = resumed_ || (may_go_on && (done > 0 || (interrupted && !keyboard)));
      file_->keep(kept);
      if (kept) {
        text += "; " + pairs_text(done) + " of " + std::to_string(std::max(plan_.items.size(), file_->outcomes().size())) +
                " done, kept in " + printable(partial_file_) + ": the same command with --resume continues, or delete the file";
      } else if (interrupted) {
        text += "; no result was written";
      }
    }
    step_files_.clear();
    file_.reset();
    output_.reset();
    if (interrupted) {
      report_->log().error(text);
      report_->progress().finish_soon(keyboard ? std::chrono::milliseconds(1100) : pause_when_killed);
      print(stderr, "msvis-mpi: error: " + log_text(text) + "\n");
      return kept || noted_signal() == SIGUSR1 ? exit_interrupted : exit_code_of_signal(noted_signal());
    }
    report_->fatal(text);
    return error.category() == ErrorCategory::usage ? exit_usage : exit_failed;
  }

  // As long as it lives, signals are looked for by a schedule.
  class InSchedule {
   public:
    explicit InSchedule(Program& program) : program_(program), before_(std::exchange(program.in_schedule_, true)) {}
    ~InSchedule() { program_.in_schedule_ = before_; }
    InSchedule(const InSchedule&) = delete;
    InSchedule& operator=(const InSchedule&) = delete;

   private:
    Program& program_;
    bool before_;
  };

  // --- before the work -------------------------------------------------------------------------------------------------------------

  void prepare() {
    if (options_.nice > 0) {
      setpriority(PRIO_PROCESS, 0, options_.nice);
    }
    auto fault = capture_fault([&] {
      if (leads()) {
        prepare_output_and_plan();
        open_result();
      }
    });
    agree(transport_, fault, "preparing the run");
    std::string bytes;
    if (leads()) {
      bytes = pack(options_.follow ? SharedPlan() : share_of(plan_, open_items().size(), transport_.processes()));
    }
    transport_.broadcast(bytes, "sending the plan");
    fault = capture_fault([&] { read_context(unpack_shared_plan(bytes)); });
    agree(transport_, fault, "reading rules and mapping");

    nodes_ = gather_nodes(transport_);
    unsigned position = 0;
    for (int process = 0; process < transport_.process(); ++process) {
      position += transport_.node_of(process) == transport_.node_of(transport_.process()) ? 1 : 0;
    }
    const auto& node = nodes_[static_cast<std::size_t>(transport_.node_of(transport_.process()))];
    threads_ = options_.threads > 0 ? options_.threads : options_.follow ? 1 : default_threads(node, position);
    all_threads_ = static_cast<unsigned>(transport_.sum({threads_}, "counting threads")[0]);
    std::size_t items = 0;
    for (const auto& [step, ranks] : context_->world_ranks) {
      items += ranks.size();
    }
    context_->sides_at_once = items < all_threads_;
    context_->tensor_threads = std::max(threads_, options_.io_depth > 0 ? options_.io_depth : threads_);
    if (options_.tensor_log) {
      context_->tensor_log = [](const std::string& line) { print(stderr, log_text(line) + "\n"); };
    }
    if (leads()) {
      guard_against_crash(options_.progress_log);
      tell_beginning();
    }
  }

  void prepare_output_and_plan() {
    output_.emplace(options_.output);
    check_writable(options_.summary_json, "the summary (--summary-json)");
    check_writable(options_.suggest_mapping, "the suggested mapping (--suggest-mapping)");
    if (options_.merge) {
      check_merge_side(options_.merge->target, "the target (-tp)");
      if (options_.comparing()) {
        check_merge_side(options_.merge->golden, "the golden (-gp)");
      }
    }
    if (!options_.metrics.empty()) {
      const NewFile trial(options_.metrics);
    }
    if (options_.follow) {
      look_at_what_is_there();
    } else {
      plan_ = find_work(options_);
      plan_replicas(plan_, options_);
    }
    if (plan_.items.empty() && !options_.follow) {
      throw Error(ErrorCategory::path, "no (step, rank) pair was found; look at -tp, -gp and the selection of steps and ranks");
    }
    for (const auto& warning : output_->warnings()) {
      report_->important_warning(warning);
    }
    for (const auto& warning : plan_.warnings) {
      report_->warning(warning);
    }
    for (const auto& dropped : plan_.dropped) {
      report_->warning(dropped);
    }
  }

  // --- the result file, new or taken up again ------------------------------------------------------------------------------------------

  void open_result() {
    if (writes_json()) {
      file_.emplace(options_, nullptr);
      return;
    }
    RunIdentity identity = identity_of(options_, MSVIS_VERSION, plan_.items);
    const auto unfinished = VisDbWriter::partial_files(options_.output, options_.comparing());
    if (options_.resume) {
      resume_one_of(unfinished, identity);
      if (!file_) {
        report_->info("There is no unfinished result in " + printable(options_.output.string()) + ": the run begins anew");
      }
    } else if (!unfinished.empty()) {
      report_->important_warning("the output directory holds the unfinished result " + printable(unfinished.front().filename().string()) +
                                 " of another run: --resume continues it with the same options; if nobody works on it and you don't need "
                                 "it, delete it");
    }
    if (!file_) {
      file_.emplace(options_, std::make_unique<VisDbWriter>(options_.output, options_.comparing()));
      if (options_.follow) {
        save_steps_with_result();
      }
      if (!options_.metrics.empty()) {
        file_->collect_metrics(MetricsSpill(file_->writer().partial_path().string() + metrics_suffix));
      }
      file_->writer().save(identity_key, pack(identity));
      file_->commit();
    }
    partial_file_ = file_->writer().partial_path().string();
    if (options_.follow) {
      identity.items.clear();
      identity_ = std::move(identity);
      plan_ = {};
    }
  }

  void save_steps_with_result() {
    ByteWriter out;
    out.put_all(steps_with_result_);
    file_->writer().save(follow_key, out.bytes());
  }

  // The newest unfinished result that is of this run.
  void resume_one_of(const std::vector<std::filesystem::path>& unfinished, const RunIdentity& identity) {
    std::string reason;
    for (const auto& path : unfinished) {
      try {
        resume(path, identity);
        if (file_) {
          return;
        }
      } catch (const Error& error) {
        if (reason.empty()) {
          reason = error.what();
        }
      }
    }
    if (!reason.empty()) {
      throw Error(ErrorCategory::mismatch, "--resume is not possible: " + reason);
    }
  }

  void resume(const std::filesystem::path& path, const RunIdentity& identity) {
    auto writer = std::make_unique<VisDbWriter>(path);
    std::vector<SavedItem> saved;
    std::set<ResultFile::ItemKey> done;
    writer->for_each_item([&](SavedItem&& item) {
      if (item.done) {
        done.emplace(item.step, item.rank);
      }
      saved.push_back(std::move(item));
    });
    const auto before = writer->saved(identity_key);
    if (!before && writer->rows() == 0) {
      report_->info(printable(path.filename().string()) + " was interrupted before anything was done");
      writer->keep(false);
      return;
    }
    if (!before) {
      throw Error(ErrorCategory::format, "is no unfinished result of this program; delete it", path);
    }
    const auto steps_with_result = writer->saved(follow_key);
    const auto differing = differences(
        unpack_run_identity(*before), identity,
        [&](std::int64_t step, std::int64_t rank) {
          return done.contains({step, rank});
        },
        steps_with_result.has_value());
    if (!differing.empty()) {
      std::string text = "the unfinished result is of another run";
      for (const auto& difference : differing) {
        text += "; " + difference;
      }
      throw Error(ErrorCategory::mismatch, text + "; give the same options and input, or delete it and run without --resume", path);
    }
    file_.emplace(options_, std::move(writer));
    resumed_ = true;
    if (!options_.metrics.empty()) {
      file_->collect_metrics_again(path.string() + metrics_suffix);
    }
    if (steps_with_result) {
      ByteReader in(*steps_with_result);
      const auto steps = in.get_all([](ByteReader& from) { return from.get<std::int64_t>(); });
      steps_with_result_.insert(steps.begin(), steps.end());
      for (const auto& [step, rank] : done) {
        if (has_result(step_directory(step))) {  // the run may have ended before it noted that
          steps_with_result_.insert(step);
        }
      }
    }
    std::string lost;
    for (const SavedItem& item : saved) {
      // The result of a step needs all its items in one run.
      if (item.done && (!options_.follow || steps_with_result_.contains(item.step))) {
        const ItemResult result = unpack_item_result(item.result);
        file_->restore(result);
        add_to_summary(result);
      } else {
        file_->take_back({item.step, item.rank});
        if (item.done) {
          continue;
        }
        lost += (lost.empty() ? "" : ", ") + item_name(item.step, item.rank);
      }
    }
    file_->writer().save(identity_key, pack(identity));
    file_->commit();
    report_->info("Continuing " + printable(path.filename().string()) + ": " + pairs_text(done.size()) + " of " +
                  std::to_string(plan_.items.size()) + " done");
    if (!lost.empty()) {
      report_->important_warning("in work when the earlier run ended, done again now: " + lost);
    }
  }

  // Numbers of the items that are still to be done.
  [[nodiscard]] std::vector<std::size_t> open_items() const {
    std::vector<std::size_t> open;
    for (std::size_t item = 0; item < plan_.items.size(); ++item) {
      const auto outcome = file_->outcomes().find({plan_.items[item].step, plan_.items[item].rank});
      if (outcome == file_->outcomes().end()) {
        open.push_back(item);
      }
    }
    return open;
  }

  // For --resume.
  void look_at_what_is_there() {
    Watch watch(options_);
    watch.look(Clock::now());
    plan_ = watch.plan();
  }

  // Before the work, not after it.
  static void check_writable(const std::filesystem::path& file, const char* option) {
    if (file.empty()) {
      return;
    }
    const std::filesystem::path parent = file.parent_path();
    const std::string place = access(file.c_str(), F_OK) == 0 ? file.string() : parent.empty() ? "." : parent.string();
    if (std::filesystem::is_directory(file) || access(place.c_str(), W_OK) != 0) {
      throw Error(ErrorCategory::path, std::string(option) + " can't be written there; name a file in an existing, writable directory",
                  file);
    }
  }

  // Rules and mapping are small files that every process reads itself.
  void read_context(SharedPlan&& shared) {
    auto context = std::make_shared<RunContext>();
    context->options = options_;
    context->link_ranks = shared.link_ranks;
    tensor_mode_ = shared.tensor_mode;
    divided_ = shared.divided;
    context->world_ranks = std::move(shared.world_ranks);
    if (options_.overflow_check) {
      context->ignore_rules = IgnoreRules::read(options_.ignore_rules.empty() ? default_ignore_rules_file() : options_.ignore_rules);
    }
    if (options_.layer_mapping && options_.comparing()) {
      read_mapping(*context);
    }
    context_ = std::move(context);
  }

  void read_mapping(RunContext& context) {
    if (options_.layer_mapping_file.empty()) {
      context.mapping.emplace();
      return;
    }
    try {
      context.mapping = LayerMapping::read(options_.layer_mapping_file);
    } catch (const Error& error) {
      if (options_.compat != Compat::reference) {
        throw;
      }
      if (leads()) {
        report_->important_warning(std::string(error.what()) + "; the run goes on without the mapping (--compat=reference)");
      }
    }
  }

  void tell_beginning() {
    started_at_ = std::time(nullptr);
    std::string text = options_.comparing() ? "Comparing " : "Building ";
    text += (options_.follow ? "what a job writes" : pairs_text(plan_.items.size())) + " of target " + printable(options_.target.string());
    if (options_.comparing()) {
      text += " with golden " + printable(options_.golden.string());
    }
    text += ", " + std::to_string(transport_.processes()) + (transport_.processes() == 1 ? " process, " : " processes, ");
    text += std::to_string(all_threads_) + (all_threads_ == 1 ? " worker thread" : " worker threads");
    report_->info(text);
    report_->info("Writing " + printable(writes_json() ? options_.output.string() : partial_file_));
  }

  // --- the items ---------------------------------------------------------------------------------------------------------------------

  // A piece of the schedule: an item, a share of one, or the end of a shared one.
  struct Part {
    std::size_t item;
    WorkItem work;
    std::unique_ptr<const ItemResult> result;
    std::unique_ptr<const ItemResult> whole;  // with the last part of an item: the result of all
    int only_on = -1;                         // process; -1: any
  };

  // Of an item that is not complete yet. Writer thread.
  struct OpenItem {
    std::size_t parts = 0;     // without result
    std::uint32_t shares = 1;  // into which the item is divided; the last part must divide it in the same way
    std::optional<ItemResult> joined;
    std::map<std::uint32_t, std::string> deferred;  // by share
    bool stored = false;                            // rows or records may be in the file
  };

  void run_items() {
    const InSchedule in_schedule(*this);
    if (leads()) {
      const std::vector<std::size_t> open = open_items();
      std::vector<WorkItem> works;
      std::vector<std::uint64_t> costs;
      for (const WorkItem& item : plan_.items) {
        costs.push_back(item.cost());
      }
      for (const std::size_t item : open) {
        works.push_back(plan_.items[item]);
      }
      report_->set_items(std::move(costs));
      for (std::size_t item = 0, next = 0; item < plan_.items.size(); ++item) {
        if (next < open.size() && open[next] == item) {
          ++next;
        } else {
          report_->set_item_state(item, RunReport::ItemState::done);
        }
      }
      const auto shares = divided_ ? shares_of(works, transport_.processes()) : std::vector<std::uint32_t>(works.size(), 1);
      // With merged items and more processes than parts, every part has a process of its own, to which the stages of its ranks are sent.
      const std::size_t parts = std::accumulate(shares.begin(), shares.end(), std::size_t{0});
      const bool apart = folds_apart() && parts > 0 && parts <= static_cast<std::size_t>(transport_.processes());
      for (std::size_t k = 0; k < open.size(); ++k) {
        for (std::uint32_t share = 0; share < shares[k]; ++share) {
          const int owner = apart ? static_cast<int>(parts_.size() - first_open_part_) : -1;
          add_part(open[k], share, shares[k], {});
          parts_.back().only_on = owner;
        }
      }
    }
    if (folds_apart()) {
      fold_stages();
    }
    run_all_parts();
  }

  // Collective.
  void run_all_parts() {
    run_parts();
    if (divided_) {
      if (leads()) {
        add_parts_for_deferred();
      }
      run_parts();
    }
  }

  // Collective.
  void check_what_was_done() {
    const auto fault = capture_fault([&] {
      if (leads()) {
        require_some_done();
        require_something_compared();
      }
    });
    agree(transport_, fault, "counting what was done");
  }

  [[nodiscard]] bool folds_apart() const { return options_.merge && options_.compat == Compat::standard && transport_.processes() > 1; }

  // Collective. Where every part of the merged items has a process of its own, the stages of all items are folded by whoever is free and
  // sent to these processes.
  void fold_stages() {
    std::vector<StageToFold> stages;
    if (leads()) {
      std::map<std::size_t, std::vector<int>> owners;
      for (std::size_t part = first_open_part_; part < parts_.size(); ++part) {
        if (parts_[part].only_on >= 0 && !parts_[part].work.replicas.empty()) {
          owners[parts_[part].item].push_back(parts_[part].only_on);
        }
      }
      for (const auto& [item, processes] : owners) {
        for (const StageTask& stage : stage_tasks(plan_.items[item], *options_.merge)) {
          stages.push_back({plan_.items[item], stage, processes});
        }
      }
      if (!stages.empty()) {
        report_->info("Reading " + std::to_string(stages.size()) + " stages of the ranks that are merged");
      }
    }
    ScheduleHooks hooks;
    hooks.idle = [this] { idle(); };
    hooks.stop_wanted = [this] { return stop_wanted(); };
    context_->stages = exchange_stages(transport_, std::move(stages), context_, threads_, hooks, memory_limits());
  }

  // Of items in work; process 0.
  [[nodiscard]] ScheduleLimits memory_limits() const {
    ScheduleLimits limits;
    if (leads()) {
      for (const auto& node : nodes_) {
        limits.node_memory.push_back(node.available_memory == 0 ? UINT64_MAX : node.available_memory / 100 * percent_of_memory);
      }
    }
    return limits;
  }

  void add_part(std::size_t item, std::uint32_t share, std::uint32_t shares, std::string deferred) {
    Part& part = parts_.emplace_back(Part{item, plan_.items[item], {}, {}});
    part.work.share = share;
    part.work.shares = shares;
    part.work.deferred = std::move(deferred);
    OpenItem& open = open_[item];
    ++open.parts;
    open.shares = shares;
  }

  // Collective. Runs the parts that have no result yet.
  void run_parts() {
    std::vector<ScheduledItem> items;
    const std::size_t first = first_open_part_;
    if (leads()) {
      for (std::size_t part = first; part < parts_.size(); ++part) {
        const WorkItem& work = parts_[part].work;
        items.push_back({msvis::pack(work), work.cost() / work.shares, memory_for(work.held_json_bytes()), parts_[part].only_on});
      }
    }
    ScheduleHooks hooks;
    // The captured pointer keeps alive what a thread needs that is left behind.
    hooks.run = [context = std::shared_ptr<const RunContext>(context_)](std::size_t, std::string_view bytes, const BatchSink& sink) {
      return run_one(unpack_work_item(bytes), *context, sink);
    };
    hooks.store_start = [this, first](std::size_t part) {
      const WorkItem& work = parts_[first + part].work;
      for (ResultFile* file : files_of(work.step)) {
        file->begin({work.step, work.rank});
      }
    };
    hooks.store = [this, first](std::size_t part, std::string_view batch) {
      const Part& of = parts_[first + part];
      open_[of.item].stored = true;
      for (ResultFile* file : files_of(of.work.step)) {
        file->store(batch);
      }
    };
    hooks.store_result = [this, first](std::size_t part, std::string_view bytes) { store_result(parts_[first + part], bytes); };
    hooks.stored = [this](bool idle) { file_->commit_if_due(idle); };
    hooks.started = [this, first](std::size_t part, int) {
      const Part& started = parts_[first + part];
      report_->set_item_state(started.item, RunReport::ItemState::started);
      if (started.work.share == 0 && started.work.deferred.empty()) {
        report_->detail("Started " + item_name(started.work.step, started.work.rank));
      }
    };
    hooks.rows_arrived = [this, first](std::size_t part) {
      report_->set_item_state(parts_[first + part].item, RunReport::ItemState::rows);
    };
    hooks.finished = [this, first](std::size_t part, std::string&&) { tell_part(parts_[first + part]); };
    hooks.idle = [this] { idle(); };
    hooks.stop_wanted = [this] { return stop_wanted(); };
    hooks.stopped = [this] {
      if (leads() && noted_signal() != 0) {  // before the workers are waited for: there may be little time
        file_->commit();
      }
    };
    // The tensors of one item keep all threads of a process busy.
    run_schedule(transport_, std::move(items), tensor_mode_ ? 1 : threads_, hooks, memory_limits());
    first_open_part_ = parts_.size();
  }

  // Nodes whose tensors were compared by several processes.
  void add_parts_for_deferred() {
    for (auto& [item, state] : open_) {
      std::vector<std::string> of_shares;
      for (auto& [share, deferred] : state.deferred) {
        of_shares.push_back(std::move(deferred));
      }
      add_part(item, 0, state.shares, join_deferred(of_shares));
    }
  }

  // Worker thread, any process. Faults of the input are in the result.
  static std::string run_one(const WorkItem& item, const RunContext& context, const BatchSink& sink) {
    ItemResult result;
    MetricsSink metrics;
    if (!context.options.metrics.empty()) {
      metrics = [&](std::string&& batch) { sink(metrics_batch(batch)); };
    }
    try {
      result = run_item(
          item, context, [&](RowBatch&& batch) { sink(rows_batch(batch)); }, metrics);
    } catch (const Stopped&) {
      throw;
    } catch (const std::exception& error) {
      result = {};
      result.record.step = item.step;
      result.record.rank = item.rank;
      result.record.status = "failed";
      result.record.error = item_name(item.step, item.rank) + ": " + error.what();
    }
    if (result.record.status == "done") {
      for (std::size_t first = 0; first < result.links.size(); first += records_per_batch) {
        const std::size_t count = std::min(records_per_batch, result.links.size() - first);
        sink(link_records_batch(item.step, item.rank, std::span(result.links).subspan(first, count)));
      }
    }
    return msvis::pack(result);
  }

  // Writer thread of process 0. The main thread looks at the part only when the scheduler has handed it over.
  void store_result(Part& part, std::string_view bytes) {
    part.result = std::make_unique<const ItemResult>(unpack_item_result(bytes));
    OpenItem& item = open_[part.item];
    if (item.joined) {
      item.joined->join(*part.result);
    } else {
      item.joined = *part.result;
    }
    if (part.work.deferred.empty() && !part.result->deferred.empty()) {
      item.deferred[part.work.share] = part.result->deferred;
    }
    if (!part.work.deferred.empty()) {
      item.deferred.clear();
    }
    if (--item.parts > 0) {
      return;
    }
    if (!item.deferred.empty() && item.joined->record.status == "done") {
      return;  // another part finishes it
    }
    item.joined->deferred.clear();
    for (ResultFile* file : files_of(part.work.step)) {
      file->end(*item.joined, item.stored);
    }
    part.whole = std::make_unique<const ItemResult>(*std::move(item.joined));
    open_.erase(part.item);
  }

  void tell_part(Part& part) {
    const ItemResult& result = *part.result;
    for (const auto& warning : result.warnings) {
      report_->warning(warning);
    }
    if (result.record.status != "done") {
      if (failed_items_.insert(part.item).second) {  // each share of a broken item says the same
        report_->item_error(result.record.error);
      }
    } else {
      const std::string share = part.work.shares > 1 && part.work.deferred.empty()
                                    ? " (share " + std::to_string(part.work.share + 1) + " of " + std::to_string(part.work.shares) + ")"
                                    : std::string();
      report_->detail("Finished " + item_name(result.record.step, result.record.rank) + share + ": " +
                      std::to_string(result.record.target_nodes + result.record.golden_nodes) + " nodes in " +
                      seconds_text(result.record.seconds));
    }
    if (part.whole) {
      report_->set_item_state(part.item, RunReport::ItemState::done);
      add_to_summary(*part.whole);
    }
    part = Part{part.item, {}, {}, {}};  // thousands of them would add up
  }

  void add_to_summary(const ItemResult& result) {
    if (result.record.status != "done") {
      return;
    }
    const auto before = summary_.findings.first_divergence;
    summary_.findings.merge(result.findings);
    if (following_ && summary_.findings.first_divergence != before) {
      report_->info("First divergence so far: " + finding_text(*summary_.findings.first_divergence));
    }
    if (result.suggestions && !summary_.suggestions) {
      summary_.suggestions.emplace();
    }
    if (result.suggestions) {
      merge_suggestions(*summary_.suggestions, *result.suggestions);
      mapping_usage_.add(result.mapping_usage);
    }
  }

  // --- beside a job that writes ------------------------------------------------------------------------------------------------------

  // What process 0 has decided; the others do their part.
  struct Round {
    bool last = false;
    SharedPlan shared;
    std::vector<std::int64_t> steps;  // to be given a result of their own
  };

  // Collective. Ends when the step that was asked for is complete, when nothing changes any more, or at a signal.
  void follow() {
    following_ = true;
    const InSchedule in_schedule(*this);
    std::optional<Watch> watch;
    if (leads()) {
      watch.emplace(options_);
      for (const auto& [item, outcome] : file_->outcomes()) {
        watch->skip(item);
      }
      for (const std::int64_t step : steps_with_result_) {
        watch->skip_step(step);
      }
      last_change_ = Clock::now();
    }
    for (bool last = false; !last;) {
      Round round;
      const auto fault = capture_fault([&] {
        if (leads()) {
          round = next_round(*watch);
        }
      });
      agree(transport_, fault, "waiting for the job");
      share_round(round);
      last = round.last;
      try {
        run_all_parts();
        forget_parts();
        for (const std::int64_t step : round.steps) {
          publish_step(step);
        }
      } catch (const AgreedError& error) {
        if (error.category() != ErrorCategory::interrupted) {
          throw;
        }
        last = true;
        take_back_open_items();
      }
    }
    if (noted_signal() != 0 && leads()) {
      report_->info(std::string(interruption().what()) + ": the result is completed with what is done; a second signal ends at once");
    }
    // All processes forget it, also those that only another one's signal has stopped.
    forget_noted_signal();
    following_ = false;
    if (leads()) {
      static_cast<void>(capture_fault([this] { plan_.dropped = list_work(options_).dropped; }));
    }
    if (count_again_) {
      summary_.findings = {};
      summary_.suggestions.reset();
      mapping_usage_ = {};
      file_->writer().for_each_item([this](SavedItem&& item) {
        if (item.done) {
          add_to_summary(unpack_item_result(item.result));
        }
      });
    }
  }

  // Process 0. Waits until there is something to do.
  Round next_round(Watch& watch) {
    Round round;
    std::string told;
    for (;;) {
      const auto now = Clock::now();
      round.last = noted_signal() != 0;
      Watch::Found found = round.last ? Watch::Found() : watch.look(now);
      if (!round.last) {
        last_change_ = found.changed || !found.complete.empty() ? now : last_change_;
        const bool idle_too_long =
            options_.idle_timeout_seconds > 0 && std::chrono::duration<double>(now - last_change_).count() >= options_.idle_timeout_seconds;
        if (idle_too_long) {
          report_->info("Nothing has changed for " + seconds_text(options_.idle_timeout_seconds) + ": the job has ended");
          const std::vector<std::int64_t> steps = found.steps;
          std::vector<WorkItem> complete = std::move(found.complete);
          found = watch.rest(now);
          found.steps.insert(found.steps.begin(), steps.begin(), steps.end());
          found.complete.insert(found.complete.begin(), complete.begin(), complete.end());
        }
        steps_complete_.insert(found.steps.begin(), found.steps.end());
        round.last = idle_too_long || (options_.until_step && steps_complete_.contains(*options_.until_step));
      }
      if (round.last || !found.complete.empty() || !found.steps.empty()) {
        add_found_items(found);
        round.steps = std::move(found.steps);
        plan_.link_ranks = watch.plan().link_ranks;
        round.shared = share_of(watch.plan(), SIZE_MAX, 1);
        round.shared.link_ranks = plan_.link_ranks;
        return round;
      }
      if (!found.reason.empty() && found.reason != told) {
        report_->info("Waiting: " + found.reason);
        told = found.reason;
      }
      const auto next_look = now + std::chrono::duration<double>(options_.poll_seconds);
      while (Clock::now() < next_look && noted_signal() == 0) {
        std::this_thread::sleep_for(
            std::min<std::chrono::duration<double>>(longest_nap, next_look - Clock::now() + std::chrono::milliseconds(1)));
        report_->progress().tick();
      }
    }
  }

  void add_found_items(const Watch::Found& found) {
    for (const WorkItem& item : found.complete) {
      const ResultFile::ItemKey key{item.step, item.rank};
      if (file_->outcomes().contains(key)) {
        report_->important_warning(item_name(item.step, item.rank) + " has changed since it was compared: it is compared again");
        for (ResultFile* file : files_of(item.step)) {
          file->take_back(key);
        }
        count_again_ = true;
      }
      if (!step_files_.contains(item.step) && !steps_with_result_.contains(item.step)) {
        remove_unfinished(step_directory(item.step));
        step_files_.try_emplace(item.step, options_, step_directory(item.step));
      }
      plan_.items.push_back(item);
      add_part(plan_.items.size() - 1, 0, 1, {});
    }
    if (!found.complete.empty()) {
      identity_.items.merge(identity_of(options_, MSVIS_VERSION, found.complete).items);
      file_->writer().save(identity_key, pack(identity_));
    }
  }

  [[nodiscard]] std::filesystem::path step_directory(std::int64_t step) const { return options_.output / ("step" + std::to_string(step)); }

  static bool has_result(const std::filesystem::path& directory) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
      if (entry->path().filename().string().ends_with(".vis.db")) {
        return true;
      }
    }
    return false;
  }

  // What a run that was killed has left of a step, which is done again.
  void remove_unfinished(const std::filesystem::path& directory) const {
    if (options_.resume) {
      for (const auto& path : VisDbWriter::partial_files(directory, options_.comparing())) {
        static_cast<void>(capture_fault([&] { VisDbWriter(path).keep(false); }));  // one that is in work stays
      }
    }
  }

  // The result of one step; without it, its directory goes too.
  struct StepFile {
    StepFile(const RunOptions& options, const std::filesystem::path& path)
        : directory(path), file(options, std::make_unique<VisDbWriter>(path, options.comparing())) {}
    OutputDirectory directory;
    ResultFile file;
  };

  // Those that take rows of a step.
  std::vector<ResultFile*> files_of(std::int64_t step) {
    std::vector<ResultFile*> files{&*file_};
    if (const auto found = step_files_.find(step); found != step_files_.end()) {
      files.push_back(&found->second.file);
    }
    return files;
  }

  // Collective.
  void share_round(Round& round) {
    std::string bytes;
    if (leads()) {
      ByteWriter out;
      out.put(round.last);
      out.put(pack(round.shared));
      out.put_all(round.steps);
      bytes = out.take();
    }
    transport_.broadcast(bytes, "waiting for the job");
    ByteReader in(bytes);
    round.last = in.get<bool>();
    round.shared = unpack_shared_plan(in.get_view());
    round.steps = in.get_all([](ByteReader& from) { return from.get<std::int64_t>(); });
    // Threads of an earlier round may still have the old one.
    auto context = std::make_shared<RunContext>(*context_);
    context->link_ranks = round.shared.link_ranks;
    context->world_ranks = std::move(round.shared.world_ranks);
    context_ = std::move(context);
  }

  // Collective. The result of one step, as far as there is one.
  void publish_step(std::int64_t step) {
    std::string flag;
    if (leads()) {
      const auto found = step_files_.find(step);
      flag = found != step_files_.end() && found->second.file.failed() < found->second.file.outcomes().size() ? "+" : "";
    }
    transport_.broadcast(flag, "completing a step");
    if (flag.empty()) {
      return;
    }
    ResultFile* file = leads() ? &step_files_.at(step).file : nullptr;
    link_ranks(file);
    std::optional<Fault> fault;
    if (leads()) {
      std::filesystem::path path;
      fault = run_in_background([&] { path = file->finish(run_record()); }, [this] { idle(); });
      if (!fault) {
        step_files_.at(step).directory.keep();
        step_files_.erase(step);
        steps_with_result_.insert(step);
        save_steps_with_result();
        file_->commit();
        report_->info("Step " + std::to_string(step) + " is complete: " + path.string());
      }
    }
    agree(transport_, fault, "completing a step");
  }

  // After a signal in the middle of a round.
  void take_back_open_items() {
    if (!leads()) {
      return;
    }
    for (std::size_t part = first_open_part_; part < parts_.size(); ++part) {
      const WorkItem& work = parts_[part].work;
      if (open_.contains(parts_[part].item)) {
        file_->take_back({work.step, work.rank});
      }
    }
    open_.clear();
    forget_parts();
  }

  // They would add up in a long job. What became of them is in the result file.
  void forget_parts() {
    parts_.clear();
    first_open_part_ = 0;
    plan_.items.clear();
    failed_items_.clear();
  }

  // Wall time of a stage.
  template <typename Stage>
  static double timed(Stage&& stage) {
    const auto start = Clock::now();
    stage();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // A comparison that compared nothing must not pass for one that found no difference.
  void require_something_compared() const {
    const Findings& found = summary_.findings;
    if (!options_.comparing() || options_.compat == Compat::reference || found.compared_something()) {
      return;
    }
    throw Error(
        ErrorCategory::mismatch,
        "nothing was compared: " + std::to_string(found.target_nodes) + " target and " + std::to_string(found.golden_nodes) +
            " golden nodes, " + std::to_string(found.matched) + " of them matched, no parameter on both sides" +
            (found.matched < 2 ? "; if layers have other names on the two sides, try -lm or -fm" : "; look at the data of the dumps"));
  }

  void require_some_done() const {
    if (file_->outcomes().empty()) {
      throw Error(ErrorCategory::path, "no dump was complete", options_.target);
    }
    const std::size_t failed = file_->failed();
    if (failed < file_->outcomes().size()) {
      return;
    }
    const std::string& first = file_->outcomes().begin()->second.record.error;
    throw Error(ErrorCategory::format, failed == 1 ? first : "all " + pairs_text(failed) + " failed; the first: " + first);
  }

  // --- after the items ---------------------------------------------------------------------------------------------------------------

  // Collective. `file` counts on process 0.
  void link_ranks(ResultFile* file) {
    if (!context_->link_ranks) {
      return;
    }
    const InSchedule in_schedule(*this);
    const bool whole = leads() && file == &*file_;
    LinkRecordSource source;
    if (leads()) {
      if (whole) {
        report_->info("Linking communication nodes across ranks");
      }
      VisDbWriter& writer = file->writer();
      source.bytes = writer.link_record_bytes();
      source.for_each = [&writer](const std::function<void(std::string_view)>& use) { writer.for_each_link_records(use); };
    }
    LinkExchangeHooks hooks;
    hooks.store = [file](std::vector<Link>&& links) {
      for (const auto& link : links) {
        file->writer().set_link(link);
      }
    };
    hooks.idle = [this] { idle(); };
    hooks.stop_wanted = [this] { return stop_wanted(); };
    const auto result = exchange_links(transport_, source, hooks, {}, {});
    if (whole) {
      linked_nodes_ = result.links;
      for (const auto& fault : result.faults) {
        report_->warning("some communication nodes stay without link: " + fault);
      }
      report_->info("Linked " + std::to_string(result.links) + " communication nodes");
      // Ranks that use a group unequally often shift each other's pairs.
      for (const auto& sentence : file_->unequal_counts()) {
        report_->warning(sentence);
      }
    }
  }

  // Collective. The result does without the table if that can't be written.
  void write_metrics() {
    if (options_.metrics.empty()) {
      return;
    }
    const InSchedule in_schedule(*this);
    MetricsFileFacts facts;
    facts.program_version = MSVIS_VERSION;
    facts.comparing = options_.comparing();
    if (leads()) {
      std::set<std::string_view> modes;
      for (const auto& [item, outcome] : file_->outcomes()) {
        if (outcome.mode) {
          modes.insert(task_text(*outcome.mode));
        }
      }
      facts.modes.assign(modes.begin(), modes.end());
      report_->info("Writing the parameter table");
    }
    MetricsExportHooks hooks;
    hooks.idle = [this] { idle(); };
    hooks.stop_wanted = [this] { return stop_wanted(); };
    hooks.writing = [](const std::filesystem::path& temporary) { remove_at_crash(temporary.string()); };
    try {
      const auto start = Clock::now();
      const std::uint64_t rows = export_metrics(transport_, leads() ? file_->metrics() : nullptr, options_.metrics, facts, hooks);
      if (leads()) {
        report_->info("Wrote " + std::to_string(rows) + " parameters to " + printable(options_.metrics.string()) + " in " +
                      seconds_text(std::chrono::duration<double>(Clock::now() - start).count()));
      }
    } catch (const AgreedError& error) {
      if (error.category() == ErrorCategory::interrupted) {
        throw;
      }
      metrics_fault_ = error.what();
    }
  }

  void finish() {
    std::optional<Fault> fault;
    if (leads() && writes_json()) {
      path_ = options_.output;
    } else if (leads()) {
      step_files_.clear();  // those of steps that were not complete
      report_->info("Building the indexes");
      finishing_ = true;
      fault = run_in_background([this] { path_ = file_->finish(run_record()); }, [this] { idle(); });
      finishing_ = false;
      if (fault && noted_signal() != 0) {
        fault = stop_wanted();
        over_ = true;
      }
      complete_ = !fault;
    }
    agree(transport_, fault, "completing the result file");
    complete_ = true;
  }

  [[nodiscard]] RunRecord run_record() const {
    RunRecord run;
    run.emplace_back("version", MSVIS_VERSION);
    std::string command_line;
    for (const auto& argument : options_.command_line) {
      command_line += (command_line.empty() ? "" : " ") + argument;
    }
    run.emplace_back("command_line", command_line);
    run.emplace_back("options", options_json(options_));
    run.emplace_back("started", utc_text(started_at_));
    run.emplace_back("ended", utc_text(std::time(nullptr)));
    run.emplace_back("processes", std::to_string(transport_.processes()));
    run.emplace_back("threads", std::to_string(all_threads_));
    return run;
  }

  // The exit code of process 0 counts.
  int tell_result() {
    if (!leads()) {
      return exit_done;
    }
    partial_file_.clear();
    output_->keep();
    if (!writes_json()) {
      report_->info("Indexes are complete");
    }
    for (const std::string& sentence : file_->surprises_in_the_viewer()) {
      report_->important_warning(sentence);
    }
    report_->tell_left_out();
    report_->info("Result: " + path_.string());

    summary_.version = MSVIS_VERSION;
    summary_.compare = options_.comparing();
    if (options_.comparing()) {
      summary_.mode = task_text(file_->config().mode);
    }
    for (const auto& [item, outcome] : file_->outcomes()) {
      summary_.items.push_back(outcome.record);
    }
    summary_.dropped = plan_.dropped;
    summary_.links = linked_nodes_;
    summary_.file = path_;
    summary_.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    summary_.processes = transport_.processes();
    summary_.threads = all_threads_;
    const auto failed =
        std::count_if(summary_.items.begin(), summary_.items.end(), [](const ItemRecord& record) { return record.status != "done"; });
    summary_.exit_code = failed > 0 ? exit_some_failed : finds_too_much() ? exit_found : exit_done;
    bool told = metrics_fault_.empty();
    if (!told) {
      report_->fatal("the parameter table (--metrics): " + metrics_fault_ + "; the result is complete: " + path_.string());
    }
    told = write_suggestions() && told;
    told = write_summary_json() && told;
    report_->info(failed == 0 ? "Done" : "Done, but " + pairs_text(static_cast<std::size_t>(failed)) + " failed");
    report_->progress().set(100);
    report_->progress().finish();
    const std::string text = summary_text(summary_);
    print(stderr, text);
    return told ? summary_.exit_code : exit_failed;
  }

  [[nodiscard]] bool finds_too_much() const {
    const Findings& found = summary_.findings;
    return (options_.fail_on != FailOn::never && found.failed > 0) || (options_.fail_on == FailOn::warning && found.warned > 0);
  }

  // The result file is complete by now; a summary that can't be written still is an error.
  bool write_summary_json() {
    if (options_.summary_json.empty()) {
      return true;
    }
    return write_text(options_.summary_json, summary_json(summary_));
  }

  // A file beside the result.
  bool write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (file) {
      return true;
    }
    report_->fatal(path.string() + ": could not be written (" + std::strerror(errno) + "); the result is complete: " + path_.string());
    return false;
  }

  // Mapping rules for nodes without counterpart.
  bool write_suggestions() {
    if (!summary_.suggestions) {
      return true;
    }
    const LayerMapping used = context_->mapping ? *context_->mapping : LayerMapping{};
    if (options_.layer_mapping && !options_.fuzzy_match) {
      summary_.unused_rules = unused_rules(used, mapping_usage_);
    }
    for (const UnusedRule& rule : summary_.unused_rules) {
      report_->warning("mapping rule " + rule.class_name + ": " + rule.from + ": " + rule.to + " (line " + std::to_string(rule.line) +
                       ") matched nothing");
    }
    if (options_.suggest_mapping.empty()) {
      return true;
    }
    std::string text = render_mapping(used, summary_.suggestions->rules);
    for (const UnusedRule& rule : summary_.unused_rules) {
      text += "# matched nothing: " + log_text(rule.class_name + ": " + rule.from + ": " + rule.to) + " (line " +
              std::to_string(rule.line) + ")\n";
    }
    if (!write_text(options_.suggest_mapping, text)) {
      return false;
    }
    report_->info("Suggested " + std::to_string(summary_.suggestions->rules.size()) + " mapping rules for " +
                  std::to_string(summary_.suggestions->promised_count) +
                  " nodes without counterpart: " + options_.suggest_mapping.string());
    return true;
  }

  Transport& transport_;
  RunOptions options_;
  Clock::time_point begin_ = Clock::now();
  std::shared_ptr<RunContext> context_;  // not changed once work has begun
  bool tensor_mode_ = false;
  bool divided_ = false;
  std::vector<NodeResources> nodes_;
  unsigned threads_ = 1;
  unsigned all_threads_ = 1;
  bool complete_ = false;     // the result file has its final name
  bool over_ = false;         // the run has ended without a result
  bool in_schedule_ = false;  // which looks for signals itself
  bool finishing_ = false;    // process 0: another thread has the result file
  std::optional<Clock::time_point> signal_seen_;

  // Process 0 only.
  std::optional<RunReport> report_;
  std::optional<OutputDirectory> output_;
  std::optional<ResultFile> file_;
  std::string partial_file_;  // empty: none
  bool resumed_ = false;      // the file is of an earlier run
  std::string metrics_fault_;
  WorkPlan plan_;
  std::vector<Part> parts_;
  std::size_t first_open_part_ = 0;
  std::map<std::size_t, OpenItem> open_;
  // Beside a job that writes.
  bool following_ = false;
  bool count_again_ = false;  // an item was compared twice
  RunIdentity identity_;
  std::map<std::int64_t, StepFile> step_files_;
  std::set<std::int64_t> steps_complete_;
  std::set<std::int64_t> steps_with_result_;
  Clock::time_point last_change_;
  std::set<std::size_t> failed_items_;  // told already
  RunSummary summary_;
  MappingUsage mapping_usage_;
  std::uint64_t linked_nodes_ = 0;
  std::time_t started_at_ = std::time(nullptr);
  std::filesystem::path path_;  // of the finished file
};

// The page that starts a conversion waits for a final line, even when the options are wrong.
void end_progress_of_wrong_usage(std::span<const char* const> arguments, const std::string& text) {
  const bool wanted = std::any_of(arguments.begin(), arguments.end(), [](const char* argument) {
    const std::string_view word = argument;
    return word == "-progress_log" || (word.starts_with("--is_print_p") && std::string_view("--is_print_progress_log").starts_with(word));
  });
  if (wanted) {
    RunOptions options;
    options.progress_log = true;
    RunReport(options).progress().error(text);  // its destructor prints the final line
  }
}

}  // namespace

int run_program(Transport& transport, int argc, const char* const* argv) {
  const std::span<const char* const> arguments(argv, static_cast<std::size_t>(argc));
  require_one_copy(transport);
  ParsedCommandLine parsed = parse_command_line(arguments);
  // Process 0 decides: 0 goes on, else the exit code plus one.
  std::string verdict;
  if (transport.process() == 0 && !parsed.options) {
    print(parsed.exit_code == 0 ? stdout : stderr, parsed.text);
    if (parsed.exit_code != 0) {
      end_progress_of_wrong_usage(arguments, parsed.text);
    }
    verdict = std::to_string(parsed.exit_code);
  }
  transport.broadcast(verdict, "reading the command line");
  if (!verdict.empty()) {
    return std::stoi(verdict);
  }
  try {
    agree(transport, parsed.options ? std::nullopt : std::optional(Fault{ErrorCategory::usage, parsed.text}), "reading the command line");
  } catch (const AgreedError& error) {
    if (transport.process() == 0) {
      print_last_error(nullptr, error.what());
    }
    return exit_usage;
  }
  Program program(transport, *std::move(parsed.options));
  if (auto* report = program.report()) {
    for (const std::string& warning : parsed.warnings) {
      report->important_warning(warning);
    }
  }
  try {
    return program.run();
  } catch (const std::exception& error) {
    // Only this process knows: no agreement is possible any more.
    if (auto* report = program.report()) {
      report->fatal(error.what());
    } else {
      print_last_error(&transport, error.what());
    }
    transport.abort(exit_failed);
  }
}

void print_last_error(const Transport* transport, const char* text) {
  std::string line = "msvis-mpi: error: ";
  if (transport != nullptr && transport->processes() > 1) {
    line += "process " + std::to_string(transport->process()) + ": ";
  }
  line += log_text(text) + "\n";
  print(stderr, line);
}

}  // namespace msvis
