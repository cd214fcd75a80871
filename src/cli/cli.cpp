#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "base/printable.h"
#include "cli/arguments.h"
#include "cli/values.h"

namespace msvis {
namespace {

using cli::Arguments;
using cli::is_count;
using cli::is_integer;
using cli::is_selection;
using cli::one_of;
using cli::read_number;
using cli::selection_of;

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kNiceBesideAJob = 10;

/// Ends the parsing: what to print and how the program ends.
struct Stop {
  std::string text;
  int exit_code = kExitUsage;
};

CLI::Validator is_table_file() {
  return {[](const std::string& text) {
            const std::string_view name = text;
            const bool known = name.ends_with(".h5") || name.ends_with(".hdf5") || name.ends_with(".csv");
            return known ? std::string() : printable(text) + " does not tell the format; give a name that ends in .h5, .hdf5 or .csv";
          },
          "", ""};
}

CLI::Validator is_whole(std::int64_t least, std::int64_t most) {
  return {[least, most](const std::string& text) {
            const auto number = read_number<std::int64_t>(text);
            return number && *number >= least && *number <= most ? std::string()
                                                                 : printable(text) + " is no whole number from " + std::to_string(least) +
                                                                       (most == INT64_MAX ? " up" : " to " + std::to_string(most));
          },
          "", ""};
}

CLI::Validator is_seconds() {
  return {[](const std::string& text) {
            const auto seconds = read_number<double>(text);
            return seconds && *seconds >= 0 && *seconds <= 1e9 ? std::string() : printable(text) + " is no number of seconds";
          },
          "", ""};
}

/// CLI11 knows the long names only; the help shows the short ones beside them.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(40); }

  std::string make_option_name(const CLI::Option* option, bool /*is_positional*/) const override {
    const std::string long_name = option->get_name();
    for (const cli::OptionSpec& spec : cli::option_specs()) {
      if (spec.long_name == long_name && !spec.short_name.empty()) {
        return std::string(spec.short_name) + ", " + long_name;
      }
    }
    return long_name;
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() ? std::string() : " " + option->get_type_name();
  }

  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: msvis-mpi -tp TARGET [-gp GOLDEN] -o OUTPUT [options]\n"
           "       mpirun -n PROCESSES msvis-mpi -tp TARGET [-gp GOLDEN] -o OUTPUT [options]\n";
  }

  std::string make_group(std::string group, bool is_positional, std::vector<const CLI::Option*> options) const override {
    std::string text = group + ":\n";
    for (const CLI::Option* option : options) {
      text += make_option(option, is_positional);
    }
    return text;
  }

  std::string make_footer(const CLI::App* app) const override { return "\n" + app->get_footer() + "\n"; }
};

constexpr const char* kDescription =
    "Compares two msProbe dumps of one training or inference job, node by node, and writes compare_{time}.vis.db for the\n"
    "TensorBoard plugin tb_graph_ascend. Without -gp it writes the graphs of one dump, build_{time}.vis.db.\n";

constexpr const char* kFooter =
    "A dump directory holds dump.json, stack.json and construct.json itself, or rank0, rank1, ... or step0, step1, ... of such.\n"
    "Options stand in any order; of a repeated option the last one counts; --name=VALUE is the same as --name VALUE.\n"
    "\n"
    "Examples:\n"
    "  msvis-mpi -tp dumps/npu -gp dumps/gpu -o result                  compare every step and rank that both sides have\n"
    "  mpirun -n 8 msvis-mpi -tp dumps/npu -gp dumps/gpu -o result -oc  the same on 8 processes, with overflow levels\n"
    "  msvis-mpi -tp dumps/npu -o result --steps 0-3 --ranks 0,8        graphs of some steps and ranks of one dump\n"
    "  msvis-mpi -tp ms -gp pt -o result -lm mapping.yaml               MindSpore against PyTorch\n"
    "  msvis-mpi -tp tp8 -gp tp4 -o result --rank_size 8 4 --tp 8 4 --pp 1 1  ranks of split models, folded first\n"
    "\n"
    "Exit codes: 0 complete; 1 no result (also when nothing could be compared); 2 wrong usage; 3 complete, but some steps or\n"
    "ranks failed; 4 interrupted, --resume continues; 5 differences found (--fail-on); 130 interrupted from the keyboard before\n"
    "anything was done.";

