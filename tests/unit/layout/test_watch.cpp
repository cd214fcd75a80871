#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "layout/watch.h"
#include "support/temporary_directory.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Key = Watch::Key;
using std::chrono::seconds;

class WatchTest : public ::testing::Test {
 protected:
  WatchTest() {
    options_.target = directory_.path() / "target";
    options_.settle_seconds = 10;
  }

  void write(const std::string& side, int step, int rank, std::size_t bytes = 10) const {
    const auto rank_directory = directory_.path() / side / ("step" + std::to_string(step)) / ("rank" + std::to_string(rank));
    std::filesystem::create_directories(rank_directory / "dump_tensor_data");
    for (const char* name : {"dump.json", "stack.json", "construct.json"}) {
      std::ofstream(rank_directory / name) << std::string(bytes, ' ');
    }
  }
  void compare() { options_.golden = directory_.path() / "golden"; }

  Watch::Found look(Watch& watch, int second) const { return watch.look(Watch::Clock::time_point(seconds(1000 + second))); }
  static std::vector<Key> keys(const Watch::Found& found) {
    std::vector<Key> all;
    for (const WorkItem& item : found.complete) {
      all.emplace_back(item.step, item.rank);
    }
    return all;
  }

  test::TemporaryDirectory directory_;
  RunOptions options_;
};

TEST_F(WatchTest, TellsWhatItWaitsFor) {
  Watch watch(options_);
  const auto found = look(watch, 0);
  EXPECT_THAT(found.reason, HasSubstr("target"));
  EXPECT_FALSE(found.changed);
  EXPECT_THAT(found.complete, IsEmpty());
}

TEST_F(WatchTest, TheNextStepOfTheSameRankCompletes) {
  Watch watch(options_);
  write("target", 0, 0);
  write("target", 0, 1);
  EXPECT_TRUE(look(watch, 0).changed);
  write("target", 1, 0);
  const auto found = look(watch, 1);
  EXPECT_THAT(keys(found), ElementsAre(Key(0, 0)));
  EXPECT_EQ(found.complete.front().json_bytes, 30U);
  EXPECT_THAT(found.steps, IsEmpty());
  write("target", 2, 1);  // any later step
  const auto later = look(watch, 2);
  EXPECT_THAT(keys(later), ElementsAre(Key(0, 1)));
  EXPECT_THAT(later.steps, ElementsAre(0));
  EXPECT_THAT(keys(look(watch, 3)), IsEmpty());
}

TEST_F(WatchTest, StepsAreNotAscendingTexts) {
  Watch watch(options_);
  write("target", 9, 0);
  write("target", 10, 0);
  EXPECT_THAT(keys(look(watch, 0)), ElementsAre(Key(9, 0)));
}

TEST_F(WatchTest, FilesThatDoNotChangeComplete) {
  Watch watch(options_);
  write("target", 0, 0, 10);
  EXPECT_THAT(keys(look(watch, 0)), IsEmpty());
  write("target", 0, 0, 20);
  EXPECT_THAT(keys(look(watch, 9)), IsEmpty());
  EXPECT_THAT(keys(look(watch, 18)), IsEmpty()) << "nine seconds after the change";
  const auto found = look(watch, 19);
  EXPECT_THAT(keys(found), ElementsAre(Key(0, 0)));
  EXPECT_THAT(found.steps, ElementsAre(0));
}

TEST_F(WatchTest, ANewTensorFileIsAChange) {
  Watch watch(options_);
  write("target", 0, 0);
  look(watch, 0);
  std::ofstream(options_.target / "step0/rank0/dump_tensor_data/a.npy") << "x";
  EXPECT_TRUE(look(watch, 9).changed);
  EXPECT_THAT(keys(look(watch, 11)), IsEmpty());
}

TEST_F(WatchTest, BothSidesMustBeComplete) {
  compare();
  Watch watch(options_);
  write("target", 0, 0);
  write("target", 1, 0);
  write("golden", 0, 0);
  EXPECT_THAT(keys(look(watch, 0)), IsEmpty());
  write("golden", 1, 0);
  EXPECT_THAT(keys(look(watch, 1)), ElementsAre(Key(0, 0)));
}

