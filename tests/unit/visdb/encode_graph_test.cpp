#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msvis/items.h"
#include "msvis/visdb.h"
#include "support/temporary_directory.h"
#include "support/visdb_check.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;

/// Builds small graphs by hand; nodes are added in any order, node_order is that of a post-order walk.
class GraphMaker {
 public:
  GraphMaker() { add(std::string(root_name), "", NodeType::module, ""); }

  std::uint32_t add(const std::string& name, const std::string& parent, NodeType type, const std::string& entry,
                    const std::string& stack = "[]") {
    const auto index = static_cast<std::uint32_t>(graph.nodes.size());
    Node node;
    node.name = graph.pool.keep(name);
    node.type = type;
    if (!entry.empty()) {
      node.entry = parse(entry);
    }
    node.stack = parse(stack);
    ItemLists lists;
    build_items(node.name, node.entry, graph.pool, lists);
    node.inputs_begin = static_cast<std::uint32_t>(graph.items.size());
    graph.items.insert(graph.items.end(), lists.inputs.begin(), lists.inputs.end());
    node.outputs_begin = static_cast<std::uint32_t>(graph.items.size());
    graph.items.insert(graph.items.end(), lists.outputs.begin(), lists.outputs.end());
    node.items_end = static_cast<std::uint32_t>(graph.items.size());
    graph.by_name[node.name] = index;
    if (!parent.empty()) {
      node.parent = graph.by_name.at(parent);
      Node& above = graph.nodes[node.parent];
      if (above.first_child == no_node) {
        above.first_child = index;
      } else {
        graph.nodes[above.last_child].next_sibling = index;
      }
      above.last_child = index;
    }
    graph.nodes.push_back(node);
    return index;
  }

  Graph& finish() {
    graph.order.clear();
    walk(0);
    return graph;
  }

  JsonValue parse(const std::string& text) {
    texts_.push_back(text);
    documents_.push_back(JsonDocument::parse(texts_.back()));
    return documents_.back().root();
  }

  Graph graph;

 private:
  void walk(std::uint32_t index) {
    for (std::uint32_t child = graph.nodes[index].first_child; child != no_node; child = graph.nodes[child].next_sibling) {
      walk(child);
    }
    graph.order.push_back(index);
  }

  std::deque<std::string> texts_;
  std::deque<JsonDocument> documents_;
};

std::vector<RowBatch> encode(const Graph& graph, const Graph* other = nullptr, const Comparison* comparison = nullptr,
                             std::optional<CompareMode> mode = std::nullopt, Side side = Side::target, std::size_t bytes = 1U << 20U,
                             Compat compat = Compat::standard) {
  std::vector<RowBatch> batches;
  encode_graph(
      graph, other, comparison, mode, side, 0, 1, bytes, [&](RowBatch&& batch) { batches.push_back(std::move(batch)); }, compat);
  return batches;
}

NodeRow row_of(const std::vector<RowBatch>& batches, std::string_view name) {
  for (const RowBatch& batch : batches) {
    for (const NodeRow& row : batch.nodes) {
      if (row.name == name) {
        return row;
      }
    }
  }
  ADD_FAILURE() << "no row " << name;
  return {};
}

constexpr const char* api = "Functional.f.0.forward";

/// input_data of an API with one positional argument.
std::string shown(const std::string& leaf, std::optional<CompareMode> mode = std::nullopt, Compat compat = Compat::standard,
                  const std::string& name = api) {
  GraphMaker maker;
  maker.add(name, std::string(root_name), NodeType::function_api, R"({"input_args": [)" + leaf + "]}");
  const std::string text = row_of(encode(maker.finish(), nullptr, nullptr, mode, Side::target, 1U << 20U, compat), name).input_data;
  const std::string prefix = "{\"" + name + ".input.0\": ";
  EXPECT_TRUE(text.starts_with(prefix)) << text;
  return text.starts_with(prefix) ? text.substr(prefix.size(), text.size() - prefix.size() - 1) : text;
}