/// The options as CLI11 sees them: values as text, checked by validators that speak of the option.
struct Values {
  std::string target, golden, output, layer_mapping, file_type = "db";
  std::vector<std::string> rank_size, tp, pp, vpp, cp, ep, order;
  std::string compat = "standard", links = "standard", fail_on = "never";
  std::string steps, ranks, threads = "0", io_depth = "0", ignore_rules, summary_json, suggest_mapping, metrics;
  std::string settle = "30", poll = "5", idle_timeout = "0", until_step, nice;
  bool drop_cache = false, resume = false, follow = false;
  bool overflow_check = false, fuzzy_match = false, tensor_log = false, progress_log = false;
};

class CommandLine {
 public:
  CommandLine() : app_(kDescription, "msvis-mpi") {
    app_.formatter(std::make_shared<HelpFormatter>());
    app_.set_help_flag();
    app_.footer(kFooter);
    app_.allow_windows_style_options(false);
    declare_paths();
    declare_comparison();
    declare_run();
    declare_follow();
    declare_merging();
    flag("--help", help_shown_, "this text", "Help");
    flag("--version", help_shown_, "the version", "Help");
  }

  [[nodiscard]] std::string help() const { return app_.help(); }

  /// Throws CLI::ParseError.
  const Values& parse(const Arguments& arguments) {
    std::vector<std::string> words;
    for (const auto& [name, values] : arguments.given) {
      if (values.empty() && cli::spec_of(name).arity == cli::Arity::flag) {
        words.emplace_back(name);
      }
      for (const std::string& value : values) {
        if (value.empty()) {  // CLI11 would take the next word instead
          refuse_empty(name);
          continue;
        }
        std::string word(name);
        word += '=';
        word += value;
        words.push_back(std::move(word));
      }
    }
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app_.parse(std::move(words));
    return values_;
  }

 private:
  static void refuse_empty(std::string_view name) {
    if (name == "--golden_path") {
      return;  // the same as no golden side
    }
    std::string hint;
    if (name == "--layer_mapping") {
      hint = "; leave it away for a mapping without a file";
    }
    throw CLI::ValidationError(cli::display_name(cli::spec_of(name)), "the value is empty" + hint);
  }

  CLI::Option* text(const std::string& name, std::string& value, const std::string& description, const std::string& group,
                    const std::string& type) {
    return app_.add_option(name, value, description)->group(group)->type_name(type);
  }

  CLI::Option* list(const std::string& name, std::vector<std::string>& value, const std::string& description, const std::string& type) {
    return app_.add_option(name, value, description)->group("Merging ranks")->type_name(type);
  }

  void flag(const std::string& name, bool& value, const std::string& description, const std::string& group) {
    app_.add_flag(name, value, description)->group(group);
  }

  void declare_paths() {
    const std::string group = "Input and output";
    text("--target_path", values_.target, "dump under suspicion (required)", group, "DIR");
    text("--golden_path", values_.golden, "dump to compare with; none or \"\": build the graphs of\nthe target only", group, "DIR");
    text("--output_path", values_.output, "directory of the result, made if missing (required)", group, "DIR");
    text("--summary-json", values_.summary_json, "also write a summary for programs (default: none)", group, "FILE");
    text("--metrics", values_.metrics,
         "also write every parameter with all its metrics as a\ntable: HDF5 (FILE.h5) or CSV (FILE.csv) (default: none)", group, "FILE")
        ->check(is_table_file());
  }

  void declare_comparison() {
    const std::string group = "Comparison";
    text("--layer_mapping", values_.layer_mapping,
         "match layers of different names by the YAML file;\nwithout FILE only class names may differ (default: off)", group, "[FILE]");
    text("--suggest-mapping", values_.suggest_mapping,
         "after the run, write mapping rules that would match nodes\nwithout counterpart (default: none)", group, "FILE");
    flag("--fuzzy_match", values_.fuzzy_match, "match APIs whose call numbers differ inside matched\nmodules (default: off)", group);
    flag("--overflow_check", values_.overflow_check, "find the nodes where NaN or Inf begins (default: off)", group);
    text("--ignore-rules", values_.ignore_rules, "nodes that -oc leaves out (default: the installed list)", group, "FILE");
    text("--links", values_.links,
         "communication links: standard (as the reference) or\nextended (every spelling of the call; default: standard)", group, "MODE")
        ->check(one_of({"standard", "extended"}));
    text("--compat", values_.compat, "standard, or reference: reproduce the reference's\nresult, quirk for quirk (default: standard)",
         group, "MODE")
        ->check(one_of({"standard", "reference"}));
    text("--fail-on", values_.fail_on, "end with 5 when a node is warning or error, or error\n(never, warning, error; default: never)",
         group, "LEVEL")
        ->check(one_of({"never", "warning", "error"}));
  }

