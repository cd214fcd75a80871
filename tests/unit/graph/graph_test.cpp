#include "msvis/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msvis/error.h"
#include "support/dump_files.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Graph graph_of(std::string_view construct, std::string_view dump = R"({"data": {}})", std::string_view stack = "{}",
               Compat compat = Compat::standard) {
  const test::TemporaryDirectory dir;
  test::write_dump(dir.path(), construct, dump, stack);
  return build_graph(Dump::read(dir.path()), compat);
}

std::vector<std::string> names(const Graph& graph, const std::vector<std::uint32_t>& indices) {
  std::vector<std::string> list;
  for (const std::uint32_t index : indices) {
    list.emplace_back(graph.nodes[index].name);
  }
  return list;
}

std::vector<std::string> children(const Graph& graph, std::string_view name) {
  const std::uint32_t index = graph.find(name);
  EXPECT_NE(index, no_node) << name;
  return index == no_node ? std::vector<std::string>{} : names(graph, graph.children(index));
}

std::string parent(const Graph& graph, std::string_view name) {
  const std::uint32_t index = graph.find(name);
  if (index == no_node || graph.nodes[index].parent == no_node) {
    return "";
  }
  return std::string(graph.nodes[graph.nodes[index].parent].name);
}

TEST(NodeType, IsDecidedByTheBeginningOfTheName) {
  EXPECT_EQ(node_type_of("Module.a.A.forward.0"), NodeType::module);
  EXPECT_EQ(node_type_of("Cell.a.A.forward.0"), NodeType::module);
  EXPECT_EQ(node_type_of("optimizer"), NodeType::module);
  EXPECT_EQ(node_type_of("Tensor.add.0.forward"), NodeType::function_api);
  EXPECT_EQ(node_type_of("MintDistributed.x.0.forward"), NodeType::function_api);  // `Mint.` with any character for the dot
  EXPECT_EQ(node_type_of("TensorX.z.0.forward"), NodeType::function_api);
  EXPECT_EQ(node_type_of("Triton.k.0.forward"), NodeType::module);
  EXPECT_EQ(node_type_of("Foo.bar.0.forward"), NodeType::module);
  EXPECT_EQ(node_type_of("cellX"), NodeType::module);
  EXPECT_EQ(node_type_of("Tensor"), NodeType::module);  // the pattern needs one more character
}

TEST(BuildGraph, NumbersNodesInPostOrderWithTheRootLast) {
  const Graph graph =
      graph_of(R"({"Module.a.A.forward.0": null, "Functional.f.0.forward": "Module.a.A.forward.0", "Module.b.B.forward.0": null})");
  EXPECT_THAT(names(graph, graph.order),
              ElementsAre("Functional.f.0.forward", "Module.a.A.forward.0", "Module.b.B.forward.0", "DefaultModel"));
}

TEST(BuildGraph, OrdersChildrenByTheirOwnEntries) {
  // Module.a is met first as a parent, but stands where its own entry stands.
  const Graph graph =
      graph_of(R"({"Functional.f.0.forward": "Module.a.A.forward.0", "Module.b.B.forward.0": null, "Module.a.A.forward.0": ""})");
  EXPECT_THAT(children(graph, "DefaultModel"), ElementsAre("Module.b.B.forward.0", "Module.a.A.forward.0"));
}

TEST(BuildGraph, RefusesAnEmptyConstruct) {
  try {
    (void)graph_of("{}");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::format);
    EXPECT_THAT(error.what(), HasSubstr("construct.json"));
    EXPECT_THAT(error.what(), HasSubstr("L0 or mix"));
  }
}

constexpr std::string_view dangling = R"({"Functional.relu.0.forward": "Module.a.A.forward.0", "Functional.add.0.forward": null})";

