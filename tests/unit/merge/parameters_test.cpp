#include "merge/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msvis/error.h"

namespace msvis {
namespace {

using testing::HasSubstr;

MergeSide side(std::int64_t ranks, std::int64_t tp, std::int64_t pp, const std::string& order = "tp-cp-ep-dp-pp") {
  MergeSide side;
  side.rank_size = ranks;
  side.tp = tp;
  side.pp = pp;
  side.order = order;
  return side;
}

std::string fault(const MergeSide& sizes) {
  try {
    check_merge_side(sizes, "the target (-tp)");
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::mismatch);
    EXPECT_THAT(error.what(), HasSubstr("the target (-tp)"));
    return error.what();
  }
  return "";
}

RankGroups tp_groups(const MergeSide& sizes) {
  return RankGrid(sizes, "").groups(Dimension::tp);
}

RankGroups pp_groups(const MergeSide& sizes) {
  return RankGrid(sizes, "").groups(Dimension::pp);
}

TEST(RankGrid, TablesOfTheRules) {
  EXPECT_EQ(tp_groups(side(8, 2, 2)), (RankGroups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(pp_groups(side(8, 2, 2)), (RankGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(tp_groups(side(8, 2, 2, "tp-cp-pp-ep-dp")), (RankGroups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(pp_groups(side(8, 2, 2, "tp-cp-pp-ep-dp")), (RankGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(tp_groups(side(8, 2, 2, "pp-tp-dp")), (RankGroups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(pp_groups(side(8, 2, 2, "pp-tp-dp")), (RankGroups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(tp_groups(side(4, 2, 1, "dp-tp")), (RankGroups{{0, 2}, {1, 3}}));
  EXPECT_EQ(pp_groups(side(4, 2, 1, "dp-tp")), (RankGroups{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(tp_groups(side(4, 1, 2)), (RankGroups{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(pp_groups(side(4, 1, 2)), (RankGroups{{0, 2}, {1, 3}}));
  EXPECT_THAT(fault(side(8, 2, 2, "tp-cp-ep-pp-dp")), HasSubstr("ep and dp must stand beside each other"));
  EXPECT_THAT(fault(side(8, 2, 2, "tp-dp")), HasSubstr("does not name pp"));
}

TEST(RankGrid, CoordinatesAndBack) {
  MergeSide sizes = side(24, 2, 3);
  sizes.cp = 2;
  const RankGrid grid(sizes, "");
  EXPECT_EQ(grid.ranks(), 24);
  EXPECT_EQ(grid.size(Dimension::dp), 2);
  for (std::int64_t rank = 0; rank < 24; ++rank) {
    EXPECT_EQ(grid.rank(grid.coordinates(rank)), rank);
  }
  EXPECT_EQ(grid.coordinates(1), (Coordinates{1, 0, 0, 0}));
  EXPECT_EQ(grid.coordinates(2), (Coordinates{0, 1, 0, 0}));
  EXPECT_EQ(grid.coordinates(4), (Coordinates{0, 0, 1, 0}));
  EXPECT_EQ(grid.coordinates(8), (Coordinates{0, 0, 0, 1}));
  for (const Dimension dimension : {Dimension::tp, Dimension::cp, Dimension::dp, Dimension::pp}) {
    EXPECT_TRUE(is_partition(grid.groups(dimension), 24));
  }
}

TEST(RankGrid, ExpertsLieAlongTheReplicas) {
  MergeSide sizes = side(8, 2, 1);
  sizes.ep = 2;
  const RankGrid grid(sizes, "");  // ranks tp + 2 dp
  EXPECT_EQ(grid.expert_group(0), (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(grid.expert_group(2), (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(grid.expert_group(5), (std::vector<std::int64_t>{5, 7}));
  EXPECT_EQ(grid.expert_coordinate(3), 1);
  sizes.order = "tp-cp-dp-ep-pp";
  const RankGrid slow(sizes, "");
  EXPECT_EQ(slow.expert_group(0), (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(slow.expert_coordinate(4), 1);
}

TEST(MergeSide, Rules) {
  EXPECT_EQ(fault(side(8, 2, 2)), "");
  EXPECT_EQ(fault(side(1, 1, 1)), "");
  EXPECT_THAT(fault(side(0, 1, 1)), HasSubstr("--rank_size 0 must be at least 1"));
  EXPECT_THAT(fault(side(2, -1, 1)), HasSubstr("--tp -1 must be at least 1"));
  EXPECT_THAT(fault(side(2, 4, 1)), HasSubstr("--tp 4 is larger than --rank_size 2"));
  EXPECT_THAT(fault(side(2, 1, 4)), HasSubstr("--pp 4 is larger than --rank_size 2"));
  EXPECT_THAT(fault(side(8, 3, 1)), HasSubstr("--rank_size 8 can't be divided by --tp 3"));
  EXPECT_THAT(fault(side(8, 1, 3)), HasSubstr("--rank_size 8 can't be divided by --pp 3"));
  EXPECT_THAT(fault(side(8, 4, 4)), HasSubstr("is more than --rank_size 8"));
  EXPECT_THAT(fault(side(12, 2, 4)), HasSubstr("can't be divided by --tp 2 times --pp 4"));  // the reference finds that out late
  EXPECT_THAT(fault(side(INT64_MAX, 1, 1)), HasSubstr("is more than"));
  for (const char* order : {"", "TP", "tp dp", "tp_dp"}) {
    EXPECT_THAT(fault(side(2, 2, 1, order)), HasSubstr("--order")) << order;
  }
  EXPECT_THAT(fault(side(2, 2, 1, "tp-xx")), HasSubstr("'xx' is no dimension"));
  EXPECT_THAT(fault(side(2, 2, 1, "tp--dp")), HasSubstr("is no dimension"));
  EXPECT_THAT(fault(side(2, 2, 1, "tp-tp")), HasSubstr("twice"));
  MergeSide chunks = side(2, 2, 1);
  chunks.vpp = 2;
  EXPECT_THAT(fault(chunks), HasSubstr("needs at least two pipeline stages"));
  MergeSide experts = side(4, 2, 1);
  experts.ep = 3;
  EXPECT_THAT(fault(experts), HasSubstr("--ep 3 must divide the number of data-parallel replicas, which is 2"));
  MergeSide context = side(4, 2, 1);
  context.cp = 4;
  EXPECT_THAT(fault(context), HasSubstr("--cp 4"));
}

TEST(MergeStrategy, FirstRowThatFits) {
  EXPECT_EQ(merge_strategy(side(1, 1, 1)), MergeStrategy::none);
  EXPECT_EQ(merge_strategy(side(2, 2, 1)), MergeStrategy::tp);
  EXPECT_EQ(merge_strategy(side(2, 1, 2)), MergeStrategy::pp);
  EXPECT_EQ(merge_strategy(side(4, 2, 1)), MergeStrategy::tp);
  EXPECT_EQ(merge_strategy(side(4, 1, 1)), MergeStrategy::tp);
  EXPECT_EQ(merge_strategy(side(4, 1, 2)), MergeStrategy::pp);
  EXPECT_EQ(merge_strategy(side(4, 2, 2)), MergeStrategy::tp_pp);
  EXPECT_EQ(merge_strategy(side(8, 2, 2)), MergeStrategy::full);
}

TEST(Partition, EachRankOnce) {
  EXPECT_TRUE(is_partition({{0, 2}, {1, 3}}, 4));
  EXPECT_FALSE(is_partition({{0, 2}, {1}}, 4));
  EXPECT_FALSE(is_partition({{0, 2}, {1, 2}}, 4));
  EXPECT_FALSE(is_partition({{0, 2}, {1, 4}}, 4));
  EXPECT_FALSE(is_partition({{0, -1}}, 2));
}

}  // namespace
}  // namespace msvis