constexpr const char* tensor_leaf =
    R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2,3],"Max":1.5,"Min":-2.0,"Mean":0.25,"Norm":3.123456789012,"requires_grad":true)";

TEST(EncodeGraph, Tensor) {
  EXPECT_EQ(shown(std::string(tensor_leaf) + "}"),
            R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": "[2, 3]", "Max": "1.5", "Min": "-2.0", "Mean": "0.25", )"
            R"("Norm": "3.123456789012", "requires_grad": "True", "data_name": "-1"})");
}

TEST(EncodeGraph, Scalars) {
  EXPECT_EQ(
      shown(R"({"type":"int","value":3})"),
      R"({"type": "int", "value": "3", "data_name": "-1", "requires_grad": "null", "Max": "3", "Min": "3", "Mean": "3", "Norm": "3", )"
      R"("dtype": "<class int>", "shape": "[]"})");
  EXPECT_THAT(shown(R"({"type":"float","value":1e-05})"), ::testing::HasSubstr(R"("Max": "1e-05")"));
  EXPECT_THAT(shown(R"({"type":"bool","value":false})"), ::testing::HasSubstr(R"("value": "False")"));
  EXPECT_THAT(shown(R"({"type":"str","value":"it's None"})"), ::testing::HasSubstr(R"("value": "its null")"));
  EXPECT_THAT(shown(R"({"type":"str","value":"0.123456789"})"), ::testing::HasSubstr(R"("value": "0.123457")"));
  EXPECT_THAT(shown(R"({"type":"str","value":"-0.123456789"})"), ::testing::HasSubstr(R"("value": "-0.123456789")"));
  EXPECT_THAT(shown(R"({"type":"float","value":3.123456789012})"), ::testing::HasSubstr(R"("value": "3.123456789012")"));
  EXPECT_THAT(shown(R"({"type":"str","value":" "})"), ::testing::HasSubstr(R"("Max": " ")"));
  EXPECT_THAT(shown(R"({"type":"float","value":NaN})"), ::testing::HasSubstr(R"("Max": "nan")"));
  EXPECT_THAT(shown(R"({"type":"float","value":-Infinity})"), ::testing::HasSubstr(R"("Max": "-inf")"));
}

TEST(EncodeGraph, ProcessGroupKeepsFourMembers) {
  EXPECT_EQ(shown(R"({"type":"torch.ProcessGroup","group_ranks":[0,1],"group_id":"abcd1234"})"),
            R"({"type": "torch.ProcessGroup", "group_ranks": "[0, 1]", "group_id": "abcd1234", "data_name": "-1"})");
}

TEST(EncodeGraph, ItemsWithoutStatisticsCollapse) {
  const std::string null_item = R"({"value": "null"})";
  EXPECT_EQ(shown("null"), null_item);
  EXPECT_EQ(shown(R"({"type":"torch.Size","value":[2,3]})"), null_item);
  EXPECT_EQ(shown(R"({"type":"slice","value":[null,2,null]})"), null_item);
  EXPECT_EQ(shown(R"({"type":"str","value":"None"})"), null_item);
  EXPECT_EQ(shown(R"({"type":"str","value":"'null"})"), null_item);
  EXPECT_EQ(shown(R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[0],"Max":null,"Min":null,"Mean":null,"Norm":null})"),
            null_item);
}

TEST(EncodeGraph, ChecksumsAreShownInMd5ModeOnly) {
  const std::string leaf = std::string(tensor_leaf) + R"(,"md5":"00112233"})";
  EXPECT_THAT(shown(leaf), ::testing::Not(::testing::HasSubstr("md5")));
  EXPECT_THAT(shown(leaf, CompareMode::summary), ::testing::Not(::testing::HasSubstr("md5")));
  EXPECT_THAT(shown(leaf, CompareMode::md5), ::testing::HasSubstr(R"("md5": "00112233", "data_name": "-1"})"));
  EXPECT_THAT(shown(R"({"type":"int","value":3})", CompareMode::md5), ::testing::HasSubstr(R"("shape": "[]", "md5": "6dd28e9b"})"));
}

TEST(EncodeGraph, ChecksumWithoutStatisticsIsKeptUnlessTheReferenceIsFollowed) {
  const std::string leaf =
      R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"requires_grad":false,"md5":"0x0011223344556677"})";
  EXPECT_EQ(shown(leaf, CompareMode::md5, Compat::reference), R"({"value": "null"})");
  EXPECT_EQ(shown(leaf, CompareMode::summary), R"({"value": "null"})");
  EXPECT_EQ(shown(leaf, CompareMode::md5),
            R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": "[2]", "requires_grad": "False", "md5": "0x0011223344556677", )"
            R"("data_name": "-1", "Max": "null", "Min": "null", "Mean": "null", "Norm": "null"})");
  EXPECT_EQ(shown("null", CompareMode::md5), R"({"value": "null"})");
}

TEST(EncodeGraph, UnknownMembersAndOddKeysStay) {
  const std::string text = shown(std::string(tensor_leaf) + R"(,"placements":[{"Shard":{"dim":0}}],"a\"b":null,"error_key":["x",1]})");
  EXPECT_THAT(text, ::testing::HasSubstr(R"("placements": "[{'Shard': {'dim': 0}}]", "a\"b": "null", "error_key": ["x", 1])"));
}

TEST(EncodeGraph, BatchOperationsLoseTheirPeers) {
  const std::string operation = R"({"class_type":"torch.distributed.P2POp","tensor":)" + std::string(tensor_leaf) +
                                R"(},"op":"isend","peer":1,"tag":0,"group_id":"77849d8c"})";
  const std::string batch = shown(operation, std::nullopt, Compat::standard, "Distributed.batch_isend_irecv.0.forward");
  EXPECT_THAT(batch, ::testing::HasSubstr(R"("class_type": "torch.distributed.P2POp"})"));
  EXPECT_THAT(batch, ::testing::Not(::testing::HasSubstr("isend\"")));
  const std::string other = shown(operation, std::nullopt, Compat::standard, "Distributed.other.0.forward");
  EXPECT_THAT(other, ::testing::HasSubstr(
                         R"("class_type": "torch.distributed.P2POp", "op": "isend", "peer": "1", "tag": "0", "group_id": "77849d8c"})"));
}

Row row_for(const Graph& graph, std::string_view name) {
  Row row;
  for (std::uint32_t at = 0; at < graph.items.size(); ++at) {
    if (graph.items[at].full_name == name) {
      row.target_item = at;
      return row;
    }
  }
  ADD_FAILURE() << "no item " << name;
  return row;
}

std::string compared(CompareMode mode, const std::vector<Row>& rows, GraphMaker& maker) {
  Graph& graph = maker.finish();
  Comparison comparison;
  comparison.mode = mode;
  comparison.rows.push_back({graph.by_name.at(api), rows});
  return row_of(encode(graph, &graph, &comparison, mode), api).input_data;
}

TEST(EncodeGraph, ComparisonKeysOfTensorMode) {
  GraphMaker maker;
  maker.add(api, std::string(root_name), NodeType::function_api, R"({"input_args": [{"type":"int","value":3}]})");
  Row row = row_for(maker.graph, "Functional.f.0.forward.input.0");
  row.cells = {Cell::of_number(0.123456789012), Cell::of_text("unsupported"), Cell::of_text("Nan"),
               Cell::of_number(1e-9),           Cell::of_number(1),           Cell::of_blank()};
  row.level = Level::error;
  row.messages = {"error: it's \"None\"", "warning: \xC3\xA4"};
  EXPECT_THAT(compared(CompareMode::tensor, {row}, maker),
              ::testing::HasSubstr(R"("shape": "[]", "Cosine": "0.123456789012", "EucDist": "unsupported", "MaxAbsErr": "Nan", )"
                                   R"("MaxRelativeErr": "1e-09", "One Thousandth Err Ratio": "1.0", "Five Thousandths Err Ratio": " ", )"
                                   R"("Requires_grad Consistent": "False", "Result": "error", )"
                                   R"("Err_message": "[\"error: its \\\"null\\\"\", \"warning: \\u00e4\"]"}})"));
}

TEST(EncodeGraph, ComparisonKeysOfSummaryMode) {
  GraphMaker maker;
  maker.add(api, std::string(root_name), NodeType::function_api, R"({"input_args": [{"type":"int","value":3}]})");
  Row row = row_for(maker.graph, "Functional.f.0.forward.input.0");
  row.cells = {Cell::of_number(0.19999999999999996), Cell::of_text("0"),   Cell::of_text("N/A"), Cell::of_text("inf\t"),
               Cell::of_percent(33.33333333333333),  Cell::of_text("N/A"), Cell::of_percent(20), Cell::of_percent(1.0000000005838672e-05)};
  row.requires_grad_consistent = true;
  row.level = Level::warning;
  EXPECT_THAT(compared(CompareMode::summary, {row}, maker),
              ::testing::HasSubstr(R"("shape": "[]", "Max diff": "0.19999999999999996", "Min diff": "0", "Mean diff": "N/A", )"
                                   R"("L2norm diff": "inf\t", "MaxRelativeErr": "33.333333%", "MinRelativeErr": "N/A", )"
                                   R"("MeanRelativeErr": "20.0%", "NormRelativeErr": "1.0000000005838672e-05%", )"
                                   R"("Requires_grad Consistent": "True", "Result": "warning", "Err_message": "[]"}})"));
}

TEST(EncodeGraph, ComparisonKeysOfMd5AndStructureMode) {
  GraphMaker maker;
  maker.add(api, std::string(root_name), NodeType::function_api, R"({"input_args": [{"type":"int","value":3}]})");
  const Row row = row_for(maker.graph, "Functional.f.0.forward.input.0");
  EXPECT_THAT(compared(CompareMode::md5, {row}, maker),
              ::testing::HasSubstr(R"("md5": "6dd28e9b", "Result": "pass", "Requires_grad Consistent": "False", "Err_message": "[]"}})"));
  EXPECT_THAT(compared(CompareMode::structure, {row}, maker), ::testing::HasSubstr(R"("shape": "[]"}})"));
}

TEST(EncodeGraph, TheLastRowOfANameWinsAndOtherItemsHaveNone) {
  for (const std::size_t more : {std::size_t{0}, std::size_t{40}}) {  // few rows are searched, many are hashed
    GraphMaker maker;
    std::string arguments = R"({"type":"int","value":3},{"type":"int","value":4})";
    for (std::size_t at = 0; at < more; ++at) {
      arguments += R"(,{"type":"int","value":5})";
    }
    maker.add(api, std::string(root_name), NodeType::function_api, R"({"input_args": [)" + arguments + "]}");
    std::vector<Row> rows;
    for (const Level level : {Level::error, Level::warning}) {
      rows.push_back(row_for(maker.graph, "Functional.f.0.forward.input.1"));
      rows.back().level = level;
    }
    for (std::size_t at = 0; at < more; ++at) {
      rows.push_back(row_for(maker.graph, "Functional.f.0.forward.input." + std::to_string(at + 2)));
    }
    const auto data = nlohmann::json::parse(compared(CompareMode::md5, rows, maker));
    EXPECT_FALSE(data["Functional.f.0.forward.input.0"].contains("Result"));
    EXPECT_EQ(data["Functional.f.0.forward.input.1"]["Result"], "warning");
    if (more > 0) {
      EXPECT_EQ(data["Functional.f.0.forward.input.41"]["Result"], "pass");
    }
  }
}

TEST(EncodeGraph, AMetricTakesThePlaceOfAMemberOfTheSameName) {
  GraphMaker maker;
  maker.add(api, std::string(root_name), NodeType::function_api,
            R"({"input_args": [{"type":"int","Result":"mine","Cosine":0,"value":3}]})");
  const std::string text = compared(CompareMode::md5, {row_for(maker.graph, "Functional.f.0.forward.input.0")}, maker);
  EXPECT_THAT(text, ::testing::HasSubstr(R"({"type": "int", "Result": "pass", "Cosine": "0", "value": "3")"));
  EXPECT_THAT(text, ::testing::HasSubstr(R"("md5": "6dd28e9b", "Requires_grad Consistent": "False", "Err_message": "[]"}})"));
}

TEST(EncodeGraph, NodesHaveTheirPlaceInTheTree) {
  GraphMaker maker;
  maker.add("Module.b.B.forward.0", "DefaultModel", NodeType::module, "");
  maker.add("Functional.z.0.forward", "Module.b.B.forward.0", NodeType::function_api, R"({"output": [{"type":"int","value":1}]})");
  maker.add("Functional.\xC3\xA4.0.forward", "Module.b.B.forward.0", NodeType::function_api, "");
  maker.add("Apis_Between_Modules.0", "DefaultModel", NodeType::api_collection, "");
  maker.graph.nodes[1].precision = Precision::warning;
  maker.graph.nodes[1].overflow = Overflow::critical;
  maker.graph.nodes[2].micro_step = 3;
  maker.graph.dump.dump_data_dir = "/d";
  const std::vector<RowBatch> batches = encode(maker.finish());
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0].dump_data_dir, "/d");
  EXPECT_EQ(batches[0].rank, 1);
  std::vector<std::string> names;
  std::vector<std::uint32_t> orders;
  for (const NodeRow& row : batches[0].nodes) {
    names.push_back(row.name);
    orders.push_back(row.node_order);
  }
  EXPECT_THAT(names, ElementsAre("Apis_Between_Modules.0", "DefaultModel", "Functional.z.0.forward", "Functional.\xC3\xA4.0.forward",
                                 "Module.b.B.forward.0"));
  EXPECT_THAT(orders, ElementsAre(3U, 4U, 0U, 1U, 2U));
  const NodeRow root = row_of(batches, "DefaultModel");
  EXPECT_EQ(root.up_node, "");
  EXPECT_EQ(root.sub_nodes, R"(["Module.b.B.forward.0", "Apis_Between_Modules.0"])");
  EXPECT_EQ(root.input_data, "{}");
  EXPECT_EQ(root.output_data, "{}");
  EXPECT_EQ(root.matched_node_link, "[]");
  EXPECT_EQ(root.micro_step, 0);
  const NodeRow module = row_of(batches, "Module.b.B.forward.0");
  EXPECT_EQ(module.up_node, "DefaultModel");
  EXPECT_EQ(module.sub_nodes, R"(["Functional.z.0.forward", "Functional.\u00e4.0.forward"])");
  EXPECT_EQ(module.precision, Precision::warning);
  EXPECT_EQ(module.overflow, Overflow::critical);
  const NodeRow leaf = row_of(batches, "Functional.z.0.forward");
  EXPECT_EQ(leaf.sub_nodes, "");
  EXPECT_EQ(leaf.micro_step, 3);
  EXPECT_EQ(leaf.input_data, "{}");
  EXPECT_TRUE(leaf.output_data.starts_with("{\"Functional.z.0.forward.output.0\": {")) << leaf.output_data;
  EXPECT_EQ(row_of(batches, "Apis_Between_Modules.0").type, NodeType::api_collection);
}

