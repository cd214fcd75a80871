#include "table/text_dictionary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "msvis/error.h"
#include "support/temporary_directory.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> all_texts(const TextDictionary& dictionary, TextKind kind) {
  std::vector<std::string> texts;
  for (std::uint64_t number = 0; number < dictionary.size(kind); ++number) {
    texts.emplace_back(dictionary.text(kind, number));
  }
  return texts;
}

TEST(TextDictionaryTest, SortsByBytesAndBeginsWithNothing) {
  const test::TemporaryDirectory dir;
  TextDictionary dictionary(dir.path());
  for (const char* text : {"b", "ä", "a", "a", "B", "a.10", "a.2", ""}) {
    dictionary.add(TextKind::node, text);
  }
  dictionary.add(TextKind::dtype, "a");
  dictionary.finish();
  EXPECT_THAT(all_texts(dictionary, TextKind::node), ElementsAre("", "B", "a", "a.10", "a.2", "b", "ä"));
  EXPECT_THAT(all_texts(dictionary, TextKind::dtype), ElementsAre("", "a"));
  EXPECT_THAT(all_texts(dictionary, TextKind::reason), ElementsAre(""));
  EXPECT_EQ(dictionary.number(TextKind::node, ""), 0U);
  EXPECT_EQ(dictionary.number(TextKind::node, "ä"), 6U);
  EXPECT_EQ(dictionary.number(TextKind::node, "ä"), 6U);  // from memory
  EXPECT_EQ(dictionary.number(TextKind::dtype, "a"), 1U);
  EXPECT_THROW(static_cast<void>(dictionary.number(TextKind::dtype, "b")), Error);
}

TEST(TextDictionaryTest, LittleMemoryGivesTheSame) {
  const test::TemporaryDirectory dir;
  std::vector<std::pair<TextKind, std::string>> texts;
  std::mt19937 random(3);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  for (int k = 0; k < 20'000; ++k) {
    const auto value = random() % 7000;
    texts.emplace_back(static_cast<TextKind>(value % text_kinds), std::string(value % 50, 'x') + std::to_string(value));
  }
  texts.emplace_back(TextKind::shape, std::string(1'000'000, 'y'));  // larger than any buffer
  std::vector<std::vector<std::string>> found;
  for (const std::size_t memory : {std::size_t{20'000}, std::size_t{100'000}, TextDictionary::usual_memory}) {
    TextDictionary dictionary(dir.path(), memory);
    for (const auto& [kind, text] : texts) {
      dictionary.add(kind, text);
    }
    dictionary.finish();
    auto& all = found.emplace_back();
    for (std::size_t kind = 0; kind < text_kinds; ++kind) {
      const auto of_kind = all_texts(dictionary, static_cast<TextKind>(kind));
      EXPECT_TRUE(std::is_sorted(of_kind.begin(), of_kind.end()));
      EXPECT_EQ(std::adjacent_find(of_kind.begin(), of_kind.end()), of_kind.end());
      all.insert(all.end(), of_kind.begin(), of_kind.end());
    }
    for (const auto& [kind, text] : texts) {
      ASSERT_EQ(dictionary.text(kind, dictionary.number(kind, text)), text);
    }
    EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << "temporary files have no name";
  }
  EXPECT_EQ(found[0], found[2]);
  EXPECT_EQ(found[1], found[2]);
}

TEST(TextDictionaryTest, NoPlaceForTemporaryFiles) {
  TextDictionary dictionary("/proc/no such directory");
  dictionary.add(TextKind::node, "a");
  EXPECT_THROW(dictionary.finish(), Error);
}

}  // namespace
}  // namespace msvis
