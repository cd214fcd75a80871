// Tensors that are made up from the files of several ranks, and their comparison.
#include "compare/tensor_source.h"

#include <numeric>
#include <random>

#include "compare/tensor_files.h"
#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

std::unique_ptr<TensorSource> open_parts(const TensorParts& plan) {
  TensorStores stores;
  return TensorSource::open(plan, {}, stores);
}

using testing::HasSubstr;
using Shape = std::vector<std::uint64_t>;

/// Directory of a rank with one tensor file `t.npy`.
class Ranks {
 public:
  /// The leaf for a new rank.
  TensorParts add(const Shape& shape, const std::vector<float>& values) {
    return add_bytes("<f4", "torch.float32", shape, bytes_of(values));
  }

  TensorParts add_bytes(std::string_view descr, std::string_view dtype, const Shape& shape, const std::string& bytes) {
    TensorParts part;
    part.directory = directory_.path() / ("rank" + std::to_string(count_++));
    std::filesystem::create_directories(part.directory / "dump_tensor_data");
    write_bytes(part.directory / "dump_tensor_data" / "t.npy", npy(descr, {shape.begin(), shape.end()}, false, bytes));
    part.data_name = "t.npy";
    part.dtype = dtype;
    return part;
  }

  TensorParts missing() {
    TensorParts part;
    part.directory = directory_.path() / ("rank" + std::to_string(count_++));
    part.data_name = "t.npy";
    return part;
  }

 private:
  TemporaryDirectory directory_;
  std::size_t count_ = 0;
};

std::uint64_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

/// The values of places [offset, offset + length) of dimension d.
std::vector<float> cut(const std::vector<float>& whole, const Shape& shape, std::size_t d, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t inner = elements_of(Shape(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, shape.end()));
  std::vector<float> values;
  for (std::uint64_t start = offset * inner; start < whole.size(); start += shape[d] * inner) {
    values.insert(values.end(), whole.begin() + static_cast<std::ptrdiff_t>(start),
                  whole.begin() + static_cast<std::ptrdiff_t>(start + length * inner));
  }
  return values;
}

