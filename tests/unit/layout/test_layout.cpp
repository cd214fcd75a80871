#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <tuple>
#include <vector>

#include "layout/layout.h"
#include "layout/listing.h"
#include "msvis/error.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Place =
    std::tuple<std::int64_t, std::int64_t, std::string, std::string>;  // step, rank, target, golden (relative to the test's directory)

class Layout : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::path(::testing::TempDir()) / "msvis layout XXXXXX").string();  // a blank in every path of these tests
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    fs::permissions(root_, fs::perms(0755));
  }
  void TearDown() override {
    std::error_code fault;
    for (const auto& entry : fs::recursive_directory_iterator(root_, fs::directory_options::skip_permission_denied, fault)) {
      fs::permissions(entry.path(), fs::perms::owner_all, fs::perm_options::add, fault);
    }
    fs::remove_all(root_, fault);
  }

  /// Creates files, or directories where the name ends with a slash.
  void make(std::initializer_list<const char*> paths) {
    for (const char* name : paths) {
      const fs::path path = root_ / name;
      if (std::string_view(name).ends_with('/')) {
        fs::create_directories(path);
      } else {
        fs::create_directories(path.parent_path());
        std::ofstream(path) << "{}";
      }
    }
  }
  void make_dump(const std::string& directory, std::size_t bytes_each = 2) {
    fs::create_directories(root_ / directory);
    for (const char* name : {"dump.json", "stack.json", "construct.json"}) {
      std::ofstream(root_ / directory / name) << std::string(bytes_each, ' ');
    }
  }
  void make_dumps(std::initializer_list<const char*> directories) {
    for (const char* directory : directories) {
      make_dump(directory);
    }
  }

  RunOptions options(const std::string& target, const std::string& golden = "") const {
    RunOptions result;
    result.target = root_ / target;
    if (!golden.empty()) {
      result.golden = root_ / golden;
    }
    return result;
  }

  std::vector<Place> places(const WorkPlan& plan) const {
    std::vector<Place> all;
    for (const WorkItem& item : plan.items) {
      all.emplace_back(item.step, item.rank, item.target.lexically_relative(root_).string(),
                       item.golden.empty() ? "" : item.golden.lexically_relative(root_).string());
    }
    return all;
  }

  std::vector<Place> build(const std::string& target) const { return places(find_work(options(target))); }

  static void expect_error(const RunOptions& options, ErrorCategory category, const std::string& part) {
    try {
      const WorkPlan plan = find_work(options);
      ADD_FAILURE() << "accepted, with " << plan.items.size() << " items";
    } catch (const Error& fault) {
      EXPECT_EQ(fault.category(), category) << fault.what();
      EXPECT_THAT(fault.what(), HasSubstr(part));
      EXPECT_THAT(std::string(fault.what()), Not(HasSubstr("\n")));
    }
  }
  void expect_rejected(const std::string& target, const std::string& part) const {
    expect_error(options(target), ErrorCategory::path, part);
    expect_error(options(target), ErrorCategory::path, (root_ / target).string());
  }

  fs::path root_;
};

// ---- what a directory is: the table of outcomes ----