TEST(DanglingParent, IsAttachedToTheRootAtThePlaceOfItsFirstChild) {
  const Graph graph = graph_of(dangling);
  EXPECT_THAT(children(graph, "DefaultModel"), ElementsAre("Module.a.A.forward.0", "Functional.add.0.forward"));
  EXPECT_THAT(children(graph, "Module.a.A.forward.0"), ElementsAre("Functional.relu.0.forward"));
  ASSERT_THAT(graph.warnings, SizeIs(1));
  EXPECT_THAT(graph.warnings[0], HasSubstr("Module.a.A.forward.0"));
  EXPECT_EQ(graph.lost_nodes, 0U);
}

TEST(DanglingParent, LosesItsSubtreeWithTheReference) {
  const Graph graph = graph_of(dangling, R"({"data": {}})", "{}", Compat::reference);
  EXPECT_THAT(names(graph, graph.order), ElementsAre("Functional.add.0.forward", "DefaultModel"));
  EXPECT_EQ(graph.lost_nodes, 2U);
}

TEST(Cycle, IsOpenedAtItsFirstMember) {
  const Graph graph = graph_of(R"({"Module.x.X.forward.0": null, "Module.b.B.forward.0": "Module.c.C.forward.0",
      "Module.c.C.forward.0": "Module.d.D.forward.0", "Module.d.D.forward.0": "Module.b.B.forward.0", "Module.y.Y.forward.0": null})");
  EXPECT_THAT(children(graph, "DefaultModel"), ElementsAre("Module.x.X.forward.0", "Module.b.B.forward.0", "Module.y.Y.forward.0"));
  EXPECT_THAT(children(graph, "Module.b.B.forward.0"), ElementsAre("Module.d.D.forward.0"));
  EXPECT_THAT(children(graph, "Module.d.D.forward.0"), ElementsAre("Module.c.C.forward.0"));
  EXPECT_THAT(children(graph, "Module.c.C.forward.0"), IsEmpty());
  EXPECT_THAT(graph.warnings, SizeIs(1));
}

TEST(Cycle, OfOneNodeIsAttachedToTheRoot) {
  const Graph graph = graph_of(R"({"Module.a.A.forward.0": "Module.a.A.forward.0", "Module.b.B.forward.0": "Module.a.A.forward.0"})");
  EXPECT_THAT(children(graph, "DefaultModel"), ElementsAre("Module.a.A.forward.0"));
  EXPECT_THAT(children(graph, "Module.a.A.forward.0"), ElementsAre("Module.b.B.forward.0"));
  const Graph lost = graph_of(R"({"Module.a.A.forward.0": "Module.a.A.forward.0", "Module.b.B.forward.0": null})", R"({"data": {}})", "{}",
                              Compat::reference);
  EXPECT_THAT(names(lost, lost.order), ElementsAre("Module.b.B.forward.0", "DefaultModel"));
}

TEST(RootName, AsAChildStaysTheRoot) {
  const Graph graph = graph_of(R"({"DefaultModel": "Module.a.A.forward.0", "Module.a.A.forward.0": "DefaultModel"})");
  EXPECT_THAT(names(graph, graph.order), ElementsAre("Module.a.A.forward.0", "DefaultModel"));
}

TEST(InplaceLayer, GivesTheBackwardNodeTheParentOfItsForwardTwin) {
  const Graph graph = graph_of(R"({"Module.layer.A.forward.0": null, "Module.layer.conv.C.forward.0": "Module.layer.A.forward.0",
      "Module.layer.relu.ReLU.forward.0": "Module.layer.A.forward.0", "Module.layer.relu.ReLU.backward.0": "Module.layer.A.backward.0",
      "Module.layer.conv.C.backward.0": "Module.layer.relu.ReLU.backward.0", "Module.layer.A.backward.0": null})");
  EXPECT_EQ(parent(graph, "Module.layer.conv.C.backward.0"), "Module.layer.A.backward.0");
}

TEST(MissingParent, OfABackwardModuleIsItsTwinsParent) {
  const Graph graph = graph_of(R"({"Module.n.N.forward.0": null, "Module.n.a.A.forward.0": "Module.n.N.forward.0",
      "Module.n.N.backward.0": null, "Module.n.a.A.backward.0": null})");
  EXPECT_EQ(parent(graph, "Module.n.a.A.backward.0"), "Module.n.N.backward.0");
}

