// Ten thousand damaged files: each is read or refused, none does anything else. (Run under the sanitizers as well.)
#include <chrono>
#include <random>

#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

std::vector<std::string> seed_files() {
  std::vector<std::string> files;
  for (auto& [suffix, bytes] : seed_tensor_files()) {
    files.push_back(std::move(bytes));
  }
  return files;
}

std::string mutated(const std::vector<std::string>& seeds, std::mt19937_64& random) {
  const auto below = [&](std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random); };
  std::string file = seeds[below(seeds.size())];
  const std::size_t changes = 1 + below(4);
  for (std::size_t k = 0; k < changes && !file.empty(); ++k) {
    const std::size_t at = below(file.size());
    switch (below(7)) {
      case 0:  // one bit
        file[at] = static_cast<char>(file[at] ^ (1 << below(8)));
        break;
      case 1:  // one byte
        file[at] = static_cast<char>(below(256));
        break;
      case 2: {  // an extreme number
        const std::string number(std::size_t{1} << below(4), below(2) == 0 ? '\xff' : '\x7f');
        file.replace(at, std::min(number.size(), file.size() - at), number);
        break;
      }
      case 3:
        file.resize(at);
        break;
      case 4: {  // a piece of another file
        const std::string& other = seeds[below(seeds.size())];
        const std::size_t from = below(other.size());
        file.replace(at, below(64), other.substr(from, below(64)));
        break;
      }
      case 5:  // a piece twice
        file.insert(at, file.substr(below(file.size()), below(64)));
        break;
      default:
        file.erase(at, below(16));
        break;
    }
  }
  return file;
}

TEST(Mutation, TenThousandDamagedFiles) {
  const unsigned seed = 4711;
  std::mt19937_64 random(seed);
  const std::vector<std::string> seeds = seed_files();
  BufferPool pool;
  std::size_t read = 0;
  std::size_t refused = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 10'000; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    const std::string file = mutated(seeds, random);
    ReadHints hints;
    hints.pool = &pool;
    hints.dtype = "torch.bfloat16";
    hints.max_buffer_bytes = std::uint64_t{64} << 20;
    try {
      Loaded tensor(file, hints);
      const std::span<const std::byte> bytes = tensor.contiguous();
      ASSERT_EQ(bytes.size(), tensor.byte_count());
      ++read;
    } catch (const TensorError&) {
      ++refused;
    }
    ASSERT_EQ(pool.bytes_in_use(), 0U);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 120);
  EXPECT_GT(read, 500U);
  EXPECT_GT(refused, 5000U);
}

}  // namespace
}  // namespace msvis::test
