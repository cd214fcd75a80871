// Classification of entries over a parallel group, and their exact combination.
#include "merge/classify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace msvis {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Eq;
using testing::Optional;
using Shape = std::vector<std::uint64_t>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

ShardRecord record(double max, double min, double mean, double norm, Shape shape) {
  ShardRecord made;
  made.stats = {max, min, mean, norm};
  made.shape = std::move(shape);
  made.dtype = "torch.float32";
  made.requires_grad = true;
  return made;
}

/// Statistics of elements, as the dumper would record them (in double).
ShardRecord record_of(const std::vector<double>& values, Shape shape) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return record(*std::max_element(values.begin(), values.end()), *std::min_element(values.begin(), values.end()),
                sum / static_cast<double>(values.size()), std::sqrt(squares), std::move(shape));
}

EntryPlace place(std::string_view module, std::string_view argument, ItemState state, std::string_view node = {}) {
  EntryPlace made;
  made.module = module;
  made.node = node.empty() ? module : node;
  made.argument = argument;
  made.state = state;
  return made;
}

constexpr std::string_view column = "Module.0.module.decoder.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0";
constexpr std::string_view column_backward = "Module.0.module.decoder.layers.0.mlp.linear_fc1.ColumnParallelLinear.backward.0";
constexpr std::string_view column_gradient = "Module.0.module.decoder.layers.0.mlp.linear_fc1.ColumnParallelLinear.parameters_grad";
constexpr std::string_view row = "Module.0.module.decoder.layers.0.mlp.linear_fc2.TERowParallelLinear.forward.0";
constexpr std::string_view row_backward = "Module.0.module.decoder.layers.0.mlp.linear_fc2.TERowParallelLinear.backward.0";
constexpr std::string_view row_gradient = "Module.0.module.decoder.layers.0.mlp.linear_fc2.TERowParallelLinear.parameters_grad.0";
constexpr std::string_view embedding = "Module.0.module.embedding.word_embeddings.VocabParallelEmbedding.forward.0";
constexpr std::string_view norm = "Module.0.module.decoder.layers.0.input_layernorm.RMSNorm.forward.0";
constexpr std::string_view norm_gradient = "Module.0.module.decoder.layers.0.input_layernorm.RMSNorm.parameters_grad";
constexpr std::string_view attention = "Module.0.module.decoder.layers.0.self_attention.core_attention.DotProductAttention.forward.0";
constexpr std::string_view mlp = "Module.0.module.decoder.layers.0.mlp.MLP.forward.0";

std::vector<ShardRecord> unlike(const Shape& shape) {
  return {record(2, -1, 0.25, 3, shape), record(1.5, -2, -0.5, 4, shape)};
}

TEST(Classify, ClassOfAModule) {
  EXPECT_EQ(module_class(column), "ColumnParallelLinear");
  EXPECT_EQ(module_class(column_gradient), "ColumnParallelLinear");
  EXPECT_EQ(module_class(row_gradient), "TERowParallelLinear");
  EXPECT_EQ(module_class("Torch.matmul.0.forward"), "");
  EXPECT_EQ(module_class(""), "");
  EXPECT_EQ(module_class("a.0"), "");
}

TEST(Classify, EqualRecordsAreReplicated) {
  std::vector<ShardRecord> records(2, record(2, -1, 0.25, 3, {4, 1, 8}));
  records[0].md5 = records[1].md5 = "cafe0123";
  const Classification found = classify(place(row, "output.0", ItemState::output), records);
  EXPECT_EQ(found.kind, ShardKind::replicated);
  EXPECT_THAT(found.merged.shape, Optional(Shape{4, 1, 8}));
  EXPECT_THAT(found.merged.md5, Optional(Eq("cafe0123")));
  EXPECT_THAT(found.merged.same_as[stat_norm], Optional(0U));
  EXPECT_TRUE(found.complete);
}

