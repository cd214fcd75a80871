#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/links/hand_graph.h"

namespace msvis {
namespace {

using ::testing::IsEmpty;

LinkOptions extended(std::vector<std::int64_t> world) {
  LinkOptions options;
  options.mode = LinkMode::extended;
  options.world_ranks = std::move(world);
  return options;
}

TEST(Extended, PositionalPeer) {
  Ranks ranks;
  ranks[0].call("send", "[" + tensor + ", " + integer("1") + "]", "{}");
  ranks[1].call("recv", "[" + tensor + ", " + integer("0") + "]", "{}");
  EXPECT_THAT(link_all(ranks), IsEmpty());
  EXPECT_EQ(link_all(ranks, extended({0, 1})),
            (Cells{{{0, "send.0"}, cell("send", {{1, "recv.0"}})}, {{1, "recv.0"}, cell("receive", {{0, "send.0"}})}}));
}

TEST(Extended, PeerWithinItsGroup) {
  Ranks ranks;
  const std::string g = group("[4, 6]");
  ranks[4].call("isend", "[" + tensor + "]", keywords({{"group", g}, {"group_dst", integer("1")}}));
  ranks[6].call("irecv", "[" + tensor + "]", keywords({{"group", g}, {"group_src", integer("0")}}));
  EXPECT_EQ(link_all(ranks, extended({4, 6})).size(), 2U);
}

TEST(Extended, ReceiveFromAnybodyStaysUnlinked) {
  Ranks ranks;
  ranks[0].call("send", "[" + tensor + ", " + integer("1") + "]", "{}");
  ranks[1].call("recv", "[" + tensor + "]", "{}");
  EXPECT_THAT(link_all(ranks, extended({0, 1})), IsEmpty());
}

TEST(Extended, MissingGroupIsTheWorld) {
  Ranks ranks;
  for (const int rank : {0, 2, 5}) {
    ranks[rank].call("all_reduce", "[" + tensor + "]", "{}");
    ranks[rank].call("all_reduce", "[" + tensor + "]", keyword("group", "null"));
  }
  const Cells cells = link_all(ranks, extended({0, 2, 5}));
  EXPECT_EQ(cells.size(), 6U);
  EXPECT_EQ(cells.at({2, "all_reduce.1"}), cell("send_receive", {{0, "all_reduce.1"}, {5, "all_reduce.1"}}));
  EXPECT_THAT(link_all(ranks, extended({})), IsEmpty());
}

TEST(Extended, PositionalGroup) {
  Ranks ranks;
  for (const int rank : {0, 1}) {
    ranks[rank].call("all_gather", "[[" + tensor + "], " + tensor + ", " + group("[0, 1]") + "]", "{}");
  }
  EXPECT_EQ(link_all(ranks, extended({0, 1, 2})).at({0, "all_gather.0"}), cell("send_receive", {{1, "all_gather.0"}}));
}

TEST(Extended, UnusableGroupIsNotTheWorld) {
  for (const std::string& unusable : {group("[]"), group("null"), group("[0, 1]", R"("")")}) {
    Ranks ranks;
    for (const int rank : {0, 1}) {
      ranks[rank].call("all_reduce", "[]", keyword("group", unusable));
      ranks[rank].call("all_reduce", "[" + unusable + "]", "{}");
    }
    EXPECT_THAT(link_all(ranks, extended({0, 1})), IsEmpty()) << unusable;
  }
}

TEST(Extended, BackwardAndUnrecordedNodesAreLeftAlone) {
  Ranks ranks;
  for (const int rank : {0, 1}) {
    ranks[rank].add("Distributed.all_reduce.0.backward", R"({"input": [], "output": []})");
    ranks[rank].call("all_reduce", "[]", "{}").entry = JsonValue();
  }
  EXPECT_THAT(link_all(ranks, extended({0, 1})), IsEmpty());
}

TEST(Extended, OtherSpellingOfTheRoot) {
  const std::string g = group("[0, 1]");
  const std::vector<std::tuple<std::string, std::string, std::string>> calls{
      {"broadcast", "[" + tensor + "]", keywords({{"src", integer("1")}, {"group", g}})},
      {"broadcast", "[" + tensor + "]", keywords({{"group_src", integer("1")}, {"group", g}})},
      {"broadcast", "[" + tensor + ", " + integer("1") + "]", "{}"},
      {"reduce", "[" + tensor + "]", keywords({{"dst", integer("1")}, {"group", g}})},
      {"scatter", "[" + tensor + ", [], " + integer("1") + "]", keyword("group", g)},
      {"gather", "[" + tensor + ", null, " + integer("1") + "]", keyword("group", g)},
  };
  for (const auto& [api, arguments, keys] : calls) {
    Ranks ranks;
    ranks[0].call(api, arguments, keys);
    ranks[1].call(api, arguments, keys);
    const bool root_sends = api == "broadcast" || api == "scatter";
    EXPECT_THAT(link_all(ranks), IsEmpty()) << api;
    EXPECT_EQ(link_all(ranks, extended({0, 1})), (Cells{{{0, api + ".0"}, cell(root_sends ? "receive" : "send", {{1, api + ".0"}})},
                                                        {{1, api + ".0"}, cell(root_sends ? "send" : "receive", {{0, api + ".0"}})}}))
        << api << arguments << keys;
  }
}

TEST(Extended, MissingRootIsZero) {
  Ranks ranks;
  for (const int rank : {0, 1}) {
    ranks[rank].call("scatter", "[" + tensor + "]", keyword("group", group("[0, 1]")));
    ranks[rank].call("gather", "[" + tensor + "]", keywords({{"dst", "null"}, {"group", group("[0, 1]")}}));
  }
  const Cells cells = link_all(ranks, extended({0, 1}));
  EXPECT_EQ(cells.at({0, "scatter.0"}), cell("send", {{1, "scatter.0"}}));
  EXPECT_EQ(cells.at({0, "gather.0"}), cell("receive", {{1, "gather.0"}}));
}

TEST(Extended, UnresolvableRootIsNotZero) {
  Ranks ranks;
  for (const int rank : {0, 1}) {
    ranks[rank].call("broadcast", "[" + tensor + "]", keywords({{"group_src", integer("9")}, {"group", group("[0, 1]")}}));
  }
  EXPECT_THAT(link_all(ranks, extended({0, 1})), IsEmpty());
}

TEST(Extended, StatedRootGoesBeforeAnAssumedOne) {
  Ranks ranks;
  ranks[0].call("broadcast", "[" + tensor + "]", keywords({{"src", integer("0")}, {"group", group("[0, 1]")}}));
  ranks[1].call("broadcast", "[" + tensor + ", " + integer("1") + "]", keyword("group", group("[0, 1]")));
  const Cells usual = link_all(ranks);
  EXPECT_EQ(usual.at({1, "broadcast.0"}), cell("send", {{0, "broadcast.0"}}));
  EXPECT_EQ(link_all(ranks, extended({0, 1})), usual);
}

/// The promise of the extended mode: it only adds.
TEST(Extended, LinksOfTheStandardModeStay) {
  std::mt19937 random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same programs in every run
  const auto pick = [&](const std::vector<std::string>& choices) { return choices[random() % choices.size()]; };
  std::size_t added = 0;
  for (int round = 0; round < 200; ++round) {
    Ranks ranks;
    for (const int rank : {0, 1, 2}) {
      for (int number = 0; number < 12; ++number) {
        const std::string peer = integer(std::to_string(random() % 3));
        const std::string api =
            pick({"send", "recv", "isend", "irecv", "broadcast", "reduce", "scatter", "gather", "all_reduce", "all_reduce"});
        const std::string arguments = pick({"[" + tensor + "]", "[" + tensor + ", " + peer + "]", "[" + tensor + ", null, " + peer + "]",
                                            "[" + tensor + ", " + group("[0, 1, 2]") + "]"});
        std::vector<std::pair<std::string, std::string>> members;
        const std::string name = pick({"src", "dst", "group_src", "tag"});
        members.emplace_back(name, pick({peer, peer, "null"}));
        if (random() % 3 != 0) {
          members.emplace_back("group", pick({group("[0, 1, 2]"), group("[1, 0]", R"("h")"), group("[]"), "null"}));
        }
        ranks[rank].call(api, arguments, keywords(members));
      }
    }
    const Cells usual = link_all(ranks);
    const Cells more = link_all(ranks, extended({0, 1, 2}));
    for (const auto& [place, text] : usual) {
      const auto found = more.find(place);
      ASSERT_NE(found, more.end()) << place.first << ' ' << place.second;
      EXPECT_EQ(found->second, text);
    }
    added += more.size() - usual.size();
  }
  EXPECT_GT(added, 1000U);
}

}  // namespace
}  // namespace msvis
