#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "match/match.h"
#include "msvis/error.h"
#include "sides.h"

namespace msvis {
namespace {

using testing::HasSubstr;
using Fields = std::vector<std::string>;

/// Text of the error that a mapping gives; "" if it gives none.
std::string error_of(std::string_view text) {
  try {
    (void)LayerMapping::parse(text, "map.yaml");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::string keys_of(const LayerMapping& mapping, std::string_view class_name) {
  std::string keys;
  for (const auto& rule : mapping.rules_by_class.find(class_name)->second) {
    for (const auto& field : rule.from) {
      keys += field + ".";
    }
    keys += " ";
  }
  return keys;
}

TEST(LayerMappingFile, ReadsClassesFieldsAndLines) {
  const LayerMapping mapping = LayerMapping::parse(
      "TopLayer:                        # remark\n"
      "  network_with_loss: module\n"
      "\n"
      "LanguageModel:\n"
      "  embedding.word: word_embeddings.inner\n"
      "  attention: self_attention(SelfAttention)\n"
      "  \"layers.0\": 'blocks.0 (Block)'\n",
      "map.yaml");
  ASSERT_EQ(mapping.rules_by_class.size(), 2U);
  EXPECT_EQ(mapping.file, "map.yaml");
  const auto& top = mapping.rules_by_class.at("TopLayer");
  ASSERT_EQ(top.size(), 1U);
  EXPECT_EQ(top[0].from, Fields{"network_with_loss"});
  EXPECT_EQ(top[0].to, Fields{"module"});
  EXPECT_EQ(top[0].line, 2);
  const auto& model = mapping.rules_by_class.at("LanguageModel");
  ASSERT_EQ(model.size(), 3U);
  EXPECT_EQ(model[0].from, (Fields{"embedding", "word"}));
  EXPECT_EQ(model[0].to, (Fields{"word_embeddings", "inner"}));
  EXPECT_EQ(model[1].to, Fields{"self_attention"});
  EXPECT_EQ(model[1].line, 6);
  EXPECT_EQ(model[2].from, (Fields{"layers", "0"}));
  EXPECT_EQ(model[2].to, (Fields{"blocks", "0"}));
}

TEST(LayerMappingFile, OrdersByFirstFieldThenLongestFirst) {
  const LayerMapping mapping = LayerMapping::parse("A: {a: x, b: x, a.b.c: x, z.y: x, a.c: x, b.d: x, a.d: x}");
  EXPECT_EQ(keys_of(mapping, "A"), "a.b.c. a.c. a.d. a. b.d. b. z.y. ");
}

TEST(LayerMappingFile, SetKeepsThatOrder) {
  LayerMapping mapping = LayerMapping::parse("A: {a: x, b: x, a.b.c: x}");
  mapping.set("A", {{"a", "c"}, {"y"}, 0});
  mapping.set("A", {{"b", "c"}, {"y"}, 0});
  mapping.set("A", {{"a"}, {"new"}, 0});
  mapping.set("B", {{"q"}, {"y"}, 0});
  EXPECT_EQ(keys_of(mapping, "A"), "a.b.c. a.c. a. b.c. b. ");
  EXPECT_EQ(mapping.rules_by_class.at("A")[2].to, Fields{"new"});
  EXPECT_EQ(keys_of(mapping, "B"), "q. ");
}

TEST(LayerMappingFile, OldSpellingOfTopLayerWins) {
  for (const auto* text : {"Cell: {a: old}\nTopLayer: {a: new, b: new}\n", "TopLayer: {a: new, b: new}\nCell: {a: old}\n"}) {
    const LayerMapping mapping = LayerMapping::parse(text);
    ASSERT_EQ(mapping.rules_by_class.size(), 1U);
    ASSERT_EQ(mapping.rules_by_class.at("TopLayer").size(), 1U);
    EXPECT_EQ(mapping.rules_by_class.at("TopLayer")[0].to, Fields{"old"});
  }
}

TEST(LayerMappingFile, RepeatedKeysCountOnceWithTheLastValue) {
  const LayerMapping mapping = LayerMapping::parse("A:\n  a: one\n  b: two\n  a: three\n  b(B): four\nB: {x: y}\nB: {}\n");
  const auto& rules = mapping.rules_by_class.at("A");
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].to, Fields{"three"});
  EXPECT_EQ(rules[0].line, 4);
  EXPECT_EQ(rules[1].to, Fields{"four"});
  EXPECT_TRUE(mapping.rules_by_class.at("B").empty());
}

TEST(LayerMappingFile, EmptyMappingsAreGood) {
  EXPECT_TRUE(LayerMapping::parse("{}").rules_by_class.empty());
  EXPECT_TRUE(LayerMapping::parse("A: {}").rules_by_class.at("A").empty());
}

TEST(LayerMappingFile, AliasesThatEnd) {
  const LayerMapping mapping = LayerMapping::parse("A: &rules {a: &name x, b: *name}\nB: *rules\nC: {*name : z}\n");
  EXPECT_EQ(mapping.rules_by_class.at("B").size(), 2U);
  EXPECT_EQ(mapping.rules_by_class.at("B")[1].to, Fields{"x"});
  EXPECT_EQ(mapping.rules_by_class.at("C")[0].from, Fields{"x"});
}

TEST(LayerMappingFile, StringsAreThoseOfTheCoreSchema) {
  for (const auto* text : {"on", "yes", "0o9",        "1_000", "12:30", "0xg",      "1.2.3",  "e5",      "1e",  "+",       ".",
                           "-.", "nan", "2020-01-01", "truee", "'5'",   "\"true\"", "'null'", "!!str 5", "! 7", "layers.0"}) {
    EXPECT_EQ(error_of(std::string("A: {k: ") + text + "}"), "") << text;
    EXPECT_EQ(error_of(std::string("A: {") + text + " : v}"), "") << text;
  }
  for (const auto* text :
       {"5",    "-5",   "+5",   "0.1",   ".5",   "5.",   "1e5",  "1.5E-3", "0x1F", "0o17",    ".inf",     "-.Inf",    "+.INF",
        ".nan", ".NAN", "true", "False", "TRUE", "null", "Null", "~",      "",     "!!int 5", "!!bool x", "!local x", "!!null x"}) {
    EXPECT_THAT(error_of(std::string("A:\n  k: ") + text + "\n"), HasSubstr("map.yaml: line ")) << text;
    EXPECT_THAT(error_of(std::string("A: {? ") + text + " : v}"), HasSubstr("map.yaml: line 1")) << text;
  }
}

struct BadMapping {
  const char* text;
  int line;
  const char* reason;
};

class BadMappings : public testing::TestWithParam<BadMapping> {};

TEST_P(BadMappings, AreRefusedWithLineAndReason) {
  const BadMapping& bad = GetParam();
  const std::string message = error_of(bad.text);
  if (bad.line > 0) {
    EXPECT_THAT(message, HasSubstr("map.yaml: line " + std::to_string(bad.line) + ": ")) << bad.text;
  } else {
    EXPECT_THAT(message, testing::StartsWith("map.yaml: "));
  }
  EXPECT_THAT(message, HasSubstr(bad.reason)) << bad.text;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadMappings,
    testing::Values(BadMapping{"", 0, "empty"}, BadMapping{"# only a remark\n", 0, "empty"}, BadMapping{"---\n", 0, "found null"},
                    BadMapping{"- a\n- b\n", 1, "found a list"}, BadMapping{"\njust a text\n", 2, "found a text"},
                    BadMapping{"A:\n  x: y\nB: text\n", 3, "below class 'B'"}, BadMapping{"A:\nB: {a: b}\n", 1, "found null"},
                    BadMapping{"A:\n  - x\n", 2, "found a list"}, BadMapping{"A:\n  x: y\n  z:\n    deep: map\n", 4, "found a mapping"},
                    BadMapping{"A:\n  x: [y]\n", 2, "found a list"}, BadMapping{"A:\n  ? {a: b}\n  : y\n", 2, "found a mapping"},
                    BadMapping{"? [a]\n: {b: c}\n", 1, "found a list"}, BadMapping{"1: {a: b}\n", 1, "found a number ('1')"},
                    BadMapping{"A:\n  a: b\n  7: x\n", 3, "found a number ('7')"}, BadMapping{"A:\n  a: true\n", 2, "found a truth value"},
                    BadMapping{"A:\n  a: ~\n", 2, "null"}, BadMapping{"A:\n  \"\": x\n", 2, "empty text"},
                    BadMapping{"A:\n  a: ''\n", 2, "empty text"}, BadMapping{"A:\n  a: (B)\n", 2, "before the parenthesis"},
                    BadMapping{"'': {a: b}\n", 1, "class name is empty"}, BadMapping{"A:\n  a: 'b\n", 0, "no valid YAML"},
                    BadMapping{"A: {a: b\n", 0, "no valid YAML"}, BadMapping{"A:\n  a: b\n c: d\n", 3, "no valid YAML"},
                    BadMapping{"A: *none\n", 1, "no valid YAML"}, BadMapping{"A: &x {a: *x}\n", 1, "cycle"},
                    BadMapping{"&x\nA: {b: c}\nB: *x\n", 3, "cycle"}, BadMapping{"A: &x {a: b}\nB: {a: *x}\n", 2, "found a mapping"},
                    BadMapping{"A: &x {a: b}\n*x : {a: b}\n", 2, "found a mapping"}, BadMapping{"A: {a: &s t}\nB: *s\n", 2, "found a text"},
                    BadMapping{"A: {a: b}\n---\nB: {a: b}\n", 2, "second YAML document"}, BadMapping{"A: !!set {a: b}\n", 1, "tag"},
                    BadMapping{"A:\n  a: \xFF\n", 2, "not UTF-8"}, BadMapping{"A:\n  a: \xC0\x80\n", 2, "not UTF-8"},
                    BadMapping{"A:\n  a: \xED\xA0\x80\n", 2, "not UTF-8"}, BadMapping{"A: {a: b}\n\x04 [", 2, "control character"}));

TEST(LayerMappingFile, NamesMayBeAnyText) {
  const LayerMapping mapping = LayerMapping::parse("\xEF\xBB\xBFKlasse: {\xC3\xA4.\xE5\xB1\x82: \"\\u00e4 b\"}\r\n");
  EXPECT_EQ(mapping.rules_by_class.at("Klasse")[0].from, (Fields{"\xC3\xA4", "\xE5\xB1\x82"}));
  EXPECT_EQ(mapping.rules_by_class.at("Klasse")[0].to, Fields{"\xC3\xA4 b"});
}

TEST(LayerMappingFile, DeepAndWideTextsEndSoon) {
  const std::string many(1'000'000, '[');
  EXPECT_THAT(error_of(many), HasSubstr("found a list"));
  EXPECT_THAT(error_of("A: " + many), HasSubstr("found a list"));
  EXPECT_THAT(error_of("A: {a: " + std::string(1'000'000, '{')), HasSubstr("found a mapping"));
  std::string nested;
  for (int level = 0; level < 100'000; ++level) {
    nested += "- ";
  }
  EXPECT_THAT(error_of(nested), HasSubstr("found a list"));
}

TEST(LayerMappingFile, AliasesCannotMultiply) {
  std::string text = "A: &rules\n";
  for (int rule = 0; rule < 1000; ++rule) {
    text += "  k" + std::to_string(rule) + ": v\n";
  }
  for (int copy = 0; copy < 1000; ++copy) {
    text += "C" + std::to_string(copy) + ": *rules\n";
  }
  EXPECT_THAT(error_of(text), HasSubstr("more than 100000 rules"));
  std::string wide = "A: {a: &long " + std::string(4000, 'x') + "}\nB:\n";
  for (int copy = 0; copy < 10'000; ++copy) {
    wide += "  k" + std::to_string(copy) + ": *long\n";
  }
  EXPECT_THAT(error_of(wide), HasSubstr("bytes together"));
}

TEST(LayerMappingFile, LimitsOfOnePath) {
  EXPECT_THAT(error_of("A: {a: " + std::string(4097, 'x') + "}"), HasSubstr("4096 bytes"));
  EXPECT_EQ(error_of("A: {a: " + std::string(4096, 'x') + "}"), "");
  std::string fields = "f";
  for (int field = 1; field < 256; ++field) {
    fields += ".f";
  }
  EXPECT_EQ(error_of("A: {a: " + fields + "}"), "");
  EXPECT_THAT(error_of("A: {a: " + fields + ".f}"), HasSubstr("256 fields"));
  EXPECT_THAT(error_of("# " + std::string(LayerMapping::max_file_bytes, 'x')), HasSubstr("larger than"));
}

class MappingPath : public testing::Test {
 protected:
  static std::string error_of_file(const std::filesystem::path& file, ErrorCategory category) {
    try {
      (void)LayerMapping::read(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), category);
      EXPECT_EQ(error.file(), file);
      return error.what();
    }
    return {};
  }
  test::ScratchDirectory directory_;
};

TEST_F(MappingPath, GoodFile) {
  const LayerMapping mapping = LayerMapping::read(directory_.write("map.yaml", "A: {a: b}\n"));
  EXPECT_EQ(mapping.rules_by_class.size(), 1U);
  EXPECT_EQ(mapping.file, directory_.path() / "map.yaml");
}

TEST_F(MappingPath, MissingWrongKindWrongEnding) {
  EXPECT_THAT(error_of_file(directory_.path() / "none.yaml", ErrorCategory::path), HasSubstr("does not exist"));
  std::filesystem::create_directory(directory_.path() / "dir.yaml");
  EXPECT_THAT(error_of_file(directory_.path() / "dir.yaml", ErrorCategory::path), HasSubstr("no regular file"));
  EXPECT_THAT(error_of_file(directory_.write("map.yml", "A: {a: b}\n"), ErrorCategory::path), HasSubstr(".yaml"));
  const auto in_file = directory_.write("map.yaml", "A: {a: b}\n") / "below.yaml";
  EXPECT_NE(error_of_file(in_file, ErrorCategory::path), "");
}

TEST_F(MappingPath, Unreadable) {
  const auto file = directory_.write("map.yaml", "A: {a: b}\n");
  ASSERT_EQ(chmod(file.c_str(), 0), 0);
  if (access(file.c_str(), R_OK) == 0) {
    GTEST_SKIP() << "this user may read everything";
  }
  EXPECT_THAT(error_of_file(file, ErrorCategory::path), HasSubstr("can't be read"));
}

TEST_F(MappingPath, TooLarge) {
  const auto file = directory_.write("map.yaml", std::string(LayerMapping::max_file_bytes + 1, '#'));
  EXPECT_THAT(error_of_file(file, ErrorCategory::limit), HasSubstr("larger than"));
}

}  // namespace
}  // namespace msvis
