// Walking a tensor with a small buffer, and reading with many threads.
#include <thread>

#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

std::string walk(TensorFile& file, std::uint64_t step) {
  std::string all;
  for (std::uint64_t first = 0; first < file.element_count(); first += step) {
    all += text_of(file.read(first, std::min(step, file.element_count() - first)));
  }
  return all;
}

TEST(Stream, BlocksAreTheTensor) {
  const TemporaryDirectory directory;
  const TorchSpec spec = float_view(200'000, {100, 1000}, {1000, 1}, 50'000);
  const std::string expected = spec.storage.substr(200'000, 400'000);
  for (const bool aligned : {true, false}) {
    for (const bool legacy : {true, false}) {
      ZipOptions options;
      options.alignment = aligned ? 64 : 1;
      const std::string bytes = legacy ? torch_legacy(spec) : torch_zip(spec, options);
      const auto path = write_bytes(directory.path() / "a.pt", bytes);
      for (const std::uint64_t step : {1'000U, 7'777U, 100'000U}) {
        TensorFile from_file = TensorFile::open(path);
        ASSERT_TRUE(from_file.can_stream());
        EXPECT_EQ(from_file.byte_count(), 400'000U);
        EXPECT_EQ(walk(from_file, step), expected);
        TensorFile from_memory = TensorFile::open(as_bytes(bytes), "memory");
        EXPECT_EQ(walk(from_memory, step), expected);
        EXPECT_EQ(text_of(std::move(from_file).load().contiguous()), expected);
      }
    }
  }
}

TEST(Stream, ByteOrderIsThatOfTheMachine) {
  const std::string file = npy(">i2", {3}, false, std::string("\0\1\0\2\0\3", 6));
  TensorFile opened = TensorFile::open(as_bytes(file), "memory");
  ASSERT_TRUE(opened.can_stream());
  EXPECT_THAT(values_of<std::int16_t>(opened.read(1, 2)), testing::ElementsAre(2, 3));
  EXPECT_THAT(values_of<std::int16_t>(opened.read(0, 1)), testing::ElementsAre(1));
}

TEST(Stream, WhatCanNotBeWalked) {
  const std::string transposed = torch_zip(float_view(6, {3, 2}, {1, 3}));
  EXPECT_FALSE(TensorFile::open(as_bytes(transposed), "memory").can_stream());
  ZipOptions options;
  options.deflate = true;
  const std::string deflated = torch_zip(float_view(6, {6}, {1}), options);
  TensorFile file = TensorFile::open(as_bytes(deflated), "memory");
  EXPECT_FALSE(file.can_stream());
  EXPECT_THROW((void)file.read(0, 1), Error);
  const std::string plain = torch_zip(float_view(6, {6}, {1}));
  TensorFile six = TensorFile::open(as_bytes(plain), "memory");
  EXPECT_THROW((void)six.read(0, 7), Error);
  EXPECT_THROW((void)six.read(7, 0), Error);
  EXPECT_THROW((void)six.read(1, UINT64_MAX), Error);
  EXPECT_TRUE(six.read(6, 0).empty());
}

TEST(Stream, ABufferOfTheBlockIsEnough) {
  const TemporaryDirectory directory;
  const auto path = write_bytes(directory.path() / "a.npy", npy("<f4", {1 << 22}, false, std::string(std::size_t{16} << 20, 'x')));
  BufferPool pool(0);
  ReadHints hints;
  hints.pool = &pool;
  hints.max_buffer_bytes = std::uint64_t{1} << 20;
  TensorFile file = TensorFile::open(path, hints);
  for (std::uint64_t first = 0; first < file.element_count(); first += 65'536) {
    (void)file.read(first, 65'536);
    ASSERT_LE(pool.bytes_in_use(), std::uint64_t{1} << 20);
  }
  expect_fault(TensorFault::too_large, "the limit is 1048576", [&] { (void)std::move(file).load(); });
}

TEST(Stream, ManyThreadsReadAtOnce) {
  const TemporaryDirectory directory;
  std::vector<std::filesystem::path> files;
  std::vector<std::string> expected;
  for (std::int64_t k = 0; k < 16; ++k) {
    const TorchSpec spec = float_view(100 << k % 12, {100 << k % 12}, {1});
    files.push_back(write_bytes(directory.path() / (std::to_string(k) + ".pt"), torch_zip(spec)));
    expected.push_back(spec.storage);
  }
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t k = 0; k < 200; ++k) {
        const std::size_t which = (k * 5 + t) % files.size();
        ASSERT_EQ(text_of(read_tensor(files[which]).contiguous()), expected[which]);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace msvis::test
