#include "merge/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msvis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RankGrid grid(std::int64_t ranks, std::int64_t tp, std::int64_t pp) {
  MergeSide side;
  side.rank_size = ranks;
  side.tp = tp;
  side.pp = pp;
  return {side, "the target"};
}

TEST(Chains, ExamplesOfTheRules) {
  EXPECT_EQ(trace_chains({{0, 1}, {1, 2}, {2, 3}, {3, 2}}), (RankGroups{{0, 1, 2, 3}}));
  EXPECT_EQ(trace_chains({{0, 1}, {1, 2}, {2, 3}}), (RankGroups{{0, 1, 2}}));
  EXPECT_EQ(trace_chains({{1, 0}, {2, 1}, {3, 2}}), (RankGroups{{1}, {2}, {3}}));
  EXPECT_EQ(trace_chains({{0, 4}, {1, 5}, {4, 0}, {5, 1}}), (RankGroups{{0, 4}, {1, 5}}));
  EXPECT_EQ(trace_chains({}), RankGroups{});
  EXPECT_EQ(trace_chains({{0, 0}}), (RankGroups{{0}}));
}

TEST(Groups, OfTheDumpBeforeThoseOfTheOrder) {
  std::map<std::int64_t, GroupHint> hints;
  for (const std::int64_t rank : {0, 1, 2, 3}) {
    hints[rank].reduce_group = std::vector<std::int64_t>{rank % 2, rank % 2 + 2};
  }
  std::vector<std::string> warnings;
  EXPECT_EQ(tp_groups_of(hints, grid(4, 2, 1), warnings), (RankGroups{{0, 2}, {1, 3}}));
  EXPECT_THAT(warnings, IsEmpty());
  // of another size: those of the order, with a warning
  EXPECT_EQ(tp_groups_of(hints, grid(4, 4, 1), warnings), (RankGroups{{0, 1, 2, 3}}));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("[0, 2]")));
  warnings.clear();
  EXPECT_EQ(tp_groups_of({}, grid(4, 2, 1), warnings), (RankGroups{{0, 1}, {2, 3}}));
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(Groups, PipelinesOfTheDump) {
  std::map<std::int64_t, GroupHint> hints;
  hints[0].successor = 1;
  hints[1].successor = 0;
  hints[2].successor = 3;
  hints[3].successor = 2;
  std::vector<std::string> warnings;
  EXPECT_EQ(pp_groups_of(hints, grid(4, 1, 2), warnings), (RankGroups{{0, 1}, {2, 3}}));
  hints[1].successor.reset();
  EXPECT_EQ(pp_groups_of(hints, grid(4, 1, 2), warnings), (RankGroups{{0, 2}, {1, 3}}));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("pipeline")));
}

TEST(Groups, ContradictionsAreTold) {
  std::map<std::int64_t, GroupHint> hints;
  hints[0].reduce_group = std::vector<std::int64_t>{0, 1};
  hints[0].successor = 2;
  EXPECT_THAT(group_contradictions(hints, grid(4, 2, 2)), IsEmpty());
  hints[0].reduce_group = std::vector<std::int64_t>{0, 2};
  EXPECT_THAT(group_contradictions(hints, grid(4, 2, 2)), ElementsAre(HasSubstr("[0, 2]")));
  hints[0].reduce_group = std::vector<std::int64_t>{0, 1, 2, 3};  // of another size: over other ranks than the shards
  hints[0].successor = 1;
  EXPECT_THAT(group_contradictions(hints, grid(4, 2, 2)), ElementsAre(HasSubstr("goes to rank 1")));
}

}  // namespace
}  // namespace msvis
