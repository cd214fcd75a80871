#include "mpi/transport.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "mpi_test_main.h"

namespace msvis {
namespace {

// A text that names sender and receiver in every place, so that a mix-up shows.
std::string text_for(int from, int to, std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t k = 0; k < size; ++k) {
    text[k] = static_cast<char>((static_cast<std::size_t>(from) * 31 + static_cast<std::size_t>(to) * 7 + k * 13 + k / 251) & 0xff);
  }
  return text;
}

std::size_t uneven_size(int from, int to) {
  return static_cast<std::size_t>((from * 5 + to * 3) % 4) * 977 + static_cast<std::size_t>(to);
}

TEST(Transport, ProcessesAndNodes) {
  auto& t = transport();
  ASSERT_GE(t.process(), 0);
  ASSERT_LT(t.process(), t.processes());
  EXPECT_EQ(t.node_of(0), 0);
  for (int p = 0; p < t.processes(); ++p) {
    EXPECT_GE(t.node_of(p), 0);
    EXPECT_LT(t.node_of(p), t.processes());
  }
  if (const char* launched = std::getenv("OMPI_COMM_WORLD_SIZE")) {
    EXPECT_EQ(t.processes(), std::atoi(launched));
  } else {
    EXPECT_EQ(t.processes(), 1);
  }
}

TEST(Transport, BroadcastReplacesTheBytesOfOthers) {
  auto& t = transport();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{3'000'001}}) {
    std::string bytes = t.process() == 0 ? text_for(0, 0, size) : "something else";
    t.broadcast(bytes, "testing");
    EXPECT_EQ(bytes, text_for(0, 0, size));
  }
}

TEST(Transport, MaximumAndSum) {
  auto& t = transport();
  EXPECT_EQ(t.maximum(t.process() * 10 - 5, "testing"), (t.processes() - 1) * 10 - 5);
  const auto sums = t.sum({1, static_cast<std::uint64_t>(t.process())}, "testing");
  const auto n = static_cast<std::uint64_t>(t.processes());
  EXPECT_EQ(sums, (std::vector<std::uint64_t>{n, n * (n - 1) / 2}));
}

TEST(Transport, GatherAllKeepsTheOrderOfProcesses) {
  auto& t = transport();
  const auto all = t.gather_all(text_for(t.process(), 0, static_cast<std::size_t>(t.process()) * 3), "testing");
  ASSERT_EQ(all.size(), static_cast<std::size_t>(t.processes()));
  for (int p = 0; p < t.processes(); ++p) {
    EXPECT_EQ(all[static_cast<std::size_t>(p)], text_for(p, 0, static_cast<std::size_t>(p) * 3));
  }
}

TEST(Transport, AllToAllWithUnevenSizesAndManyRounds) {
  auto& t = transport();
  for (const std::size_t round_bytes : {std::size_t{1}, std::size_t{64}, std::size_t{1000}, std::size_t{1} << 20}) {
    std::vector<std::string> outgoing;
    for (int p = 0; p < t.processes(); ++p) {
      outgoing.push_back(text_for(t.process(), p, round_bytes == 1 ? static_cast<std::size_t>(p) : uneven_size(t.process(), p)));
    }
    const auto incoming = t.all_to_all(std::move(outgoing), round_bytes, "testing");
    ASSERT_EQ(incoming.size(), static_cast<std::size_t>(t.processes()));
    for (int p = 0; p < t.processes(); ++p) {
      const std::size_t size = round_bytes == 1 ? static_cast<std::size_t>(t.process()) : uneven_size(p, t.process());
      EXPECT_EQ(incoming[static_cast<std::size_t>(p)], text_for(p, t.process(), size)) << "from " << p << ", rounds of " << round_bytes;
    }
  }
}

TEST(Transport, AllToAllWithNothingToSend) {
  auto& t = transport();
  const auto incoming = t.all_to_all(std::vector<std::string>(static_cast<std::size_t>(t.processes())), 1024, "testing");
  for (const auto& bytes : incoming) {
    EXPECT_TRUE(bytes.empty());
  }
}

TEST(Transport, MessagesArriveWholeAndInOrder) {
  auto& t = transport();
  constexpr std::size_t per_pair = 20;
  // Small ones overtake large ones unless order is kept.
  const auto size_of = [](std::size_t k) { return k % 3 == 0 ? std::size_t{1'500'000} : k % 3; };
  for (std::size_t k = 0; k < per_pair; ++k) {
    for (int p = 0; p < t.processes(); ++p) {
      t.send(p, static_cast<char>(k) + text_for(t.process(), p, size_of(k)), "testing");
    }
  }
  std::vector<std::size_t> next(static_cast<std::size_t>(t.processes()), 0);
  std::size_t left = per_pair * next.size();
  while (left > 0) {
    auto message = t.poll("testing");
    if (!message) {
      continue;
    }
    auto& k = next[static_cast<std::size_t>(message->from)];
    ASSERT_EQ(message->bytes, static_cast<char>(k) + text_for(message->from, t.process(), size_of(k)));
    ++k;
    --left;
  }
  t.finish_sends("testing");
  EXPECT_FALSE(t.busy());
  t.maximum(0, "testing");
}

TEST(Transport, AgreeThrowsTheSameErrorEverywhere) {
  auto& t = transport();
  EXPECT_NO_THROW(agree(t, std::nullopt, "testing"));
  const int lowest = t.processes() - 1 - (t.processes() > 2 ? 1 : 0);
  std::optional<Fault> fault;
  if (t.process() >= lowest) {
    fault = Fault{ErrorCategory::io, "disk of process " + std::to_string(t.process()) + " is full"};
  }
  try {
    agree(t, fault, "testing");
    FAIL() << "no error";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.category(), ErrorCategory::io);
    EXPECT_STREQ(error.what(), ("disk of process " + std::to_string(lowest) + " is full").c_str());
  }
}

TEST(CaptureFault, KeepsCategoryAndText) {
  EXPECT_FALSE(capture_fault([] {}));
  const auto fault = capture_fault([] { throw Error(ErrorCategory::format, "bad"); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->category, ErrorCategory::format);
  EXPECT_EQ(fault->text, "bad");
  EXPECT_EQ(capture_fault([] { throw std::bad_alloc(); })->category, ErrorCategory::internal);
  EXPECT_THROW(capture_fault([] { throw AgreedError(ErrorCategory::io, "x"); }), AgreedError);
}

TEST(Backoff, GrowsToItsLimitAndStartsAgain) {
  Backoff backoff(std::chrono::microseconds(1000));
  const auto first = backoff.next();
  EXPECT_LT(first, std::chrono::microseconds(100));
  std::chrono::microseconds last{};
  for (int k = 0; k < 30; ++k) {
    const auto next = backoff.next();
    EXPECT_GE(next, last);
    last = next;
  }
  EXPECT_EQ(last, std::chrono::microseconds(1000));
  backoff.reset();
  EXPECT_EQ(backoff.next(), first);
}

}  // namespace
}  // namespace msvis
