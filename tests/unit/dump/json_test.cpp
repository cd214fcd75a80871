#include "msvis/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "dump/python_text.h"
#include "msvis/dump.h"
#include "msvis/error.h"

namespace msvis {
namespace {

using testing::HasSubstr;

std::string repr(JsonValue value) {
  std::string text;
  append_repr(text, value);
  return text;
}

std::string round_trip(std::string_view text) {
  return repr(JsonDocument::parse(text).root());
}

std::string round_trip_with(std::string_view text, std::uint64_t piece) {
  return repr(JsonDocument::parse(text, "(memory)", {.max_piece_bytes = piece}).root());
}

struct Failure {
  ErrorCategory category = ErrorCategory::internal;
  std::string message;
  std::optional<std::uint64_t> offset;
};

Failure failure_of(std::string_view text, JsonDocument::Limits limits = {}) {
  try {
    JsonDocument::parse(text, "a/dump.json", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.file(), "a/dump.json");
    return {error.category(), error.what(), error.offset()};
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

TEST(Json, KindsAndTexts) {
  const JsonDocument document = JsonDocument::parse(
      R"({"n":null,"t":true,"f":false,"i":-12,"r":1.50,"e":1E5,"s":"x","a":[1, [], {}],"o":{"k":"v"}, "big":123456789012345678901234567890})");
  const JsonValue root = document.root();
  ASSERT_TRUE(root.is_object());
  EXPECT_EQ(root.size(), 10U);
  EXPECT_TRUE(root.find("n").is_null());
  EXPECT_TRUE(root.find("t").boolean());
  EXPECT_TRUE(root.find("f").is(JsonKind::boolean));
  EXPECT_FALSE(root.find("f").boolean());
  EXPECT_EQ(root.find("i").kind(), JsonKind::integer);
  EXPECT_EQ(root.find("i").text(), "-12");
  EXPECT_EQ(root.find("r").kind(), JsonKind::real);
  EXPECT_EQ(root.find("r").text(), "1.50");
  EXPECT_EQ(root.find("e").number(), 1e5);
  EXPECT_EQ(root.find("s").text(), "x");
  EXPECT_EQ(root.find("a").size(), 3U);
  EXPECT_EQ(root.find("big").text(), "123456789012345678901234567890");
  EXPECT_FALSE(root.find("absent"));
  EXPECT_FALSE(root.find("a").find("k"));
  std::vector<std::string> keys;
  for (const auto [key, value] : root.members()) {
    keys.emplace_back(key);
  }
  EXPECT_THAT(keys, testing::ElementsAre("n", "t", "f", "i", "r", "e", "s", "a", "o", "big"));
  std::vector<JsonKind> kinds;
  for (const JsonValue element : root.find("a").elements()) {
    kinds.push_back(element.kind());
  }
  EXPECT_THAT(kinds, testing::ElementsAre(JsonKind::integer, JsonKind::array, JsonKind::object));
}

TEST(Json, PythonNumbers) {
  const JsonDocument document =
      JsonDocument::parse("[NaN, Infinity, -Infinity, -0, -0.0, 1e400, -1e400, 1e-400, 0.1e-99999999999999999999, 4.9e-324]");
  std::vector<double> numbers;
  for (const JsonValue element : document.root().elements()) {
    EXPECT_TRUE(element.is_number());
    numbers.push_back(element.number());
  }
  ASSERT_EQ(numbers.size(), 10U);
  EXPECT_TRUE(std::isnan(numbers[0]));
  EXPECT_EQ(numbers[1], INFINITY);
  EXPECT_EQ(numbers[2], -INFINITY);
  EXPECT_EQ(numbers[3], 0.0);
  EXPECT_TRUE(std::signbit(numbers[4]));
  EXPECT_EQ(numbers[5], INFINITY);
  EXPECT_EQ(numbers[6], -INFINITY);
  EXPECT_EQ(numbers[7], 0.0);
  EXPECT_EQ(numbers[8], 0.0);
  EXPECT_EQ(numbers[9], 4.9e-324);
}

TEST(Json, HugeIntegerIsInfinite) {
  const JsonDocument document = JsonDocument::parse("[" + std::string(400, '9') + ", 0.0000000000000000000001e330]");
  EXPECT_EQ((*document.root().elements().begin()).number(), INFINITY);
}

TEST(Json, Truth) {
  const JsonDocument document =
      JsonDocument::parse(R"([null, false, 0, -0, 0.0, -0.0, 0e5, "", [], {}, true, 1, 0.5, NaN, "0", [0], {"":0}, 1e-400])");
  std::string truth;
  for (const JsonValue element : document.root().elements()) {
    truth += element.truthy() ? '1' : '0';
  }
  EXPECT_EQ(truth, "000000000011111110");
  EXPECT_FALSE(JsonValue().truthy());
}

TEST(Json, Strings) {
  EXPECT_EQ(JsonDocument::parse(R"("a\"\\\/\b\f\n\r\t\u0041\u00e9\u20acz")").root().text(), "a\"\\/\b\f\n\r\tA\xC3\xA9\xE2\x82\xACz");
  EXPECT_EQ(JsonDocument::parse(R"("\ud83d\ude00")").root().text(), "\xF0\x9F\x98\x80");
  EXPECT_EQ(JsonDocument::parse(R"("\ud83d")").root().text(), "\xEF\xBF\xBD");
  EXPECT_EQ(JsonDocument::parse(R"("\ude00x")").root().text(), "\xEF\xBF\xBDx");
  EXPECT_EQ(JsonDocument::parse(R"("\ud83d\u0041")").root().text(),
            "\xEF\xBF\xBD"
            "A");
  EXPECT_EQ(JsonDocument::parse(R"("\ud83d\ud83d\ude00")").root().text(), "\xEF\xBF\xBD\xF0\x9F\x98\x80");
  EXPECT_EQ(JsonDocument::parse(R"("\u0000")").root().text(), std::string_view("\0", 1));
  EXPECT_EQ(JsonDocument::parse("  \"\"  ").root().text(), "");
  EXPECT_EQ(JsonDocument::parse("\"\xC3\xA9\"").root().text(), "\xC3\xA9");
  // A plain string between two with escapes.
  EXPECT_EQ(round_trip(R"(["\t","plain","\\","x","y\n"])"), R"(['\t', 'plain', '\\', 'x', 'y\n'])");
}

TEST(Json, RepeatedKeys) {
  EXPECT_EQ(round_trip(R"({"a":1,"b":2,"a":3})"), "{'a': 3, 'b': 2}");
  EXPECT_EQ(round_trip(R"({"a":[1,2,{"x":1}],"b":2,"a":{"z":[7]},"c":4,"a":[9,[8]]})"), "{'a': [9, [8]], 'b': 2, 'c': 4}");
  EXPECT_EQ(round_trip(R"({"a":{"b":1,"b":2},"c":{"d":3,"d":{"e":4,"e":5}},"a":{"b":6,"f":7,"b":8}})"),
            "{'a': {'b': 8, 'f': 7}, 'c': {'d': {'e': 5}}}");
  const JsonDocument document = JsonDocument::parse(R"([{"k":1,"k":[1,2]},{"k":3}])");
  const JsonValue first = *document.root().elements().begin();
  EXPECT_EQ(first.size(), 1U);
  EXPECT_EQ(first.find("k").size(), 2U);
  EXPECT_EQ(repr(document.root()), "[{'k': [1, 2]}, {'k': 3}]");
  // The escaped and the plain spelling are one key.
  EXPECT_EQ(round_trip(R"({"a":1,"\u0061":2})"), "{'a': 2}");
}

TEST(Json, RepeatedKeysInLargeObject) {
  std::string text = "{";
  std::string expected = "{";
  for (int k = 0; k < 1000; ++k) {
    text += (k == 0 ? "\"k" : ",\"k") + std::to_string(k) + "\":[" + std::to_string(k) + "]";
    expected += (k == 0 ? "'k" : ", 'k") + std::to_string(k) + (k == 500 ? "': {'new': 1}" : "': [" + std::to_string(k) + "]");
  }
  text += R"(,"k500":0,"k500":{"new":1}})";
  expected += "}";
  EXPECT_EQ(round_trip(text), expected);
  // Large objects inside of large ones, with repeated keys at every level.
  EXPECT_EQ(round_trip("{\"x\":" + text + "," + text.substr(1, text.size() - 2) + ",\"x\":{\"y\":" + text + "}}"),
            "{'x': {'y': " + expected + "}, " + expected.substr(1));
}

TEST(Json, Refused) {
  const auto expect = [](std::string_view text, std::string_view message, std::uint64_t offset) {
    const Failure failure = failure_of(text);
    EXPECT_EQ(failure.category, ErrorCategory::format) << text;
    EXPECT_THAT(failure.message, HasSubstr(std::string(message))) << text;
    EXPECT_THAT(failure.message, HasSubstr("a/dump.json"));
    EXPECT_EQ(failure.offset, offset) << text << "\n" << failure.message;
  };
  expect("", "is empty", 0);
  expect(" \n ", "blanks", 3);
  expect("\xEF\xBB\xBF{}", "byte-order mark", 0);
  expect("{} x", "behind the end", 3);
  expect("{}{}", "behind the end", 2);
  expect("1 2", "behind the end", 2);
  expect("\"a\"b", "behind the end", 3);
  expect("{\"a\":1", "cut short", 6);
  expect("{\"a\":", "cut short", 5);
  expect("[1,", "cut short", 3);
  expect("[\"abc", "cut short", 1);
  expect("[1,]", "no JSON value", 3);
  expect("[,1]", "no JSON value", 1);
  expect("[1 2]", "no ','", 3);
  expect("[1}", "none is open", 2);
  expect("]", "no JSON value", 0);
  expect("{\"a\" 1}", "no ':'", 5);
  expect("{\"a\":1,}", "no key", 7);
  expect("{1:2}", "no key", 1);
  expect("{\"a\":1 \"b\":2}", "no ',' or '}'", 7);
  expect("{'a':1}", "no key", 1);
  for (const std::string_view number :
       {"01", "-", "+1", "1.", ".5", "1e", "1e+", "0x1", "1_0", "--1", "-NaN", "1.5.2", "00", "1a", "-01"}) {
    const std::string text = "[" + std::string(number) + "]";
    EXPECT_EQ(failure_of(text).offset, 1U) << text;
  }
  for (const std::string_view word :
       {"nul", "nulll", "True", "None", "nan", "inf", "-Infinit", "Infinity1", "tru e", "NaN\"", "null\"x\""}) {
    const std::string text = "[" + std::string(word) + "]";
    EXPECT_EQ(failure_of(text).category, ErrorCategory::format) << text;
  }
  expect("[1\x01]", "malformed number", 1);
  expect("[\x01]", "byte 0x01", 1);
  expect(std::string_view("[1,\0]", 5), "byte 0x00", 3);
  expect("[\"a\tb\"]", "control character", 3);
  expect("[\"a\nb\"]", "control character", 3);
  expect("[\"\\x\"]", "unknown escape", 2);
  expect("[\"\\u12g4\"]", "incomplete", 2);
  expect("[\"\\ud800\\u1\"]", "incomplete", 8);
  expect("[\"ab\xFF\"]", "not UTF-8", 4);
  expect("[\"\xED\xA0\x80\"]", "not UTF-8", 2);
  expect("[\"\xC0\xAF\"]", "not UTF-8", 2);
  expect("[\"ok \xE2\x82\"]", "not UTF-8", 5);
  expect("\xFF\xFE{\0}\0", "not UTF-8", 0);
}

TEST(Json, Depth) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(round_trip(nested(1000)), nested(1000));
  const Failure failure = failure_of(nested(1001));
  EXPECT_EQ(failure.category, ErrorCategory::limit);
  EXPECT_EQ(failure.offset, 1000U);
  EXPECT_EQ(failure_of(nested(3), {.max_depth = 2}).category, ErrorCategory::limit);
  EXPECT_EQ(failure_of(std::string(1 << 20, '[')).category, ErrorCategory::limit);
  EXPECT_EQ(failure_of("{\"a\":[{}]}", {.max_depth = 2}).offset, 6U);
}

/// Every piece size must give the same values, or refuse the same text.
TEST(Json, PieceSizesDoNotMatter) {
  std::vector<std::string> texts = {
      R"({"task":"statistics","data":{"A.0":{"input_args":[{"type":"int","value":-12.5e-3}],"s":"a\\\"b,{}[]:\\"}},"x":[true,null,NaN,-Infinity]})",
      "{\n \"data\": {\n  \"a\\n\\u00e9\": [\n   1,\n   \"\xE2\x82\xAC \xF0\x9F\x98\x80\"\n  ],\n  \"b\": {}\n }\n}\n",
      "[\"" + std::string(500, '\\') + "\",\"" + std::string(301, 'x') + "\\\"\"," + std::string(200, '7') + "]",
      "[" + std::string(100, ' ') + "1" + std::string(100, '\n') + "]",
      R"({"a":1,"b":2,"a":3,"c":[{"a":1,"a":2}]})",
      "{\"a\":\"x\ny\"}",
      "[1,2",
      "[\"abc",
      "[\"abc\\",
      "{\"a\":tru e}",
      "[1\x01]",
      "[1]]",
      "nullnull",
      "\"a\" \"b\"",
      R"({"k\u00e":1})",
  };
  for (const std::string& text : texts) {
    const auto outcome = [&text](std::uint64_t piece) {
      try {
        return round_trip_with(text, piece);
      } catch (const Error& error) {
        return std::string("refused");
      }
    };
    const std::string whole = outcome(std::uint64_t{1} << 30);
    for (std::uint64_t piece = 0; piece < 70; ++piece) {
      EXPECT_EQ(outcome(piece), whole) << text << "\npiece " << piece;
    }
  }
}

class JsonFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "msvis-json-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  [[nodiscard]] std::filesystem::path write(const std::string& name, std::string_view text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
    return directory_ / name;
  }
  static Failure failure_of_file(const std::filesystem::path& file) {
    try {
      JsonDocument::read(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.file(), file);
      return {error.category(), error.what(), error.offset()};
    }
    ADD_FAILURE() << "accepted: " << file;
    return {};
  }
  std::filesystem::path directory_;
};

TEST_F(JsonFile, ReadsWhatParseReads) {
  // Larger than the chunks in which a file is read, with and without line breaks.
  for (const std::string separator : {",", ",\n "}) {
    std::string text = "[";
    for (int k = 0; k < 200000; ++k) {
      text += (k == 0 ? "" : separator) + "{\"n\\u0061me\":\"v" + std::to_string(k) + "\"}";
    }
    text += "]";
    const std::filesystem::path file = write("x.json", text);
    const JsonDocument read = JsonDocument::read(file);
    EXPECT_EQ(read.text(), text);
    EXPECT_EQ(read.root().size(), 200000U);
    EXPECT_TRUE(repr(read.root()) == repr(JsonDocument::parse(text).root()));
    for (const std::uint64_t piece : {std::uint64_t{1000}, std::uint64_t{100000}}) {
      EXPECT_TRUE(repr(JsonDocument::read(file, {.max_piece_bytes = piece}).root()) == repr(read.root()));
    }
    const std::filesystem::path cut = write("cut.json", text.substr(0, text.size() / 2));
    EXPECT_EQ(failure_of_file(cut).category, ErrorCategory::format);
  }
}

