#include "merge/entries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace msvis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

bool differ(std::size_t statistic, double a, double b) {
  return statistics_differ(statistic, Number::of(a), Number::of(b));
}

TEST(Statistics, TableOfTheRules) {
  EXPECT_FALSE(differ(stat_mean, 1.0, 1.0000009));
  EXPECT_TRUE(differ(stat_max, 1.0, 1.0000009));
  EXPECT_FALSE(differ(stat_norm, 0, 9e-7));
  EXPECT_TRUE(differ(stat_norm, 0, 1e-6));
  EXPECT_TRUE(differ(stat_min, 0, 9e-7));
  EXPECT_FALSE(differ(stat_mean, nan, nan));
  EXPECT_TRUE(differ(stat_max, nan, nan));
  EXPECT_TRUE(differ(stat_mean, inf, inf));
  EXPECT_FALSE(differ(stat_max, inf, inf));
  EXPECT_FALSE(differ(stat_norm, inf, -inf));
  EXPECT_TRUE(differ(stat_max, inf, -inf));
  EXPECT_TRUE(differ(stat_mean, nan, 1));
  EXPECT_FALSE(statistics_differ(stat_max, {}, Number::of(1)));
  EXPECT_FALSE(statistics_differ(stat_mean, Number::of(1), {}));
  EXPECT_FALSE(differ(stat_mean, -1.0, -1.0000009));
}

TEST(Combination, WorkedExampleOfTheRules) {
  const auto combine = [](std::size_t statistic, double a, double b) {
    const std::vector<Number> values{Number::of(a), Number::of(b)};
    return combine_statistic(statistic, values).value();
  };
  EXPECT_EQ(combine(stat_max, 0.6393021941184998, 0.6418489813804626), 0.6418489813804626);
  EXPECT_EQ(combine(stat_min, -0.5672909021377563, -0.6287851333618164), -0.6287851333618164);
  EXPECT_EQ(combine(stat_mean, 0.02178402990102768, 0.01638203300535679), 0.019083031453192234);
  EXPECT_EQ(combine(stat_norm, 2.4734129905700684, 2.535151481628418), 3.5418589549449218);
  // A NaN of another rank than the first vanishes from the extremes, as in the reference.
  EXPECT_EQ(combine(stat_max, 1.0, nan), 1.0);
  EXPECT_TRUE(std::isnan(combine(stat_max, nan, 1.0)));
  EXPECT_TRUE(std::isnan(combine(stat_mean, 1.0, nan)));
  EXPECT_EQ(combine(stat_norm, 1e200, 1e200), inf);
}

TEST(Combination, IntegersStayIntegers) {
  const std::vector<Number> values{{Number::Kind::integer, 9007199254740993, 0}, {Number::Kind::integer, 9007199254740992, 0}};
  EXPECT_EQ(combine_statistic(stat_max, values).text(), "9007199254740993");
  EXPECT_EQ(combine_statistic(stat_min, values).text(), "9007199254740992");
  EXPECT_EQ(combine_statistic(stat_mean, std::vector<Number>{{Number::Kind::integer, 4, 0}, {Number::Kind::integer, 0, 0}}).text(), "2.0");
}

class Entries : public testing::Test {
 protected:
  TreeEntry entry(const char* key, double value, const char* dtype = "torch.float32") {
    TreeEntry entry;
    entry.key = texts.id(key);
    entry.dtype = texts.id(dtype);
    for (std::size_t statistic = 0; statistic < 4; ++statistic) {
      entry.set_stat(statistic, Number::of(value));
    }
    return entry;
  }

  std::vector<DifferentEntry> different(const std::vector<TreeEntry>& main, const std::vector<std::vector<TreeEntry>>& others,
                                        bool by_value) {
    std::vector<const std::vector<TreeEntry>*> lists;
    for (const auto& list : others) {
      lists.push_back(&list);
    }
    return different_entries(texts, main, lists, by_value);
  }

  TextStore texts;
};

TEST_F(Entries, ReportsWhatDiffersOfTheDtypesThatCount) {
  const std::vector<TreeEntry> main{entry("input.0", 1), entry("input.1", 2), entry("input.2", 3, "torch.bool")};
  const std::vector<TreeEntry> other{entry("input.2", 4, "torch.bool"), entry("input.1", 5), entry("input.0", 1)};
  const auto found = different(main, {other}, true);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].place, 1U);
  EXPECT_THAT(found[0].items, SizeIs(2));
  EXPECT_THAT(different(main, {other}, false), SizeIs(2));
  EXPECT_THAT(different(main, {}, false), IsEmpty());
}

TEST_F(Entries, AMissingPartnerEndsTheWalk) {
  const std::vector<TreeEntry> main{entry("input.0", 1)};
  EXPECT_THAT(different(main, {{}, {entry("input.0", 2)}}, true), IsEmpty());
  const auto found = different(main, {{entry("input.0", 2)}, {}, {entry("input.0", 3)}}, true);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].items, SizeIs(2));
}

TEST_F(Entries, LinesTellOperandsAndResult) {
  TreeEntry main = entry("output.0", 3);
  std::vector<std::string> lines;
  combine_entry(main, {main, entry("output.0", 4)}, "output.0", lines);
  EXPECT_THAT(lines, ElementsAre("Max of output.0: max(3.0, 4.0) = 4.0", "Min of output.0: min(3.0, 4.0) = 3.0",
                                 "Mean of output.0: (3.0 + 4.0) / 2 = 3.5", "Norm of output.0: (3.0^2 + 4.0^2)^0.5 = 5.0"));
  EXPECT_EQ(main.stat(stat_norm).value(), 5);
  lines.clear();
  combine_entry(main, {main}, "output.0", lines);
  EXPECT_THAT(lines, IsEmpty());
  EXPECT_THAT(merged_over_line(std::vector<std::int64_t>{0, 2}), HasSubstr("[0, 2]"));
}

}  // namespace
}  // namespace msvis
