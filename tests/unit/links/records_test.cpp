#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "links/call.h"
#include "unit/links/hand_graph.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const LinkOptions standard{};
const LinkOptions reference{.compat = Compat::reference, .world_ranks = {}};

std::vector<std::string> names_of(const std::vector<LinkRecord>& records) {
  std::vector<std::string> names;
  for (const LinkRecord& record : records) {
    names.push_back(short_name(record.name));
  }
  return names;
}

TEST(CommunicationApi, Names) {
  EXPECT_EQ(communication_api("Distributed.all_reduce.3.forward"), "all_reduce");
  EXPECT_EQ(communication_api("DistributedX.send.0.forward"), "send");
  EXPECT_EQ(communication_api("Distributed.send"), "send");
  EXPECT_EQ(communication_api("Distributed"), std::nullopt);
  EXPECT_EQ(communication_api("MintDistributed.send.0.forward"), std::nullopt);
  EXPECT_EQ(communication_api("NPU.send.0.forward"), std::nullopt);
  EXPECT_EQ(communication_api("distributed.send.0.forward"), std::nullopt);
}

TEST(ApiRules, Table) {
  for (const char* api : {"all_reduce", "all_gather", "all_to_all", "all_to_all_single", "reduce_scatter", "_reduce_scatter_base",
                          "_all_gather_base", "all_gather_into_tensor", "reduce_scatter_tensor", "barrier", "unknown"}) {
    EXPECT_EQ(api_rule(api).kind, LinkKind::symmetric) << api;
  }
  struct Row {
    const char* api;
    LinkKind kind;
    bool sends;
    const char* parameter;
  };
  for (const Row& row : {Row{"send", LinkKind::p2p, true, "dst"}, Row{"recv", LinkKind::p2p, false, "src"},
                         Row{"isend", LinkKind::p2p, true, "dst"}, Row{"irecv", LinkKind::p2p, false, "src"},
                         Row{"broadcast", LinkKind::rooted, true, "1"}, Row{"scatter", LinkKind::rooted, true, "src"},
                         Row{"gather", LinkKind::rooted, false, "dst"}, Row{"reduce", LinkKind::rooted, false, "1"}}) {
    const ApiRule rule = api_rule(row.api);
    EXPECT_EQ(rule.kind, row.kind) << row.api;
    EXPECT_EQ(rule.sends, row.sends) << row.api;
    EXPECT_EQ(rule.parameter, row.parameter) << row.api;
  }
  EXPECT_EQ(api_rule("batch_isend_irecv").kind, LinkKind::batch);
}

TEST(RankNumber, OnlyAsRanksArePrinted) {
  EXPECT_EQ(rank_number("0"), 0);
  EXPECT_EQ(rank_number("1024"), 1024);
  for (const char* text : {"", "01", "+1", "-1", "1.0", " 1", "1 ", "True", "null", "0x1", "9223372036854775808"}) {
    EXPECT_EQ(rank_number(text), std::nullopt) << text;
  }
}