TEST_F(JsonFile, LongString) {
  const std::string text = "{\"a\":[\"" + std::string(3 << 20, 'x') + "\\n\",2]}";
  const JsonDocument document = JsonDocument::read(write("x.json", text));
  EXPECT_EQ((*document.root().find("a").elements().begin()).text().size(), (3U << 20) + 1);
}

TEST_F(JsonFile, MovedDocumentKeepsItsValues) {
  JsonDocument document = JsonDocument::parse("{\"a\":[1,\"\\n\"]}");
  const JsonValue value = document.root().find("a");
  const JsonDocument other = std::move(document);
  EXPECT_EQ(repr(value), "[1, '\\n']");
  EXPECT_TRUE(other.root().find("a").same_as(value));
}

TEST_F(JsonFile, NoReadableFile) {
  EXPECT_THAT(failure_of_file(directory_ / "absent.json").message, HasSubstr("does not exist"));
  EXPECT_EQ(failure_of_file(directory_ / "absent.json").category, ErrorCategory::path);
  EXPECT_THAT(failure_of_file(directory_).message, HasSubstr("is a directory"));
  const std::filesystem::path pipe = directory_ / "pipe.json";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(failure_of_file(pipe).message, HasSubstr("no regular file"));
  EXPECT_THAT(failure_of_file(write("empty.json", "")).message, HasSubstr("is empty"));
  EXPECT_EQ(failure_of_file(write("zeros.json", std::string(2 << 20, '\0'))).offset, 0U);
  std::filesystem::create_symlink("loop.json", directory_ / "loop.json");
  EXPECT_EQ(failure_of_file(directory_ / "loop.json").category, ErrorCategory::path);
  if (geteuid() != 0) {
    const std::filesystem::path secret = write("secret.json", "{}");
    std::filesystem::permissions(secret, std::filesystem::perms::none);
    EXPECT_THAT(failure_of_file(secret).message, HasSubstr("can't be opened"));
  }
}