TEST_F(Layout, ThreeJsonFilesAreASingleDump) {
  make_dump("A");
  const WorkPlan plan = find_work(options("A"));
  EXPECT_THAT(places(plan), ElementsAre(Place(0, 0, "A", "")));
  EXPECT_FALSE(plan.link_ranks);
  EXPECT_THAT(plan.dropped, IsEmpty());
  EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST_F(Layout, SingleDumpIsStepZeroRankZeroWhateverItsName) {
  make_dumps({"step7", "rank3"});
  EXPECT_THAT(build("step7"), ElementsAre(Place(0, 0, "step7", "")));
  EXPECT_THAT(build("rank3"), ElementsAre(Place(0, 0, "rank3", "")));
}

TEST_F(Layout, SingleDumpWithTensorDataMayHoldOtherDirectories) {
  make_dump("A");
  make({"A/dump_tensor_data/", "A/other/"});
  EXPECT_THAT(build("A"), ElementsAre(Place(0, 0, "A", "")));
}

TEST_F(Layout, JsonFilesBesideAnUnrelatedDirectoryAreRejected) {
  make_dump("A");
  make({"A/other/"});
  expect_rejected("A", "its sub-directories are 'other'");
}

TEST_F(Layout, SingleDumpWithoutJsonFilesIsAnItemThatFailsLater) {
  make({"A/readme.txt"});
  const WorkPlan plan = find_work(options("A"));
  ASSERT_EQ(plan.items.size(), 1U);
  EXPECT_EQ(plan.items[0].json_bytes, 0U);
}

TEST_F(Layout, BareRankOrOneProcess) {
  make_dumps({"R/rank", "P/proc123"});
  EXPECT_THAT(build("R"), ElementsAre(Place(0, 0, "R/rank", "")));
  EXPECT_THAT(build("P"), ElementsAre(Place(0, 0, "P/proc123", "")));
  EXPECT_TRUE(find_work(options("R")).link_ranks);
  EXPECT_TRUE(find_work(options("P")).link_ranks);
}

TEST_F(Layout, RanksInNumericOrder) {
  make_dumps({"M/rank0", "M/rank1", "M/rank10", "M/rank2"});
  EXPECT_THAT(build("M"), ElementsAre(Place(0, 0, "M/rank0", ""), Place(0, 1, "M/rank1", ""), Place(0, 2, "M/rank2", ""),
                                      Place(0, 10, "M/rank10", "")));
  EXPECT_TRUE(find_work(options("M")).link_ranks);
}

TEST_F(Layout, StepsInNumericOrderWithRanksOrOneProcess) {
  make_dumps({"S/step0/rank0", "S/step1/proc55", "S/step10/rank0", "S/step2/rank1"});
  EXPECT_THAT(build("S"), ElementsAre(Place(0, 0, "S/step0/rank0", ""), Place(1, 0, "S/step1/proc55", ""), Place(2, 1, "S/step2/rank1", ""),
                                      Place(10, 0, "S/step10/rank0", "")));
  EXPECT_TRUE(find_work(options("S")).link_ranks);
}

TEST_F(Layout, StrayFilesAreIgnoredAtEveryLevel) {
  make_dumps({"S/step0/rank0", "K/rank0", "B/rank"});
  make({"S/readme.txt", "S/step0/notes", "S/step0/rank0/dump_error_info.log", "K/readme.txt", "K/proc9", "B/a.txt"});
  fs::create_symlink("nowhere", root_ / "K" / "dangling");
  EXPECT_THAT(build("S"), ElementsAre(Place(0, 0, "S/step0/rank0", "")));
  EXPECT_THAT(build("K"), ElementsAre(Place(0, 0, "K/rank0", "")));
  EXPECT_THAT(build("B"), ElementsAre(Place(0, 0, "B/rank", "")));
  EXPECT_EQ(find_work(options("S", "S")).items.size(), 1U);
  EXPECT_EQ(find_work(options("K", "K")).items.size(), 1U);
}

TEST_F(Layout, LeadingZerosAreNoRankNumbers) {
  make_dumps({"M/rank00", "M/rank1", "Z/rank00", "S/step00/rank0", "S/step1/rank0", "T/step01/rank0"});
  const WorkPlan plan = find_work(options("M"));
  EXPECT_THAT(places(plan), ElementsAre(Place(0, 1, "M/rank1", "")));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("rank00 is ignored")));
  expect_rejected("Z", "holds no rank directory");
  EXPECT_THAT(build("S"), ElementsAre(Place(1, 0, "S/step1/rank0", "")));
  expect_rejected("T", "holds no step directory");
}

TEST_F(Layout, RanksWinOverProcesses) {
  make_dumps({"M/rank0", "M/proc123", "B/rank", "B/proc1"});
  EXPECT_THAT(build("M"), ElementsAre(Place(0, 0, "M/rank0", "")));
  EXPECT_THAT(build("B"), ElementsAre(Place(0, 0, "B/rank", "")));
}

