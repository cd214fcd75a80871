#include "mpi/program.h"

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
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "layout/layout.h"
#include "merge/parameters.h"
#include "merge/replicas.h"
#include "mpi/background.h"
#include "mpi/metrics_export.h"
#include "mpi/node_resources.h"
#include "mpi/output_directory.h"
#include "mpi/run_report.h"
#include "mpi/signals.h"
#include "msvis/visdb.h"
#include "report/summary.h"
#include "run/run_item.h"
#include "table/new_file.h"

#ifndef MSVIS_VERSION
#define MSVIS_VERSION "unknown"
#endif

namespace msvis {
namespace {

using Clock = std::chrono::steady_clock;

// Memory of an item: two graphs with their texts, and what they grow to while they are compared.
constexpr std::uint64_t memory_per_json_byte = 6;
constexpr std::uint64_t memory_of_any_item = std::uint64_t{16} << 20U;
constexpr std::uint64_t percent_of_memory = 60;
// Added to the name of the partial file.
constexpr const char* metrics_suffix = "-metrics";
// mpirun kills a second after its SIGTERM; the final progress line must be out by then.
constexpr std::chrono::milliseconds pause_when_killed{600};
// Time for process 0 to remove the partial file before another process, which got the same signal, ends all.
constexpr std::chrono::milliseconds patience_with_process_0{800};

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

std::string item_name(std::int64_t step, std::int64_t rank) {
  return "step " + std::to_string(step) + " rank " + std::to_string(rank);
}

std::string pairs_text(std::size_t number) {
  return std::to_string(number) + (number == 1 ? " (step, rank) pair" : " (step, rank) pairs");
}

// What all processes must know of the plan.
struct SharedPlan {
  bool link_ranks = false;
  bool tensor_mode = false;  // an item occupies all threads of its process
  bool divided = false;      // some items are shared by several processes
  std::map<std::int64_t, std::vector<std::int64_t>> world_ranks;
};

SharedPlan share_of(const WorkPlan& plan, int processes) {
  SharedPlan shared;
  shared.link_ranks = plan.link_ranks;
  shared.tensor_mode = plan.tensor_mode;
  shared.divided = plan.tensor_mode && plan.items.size() < static_cast<std::size_t>(processes);
  for (const auto& item : plan.items) {
    shared.world_ranks[item.step].push_back(item.rank);
  }
  return shared;
}

std::string pack(const SharedPlan& shared) {
  ByteWriter out;
  out.put(shared.link_ranks);
  out.put(shared.tensor_mode);
  out.put(shared.divided);
  out.put_all(shared.world_ranks, [](ByteWriter& to, const auto& step) {
    to.put(step.first);
    to.put_all(step.second);
  });
  return out.take();
}

SharedPlan unpack_shared_plan(std::string_view bytes) {
  ByteReader in(bytes);
  SharedPlan shared;
  shared.link_ranks = in.get<bool>();
  shared.tensor_mode = in.get<bool>();
  shared.divided = in.get<bool>();
  const auto steps = in.get_all([](ByteReader& from) {
    const auto step = from.get<std::int64_t>();
    return std::pair(step, from.get_all([](ByteReader& ranks) { return ranks.get<std::int64_t>(); }));
  });
  shared.world_ranks.insert(steps.begin(), steps.end());
  return shared;
}

// How many processes share each item: by bytes, every process has one share.
std::vector<std::uint32_t> shares_of(const std::vector<WorkItem>& items, int processes) {
  std::vector<std::uint32_t> shares(items.size(), 1);
  // One process after the other goes to the item whose shares are largest.
  for (auto left = static_cast<std::size_t>(processes) - items.size(); left > 0; --left) {
    std::size_t largest = 0;
    const auto bytes_each = [&](std::size_t item) { return (items[item].tensor_bytes + 1) / shares[item]; };
    for (std::size_t item = 1; item < items.size(); ++item) {
      largest = bytes_each(item) > bytes_each(largest) ? item : largest;
    }
    ++shares[largest];
  }
  return shares;
}

// As the record of the run holds them.
std::string options_json(const RunOptions& options) {
  const auto ranges = [](const Selection& selection) {
    auto all = nlohmann::ordered_json::array();
    for (const auto& [first, last] : selection.ranges) {
      all.push_back({first, last});
    }
    return all;
  };
  nlohmann::ordered_json json;
  json["target_path"] = options.target.string();
  json["golden_path"] = options.golden.string();
  json["output_path"] = options.output.string();
  json["layer_mapping"] = options.layer_mapping;
  json["layer_mapping_file"] = options.layer_mapping_file.string();
  json["overflow_check"] = options.overflow_check;
  json["fuzzy_match"] = options.fuzzy_match;
  json["compat"] = options.compat == Compat::reference ? "reference" : "standard";
  json["links"] = options.links == LinkMode::extended ? "extended" : "standard";
  json["threads"] = options.threads;
  json["steps"] = ranges(options.steps);
  json["ranks"] = ranges(options.ranks);
  json["ignore_rules"] = options.ignore_rules.string();
  json["metrics"] = options.metrics.string();
  json["fail_on"] = options.fail_on == FailOn::never ? "never" : options.fail_on == FailOn::warning ? "warning" : "error";
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
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
      summary_.items_seconds = timed([this] { run_items(); });
      summary_.links_seconds = timed([this] { link_ranks(); });
      write_metrics();
      summary_.finish_seconds = timed([this] { finish(); });
      exit_code = tell_result();
    } catch (const AgreedError& error) {
      if (leads()) {
        writer_.reset();
        metrics_spill_.reset();
        output_.reset();
        report_->fatal(error.what());
      }
      exit_code = error.category() == ErrorCategory::usage ? exit_usage : exit_failed;
    }
    exit_code = static_cast<int>(transport_.maximum(exit_code, "ending"));
    transport_.set_idle_check(nullptr);
    return exit_code;
  }

