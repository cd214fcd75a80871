#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "unit/links/hand_graph.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void send(HandGraph& hand, const std::string& api, int peer) {
  hand.call(api, "[]", keyword("dst", integer(std::to_string(peer))));
}
void receive(HandGraph& hand, const std::string& api, int peer) {
  hand.call(api, "[]", keyword("src", integer(std::to_string(peer))));
}
void collective(HandGraph& hand, const std::string& api, const std::string& ranks, const std::string& id = R"("g")") {
  hand.call(api, "[]", keyword("group", group(ranks, id)));
}
/// broadcast and reduce
void rooted(HandGraph& hand, const std::string& api, int root, const std::string& ranks) {
  hand.call(api, "[null, " + integer(std::to_string(root)) + "]", keyword("group", group(ranks)));
}

TEST(PointToPoint, PairsByPeerAndOccurrence) {
  Ranks ranks;
  send(ranks[0], "isend", 1);
  send(ranks[0], "isend", 2);
  send(ranks[0], "isend", 2);
  receive(ranks[1], "irecv", 0);
  receive(ranks[2], "irecv", 1);
  receive(ranks[2], "irecv", 0);
  receive(ranks[2], "irecv", 0);
  EXPECT_EQ(link_all(ranks), (Cells{{{0, "isend.0"}, cell("send", {{1, "irecv.0"}})},
                                    {{0, "isend.1"}, cell("send", {{2, "irecv.1"}})},
                                    {{0, "isend.2"}, cell("send", {{2, "irecv.2"}})},
                                    {{1, "irecv.0"}, cell("receive", {{0, "isend.0"}})},
                                    {{2, "irecv.1"}, cell("receive", {{0, "isend.1"}})},
                                    {{2, "irecv.2"}, cell("receive", {{0, "isend.2"}})}}));
}

TEST(PointToPoint, SendIsNotAnsweredByIrecv) {
  Ranks ranks;
  send(ranks[0], "send", 1);
  receive(ranks[1], "irecv", 0);
  EXPECT_THAT(link_all(ranks), IsEmpty());
}

TEST(PointToPoint, AbsentRankOrCall) {
  Ranks ranks;
  send(ranks[0], "send", 7);
  send(ranks[0], "send", 1);
  send(ranks[0], "send", 1);
  receive(ranks[1], "recv", 0);
  EXPECT_EQ(link_all(ranks).size(), 2U);
}

TEST(PointToPoint, GroupAndTagAreIgnored) {
  Ranks ranks;
  ranks[0].call("isend", "[]", keywords({{"dst", integer("1")}, {"group", group("[0, 1]")}, {"tag", integer("5")}}));
  send(ranks[0], "isend", 1);
  receive(ranks[1], "irecv", 0);
  receive(ranks[1], "irecv", 0);
  EXPECT_EQ(link_all(ranks).at({1, "irecv.1"}), cell("receive", {{0, "isend.1"}}));
}

TEST(PointToPoint, ToOneself) {
  Ranks ranks;
  send(ranks[0], "isend", 0);
  receive(ranks[0], "irecv", 0);
  EXPECT_EQ(link_all(ranks),
            (Cells{{{0, "isend.0"}, cell("send", {{0, "irecv.0"}})}, {{0, "irecv.0"}, cell("receive", {{0, "isend.0"}})}}));
}

TEST(PointToPoint, ManyRanksDoNotRunTogether) {
  // Rank 1, occurrence 12 and rank 11, occurrence 2 are different keys.
  Ranks ranks;
  for (int occurrence = 0; occurrence < 12; ++occurrence) {
    send(ranks[0], "isend", 1);
  }
  for (int occurrence = 0; occurrence < 2; ++occurrence) {
    send(ranks[0], "isend", 11);
    receive(ranks[11], "irecv", 0);
  }
  EXPECT_EQ(link_all(ranks).at({11, "irecv.1"}), cell("receive", {{0, "isend.13"}}));
}