TEST_F(Layout, RejectedNames) {
  make_dumps({"A/rank", "A/rank1", "B/rank0", "B/other", "C/step0/rank0", "C/other", "D/step/rank0", "E/proc1", "E/proc2", "F/process1",
              "G/rank0", "G/step0", "H/RANK0", "I/rank0x"});
  expect_rejected("A", "'rank', 'rank1'");
  expect_rejected("B", "'other', 'rank0'");
  expect_rejected("C", "'other', 'step0'");
  expect_rejected("D", "'step'");
  expect_rejected("E", "2 process directories");
  expect_rejected("F", "expected is a directory with dump.json");
  expect_rejected("G", "'rank0', 'step0'");
  expect_rejected("H", "expected is");
  expect_rejected("I", "expected is");
}

TEST_F(Layout, NamesInMessagesStayOneLine) {
  make({"A/two\nlines/"});
  expect_error(options("A"), ErrorCategory::path, "'two\\x0alines'");
}

TEST_F(Layout, MindSporeTopDirectory) {
  make_dumps({"A/graph/step0/rank0", "A/pynative/step0/rank0"});
  expect_rejected("A", "give the graph or the pynative directory");
  EXPECT_THAT(build("A/graph"), ElementsAre(Place(0, 0, "A/graph/step0/rank0", "")));
}

TEST_F(Layout, StepWithoutRankLevelIsRejected) {
  make_dump("V/step0");
  expect_error(options("V"), ErrorCategory::path, "holds no rank directory");
  expect_error(options("V"), ErrorCategory::path, (root_ / "V/step0").string());
}

TEST_F(Layout, EmptyMissingAndNoDirectory) {
  make({"E/", "file"});
  expect_rejected("E", "is empty; expected is");
  expect_rejected("nowhere", "does not exist");
  expect_rejected("file", "is not a directory");
  expect_error(options("E", "E"), ErrorCategory::path, "target (-tp)");
  make_dump("A");
  expect_error(options("A", "nowhere"), ErrorCategory::path, "golden (-gp) does not exist");
}

TEST_F(Layout, OtherDirectoriesInAStepDirectoryAreSkipped) {
  make_dumps({"S/step0/rank", "S/step0/rank2", "S/step0/other", "S/step0/proc1"});
  EXPECT_THAT(build("S"), ElementsAre(Place(0, 0, "S/step0/rank", ""), Place(0, 2, "S/step0/rank2", "")));
}

TEST_F(Layout, BareRankBesideRankZeroIsNotProcessedTwice) {
  make_dumps({"S/step0/rank", "S/step0/rank0"});
  const WorkPlan plan = find_work(options("S"));
  EXPECT_THAT(places(plan), ElementsAre(Place(0, 0, "S/step0/rank0", "")));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("counts as rank 0")));
}

TEST_F(Layout, NumbersBeyond64BitsAreAnError) {
  make_dumps(
      {"M/rank99999999999999999999", "S/step9223372036854775808/rank0", "L/rank9223372036854775807", "step18446744073709551616/rank0"});
  expect_error(options("M"), ErrorCategory::limit, "'rank99999999999999999999' does not fit into 64 bits");
  expect_error(options("S"), ErrorCategory::limit, "'step9223372036854775808'");
  expect_error(options("step18446744073709551616"), ErrorCategory::limit, "does not fit into 64 bits");
  EXPECT_THAT(build("L"), ElementsAre(Place(0, 9223372036854775807, "L/rank9223372036854775807", "")));
}

TEST_F(Layout, LinksToDirectoriesAreFollowed) {
  make_dump("real");
  make({"M/"});
  fs::create_directory_symlink("../real", root_ / "M" / "rank0");
  EXPECT_THAT(build("M"), ElementsAre(Place(0, 0, "M/rank0", "")));
}

TEST_F(Layout, AnyPathName) {
  const std::string odd = "gr\xC3\xA4ph ~+@=,[x]'\"\t$(y)";
  make_dump(odd + "/rank0");
  EXPECT_THAT(build(odd), ElementsAre(Place(0, 0, odd + "/rank0", "")));
}

// ---- a step directory given directly ----

TEST_F(Layout, StepGivenDirectlyKeepsItsNumber) {
  make_dumps({"S/step12/rank0", "S/step12/rank1"});
  EXPECT_THAT(build("S/step12"), ElementsAre(Place(12, 0, "S/step12/rank0", ""), Place(12, 1, "S/step12/rank1", "")));
  RunOptions slash = options("S");
  slash.target = (root_ / "S/step12").string() + "/";
  EXPECT_EQ(find_work(slash).items.at(0).step, 12);
  slash.target = root_ / "S/step12/rank0/..";
  EXPECT_EQ(find_work(slash).items.at(0).step, 12);
}