  void declare_run() {
    const std::string group = "Selection and run";
    text("--steps", values_.steps, "steps to work on, such as 0,2-5 (default: all)", group, "LIST")->check(is_selection());
    text("--ranks", values_.ranks, "ranks to work on, such as 0,8-15 (default: all)", group, "LIST")->check(is_selection());
    text("--threads", values_.threads,
         "worker threads of each process; 0: the cores of the\nmachine divided by the processes on it (default: 0,\nwith --follow 1)",
         group, "N")
        ->check(is_count("threads", "a share of the cores"));
    text("--io-depth", values_.io_depth,
         "pairs of tensor files that a process works on at once;\nmore than its threads hides slow storage (default: 0,\nas many as "
         "threads)",
         group, "N")
        ->check(is_count("pairs of files", "as many as threads"));
    flag("--drop-cache", values_.drop_cache, "give the page cache of tensor files back, for a run\nbeside a training job", group);
    flag("--resume", values_.resume, "continue the unfinished result that an earlier run left in\n-o (begins anew if there is none)",
         group);
    text("--nice", values_.nice, "lower the priority, 0 to 19 (default: 0, with --follow 10)", group, "N")->check(is_whole(0, 19));
    flag("--is_print_compare_log", values_.tensor_log, "a line on stderr for each compared tensor", group);
    flag("--is_print_progress_log", values_.progress_log, "progress lines for the viewer on stdout", group);
  }

  void declare_follow() {
    const std::string group = "Beside a running job";
    flag("--follow", values_.follow,
         "compare each step and rank as soon as the job has written it;\nresults of each step in OUTPUT/step{N}, of all at the end", group);
    text("--settle", values_.settle,
         "a dump is complete when the next step of its rank exists, or\nwhen it has not changed for so long (default: 30)", group,
         "SECONDS")
        ->check(is_seconds());
    text("--poll", values_.poll, "time between two looks at the directories (default: 5)", group, "SECONDS")->check(is_seconds());
    text("--idle-timeout", values_.idle_timeout, "end when nothing has changed for so long; 0: never\n(default: 0)", group, "SECONDS")
        ->check(is_seconds());
    text("--until-step", values_.until_step, "end when this step is complete (default: none)", group, "N")->check(is_whole(0, INT64_MAX));
  }

  void declare_merging() {
    list("--rank_size", values_.rank_size,
         "merge the ranks of each model replica into one graph; how\nmany rank directories there are, one number a side", "N [N]")
        ->check(is_integer());
    list("--tp", values_.tp, "tensor-parallel size, one number a side", "N [N]")
        ->check(is_integer("; --tp is the tensor-parallel size, the target directory is given with -tp"));
    list("--pp", values_.pp, "pipeline stages, one number a side", "N [N]")->check(is_integer());
    list("--vpp", values_.vpp, "model chunks of a pipeline stage; one number is for both\nsides (default: 1)", "N [N]")
        ->check(is_integer());
    list("--cp", values_.cp, "context-parallel size; one number is for both sides\n(default: 1)", "N [N]")->check(is_integer());
    list("--ep", values_.ep, "expert-parallel size; one number is for both sides\n(default: 1)", "N [N]")->check(is_integer());
    list("--order", values_.order, "dimensions of the rank number, fastest first; one text is\nfor both sides (default: tp-cp-ep-dp-pp)",
         "TEXT [TEXT]");
    text("--file_type", values_.file_type, "db, or json: write the merged dump of one side as json\nfiles (default: db)", "Merging ranks",
         "TYPE")
        ->check(one_of({"db", "json"}));
  }

  CLI::App app_;
  Values values_;
  bool help_shown_ = false;
};

void check_count(const char* name, const std::vector<std::string>& values, std::size_t wanted, bool comparing) {
  if (values.size() != wanted) {
    throw Stop{std::string(name) + " needs " + (comparing ? "2 values in a comparison (target, golden)" : "1 value without -gp") +
               ", but " + std::to_string(values.size()) + " were given"};
  }
}

void check_one_or_two(const char* name, const std::vector<std::string>& values) {
  if (values.size() > 2) {
    throw Stop{std::string(name) + " takes 1 or 2 values, but " + std::to_string(values.size()) + " were given"};
  }
}