TEST(Symmetric, OrderOfTheOwnList) {
  Ranks ranks;
  for (const int rank : {0, 1, 3}) {
    collective(ranks[rank], "all_reduce", "[3, 0, 1]");
  }
  const Cells cells = link_all(ranks);
  EXPECT_EQ(cells.at({0, "all_reduce.0"}), cell("send_receive", {{3, "all_reduce.0"}, {1, "all_reduce.0"}}));
  EXPECT_EQ(cells.at({1, "all_reduce.0"}), cell("send_receive", {{3, "all_reduce.0"}, {0, "all_reduce.0"}}));
}

TEST(Symmetric, RankListedTwiceStandsOnceAtItsFirstPlace) {
  Ranks ranks;
  for (const int rank : {0, 1, 2}) {
    collective(ranks[rank], "all_to_all", "[0, 2, 1, 2, 1]");
  }
  EXPECT_EQ(link_all(ranks).at({0, "all_to_all.0"}), cell("send_receive", {{2, "all_to_all.0"}, {1, "all_to_all.0"}}));
}

TEST(Symmetric, MissingRanksAreSkipped) {
  Ranks ranks;
  collective(ranks[0], "all_reduce", "[0, 1, 2, 3]");
  collective(ranks[2], "all_reduce", "[0, 1, 2, 3]");
  EXPECT_EQ(link_all(ranks), (Cells{{{0, "all_reduce.0"}, cell("send_receive", {{2, "all_reduce.0"}})},
                                    {{2, "all_reduce.0"}, cell("send_receive", {{0, "all_reduce.0"}})}}));
}

TEST(Symmetric, EachNodeDecidesFromItsOwnList) {
  Ranks ranks;
  collective(ranks[0], "reduce_scatter", "[1, 3]");  // calls it, but is not in the group
  collective(ranks[1], "reduce_scatter", "[1, 3]");
  collective(ranks[3], "reduce_scatter", "[1, 3]");
  collective(ranks[4], "reduce_scatter", "[4, 9]");  // same id, other list: nobody to link with
  EXPECT_EQ(link_all(ranks), (Cells{{{0, "reduce_scatter.0"}, cell("send_receive", {{1, "reduce_scatter.0"}, {3, "reduce_scatter.0"}})},
                                    {{1, "reduce_scatter.0"}, cell("send_receive", {{3, "reduce_scatter.0"}})},
                                    {{3, "reduce_scatter.0"}, cell("send_receive", {{1, "reduce_scatter.0"}})}}));
}

TEST(Symmetric, ApiAndGroupMustAgree) {
  Ranks ranks;
  collective(ranks[0], "all_reduce", "[0, 1]", R"("a")");
  collective(ranks[1], "all_reduce", "[0, 1]", R"("b")");
  collective(ranks[0], "all_gather", "[0, 1]", R"("a")");
  collective(ranks[1], "barrier", "[0, 1]", R"("a")");
  EXPECT_THAT(link_all(ranks), IsEmpty());
}

TEST(Rooted, RootSendsOrReceives) {
  for (const auto& [api, at_root, at_others] : {std::tuple{"broadcast", "send", "receive"}, std::tuple{"reduce", "receive", "send"}}) {
    Ranks ranks;
    for (const int rank : {0, 1, 2}) {
      rooted(ranks[rank], api, 1, "[0, 1, 2]");
    }
    const std::string name = std::string(api) + ".0";
    EXPECT_EQ(link_all(ranks), (Cells{{{0, name}, cell(at_others, {{1, name}})},
                                      {{1, name}, cell(at_root, {{0, name}, {2, name}})},
                                      {{2, name}, cell(at_others, {{1, name}})}}));
  }
  for (const auto& [api, key, at_root, at_others] :
       {std::tuple{"scatter", "src", "send", "receive"}, std::tuple{"gather", "dst", "receive", "send"}}) {
    Ranks ranks;
    for (const int rank : {0, 1}) {
      ranks[rank].call(api, "[]", keywords({{key, integer("1")}, {"group", group("[0, 1]")}}));
    }
    const std::string name = std::string(api) + ".0";
    EXPECT_EQ(link_all(ranks), (Cells{{{0, name}, cell(at_others, {{1, name}})}, {{1, name}, cell(at_root, {{0, name}})}}));
  }
}

