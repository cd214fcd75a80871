#include <gtest/gtest.h>

#include "compare/numbers.h"
#include "msvis/dump.h"

namespace msvis {
namespace {

struct Case {
  const char* target;
  const char* golden;
  const char* difference;
  const char* relative;  ///< full precision, before the display rounding
};

std::string text(const Cell& cell) {
  std::string out;
  cell.append_to(out);
  return out;
}

class StatisticsCell : public ::testing::TestWithParam<Case> {};

TEST_P(StatisticsCell, HasTheTextOfTheRules) {
  const JsonDocument target = JsonDocument::parse(GetParam().target);
  const JsonDocument golden = JsonDocument::parse(GetParam().golden);
  const StatisticsCells cells = compare_statistics(target.root(), golden.root());
  EXPECT_EQ(text(cells.difference), GetParam().difference);
  EXPECT_EQ(text(cells.relative), GetParam().relative);
}

INSTANTIATE_TEST_SUITE_P(
    Worked, StatisticsCell,
    ::testing::Values(Case{"2.0", "1.0", "1.0", "100.0%"}, Case{"1.2", "1.0", "0.19999999999999996", "19.999999999999996%"},
                      Case{"3.0", "7.0", "-4.0", "57.14285714285714%"}, Case{"-2.5", "2.0", "-4.5", "225.0%"},
                      Case{"1.0000001", "1.0", "1.0000000005838672e-07", "1.0000000005838672e-05%"},
                      Case{"1e25", "1.0", "1e+25", "1.0000000000000002e+27%"}, Case{"7", "8", "-1", "12.5%"}, Case{"3", "3", "0", "0.0%"},
                      Case{"0", "0", "0", "N/A"}, Case{"5", "3", "2", "66.66666666666666%"},
                      Case{"9007199254740993", "9007199254740992", "1", "1.1102230246251565e-14%"},
                      Case{"100000000000000000000", "3", "99999999999999999997", "3.333333333333333e+21%"},
                      Case{"0.0", "-0.0", "0.0", "N/A"}, Case{"1.0", "0", "1.0", "N/A"}, Case{"NaN", "1.0", "Nan", "Nan"},
                      Case{"NaN", "NaN", "Nan", "Nan"}, Case{"Infinity", "1.0", "inf\t", "inf%"}, Case{"-Infinity", "0.0", "-inf\t", "N/A"},
                      Case{"1.0", "Infinity", "-inf\t", "nan%"}, Case{"-Infinity", "-Infinity", "Nan", "Nan"},
                      Case{"0.1", "1e-320", "0.1", "inf%"}, Case{"\"1.0\"", "1.0", "N/A", "N/A"}, Case{"true", "1", "N/A", "N/A"},
                      Case{"null", "1", "N/A", "N/A"}, Case{"1", "null", "N/A", "N/A"}, Case{"[1]", "1", "N/A", "N/A"},
                      Case{"9223372036854775807", "-9223372036854775808", "18446744073709551615", "200.0%"},
                      Case{"-9223372036854775807", "1", "-9223372036854775808", "9.223372036854776e+20%"},
                      Case{"-0", "5", "-5", "100.0%"}));

TEST(StatisticsCell, OfAnIntegerBeyondDoubleAgainstAFloatIsInfinite) {
  const std::string huge = "1" + std::string(400, '0');
  const JsonDocument target = JsonDocument::parse(huge);
  const JsonDocument negative = JsonDocument::parse("-" + std::string(5001, '7'));
  const JsonDocument golden = JsonDocument::parse("1.5");
  EXPECT_EQ(text(compare_statistics(target.root(), golden.root()).difference), "inf\t");
  EXPECT_EQ(text(compare_statistics(negative.root(), golden.root()).difference), "-inf\t");
}

TEST(StatisticsCell, OfHugeEqualIntegersIsZero) {
  const JsonDocument huge = JsonDocument::parse(std::string(100'000, '9'));
  const StatisticsCells cells = compare_statistics(huge.root(), huge.root());
  EXPECT_EQ(text(cells.difference), "0");
  EXPECT_EQ(text(cells.relative), "0.0%");
}

bool equal(const char* left, const char* right) {
  const JsonDocument ours = JsonDocument::parse(left);
  const JsonDocument theirs = JsonDocument::parse(right);
  return equal_values(ours.root(), theirs.root());
}

TEST(EqualValues, FollowsPython) {
  EXPECT_TRUE(equal("1", "1.0"));
  EXPECT_TRUE(equal("true", "1"));
  EXPECT_FALSE(equal("9007199254740993", "9007199254740992.0"));
  EXPECT_TRUE(equal("[2, 3]", "[2.0, 3]"));
  EXPECT_FALSE(equal("[]", "\"[]\""));
  EXPECT_TRUE(equal("null", "null"));
  EXPECT_FALSE(equal("null", "false"));
  EXPECT_TRUE(equal(R"({"a": 1, "b": [null]})", R"({"b": [null], "a": 1})"));
  EXPECT_FALSE(equal("NaN", "NaN"));
}

bool equal_stat(const char* left, const char* right) {
  const JsonDocument ours = JsonDocument::parse(left);
  const JsonDocument theirs = JsonDocument::parse(right);
  return equal_statistics(ours.root(), theirs.root());
}

TEST(EqualStatistics, TakesNotANumberAsEqualToItself) {
  EXPECT_TRUE(equal_stat("NaN", "NaN"));
  EXPECT_TRUE(equal_stat("Infinity", "Infinity"));
  EXPECT_FALSE(equal_stat("Infinity", "-Infinity"));
  EXPECT_FALSE(equal_stat("NaN", "1.0"));
  EXPECT_TRUE(equal_stat("true", "1"));
  EXPECT_FALSE(equal_stat("\"a\"", "\"b\""));
}

TEST(NotFinite, KnowsNumbersAndTexts) {
  const auto check = [](const char* text) {
    const JsonDocument document = JsonDocument::parse(text);
    return is_not_finite(document.root());
  };
  for (const char* bad : {"NaN", "Infinity", "-Infinity", "1e999", "\"nan\"", "\" Inf\\t\"", "\"-INF\""}) {
    EXPECT_TRUE(check(bad)) << bad;
  }
  const std::string huge(400, '9');
  for (const char* good : {"1.0", "1", "null", "true", "\"Infinity\"", "\"\"", "[]", huge.c_str()}) {
    EXPECT_FALSE(check(good)) << good;
  }
}

}  // namespace
}  // namespace msvis
