#include "table/metrics_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "../compare/pair.h"
#include "msvis/error.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Rows with their texts.
struct TextRow {
  MetricsRow row;
  std::array<std::string, text_columns> texts;
};

std::vector<TextRow> rows_of(const std::string& bytes) {
  const MetricsBatch batch = unpack_metrics_batch(bytes);
  std::array<std::size_t, text_kinds> sizes{};
  for (std::size_t kind = 0; kind < text_kinds; ++kind) {
    sizes[kind] = batch.texts[kind].size();
  }
  MetricsRowReader reader(batch.packed_rows, sizes);
  std::vector<TextRow> rows;
  TextRow one;
  while (reader.next(one.row)) {
    for (std::size_t k = 0; k < text_columns; ++k) {
      one.texts[k] = batch.texts[static_cast<std::size_t>(kind_of_text[k])][one.row.texts[k]];
    }
    rows.push_back(one);
  }
  EXPECT_EQ(rows.size(), batch.header.rows);
  return rows;
}

std::vector<std::string> batches_of(const test::Pair& pair, std::size_t bytes = 1U << 20U) {
  std::vector<std::string> batches;
  make_metrics_batches({&pair.target, &pair.golden, &pair.comparison, 4, 2, Compat::standard, nullptr}, bytes,
                       [&](std::string&& batch) { batches.push_back(std::move(batch)); });
  return batches;
}

bool has_column(const std::string& batch, std::string_view name) {
  for (std::size_t k = 0; k < metrics_columns().size(); ++k) {
    if (metrics_columns()[k].name == name) {
      return (read_metrics_header(batch).columns >> k & 1U) != 0;
    }
  }
  ADD_FAILURE() << name;
  return false;
}

std::string with_input(const std::string& leaf) {
  return R"({"input_args": [)" + leaf + R"(], "output": []})";
}

TEST(MetricsBatch, StatisticsOfBothSides) {
  const auto pair = test::compare_entries("Torch.f.0.forward", with_input(test::tensor("3.0")), with_input(test::tensor("2.0")));
  const auto batches = batches_of(pair);
  ASSERT_EQ(batches.size(), 1U);
  const MetricsBatchHeader header = read_metrics_header(batches[0]);
  EXPECT_EQ(header.step, 4);
  EXPECT_EQ(header.rank, 2);
  EXPECT_EQ(header.rows, 1U);
  const auto rows = rows_of(batches[0]);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_THAT(rows[0].texts, ElementsAre("Torch.f.0.forward", "input.0", "Torch.f.0.forward", "input.0", "torch.float32", "torch.float32",
                                         "[2]", "[2]", "pass", ""));
  const auto& numbers = rows[0].row.numbers;
  EXPECT_EQ(numbers[number_target_statistics + 3], 3);
  EXPECT_EQ(numbers[number_golden_statistics + 3], 2);
  EXPECT_EQ(numbers[number_statistics_cells + 3], 1);
  EXPECT_EQ(numbers[number_statistics_cells + 7], 50);  // percent
  EXPECT_EQ(numbers[number_statistics_cells + 0], 0);
  EXPECT_EQ(numbers[number_precision_index], 0);
  EXPECT_TRUE(std::isnan(numbers[number_tensor_cells]));
  EXPECT_TRUE(has_column(batches[0], "norm_diff"));
  EXPECT_FALSE(has_column(batches[0], "cosine"));
  EXPECT_FALSE(has_column(batches[0], "target_md5"));
  EXPECT_FALSE(has_column(batches[0], "md5_equal"));
}

TEST(MetricsBatch, TextsThatAreNumbers) {
  const std::vector<std::pair<std::string, double>> known{{"NaN", std::numeric_limits<double>::quiet_NaN()},
                                                          {"Infinity", std::numeric_limits<double>::infinity()},
                                                          {"-Infinity", -std::numeric_limits<double>::infinity()},
                                                          {"\"inf\"", std::numeric_limits<double>::infinity()},
                                                          {"\"-inf\"", -std::numeric_limits<double>::infinity()},
                                                          {"\"nan\"", std::numeric_limits<double>::quiet_NaN()},
                                                          {"true", 1},
                                                          {"false", 0},
                                                          {"-0.0", -0.0},
                                                          {"123456789012345678901234567890", 123456789012345678901234567890.0},
                                                          {"1" + std::string(400, '0'), std::numeric_limits<double>::infinity()},
                                                          {"\"sum\"", std::numeric_limits<double>::quiet_NaN()},
                                                          {"\"\"", std::numeric_limits<double>::quiet_NaN()},
                                                          {"null", std::numeric_limits<double>::quiet_NaN()},
                                                          {"[1]", std::numeric_limits<double>::quiet_NaN()}};
  for (const auto& [text, value] : known) {
    const std::string leaf = test::tensor(text);
    const auto pair = test::compare_entries("Torch.f.0.forward", with_input(leaf), with_input(test::tensor("1")));
    const auto batches = batches_of(pair);
    const double found = rows_of(batches.at(0)).at(0).row.numbers[number_target_statistics + 3];
    EXPECT_TRUE(found == value || (std::isnan(found) && std::isnan(value))) << text << " is " << found;
    EXPECT_EQ(std::signbit(found) && !std::isnan(found), std::signbit(value) && !std::isnan(value)) << text;
  }
}