TEST(MissingParent, OfABackwardApiIsItsTwinsParent) {
  constexpr std::string_view construct = R"({"Module.n.N.forward.0": null, "Tensor.mean.0.forward": "Module.n.N.forward.0",
      "Functional.backward_x.0.forward": "Module.n.N.forward.0", "Module.n.N.backward.0": null, "Tensor.mean.0.backward": null,
      "Functional.backward_x.0.backward": null})";
  const Graph graph = graph_of(construct);
  EXPECT_EQ(parent(graph, "Tensor.mean.0.backward"), "Module.n.N.backward.0");
  EXPECT_EQ(parent(graph, "Functional.backward_x.0.backward"), "Module.n.N.backward.0");
  // The reference replaces every "backward" and so looks for Functional.forward_x.0.forward.
  const Graph reference = graph_of(construct, R"({"data": {}})", "{}", Compat::reference);
  EXPECT_EQ(parent(reference, "Tensor.mean.0.backward"), "Module.n.N.backward.0");
  EXPECT_EQ(parent(reference, "Functional.backward_x.0.backward"), "DefaultModel");
}

std::string stack_text(const Graph& graph, std::string_view name) {
  std::string text;
  for (const JsonValue frame : graph.nodes[graph.find(name)].stack.elements()) {
    text += std::string(frame.text()) + ";";
  }
  return text;
}

TEST(Stack, OfABackwardNodeIsThatOfForwardCallNumber0) {
  const Graph graph = graph_of(
      R"({"Module.a.A.forward.0": null, "Module.a.A.forward.1": null, "Module.a.A.backward.1": null, "Tensor.f.2.forward": null,
          "Tensor.f.2.backward": null, "Tensor.g.0.backward": null, "Tensor.g.0.forward": null, "Module.z.Z.forward.0": null})",
      R"({"data": {}})",
      R"({"0": [["Module.a.A.forward.0"], ["first"]], "1": [["Module.a.A.forward.1", "Tensor.f.2.forward", "Tensor.g.0.forward"], ["second"]]})");
  EXPECT_EQ(stack_text(graph, "Module.a.A.backward.1"), "first;");
  EXPECT_EQ(stack_text(graph, "Tensor.f.2.backward"), "second;");
  EXPECT_THAT(stack_text(graph, "Tensor.g.0.backward"), HasSubstr("not known"));  // comes before its forward node
  EXPECT_EQ(stack_text(graph, "Module.z.Z.forward.0"), "");
}

TEST(Collection, TakesRunsOfAtLeastTwoApisBelowTheRoot) {
  const Graph graph =
      graph_of(R"({"Torch.a.0.forward": null, "Module.m.M.forward.0": null, "Torch.b.0.forward": null, "Torch.c.0.forward": null,
      "Module.n.N.forward.0": null, "Torch.d.0.forward": null, "Torch.e.0.forward": null, "Torch.x.0.forward": "Module.n.N.forward.0",
      "Torch.y.0.forward": "Module.n.N.forward.0"})");
  EXPECT_THAT(children(graph, "DefaultModel"), ElementsAre("Torch.a.0.forward", "Module.m.M.forward.0", "Apis_Between_Modules.0",
                                                           "Module.n.N.forward.0", "Apis_Between_Modules.1"));
  EXPECT_THAT(children(graph, "Apis_Between_Modules.0"), ElementsAre("Torch.b.0.forward", "Torch.c.0.forward"));
  EXPECT_THAT(children(graph, "Apis_Between_Modules.1"), ElementsAre("Torch.d.0.forward", "Torch.e.0.forward"));
  EXPECT_EQ(graph.nodes[graph.find("Apis_Between_Modules.0")].type, NodeType::api_collection);
  EXPECT_EQ(parent(graph, "Torch.c.0.forward"), "Apis_Between_Modules.0");
}

