#include "mpi/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "mpi_test_main.h"

namespace msvis {
namespace {

using namespace std::chrono_literals;

// Fake items: the text "<milliseconds> <batches> <batch bytes>".
struct FakeItem {
  int milliseconds = 0;
  int batches = 0;
  std::size_t batch_bytes = 0;
  [[nodiscard]] std::string text() const {
    return std::to_string(milliseconds) + " " + std::to_string(batches) + " " + std::to_string(batch_bytes);
  }
  static FakeItem parse(std::string_view text) {
    std::istringstream in{std::string(text)};
    FakeItem item;
    in >> item.milliseconds >> item.batches >> item.batch_bytes;
    return item;
  }
};

std::string batch_of(std::size_t item, int number, std::size_t bytes) {
  return std::to_string(item) + ":" + std::to_string(number) + std::string(bytes, '.');
}

std::string run_fake(std::size_t number, std::string_view bytes, const BatchSink& sink) {
  const auto item = FakeItem::parse(bytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(item.milliseconds));
  for (int batch = 0; batch < item.batches; ++batch) {
    sink(batch_of(number, batch, item.batch_bytes));
  }
  return "result " + std::to_string(number);
}

// What process 0 saw.
struct Seen {
  std::map<std::size_t, std::vector<std::string>> batches;
  std::map<std::size_t, std::string> stored_results;
  std::map<std::size_t, std::string> results;
  std::vector<std::size_t> started;
  std::map<std::size_t, int> where;
  std::set<std::size_t> rows_arrived;
};

ScheduleHooks hooks_for(Seen& seen) {
  ScheduleHooks hooks;
  hooks.run = run_fake;
  hooks.store = [&seen](std::size_t item, std::string_view batch) {
    EXPECT_EQ(seen.stored_results.count(item), 0U) << "a batch after the result";
    seen.batches[item].emplace_back(batch);
  };
  hooks.store_result = [&seen](std::size_t item, std::string_view result) { seen.stored_results[item] = result; };
  hooks.started = [&seen](std::size_t item, int process) {
    seen.started.push_back(item);
    seen.where[item] = process;
  };
  hooks.rows_arrived = [&seen](std::size_t item) { seen.rows_arrived.insert(item); };
  hooks.finished = [&seen](std::size_t item, std::string&& result) { seen.results[item] = std::move(result); };
  return hooks;
}

std::vector<ScheduledItem> scheduled(const std::vector<FakeItem>& items) {
  std::vector<ScheduledItem> all;
  if (transport().process() == 0) {
    for (const auto& item : items) {
      all.push_back({item.text(), static_cast<std::uint64_t>(item.milliseconds), 0, -1});
    }
  }
  return all;
}

void expect_complete(const Seen& seen, const std::vector<FakeItem>& items) {
  if (transport().process() != 0) {
    EXPECT_TRUE(seen.batches.empty());
    EXPECT_TRUE(seen.results.empty());
    return;
  }
  EXPECT_EQ(seen.results.size(), items.size());
  for (std::size_t item = 0; item < items.size(); ++item) {
    const std::string result = "result " + std::to_string(item);
    EXPECT_EQ(seen.results.at(item), result);
    EXPECT_EQ(seen.stored_results.at(item), result);
    std::vector<std::string> expected;
    for (int batch = 0; batch < items[item].batches; ++batch) {
      expected.push_back(batch_of(item, batch, items[item].batch_bytes));
    }
    const auto stored = seen.batches.find(item);
    EXPECT_EQ(stored == seen.batches.end() ? std::vector<std::string>() : stored->second, expected) << "item " << item;
    EXPECT_EQ(seen.rows_arrived.count(item), items[item].batches > 0 ? 1U : 0U);
  }
}

TEST(Scheduler, NoItems) {
  Seen seen;
  run_schedule(transport(), {}, 2, hooks_for(seen), {});
  EXPECT_TRUE(seen.results.empty());
}

TEST(Scheduler, MoreProcessesThanItems) {
  const std::vector<FakeItem> items = {{5, 3, 100}};
  Seen seen;
  run_schedule(transport(), scheduled(items), 3, hooks_for(seen), {});
  expect_complete(seen, items);
}

TEST(Scheduler, ManyUnevenItems) {
  std::vector<FakeItem> items;
  for (int k = 0; k < 60; ++k) {
    items.push_back({k % 7 == 0 ? 15 : k % 3, k % 5, static_cast<std::size_t>(k) * 321});
  }
  Seen seen;
  run_schedule(transport(), scheduled(items), 2, hooks_for(seen), {});
  expect_complete(seen, items);
}

TEST(Scheduler, LargestFirst) {
  const std::vector<FakeItem> items = {{1, 0, 0}, {30, 0, 0}, {2, 0, 0}, {20, 0, 0}, {1, 0, 0}};
  Seen seen;
  run_schedule(transport(), scheduled(items), 1, hooks_for(seen), {});
  if (transport().process() == 0) {
    EXPECT_EQ(seen.started, (std::vector<std::size_t>{1, 3, 2, 0, 4}));
  }
}

TEST(Scheduler, EveryProcessTakesPart) {
  const std::vector<FakeItem> items(static_cast<std::size_t>(transport().processes()) * 2, FakeItem{20, 1, 10});
  Seen seen;
  run_schedule(transport(), scheduled(items), 1, hooks_for(seen), {});
  expect_complete(seen, items);
  if (transport().process() == 0) {
    std::set<int> processes;
    for (const auto& [item, process] : seen.where) {
      processes.insert(process);
    }
    EXPECT_EQ(processes.size(), static_cast<std::size_t>(transport().processes()));
  }
}

TEST(Scheduler, ItemsBoundToAProcess) {
  std::vector<ScheduledItem> items;
  if (transport().process() == 0) {
    for (int process = 0; process < transport().processes(); ++process) {
      items.push_back({"0 1 10", 0, 0, process});
    }
  }
  Seen seen;
  auto hooks = hooks_for(seen);
  hooks.run = [](std::size_t item, std::string_view bytes, const BatchSink& sink) {
    EXPECT_EQ(item, static_cast<std::size_t>(transport().process()));
    return run_fake(item, bytes, sink);
  };
  run_schedule(transport(), items, 1, hooks, {});
  if (transport().process() == 0) {
    EXPECT_EQ(seen.results.size(), static_cast<std::size_t>(transport().processes()));
  }
}

TEST(Scheduler, TinyWindowAndQueue) {
  const std::vector<FakeItem> items(10, FakeItem{0, 8, 5000});
  Seen seen;
  auto hooks = hooks_for(seen);
  const auto store = hooks.store;
  hooks.store = [&store](std::size_t item, std::string_view batch) {
    std::this_thread::sleep_for(200us);
    store(item, batch);
  };
  ScheduleLimits limits;
  limits.window_bytes = 1;
  limits.queue_bytes = 1;
  run_schedule(transport(), scheduled(items), 3, hooks, limits);
  expect_complete(seen, items);
}

TEST(Scheduler, AFullQueueHoldsTheWorkerBack) {
  // The writer does not store anything until the worker has had time to run away.
  std::atomic<int> given = 0;
  std::atomic<int> most_ahead = 0;
  std::atomic<int> stored = 0;
  ScheduleHooks hooks;
  hooks.run = [&](std::size_t, std::string_view, const BatchSink& sink) {
    for (int batch = 0; batch < 40; ++batch) {
      sink(std::string(1000, 'x'));
      ++given;
      if (transport().processes() == 1) {
        most_ahead = std::max(most_ahead.load(), given.load() - stored.load());
      }
    }
    return std::string();
  };
  hooks.store = [&](std::size_t, std::string_view) {
    std::this_thread::sleep_for(2ms);
    ++stored;
  };
  ScheduleLimits limits;
  limits.window_bytes = 2000;
  limits.queue_bytes = 3000;
  run_schedule(transport(), scheduled({{0, 0, 0}}), 1, hooks, limits);
  if (transport().process() == 0) {
    EXPECT_EQ(stored.load(), 40);
  }
  // Two on the way or in the writer, three in the queue, one just stored but not counted yet.
  EXPECT_LE(most_ahead.load(), 7);
}

TEST(Scheduler, MemoryOfTheNodeLimitsWhatIsInWork) {
  std::vector<ScheduledItem> items;
  if (transport().process() == 0) {
    for (int k = 0; k < 12; ++k) {
      items.push_back({"3 1 10", static_cast<std::uint64_t>(k), k == 5 ? 500ULL : 40ULL, -1});
    }
  }
  std::uint64_t in_work = 0;
  std::uint64_t most = 0;
  std::size_t count = 0;
  const auto memory_of = [](std::size_t item) { return item == 5 ? 500ULL : 40ULL; };
  Seen seen;
  auto hooks = hooks_for(seen);
  hooks.started = [&](std::size_t item, int) {
    in_work += memory_of(item);
    ++count;
    if (item == 5) {
      EXPECT_EQ(count, 1U) << "an item beyond the limit runs alone";
    } else {
      most = std::max(most, in_work);
    }
  };
  hooks.finished = [&](std::size_t item, std::string&&) {
    in_work -= memory_of(item);
    --count;
  };
  ScheduleLimits limits;
  limits.node_memory = {100};
  run_schedule(transport(), items, 4, hooks, limits);
  if (transport().process() == 0) {
    EXPECT_EQ(seen.stored_results.size(), 12U);
    EXPECT_EQ(most, 80U);
  }
}

TEST(Scheduler, AFailingStoreStopsAllProcessesWithOneError) {
  const std::vector<FakeItem> items(20, FakeItem{1, 10, 2000});
  std::atomic<int> stored = 0;
  Seen seen;
  auto hooks = hooks_for(seen);
  hooks.store = [&](std::size_t, std::string_view) {
    if (++stored == 7) {
      throw Error(ErrorCategory::io, "the disk is full");
    }
  };
  ScheduleLimits limits;
  limits.window_bytes = 5000;
  try {
    run_schedule(transport(), scheduled(items), 2, hooks, limits);
    FAIL() << "no error";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.category(), ErrorCategory::io);
    EXPECT_NE(std::string(error.what()).find("the disk is full"), std::string::npos);
  }
  EXPECT_EQ(WorkerPool::left_behind(), 0U);
  // Nothing stays under way that could disturb the next schedule.
  const std::vector<FakeItem> next(5, FakeItem{0, 2, 100});
  Seen seen_next;
  run_schedule(transport(), scheduled(next), 2, hooks_for(seen_next), {});
  expect_complete(seen_next, next);
}

TEST(Scheduler, AnExceptionOfAnItemStopsAllProcesses) {
  const std::vector<FakeItem> items(10, FakeItem{1, 2, 100});
  Seen seen;
  auto hooks = hooks_for(seen);
  hooks.run = [](std::size_t item, std::string_view bytes, const BatchSink& sink) {
    if (item == 6) {
      throw std::runtime_error("item 6 broke");
    }
    return run_fake(item, bytes, sink);
  };
  try {
    run_schedule(transport(), scheduled(items), 1, hooks, {});
    FAIL() << "no error";
  } catch (const AgreedError& error) {
    EXPECT_NE(std::string(error.what()).find("item 6 broke"), std::string::npos);
  }
}

TEST(Scheduler, AnExceptionOfAHookStopsAllProcesses) {
  Seen seen;
  auto hooks = hooks_for(seen);
  hooks.finished = [](std::size_t, std::string&&) { throw Error(ErrorCategory::format, "unreadable result"); };
  EXPECT_THROW(run_schedule(transport(), scheduled(std::vector<FakeItem>(4)), 1, hooks, {}), AgreedError);
}

TEST(Scheduler, IdleIsCalledWhileItemsRun) {
  int calls = 0;
  Seen seen;
  auto hooks = hooks_for(seen);
  hooks.idle = [&] { ++calls; };
  run_schedule(transport(), scheduled({{300, 0, 0}}), 1, hooks, {});
  EXPECT_GE(calls, 4);
}

}  // namespace
}  // namespace msvis