/// The rules of the merge options: presence and counts. What the numbers must be is checked against the directories (src/merge).
void check_merging(const Arguments& arguments, const Values& values, std::vector<std::string>& warnings) {
  const bool comparing = !values.golden.empty();
  const bool merging = arguments.has("--rank_size");
  if (merging) {
    for (const char* name : {"--tp", "--pp"}) {
      if (!arguments.has(name)) {
        throw Stop{"--rank_size needs " + std::string(name) + " too; --rank_size, --tp and --pp belong together"};
      }
    }
    const std::size_t wanted = comparing ? 2 : 1;
    check_count("--rank_size", values.rank_size, wanted, comparing);
    check_count("--tp", values.tp, wanted, comparing);
    check_count("--pp", values.pp, wanted, comparing);
  }
  check_one_or_two("--vpp", values.vpp);
  check_one_or_two("--cp", values.cp);
  check_one_or_two("--ep", values.ep);
  check_one_or_two("--order", values.order);
  if (values.file_type == "json") {
    if (comparing) {
      throw Stop{"--file_type json is for merged dumps of one side; it can't be used with -gp", kExitFailure};
    }
    if (merging && !values.metrics.empty()) {
      throw Stop{"--file_type json writes dumps and no graphs; --metrics can't be used with it"};
    }
    if (!merging) {
      warnings.emplace_back("--file_type json has no effect without --rank_size; the result is a db file");
    }
  }
  if (merging) {
    if (values.compat == "reference" && (arguments.has("--cp") || arguments.has("--ep"))) {
      throw Stop{"--cp and --ep have no counterpart in the reference; leave --compat=reference away"};
    }
    if (!values.ranks.empty()) {
      throw Stop{"--ranks can't be used with --rank_size: merging needs all ranks of the job"};
    }
    if (arguments.has("--layer_mapping")) {
      warnings.emplace_back("-lm has no effect when ranks are merged: nodes are matched fuzzily");
    }
    return;
  }
  for (const char* name : {"--tp", "--pp", "--vpp", "--cp", "--ep", "--order"}) {
    if (arguments.has(name)) {
      warnings.push_back(std::string(name) + " has no effect without --rank_size");
    }
  }
}

void check_follow(const Arguments& arguments, const Values& values, std::vector<std::string>& warnings) {
  if (values.follow && arguments.has("--rank_size")) {
    throw Stop{"--follow can't merge ranks; leave --rank_size away, or run without --follow when the job has ended"};
  }
  for (const char* name : {"--settle", "--poll", "--idle-timeout", "--until-step"}) {
    if (!values.follow && arguments.has(name)) {
      warnings.push_back(std::string(name) + " has no effect without --follow");
    }
  }
}

void check_required(const Values& values) {
  std::string missing;
  if (values.target.empty()) {
    missing = "-tp (directory of the dump)";
  }
  if (values.output.empty()) {
    missing += std::string(missing.empty() ? "" : " and ") + "-o (directory of the result)";
  }
  if (!missing.empty()) {
    throw Stop{"required, but not given: " + missing};
  }
}

/// The merge options of one side (0: target, 1: golden).
MergeSide merge_side(const Values& values, std::size_t side, bool comparing, Compat compat) {
  MergeSide merge;
  const auto read = [](const std::string& text) { return read_number<std::int64_t>(text).value_or(0); };
  merge.rank_size = read(values.rank_size[side]);
  merge.tp = read(values.tp[side]);
  merge.pp = read(values.pp[side]);
  // One value is for both sides; the reference takes the values only if there is one for each side.
  const auto optional = [&](const std::vector<std::string>& given) -> const std::string* {
    if (given.empty() || (compat == Compat::reference && comparing && given.size() != 2)) {
      return nullptr;
    }
    return &given[std::min(side, given.size() - 1)];
  };
  for (const auto& [given, place] :
       {std::pair(&values.vpp, &merge.vpp), std::pair(&values.cp, &merge.cp), std::pair(&values.ep, &merge.ep)}) {
    if (const std::string* text = optional(*given)) {
      *place = read(*text);
    }
  }
  if (const std::string* text = optional(values.order)) {
    merge.order = *text;
  }
  return merge;
}

/// Later steps are not wanted.
void clip(Selection& selection, std::int64_t last) {
  if (selection.all()) {
    selection.ranges.emplace_back(0, last);
    return;
  }
  std::erase_if(selection.ranges, [last](const auto& range) { return range.first > last; });
  for (auto& range : selection.ranges) {
    range.second = std::min(range.second, last);
  }
  if (selection.ranges.empty()) {
    throw Stop{"--until-step lies before all steps that --steps selects"};
  }
}