  // Local, in an emergency: the file goes, whoever has it open.
  void remove_partial_file() const {
    if (!partial_file_.empty()) {
      unlink(partial_file_.c_str());
      unlink((partial_file_ + "-journal").c_str());
      unlink((partial_file_ + metrics_suffix).c_str());
    }
    if (!metrics_temporary_.empty()) {
      unlink(metrics_temporary_.c_str());
    }
  }

  RunReport* report() { return report_ ? &*report_ : nullptr; }

 private:
  [[nodiscard]] bool leads() const { return transport_.process() == 0; }
  // The items write the dumps of the merged graphs; there is no db file.
  [[nodiscard]] bool writes_json() const { return options_.merge && options_.merge->as_json; }

  // Called again and again in all waits.
  void idle() {
    // Once the result has its name, the rest takes no time.
    if (const int signal_number = noted_signal(); signal_number != 0 && !complete_) {
      end_by_signal(signal_number);
    }
    if (report_) {
      report_->progress().tick();
    }
  }

  // Threads may be in the middle of anything, so that nothing is destroyed: the partial file is removed, the last lines are printed.
  [[noreturn]] void end_by_signal(int signal_number) {
    if (!leads()) {
      std::this_thread::sleep_for(patience_with_process_0);
      transport_.abort(exit_code_of_signal(signal_number));
    }
    remove_partial_file();
    const std::string text = std::string("interrupted by signal ") + std::to_string(signal_number) + " (" + strsignal(signal_number) +
                             "); no result was written";
    report_->log().error(text);
    report_->progress().error(text);
    report_->progress().finish_soon(signal_number == SIGINT ? std::chrono::milliseconds(1100) : pause_when_killed);
    print(stderr, "msvis-mpi: error: " + text + "\n");
    remove_partial_file();  // a thread may have begun a new journal
    transport_.abort(exit_code_of_signal(signal_number));
  }

  // --- before the work -------------------------------------------------------------------------------------------------------------