/// Whether the calls of section 4's table can be linked.
TEST(LinkRecords, SpellingsOfCalls) {
  HandGraph hand;
  const std::string g = group("[0, 1, 2, 3]");
  hand.call("send", "[" + tensor + "]", keyword("dst", integer("1")));                                   // yes
  hand.call("send", "[" + tensor + ", " + integer("3") + "]", "{}");                                     // no
  hand.call("irecv", "[null]", keywords({{"src", integer("3")}, {"group", g}, {"tag", integer("5")}}));  // yes
  hand.call("broadcast", "[" + tensor + ", " + integer("0") + "]", keyword("group", g));                 // yes
  hand.call("broadcast", "[" + tensor + "]", keywords({{"src", integer("0")}, {"group", g}}));           // counted, no root
  hand.call("broadcast", "[" + tensor + ", " + integer("2") + "]", "{}");                                // no
  hand.call("reduce", "[" + tensor + ", " + integer("0") + "]", keyword("group", g));                    // yes
  hand.call("scatter", "[" + tensor + "]", keywords({{"src", integer("0")}, {"group", g}}));             // yes
  hand.call("scatter", "[" + tensor + "]", keyword("group", g));                                         // counted, no root
  hand.call("gather", "[" + tensor + "]", keywords({{"dst", integer("0")}, {"group", g}}));              // yes
  hand.call("all_reduce", "[" + tensor + "]", keyword("group", g));                                      // yes
  hand.call("all_reduce", "[" + tensor + "]", "{}");                                                     // no
  hand.call("all_gather", "[[" + tensor + "], " + tensor + ", " + g + "]", "{}");                        // no
  for (const LinkOptions& options : {standard, reference}) {
    const auto records = link_records(hand.graph(), Side::target, 0, 0, options);
    EXPECT_THAT(names_of(records), ElementsAre("send.0", "irecv.0", "broadcast.0", "broadcast.1", "reduce.0", "scatter.0", "scatter.1",
                                               "gather.0", "all_reduce.0"));
    std::vector<bool> roots;
    for (const LinkRecord& record : records) {
      roots.push_back(record.is_root);
    }
    EXPECT_THAT(roots, ElementsAre(false, false, true, false, true, true, false, true, false));
  }
}

TEST(LinkRecords, Fields) {
  HandGraph hand;
  hand.add("Module.m.Net.forward.0", "{}");
  hand.call("broadcast", "[" + tensor + ", " + integer("3") + "]", keyword("group", group("[3, 0, 3]"))).precision = Precision::warning;
  hand.call("recv", "[" + tensor + "]", keyword("src", integer("0"))).overflow = Overflow::critical;
  const auto records = link_records(hand.graph(), Side::golden, 7, 3, standard);
  ASSERT_EQ(records.size(), 2U);
  const LinkRecord& broadcast = records[0];
  EXPECT_EQ(broadcast.step, 7);
  EXPECT_EQ(broadcast.rank, 3);
  EXPECT_EQ(broadcast.side, Side::golden);
  EXPECT_EQ(broadcast.kind, LinkKind::rooted);
  EXPECT_TRUE(broadcast.is_root);
  EXPECT_TRUE(broadcast.sends);
  EXPECT_FALSE(broadcast.assumed_root);
  EXPECT_EQ(broadcast.index, "0.5");
  EXPECT_EQ(broadcast.node_order, 1U);
  EXPECT_EQ(broadcast.name, "Distributed.broadcast.0.forward");
  EXPECT_THAT(broadcast.group_ranks, ElementsAre(3, 0));
  const LinkRecord& receive = records[1];
  EXPECT_EQ(receive.kind, LinkKind::p2p);
  EXPECT_FALSE(receive.sends);
  EXPECT_EQ(receive.index, "Nan");
  EXPECT_THAT(receive.group_ranks, IsEmpty());
  EXPECT_EQ(link_records(hand.graph(), Side::golden, 7, 3, {.overflow_index = true, .world_ranks = {}})[1].index, "critical");
}

TEST(LinkRecords, IndexTexts) {
  const std::vector<std::pair<Precision, std::string>> precisions{
      {Precision::none, "Nan"}, {Precision::pass, "0"}, {Precision::warning, "0.5"}, {Precision::error, "1"}};
  const std::vector<std::pair<Overflow, std::string>> overflows{
      {Overflow::none, "Nan"}, {Overflow::medium, "medium"}, {Overflow::high, "high"}, {Overflow::critical, "critical"}};
  for (std::size_t row = 0; row < precisions.size(); ++row) {
    HandGraph hand;
    Node& node = hand.call("send", "[]", keyword("dst", integer("1")));
    node.precision = precisions[row].first;
    node.overflow = overflows[row].first;
    EXPECT_EQ(link_records(hand.graph(), Side::target, 0, 0, standard)[0].index, precisions[row].second);
    EXPECT_EQ(link_records(hand.graph(), Side::target, 0, 0, {.overflow_index = true, .world_ranks = {}})[0].index, overflows[row].second);
  }
}