TEST(MetricsBatch, InfiniteDifferences) {
  const auto pair = test::compare_entries("Torch.f.0.forward", with_input(test::tensor("Infinity")), with_input(test::tensor("1.0")));
  const auto batches = batches_of(pair);
  const auto rows = rows_of(batches.at(0));
  EXPECT_EQ(rows.at(0).row.numbers[number_statistics_cells + 3], std::numeric_limits<double>::infinity());
}

TEST(MetricsBatch, ReasonAndMissingCounterpart) {
  const std::string two = R"({"input_args": [)" + test::tensor("3.0") + ", " + test::tensor("3.0") + R"(], "output": []})";
  const auto pair = test::compare_entries("Torch.f.0.forward", two, with_input(test::tensor("3.0")));
  const auto batches = batches_of(pair);
  const auto rows = rows_of(batches.at(0));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].texts[text_golden_node], "Torch.f.0.forward");
  EXPECT_EQ(rows[1].texts[text_golden_parameter], "");
  EXPECT_EQ(rows[1].texts[text_result], "error");
  EXPECT_THAT(rows[1].texts[text_reason], HasSubstr("; error: "));
  EXPECT_EQ(rows[1].row.numbers[number_precision_index], 1);
}

TEST(MetricsBatch, Checksums) {
  const auto leaf = [](const char* md5) { return with_input(test::tensor("3.0", std::string(R"(, "md5": ")") + md5 + "\"")); };
  const std::string overlong(100, 'f');
  for (const auto& [ours, theirs, equal] : std::vector<std::tuple<std::string, std::string, int>>{
           {"0a1b2c3d", "0a1b2c3d", 1}, {"0a1b2c3d", "ffffffff", 0}, {overlong + "0", overlong + "1", 0}}) {
    const auto pair = test::compare_entries("Torch.f.0.forward", leaf(ours.c_str()), leaf(theirs.c_str()), CompareMode::md5);
    const auto batches = batches_of(pair);
    const auto row = rows_of(batches.at(0)).at(0).row;
    EXPECT_EQ(row.md5_equal, equal);
    EXPECT_EQ(std::string(row.checksums[checksum_target].data(), std::min(ours.size(), checksum_bytes)), ours.substr(0, checksum_bytes));
    EXPECT_TRUE(has_column(batches.at(0), "golden_md5"));
  }
}

TEST(MetricsBatch, SmallBatchesHoldTheSameRows) {
  std::string entry = R"({"input_args": [)";
  for (int k = 0; k < 100; ++k) {
    entry += (k == 0 ? "" : ", ") + test::tensor(std::to_string(k) + ".5");
  }
  entry += R"(], "output": []})";
  const auto pair = test::compare_entries("Torch.f.0.forward", entry, entry);
  const auto batches = batches_of(pair, 2000);
  EXPECT_GT(batches.size(), 5U);
  std::uint32_t position = 0;
  for (const std::string& batch : batches) {
    EXPECT_LT(batch.size(), 4000U);
    for (const TextRow& row : rows_of(batch)) {
      EXPECT_EQ(row.row.position, position);
      EXPECT_EQ(row.texts[text_parameter], "input." + std::to_string(position));
      ++position;
    }
  }
  EXPECT_EQ(position, 100U);
}

TEST(MetricsBatch, DamageIsFound) {
  const auto pair = test::compare_entries("Torch.f.0.forward", with_input(test::tensor("3.0")), with_input(test::tensor("2.0")));
  const std::string good = batches_of(pair).at(0);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(static_cast<void>(unpack_metrics_batch(std::string_view(good).substr(0, size))), Error) << size;
  }
  EXPECT_THROW(static_cast<void>(unpack_metrics_batch(good + "x")), Error);
  const MetricsBatch batch = unpack_metrics_batch(good);
  MetricsRow row;
  std::array<std::size_t, text_kinds> none{};
  EXPECT_THROW(static_cast<void>(MetricsRowReader(batch.packed_rows, none).next(row)), Error) << "texts that are not there";
  none.fill(1000);
  for (std::size_t size = 1; size < batch.packed_rows.size(); ++size) {
    MetricsRowReader reader(batch.packed_rows.substr(0, size), none);
    EXPECT_THROW(static_cast<void>(reader.next(row)), Error) << size;
  }
}

}  // namespace
}  // namespace msvis