TEST(Collection, DoesNotTakeANameThatTheDumpHas) {
  const Graph graph = graph_of(R"({"Apis_Between_Modules.0": null, "Torch.b.0.forward": null, "Torch.c.0.forward": null})");
  EXPECT_THAT(children(graph, "DefaultModel"), ElementsAre("Apis_Between_Modules.0", "Apis_Between_Modules.1"));
}

TEST(ParameterGradients, HangBelowTheLastBackwardCall) {
  const Graph graph = graph_of(
      R"({"Module.a.A.backward.0": null, "Module.a.A.backward.9": null, "Module.a.A.backward.10": null, "Torch.a.backward.y": null})",
      R"({"data": {"Module.a.A.parameters_grad": {}, "Module.a.A.parameters_grad.0": {}, "Module.b.B.parameters_grad": {}, "Torch.f.0.forward": {}}})");
  EXPECT_THAT(children(graph, "Module.a.A.backward.10"), ElementsAre("Module.a.A.parameters_grad", "Module.a.A.parameters_grad.0"));
  EXPECT_EQ(graph.find("Module.b.B.parameters_grad"), no_node);
  EXPECT_EQ(graph.find("Torch.f.0.forward"), no_node);
}

constexpr std::string_view recompute_stack =
    R"({"0": [["Module.net.l0.L.forward.1", "Module.net.l0.L.forward.0"], ["File /x/torch/utils/checkpoint.py, line 3, in recompute_fn, \n y"]]})";
constexpr std::string_view recompute_construct =
    R"({"Module.net.Net.forward.0": null, "Module.net.l0.L.forward.0": "Module.net.Net.forward.0",
    "Module.net.Net.backward.0": null, "Module.net.l0.L.forward.1": null, "Module.net.l0.L.backward.1": null})";

TEST(Recompute, MovesReExecutedModulesBelowTheBackwardNode) {
  const Graph graph = graph_of(recompute_construct, R"({"framework": "pytorch", "data": {}})", recompute_stack);
  EXPECT_THAT(children(graph, "DefaultModel"), ElementsAre("Module.net.Net.forward.0", "Module.net.Net.backward.0"));
  EXPECT_THAT(children(graph, "Module.net.Net.backward.0"), ElementsAre("Module.net.l0.L.forward.1", "Module.net.l0.L.backward.1"));
}

TEST(Recompute, NeedsAStackThatSaysSoForPyTorchOnly) {
  const Graph pytorch = graph_of(recompute_construct, R"({"framework": "pytorch", "data": {}})");
  EXPECT_EQ(parent(pytorch, "Module.net.l0.L.forward.1"), "DefaultModel");
  const Graph mindspore = graph_of(recompute_construct, R"({"framework": "mindspore", "data": {}})");
  EXPECT_EQ(parent(mindspore, "Module.net.l0.L.forward.1"), "Module.net.Net.backward.0");
}

std::vector<std::int64_t> top_micro_steps(const Graph& graph) {
  std::vector<std::int64_t> steps;
  for (const std::uint32_t child : graph.children(0)) {
    steps.push_back(graph.nodes[child].micro_step);
  }
  return steps;
}

TEST(MicroSteps, CountForwardModulesAfterABackwardOne) {
  Graph graph = graph_of(R"({"Module.a.A.forward.0": null, "Module.a.A.backward.0": null, "optimizer": null, "Module.a.A.forward.1": null,
      "Module.a.A.backward.1": null, "Torch.b.0.forward": null, "Torch.c.0.forward": null, "Torch.d.0.forward": "Module.a.A.forward.1"})");
  EXPECT_EQ(assign_micro_steps(graph, nullptr, Compat::standard), 2);
  EXPECT_THAT(top_micro_steps(graph), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_EQ(graph.nodes[graph.find("Torch.d.0.forward")].micro_step, 1);
}

