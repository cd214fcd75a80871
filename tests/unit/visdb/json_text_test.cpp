#include "visdb/json_text.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "msvis/dump.h"

namespace msvis {
namespace {

std::string as_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string repaired(std::string_view text) {
  std::string out;
  append_valid_utf8(out, text);
  return out;
}

std::string written(std::string_view json) {
  const JsonDocument document = JsonDocument::parse(json);
  std::string out;
  append_json_value(out, document.root());
  return out;
}

TEST(JsonText, PlainTextStaysAsItIs) {
  EXPECT_EQ(as_json(""), "\"\"");
  EXPECT_EQ(as_json("Functional.linear.0.forward/~ !#[]^_`{|}"), "\"Functional.linear.0.forward/~ !#[]^_`{|}\"");
}

TEST(JsonText, SpecialCharactersHaveTheirShortEscapes) {
  EXPECT_EQ(as_json("a\"b\\c\nd\re\tf\fg\bh"), R"("a\"b\\c\nd\re\tf\fg\bh")");
  EXPECT_EQ(as_json(std::string_view("\0\x01\x1f\x7f", 4)), "\"\\u0000\\u0001\\u001f\\u007f\"");
}

TEST(JsonText, OtherCharactersAreEscapedAsUtf16) {
  EXPECT_EQ(as_json("\xC3\xA4"), "\"\\u00e4\"");
  EXPECT_EQ(as_json("\xE5\xB1\x82"), "\"\\u5c42\"");
  EXPECT_EQ(as_json("\xF0\x9F\x98\x80"), "\"\\ud83d\\ude00\"");
  EXPECT_EQ(as_json("\xF4\x8F\xBF\xBF"), "\"\\udbff\\udfff\"");
}

TEST(JsonText, EveryByteAtEveryPlaceOfAWord) {
  for (int code = 0; code < 0x80; ++code) {
    for (std::size_t place = 0; place < 20; ++place) {
      std::string text(20, 'x');
      text[place] = static_cast<char>(code);
      const nlohmann::json parsed = nlohmann::json::parse(as_json(text), nullptr, false);
      ASSERT_TRUE(parsed.is_string()) << code << " at " << place;
      ASSERT_EQ(parsed.get<std::string>(), text) << code << " at " << place;
      for (const char byte : as_json(text)) {
        ASSERT_TRUE(byte >= 0x20 && byte < 0x7F);
      }
    }
  }
}

TEST(JsonText, BytesThatAreNoUtf8BecomeReplacementCharacters) {
  const std::array<std::pair<std::string, std::string>, 9> cases{{
      {"a\x80z", "a\xEF\xBF\xBDz"},
      {"a\xFFz", "a\xEF\xBF\xBDz"},
      {"a\xC3", "a\xEF\xBF\xBD"},
      {"a\xE5\xB1z", "a\xEF\xBF\xBDz"},
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xF0\x9F\x98", "\xEF\xBF\xBD"},
      {"12345678\x80"
       "12345678",
       "12345678\xEF\xBF\xBD"
       "12345678"},
  }};
  for (const auto& [bad, good] : cases) {
    EXPECT_FALSE(is_valid_utf8(bad));
    EXPECT_EQ(repaired(bad), good);
    EXPECT_TRUE(is_valid_utf8(good));
    EXPECT_EQ(nlohmann::json::parse(as_json(bad)).get<std::string>(), good);
  }
  for (const char* good : {"", "abc", "\xC3\xA4", "12345678\xF0\x9F\x98\x80", "\xEE\x80\x80"}) {
    EXPECT_TRUE(is_valid_utf8(good));
    EXPECT_EQ(repaired(good), good);
  }
}

TEST(JsonText, RandomBytesGiveWhatTheyMean) {
  std::mt19937 random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same texts in every run
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 24, ' ');
    for (char& byte : text) {
      byte = static_cast<char>(random() % 4 == 0 ? random() : 0x60 + random() % 16);
    }
    const nlohmann::json parsed = nlohmann::json::parse(as_json(text), nullptr, false);
    ASSERT_TRUE(parsed.is_string());
    ASSERT_EQ(parsed.get<std::string>(), repaired(text));
    ASSERT_TRUE(is_valid_utf8(repaired(text)));
  }
}

TEST(JsonText, Arrays) {
  std::string out;
  append_json_array(out, std::vector<std::string>{});
  append_json_array(out, std::vector<std::string>{"a"});
  append_json_array(out, std::vector<std::string_view>{"a", "b\"", ""});
  EXPECT_EQ(out, R"([]["a"]["a", "b\"", ""])");
}

TEST(JsonText, ValuesHavePythonsLayout) {
  EXPECT_EQ(written(R"([1,2.50,-0,true,false,null,"x",[],{},{"a":[1],"b":{"c":"d"}}])"),
            R"([1, 2.5, 0, true, false, null, "x", [], {}, {"a": [1], "b": {"c": "d"}}])");
  EXPECT_EQ(written("[1e400, -1e400, NaN, Infinity, -Infinity]"), R"(["Infinity", "-Infinity", "NaN", "Infinity", "-Infinity"])");
  EXPECT_EQ(written("[123456789012345678901234567890, 1e-05, 1E16]"), "[123456789012345678901234567890, 1e-05, 1e+16]");
  EXPECT_EQ(written(R"({"a":1,"b":2,"a":3})"), R"({"a": 3, "b": 2})");
  std::string absent;
  append_json_value(absent, JsonValue());
  EXPECT_EQ(absent, "null");
}

TEST(JsonText, DeepValuesDoNotOverflowTheStack) {
  std::string deep(900, '[');
  deep += std::string(900, ']');
  EXPECT_EQ(written(deep), deep);
}

}  // namespace
}  // namespace msvis