TEST(LinkRecords, OddPeers) {
  struct Row {
    const char* peer;
    bool links;
  };
  for (const Row& row :
       {Row{R"({"type": "int", "value": 1})", true}, Row{R"({"type": "int", "value": "1"})", true},
        Row{R"({"type": "int", "value": 1.0})", false}, Row{R"({"type": "int", "value": true})", false},
        Row{R"({"type": "int", "value": null})", false}, Row{"null", false}, Row{R"({"type": "int", "value": -1})", false},
        Row{R"({"type": "str", "value": "01"})", false}, Row{R"({"type": "int"})", false},
        Row{R"({"type": "torch.Tensor", "dtype": "torch.int64", "shape": [], "Max": 1, "Min": 1, "Mean": 1, "Norm": 1})", false},
        Row{R"({"type": "int", "value": 9223372036854775808})", false}}) {
    for (const LinkOptions& options : {standard, reference}) {
      Ranks ranks;
      ranks[0].call("send", "[]", keyword("dst", row.peer));
      ranks[1].call("recv", "[]", keyword("src", integer("0")));
      EXPECT_EQ(link_all(ranks, options).size(), row.links ? 2U : 0U) << row.peer;
    }
  }
}

TEST(LinkRecords, OddGroups) {
  struct Row {
    std::string group;
    bool links;
  };
  for (const Row& row : {Row{group("[0, 1]"), true},
                         Row{group(R"("[0, 1]")"), true},
                         Row{group(R"(" [ 0 ,1, ] ")"), true},
                         Row{group("[]"), false},
                         Row{group(R"("[]")"), false},
                         Row{group("null"), false},
                         Row{group(R"("5")"), false},
                         Row{group("5"), false},
                         Row{group(R"("[0, 1")"), false},
                         Row{group(R"("[0 1]")"), false},
                         Row{group(R"("[0,, 1]")"), false},
                         Row{group(R"("0, 1")"), false},
                         Row{group(R"("[rank0, 1]")"), false},
                         Row{group(R"("[01, 1]")"), false},
                         Row{group(R"("[inf]")"), false},
                         Row{group(R"("[")"), false},
                         Row{group(R"("[']")"), false},
                         Row{group(R"({"0": 1})"), false},
                         Row{group("[0, 1]", R"("")"), false},
                         Row{group("[0, 1]", "null"), true},
                         Row{group("[0, 1]", "17"), true},
                         Row{R"({"type": "torch.ProcessGroup", "group_id": "g"})", false},
                         Row{R"({"type": "torch.ProcessGroup", "group_ranks": [0, 1]})", false},
                         Row{"null", false},
                         Row{tensor, false},
                         Row{integer("0"), false},
                         Row{group("[0.0, 1.0]"), false},
                         Row{group("[true, false]"), false},
                         Row{group(R"(["0", "1"])"), true},
                         Row{group("[0, null, 1]"), true}}) {
    for (const LinkOptions& options : {standard, reference}) {
      Ranks ranks;
      ranks[0].call("all_reduce", "[]", keyword("group", row.group));
      ranks[1].call("all_reduce", "[]", keyword("group", row.group));
      EXPECT_EQ(link_all(ranks, options).size(), row.links ? 2U : 0U)
          << row.group << (options.compat == Compat::reference ? " reference" : "");
    }
  }
}

TEST(LinkRecords, MindSporeGroupsLinkByDefaultOnly) {
  Ranks ranks;
  for (const int rank : {0, 1}) {
    ranks[rank].call("all_reduce", "[]", keyword("group", group("[0, 1]", R"("g")", "mindspore.ProcessGroup")));
  }
  EXPECT_EQ(link_all(ranks, standard), (Cells{{{0, "all_reduce.0"}, cell("send_receive", {{1, "all_reduce.0"}})},
                                              {{1, "all_reduce.0"}, cell("send_receive", {{0, "all_reduce.0"}})}}));
  EXPECT_THAT(link_all(ranks, reference), IsEmpty());
}

TEST(LinkRecords, ReferenceReadsStoredText) {
  // An apostrophe is lost on the way into the result file.
  Ranks ranks;
  ranks[0].call("send", "[]", keyword("dst", R"({"type": "str", "value": "'1'"})"));
  ranks[1].call("recv", "[]", keyword("src", integer("0")));
  EXPECT_THAT(link_all(ranks, standard), IsEmpty());
  EXPECT_EQ(link_all(ranks, reference).size(), 2U);
}

TEST(LinkRecords, BackwardNodesAreNotCounted) {
  Ranks ranks;
  for (const int rank : {0, 1}) {
    ranks[rank].add("Distributed.all_reduce.0.backward", R"({"input": [)" + tensor + R"(], "output": [)" + tensor + "]}");
    ranks[rank].call("all_reduce", "[]", keyword("group", group("[0, 1]")));
    if (rank == 0) {
      ranks[rank].call("all_reduce", "[]", "{}");  // no group: not counted either
    }
    ranks[rank].call("all_reduce", "[]", keyword("group", group("[0, 1]")));
  }
  EXPECT_EQ(link_all(ranks).at({0, "all_reduce.2"}), cell("send_receive", {{1, "all_reduce.1"}}));
}

TEST(LinkRecords, CountsInNodeOrder) {
  Ranks ranks;
  for (const int rank : {0, 1}) {
    for (int number = 0; number < 2; ++number) {
      ranks[rank].call("all_reduce", "[]", keyword("group", group("[0, 1]")));
    }
  }
  std::swap(ranks[0].graph().order[0], ranks[0].graph().order[1]);  // visited in another order than the numbers of the calls
  const Cells cells = link_all(ranks);
  EXPECT_EQ(cells.at({0, "all_reduce.1"}), cell("send_receive", {{1, "all_reduce.0"}}));
  EXPECT_EQ(cells.at({0, "all_reduce.0"}), cell("send_receive", {{1, "all_reduce.1"}}));
}

TEST(LinkRecords, UnreachableNodesTakeNoPart) {
  HandGraph hand;
  hand.call("send", "[]", keyword("dst", integer("1")));
  hand.graph().order.erase(hand.graph().order.begin());
  EXPECT_THAT(link_records(hand.graph(), Side::target, 0, 0, standard), IsEmpty());
}

TEST(LinkRecords, SeparatorsInTextsDoNotMakeEqualKeys) {
  Ranks ranks;
  ranks[0].add("Distributed.y|x.0.forward", R"({"input_kwargs": )" + keyword("group", group("[0, 1]", R"("g")")) + "}");
  ranks[1].add("Distributed.x.0.forward", R"({"input_kwargs": )" + keyword("group", group("[0, 1]", R"("g|y")")) + "}");
  EXPECT_THAT(link_all(ranks), IsEmpty());
}

std::string batch(const std::vector<std::string>& all) {
  std::string operations;
  for (const std::string& one : all) {
    operations += (operations.empty() ? "[" : ", ") + one;
  }
  operations += ']';
  return R"({"input_args": [)" + operations + R"(], "input_kwargs": {}, "output": [)" + operations + "]}";
}

std::string operation(const std::string& op, const std::string& peer, const std::string& group_id = "g") {
  return R"({"class_type": "torch.distributed.P2POp", "tensor": )" + tensor + R"(, "op": ")" + op + R"(", "peer": )" + peer +
         R"(, "tag": 0, "group_id": ")" + group_id + "\"}";
}

TEST(Batch, OneRecordPerOperation) {
  HandGraph hand;
  hand.add("Distributed.batch_isend_irecv.0.forward",
           batch({operation("isend", "1"), "7", R"({"op": "isend"})", R"({"peer": 1})", operation("irecv", R"("3")"),
                  operation("isend", "null"), operation("other", "1"), operation("isend", "1.0")}));
  const auto records = link_records(hand.graph(), Side::target, 0, 0, standard);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].kind, LinkKind::batch);
  EXPECT_TRUE(records[0].sends);
  EXPECT_FALSE(records[1].sends);
  EXPECT_LT(records[0].operation, records[1].operation);
  EXPECT_THAT(link_records(hand.graph(), Side::target, 0, 0, reference), IsEmpty());
}

TEST(Batch, NodesWithoutOperations) {
  for (const char* output : {"[]", "[[]]", "[{}]", "null", "[3]"}) {
    HandGraph hand;
    hand.add("Distributed.batch_isend_irecv.0.forward", std::string(R"({"input_args": [], "output": )") + output + "}");
    EXPECT_THAT(link_records(hand.graph(), Side::target, 0, 0, standard), IsEmpty()) << output;
  }
}

TEST(Batch, MergedToOneObject) {
  Ranks ranks;
  ranks[0].add("Distributed.batch_isend_irecv.0.forward", batch({operation("isend", "1"), operation("irecv", "3")}));
  ranks[1].add("Distributed.batch_isend_irecv.0.forward", batch({operation("irecv", "0")}));
  ranks[3].add("Distributed.batch_isend_irecv.0.forward", batch({operation("isend", "0"), operation("isend", "2")}));
  const std::string name = "batch_isend_irecv.0";
  EXPECT_EQ(link_all(ranks), (Cells{{{0, name}, cell("send_receive", {{1, name}, {3, name}})},
                                    {{1, name}, cell("receive", {{0, name}})},
                                    {{3, name}, cell("send", {{0, name}})}}));
}

TEST(Batch, CountsOverAllNodesAndApartFromPlainCalls) {
  Ranks ranks;
  ranks[0].call("isend", "[]", keyword("dst", integer("1")));
  ranks[0].add("Distributed.batch_isend_irecv.0.forward", batch({operation("isend", "1")}));
  ranks[0].add("Distributed.batch_isend_irecv.1.forward", batch({operation("isend", "1")}));
  ranks[1].add("Distributed.batch_isend_irecv.0.forward", batch({operation("irecv", "0"), operation("irecv", "0")}));
  EXPECT_EQ(link_all(ranks), (Cells{{{0, "batch_isend_irecv.0"}, cell("send", {{1, "batch_isend_irecv.0"}})},
                                    {{0, "batch_isend_irecv.1"}, cell("send", {{1, "batch_isend_irecv.0"}})},
                                    // Both operations have the same peer: the first one that matched supplies the entry.
                                    {{1, "batch_isend_irecv.0"}, cell("receive", {{0, "batch_isend_irecv.0"}})}}));
}

TEST(Batch, GroupsAreKeptApart) {
  Ranks ranks;
  ranks[0].add("Distributed.batch_isend_irecv.0.forward", batch({operation("isend", "1", "a")}));
  ranks[1].add("Distributed.batch_isend_irecv.0.forward", batch({operation("irecv", "0", "b")}));
  EXPECT_THAT(link_all(ranks), IsEmpty());
}

TEST(Batch, MissingGroupIsEmptyText) {
  Ranks ranks;
  ranks[0].add("Distributed.batch_isend_irecv.0.forward", batch({R"({"op": "isend", "peer": 1})"}));
  ranks[1].add("Distributed.batch_isend_irecv.0.forward", batch({R"({"op": "irecv", "peer": 0, "group_id": ""})"}));
  EXPECT_EQ(link_all(ranks).size(), 2U);
}

TEST(Batch, ToOneself) {
  Ranks ranks;
  ranks[0].add("Distributed.batch_isend_irecv.0.forward", batch({operation("isend", "0"), operation("irecv", "0")}));
  EXPECT_EQ(link_all(ranks), (Cells{{{0, "batch_isend_irecv.0"}, cell("send_receive", {{0, "batch_isend_irecv.0"}})}}));
}

}  // namespace
}  // namespace msvis