TEST(Rooted, OnlyTheRootActs) {
  Ranks ranks;
  rooted(ranks[0], "broadcast", 3, "[0, 1, 3]");
  rooted(ranks[1], "broadcast", 77, "[1]");  // wrong root, wrong list: does not matter
  rooted(ranks[3], "broadcast", 3, "[0, 1, 3]");
  EXPECT_EQ(link_all(ranks), (Cells{{{0, "broadcast.0"}, cell("receive", {{3, "broadcast.0"}})},
                                    {{1, "broadcast.0"}, cell("receive", {{3, "broadcast.0"}})},
                                    {{3, "broadcast.0"}, cell("send", {{0, "broadcast.0"}, {1, "broadcast.0"}})}}));
}

TEST(Rooted, NoRoot) {
  Ranks ranks;
  for (const int rank : {0, 1}) {
    rooted(ranks[rank], "broadcast", 5, "[0, 1]");
  }
  EXPECT_THAT(link_all(ranks), IsEmpty());
}

TEST(Rooted, RootWithoutAnyPartner) {
  Ranks ranks;
  rooted(ranks[0], "broadcast", 0, "[0, 7]");
  rooted(ranks[1], "broadcast", 0, "[0, 1]");  // has the key, but the root's list does not name it
  EXPECT_THAT(link_all(ranks), IsEmpty());
}

TEST(Rooted, SmallestOfTwoRootsWins) {
  Ranks ranks;
  for (const int rank : {0, 1, 3}) {
    rooted(ranks[rank], "broadcast", rank == 0 ? 0 : 1, "[0, 1, 3]");
  }
  EXPECT_EQ(link_all(ranks), (Cells{{{0, "broadcast.0"}, cell("send", {{1, "broadcast.0"}, {3, "broadcast.0"}})},
                                    {{1, "broadcast.0"}, cell("receive", {{0, "broadcast.0"}})},
                                    {{3, "broadcast.0"}, cell("receive", {{0, "broadcast.0"}})}}));
}

TEST(Rooted, RootThatNoEarlierRootLinkedStillActs) {
  Ranks ranks;
  rooted(ranks[0], "broadcast", 0, "[0, 2]");
  rooted(ranks[1], "broadcast", 1, "[1, 2, 3]");
  rooted(ranks[2], "broadcast", 0, "[0, 2]");
  rooted(ranks[3], "broadcast", 1, "[1, 2, 3]");
  EXPECT_EQ(link_all(ranks), (Cells{{{0, "broadcast.0"}, cell("send", {{2, "broadcast.0"}})},
                                    {{1, "broadcast.0"}, cell("send", {{3, "broadcast.0"}})},
                                    {{2, "broadcast.0"}, cell("receive", {{0, "broadcast.0"}})},
                                    {{3, "broadcast.0"}, cell("receive", {{1, "broadcast.0"}})}}));
}

TEST(Rooted, CountersDoNotContainTheRoot) {
  Ranks ranks;
  for (const int rank : {0, 1}) {
    ranks[rank].call("broadcast", "[null]", keywords({{"src", integer("0")}, {"group", group("[0, 1]")}}));  // counted, has no root
    rooted(ranks[rank], "broadcast", 1, "[0, 1]");
  }
  EXPECT_EQ(link_all(ranks),
            (Cells{{{0, "broadcast.1"}, cell("receive", {{1, "broadcast.1"}})}, {{1, "broadcast.1"}, cell("send", {{0, "broadcast.1"}})}}));
}

// --- Records directly ---

LinkRecord record(LinkKind kind, std::int64_t rank, std::vector<std::int64_t> ranks = {}) {
  LinkRecord made;
  made.key = {1, 2};
  made.kind = kind;
  made.rank = rank;
  made.index = "0";
  made.name = "Distributed.x." + std::to_string(rank) + ".forward";
  made.group_ranks = std::move(ranks);
  return made;
}

