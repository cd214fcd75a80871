#include "links/hash128.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace msvis {
namespace {

using Hash = std::array<std::uint64_t, 2>;

TEST(Hash128, PublishedValues) {
  EXPECT_EQ(hash128(""), (Hash{0, 0}));
  EXPECT_EQ(hash128("hello"), (Hash{0xcbd8a7b341bd9b02U, 0x5b1e906a48ae1d19U}));
  EXPECT_EQ(hash128("The quick brown fox jumps over the lazy dog"), (Hash{0xe34bbc7bbc071b6cU, 0x7a433ca9c49a9347U}));
}

TEST(Hash128, EveryLengthAndByteCounts) {
  std::set<Hash> seen;
  std::string text;
  for (int length = 0; length < 70; ++length) {
    EXPECT_TRUE(seen.insert(hash128(text)).second) << length;
    for (std::size_t place = 0; place < text.size(); ++place) {
      std::string changed = text;
      changed[place] = static_cast<char>(changed[place] ^ '\x80');
      EXPECT_TRUE(seen.insert(hash128(changed)).second) << length << ' ' << place;
    }
    text += '\0';
  }
}

}  // namespace
}  // namespace msvis