TEST(EncodeGraph, LinksAreTheWayToThePartner) {
  GraphMaker target;
  target.add("Module.a.A.forward.0", "DefaultModel", NodeType::module, "");
  target.add("Functional.f.1.forward", "Module.a.A.forward.0", NodeType::function_api, "");
  GraphMaker golden;
  golden.add("Module.b.\"B\".forward.0", "DefaultModel", NodeType::module, "");
  golden.add("Module.c.C.forward.0", "Module.b.\"B\".forward.0", NodeType::module, "");
  golden.add("Functional.f.0.forward", "Module.c.C.forward.0", NodeType::function_api, "");
  target.graph.nodes[0].link = 0;
  target.graph.nodes[2].link = 3;
  golden.graph.nodes[0].link = 0;
  golden.graph.nodes[3].link = 2;
  const std::vector<RowBatch> left = encode(target.finish(), &golden.finish());
  const std::vector<RowBatch> right = encode(golden.finish(), &target.finish(), nullptr, CompareMode::summary, Side::golden);
  EXPECT_EQ(row_of(left, "DefaultModel").matched_node_link, R"(["DefaultModel"])");
  EXPECT_EQ(row_of(left, "Module.a.A.forward.0").matched_node_link, "[]");
  EXPECT_EQ(row_of(left, "Functional.f.1.forward").matched_node_link,
            R"(["DefaultModel", "Module.b.\"B\".forward.0", "Module.c.C.forward.0", "Functional.f.0.forward"])");
  EXPECT_EQ(row_of(right, "Functional.f.0.forward").matched_node_link,
            R"(["DefaultModel", "Module.a.A.forward.0", "Functional.f.1.forward"])");
  EXPECT_EQ(right[0].side, Side::golden);
}