TEST(Classify, NanEqualsNan) {
  const std::vector<ShardRecord> records(2, record(nan, nan, nan, nan, {4}));
  EXPECT_EQ(classify(place(norm, "parameters.weight", ItemState::parameters), records).kind, ShardKind::replicated);
}

struct Expected {
  std::string_view module;
  std::string_view argument;
  ItemState state;
  Shape shard;
  ShardKind kind;
  std::optional<std::uint32_t> dimension;
  std::string_view node = {};
  bool sequence_parallel = false;
};

class TableOfClasses : public testing::TestWithParam<Expected> {};

TEST_P(TableOfClasses, Holds) {
  const Expected& expected = GetParam();
  EntryPlace where = place(expected.module, expected.argument, expected.state, expected.node);
  where.sequence_parallel = expected.sequence_parallel;
  where.weight_shape = Shape{8, 16};
  const Classification found = classify(where, unlike(expected.shard));
  EXPECT_EQ(shard_kind_text(found.kind), shard_kind_text(expected.kind));
  EXPECT_EQ(found.dimension, expected.dimension);
  if (found.dimension) {
    Shape whole = expected.shard;
    whole[*found.dimension] *= 2;
    EXPECT_THAT(found.merged.shape, Optional(whole));
    EXPECT_THAT(found.pieces, ElementsAre(Piece{0, 0, expected.shard[*found.dimension]}, Piece{1, 0, expected.shard[*found.dimension]}));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Column, TableOfClasses,
    testing::Values(Expected{column, "parameters.weight", ItemState::parameters, {8, 16}, ShardKind::split, 0},
                    Expected{column, "parameters.bias", ItemState::parameters, {8}, ShardKind::split, 0},
                    Expected{column_gradient, "weight", ItemState::parameters_grad, {8, 16}, ShardKind::split, 0},
                    Expected{column, "input.0", ItemState::input, {4, 1, 16}, ShardKind::diverged, {}},
                    Expected{column, "input.0", ItemState::input, {2, 1, 16}, ShardKind::split, 0, {}, true},
                    Expected{column, "output.0", ItemState::output, {4, 1, 8}, ShardKind::split, 2},
                    Expected{column_backward, "input.0", ItemState::input, {4, 1, 8}, ShardKind::split, 2},
                    Expected{column_backward, "output.0", ItemState::output, {4, 1, 16}, ShardKind::diverged, {}},
                    Expected{column_backward, "output.0", ItemState::output, {2, 1, 16}, ShardKind::split, 0, {}, true},
                    Expected{column, "input.0", ItemState::input, {4, 1, 16}, ShardKind::diverged, {}, "Torch.matmul.0.forward"},
                    Expected{column, "input.1", ItemState::input, {16, 8}, ShardKind::split, 1, "Torch.matmul.0.forward"},
                    Expected{column, "input.1", ItemState::input, {8, 16}, ShardKind::split, 0, "Functional.linear.0.forward"},
                    Expected{column, "output.0", ItemState::output, {4, 1, 8}, ShardKind::split, 2, "Torch.matmul.0.forward"},
                    Expected{column_backward, "input.0", ItemState::input, {4, 1, 8}, ShardKind::split, 2, "Tensor.matmul.0.forward"},
                    Expected{column_backward, "input.1", ItemState::input, {8, 16}, ShardKind::split, 0, "Tensor.matmul.0.forward"},
                    Expected{column_backward, "output.0", ItemState::output, {4, 1, 16}, ShardKind::partial, {}, "Tensor.matmul.0.forward"},
                    Expected{column_backward, "input.0", ItemState::input, {8, 4}, ShardKind::split, 0, "Tensor.matmul.1.forward"},
                    Expected{column_backward, "input.1", ItemState::input, {4, 16}, ShardKind::diverged, {}, "Tensor.matmul.1.forward"},
                    Expected{column_backward, "output.0", ItemState::output, {8, 16}, ShardKind::split, 0, "Tensor.matmul.1.forward"}));

INSTANTIATE_TEST_SUITE_P(
    Row, TableOfClasses,
    testing::Values(Expected{row, "parameters.weight", ItemState::parameters, {8, 16}, ShardKind::split, 1},
                    Expected{row_gradient, "weight", ItemState::parameters_grad, {8, 16}, ShardKind::split, 1},
                    Expected{row, "parameters.bias", ItemState::parameters, {8}, ShardKind::diverged, {}},
                    Expected{row_gradient, "bias", ItemState::parameters_grad, {8}, ShardKind::partial, {}, {}, true},
                    Expected{row, "input.0", ItemState::input, {4, 1, 16}, ShardKind::split, 2},
                    Expected{row, "output.0", ItemState::output, {2, 1, 8}, ShardKind::split, 0, {}, true},
                    Expected{row, "output.1", ItemState::output, {8}, ShardKind::diverged, {}, {}, true},
                    Expected{row_backward, "output.0", ItemState::output, {4, 1, 16}, ShardKind::split, 2},
                    Expected{row_backward, "input.0", ItemState::input, {2, 1, 8}, ShardKind::split, 0, {}, true},
                    Expected{row, "input.1", ItemState::input, {16, 8}, ShardKind::split, 0, "Torch.matmul.0.forward"},
                    Expected{row, "output.0", ItemState::output, {4, 1, 8}, ShardKind::partial, {}, "Torch.matmul.0.forward"},
                    Expected{row_backward, "input.1", ItemState::input, {8, 16}, ShardKind::split, 1, "Tensor.matmul.0.forward"},
                    Expected{row_backward, "output.0", ItemState::output, {4, 1, 16}, ShardKind::split, 2, "Tensor.matmul.0.forward"},
                    Expected{row_backward, "output.0", ItemState::output, {8, 16}, ShardKind::split, 1, "Tensor.matmul.1.forward"}));

INSTANTIATE_TEST_SUITE_P(
    Others, TableOfClasses,
    testing::Values(Expected{"Module.0.mlp.experts.linear_fc1.TEColumnParallelGroupedLinear.forward.0",
                             "parameters.weight0",
                             ItemState::parameters,
                             {8, 16},
                             ShardKind::split,
                             0},
                    Expected{embedding, "parameters.weight", ItemState::parameters, {8, 16}, ShardKind::split, 0},
                    Expected{embedding, "output.0", ItemState::output, {1, 4, 8}, ShardKind::diverged, {}},
                    Expected{embedding, "output.0", ItemState::output, {1, 4, 8}, ShardKind::partial, {}, "Functional.embedding.0.forward"},
                    Expected{embedding, "input.1", ItemState::input, {8, 16}, ShardKind::split, 0, "Functional.embedding.0.forward"},
                    Expected{norm, "parameters.weight", ItemState::parameters, {8}, ShardKind::diverged, {}},
                    Expected{norm, "output.0", ItemState::output, {2, 1, 8}, ShardKind::split, 0, {}, true},
                    Expected{norm_gradient, "weight", ItemState::parameters_grad, {8}, ShardKind::partial, {}, {}, true},
                    Expected{norm_gradient, "weight", ItemState::parameters_grad, {8}, ShardKind::diverged, {}},
                    Expected{attention, "input.0", ItemState::input, {4, 1, 2, 2}, ShardKind::split, 2},
                    Expected{attention, "output.0", ItemState::output, {4, 1, 4}, ShardKind::split, 2},
                    Expected{attention, "input.0", ItemState::input, {2, 4, 4}, ShardKind::split, 0, "Functional.softmax.0.forward"},
                    Expected{attention, "input.0", ItemState::input, {1, 2, 4, 4}, ShardKind::split, 1, "Functional.softmax.0.forward"},
                    Expected{mlp, "output.0", ItemState::output, {4, 1, 8}, ShardKind::split, 2, "Functional.gelu.0.forward"},
                    Expected{mlp, "output.0", ItemState::output, {4, 1, 8}, ShardKind::diverged, {}}));

TEST(Classify, MaskedIdsCannotBeMerged) {
  std::vector<ShardRecord> records = unlike({1, 4});
  records[0].dtype = records[1].dtype = "torch.int64";
  const Classification found = classify(place(embedding, "input.0", ItemState::input, "Functional.embedding.0.forward"), records);
  EXPECT_EQ(found.kind, ShardKind::not_mergeable);
  EXPECT_FALSE(found.complete);
  EXPECT_THAT(found.merged.stats, testing::Each(std::nullopt));
}

TEST(Classify, EqualShardsStaySplit) {
  // Weights that are equal on all ranks, and a bias of zeros, are still one half of the whole each.
  EXPECT_EQ(
      classify(place(column, "parameters.weight", ItemState::parameters), std::vector<ShardRecord>(2, record(2, -1, 0.25, 3, {8, 16})))
          .kind,
      ShardKind::split);
  const std::vector<ShardRecord> records(2, record(0, 0, 0, 0, {8}));
  const Classification found = classify(place(column, "parameters.bias", ItemState::parameters), records);
  EXPECT_EQ(found.kind, ShardKind::split);
  EXPECT_THAT(found.merged.shape, Optional(Shape{16}));
  EXPECT_THAT(found.merged.stats[stat_norm], Optional(0.0));
}

TEST(Classify, EqualValuesWereNotScatteredYet) {
  EntryPlace where = place(norm, "output.0", ItemState::output);
  where.sequence_parallel = true;
  EXPECT_EQ(classify(where, {record(2, -1, 0.25, 3, {2, 1, 8}), record(2, -1, 0.25, 3, {2, 1, 8})}).kind, ShardKind::replicated);
  EXPECT_EQ(classify(where, {record(0, 0, 0, 0, {2, 1, 8}), record(0, 0, 0, 0, {2, 1, 8})}).kind, ShardKind::split);
}

TEST(Classify, SequenceParallelismByShapes) {
  EXPECT_TRUE(gathers_sequence(column, Shape{2, 1, 8}, Shape{4, 1, 16}, 2));
  EXPECT_FALSE(gathers_sequence(column, Shape{4, 1, 8}, Shape{4, 1, 16}, 2));
  EXPECT_FALSE(gathers_sequence(column, Shape{2, 1, 8}, Shape{4, 1, 16}, 4));
  EXPECT_FALSE(gathers_sequence(column_backward, Shape{2, 1, 8}, Shape{4, 1, 16}, 2));
  EXPECT_FALSE(gathers_sequence(row, Shape{2, 1, 8}, Shape{4, 1, 16}, 2));
  EXPECT_FALSE(gathers_sequence(column, std::nullopt, Shape{4, 1, 16}, 2));
}

TEST(Classify, EqualOutputsWereGathered) {
  // ColumnParallelLinear with gather_output; an MLP that is not split.
  const std::vector<ShardRecord> equal(2, record(2, -1, 0.25, 3, {4, 1, 8}));
  EXPECT_EQ(classify(place(column, "output.0", ItemState::output), equal).kind, ShardKind::replicated);
  EXPECT_EQ(classify(place(mlp, "output.0", ItemState::output, "Functional.gelu.0.forward"), equal).kind, ShardKind::replicated);
}

TEST(Classify, UnknownValuesAreNotEqualOnes) {
  ShardRecord unknown;
  unknown.shape = Shape{4, 1, 8};
  unknown.dtype = "torch.float32";
  const Classification found = classify(place(column, "output.0", ItemState::output), {unknown, unknown});
  EXPECT_EQ(found.kind, ShardKind::split);
  EXPECT_THAT(found.merged.shape, Optional(Shape{4, 1, 16}));
}

TEST(Classify, LogitsOfTheLoss) {
  EntryPlace where = place("Module.0.module.GPTModel.forward.0", "output.0", ItemState::output, "Tensor.exp.0.forward");
  EXPECT_EQ(classify(where, unlike({4, 1, 8})).dimension, 2U);
  EXPECT_EQ(classify(where, {record(2, -1, 0.25, 3, {4, 1, 8}), record(2, -1, 0.25, 3, {4, 1, 8})}).kind, ShardKind::replicated);
}

TEST(Classify, GoldenShapeDecides) {
  EntryPlace where = place("", "output.0", ItemState::output, "Torch.cat.0.forward");
  where.golden_shape = Shape{4, 6};
  EXPECT_EQ(classify(where, unlike({4, 3})).dimension, 1U);
  where.golden_shape = Shape{8, 3};
  EXPECT_EQ(classify(where, unlike({4, 3})).dimension, 0U);
  where.golden_shape = Shape{4, 3};
  EXPECT_EQ(classify(where, unlike({4, 3})).kind, ShardKind::diverged);
  // Shards of different lengths.
  where.golden_shape = Shape{7, 3};
  const Classification found = classify(where, {record(2, -1, 0.25, 3, {4, 3}), record(2, -1, 0.5, 4, {3, 3})});
  EXPECT_EQ(found.dimension, 0U);
  EXPECT_THAT(found.pieces, ElementsAre(Piece{0, 0, 4}, Piece{1, 0, 3}));
  EXPECT_THAT(found.merged.stats[stat_mean], Optional(DoubleNear((12 * 0.25 + 9 * 0.5) / 21, 1e-15)));
}

TEST(Classify, GoldenShapeOverrulesAClassThatIsNotSplit) {
  // A ColumnParallelLinear that every rank has as a whole.
  EntryPlace where = place(column, "parameters.weight", ItemState::parameters);
  where.golden_shape = Shape{8, 16};
  const std::vector<ShardRecord> records(2, record(2, -1, 0.25, 3, {8, 16}));
  EXPECT_EQ(classify(where, records).kind, ShardKind::replicated);
}

TEST(Classify, VocabularyPadding) {
  EntryPlace where = place(embedding, "parameters.weight", ItemState::parameters);
  where.golden_shape = Shape{13, 4};
  const Classification found = classify(where, unlike({8, 4}));
  EXPECT_EQ(found.kind, ShardKind::split);
  EXPECT_EQ(found.dimension, 0U);
  EXPECT_EQ(found.padding, 3U);
}

TEST(Classify, UnknownPlaces) {
  const EntryPlace where = place("", "output.0", ItemState::output, "Torch.foo.0.forward");
  EXPECT_EQ(classify(where, unlike({4, 3})).kind, ShardKind::split);
  EXPECT_EQ(classify(where, unlike({4, 3})).dimension, std::nullopt);
  EXPECT_THAT(classify(where, unlike({4, 3})).merged.elements, Optional(24U));
  const std::vector<ShardRecord> noisy{record(2, -1, 0.25, 3, {4, 3}), record(2.001, -1, 0.2501, 3.0005, {4, 3})};
  const Classification found = classify(where, noisy);
  EXPECT_EQ(found.kind, ShardKind::diverged);
  EXPECT_NEAR(found.divergence, 0.001, 1e-12);
  EXPECT_EQ(found.diverged_rank, 1U);
  EXPECT_THAT(found.merged.stats[stat_norm], Optional(3.0));  // never multiplied by the root of the number of ranks
}

TEST(Classify, NanOfAnyRankShows) {
  std::vector<ShardRecord> shards = unlike({8, 16});
  shards[1].stats = {nan, nan, nan, nan};
  for (const auto& value : classify(place(column, "parameters.weight", ItemState::parameters), shards).merged.stats) {
    ASSERT_TRUE(value.has_value());
    EXPECT_TRUE(std::isnan(*value));
  }
  std::vector<ShardRecord> replicas(3, record(2, -1, 0.25, 3, {8}));
  replicas[2].stats = {nan, nan, nan, nan};
  const Classification found = classify(place(norm, "parameters.weight", ItemState::parameters), replicas);
  EXPECT_EQ(found.kind, ShardKind::diverged);
  EXPECT_EQ(found.diverged_rank, 2U);
  EXPECT_EQ(found.divergence, inf);
  EXPECT_TRUE(std::isnan(*found.merged.stats[stat_max]));
  EXPECT_THAT(found.merged.same_as[stat_max], Optional(2U));
}

TEST(Classify, PartialSumFromItsReduction) {
  const std::vector<ShardRecord> operands = unlike({4, 1, 8});
  Reduction reduction{operands, std::vector<ShardRecord>(2, record(3, -2, -0.25, 5, {4, 1, 8})), false};
  EntryPlace where = place(row, "output.0", ItemState::output, "Torch.matmul.3.forward");
  where.reduction = &reduction;
  const Classification found = classify(where, operands);
  EXPECT_EQ(found.kind, ShardKind::partial);
  EXPECT_TRUE(found.from_reduction && found.complete);
  EXPECT_THAT(found.merged.stats, ElementsAre(Optional(3.0), Optional(-2.0), Optional(-0.25), Optional(5.0)));
  EXPECT_THAT(found.merged.shape, Optional(Shape{4, 1, 8}));
  // An unknown place next to the reduction is a partial sum as well.
  where.module = "Module.0.module.GPTModel.forward.0";
  where.node = "Tensor.sum.0.forward";
  EXPECT_EQ(classify(where, operands).kind, ShardKind::partial);
}

TEST(Classify, ReduceScatterHasSlicesOfTheSum) {
  const std::vector<ShardRecord> operands = unlike({4, 1, 8});
  Reduction reduction{operands, {record(3, -1, 0.5, 3, {2, 1, 8}), record(2, -2, -1, 4, {2, 1, 8})}, true};
  EntryPlace where = place(row, "output.0", ItemState::output, "Torch.matmul.3.forward");
  where.reduction = &reduction;
  const Classification found = classify(where, operands);
  EXPECT_EQ(found.kind, ShardKind::partial);
  EXPECT_THAT(found.merged.stats, ElementsAre(Optional(3.0), Optional(-2.0), Optional(-0.25), Optional(5.0)));
  EXPECT_THAT(found.merged.shape, Optional(Shape{4, 1, 8}));
}

TEST(Classify, PartialSumWithoutReduction) {
  const Classification found = classify(place(row, "output.0", ItemState::output, "Torch.matmul.3.forward"), unlike({4, 1, 8}));
  EXPECT_EQ(found.kind, ShardKind::partial);
  EXPECT_FALSE(found.complete);
  EXPECT_THAT(found.merged.stats, ElementsAre(std::nullopt, std::nullopt, Optional(-0.25), std::nullopt));
}

TEST(Classify, AnotherOperandIsNoReductionOfThis) {
  std::vector<ShardRecord> operands = unlike({4, 1, 8});
  Reduction reduction{operands, std::vector<ShardRecord>(2, record(3, -2, -0.25, 5, {4, 1, 8})), false};
  operands[1].stats[stat_mean] = 0.125;
  EntryPlace where = place(row, "output.0", ItemState::output, "Torch.matmul.3.forward");
  where.reduction = &reduction;
  EXPECT_FALSE(classify(where, operands).complete);
}

TEST(Classify, GateAndUp) {
  EntryPlace where = place(column, "parameters.weight", ItemState::parameters);
  where.gated = true;
  EXPECT_THAT(classify(where, unlike({8, 16})).pieces, ElementsAre(Piece{0, 0, 4}, Piece{1, 0, 4}, Piece{0, 4, 4}, Piece{1, 4, 4}));
  // The attention of the same layer is not gated.
  where.module = where.node = "Module.0.module.decoder.layers.0.self_attention.linear_qkv.ColumnParallelLinear.forward.0";
  EXPECT_THAT(classify(where, unlike({8, 16})).pieces, ElementsAre(Piece{0, 0, 8}, Piece{1, 0, 8}));
  EXPECT_TRUE(names_gated_activation("Functional.silu.0.forward"));
  EXPECT_TRUE(names_gated_activation("NPU.npu_swiglu.0.forward"));
  EXPECT_FALSE(names_gated_activation("Functional.gelu.0.forward"));
}

TEST(Classify, SeveralSamplesBetweenTheHeads) {
  EntryPlace where = place(attention, "output.0", ItemState::output, "Functional.softmax.0.forward");
  where.batch = 2;
  EXPECT_THAT(classify(where, unlike({4, 3, 3})).pieces, ElementsAre(Piece{0, 0, 2}, Piece{1, 0, 2}, Piece{0, 2, 2}, Piece{1, 2, 2}));
}

TEST(Classify, FewGroupsOfKeysAndValues) {
  EntryPlace where = place(attention, "input.1", ItemState::input);
  where.kv_groups = 2;
  const ShardRecord one = record(2, -1, 0.25, 3, {4, 1, 1, 2});
  const ShardRecord other = record(3, -1, 0.75, 4, {4, 1, 1, 2});
  const Classification found = classify(where, {one, one, other, other});
  EXPECT_EQ(found.kind, ShardKind::split);
  EXPECT_THAT(found.merged.shape, Optional(Shape{4, 1, 2, 2}));
  EXPECT_THAT(found.merged.stats, ElementsAre(Optional(3.0), Optional(-1.0), Optional(0.5), Optional(5.0)));
  EXPECT_THAT(found.pieces, ElementsAre(Piece{0, 0, 1}, Piece{2, 0, 1}));
  EXPECT_THAT(found.merged.same_as[stat_max], Optional(2U));
  where.kv_groups = 0;  // by the values
  EXPECT_EQ(classify(where, {one, one, other, other}).pieces, found.pieces);
  EXPECT_EQ(classify(where, {one, other, one, other}).pieces.size(), 4U);
  EXPECT_EQ(classify(where, {one, other}).pieces.size(), 2U);
  where.argument = "input.0";  // queries
  EXPECT_THAT(classify(where, {one, one, other, other}).merged.shape, Optional(Shape{4, 1, 4, 2}));
}

TEST(Classify, ContextParallelSequence) {
  EntryPlace where = place(norm, "output.0", ItemState::output);
  where.axis = ParallelAxis::context;
  const Classification found = classify(where, unlike({4, 1, 8}));
  EXPECT_EQ(found.kind, ShardKind::split);
  EXPECT_THAT(found.pieces, ElementsAre(Piece{0, 0, 2}, Piece{1, 0, 2}, Piece{1, 2, 2}, Piece{0, 2, 2}));
  where = place(norm_gradient, "weight", ItemState::parameters_grad);
  where.axis = ParallelAxis::context;
  EXPECT_EQ(classify(where, unlike({8})).kind, ShardKind::partial);
}

TEST(Classify, ExpertParallelHolders) {
  EntryPlace where =
      place("Module.0.module.decoder.layers.0.mlp.experts.GroupedMLP.forward.0", "parameters.weight1", ItemState::parameters);
  where.axis = ParallelAxis::expert;
  EXPECT_EQ(classify(where, unlike({8, 16})).dimension, 1U);
  where.argument = "parameters.weight2";
  EXPECT_EQ(classify(where, unlike({16, 8})).dimension, 0U);
  where.argument = "input.0";
  where.state = ItemState::input;
  const Classification tokens = classify(where, {record(2, -1, 0.25, 3, {3, 8}), record(1, -2, 0.5, 4, {5, 8})});
  EXPECT_EQ(tokens.kind, ShardKind::split);
  EXPECT_THAT(tokens.merged.shape, Optional(Shape{8, 8}));
  EXPECT_THAT(tokens.merged.stats[stat_mean], Optional(DoubleNear((3 * 0.25 + 5 * 0.5) / 8, 1e-15)));
}

TEST(Classify, RequiresGrad) {
  std::vector<ShardRecord> records = unlike({8, 16});
  records[1].requires_grad = false;
  EXPECT_TRUE(classify(place(column, "parameters.weight", ItemState::parameters), records).requires_grad_differs);
}

TEST(Classify, OneRankIsTheWhole) {
  const Classification found = classify(place(column, "parameters.weight", ItemState::parameters), {record(2, -1, 0.25, 3, {8, 16})});
  EXPECT_EQ(found.kind, ShardKind::replicated);
  EXPECT_THROW(classify(place(column, "parameters.weight", ItemState::parameters), {}), std::exception);
}

TEST(Combine, EqualsStatisticsOfTheWhole) {
  const std::vector<double> first{1, -2, 3.5, 0.25, 7, -1};
  const std::vector<double> second{-4, 2, 0.5};
  std::vector<double> all = first;
  all.insert(all.end(), second.begin(), second.end());
  const ShardRecord whole = record_of(all, {3, 3});
  const MergedRecord merged = combine_split({record_of(first, {2, 3}), record_of(second, {1, 3})}, 0);
  for (std::size_t s = 0; s < 4; ++s) {
    EXPECT_THAT(merged.stats[s], Optional(DoubleNear(*whole.stats[s], 1e-12)));
  }
  EXPECT_THAT(merged.shape, Optional(Shape{3, 3}));
  EXPECT_THAT(merged.elements, Optional(9U));
}

TEST(Combine, NormDoesNotOverflow) {
  EXPECT_THAT(combine_split({record(1e300, 0, 0, 3e300, {4}), record(1e300, 0, 0, 4e300, {4})}, 0).stats[stat_norm],
              Optional(testing::DoubleEq(5e300)));
  EXPECT_THAT(combine_split({record(inf, 0, inf, inf, {4}), record(1, 0, 0, 4, {4})}, 0).stats[stat_norm], Optional(inf));
  EXPECT_THAT(combine_split({record(0, 0, 0, 0, {4}), record(0, 0, 0, 0, {4})}, 0).stats[stat_norm], Optional(0.0));
}

TEST(Combine, EmptyShardsDoNotCount) {
  ShardRecord empty;
  empty.shape = Shape{0, 3};
  const MergedRecord merged = combine_split({empty, record(2, -1, 0.25, 3, {2, 3})}, 0);
  EXPECT_THAT(merged.stats, ElementsAre(Optional(2.0), Optional(-1.0), Optional(0.25), Optional(3.0)));
  EXPECT_THAT(merged.shape, Optional(Shape{2, 3}));
}

TEST(Combine, AMissingStatisticStaysUnknown) {
  ShardRecord without = record(2, -1, 0.25, 3, {2, 3});
  without.stats[stat_norm].reset();
  EXPECT_EQ(combine_split({without, record(2, -1, 0.25, 3, {2, 3})}, 0).stats[stat_norm], std::nullopt);
  EXPECT_THAT(combine_split({without, record(2, -1, 0.25, 3, {2, 3})}, 0).stats[stat_max], Optional(2.0));
}

TEST(Combine, HugeShapesDoNotOverflow) {
  const std::uint64_t huge = std::uint64_t{1} << 63U;
  const MergedRecord merged = combine_split({record(2, -1, 0.25, 3, {huge, 4}), record(2, -1, 0.75, 3, {huge, 4})}, 0);
  EXPECT_EQ(merged.shape, std::nullopt);
  EXPECT_EQ(merged.elements, std::nullopt);
  EXPECT_THAT(merged.stats[stat_mean], Optional(0.5));
}

}  // namespace
}  // namespace msvis