std::vector<float> counted(std::uint64_t elements) {
  std::vector<float> values(elements);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

std::vector<float> walk(TensorSource& source, std::uint64_t step) {
  std::vector<float> all;
  for (std::uint64_t first = 0; first < source.element_count(); first += step) {
    const auto some = values_of<float>(source.read(first, std::min(step, source.element_count() - first)));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// Cuts the tensor into shards of the given sizes, each with its own order of the pieces.
TensorParts joined(Ranks& ranks, const std::vector<float>& whole, const Shape& shape, std::uint32_t d,
                   const std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>>& pieces) {
  TensorParts plan;
  plan.kind = TensorParts::Kind::joined;
  plan.dimension = d;
  std::vector<std::pair<std::uint64_t, TensorParts::Run>> runs;  // with their place in the whole
  for (const auto& of_rank : pieces) {
    std::uint64_t size = 0;
    for (const auto& [offset, length] : of_rank) {
      runs.push_back({offset, {static_cast<std::uint32_t>(plan.parts.size()), size, length}});
      size += length;
    }
    Shape own = shape;
    own[d] = size;
    // Rows of the shard: its pieces one after the other along d.
    std::vector<float> values;
    const std::uint64_t inner = elements_of(Shape(shape.begin() + d + 1, shape.end()));
    const std::uint64_t outer = whole.size() / (shape[d] * inner);
    for (std::uint64_t row = 0; row < outer; ++row) {
      for (const auto& [offset, length] : of_rank) {
        const auto from = whole.begin() + static_cast<std::ptrdiff_t>((row * shape[d] + offset) * inner);
        values.insert(values.end(), from, from + static_cast<std::ptrdiff_t>(length * inner));
      }
    }
    plan.parts.push_back(ranks.add(own, values));
  }
  std::sort(runs.begin(), runs.end(), [](const auto& left, const auto& right) { return left.first < right.first; });
  for (const auto& [place, run] : runs) {
    plan.runs.push_back(run);
  }
  return plan;
}

TEST(TensorSource, JoinedAlongEachDimension) {
  const Shape shape{6, 4, 8};
  const std::vector<float> whole = counted(elements_of(shape));
  for (std::uint32_t d = 0; d < 3; ++d) {
    Ranks ranks;
    // Unequal shards, and pieces in another order than that of the ranks.
    const std::uint64_t half = shape[d] / 2;
    const TensorParts plan = joined(ranks, whole, shape, d, {{{half, shape[d] - half}}, {{0, 1}, {1, half - 1}}});
    const auto source = open_parts(plan);
    EXPECT_EQ(source->shape(), shape);
    for (const std::uint64_t step : {1U, 5U, 8U, 33U, 192U}) {
      EXPECT_EQ(walk(*source, step), whole) << "dimension " << d << " step " << step;
    }
  }
}

TEST(TensorSource, LongRunsAndShortOnes) {
  for (const Shape& shape : {Shape{2, 40'000}, Shape{40'000, 2}, Shape{300, 300}, Shape{4, 5000, 6}}) {
    for (std::uint32_t d = 0; d < shape.size(); ++d) {
      Ranks ranks;
      const std::vector<float> whole = counted(elements_of(shape));
      const std::uint64_t half = shape[d] / 2;
      const std::uint64_t quarter = half / 2;
      // Zig-zag: the first rank has the ends, the second one the middle.
      std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> pieces{{{0, half}}, {{half, shape[d] - half}}};
      if (quarter > 0) {
        pieces = {{{0, quarter}, {half + quarter, shape[d] - half - quarter}}, {{quarter, half}}};
      }
      const auto source = open_parts(joined(ranks, whole, shape, d, pieces));
      for (const std::uint64_t step : {7'001U, 65'536U, 262'144U}) {
        EXPECT_EQ(walk(*source, step), whole);
      }
    }
  }
}

TEST(TensorSource, Nested) {
  const Shape shape{8, 6};
  const std::vector<float> whole = counted(48);
  Ranks ranks;
  // Sequence over two context-parallel ranks, each over three tensor-parallel ones.
  TensorParts outer;
  outer.kind = TensorParts::Kind::joined;
  outer.dimension = 0;
  outer.runs = {{0, 0, 4}, {1, 0, 4}};
  for (const std::uint64_t half : {0U, 4U}) {
    outer.parts.push_back(joined(ranks, cut(whole, shape, 0, half, 4), {4, 6}, 1, {{{0, 2}}, {{2, 2}}, {{4, 2}}}));
  }
  const auto source = open_parts(outer);
  EXPECT_EQ(walk(*source, 5), whole);
}

TEST(TensorSource, Sum) {
  Ranks ranks;
  TensorParts plan;
  plan.kind = TensorParts::Kind::summed;
  plan.parts = {ranks.add({3}, {1, 2, 3}), ranks.add({3}, {10, 20, 30}), ranks.add({3}, {0.5, 0.25, 0.125})};
  const auto source = open_parts(plan);
  EXPECT_EQ(walk(*source, 2), (std::vector<float>{11.5, 22.25, 33.125}));
  plan.parts.push_back(ranks.add_bytes("<i8", "torch.int64", {3}, bytes_of<std::int64_t>({1, 2, 3})));
  EXPECT_THROW(open_parts(plan), TensorError);
  plan.parts.back() = ranks.add({1, 3}, {1, 2, 3});
  EXPECT_THROW(open_parts(plan), TensorError);
}

TEST(TensorSource, PartsThatDoNotFit) {
  Ranks ranks;
  const auto message = [](const TensorParts& plan) -> std::string {
    try {
      open_parts(plan);
    } catch (const TensorError& error) {
      return error.message();
    }
    return "opened";
  };
  TensorParts plan;
  plan.kind = TensorParts::Kind::joined;
  EXPECT_THAT(message(plan), HasSubstr("no parts"));
  plan.parts = {ranks.add({2, 2}, {1, 2, 3, 4}), ranks.add({2, 3}, {1, 2, 3, 4, 5, 6})};
  EXPECT_THAT(message(plan), HasSubstr("[2, 2] and [2, 3]"));
  plan.dimension = 2;
  EXPECT_THAT(message(plan), HasSubstr("[2, 2]"));
  plan.dimension = 1;
  plan.runs = {{0, 0, 3}, {1, 0, 3}};
  EXPECT_THAT(message(plan), HasSubstr("other shapes"));
  plan.runs = {{2, 0, 1}};
  EXPECT_THAT(message(plan), HasSubstr("other shapes"));
  plan.runs = {{0, UINT64_MAX, 2}};
  EXPECT_THAT(message(plan), HasSubstr("other shapes"));
  plan.runs = {{0, 0, 2}, {1, 0, 3}};
  EXPECT_EQ(message(plan), "opened");
  plan.parts[1] = ranks.add_bytes("<i8", "torch.int64", {2, 3}, bytes_of<std::int64_t>({1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(message(plan), HasSubstr("float32 and int64"));
  plan.parts[1] = ranks.missing();
  EXPECT_NE(message(plan), "opened");
  plan.kind = TensorParts::Kind::none;
  plan.reason = "ids of a part of the vocabulary";
  EXPECT_EQ(message(plan), "ids of a part of the vocabulary");
}

std::shared_ptr<const TensorParts> shared(TensorParts parts) {
  return std::make_shared<const TensorParts>(std::move(parts));
}

TEST(MergedTensors, MetricsAreThoseOfTheWhole) {
  const Shape shape{300, 700};
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> ours(elements_of(shape));
  std::vector<float> theirs(ours.size());
  for (std::size_t k = 0; k < ours.size(); ++k) {
    ours[k] = normal(random);
    theirs[k] = ours[k] * (1 + 1e-3F * normal(random));
  }
  Ranks ranks;
  TensorPair whole;
  whole.target_parts = shared(ranks.add(shape, ours));
  whole.golden_parts = shared(ranks.add(shape, theirs));
  const TensorOutcome expected = compare_tensor_files(whole, {});
  ASSERT_EQ(expected.metrics.outcome, MetricOutcome::compared);
  TensorPair split;
  split.target_parts = shared(joined(ranks, ours, shape, 1, {{{0, 175}}, {{175, 175}}, {{350, 175}}, {{525, 175}}}));
  split.golden_parts = shared(joined(ranks, theirs, shape, 0, {{{0, 150}}, {{150, 150}}}));
  const TensorOutcome found = compare_tensor_files(split, {});
  EXPECT_EQ(found.metrics.cosine, expected.metrics.cosine);
  EXPECT_EQ(found.metrics.euclidean_distance, expected.metrics.euclidean_distance);
  EXPECT_EQ(found.metrics.max_abs_err, expected.metrics.max_abs_err);
  EXPECT_EQ(found.metrics.max_relative_err, expected.metrics.max_relative_err);
  EXPECT_EQ(found.metrics.one_thousandth_err_ratio, expected.metrics.one_thousandth_err_ratio);
  EXPECT_EQ(found.metrics.five_thousandths_err_ratio, expected.metrics.five_thousandths_err_ratio);
  EXPECT_EQ(found.metrics.worst, expected.metrics.worst);
  EXPECT_EQ(found.shape, shape);
}

TEST(MergedTensors, ReplicasVote) {
  Ranks ranks;
  TensorPair pair;
  pair.golden_parts = shared(ranks.add({4}, {1, 2, 3, 4}));
  TensorParts target = ranks.add({4}, {1, 2, 3, 4});
  target.replicas = {ranks.add({4}, {1, 2, 3, 4})};
  pair.target_parts = shared(target);
  EXPECT_EQ(compare_tensor_files(pair, {}).reason, "");
  target.replicas.push_back(ranks.add({4}, {1, 2.5, 3, 4.125}));
  target.replicas.push_back(ranks.add({2}, {1, 2}));
  target.replicas.push_back(ranks.missing());
  pair.target_parts = shared(target);
  const TensorOutcome found = compare_tensor_files(pair, {});
  EXPECT_EQ(found.metrics.max_abs_err.value, 0);  // of the first rank
  EXPECT_THAT(found.reason, HasSubstr("rank3 should hold the same"));
  EXPECT_THAT(found.reason, HasSubstr("2 of 4 elements, by up to 0.5"));
  EXPECT_THAT(found.reason, HasSubstr("rank4 was not compared"));
  EXPECT_THAT(found.reason, HasSubstr("rank5 was not compared"));
}

TEST(MergedTensors, AnotherReplicaStandsForOneThatIsMissing) {
  Ranks ranks;
  TensorPair pair;
  pair.golden_parts = shared(ranks.add({2}, {1, 2}));
  TensorParts target = ranks.missing();
  target.replicas = {ranks.add({2}, {1, 2}), ranks.add({2}, {1, 3})};
  pair.target_parts = shared(target);
  const TensorOutcome found = compare_tensor_files(pair, {});
  EXPECT_EQ(found.metrics.max_abs_err.value, 0);
  EXPECT_THAT(found.reason, HasSubstr("rank1 was not compared with the other ranks"));
  EXPECT_THAT(found.reason, HasSubstr("rank3 should hold the same"));
  target.replicas.clear();
  pair.target_parts = shared(target);
  EXPECT_EQ(compare_tensor_files(pair, {}).skipped, "missing file");
}

TEST(MergedTensors, TheWorstOfDivergedReplicasIsShown) {
  for (const Shape& shape : {Shape{4}, Shape{1}}) {
    Ranks ranks;
    const std::vector<float> values(elements_of(shape), 2);
    TensorPair pair;
    pair.golden_parts = shared(ranks.add(shape, values));
    TensorParts target = ranks.add(shape, values);
    target.replicas = {ranks.add(shape, std::vector<float>(values.size(), 2.25)), ranks.add(shape, std::vector<float>(values.size(), 1)),
                       ranks.add(shape, std::vector<float>(values.size(), 2.5))};
    target.diverged = true;
    pair.target_parts = shared(target);
    const TensorOutcome found = compare_tensor_files(pair, {});
    EXPECT_EQ(found.metrics.max_abs_err.value, 1);
    EXPECT_THAT(found.reason, HasSubstr("so do 2 other ranks"));
    // The way between processes.
    OpenTensorPair files(pair, {});
    if (!files.decided()) {
      ByteWriter out;
      put(out, *files.accumulate(0, 1));
      const std::string bytes = out.take();
      ByteReader in(bytes);
      const TensorOutcome again = finish_pair(files.facts(), get_pair_finding(in), Compat::standard);
      EXPECT_EQ(again.reason, found.reason);
      EXPECT_EQ(again.metrics.max_abs_err, found.metrics.max_abs_err);
    }
  }
}

TEST(MergedTensors, WhatCanNotBeRead) {
  Ranks ranks;
  TensorPair pair;
  pair.golden_parts = shared(ranks.add({2}, {1, 2}));
  TensorParts target;
  target.kind = TensorParts::Kind::joined;
  target.parts = {ranks.add({1}, {1}), ranks.missing()};
  target.runs = {{0, 0, 1}, {1, 0, 1}};
  pair.target_parts = shared(target);
  const TensorOutcome found = compare_tensor_files(pair, {});
  EXPECT_EQ(found.skipped, "missing file");
  EXPECT_EQ(found.metrics.outcome, MetricOutcome::unsupported);
}

}  // namespace
}  // namespace msvis::test
