#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/links/hand_graph.h"

namespace msvis {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> warnings_of(Ranks& ranks, const std::vector<std::int64_t>& present, const LinkOptions& options = {}) {
  std::vector<GroupCount> counts;
  for (auto& [rank, hand] : ranks) {
    const auto more = group_counts(hand.graph(), Side::target, 4, rank, options);
    counts.insert(counts.begin(), more.begin(), more.end());
  }
  return group_count_warnings(counts, present);
}

void calls(HandGraph& hand, const std::string& api, int count, const std::string& id = R"("g")", const std::string& ranks = "[0, 1]") {
  for (int number = 0; number < count; ++number) {
    hand.call(api, "[]", keyword("group", group(ranks, id)));
  }
}

TEST(GroupCounts, CountsWhatIsCountedToPair) {
  HandGraph hand;
  calls(hand, "all_reduce", 2, R"("h")", "[1, 0]");
  calls(hand, "all_reduce", 1);
  calls(hand, "broadcast", 1);
  hand.call("all_reduce", "[]", "{}");
  hand.call("send", "[]", keyword("dst", integer("1")));
  EXPECT_THAT(
      group_counts(hand.graph(), Side::golden, 4, 1, {}),
      ElementsAre(GroupCount{Side::golden, 4, 1, "g", "all_reduce", {0, 1}, 1}, GroupCount{Side::golden, 4, 1, "g", "broadcast", {0, 1}, 1},
                  GroupCount{Side::golden, 4, 1, "h", "all_reduce", {1, 0}, 2}));
}

TEST(GroupCountWarnings, EqualCounts) {
  Ranks ranks;
  for (const int rank : {0, 1}) {
    calls(ranks[rank], "all_reduce", 3);
  }
  EXPECT_THAT(warnings_of(ranks, {0, 1}), IsEmpty());
}

TEST(GroupCountWarnings, UnequalCounts) {
  Ranks ranks;
  calls(ranks[0], "all_reduce", 3);
  calls(ranks[1], "all_reduce", 1);
  calls(ranks[0], "all_gather", 2);
  calls(ranks[1], "all_gather", 2);
  EXPECT_THAT(warnings_of(ranks, {0, 1}),
              ElementsAre(AllOf(HasSubstr("target, step 4"), HasSubstr("group g (0, 1)"), HasSubstr("all_reduce"),
                                HasSubstr("rank 1 has 1 call,"), HasSubstr("rank 0 has 3 calls"))));
}

TEST(GroupCountWarnings, MemberWithoutAnyCall) {
  Ranks ranks;
  calls(ranks[0], "all_reduce", 1);
  EXPECT_THAT(warnings_of(ranks, {0, 1}), ElementsAre(HasSubstr("rank 1 has 0 calls")));
  EXPECT_THAT(warnings_of(ranks, {0}), IsEmpty());  // rank 1 was not dumped
}

TEST(GroupCountWarnings, GroupsAndApisApart) {
  Ranks ranks;
  calls(ranks[0], "all_reduce", 1, R"("g")");
  calls(ranks[1], "all_reduce", 1, R"("h")");
  EXPECT_THAT(warnings_of(ranks, {0, 1}), ElementsAre(HasSubstr("group g"), HasSubstr("group h")));
}

TEST(GroupCountWarnings, LongListsAreCut) {
  Ranks ranks;
  calls(ranks[0], "all_reduce", 1, R"("g")", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]");
  EXPECT_THAT(warnings_of(ranks, {0, 1}), ElementsAre(HasSubstr("(0, 1, 2, 3, 4, 5, 6, 7, ... (10 ranks))")));
}

}  // namespace
}  // namespace msvis
