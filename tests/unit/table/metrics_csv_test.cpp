#include "table/metrics_csv.h"

#include <gtest/gtest.h>

#include <string>

namespace msvis {
namespace {

std::string cell(std::string_view text) {
  std::string out;
  append_csv_text(out, text);
  return out;
}

TEST(CsvText, QuotesOnlyWhatNeedsThem) {
  EXPECT_EQ(cell(""), "");
  EXPECT_EQ(cell("torch.float32"), "torch.float32");
  EXPECT_EQ(cell("[2, 3]"), "\"[2, 3]\"");
  EXPECT_EQ(cell("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(cell("a\nb"), "\"a\nb\"");
  EXPECT_EQ(cell("a b;c\td"), "a b;c\td");
}

TEST(CsvText, NoCellIsAFormula) {
  EXPECT_EQ(cell("=1+1"), "'=1+1");
  EXPECT_EQ(cell("+1"), "'+1");
  EXPECT_EQ(cell("-1"), "'-1");
  EXPECT_EQ(cell("@A1"), "'@A1");
  EXPECT_EQ(cell("\t=1"), "'\t=1");
  EXPECT_EQ(cell("\r=1"), "\"'\r=1\"");
  EXPECT_EQ(cell("=A1,B1"), "\"'=A1,B1\"");
  EXPECT_EQ(cell("=\"a\""), "\"'=\"\"a\"\"\"");
}

TEST(CsvHeader, NamesAreUniqueAndPlain) {
  const std::string header = csv_header();
  EXPECT_TRUE(header.starts_with("step,rank,node_order,node,parameter,"));
  EXPECT_TRUE(header.ends_with(",reason\r\n"));
  for (const MetricsColumn& column : metrics_columns()) {
    EXPECT_EQ(column.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string_view::npos) << column.name;
    EXPECT_EQ(
        std::count_if(metrics_columns().begin(), metrics_columns().end(), [&](const auto& other) { return other.name == column.name; }), 1);
  }
}

}  // namespace
}  // namespace msvis