TEST_F(Layout, StepGivenAsTheCurrentDirectory) {
  make_dumps({"S/step12/rank0"});
  const fs::path before = fs::current_path();
  fs::current_path(root_ / "S/step12");
  RunOptions here;
  here.target = ".";
  const WorkPlan plan = find_work(here);
  fs::current_path(before);
  EXPECT_EQ(plan.items.at(0).step, 12);
}

TEST_F(Layout, StepGivenDirectlyIsZeroInTheReference) {
  make_dumps({"S/step12/rank0"});
  RunOptions reference = options("S/step12");
  reference.compat = Compat::reference;
  EXPECT_THAT(places(find_work(reference)), ElementsAre(Place(0, 0, "S/step12/rank0", "")));
}

TEST_F(Layout, TargetsStepCountsInAComparison) {
  make_dumps({"T/step3/rank0", "G/step5/rank0", "R/rank0"});
  const WorkPlan plan = find_work(options("T/step3", "G/step5"));
  EXPECT_THAT(places(plan), ElementsAre(Place(3, 0, "T/step3/rank0", "G/step5/rank0")));
  EXPECT_THAT(plan.warnings, ElementsAre(AllOf(HasSubstr("step 3"), HasSubstr("step 5"))));
  EXPECT_EQ(find_work(options("R", "G/step5")).items.at(0).step, 0);
  EXPECT_EQ(find_work(options("T/step3", "R")).items.at(0).step, 3);
  RunOptions reference = options("T/step3", "G/step5");
  reference.compat = Compat::reference;
  EXPECT_EQ(find_work(reference).items.at(0).step, 0);
  EXPECT_THAT(find_work(reference).warnings, IsEmpty());
}

// ---- two sides ----

TEST_F(Layout, TwoSingleDumps) {
  make_dumps({"T", "G"});
  const WorkPlan plan = find_work(options("T", "G"));
  EXPECT_THAT(places(plan), ElementsAre(Place(0, 0, "T", "G")));
  EXPECT_FALSE(plan.link_ranks);
}

TEST_F(Layout, FormsMustBeEqual) {
  make_dumps({"A", "R/rank0", "S/step0/rank0"});
  expect_error(options("A", "R"), ErrorCategory::mismatch, "target (-tp) holds a single dump");
  expect_error(options("R", "S"), ErrorCategory::mismatch, "holds step directories");
  expect_error(options("S", "A"), ErrorCategory::mismatch, (root_ / "A").string());
}

TEST_F(Layout, OneProcessOnEachSide) {
  make_dumps({"Q/proc123", "Q2/proc99"});
  const WorkPlan plan = find_work(options("Q", "Q2"));
  EXPECT_THAT(places(plan), ElementsAre(Place(0, 0, "Q/proc123", "Q2/proc99")));
  EXPECT_TRUE(plan.link_ranks);
}

TEST_F(Layout, ProcessAgainstRankIsNoPair) {
  make_dumps({"Q/proc123", "R/rank0"});
  expect_error(options("Q", "R"), ErrorCategory::mismatch, "target (-tp) has 'proc123'");
}

TEST_F(Layout, CommonRanksOnlyAndTheOthersAreNamed) {
  make_dumps({"T/rank0", "T/rank1", "G/rank0", "G/rank2"});
  const WorkPlan plan = find_work(options("T", "G"));
  EXPECT_THAT(places(plan), ElementsAre(Place(0, 0, "T/rank0", "G/rank0")));
  EXPECT_THAT(plan.dropped,
              ElementsAre(AllOf(HasSubstr("step 0 rank 1"), HasSubstr("target (-tp)"), HasSubstr((root_ / "T/rank1").string())),
                          AllOf(HasSubstr("step 0 rank 2"), HasSubstr("golden (-gp)"), HasSubstr((root_ / "G/rank2").string()))));
}

