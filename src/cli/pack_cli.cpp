#include "cli/pack_cli.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <memory>
#include <string_view>

#include "cli/values.h"

namespace msvis {
namespace {

constexpr int exit_failure = 1;
constexpr int exit_usage = 2;

constexpr const char* description =
    "Packs the tensor files of each rank of a dump (dump_tensor_data/) into one HDF5 file beside it, dump_tensor_data.h5, which\n"
    "msvis-mpi reads like the directory, and h5py and h5dump as well. Many small files become one: quicker to open, copy and keep.\n";

constexpr const char* footer =
    "A dump is what msvis-mpi takes for -tp: a directory with dump.json, or with rank0, rank1, ... or step0, step1, ... of such.\n"
    "A rank changes from one form to the other in one step, when all is on the disk; an interrupted run leaves the old form.\n"
    "\n"
    "Examples:\n"
    "  msvis-pack --verify dumps/npu                           pack beside the originals, and compare with them\n"
    "  mpirun -n 8 msvis-pack --replace dumps/npu dumps/gpu    pack two dumps on 8 processes; the originals go\n"
    "  msvis-pack --replace --compress=4 dumps/npu --steps 0   the same for one step, compressed\n"
    "  msvis-pack --unpack --replace dumps/npu                 back to files\n"
    "\n"
    "Exit codes: 0 complete; 1 nothing was done; 2 wrong usage; 3 complete, but some ranks failed; 130 interrupted.";

class PackFormatter : public CLI::Formatter {
 public:
  PackFormatter() { column_width(28); }
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: msvis-pack [options] DUMP...\n"
           "       mpirun -n PROCESSES msvis-pack [options] DUMP...\n\n";
  }
  std::string make_positionals(const CLI::App* /*app*/) const override { return {}; }
  std::string make_option_name(const CLI::Option* option, bool /*is_positional*/) const override {
    return option->get_name() == "--compress" ? "--compress[=LEVEL]" : option->get_name();
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() || option->get_name() == "--compress" ? std::string() : " " + option->get_type_name();
  }
  std::string make_footer(const CLI::App* app) const override { return "\n" + app->get_footer() + "\n"; }
};

std::string usage_error(std::string_view message) {
  std::string text = "msvis-pack: ";
  for (const char c : message) {
    text += c == '\n' || c == '\r' ? ' ' : c;
  }
  return text + " (msvis-pack --help lists the options)";
}

CLI::Validator is_level() {
  return {[](const std::string& text) {
            const auto level = cli::read_number<int>(text);
            return level && *level >= 1 && *level <= 9 ? std::string() : "'" + text + "' is no level; give 1 (fast) to 9 (small)";
          },
          "", ""};
}

ParsedPackCommand parse(std::span<const char* const> argv) {
  ParsedPackCommand result;
  PackCommand command;
  std::vector<std::string> dumps;
  std::string steps;
  std::string ranks;
  std::string threads = "0";
  bool help = false;
  bool version = false;
  CLI::App app(description, "msvis-pack");
  app.formatter(std::make_shared<PackFormatter>());
  app.set_help_flag();
  app.footer(footer);
  app.allow_windows_style_options(false);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("DUMP", dumps)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  const auto option = [&](const char* name, std::string& value, const char* text, const char* type) {
    return app.add_option(name, value, text)->type_name(type);
  };
  app.add_flag("--compress{1}", command.compression, "deflate the tensors, LEVEL 1 (fast, the default) to 9\n(default: no compression)")
      ->check(is_level());
  app.add_flag("--verify", command.verify,
               "read back and compare with the originals; of a rank that\nis packed already, check the checksums");
  app.add_flag("--replace", command.replace, "remove the originals after --verify (implied)");
  app.add_flag("--unpack", command.unpack, "restore dump_tensor_data/ from the pack; with --replace\nremove the pack afterwards");
  option("--steps", steps, "steps to work on, such as 0,2-5 (default: all)", "LIST")->check(cli::is_selection());
  option("--ranks", ranks, "ranks to work on, such as 0,8-15 (default: all)", "LIST")->check(cli::is_selection());
  option("--threads", threads, "worker threads of each process; 0: the cores of the\nmachine divided by the processes on it (default: 0)",
         "N")
      ->check(cli::is_count("threads", "a share of the cores"));
  app.add_flag("--help", help, "this text");
  app.add_flag("--version", version, "the version");
  try {
    std::vector<std::string> words;
    for (std::size_t k = argv.size(); k-- > 1;) {  // CLI11 takes them from the back
      if (argv[k] != nullptr) {
        words.emplace_back(argv[k]);
      }
    }
    app.parse(std::move(words));
  } catch (const CLI::ParseError& fault) {
    result.text = usage_error(fault.what());
    result.exit_code = exit_usage;
    return result;
  }
  if (help) {
    result.text = app.help();
    return result;
  }
  if (version) {
    result.text = "msvis-pack " MSVIS_VERSION;
    return result;
  }
  std::string wrong;
  if (dumps.empty()) {
    wrong = "which dump? Give the directory that msvis-mpi would take for -tp";
  } else if (command.unpack && command.compression > 0) {
    wrong = "--unpack and --compress exclude each other";
  }
  for (const std::string& dump : dumps) {
    wrong = dump.empty() ? "the name of a dump is empty" : wrong;
  }
  if (!wrong.empty()) {
    result.text = usage_error(wrong);
    result.exit_code = exit_usage;
    return result;
  }
  command.dumps.assign(dumps.begin(), dumps.end());
  command.steps = cli::selection_of(steps);
  command.ranks = cli::selection_of(ranks);
  command.threads = cli::read_number<unsigned>(threads).value_or(0);
  result.command = std::move(command);
  return result;
}

}  // namespace

ParsedPackCommand parse_pack_command(std::span<const char* const> argv) {
  ParsedPackCommand failed;
  failed.exit_code = exit_failure;
  try {
    return parse(argv);
  } catch (const std::exception& fault) {
    failed.text = std::string("msvis-pack: the command line can't be read: ") + fault.what();
  } catch (...) {
    failed.text = "msvis-pack: the command line can't be read";
  }
  return failed;
}

}  // namespace msvis
