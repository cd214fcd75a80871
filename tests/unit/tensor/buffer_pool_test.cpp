#include <thread>

#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

TEST(BufferPool, BuffersAreAlignedAndLargeEnough) {
  BufferPool pool;
  for (const std::uint64_t bytes : {0U, 1U, 63U, 4096U, 4097U, 1'000'000U, 1'048'577U, 9'000'001U}) {
    const PooledBuffer buffer = pool.acquire(bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_GE(buffer.capacity(), bytes);
    EXPECT_LE(buffer.capacity(), std::max<std::uint64_t>(4096, 2 * bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % BufferPool::alignment, 0U);
    std::memset(buffer.data(), 1, buffer.capacity());
  }
}

TEST(BufferPool, ReturnedBuffersAreReused) {
  BufferPool pool;
  const std::byte* first = nullptr;
  {
    const PooledBuffer buffer = pool.acquire(100'000);
    first = buffer.data();
    EXPECT_GT(pool.bytes_in_use(), 0U);
  }
  EXPECT_EQ(pool.bytes_in_use(), 0U);
  EXPECT_GE(pool.idle_bytes(), 100'000U);
  const PooledBuffer again = pool.acquire(90'000);
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(pool.idle_bytes(), 0U);
}

TEST(BufferPool, ALargeBufferIsNotSpentOnASmallRequest) {
  BufferPool pool;
  (void)pool.acquire(64U << 20);
  const std::uint64_t idle = pool.idle_bytes();
  const PooledBuffer small = pool.acquire(100);
  EXPECT_EQ(pool.idle_bytes(), idle);
}

TEST(BufferPool, IdleBytesAndBuffersAreBounded) {
  BufferPool pool(10'000'000, 4);
  std::vector<PooledBuffer> buffers;
  for (int k = 0; k < 20; ++k) {
    buffers.push_back(pool.acquire(k < 10 ? 5000 : 3'000'000));
  }
  buffers.clear();
  EXPECT_LE(pool.idle_bytes(), 10'000'000U);
  EXPECT_GE(pool.idle_bytes(), 6'000'000U) << "the large ones are worth more";
  pool.trim();
  EXPECT_EQ(pool.idle_bytes(), 0U);
  (void)pool.acquire(20'000'000);
  EXPECT_EQ(pool.idle_bytes(), 0U) << "larger than all that may be kept";
  (void)pool.acquire(5000);
  (void)pool.acquire(20'000'000);
  EXPECT_GE(pool.idle_bytes(), 5000U) << "small ones do not go for it";
}

TEST(BufferPool, BuffersMayOutliveThePool) {
  PooledBuffer buffer;
  {
    BufferPool pool;
    buffer = pool.acquire(1000);
  }
  std::memset(buffer.data(), 1, buffer.size());
  buffer = PooledBuffer();
  EXPECT_FALSE(buffer);
}

TEST(BufferPool, ImpossibleSizesAreErrors) {
  BufferPool pool;
  expect_fault(TensorFault::too_large, "bytes", [&] { (void)pool.acquire(UINT64_MAX); });
  EXPECT_EQ(pool.bytes_in_use(), 0U);
}

TEST(BufferPool, ManyThreads) {
  BufferPool pool(1'000'000, 8);
  std::vector<std::thread> threads;
  for (unsigned char t = 1; t <= 8; ++t) {
    threads.emplace_back([&pool, t] {
      for (std::size_t k = 0; k < 2000; ++k) {
        const std::size_t size = 1 + (k * 7919 + t * 104729U) % 200'000;
        const PooledBuffer buffer = pool.acquire(size);
        buffer.data()[0] = std::byte{t};
        buffer.data()[size - 1] = std::byte{t};
        std::this_thread::yield();
        ASSERT_EQ(buffer.data()[0], std::byte{t});
        ASSERT_EQ(buffer.data()[size - 1], std::byte{t});
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(pool.bytes_in_use(), 0U);
  EXPECT_LE(pool.idle_bytes(), 1'000'000U);
}

}  // namespace
}  // namespace msvis::test