TEST(EncodeGraph, StacksAreNumberedByFirstUse) {
  GraphMaker maker;
  maker.add("z", "DefaultModel", NodeType::module, "", R"(["one"])");
  maker.add("y", "DefaultModel", NodeType::module, "", R"([])");
  maker.add("x", "DefaultModel", NodeType::module, "", R"([ "one" ])");
  maker.add("w", "DefaultModel", NodeType::module, "", R"(["\u00e4", 1.50, null])");
  maker.add("v", "DefaultModel", NodeType::module, "", R"("text")");
  maker.add("u", "DefaultModel", NodeType::module, "", R"({"a":NaN})");
  const std::vector<RowBatch> batches = encode(maker.finish());
  EXPECT_THAT(batches.at(0).stacks, ElementsAre(R"(["one"])", "[]", R"(["\u00e4", 1.5, null])", R"(["text"])", R"([{"a": "NaN"}])"));
  EXPECT_EQ(row_of(batches, "z").stack, 0U);
  EXPECT_EQ(row_of(batches, "y").stack, 1U);
  EXPECT_EQ(row_of(batches, "x").stack, 0U);
  EXPECT_EQ(row_of(batches, "w").stack, 2U);
  EXPECT_EQ(row_of(batches, "u").stack, 4U);
  EXPECT_EQ(row_of(batches, "DefaultModel").stack, 1U);
}

