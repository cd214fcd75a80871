// Any division of the work gives the same bits.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "msvis/error.h"
#include "unit/kernels/tensors.h"

namespace msvis::testing {
namespace {

std::string bytes_of(const TensorMetrics& m) {
  std::string bytes;
  const auto put = [&bytes](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const MetricCell& cell :
       {m.cosine, m.euclidean_distance, m.max_abs_err, m.max_relative_err, m.one_thousandth_err_ratio, m.five_thousandths_err_ratio}) {
    put(cell.state);
    put(cell.value);
  }
  for (const ValueCounts& counts : {m.target_values, m.golden_values}) {
    put(counts.nan);
    put(counts.positive_infinity);
    put(counts.negative_infinity);
    put(counts.zero);
  }
  put(m.outcome);
  put(m.bit_identical);
  put(m.non_finite_mismatches);
  put(m.target_norm);
  put(m.golden_norm);
  put(m.worst.has_value());
  if (m.worst.has_value()) {
    put(m.worst->index);
    put(m.worst->imaginary);
    put(m.worst->target);
    put(m.worst->golden);
  }
  return bytes;
}

struct TensorPair {
  Tensor target;
  Tensor golden;
};

/// Coarse values, so that the largest error occurs often: the first place must be reported whatever the division.
TensorPair random_pair(DType dtype, std::size_t count, std::mt19937_64& random) {
  TensorPair pair{Tensor(dtype, count), Tensor(dtype, count)};
  std::normal_distribution<double> normal;
  const bool coarse = random() % 2 == 0;
  for (std::size_t k = 0; k < count; ++k) {
    double b = normal(random);
    double n = b + normal(random) * 1e-2;
    if (coarse) {
      b = std::round(b * 4) / 4;
      n = std::round(n * 4) / 4;
    }
    pair.golden.set(k, b);
    pair.target.set(k, n);
  }
  return pair;
}

TEST(PartialMetrics, AnySplitGivesTheSameBits) {
  std::mt19937_64 random = generator(7);
  const std::vector<InstructionSet> sets = available_instruction_sets();
  for (const std::size_t blocks : std::vector<std::size_t>{1, 2, 3, 5, 7, 8, 11, 21}) {
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::complex64}) {
      if (blocks > 7 && dtype != DType::float32) {
        continue;
      }
      const std::size_t count = (blocks - 1) * metric_block_elements + 1 + random() % metric_block_elements;
      ASSERT_EQ(metric_blocks(count), blocks);
      const TensorPair pair = random_pair(dtype, count, random);
      const std::string expected = bytes_of(compare_tensors(pair.target.span(), pair.golden.span()));
      for (int repetition = 0; repetition < 4; ++repetition) {
        // Random borders; pieces computed on random instruction sets and combined in random order, some by way of bytes.
        std::vector<PartialMetrics> pieces;
        for (std::size_t begin = 0; begin < blocks;) {
          const std::size_t length = 1 + random() % (blocks - begin);
          MetricOptions options;
          options.instruction_set = sets[random() % sets.size()];
          const TensorSpan target = pair.target.span().slice(begin * metric_block_elements, length * metric_block_elements);
          const TensorSpan golden = pair.golden.span().slice(begin * metric_block_elements, length * metric_block_elements);
          pieces.push_back(accumulate_metrics(target, golden, options, begin));
          begin += length;
        }
        std::shuffle(pieces.begin(), pieces.end(), random);
        PartialMetrics whole;
        for (const PartialMetrics& piece : pieces) {
          if (random() % 2 == 0) {
            whole.combine(PartialMetrics::from_bytes(piece.to_bytes()));
          } else {
            PartialMetrics reversed = piece;
            reversed.combine(whole);
            whole = reversed;
          }
        }
        EXPECT_EQ(bytes_of(finish_metrics(whole, count, {})), expected) << blocks << " blocks of " << dtype_name(dtype);
        EXPECT_LE(whole.nodes().size(), 5U);
      }
    }
  }
}

TEST(PartialMetrics, NodesOfARangeAreFew) {
  const Tensor ones = [] {
    Tensor made(DType::uint8, 40 * metric_block_elements);
    std::memset(made.data(), 1, made.count());
    return made;
  }();
  EXPECT_EQ(accumulate_metrics(ones.span(), ones.span(), {}, 0).nodes().size(), 2U);   // 32 + 8
  EXPECT_LE(accumulate_metrics(ones.span(), ones.span(), {}, 13).nodes().size(), 8U);  // 13, 14-15, 16-31, 32-47, 48-51, 52
  const PartialMetrics all = accumulate_metrics(ones.span(), ones.span(), {}, 0);
  EXPECT_EQ(finish_metrics(all, ones.count(), {}).target_norm, std::sqrt(static_cast<double>(ones.count())));
}

TEST(PartialMetrics, MissingOrRepeatedBlocksAreFaults) {
  const Tensor ones = tensor(DType::float32, std::vector<double>(3 * metric_block_elements, 1.0));
  const auto piece = [&ones](std::size_t first, std::size_t blocks) {
    const TensorSpan span = ones.span().slice(first * metric_block_elements, blocks * metric_block_elements);
    return accumulate_metrics(span, span, {}, first);
  };
  PartialMetrics partial = piece(0, 1);
  EXPECT_THROW((void)finish_metrics(partial, ones.count(), {}), Error);
  partial.combine(piece(2, 1));
  EXPECT_THROW((void)finish_metrics(partial, ones.count(), {}), Error);
  EXPECT_THROW(partial.combine(piece(1, 2)), Error);
  partial.combine(piece(1, 1));
  EXPECT_EQ(finish_metrics(partial, ones.count(), {}).cosine.value, 1.0);
  EXPECT_THROW((void)finish_metrics(partial, 2 * metric_block_elements, {}), Error);
  EXPECT_THROW((void)finish_metrics(partial, ones.count() - 1, {}), Error);
  EXPECT_THROW((void)finish_metrics({}, ones.count(), {}), Error);
  EXPECT_THROW((void)accumulate_metrics(ones.span(), ones.span().slice(0, 5), {}, 0), Error);
  EXPECT_THROW((void)PartialMetrics::from_bytes("short"), Error);
  std::string bytes = piece(0, 1).to_bytes();
  bytes[8] = 77;  // level
  EXPECT_THROW((void)PartialMetrics::from_bytes(bytes), Error);
}

TEST(InstructionSets, AreKnownByName) {
  const std::vector<InstructionSet> sets = available_instruction_sets();
  ASSERT_FALSE(sets.empty());
  EXPECT_EQ(sets.front(), InstructionSet::scalar);
  EXPECT_EQ(instruction_set_name(InstructionSet::avx512), "avx512");
  const Tensor one = tensor(DType::float32, {1, 2});
  for (const InstructionSet set : {InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512, InstructionSet::neon}) {
    MetricOptions options;
    options.instruction_set = set;
    if (std::find(sets.begin(), sets.end(), set) == sets.end()) {
      EXPECT_THROW((void)compare_tensors(one.span(), one.span(), options), Error);
    } else {
      EXPECT_EQ(compare_tensors(one.span(), one.span(), options).cosine.value, 1.0);
    }
  }
}

}  // namespace
}  // namespace msvis::testing