TEST(PairRecords, NothingToPair) {
  EXPECT_THAT(pair_records({}), IsEmpty());
  EXPECT_THAT(pair_records({record(LinkKind::symmetric, 0, {0, 1})}), IsEmpty());
}

TEST(PairRecords, KindSideStepAndKeyAreComparedExactly) {
  const LinkRecord zero = record(LinkKind::symmetric, 0, {0, 1});
  LinkRecord one = record(LinkKind::symmetric, 1, {0, 1});
  EXPECT_EQ(pair_records({zero, one}).size(), 2U);
  LinkRecord other = one;
  other.kind = LinkKind::rooted;
  EXPECT_THAT(pair_records({zero, other}), IsEmpty());
  other = one;
  other.side = Side::golden;
  EXPECT_THAT(pair_records({zero, other}), IsEmpty());
  other = one;
  other.step = 1;
  EXPECT_THAT(pair_records({zero, other}), IsEmpty());
  for (const std::size_t half : {0U, 1U}) {
    other = one;
    other.key[half] ^= 1U;
    EXPECT_THAT(pair_records({zero, other}), IsEmpty());
  }
}

TEST(PairRecords, SeveralStepsAndSidesTogether) {
  std::vector<LinkRecord> records;
  for (const Side side : {Side::golden, Side::target}) {
    for (const std::int64_t step : {3, 0}) {
      for (const std::int64_t rank : {1, 0}) {
        LinkRecord made = record(LinkKind::symmetric, rank, {0, 1});
        made.side = side;
        made.step = step;
        made.index = std::to_string(step);
        records.push_back(made);
      }
    }
  }
  const auto links = pair_records(records);
  ASSERT_EQ(links.size(), 8U);
  for (std::size_t place = 0; place < links.size(); ++place) {
    EXPECT_EQ(links[place].side, place < 4 ? Side::target : Side::golden);
    EXPECT_EQ(links[place].step, place % 4 < 2 ? 0 : 3);
    EXPECT_EQ(links[place].rank, static_cast<std::int64_t>(place % 2));
    ASSERT_EQ(links[place].peers.size(), 1U);
    EXPECT_EQ(links[place].peers[0].index, std::to_string(links[place].step));
  }
}

TEST(PairRecords, SortedByNodeOrderNotByName) {
  std::vector<LinkRecord> records;
  for (const std::uint32_t node : {2U, 10U}) {
    for (const std::int64_t rank : {0, 1}) {
      LinkRecord made = record(LinkKind::symmetric, rank, {0, 1});
      made.key = {node, 0};
      made.node_order = node;
      made.name = "Distributed.x." + std::to_string(node) + ".forward";
      records.push_back(made);
    }
  }
  const auto links = pair_records(records);
  ASSERT_EQ(links.size(), 4U);
  EXPECT_EQ(links[0].name, "Distributed.x.2.forward");
  EXPECT_EQ(links[1].name, "Distributed.x.10.forward");
}

TEST(PairRecords, OrderOfTheInputDoesNotMatter) {
  Ranks ranks;
  for (int rank = 0; rank < 6; ++rank) {
    for (int round = 0; round < 5; ++round) {
      send(ranks[rank], "isend", (rank + 1) % 6);
      receive(ranks[rank], "irecv", (rank + 5) % 6);
      collective(ranks[rank], "all_reduce", "[5, 4, 3, 2, 1, 0]");
      rooted(ranks[rank], "broadcast", rank % 2, "[0, 1, 2, 3, 4, 5]");  // three claim to be root
    }
  }
  std::vector<LinkRecord> records = records_of(ranks, {});
  LinkRecord twice = records.front();  // two nodes of one rank with one key: no well-formed input has it, but the result must be stable
  twice.name += "x";
  records.push_back(twice);
  const auto expected = pair_records(records);
  EXPECT_EQ(expected.size(), 120U);
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same order in every run
  for (int round = 0; round < 20; ++round) {
    std::shuffle(records.begin(), records.end(), random);
    EXPECT_EQ(pair_records(records), expected);
  }
}