TEST_F(Layout, NoCommonRank) {
  make_dumps({"T/rank0", "T/rank1", "G/rank5"});
  expect_error(options("T", "G"), ErrorCategory::mismatch, "target (-tp) has 'rank0', 'rank1', golden (-gp)");
}

TEST_F(Layout, BareRankMatchesRankZeroWhenNothingElseDoes) {
  make_dumps({"B/rank", "N/rank0", "M/rank0", "M/rank1", "S/step0/rank", "S/step0/rank1", "U/step0/rank0", "U/step0/rank1"});
  EXPECT_THAT(places(find_work(options("B", "N"))), ElementsAre(Place(0, 0, "B/rank", "N/rank0")));
  EXPECT_THAT(places(find_work(options("N", "B"))), ElementsAre(Place(0, 0, "N/rank0", "B/rank")));
  const WorkPlan plan = find_work(options("M", "B"));
  EXPECT_THAT(places(plan), ElementsAre(Place(0, 0, "M/rank0", "B/rank")));
  EXPECT_THAT(plan.dropped, ElementsAre(HasSubstr("rank 1 is left out")));
  // rank1 pairs by name, so rank and rank0 stay apart
  EXPECT_THAT(places(find_work(options("S", "U"))), ElementsAre(Place(0, 1, "S/step0/rank1", "U/step0/rank1")));
}

TEST_F(Layout, CommonSteps) {
  make_dumps({"T/step0/rank0", "T/step1/rank0", "G/step1/rank0", "G/step2/rank0"});
  const WorkPlan plan = find_work(options("T", "G"));
  EXPECT_THAT(places(plan), ElementsAre(Place(1, 0, "T/step1/rank0", "G/step1/rank0")));
  EXPECT_THAT(plan.dropped, ElementsAre(AllOf(HasSubstr("step 0"), HasSubstr("target (-tp)"), HasSubstr((root_ / "T/step0").string())),
                                        AllOf(HasSubstr("step 2"), HasSubstr("golden (-gp)"), HasSubstr((root_ / "G/step2").string()))));
}

TEST_F(Layout, NoCommonStep) {
  make_dumps({"T/step0/rank0", "G/step1/rank0"});
  expect_error(options("T", "G"), ErrorCategory::mismatch, "no step is on both sides: target (-tp) has steps 0");
}

TEST_F(Layout, RanksArePairedInEachStep) {
  make_dumps({"T/step0/rank0", "T/step0/rank1", "T/step1/rank0", "T/step1/rank1", "G/step0/rank0", "G/step1/rank0", "G/step1/rank1"});
  const WorkPlan plan = find_work(options("T", "G"));
  EXPECT_THAT(places(plan), ElementsAre(Place(0, 0, "T/step0/rank0", "G/step0/rank0"), Place(1, 0, "T/step1/rank0", "G/step1/rank0"),
                                        Place(1, 1, "T/step1/rank1", "G/step1/rank1")));
  EXPECT_THAT(plan.dropped, ElementsAre(HasSubstr("step 0 rank 1")));
}

TEST_F(Layout, AStepWithoutCommonRankDoesNotStopTheOthers) {
  make_dumps({"T/step0/rank0", "T/step1/rank0", "T/step2/rank0", "G/step0/rank0", "G/step1/rank4"});
  make({"G/step2/"});
  const WorkPlan plan = find_work(options("T", "G"));
  EXPECT_THAT(places(plan), ElementsAre(Place(0, 0, "T/step0/rank0", "G/step0/rank0")));
  EXPECT_THAT(plan.dropped,
              ElementsAre(AllOf(HasSubstr("step 1 is left out"), HasSubstr("no rank is on both sides")),
                          AllOf(HasSubstr("step 2 is left out"), HasSubstr("golden (-gp)"), HasSubstr("holds no rank directory"))));
}

TEST_F(Layout, NoStepWithAnythingToDo) {
  make_dumps({"T/step0/rank0", "T/step1/rank0", "G/step0/rank1", "G/step1/rank1", "D/step0/rank0", "E/step0/rank5"});
  expect_error(options("T", "G"), ErrorCategory::mismatch, "no step has anything to process");
  expect_error(options("D", "E"), ErrorCategory::mismatch, "no rank is on both sides");
}

