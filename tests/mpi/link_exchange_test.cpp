#include "mpi/link_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "mpi_test_main.h"

namespace msvis {
namespace {

using Random = std::mt19937_64;

// Records as ranks of a job with collectives, transfers and batches would give them, with gaps, several roots and lists out of order.
std::vector<LinkRecord> random_records(Random& random, int ranks, int keys) {
  std::vector<LinkRecord> records;
  const auto number = [&](std::uint64_t below) { return random() % below; };
  for (int key = 0; key < keys; ++key) {
    LinkRecord common;
    common.key = {random(), random()};
    common.kind = static_cast<LinkKind>(number(4));
    const bool both_ends = common.kind == LinkKind::p2p || common.kind == LinkKind::batch;
    for (const auto side : {Side::target, Side::golden}) {
      for (std::int64_t step = 0; step < 3; ++step) {
        std::vector<std::int64_t> group;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          if (number(3) != 0) {
            group.push_back(rank * (1 + static_cast<std::int64_t>(key % 5 == 0) * 1'000'000'007));
          }
        }
        std::shuffle(group.begin(), group.end(), random);
        std::vector<std::int64_t> members = both_ends ? std::vector<std::int64_t>{} : group;
        if (both_ends) {
          members = {static_cast<std::int64_t>(number(static_cast<std::uint64_t>(ranks))),
                     static_cast<std::int64_t>(number(static_cast<std::uint64_t>(ranks)))};
        }
        bool sends = true;
        for (const std::int64_t rank : members) {
          if (number(8) == 0) {
            continue;
          }
          LinkRecord record = common;
          record.side = side;
          record.step = step;
          record.rank = rank;
          record.sends = both_ends ? std::exchange(sends, false) : key % 2 == 0;
          record.is_root = record.kind == LinkKind::rooted && number(3) == 0;
          record.assumed_root = record.is_root && number(4) == 0;
          record.index = number(2) == 0 ? "0.5" : "Nan";
          record.node_order = static_cast<std::uint32_t>(key);
          record.operation = static_cast<std::uint32_t>(key) * 2 + (record.sends ? 0 : 1);
          // Few batch nodes with many operations each.
          record.name = record.kind == LinkKind::batch ? "Distributed.batch_isend_irecv." + std::to_string(key % 7) + ".forward"
                                                       : "Distributed.api." + std::to_string(key) + ".forward";
          if (!both_ends) {
            record.group_ranks = group;
          }
          records.push_back(record);
        }
      }
    }
  }
  std::shuffle(records.begin(), records.end(), random);
  return records;
}

std::vector<Link> sorted(std::vector<Link> links) {
  std::sort(links.begin(), links.end(), [](const Link& a, const Link& b) {
    return std::tie(a.side, a.step, a.rank, a.name, a.operation) < std::tie(b.side, b.step, b.rank, b.name, b.operation);
  });
  return links;
}

struct Exchanged {
  std::vector<Link> links;
  LinkExchangeResult result;
};

// Shares the records out over the processes in an uneven way.
Exchanged exchange(const std::vector<LinkRecord>& records, const LinkExchangeLimits& limits, const ScheduleLimits& schedule_limits) {
  auto& t = transport();
  LinkRecordStore store(t.processes());
  std::vector<LinkRecord> own;
  for (std::size_t k = 0; k < records.size(); ++k) {
    const auto holder = k % 3 == 0 ? 0 : static_cast<int>(k % static_cast<std::size_t>(t.processes()));
    if (holder == t.process()) {
      own.push_back(records[k]);
    }
  }
  const auto half = own.begin() + static_cast<std::ptrdiff_t>(own.size() / 2);
  store.add({own.begin(), half});
  store.add({half, own.end()});
  Exchanged exchanged;
  LinkExchangeHooks hooks;
  hooks.store = [&](std::vector<Link>&& links) { exchanged.links.insert(exchanged.links.end(), links.begin(), links.end()); };
  exchanged.result = exchange_links(t, store, hooks, limits, schedule_limits);
  return exchanged;
}

TEST(LinkExchange, EqualsPairingInOnePlace) {
  Random random(20261129);
  for (const std::size_t owner_bytes : {std::size_t{1} << 28, std::size_t{20'000}, std::size_t{500}}) {
    const auto records = random_records(random, 9, 120);
    const auto expected = sorted(merge_batch_links(pair_records(records)));
    ASSERT_GT(expected.size(), 500U);
    LinkExchangeLimits limits;
    limits.owner_bytes = owner_bytes;
    limits.round_bytes = 4096;
    limits.chunk_bytes = 3000;
    ScheduleLimits schedule_limits;
    schedule_limits.window_bytes = 10'000;
    schedule_limits.queue_bytes = 10'000;
    if (owner_bytes == 500 && transport().processes() > 2) {
      limits.owner_bytes = 5000;  // hundreds of passes take too long with many processes on few cores
    }
    const auto got = exchange(records, limits, schedule_limits);
    if (transport().process() == 0) {
      EXPECT_EQ(got.result.records, records.size());
      EXPECT_EQ(got.result.links, expected.size());
      EXPECT_TRUE(got.result.faults.empty());
      EXPECT_TRUE(sorted(got.links) == expected) << "passes of " << owner_bytes;
    } else {
      EXPECT_TRUE(got.links.empty());
    }
  }
}

TEST(LinkExchange, NoRecords) {
  const auto got = exchange({}, {}, {});
  EXPECT_TRUE(got.links.empty());
  EXPECT_EQ(got.result.records, 0U);
}

TEST(LinkExchange, RecordsTravelUnchanged) {
  // Two ranks of a symmetric key with everything odd that a record can hold.
  LinkRecord record;
  record.key = {UINT64_MAX, 0};
  record.step = INT64_MAX;
  record.side = Side::golden;
  record.kind = LinkKind::symmetric;
  record.group_ranks = {INT64_MAX, INT64_MIN, -1, 0, 7};
  record.index = "critical";
  record.name = "Distributed.ä\n\"x\".forward";
  LinkRecord other = record;
  record.rank = INT64_MAX;
  other.rank = INT64_MIN;
  other.index = "Nan";
  other.name = std::string("Distributed.\0.forward", 21);
  const auto expected = sorted(pair_records({record, other}));
  ASSERT_EQ(expected.size(), 2U);
  const auto got = exchange({record, other}, {}, {});
  if (transport().process() == 0) {
    EXPECT_TRUE(sorted(got.links) == expected);
  }
}

TEST(LinkExchange, AFailingStoreEndsItEverywhere) {
  Random random(7);
  const auto records = random_records(random, 6, 60);
  LinkRecordStore store(transport().processes());
  if (transport().process() == transport().processes() - 1) {
    store.add(records);
  }
  LinkExchangeHooks hooks;
  hooks.store = [](std::vector<Link>&&) { throw Error(ErrorCategory::io, "the disk is full"); };
  EXPECT_THROW(exchange_links(transport(), store, hooks, {}, {}), AgreedError);
}

}  // namespace
}  // namespace msvis