TEST(EncodeGraph, BatchesAreBoundedAndGiveTheSameFile) {
  GraphMaker maker;
  for (int at = 0; at < 200; ++at) {
    maker.add("Functional.f." + std::to_string(at) + ".forward", "DefaultModel", NodeType::function_api,
              R"({"input_args": [{"type":"int","value":)" + std::to_string(at) + "}]}", R"(["frame )" + std::to_string(at) + R"("])");
  }
  const Graph& graph = maker.finish();
  const std::vector<RowBatch> small = encode(graph, nullptr, nullptr, std::nullopt, Side::target, 2000);
  EXPECT_GT(small.size(), 20U);
  const test::TemporaryDirectory directory;
  std::string texts[2];
  std::size_t written = 0;
  for (const std::vector<RowBatch>& batches : {small, encode(graph)}) {
    VisDbWriter writer(directory.path(), false);
    for (const RowBatch& batch : batches) {
      writer.add(unpack_row_batch(pack(batch)));
    }
    RunConfig config;
    config.ranks = {1};
    config.steps = {0};
    const auto file = writer.finish(config, {}, {});
    EXPECT_EQ(test::visdb_violations(file), "");
    for (const char* table : {"tb_nodes", "tb_stack", "tb_config"}) {
      for (const auto& row : test::query_visdb(file, std::string("SELECT * FROM ") + table + " ORDER BY id")) {
        for (const auto& value : row) {
          texts[written] += value.value_or("NULL") + "\n";
        }
      }
    }
    ++written;
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_GT(texts[0].size(), 10'000U);
}

}  // namespace
}  // namespace msvis
