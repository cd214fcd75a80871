#include "dump/python_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "msvis/dump.h"

namespace msvis {
namespace {

std::string float_text(double value) {
  std::string text;
  append_float(text, value);
  return text;
}

std::string display(std::string_view json) {
  const JsonDocument document = JsonDocument::parse(json);
  std::string text;
  append_display(text, document.root());
  return text;
}

std::string str(std::string_view json) {
  const JsonDocument document = JsonDocument::parse(json);
  std::string text;
  append_str(text, document.root());
  return text;
}

std::string display_text(std::string_view value) {
  std::string text;
  append_display_text(text, value);
  return text;
}

TEST(PythonText, Floats) {
  const std::vector<std::pair<double, std::string>> cases = {
      {1.0, "1.0"},
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1e-05, "1e-05"},
      {0.0001, "0.0001"},
      {0.00012345, "0.00012345"},
      {1e16, "1e+16"},
      {1e15, "1000000000000000.0"},
      {9999999999999998.0, "9999999999999998.0"},
      {123456.789, "123456.789"},
      {9.223372036854775e18, "9.223372036854775e+18"},
      {1.5e300, "1.5e+300"},
      {-2.5e-10, "-2.5e-10"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {3.123456789012, "3.123456789012"},
      {0.1 + 0.2, "0.30000000000000004"},
      {2.4494898319244385, "2.4494898319244385"},
      {100.0, "100.0"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {std::nan(""), "nan"},
  };
  for (const auto& [value, expected] : cases) {
    EXPECT_EQ(float_text(value), expected);
  }
}

TEST(PythonText, Display) {
  EXPECT_EQ(display("null"), "null");
  EXPECT_EQ(display("true"), "True");
  EXPECT_EQ(display("false"), "False");
  EXPECT_EQ(display("6"), "6");
  EXPECT_EQ(display("6.0"), "6.0");
  EXPECT_EQ(display("-0"), "0");
  EXPECT_EQ(display("123456789012345678901234567890"), "123456789012345678901234567890");
  EXPECT_EQ(display("NaN"), "nan");
  EXPECT_EQ(display("-Infinity"), "-inf");
  EXPECT_EQ(display("3.123456789012"), "3.123456789012");
  EXPECT_EQ(display("1.50"), "1.5");
  EXPECT_EQ(display("[2, 3]"), "[2, 3]");
  EXPECT_EQ(display("[]"), "[]");
  EXPECT_EQ(display("{}"), "{}");
  EXPECT_EQ(display(R"({"a":null})"), "{'a': None}");
  EXPECT_EQ(display(R"([{"Shard":{"dim":0}}])"), "[{'Shard': {'dim': 0}}]");
  EXPECT_EQ(display("[[0,1],[true,1.0,NaN]]"), "[[0, 1], [True, 1.0, nan]]");
  EXPECT_EQ(display(R"(["it's", "say \"x\"", "it's \"x\""])"), R"(["it's", 'say "x"', 'it\'s "x"'])");
  EXPECT_EQ(display(R"(["None", "1.23456789"])"), "['None', '1.23456789']");
  EXPECT_EQ(display(R"(["a\\b\n\r\t\u0001\u007f\u00e9\u0085"])"), "['a\\\\b\\n\\r\\t\\x01\\x7f\xC3\xA9\\x85']");
}

TEST(PythonText, DisplayOfStrings) {
  EXPECT_EQ(display(R"("it's None")"), "its null");
  EXPECT_EQ(display_text("<class 'int'>"), "<class int>");
  EXPECT_EQ(display_text("cpu:None"), "cpu:null");
  EXPECT_EQ(display_text("NoneType None"), "nullType null");
  EXPECT_EQ(display_text("No'ne"), "null");
  EXPECT_EQ(display_text("NoNonene"), "Nonullne");
  EXPECT_EQ(display_text(""), "");
  EXPECT_EQ(display_text("'"), "");
}

TEST(PythonText, DecimalRounding) {
  EXPECT_EQ(display_text("0.123456789"), "0.123457");
  EXPECT_EQ(display_text("-0.123456789"), "-0.123456789");
  EXPECT_EQ(display_text("33.33333333333333%"), "33.333333%");
  EXPECT_EQ(display_text("20.0%"), "20.0%");
  EXPECT_EQ(display_text("0.123456"), "0.123456");
  EXPECT_EQ(display_text("0.1234565"), "0.123456");  // the double is just below the tie
  EXPECT_EQ(display_text("0.0000005"), "0.000000");
  EXPECT_EQ(display_text("1.0000000005838672e-05%"), "1.0000000005838672e-05%");
  EXPECT_EQ(display_text("12345678901234567890.12345678901234567890"), "12345678901234567168.000000");
  EXPECT_EQ(display_text("123456789012345678901.1234567"), "123456789012345678901.1234567");
  EXPECT_EQ(display_text("1.123456789012345678901"), "1.123456789012345678901");
  EXPECT_EQ(display_text("1.1234567%%"), "1.1234567%%");
  EXPECT_EQ(display_text("1.1234567 "), "1.1234567 ");
  EXPECT_EQ(display_text(".1234567"), ".1234567");
  EXPECT_EQ(display_text("1.2.34567890"), "1.2.34567890");
  EXPECT_EQ(display_text("0.999999999"), "1.000000");
  EXPECT_EQ(display_text("'0.123456789'"), "0.123457");
}

TEST(PythonText, Str) {
  EXPECT_EQ(str(R"("it's")"), "it's");
  EXPECT_EQ(str("null"), "None");
  EXPECT_EQ(str(R"(["x"])"), "['x']");
  std::string text;
  append_str(text, JsonValue());
  EXPECT_EQ(text, "");
}

TEST(PythonText, DeepNesting) {
  const std::string nested = std::string(200000, '[') + std::string(200000, ']');
  const JsonDocument document = JsonDocument::parse(nested, "(memory)", {.max_depth = 200000});
  std::string text;
  append_repr(text, document.root());
  EXPECT_TRUE(text == nested);
}

TEST(PythonText, Crc32) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"3", "6dd28e9b"}, {"1e-05", "effb4679"},  {"False", "ea0c4734"},           {"None", "dfa2aff1"},
      {"", "00000000"},  {"[2, 3]", "3f72ac6e"}, {"[None, 2, None]", "10a95f82"}, {"torch.float32", "d8ca9648"},
  };
  for (const auto& [text, crc] : cases) {
    EXPECT_EQ(crc32_hex(text), crc) << text;
  }
}

}  // namespace
}  // namespace msvis
