#include "links/packed_records.h"

#include <gtest/gtest.h>

#include "msvis/error.h"

namespace msvis {
namespace {

LinkRecord odd_record() {
  LinkRecord record;
  record.key = {UINT64_MAX, 1};
  record.step = INT64_MAX;
  record.rank = INT64_MIN;
  record.side = Side::golden;
  record.kind = LinkKind::rooted;
  record.is_root = true;
  record.assumed_root = true;
  record.index = "critical";
  record.node_order = UINT32_MAX;
  record.operation = 7;
  record.name = std::string("Distributed.\0ä", 15);
  record.group_ranks = {INT64_MAX, INT64_MIN, -1, 0, 5};
  return record;
}

TEST(PackedLinkRecords, ComeBackAsTheyWere) {
  const std::vector<LinkRecord> records{odd_record(), LinkRecord{}, odd_record()};
  std::vector<LinkRecord> unpacked;
  std::string copied;
  for_each_packed_record(pack_link_records(records), [&](std::string_view bytes) {
    unpacked.push_back(unpack_link_record(bytes));
    EXPECT_EQ(key_of_packed_record(bytes).key, unpacked.back().key);
    EXPECT_EQ(key_of_packed_record(bytes).ranks, unpacked.back().group_ranks.size());
    append_packed_record(copied, bytes);
  });
  EXPECT_EQ(unpacked, records);
  EXPECT_EQ(copied, pack_link_records(records));
}

TEST(PackedLinkRecords, CutBytesAreRefused) {
  const std::string bytes = pack_link_records(std::vector<LinkRecord>{odd_record()});
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_THROW(for_each_packed_record(bytes.substr(0, size), [](std::string_view record) { unpack_link_record(record); }), Error);
  }
}

}  // namespace
}  // namespace msvis