TEST_F(Layout, ARankWithoutFilesIsStillAnItem) {
  make_dumps({"T/rank0", "G/rank0", "G/rank1"});
  make({"T/rank1/"});
  const WorkPlan plan = find_work(options("T", "G"));
  ASSERT_EQ(plan.items.size(), 2U);
  EXPECT_EQ(plan.items[1].json_bytes, 6U);
}

// ---- selections ----

TEST_F(Layout, SelectedStepsAndRanks) {
  make_dumps({"S/step0/rank0", "S/step0/rank1", "S/step1/rank0", "S/step1/rank1", "S/step2/rank1"});
  RunOptions chosen = options("S");
  chosen.steps.ranges = {{1, 9}};
  chosen.ranks.ranges = {{1, 1}};
  const WorkPlan plan = find_work(chosen);
  EXPECT_THAT(places(plan), ElementsAre(Place(1, 1, "S/step1/rank1", ""), Place(2, 1, "S/step2/rank1", "")));
  EXPECT_THAT(plan.dropped, IsEmpty()) << "what was not selected is not missed";
}

TEST_F(Layout, SelectionsHoldForBothSides) {
  make_dumps({"T/rank0", "T/rank1", "T/rank2", "G/rank1", "G/rank3"});
  RunOptions chosen = options("T", "G");
  chosen.ranks.ranges = {{1, 2}};
  const WorkPlan plan = find_work(chosen);
  EXPECT_THAT(places(plan), ElementsAre(Place(0, 1, "T/rank1", "G/rank1")));
  EXPECT_THAT(plan.dropped, ElementsAre(HasSubstr("rank 2")));
}

TEST_F(Layout, SelectionsThatMatchNothing) {
  make_dumps({"A", "R/rank0", "S/step0/rank0", "S/step3/rank1", "D/step4/rank0"});
  RunOptions chosen = options("S");
  chosen.steps.ranges = {{1, 2}};
  expect_error(chosen, ErrorCategory::mismatch, "--steps selects nothing in target (-tp); there: steps 0, 3");
  chosen = options("S");
  chosen.ranks.ranges = {{7, 7}};
  expect_error(chosen, ErrorCategory::mismatch, "--ranks selects nothing in target (-tp); there: ranks 1");
  chosen = options("R");
  chosen.ranks.ranges = {{7, 7}};
  expect_error(chosen, ErrorCategory::mismatch, "--ranks selects nothing in target (-tp); there: ranks 0");
  chosen = options("R");
  chosen.steps.ranges = {{1, 1}};
  expect_error(chosen, ErrorCategory::mismatch, "--steps selects nothing: the dump given by -tp is step 0");
  chosen = options("A");
  chosen.ranks.ranges = {{1, 1}};
  expect_error(chosen, ErrorCategory::mismatch, "--ranks selects nothing: the dump given by -tp is rank 0");
  chosen = options("D/step4");
  chosen.steps.ranges = {{4, 4}};
  EXPECT_EQ(find_work(chosen).items.at(0).step, 4);
  chosen.compat = Compat::reference;
  expect_error(chosen, ErrorCategory::mismatch, "is step 0");
}

TEST_F(Layout, StepWithoutASelectedRankIsNamed) {
  make_dumps({"S/step0/rank0", "S/step1/rank1"});
  RunOptions chosen = options("S");
  chosen.ranks.ranges = {{1, 1}};
  const WorkPlan plan = find_work(chosen);
  EXPECT_THAT(places(plan), ElementsAre(Place(1, 1, "S/step1/rank1", "")));
  EXPECT_THAT(plan.dropped, ElementsAre(AllOf(HasSubstr("step 0"), HasSubstr("--ranks selects nothing"))));
}

TEST(SelectionTest, Contains) {
  Selection selection;
  EXPECT_TRUE(selection.all() && selection.contains(5) && selection.contains(-5));
  selection.ranges = {{0, 0}, {2, 5}};
  EXPECT_FALSE(selection.all());
  for (const std::int64_t inside : {0, 2, 3, 5}) {
    EXPECT_TRUE(selection.contains(inside)) << inside;
  }
  for (const std::int64_t outside : {-1, 1, 6}) {
    EXPECT_FALSE(selection.contains(outside)) << outside;
  }
}