TEST_F(WatchTest, AStepWaitsForTheRanksOfTheOthers) {
  Watch watch(options_);
  for (const int rank : {0, 1}) {
    write("target", 0, rank);
    write("target", 1, rank);
  }
  EXPECT_THAT(look(watch, 0).steps, ElementsAre(0));
  write("target", 2, 0);
  write("target", 3, 0);
  EXPECT_THAT(look(watch, 1).steps, IsEmpty()) << "rank 1 may still come to step 2, and is not complete in step 1";
  write("target", 3, 1);
  EXPECT_THAT(look(watch, 2).steps, ElementsAre(1));
  EXPECT_THAT(look(watch, 20).steps, ElementsAre(2, 3)) << "nothing has changed";
}

TEST_F(WatchTest, AChangedDumpIsGivenAgain) {
  Watch watch(options_);
  write("target", 0, 0);
  write("target", 0, 1);
  write("target", 1, 0);
  EXPECT_THAT(keys(look(watch, 0)), ElementsAre(Key(0, 0)));
  write("target", 0, 0, 99);
  EXPECT_THAT(keys(look(watch, 1)), ElementsAre(Key(0, 0)));
}

TEST_F(WatchTest, TheRestIsWhateverIsThere) {
  Watch watch(options_);
  write("target", 0, 0);
  look(watch, 0);
  const auto found = watch.rest(Watch::Clock::time_point(seconds(1001)));
  EXPECT_THAT(keys(found), ElementsAre(Key(0, 0)));
  EXPECT_THAT(found.steps, ElementsAre(0));
}

TEST_F(WatchTest, WhatWasDoneIsSkippedUnlessItChanges) {
  Watch watch(options_);
  write("target", 0, 0);
  write("target", 0, 1);
  write("target", 1, 0);
  watch.skip({0, 0});
  EXPECT_THAT(look(watch, 0).complete, IsEmpty());
  write("target", 0, 0, 99);
  EXPECT_THAT(keys(look(watch, 1)), ElementsAre(Key(0, 0)));
}

TEST_F(WatchTest, CompleteStepsAreLeftAloneUntilTheEnd) {
  Watch watch(options_);
  for (const int step : {0, 1, 2, 3}) {
    write("target", step, 0);
  }
  watch.skip_step(1);
  EXPECT_THAT(look(watch, 0).steps, ElementsAre(0, 2));
  std::vector<std::int64_t> seen;
  look(watch, 1);
  for (const WorkItem& item : watch.plan().items) {
    seen.push_back(item.step);
  }
  EXPECT_THAT(seen, ElementsAre(3));
  write("target", 0, 0, 99);
  EXPECT_FALSE(look(watch, 2).changed);
  EXPECT_THAT(keys(watch.rest(Watch::Clock::time_point(seconds(1003)))), testing::IsSupersetOf({Key(0, 0), Key(3, 0)}));
}

TEST_F(WatchTest, ASelectionOfSteps) {
  options_.steps.ranges = {{2, 3}, {7, 7}};
  Watch watch(options_);
  for (const int step : {0, 1, 2, 3, 4, 7, 8}) {
    write("target", step, 0);
  }
  EXPECT_THAT(look(watch, 0).steps, ElementsAre(2, 3, 7));
  EXPECT_THAT(look(watch, 1).steps, IsEmpty());
}

TEST_F(WatchTest, RanksWithoutStepsSettle) {
  Watch watch(options_);
  std::filesystem::create_directories(options_.target / "rank0");
  std::ofstream(options_.target / "rank0/dump.json") << "{}";
  EXPECT_THAT(keys(look(watch, 0)), IsEmpty());
  EXPECT_THAT(keys(look(watch, 10)), ElementsAre(Key(0, 0)));
}

}  // namespace
}  // namespace msvis
