#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/cli.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

ParsedCommandLine parse(std::initializer_list<const char*> arguments) {
  std::vector<const char*> argv{"msvis-mpi"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return parse_command_line(argv);
}

/// Parses the arguments behind the required ones.
ParsedCommandLine parse_with(std::initializer_list<const char*> arguments) {
  std::vector<const char*> argv{"msvis-mpi", "-tp", "T", "-o", "O"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return parse_command_line(argv);
}

RunOptions good(const ParsedCommandLine& parsed) {
  EXPECT_EQ(parsed.exit_code, 0) << parsed.text;
  EXPECT_TRUE(parsed.options.has_value()) << parsed.text;
  return parsed.options.value_or(RunOptions{});
}

void expect_error(const ParsedCommandLine& parsed, const std::string& part, int exit_code = 2) {
  EXPECT_FALSE(parsed.options.has_value());
  EXPECT_EQ(parsed.exit_code, exit_code);
  EXPECT_THAT(parsed.text, HasSubstr(part));
  EXPECT_THAT(parsed.text, HasSubstr("--help"));
  EXPECT_THAT(parsed.text, Not(HasSubstr("\n"))) << "a usage error is one line";
}

TEST(CommandLine, DefaultsOfTheSmallestCall) {
  const RunOptions options = good(parse({"-tp", "T", "-o", "O"}));
  EXPECT_EQ(options.target, "T");
  EXPECT_EQ(options.output, "O");
  EXPECT_TRUE(options.golden.empty());
  EXPECT_FALSE(options.comparing());
  EXPECT_FALSE(options.layer_mapping || options.overflow_check || options.fuzzy_match || options.tensor_log || options.progress_log);
  EXPECT_EQ(options.compat, Compat::standard);
  EXPECT_EQ(options.links, LinkMode::standard);
  EXPECT_EQ(options.threads, 0U);
  EXPECT_EQ(options.io_depth, 0U);
  EXPECT_FALSE(options.drop_cache);
  EXPECT_TRUE(options.steps.all() && options.ranks.all());
  EXPECT_TRUE(options.ignore_rules.empty() && options.summary_json.empty() && options.metrics.empty());
  EXPECT_EQ(options.fail_on, FailOn::never);
  EXPECT_THAT(options.command_line, ElementsAre("msvis-mpi", "-tp", "T", "-o", "O"));
}

TEST(CommandLine, ShortOptionsInAnyOrder) {
  const RunOptions options =
      good(parse({"-oc", "-o", "O", "-progress_log", "-gp", "G", "-fm", "-tensor_log", "-tp", "T", "-lm", "m.yaml"}));
  EXPECT_EQ(options.target, "T");
  EXPECT_EQ(options.golden, "G");
  EXPECT_EQ(options.output, "O");
  EXPECT_EQ(options.layer_mapping_file, "m.yaml");
  EXPECT_TRUE(options.comparing() && options.layer_mapping && options.overflow_check && options.fuzzy_match);
  EXPECT_TRUE(options.tensor_log && options.progress_log);
}

TEST(CommandLine, LongOptions) {
  const RunOptions options =
      good(parse({"--target_path", "T", "--golden_path=G", "--output_path", "O", "--layer_mapping=m.yaml", "--overflow_check",
                  "--fuzzy_match", "--is_print_compare_log", "--is_print_progress_log", "--file_type", "db"}));
  EXPECT_EQ(options.golden, "G");
  EXPECT_EQ(options.layer_mapping_file, "m.yaml");
  EXPECT_TRUE(options.overflow_check && options.fuzzy_match && options.tensor_log && options.progress_log);
}

TEST(CommandLine, CallOfTheViewer) {
  const RunOptions options =
      good(parse({"graph_visualize", "-tp", "/log/T", "-gp", "", "-o", "/log/O", "-progress_log", "-oc", "--is_print_compare_log"}));
  EXPECT_EQ(options.target, "/log/T");
  EXPECT_FALSE(options.comparing());
  EXPECT_TRUE(options.progress_log && options.overflow_check && options.tensor_log);
  EXPECT_EQ(options.command_line.at(1), "graph_visualize");
  EXPECT_EQ(options.command_line.at(5), "");
}

TEST(CommandLine, OnlyTheFirstWordMayBeGraphVisualize) {
  expect_error(parse_with({"graph_visualize"}), "unexpected argument 'graph_visualize'");
}

TEST(CommandLine, GoldenMayBeEmptyInEveryForm) {
  EXPECT_FALSE(good(parse_with({"-gp", ""})).comparing());
  EXPECT_FALSE(good(parse_with({"-gp="})).comparing());
  EXPECT_FALSE(good(parse_with({"--golden_path="})).comparing());
  EXPECT_FALSE(good(parse_with({"-gp", "G", "-gp", ""})).comparing()) << "the last one wins";
  EXPECT_TRUE(good(parse_with({"-gp", "", "-gp", "G"})).comparing());
}

TEST(CommandLine, LastOccurrenceWins) {
  const RunOptions options = good(parse({"-tp", "A", "--target_path=B", "-o", "X", "-o", "Y", "-lm", "a.yaml", "-lm"}));
  EXPECT_EQ(options.target, "B");
  EXPECT_EQ(options.output, "Y");
  EXPECT_TRUE(options.layer_mapping);
  EXPECT_TRUE(options.layer_mapping_file.empty());
  EXPECT_TRUE(good(parse_with({"-oc", "-oc"})).overflow_check);
}

TEST(CommandLine, UniquePrefixesOfTheReferencesLongOptions) {
  const RunOptions options =
      good(parse({"--target", "A", "--out=O", "--gold", "G", "--over", "--fu", "--is_print_c", "--is_print_p", "--l", "m.yaml"}));
  EXPECT_EQ(options.target, "A");
  EXPECT_EQ(options.golden, "G");
  EXPECT_EQ(options.layer_mapping_file, "m.yaml");
  EXPECT_TRUE(options.overflow_check && options.fuzzy_match && options.tensor_log && options.progress_log);
  expect_error(parse_with({"--is_print"}), "'--is_print' is ambiguous: it could be --is_print_compare_log, --is_print_progress_log");
  expect_error(parse({"--o", "O"}), "ambiguous");
  expect_error(parse({"--t", "T"}), "it could be --target_path, --tp");
}

TEST(CommandLine, OwnOptionsCanNotBeAbbreviatedAndDoNotDisturbPrefixes) {
  expect_error(parse_with({"--comp", "reference"}), "unknown option '--comp' (did you mean --compat?)");
  expect_error(parse_with({"--ver"}), "unknown option '--ver'");
  expect_error(parse_with({"--fail", "error"}), "unknown option");
  // --fail-on, --ranks, --threads, --version: without effect on what the reference's prefixes mean.
  EXPECT_FALSE(good(parse_with({"--fi", "db"})).comparing());
  expect_error(parse_with({"--rank", "2"}), "--rank_size needs --tp too");
  EXPECT_THAT(parse_with({"--v", "1"}).warnings, ElementsAre(HasSubstr("--vpp")));
  EXPECT_EQ(good(parse_with({"--ranks", "2"})).ranks.ranges.size(), 1U);
}

TEST(CommandLine, OneDashAndTwoDashesAreDifferentOptions) {
  const ParsedCommandLine parsed = parse({"-tp", "T", "--tp", "4", "-o", "O"});
  EXPECT_EQ(good(parsed).target, "T");
  EXPECT_THAT(parsed.warnings, ElementsAre(HasSubstr("--tp has no effect without --rank_size")));
  expect_error(parse({"--tp", "/dumps/T", "-o", "O"}), "--tp is the tensor-parallel size, the target directory is given with -tp");
  expect_error(parse_with({"--oc"}), "did you mean -oc?");
  expect_error(parse_with({"-target_path", "T"}), "did you mean --target_path?");
  expect_error(parse_with({"-pp", "2"}), "unknown option '-pp'");
}

TEST(CommandLine, ValuesWithEqualsSign) {
  const RunOptions options = good(parse({"-tp=/a=b", "-o=O", "--compat=reference", "--layer_mapping=x=y.yaml"}));
  EXPECT_EQ(options.target, "/a=b");
  EXPECT_EQ(options.layer_mapping_file, "x=y.yaml");
  expect_error(parse_with({"-oc=1"}), "-oc/--overflow_check takes no value");
}

TEST(CommandLine, AnyPathName) {
  for (const char* path : {"a b", "[a,b]", "~x", "gr\xC3\xA4ph", "'q'", "\"q\"", "/x:y", "a,b", "{}", "%(x)", "-"}) {
    const RunOptions options = good(parse({"-tp", path, "-gp", path, "-o", path, "-lm", "[m,n].yaml"}));
    EXPECT_EQ(options.target, path);
    EXPECT_EQ(options.golden, path);
    EXPECT_EQ(options.output, path);
    EXPECT_EQ(options.layer_mapping_file, "[m,n].yaml");
  }
  EXPECT_EQ(good(parse({"-tp=-T", "-o", "O"})).target, "-T");
  expect_error(parse({"-tp", "-T", "-o", "O"}), "-tp/--target_path needs a value, but '-T' follows");
}

TEST(CommandLine, LayerMappingTakesTheNextWordUnlessItIsAnOption) {
  RunOptions options = good(parse({"-lm", "-tp", "T", "-o", "O"}));
  EXPECT_TRUE(options.layer_mapping);
  EXPECT_TRUE(options.layer_mapping_file.empty());
  options = good(parse({"-tp", "T", "-o", "O", "-lm"}));
  EXPECT_TRUE(options.layer_mapping && options.layer_mapping_file.empty());
  options = good(parse({"-lm", "map.yaml", "-tp", "T", "-o", "O"}));
  EXPECT_EQ(options.layer_mapping_file, "map.yaml");
  options = good(parse({"-lm=map.yaml", "-tp", "T", "-o", "O"}));
  EXPECT_EQ(options.layer_mapping_file, "map.yaml");
  EXPECT_FALSE(good(parse({"-tp", "T", "-o", "O"})).layer_mapping);
  expect_error(parse_with({"-lm", ""}), "-lm/--layer_mapping: the value is empty");
}

TEST(CommandLine, RequiredOptions) {
  expect_error(parse({}), "-tp (directory of the dump) and -o (directory of the result)");
  expect_error(parse({"-o", "O"}), "not given: -tp");
  expect_error(parse({"-tp", "T"}), "not given: -o");
  expect_error(parse({"-tp", "", "-o", "O"}), "-tp/--target_path: the value is empty");
  expect_error(parse({"-tp", "T", "-o"}), "-o/--output_path needs a value");
  expect_error(parse({"-tp", "-o", "O"}), "-tp/--target_path needs a value");
}

TEST(CommandLine, UnknownAndStrayWords) {
  expect_error(parse_with({"stray"}), "unexpected argument 'stray'");
  expect_error(parse_with({""}), "unexpected argument ''");
  expect_error(parse_with({"-x"}), "unknown option '-x'");
  expect_error(parse_with({"--no-such-option", "value"}), "unknown option '--no-such-option'");
  expect_error(parse_with({"--treads", "2"}), "did you mean --threads?");
  expect_error(parse_with({"--", "x"}), "'--'");
  expect_error(parse_with({"--bad\nline"}), "'--bad\\x0aline'");
  expect_error(parse_with({"-gp", "G", "H"}), "unexpected argument 'H'");
  good(parse_with({"--"}));
}

TEST(CommandLine, OwnOptions) {
  const RunOptions options =
      good(parse_with({"--compat=reference", "--threads", "3", "--io-depth=64", "--drop-cache", "--links=extended", "--ignore-rules",
                       "r.json", "--summary-json=s.json", "--fail-on", "warning", "--steps", "0,2-5", "--ranks=7"}));
  EXPECT_EQ(options.compat, Compat::reference);
  EXPECT_EQ(options.threads, 3U);
  EXPECT_EQ(options.io_depth, 64U);
  EXPECT_TRUE(options.drop_cache);
  EXPECT_EQ(options.links, LinkMode::extended);
  EXPECT_EQ(options.ignore_rules, "r.json");
  EXPECT_EQ(options.summary_json, "s.json");
  EXPECT_EQ(options.fail_on, FailOn::warning);
  EXPECT_THAT(options.steps.ranges, ElementsAre(Pair(0, 0), Pair(2, 5)));
  EXPECT_THAT(options.ranks.ranges, ElementsAre(Pair(7, 7)));
  for (const char* table : {"t.h5", "t.hdf5", "a dir/t.csv"}) {
    EXPECT_EQ(good(parse_with({"--metrics", table})).metrics, table);
  }
  EXPECT_EQ(good(parse_with({"--fail-on=error"})).fail_on, FailOn::error);
  EXPECT_EQ(good(parse_with({"--fail-on=never"})).fail_on, FailOn::never);
  EXPECT_EQ(good(parse_with({"--compat", "standard"})).compat, Compat::standard);
  EXPECT_EQ(good(parse_with({"--links", "standard"})).links, LinkMode::standard);
}

TEST(CommandLine, BadValuesOfOwnOptions) {
  expect_error(parse_with({"--compat=python"}), "--compat: 'python' is not known; give standard or reference");
  expect_error(parse_with({"--links", "all"}), "--links: 'all'");
  expect_error(parse_with({"--fail-on", "anything"}), "--fail-on: 'anything'");
  expect_error(parse_with({"--file_type", "xml"}), "--file_type: 'xml'");
  for (const char* threads : {"-1", "x", "1.5", "4097", "99999999999999999999", "2 "}) {
    expect_error(parse_with({"--threads", threads}), "--threads: ");
  }
  expect_error(parse_with({"--io-depth", "-1"}), "--io-depth: '-1' is no number of pairs of files");
  expect_error(parse_with({"--drop-cache=yes"}), "--drop-cache takes no value");
  expect_error(parse_with({"--threads="}), "--threads: the value is empty");
  expect_error(parse_with({"--ignore-rules", ""}), "--ignore-rules: the value is empty");
  expect_error(parse_with({"--metrics", ""}), "--metrics: the value is empty");
  for (const char* table : {"t", "t.xlsx", "t.h5.gz", "t.H5", "h5"}) {
    expect_error(parse_with({"--metrics", table}), "give a name that ends in .h5, .hdf5 or .csv");
  }
  expect_error(parse_with({"--rank_size", "2", "--tp", "2", "--pp", "1", "--file_type", "json", "--metrics", "t.h5"}),
               "--metrics can't be used");
}

TEST(CommandLine, SelectionsAreSortedAndJoined) {
  const RunOptions options = good(parse_with({"--steps", "9,4-5,0-2,1-3,6", "--ranks", "0-9223372036854775807,3"}));
  EXPECT_THAT(options.steps.ranges, ElementsAre(Pair(0, 6), Pair(9, 9)));
  EXPECT_THAT(options.ranks.ranges, ElementsAre(Pair(0, 9223372036854775807)));
  EXPECT_TRUE(options.steps.contains(0) && options.steps.contains(6) && options.steps.contains(9));
  EXPECT_FALSE(options.steps.contains(7) || options.steps.contains(10) || options.steps.contains(-1));
}

TEST(CommandLine, BadSelections) {
  for (const char* selection : {"", ",", "1,", ",1", "a", "1-", "-1", "1--2", "5-2", "1 ,2", "1-2-3", "9223372036854775808", "+1", "0x1"}) {
    expect_error(parse_with({"--steps", selection}), "--steps: ");
    expect_error(parse_with({"--ranks", selection}), "--ranks: ");
  }
}

TEST(CommandLine, MergingIsChecked) {
  // presence, counts, types: in this order
  expect_error(parse_with({"--rank_size", "2"}), "--rank_size needs --tp too");
  expect_error(parse_with({"--rank_size", "2", "--tp", "2"}), "--rank_size needs --pp too");
  expect_error(parse_with({"--rank_size", "2", "2", "--tp", "1", "--pp", "1"}), "--rank_size needs 1 value without -gp, but 2 were given");
  expect_error(parse_with({"-gp", "G", "--rank_size", "2", "--tp", "1", "--pp", "1"}), "--rank_size needs 2 values in a comparison");
  expect_error(parse_with({"-gp", "G", "--rank_size", "2", "2", "--tp", "1", "--pp", "1", "2"}), "--tp needs 2 values in a comparison");
  expect_error(parse_with({"-gp", "G", "--rank_size", "2", "2", "--tp", "1", "1", "--pp", "1", "1", "1"}), "--pp needs 2 values");
  expect_error(parse_with({"--rank_size", "2", "--tp", "1", "--pp", "1", "--vpp", "1", "1", "1"}), "--vpp takes 1 or 2 values");
  expect_error(parse_with({"--rank_size", "2", "--tp", "1", "--pp", "1", "--cp", "1", "1", "1"}), "--cp takes 1 or 2 values");
  expect_error(parse_with({"--rank_size", "x", "--tp", "1", "--pp", "1"}), "--rank_size: 'x' is no whole number");
  expect_error(parse_with({"--rank_size", "2", "--tp", "1.5", "--pp", "1"}), "--tp: '1.5'");
  expect_error(parse_with({"--rank_size", "--tp", "1", "--pp", "1"}), "--rank_size needs a value");
  expect_error(parse_with({"--rank_size=99999999999999999999", "--tp=1", "--pp=1"}), "--rank_size: ");
  expect_error(parse_with({"--rank_size", "2", "--tp", "1", "--pp", "1", "--ranks", "0"}), "--ranks can't be used with --rank_size");
  expect_error(parse_with({"--rank_size", "2", "--tp", "1", "--pp", "1", "--cp", "2", "--compat=reference"}),
               "--cp and --ep have no counterpart");
}

TEST(CommandLine, MergingOfOneSide) {
  const ParsedCommandLine parsed = parse_with({"--rank_size", "8", "--tp", "2", "--pp", "2", "--vpp", "3", "--order", "pp-tp-dp"});
  good(parsed);
  ASSERT_TRUE(parsed.options->merge.has_value());
  const MergeSide& side = parsed.options->merge->target;
  EXPECT_EQ(side.rank_size, 8);
  EXPECT_EQ(side.tp, 2);
  EXPECT_EQ(side.pp, 2);
  EXPECT_EQ(side.vpp, 3);
  EXPECT_EQ(side.cp, 1);
  EXPECT_EQ(side.dp(), 2);
  EXPECT_EQ(side.order, "pp-tp-dp");
  EXPECT_FALSE(parsed.options->merge->as_json);
  // What the numbers must be is checked against the directories.
  good(parse_with({"--rank_size", "-2", "--tp", "0", "--pp", "1"}));
}

TEST(CommandLine, OneValueOfAnOptionalMergeOptionIsForBothSides) {
  const ParsedCommandLine both =
      parse_with({"-gp", "G", "--rank_size", "4", "2", "--tp", "2", "1", "--pp", "2", "2", "--vpp", "2", "--order", "pp-tp-dp"});
  good(both);
  EXPECT_EQ(both.options->merge->target.vpp, 2);
  EXPECT_EQ(both.options->merge->golden.vpp, 2);
  EXPECT_EQ(both.options->merge->golden.order, "pp-tp-dp");
  EXPECT_EQ(both.options->merge->golden.tp, 1);
  // The reference takes the default for both then.
  const ParsedCommandLine neither = parse_with(
      {"-gp", "G", "--rank_size", "4", "2", "--tp", "2", "1", "--pp", "2", "2", "--vpp", "2", "--order", "pp-tp-dp", "--compat=reference"});
  good(neither);
  EXPECT_EQ(neither.options->merge->target.vpp, 1);
  EXPECT_EQ(neither.options->merge->golden.order, "tp-cp-ep-dp-pp");
}

TEST(CommandLine, FileTypeJson) {
  const ParsedCommandLine parsed = parse_with({"--file_type", "json"});
  good(parsed);
  EXPECT_THAT(parsed.warnings, ElementsAre(HasSubstr("--file_type json has no effect without --rank_size")));
  expect_error(parse_with({"--file_type", "json", "-gp", "G"}), "can't be used with -gp", 1);
  EXPECT_THAT(parse_with({"--file_type", "db"}).warnings, IsEmpty());
}

TEST(CommandLine, MergeOptionsAloneOnlyWarn) {
  const ParsedCommandLine parsed = parse_with({"--pp", "2", "--vpp", "1", "--order", "tp-cp-ep-dp-pp"});
  good(parsed);
  EXPECT_THAT(parsed.warnings, ElementsAre(HasSubstr("--pp"), HasSubstr("--vpp"), HasSubstr("--order")));
}

TEST(CommandLine, Help) {
  for (const char* word : {"-h", "--help", "--h", "--he"}) {
    const ParsedCommandLine parsed = parse({"--no-such-option", word});
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_FALSE(parsed.options.has_value());
    for (const char* part : {"Usage: msvis-mpi -tp TARGET",
                             "-tp, --target_path DIR",
                             "-gp, --golden_path",
                             "-o, --output_path",
                             "-lm, --layer_mapping [FILE]",
                             "-oc, --overflow_check",
                             "-fm, --fuzzy_match",
                             "-tensor_log, --is_print_compare_log",
                             "-progress_log, --is_print_progress_log",
                             "--rank_size",
                             "--tp ",
                             "--pp",
                             "--vpp",
                             "--order",
                             "--file_type",
                             "--compat",
                             "--links",
                             "--steps",
                             "--ranks",
                             "--threads",
                             "--io-depth",
                             "--drop-cache",
                             "--ignore-rules",
                             "--summary-json",
                             "--metrics",
                             "--fail-on",
                             "--version",
                             "Examples:",
                             "Exit codes:",
                             "(default: standard)"}) {
      EXPECT_THAT(parsed.text, HasSubstr(part));
    }
  }
  EXPECT_EQ(parse({"-tp", "-h"}).exit_code, 0) << "a value does not begin with a dash, so this asks for help";
}

TEST(CommandLine, EveryOptionIsReadOnceAndInTheHelp) {
  const std::string help = parse({"--help"}).text;
  std::set<std::string_view> names;
  for (const cli::OptionSpec& spec : cli::option_specs()) {
    EXPECT_TRUE(names.insert(spec.long_name).second) << spec.long_name;
    EXPECT_THAT(help, HasSubstr(std::string(spec.long_name)));
  }
}

TEST(CommandLine, Version) {
  const ParsedCommandLine parsed = parse({"--version"});
  EXPECT_EQ(parsed.exit_code, 0);
  EXPECT_THAT(parsed.text, ::testing::MatchesRegex("msvis-mpi [0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(CommandLine, OddArgv) {
  EXPECT_EQ(parse_command_line({}).exit_code, 2);
  const std::vector<const char*> ended{"msvis-mpi", "-tp", "T", "-o", "O", nullptr, "rest"};
  EXPECT_EQ(good(parse_command_line(ended)).command_line.size(), 5U);
  const std::string huge(1U << 20U, 'x');
  expect_error(parse_with({huge.c_str()}), "unexpected argument");
  EXPECT_LT(parse_with({huge.c_str()}).text.size(), 500U);
  expect_error(parse_with({("--" + huge).c_str()}), "unknown option");
  EXPECT_EQ(good(parse_with({"-gp", huge.c_str()})).golden.native().size(), huge.size());
}

}  // namespace
}  // namespace msvis
