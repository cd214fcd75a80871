#include "mpi/link_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <tuple>

#include "links/packed_records.h"
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

// As the partial file would give them: pieces of different sizes, on process 0 only.
LinkRecordSource source_of(const std::vector<LinkRecord>& records) {
  LinkRecordSource source;
  if (transport().process() == 0) {
    std::vector<std::string> pieces;
    std::size_t size = 0;
    for (std::size_t begin = 0; begin < records.size(); begin += size) {
      size = std::min(size * 2 % 97 + 1, records.size() - begin);
      pieces.push_back(pack_link_records(std::span(records).subspan(begin, size)));
      source.bytes += pieces.back().size();
    }
    source.for_each = [pieces = std::move(pieces)](const std::function<void(std::string_view)>& use) {
      for (const std::string& piece : pieces) {
        use(piece);
      }
    };
  }
  return source;
}

Exchanged exchange(const std::vector<LinkRecord>& records, const LinkExchangeLimits& limits, const ScheduleLimits& schedule_limits) {
  Exchanged exchanged;
  LinkExchangeHooks hooks;
  hooks.store = [&](std::vector<Link>&& links) { exchanged.links.insert(exchanged.links.end(), links.begin(), links.end()); };
  exchanged.result = exchange_links(transport(), source_of(records), hooks, limits, schedule_limits);
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

TEST(LinkExchange, AFailingSourceEndsItEverywhere) {
  Random random(8);
  auto source = source_of(random_records(random, 6, 60));
  if (source.for_each) {
    source.for_each = [all = source.for_each](const std::function<void(std::string_view)>& use) {
      all(use);
      throw Error(ErrorCategory::io, "the disk can't be read");
    };
  }
  LinkExchangeHooks hooks;
  hooks.store = [](std::vector<Link>&&) {};
  EXPECT_THROW(exchange_links(transport(), source, hooks, {}, {}), AgreedError);
}

TEST(LinkExchange, AFailingStoreEndsItEverywhere) {
  Random random(7);
  const auto records = random_records(random, 6, 60);
  LinkExchangeHooks hooks;
  hooks.store = [](std::vector<Link>&&) { throw Error(ErrorCategory::io, "the disk is full"); };
  EXPECT_THROW(exchange_links(transport(), source_of(records), hooks, {}, {}), AgreedError);
}

}  // namespace
}  // namespace msvis