RunOptions to_options(const Arguments& arguments, const Values& values) {
  RunOptions options;
  options.target = values.target;
  options.golden = values.golden;
  options.output = values.output;
  options.layer_mapping = arguments.has("--layer_mapping");
  options.layer_mapping_file = values.layer_mapping;
  options.overflow_check = values.overflow_check;
  options.fuzzy_match = values.fuzzy_match;
  options.tensor_log = values.tensor_log;
  options.progress_log = values.progress_log;
  options.compat = values.compat == "reference" ? Compat::reference : Compat::standard;
  options.links = values.links == "extended" ? LinkMode::extended : LinkMode::standard;
  options.threads = read_number<unsigned>(values.threads).value_or(0);
  options.io_depth = read_number<unsigned>(values.io_depth).value_or(0);
  options.drop_cache = values.drop_cache || values.follow;
  options.resume = values.resume;
  options.follow = values.follow;
  options.settle_seconds = read_number<double>(values.settle).value_or(options.settle_seconds);
  options.poll_seconds = read_number<double>(values.poll).value_or(options.poll_seconds);
  options.idle_timeout_seconds = read_number<double>(values.idle_timeout).value_or(0);
  options.until_step = read_number<std::int64_t>(values.until_step);
  options.nice = read_number<int>(values.nice).value_or(values.follow ? kNiceBesideAJob : 0);
  options.steps = selection_of(values.steps);
  if (options.follow && options.until_step) {
    clip(options.steps, *options.until_step);
  }
  options.ranks = selection_of(values.ranks);
  options.ignore_rules = values.ignore_rules;
  options.summary_json = values.summary_json;
  options.suggest_mapping = values.suggest_mapping;
  options.metrics = values.metrics;
  if (values.fail_on != "never") {
    options.fail_on = values.fail_on == "error" ? FailOn::error : FailOn::warning;
  }
  if (arguments.has("--rank_size")) {
    MergeOptions& merge = options.merge.emplace();
    merge.target = merge_side(values, 0, options.comparing(), options.compat);
    if (options.comparing()) {
      merge.golden = merge_side(values, 1, true, options.compat);
    }
    merge.as_json = values.file_type == "json";
    options.layer_mapping = false;
  }
  return options;
}

/// A message of one line, whatever was in the argument.
std::string usage_error(std::string_view message) {
  std::string text = "msvis-mpi: ";
  for (const char c : message) {
    text += c == '\n' || c == '\r' ? ' ' : c;
  }
  return text + " (msvis-mpi --help lists the options)";
}

ParsedCommandLine parse(std::span<const std::string> words) {
  ParsedCommandLine result;
  const Arguments arguments = cli::read_arguments(words.empty() ? words : words.subspan(1));
  CommandLine command_line;
  if (arguments.help) {
    result.text = command_line.help();
    return result;
  }
  if (arguments.version) {
    result.text = "msvis-mpi " MSVIS_VERSION;
    return result;
  }
  try {
    if (arguments.error) {
      throw Stop{*arguments.error};
    }
    const Values& values = command_line.parse(arguments);
    check_required(values);
    check_merging(arguments, values, result.warnings);
    check_follow(arguments, values, result.warnings);
    if (values.golden.empty() && !values.suggest_mapping.empty()) {
      result.warnings.emplace_back("--suggest-mapping has no effect without -gp");
    }
    result.options = to_options(arguments, values);
    result.options->command_line.assign(words.begin(), words.end());
  } catch (const Stop& stop) {
    result.text = usage_error(stop.text);
    result.exit_code = stop.exit_code;
  } catch (const CLI::ParseError& fault) {
    result.text = usage_error(fault.what());
    result.exit_code = kExitUsage;
  }
  return result;
}

}  // namespace

ParsedCommandLine parse_command_line(std::span<const char* const> argv) {
  ParsedCommandLine failed;
  failed.exit_code = kExitFailure;
  try {
    std::vector<std::string> words;
    for (const char* word : argv) {
      if (word == nullptr) {
        break;
      }
      words.emplace_back(word);
    }
    return parse(words);
  } catch (const std::exception& fault) {
    failed.text = std::string("msvis-mpi: the command line can't be read: ") + fault.what();
  } catch (...) {
    failed.text = "msvis-mpi: the command line can't be read";
  }
  return failed;
}

}  // namespace msvis
