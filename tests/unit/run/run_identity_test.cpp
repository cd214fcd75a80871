#include "run/run_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "msvis/error.h"
#include "support/temporary_directory.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunIdentityTest : public ::testing::Test {
 protected:
  RunIdentityTest() {
    options_.target = directory_.path() / "target";
    for (const std::int64_t rank : {0, 1}) {
      WorkItem item;
      item.rank = rank;
      item.target = options_.target / ("rank" + std::to_string(rank));
      std::filesystem::create_directories(item.target);
      write(item.target / "dump.json", "{}");
      items_.push_back(item);
    }
  }
  static void write(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

  [[nodiscard]] RunIdentity identity() const { return identity_of(options_, "1.0", items_); }
  static std::vector<std::string> compare(const RunIdentity& before, const RunIdentity& now, bool more_items = false) {
    return differences(
        before, now, [](std::int64_t, std::int64_t rank) { return rank == 0; }, more_items);
  }

  test::TemporaryDirectory directory_;
  RunOptions options_;
  std::vector<WorkItem> items_;
};

TEST_F(RunIdentityTest, SurvivesPacking) {
  const RunIdentity before = identity();
  const RunIdentity after = unpack_run_identity(pack(before));
  EXPECT_EQ(after.settings, before.settings);
  EXPECT_EQ(after.items, before.items);
  EXPECT_THROW(unpack_run_identity("nonsense"), Error);
}

TEST_F(RunIdentityTest, IsTheSameForTheSameRun) {
  const RunIdentity before = identity();
  options_.threads = 7;
  options_.progress_log = true;
  EXPECT_THAT(compare(before, identity()), IsEmpty()) << "how a run is done does not matter";
}

TEST_F(RunIdentityTest, TellsOptionsApart) {
  const RunIdentity before = identity();
  options_.overflow_check = true;
  options_.steps.ranges = {{2, 5}};
  EXPECT_THAT(compare(before, identity()), ElementsAre("--steps was 'all', now '2-5'", "-oc was 'no', now 'yes'"));
}

TEST_F(RunIdentityTest, TellsFilesApartThatCount) {
  const RunIdentity before = identity();
  write(items_[1].target / "dump.json", "{ }");
  EXPECT_THAT(compare(before, identity()), IsEmpty()) << "rank 1 is to be done again";
  write(items_[0].target / "stack.json", "{}");
  EXPECT_THAT(compare(before, identity()),
              ElementsAre(testing::AllOf(HasSubstr("step 0 rank 0: target stack.json was 'not there', now '2 bytes of 20"))));
}

TEST_F(RunIdentityTest, TellsItemsApart) {
  const RunIdentity before = identity();
  items_[1].rank = 8;
  EXPECT_THAT(compare(before, identity()), ElementsAre("step 0 rank 1 is no longer part of the run", "step 0 rank 8 is new"));
  EXPECT_THAT(compare(before, identity(), true), ElementsAre("step 0 rank 1 is no longer part of the run"));
}

TEST_F(RunIdentityTest, NamesAFewOfMany) {
  const RunIdentity before = identity();
  for (std::int64_t rank = 10; rank < 40; ++rank) {
    items_.push_back(items_[1]);
    items_.back().rank = rank;
  }
  const auto found = compare(before, identity());
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found.back(), "and 25 more");
}

}  // namespace
}  // namespace msvis
