// From the tensors of the ranks to the plan of the whole.
#include "merge/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msvis {
namespace {

using Kind = TensorParts::Kind;
using testing::HasSubstr;

TensorParts file(const std::string& rank) {
  TensorParts part;
  part.directory = rank;
  part.data_name = "t.pt";
  return part;
}

std::vector<TensorParts> files(std::size_t count, const std::string& prefix = "rank") {
  std::vector<TensorParts> all;
  for (std::size_t k = 0; k < count; ++k) {
    all.push_back(file(prefix + std::to_string(k)));
  }
  return all;
}

Classification split_of(std::vector<Piece> pieces, std::uint32_t dimension = 0) {
  Classification made;
  made.kind = ShardKind::split;
  made.dimension = dimension;
  made.pieces = std::move(pieces);
  return made;
}

TEST(WholeOf, ReplicasVote) {
  const TensorParts whole = whole_of({}, files(3), {}, false);
  EXPECT_EQ(whole.kind, Kind::file);
  EXPECT_EQ(whole.directory, "rank0");
  ASSERT_EQ(whole.replicas.size(), 2U);
  EXPECT_EQ(whole.replicas[1].directory, "rank2");
  EXPECT_FALSE(whole.diverged);
  Classification with_checksums;
  with_checksums.merged.md5 = "cafe0123";
  EXPECT_TRUE(whole_of(with_checksums, files(3), {}, false).replicas.empty());
  Classification diverged;
  diverged.kind = ShardKind::diverged;
  EXPECT_TRUE(whole_of(diverged, files(3), {}, false).diverged);
}

TEST(WholeOf, ShardsAreJoined) {
  const TensorParts whole = whole_of(split_of({{0, 0, 2}, {1, 0, 2}, {0, 2, 2}, {1, 2, 2}}, 1), files(2), {}, false);
  EXPECT_EQ(whole.kind, Kind::joined);
  EXPECT_EQ(whole.dimension, 1U);
  ASSERT_EQ(whole.runs.size(), 4U);
  EXPECT_EQ(whole.runs[2].part, 0U);
  EXPECT_EQ(whole.runs[2].offset, 2U);
  EXPECT_EQ(whole.parts.size(), 2U);
}

TEST(WholeOf, OnlyRanksWithAPiece) {
  const TensorParts whole = whole_of(split_of({{0, 0, 1}, {2, 0, 1}}), files(4), {}, false);
  ASSERT_EQ(whole.parts.size(), 2U);
  EXPECT_EQ(whole.parts[1].directory, "rank2");
  EXPECT_EQ(whole.runs[1].part, 1U);
}

TEST(WholeOf, UnknownDimension) {
  Classification unknown;
  unknown.kind = ShardKind::split;
  EXPECT_EQ(whole_of(unknown, files(2), {}, false).kind, Kind::none);
  unknown.kind = ShardKind::not_mergeable;
  EXPECT_THAT(whole_of(unknown, files(2), {}, false).reason, HasSubstr("vocabulary"));
}

TEST(WholeOf, AMissingFileIsSaid) {
  std::vector<TensorParts> parts = files(2);
  parts[1] = {};
  parts[1].kind = Kind::none;
  parts[1].reason = "rank1 has no tensor file";
  EXPECT_EQ(whole_of(split_of({{0, 0, 1}, {1, 0, 1}}), parts, {}, false).reason, "rank1 has no tensor file");
  EXPECT_EQ(whole_of({}, parts, {}, false).replicas.size(), 0U);
  std::swap(parts[0], parts[1]);
  EXPECT_EQ(whole_of({}, parts, {}, false).directory, "rank0");  // the one that has a file
  EXPECT_EQ(whole_of({}, {}, {}, false).kind, Kind::none);
}

TEST(WholeOf, PartialSums) {
  Classification partial;
  partial.kind = ShardKind::partial;
  EXPECT_EQ(whole_of(partial, files(2), {}, false).kind, Kind::summed);
  partial.from_reduction = true;
  const TensorParts reduced = whole_of(partial, files(2), files(2, "sum"), false);
  EXPECT_EQ(reduced.directory, "sum0");
  EXPECT_EQ(reduced.replicas.size(), 1U);
  partial.pieces = {{0, 0, 4}, {1, 0, 4}};
  const TensorParts scattered = whole_of(partial, files(2), files(2, "sum"), true);
  EXPECT_EQ(scattered.kind, Kind::joined);
  EXPECT_EQ(scattered.parts.size(), 2U);
  partial.pieces.clear();  // the shapes of the slices are not known
  EXPECT_EQ(whole_of(partial, files(2), files(2, "sum"), true).kind, Kind::summed);
}

TEST(WholeOf, ReplicasOfPartsAreReplicasOfTheWhole) {
  // Two context-parallel halves that two tensor-parallel ranks have each.
  std::vector<TensorParts> halves{whole_of({}, files(2, "first"), {}, false), whole_of({}, files(2, "second"), {}, false)};
  const TensorParts whole = whole_of(split_of({{0, 0, 4}, {1, 0, 4}}), halves, {}, false);
  ASSERT_EQ(whole.replicas.size(), 1U);
  EXPECT_EQ(whole.replicas[0].kind, Kind::joined);
  EXPECT_EQ(whole.replicas[0].parts[1].directory, "second1");
  EXPECT_EQ(whole.replicas[0].runs.size(), 2U);
  EXPECT_TRUE(whole.parts[0].replicas.empty());
}

}  // namespace
}  // namespace msvis