TEST_F(JsonFile, HugeHole) {
  // A sparse file that claims a tebibyte must be refused at its first byte, not read.
  const std::filesystem::path file = write("hole.json", "");
  ASSERT_EQ(truncate(file.c_str(), off_t{1} << 40), 0);
  const Failure failure = failure_of_file(file);
  EXPECT_TRUE(failure.category == ErrorCategory::format || failure.category == ErrorCategory::limit);
}

TEST(JsonPool, Values) {
  JsonPool pool;
  const JsonValue text = pool.string("abc");
  const JsonValue null = pool.null();
  const std::vector<std::string> texts = {"x", "", "it's"};
  const JsonValue array = pool.string_array(texts);
  std::vector<std::string_view> kept;
  for (int k = 0; k < 1000; ++k) {
    kept.push_back(pool.keep(std::string(static_cast<std::size_t>(k * 40), static_cast<char>('a' + k % 26))));
  }
  const JsonPool moved = std::move(pool);
  EXPECT_EQ(text.text(), "abc");
  EXPECT_TRUE(null.is_null());
  EXPECT_EQ(repr(array), "['x', '', \"it's\"]");
  for (std::size_t k = 0; k < kept.size(); ++k) {
    EXPECT_EQ(kept[k], std::string(k * 40, static_cast<char>('a' + k % 26)));
  }
}

}  // namespace
}  // namespace msvis