  void prepare() {
    auto fault = capture_fault([&] {
      if (leads()) {
        prepare_output_and_plan();
      }
    });
    agree(transport_, fault, "preparing the run");
    std::string bytes = leads() ? pack(share_of(plan_, transport_.processes())) : std::string();
    transport_.broadcast(bytes, "sending the plan");
    fault = capture_fault([&] { read_context(unpack_shared_plan(bytes)); });
    agree(transport_, fault, "reading rules and mapping");

    nodes_ = gather_nodes(transport_);
    unsigned position = 0;
    for (int process = 0; process < transport_.process(); ++process) {
      position += transport_.node_of(process) == transport_.node_of(transport_.process()) ? 1 : 0;
    }
    const auto& node = nodes_[static_cast<std::size_t>(transport_.node_of(transport_.process()))];
    threads_ = options_.threads > 0 ? options_.threads : default_threads(node, position);
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

    fault = capture_fault([&] {
      if (leads() && writes_json()) {
        tell_beginning();
      } else if (leads()) {
        writer_.emplace(options_.output, options_.comparing());
        partial_file_ = writer_->partial_path().string();
        guard_against_crash(options_.progress_log, partial_file_);
        if (!options_.metrics.empty()) {
          metrics_spill_.emplace(partial_file_ + metrics_suffix);
        }
        tell_beginning();
      }
    });
    agree(transport_, fault, "opening the result file");
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
    plan_ = find_work(options_);
    plan_replicas(plan_, options_);
    if (plan_.items.empty()) {
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
    text += pairs_text(plan_.items.size()) + " of target " + printable(options_.target.string());
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
    ItemResult result;
    bool rows_given = false;
  };

  void run_items() {
    const auto records = std::make_shared<LinkRecordStore>(transport_.processes());
    if (leads()) {
      results_.resize(plan_.items.size());
      const auto shares = divided_ ? shares_of(plan_.items, transport_.processes()) : std::vector<std::uint32_t>(plan_.items.size(), 1);
      std::vector<std::uint64_t> costs;
      for (std::size_t item = 0; item < plan_.items.size(); ++item) {
        costs.push_back(plan_.items[item].cost());
        for (std::uint32_t share = 0; share < shares[item]; ++share) {
          add_part(item, share, shares[item], {});
        }
      }
      report_->set_items(std::move(costs));
    }
    run_parts(records);
    if (divided_) {
      if (leads()) {
        add_parts_for_deferred();
      }
      run_parts(records);
    }
    link_records_ = records;

    const auto fault = capture_fault([&] {
      if (leads()) {
        join_results();
        require_some_done();
        for (const ItemResult& result : results_) {
          if (result.record.status == "done") {
            summary_.findings.merge(result.findings);
            if (result.suggestions && !summary_.suggestions) {
              summary_.suggestions.emplace();
            }
            if (result.suggestions) {
              merge_suggestions(*summary_.suggestions, *result.suggestions);
              mapping_usage_.add(result.mapping_usage);
            }
          }
        }
        require_something_compared();
      }
    });
    agree(transport_, fault, "counting what was done");
    drop_failed_links(*records);
  }

  void add_part(std::size_t item, std::uint32_t share, std::uint32_t shares, std::string deferred) {
    Part& part = parts_.emplace_back(Part{item, plan_.items[item], {}});
    part.work.share = share;
    part.work.shares = shares;
    part.work.deferred = std::move(deferred);
  }

  // Collective. Runs the parts that have no result yet.
  void run_parts(const std::shared_ptr<LinkRecordStore>& records) {
    std::vector<ScheduledItem> items;
    ScheduleLimits limits;
    const std::size_t first = first_open_part_;
    if (leads()) {
      for (std::size_t part = first; part < parts_.size(); ++part) {
        const WorkItem& work = parts_[part].work;
        items.push_back({msvis::pack(work), work.cost() / work.shares, work.json_bytes * memory_per_json_byte + memory_of_any_item, -1});
      }
      for (const auto& node : nodes_) {
        limits.node_memory.push_back(node.available_memory == 0 ? UINT64_MAX : node.available_memory / 100 * percent_of_memory);
      }
    }
    ScheduleHooks hooks;
    // The captured pointers keep alive what a thread needs that is left behind.
    hooks.run = [context = std::shared_ptr<const RunContext>(context_), records](std::size_t, std::string_view bytes,
                                                                                 const BatchSink& sink) {
      return run_one(unpack_work_item(bytes), *context, *records, sink);
    };
    hooks.store = [this](std::size_t, std::string_view batch) {
      if (is_metrics_batch(batch)) {
        metrics_spill_->append(batch);
      } else {
        writer_->add(unpack_row_batch(batch));
      }
    };
    hooks.store_result = [this, first](std::size_t part, std::string_view bytes) { store_result(parts_[first + part], bytes); };
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
    // The tensors of one item keep all threads of a process busy.
    run_schedule(transport_, std::move(items), tensor_mode_ ? 1 : threads_, hooks, limits);
    first_open_part_ = parts_.size();
  }

  // Nodes whose tensors were compared by several processes.
  void add_parts_for_deferred() {
    std::map<std::size_t, std::vector<std::string>> found;
    for (const Part& part : parts_) {
      found[part.item].push_back(part.result.deferred);
    }
    for (const auto& [item, of_shares] : found) {
      std::string deferred = join_deferred(of_shares);
      const bool all_done = std::all_of(parts_.begin(), parts_.end(), [item = item](const Part& part) {
        return part.item != item || part.result.record.status == "done";
      });
      if (!deferred.empty() && all_done) {
        add_part(item, 0, static_cast<std::uint32_t>(of_shares.size()), std::move(deferred));
      }
    }
  }

  // One result for each item from those of its parts.
  void join_results() {
    std::vector<bool> begun(plan_.items.size(), false);
    std::vector<bool> rows_given(plan_.items.size(), false);
    for (Part& part : parts_) {
      ItemResult& whole = results_[part.item];
      rows_given[part.item] = rows_given[part.item] || part.rows_given;
      if (!begun[part.item]) {
        begun[part.item] = true;
        whole = std::move(part.result);
        continue;
      }
      whole.join(part.result);
    }
    for (std::size_t item = 0; item < results_.size(); ++item) {
      if (results_[item].record.status != "done" && rows_given[item]) {
        writer_->remove(results_[item].record.step, results_[item].record.rank);
        if (metrics_spill_) {
          metrics_spill_->remove(results_[item].record.step, results_[item].record.rank);
        }
      }
    }
  }

  // Collective. A process may have done its share of an item that failed elsewhere.
  void drop_failed_links(LinkRecordStore& records) {
    if (!divided_) {
      return;
    }
    ByteWriter out;
    std::vector<std::int64_t> failed;
    for (const ItemResult& result : results_) {
      if (result.record.status != "done") {
        failed.insert(failed.end(), {result.record.step, result.record.rank});
      }
    }
    out.put_all(failed);
    std::string bytes = out.take();
    transport_.broadcast(bytes, "telling what failed");
    failed = ByteReader(bytes).get_all([](ByteReader& in) { return in.get<std::int64_t>(); });
    for (std::size_t k = 0; k + 1 < failed.size(); k += 2) {
      records.drop(failed[k], failed[k + 1]);
    }
  }

  // Worker thread, any process. Faults of the input are in the result; the text has a flag in front: whether rows may be on their way.
  static std::string run_one(const WorkItem& item, const RunContext& context, LinkRecordStore& records, const BatchSink& sink) {
    std::atomic<bool> rows_given = false;
    ItemResult result;
    MetricsSink metrics;
    if (!context.options.metrics.empty()) {
      metrics = [&](std::string&& batch) {
        rows_given = true;
        sink(std::move(batch));
      };
    }
    try {
      result = run_item(
          item, context,
          [&](RowBatch&& batch) {
            rows_given = true;
            sink(msvis::pack(batch));
          },
          metrics);
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
      records.add(result.links);
    }
    result.links.clear();
    ByteWriter out;
    out.put(rows_given.load());
    return out.take() + msvis::pack(result);
  }

  // Writer thread of process 0. The main thread looks at the part only when the scheduler has handed it over.
  static void store_result(Part& part, std::string_view bytes) {
    part.rows_given = ByteReader(bytes).get<bool>();
    part.result = unpack_item_result(bytes.substr(sizeof part.rows_given));
  }

  void tell_part(const Part& part) {
    const ItemResult& result = part.result;
    report_->set_item_state(part.item, RunReport::ItemState::done);
    for (const auto& warning : result.warnings) {
      report_->warning(warning);
    }
    if (result.record.status != "done") {
      if (failed_items_.insert(part.item).second) {  // each share of a broken item says the same
        report_->item_error(result.record.error);
      }
      return;
    }
    const std::string share = part.work.shares > 1 && part.work.deferred.empty()
                                  ? " (share " + std::to_string(part.work.share + 1) + " of " + std::to_string(part.work.shares) + ")"
                                  : std::string();
    report_->detail("Finished " + item_name(result.record.step, result.record.rank) + share + ": " +
                    std::to_string(result.record.target_nodes + result.record.golden_nodes) + " nodes in " +
                    seconds_text(result.record.seconds));
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
    const auto failed = static_cast<std::size_t>(
        std::count_if(results_.begin(), results_.end(), [](const ItemResult& result) { return result.record.status != "done"; }));
    if (failed < results_.size()) {
      return;
    }
    const std::string first = results_.front().record.error;
    throw Error(ErrorCategory::format, failed == 1 ? first : "all " + pairs_text(failed) + " failed; the first: " + first);
  }

  // --- after the items ---------------------------------------------------------------------------------------------------------------

  void link_ranks() {
    if (!context_->link_ranks) {
      return;
    }
    if (leads()) {
      report_->info("Linking communication nodes across ranks");
    }
    LinkExchangeHooks hooks;
    hooks.store = [this](std::vector<Link>&& links) {
      for (const auto& link : links) {
        writer_->set_link(link);
      }
    };
    hooks.idle = [this] { idle(); };
    const auto result = exchange_links(transport_, *link_records_, hooks, {}, {});
    if (leads()) {
      linked_nodes_ = result.links;
      for (const auto& fault : result.faults) {
        report_->warning("some communication nodes stay without link: " + fault);
      }
      report_->info("Linked " + std::to_string(result.links) + " communication nodes");
      warn_of_unequal_counts();
    }
  }

  // Ranks that use a group unequally often shift each other's pairs.
  void warn_of_unequal_counts() {
    std::map<std::int64_t, std::vector<GroupCount>> by_step;
    std::map<std::int64_t, std::vector<std::int64_t>> ranks;
    for (ItemResult& result : results_) {
      if (result.record.status == "done") {
        auto& counts = by_step[result.record.step];
        counts.insert(counts.end(), std::make_move_iterator(result.group_counts.begin()),
                      std::make_move_iterator(result.group_counts.end()));
        ranks[result.record.step].push_back(result.record.rank);
      }
    }
    for (auto& [step, counts] : by_step) {
      for (const std::string& warning : group_count_warnings(std::move(counts), ranks[step])) {
        report_->warning(warning);
      }
    }
  }

  // Collective. The result does without the table if that can't be written.
  void write_metrics() {
    if (options_.metrics.empty()) {
      return;
    }
    MetricsFileFacts facts;
    facts.program_version = MSVIS_VERSION;
    facts.comparing = options_.comparing();
    std::set<std::string_view> modes;
    for (const auto& result : results_) {
      if (result.mode) {
        modes.insert(task_text(*result.mode));
      }
    }
    facts.modes.assign(modes.begin(), modes.end());
    MetricsExportHooks hooks;
    hooks.idle = [this] { idle(); };
    hooks.interrupted = [this](int signal_number) { end_by_signal(signal_number); };
    hooks.writing = [this](const std::filesystem::path& temporary) {
      metrics_temporary_ = temporary.string();
      remove_at_crash(metrics_temporary_);
    };
    if (leads()) {
      report_->info("Writing the parameter table");
    }
    try {
      const auto start = Clock::now();
      const std::uint64_t rows = export_metrics(transport_, metrics_spill_ ? &*metrics_spill_ : nullptr, options_.metrics, facts, hooks);
      if (leads()) {
        report_->info("Wrote " + std::to_string(rows) + " parameters to " + printable(options_.metrics.string()) + " in " +
                      seconds_text(std::chrono::duration<double>(Clock::now() - start).count()));
      }
    } catch (const AgreedError& error) {
      metrics_fault_ = error.what();
    }
    metrics_spill_.reset();
  }

  void finish() {
    std::optional<Fault> fault;
    if (leads() && writes_json()) {
      file_ = options_.output;
    } else if (leads()) {
      report_->info("Building the indexes");
      fault = run_in_background([this] { write_result(); }, [this] { idle(); });
    }
    agree(transport_, fault, "completing the result file");
    complete_ = true;
  }

  // Background thread of process 0.
  void write_result() {
    const RunConfig config = make_config();
    std::vector<ItemRecord> records;
    records.reserve(results_.size());
    for (const auto& result : results_) {
      records.push_back(result.record);
    }
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
    file_ = writer_->finish(config, records, run);
    complete_ = true;
  }

  // Only pairs with rows count.
  RunConfig make_config() const {
    RunConfig config;
    config.compare = options_.comparing();
    config.overflow_check = options_.overflow_check;
    std::set<std::int64_t> steps;
    std::set<std::int64_t> ranks;
    bool first = true;
    for (const auto& result : results_) {  // ascending by (step, rank), as the plan is
      if (result.record.status != "done") {
        continue;
      }
      steps.insert(result.record.step);
      ranks.insert(result.record.rank);
      if (first) {
        config.micro_steps = result.micro_steps;
        config.mode = result.mode.value_or(config.mode);
      } else if (options_.compat == Compat::standard) {
        config.micro_steps = std::max(config.micro_steps, result.micro_steps);
      }
      first = false;
    }
    config.steps.assign(steps.begin(), steps.end());
    config.ranks.assign(ranks.begin(), ranks.end());
    return config;
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
    warn_of_holes();
    warn_of_modes();
    report_->tell_left_out();
    report_->info("Result: " + file_.string());

    summary_.version = MSVIS_VERSION;
    summary_.compare = options_.comparing();
    if (options_.comparing()) {
      summary_.mode = task_text(make_config().mode);
    }
    for (const auto& result : results_) {
      summary_.items.push_back(result.record);
    }
    summary_.dropped = plan_.dropped;
    summary_.links = linked_nodes_;
    summary_.file = file_;
    summary_.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    summary_.processes = transport_.processes();
    summary_.threads = all_threads_;
    const auto failed =
        std::count_if(summary_.items.begin(), summary_.items.end(), [](const ItemRecord& record) { return record.status != "done"; });
    summary_.exit_code = failed > 0 ? exit_some_failed : finds_too_much() ? exit_found : exit_done;
    bool told = metrics_fault_.empty();
    if (!told) {
      report_->fatal("the parameter table (--metrics): " + metrics_fault_ + "; the result is complete: " + file_.string());
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
    report_->fatal(path.string() + ": could not be written (" + std::strerror(errno) + "); the result is complete: " + file_.string());
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

  // The page offers every step with every rank.
  void warn_of_holes() {
    std::set<std::int64_t> steps;
    std::set<std::int64_t> ranks;
    std::set<std::pair<std::int64_t, std::int64_t>> pairs;
    for (const auto& result : results_) {
      if (result.record.status == "done") {
        steps.insert(result.record.step);
        ranks.insert(result.record.rank);
        pairs.emplace(result.record.step, result.record.rank);
      }
    }
    const std::size_t holes = steps.size() * ranks.size() - pairs.size();
    if (holes == 0) {
      return;
    }
    for (const auto step : steps) {
      for (const auto rank : ranks) {
        if (pairs.count({step, rank}) == 0) {
          report_->important_warning("the result has no rows for " + item_name(step, rank) +
                                     (holes == 1 ? std::string() : " and " + std::to_string(holes - 1) + " other pairs") +
                                     ", although the viewer offers them: not every step has every rank");
          return;
        }
      }
    }
  }

  // The viewer knows one mode per file.
  void warn_of_modes() {
    const ItemResult* first = nullptr;
    for (const auto& result : results_) {
      if (result.record.status != "done" || !result.mode) {
        continue;
      }
      if (first == nullptr) {
        first = &result;
      } else if (*result.mode != *first->mode) {
        report_->important_warning(item_name(result.record.step, result.record.rank) + " was compared in mode " +
                                   std::string(task_text(*result.mode)) + ", " + item_name(first->record.step, first->record.rank) +
                                   " in mode " + std::string(task_text(*first->mode)) + ": the viewer will take all for " +
                                   std::string(task_text(*first->mode)));
        return;
      }
    }
  }

  Transport& transport_;
  RunOptions options_;
  Clock::time_point begin_ = Clock::now();
  std::shared_ptr<RunContext> context_;  // not changed once work has begun
  bool tensor_mode_ = false;
  bool divided_ = false;
  std::shared_ptr<LinkRecordStore> link_records_;
  std::vector<NodeResources> nodes_;
  unsigned threads_ = 1;
  unsigned all_threads_ = 1;
  std::atomic<bool> complete_ = false;  // the result file has its final name

  // Process 0 only.
  std::optional<RunReport> report_;
  std::optional<OutputDirectory> output_;
  std::optional<VisDbWriter> writer_;
  std::string partial_file_;                   // empty: none
  std::optional<MetricsSpill> metrics_spill_;  // with --metrics
  std::string metrics_temporary_;              // empty: none
  std::string metrics_fault_;
  WorkPlan plan_;
  std::vector<Part> parts_;
  std::size_t first_open_part_ = 0;
  std::set<std::size_t> failed_items_;  // told already
  std::vector<ItemResult> results_;     // by item
  RunSummary summary_;
  MappingUsage mapping_usage_;
  std::uint64_t linked_nodes_ = 0;
  std::time_t started_at_ = std::time(nullptr);
  std::filesystem::path file_;
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
      program.remove_partial_file();
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