// ---- cost ----

TEST_F(Layout, CostIsTheSizeOfBothSides) {
  make_dump("T/rank0", 100);
  make_dump("G/rank0", 10);
  make({"T/rank0/dump_tensor_data/a.pt", "T/rank0/dump_tensor_data/b.pt", "G/rank0/dump_tensor_data/a.pt", "T/rank0/other.json",
        "T/rank0/dump_tensor_data/deeper/c.pt"});
  const WorkItem item = find_work(options("T", "G")).items.at(0);
  EXPECT_EQ(item.json_bytes, 330U);
  EXPECT_EQ(item.tensor_bytes, 6U);
  EXPECT_EQ(item.cost(), 336U);
  const WorkItem build_item = find_work(options("T")).items.at(0);
  EXPECT_EQ(build_item.json_bytes, 300U);
  EXPECT_EQ(build_item.tensor_bytes, 0U) << "a build does not read tensors";
}

TEST_F(Layout, SizeOfManyTensorFilesIsEstimatedAndEqualForEqualFiles) {
  for (const char* rank : {"T/rank0", "T/rank1"}) {
    const fs::path data = root_ / rank / "dump_tensor_data";
    fs::create_directories(data);
    for (std::size_t number = 0; number < 4 * layout::tensor_files_looked_at; ++number) {
      std::ofstream(data / (std::to_string(number) + ".pt")) << std::string(number % 5, 'x');
    }
  }
  const auto estimate = layout::tensor_bytes(root_ / "T/rank0");
  EXPECT_EQ(layout::tensor_bytes(root_ / "T/rank1"), estimate);
  const double exact = 4.0 * static_cast<double>(layout::tensor_files_looked_at) * 2;
  EXPECT_GT(static_cast<double>(estimate), 0.8 * exact);
  EXPECT_LT(static_cast<double>(estimate), 1.2 * exact);
}

TEST_F(Layout, MissingJsonFilesCountNothing) {
  make_dump("A", 5);
  fs::remove(root_ / "A/stack.json");
  EXPECT_EQ(layout::json_bytes(root_ / "A"), 10U);
  EXPECT_EQ(layout::json_bytes(root_ / "nowhere"), 0U);
  EXPECT_EQ(layout::tensor_bytes(root_ / "A"), 0U);
}

// ---- permissions ----

/// Acts as an ordinary user while it lives, so that permissions count when the tests run as root.
class OrdinaryUser {
 public:
  OrdinaryUser() : was_root_(geteuid() == 0) {
    if (was_root_) {
      ok_ = seteuid(65534) == 0;
    }
  }
  ~OrdinaryUser() {
    if (was_root_ && seteuid(0) != 0) {
      std::abort();
    }
  }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  bool was_root_;
  bool ok_ = true;
};

TEST_F(Layout, ReadOnlyInputIsEnough) {
  make_dumps({"M/rank0"});
  fs::permissions(root_ / "M/rank0", fs::perms(0555));
  fs::permissions(root_ / "M", fs::perms(0555));
  const OrdinaryUser user;
  if (!user.ok() || access(root_.c_str(), X_OK) != 0) {
    GTEST_SKIP() << "can't act as an ordinary user here";
  }
  EXPECT_THAT(build("M"), ElementsAre(Place(0, 0, "M/rank0", "")));
}

TEST_F(Layout, UnreadableDirectories) {
  make_dumps({"M/rank0", "N/rank0", "S/step0/rank0", "S/step1/rank0"});
  fs::permissions(root_ / "M", fs::perms(0311));
  fs::permissions(root_ / "N", fs::perms(0644));
  fs::permissions(root_ / "S/step1", fs::perms(0));
  if (geteuid() != 0) {
    fs::permissions(root_ / "M", fs::perms(0100));
  }
  const OrdinaryUser user;
  if (!user.ok() || access(root_.c_str(), X_OK) != 0) {
    GTEST_SKIP() << "can't act as an ordinary user here";
  }
  expect_rejected("M", "can't be read: Permission denied");
  expect_rejected("N", "permission to read and search is needed");
  expect_error(options("S"), ErrorCategory::path, "step 1 of target (-tp) can't be read");
}

}  // namespace
}  // namespace msvis
