// Ten thousand damaged dumps: whatever is in the files, an item ends, with rows or with one error that names the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <random>
#include <sstream>

#include "run/run_item.h"
#include "support/dump_files.h"

namespace msvis {
namespace {

using ::testing::HasSubstr;

std::string read_text(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    const std::size_t times = 1 + below(3);
    for (std::size_t k = 0; k < times && !text.empty(); ++k) {
      mutate_once(text);
    }
    return text;
  }

  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

 private:
  void mutate_once(std::string& text) {
    static const std::array<std::string, 16> tokens{
        "null", "[]",          "{}", "NaN", "-Infinity", "1e999",  "123456789012345678901234567890", "true",
        "\"\"", "\"\\ud800\"", "-0", "0.1", "\"None'\"", "[[[]]]", "{\"type\": \"torch.Tensor\"}",   std::string(3000, '['),
    };
    const std::size_t at = below(text.size());
    const std::size_t length = std::min(text.size() - at, 1 + below(60));
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      case 4:
        replace_value(text, at, tokens[below(tokens.size())]);
        break;
      case 5:
        replace_value(text, at, take_value(text, below(text.size())));
        break;
      default:
        text.insert(at, tokens[below(tokens.size())]);
        break;
    }
  }

  /// The text between the next colon and the comma or bracket behind it: most often one value.
  static std::pair<std::size_t, std::size_t> value_at(const std::string& text, std::size_t at) {
    const std::size_t colon = text.find(':', at);
    if (colon == std::string::npos) {
      return {at, 0};
    }
    const std::size_t end = text.find_first_of(",]}", colon);
    return {colon + 1, (end == std::string::npos ? text.size() : end) - colon - 1};
  }

  static std::string take_value(const std::string& text, std::size_t at) {
    const auto [begin, length] = value_at(text, at);
    return text.substr(begin, length);
  }

  static void replace_value(std::string& text, std::size_t at, const std::string& value) {
    const auto [begin, length] = value_at(text, at);
    text.replace(begin, length, value);
  }

  std::mt19937_64 random_;
};

constexpr std::array<const char*, 3> file_names{"dump.json", "stack.json", "construct.json"};

class MutatedDumps : public ::testing::TestWithParam<const char*> {};

TEST_P(MutatedDumps, EndWithRowsOrWithAnErrorThatNamesTheFile) {
  const std::filesystem::path from = std::filesystem::path(MSVIS_TESTDATA) / "golden" / GetParam();
  const test::TemporaryDirectory dir;
  std::filesystem::copy(from / "target", dir.path() / "target", std::filesystem::copy_options::recursive);
  std::filesystem::copy(from / "golden", dir.path() / "golden", std::filesystem::copy_options::recursive);
  RunContext context;
  context.options.golden = "golden";
  context.options.overflow_check = true;
  context.ignore_rules = IgnoreRules::read(std::filesystem::path(MSVIS_SOURCE_DIR) / "data" / "overflow_ignore_rules.json");
  context.link_ranks = true;
  context.mapping.emplace();
  WorkItem item;
  item.target = dir.path() / "target";
  item.golden = dir.path() / "golden";
  std::size_t done = 0;
  std::size_t failed = 0;
  constexpr std::size_t mutants = 2500;
  for (std::uint64_t seed = 0; seed < mutants; ++seed) {
    Mutator mutator(seed);
    const std::filesystem::path file =
        dir.path() / (seed % 4 == 3 ? "golden" : "target") / file_names[mutator.below(2) == 0 ? 0 : 1 + mutator.below(2)];
    const std::string original = read_text(file);
    std::ofstream(file, std::ios::binary) << mutator.mutate(original);
    context.options.fuzzy_match = seed % 5 == 4;
    context.options.layer_mapping = seed % 7 == 6;
    context.options.compat = seed % 2 == 0 ? Compat::standard : Compat::reference;
    context.options.links = seed % 3 == 0 ? LinkMode::extended : LinkMode::standard;
    bool rows = false;
    const ItemResult result = run_item(item, context, [&rows](RowBatch&& batch) {
      rows = true;
      (void)unpack_row_batch(pack(batch));
    });
    (void)unpack_item_result(pack(result));
    if (result.record.status == "done") {
      ++done;
      EXPECT_TRUE(rows) << "seed " << seed;
    } else {
      ++failed;
      EXPECT_FALSE(rows) << "seed " << seed;
      EXPECT_THAT(result.record.error, HasSubstr(".json")) << "seed " << seed;
      EXPECT_THAT(result.record.error, ::testing::Not(HasSubstr("unexpected"))) << "seed " << seed;
      EXPECT_EQ(result.record.error.find('\n'), std::string::npos) << "seed " << seed;
    }
    std::ofstream(file, std::ios::binary) << original;
  }
  // Both kinds of end must have been seen, or the mutations are no good.
  EXPECT_GT(done, mutants / 20);
  EXPECT_GT(failed, mutants / 20);
}

INSTANTIATE_TEST_SUITE_P(Golden, MutatedDumps,
                         ::testing::Values("statistics/mlp_identical", "random/stat_006", "md5/mlp_scale", "random/tensor_002"));

}  // namespace
}  // namespace msvis