TEST(PairRecords, HostileListsCostWhatTheyAreLong) {
  std::vector<std::int64_t> ranks(100'000);
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    ranks[place] = static_cast<std::int64_t>(place % 1000);
  }
  std::vector<LinkRecord> records;
  for (std::int64_t rank = 0; rank < 20; ++rank) {
    LinkRecord made = record(rank % 2 == 0 ? LinkKind::symmetric : LinkKind::rooted, rank, ranks);
    made.is_root = true;
    records.push_back(made);
  }
  EXPECT_EQ(pair_records(records).size(), 20U);
}

Link batch_link(std::uint32_t operation, Link::Type type, std::vector<Link::Peer> peers) {
  Link link;
  link.kind = LinkKind::batch;
  link.name = "Distributed.batch_isend_irecv.0.forward";
  link.type = type;
  link.operation = operation;
  link.peers = std::move(peers);
  return link;
}

TEST(MergeBatchLinks, ListOrderWhateverTheOrderOfArrival) {
  Link other;
  other.name = "Distributed.isend.0.forward";
  other.peers = {{2, "0", "y"}};
  std::vector<Link> links{batch_link(0, Link::Type::send, {{3, "0", "first"}}), batch_link(1, Link::Type::receive, {{1, "1", "b"}}),
                          batch_link(2, Link::Type::send, {{3, "1", "second"}}), other};
  Link merged = batch_link(0, Link::Type::send_receive, {{3, "0", "first"}, {1, "1", "b"}});
  std::sort(links.begin(), links.end(), [](const Link& left, const Link& right) { return left.operation < right.operation; });
  do {
    EXPECT_THAT(merge_batch_links(links), ElementsAre(other, merged));
  } while (std::next_permutation(links.begin(), links.end(), [](const Link& left, const Link& right) {
    return std::tie(left.name, left.operation) < std::tie(right.name, right.operation);
  }));
}

TEST(MergeBatchLinks, TypesThatAgree) {
  for (const Link::Type type : {Link::Type::send, Link::Type::receive}) {
    const auto merged = merge_batch_links({batch_link(0, type, {{1, "0", "a"}}), batch_link(1, type, {{2, "0", "b"}})});
    ASSERT_EQ(merged.size(), 1U);
    EXPECT_EQ(merged[0].type, type);
    EXPECT_EQ(merged[0].peers.size(), 2U);
  }
}

TEST(MergeBatchLinks, NodesAreKeptApart) {
  std::vector<Link> links;
  for (int difference = 0; difference < 5; ++difference) {
    Link link = batch_link(0, Link::Type::send, {{1, "0", "a"}});
    link.rank += difference == 1 ? 1 : 0;
    link.step += difference == 2 ? 1 : 0;
    link.side = difference == 3 ? Side::golden : Side::target;
    link.name += difference == 4 ? "x" : "";
    links.push_back(link);
  }
  EXPECT_EQ(merge_batch_links(links).size(), 5U);
}

TEST(LinkJson, Layout) {
  Link link;
  EXPECT_EQ(link_json(link), "{}");
  link.type = Link::Type::send_receive;
  link.peers = {{3, "Nan", "Distributed.all_reduce.1.forward"}, {1, "0.5", "Distributed.all_reduce.0.forward"}};
  EXPECT_EQ(link_json(link), R"({"communications_type": "send_receive", "nodes_info": {"3": ["Nan", "Distributed.all_reduce.1.forward"], )"
                             R"("1": ["0.5", "Distributed.all_reduce.0.forward"]}})");
}

TEST(LinkJson, NamesAreEscaped) {
  Link link;
  link.type = Link::Type::receive;
  link.peers = {{0, "0", "Distributed.a\"b\\c\n\x01\x7f/\xc3\xa4\xf0\x9f\x98\x80\xff"}};
  EXPECT_EQ(link_json(link), R"({"communications_type": "receive", "nodes_info": {"0": ["0", )"
                             R"("Distributed.a\"b\\c\n\u0001\u007f/\u00e4\ud83d\ude00\ufffd"]}})");
}

}  // namespace
}  // namespace msvis