TEST(MicroSteps, AreReadFromTheMegatronForm) {
  constexpr std::string_view construct = R"({"megatron_micro_step_number": 1, "Module.a.A.forward.0": [null, 0],
      "Functional.f.0.forward": ["Module.a.A.forward.0", 0], "Module.a.A.forward.1": [null, 1], "Module.a.A.backward.1": [null, 1]})";
  constexpr std::string_view dump = R"({"data": {"Module.a.A.parameters_grad.0": {}}})";
  Graph graph = graph_of(construct, dump);
  EXPECT_EQ(assign_micro_steps(graph, nullptr, Compat::standard), 2);
  EXPECT_THAT(top_micro_steps(graph), ElementsAre(0, 1, 1));
  EXPECT_EQ(graph.nodes[graph.find("Module.a.A.parameters_grad.0")].micro_step, 1);
  const Graph reference = graph_of(construct, dump, "{}", Compat::reference);
  EXPECT_EQ(reference.nodes[reference.find("Module.a.A.parameters_grad.0")].micro_step, -1);
}

TEST(MicroSteps, OfTheGoldenFollowTheMatchedTarget) {
  Graph target = graph_of(R"({"Module.a.A.forward.0": null, "Module.a.A.backward.0": null, "Module.a.A.forward.1": null})");
  Graph golden =
      graph_of(R"({"Module.a.A.forward.0": null, "Module.a.A.forward.1": null, "Module.x.X.forward.7": null, "optimizer": null})");
  for (const std::string_view name : {"Module.a.A.forward.0", "Module.a.A.forward.1"}) {
    target.nodes[target.find(name)].link = golden.find(name);
  }
  EXPECT_EQ(assign_micro_steps(target, &golden, Compat::standard), 2);
  EXPECT_THAT(top_micro_steps(golden), ElementsAre(0, 1, 1, 0));  // 7 is the last page at most
  golden = graph_of(R"({"Module.x.X.forward.7": null})");
  EXPECT_EQ(assign_micro_steps(target, nullptr, Compat::reference), 2);
  Graph other = graph_of(R"({"Module.a.A.forward.0": null})");
  EXPECT_EQ(assign_micro_steps(other, &golden, Compat::reference), 1);
  EXPECT_THAT(top_micro_steps(golden), ElementsAre(7));
}

TEST(BatchOperations, ComeFromTheFirstOutput) {
  const JsonDocument document =
      JsonDocument::parse(R"({"output": [[{"op": "isend", "peer": 1, "group_id": "g"}, {"op": "irecv", "peer": 2}, "junk"]]})");
  const auto operations = batch_operations("Distributed.batch_isend_irecv.0.forward", document.root());
  ASSERT_THAT(operations, SizeIs(2));
  EXPECT_EQ(operations[0].op.text(), "isend");
  EXPECT_EQ(operations[0].peer.text(), "1");
  EXPECT_EQ(operations[1].op.text(), "irecv");
  EXPECT_TRUE(operations[1].group_id.is_null());
  EXPECT_THAT(batch_operations("Distributed.isend.0.forward", document.root()), IsEmpty());
  const JsonDocument flat = JsonDocument::parse(R"({"output": []})");
  EXPECT_THAT(batch_operations("Distributed.batch_isend_irecv.0.forward", flat.root()), IsEmpty());
}

TEST(DeepGraph, OfAHundredThousandLevelsIsBuilt) {
  std::string construct = R"({"Module.m0.M.forward.0": null)";
  for (int level = 1; level < 100'000; ++level) {
    construct += ", \"Module.m" + std::to_string(level) + ".M.forward.0\": \"Module.m" + std::to_string(level - 1) + ".M.forward.0\"";
  }
  Graph graph = graph_of(construct + "}");
  EXPECT_EQ(graph.order.size(), 100'001U);
  EXPECT_EQ(graph.order.back(), 0U);
  EXPECT_EQ(assign_micro_steps(graph, nullptr, Compat::standard), 1);
}

}  // namespace
}  // namespace msvis
