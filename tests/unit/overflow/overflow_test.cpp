#include "overflow/overflow.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace msvis {
namespace {

const std::string good = R"({"type": "torch.Tensor", "Max": 1.0, "Min": 0.5, "Mean": 0.75, "Norm": 1.118})";
const std::string bad = R"({"type": "torch.Tensor", "Max": NaN, "Min": NaN, "Mean": NaN, "Norm": NaN})";

std::string with_norm(const std::string& norm, const std::string& type = "torch.Tensor") {
  return R"({"type": ")" + type + R"(", "Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": )" + norm + "}";
}

std::string entry(const std::string& inputs, const std::string& keywords, const std::string& outputs) {
  return R"({"input_args": )" + inputs + R"(, "input_kwargs": )" + keywords + R"(, "output": )" + outputs + "}";
}

std::string list(const std::vector<std::string>& elements) {
  std::string text = "[";
  for (const std::string& element : elements) {
    text += (text.size() == 1 ? "" : ", ") + element;
  }
  return text + "]";
}

std::string call(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  return entry(list(inputs), "{}", list(outputs));
}

Overflow level(const std::string& text) {
  const JsonDocument document = JsonDocument::parse(text);
  return overflow_level(document.root());
}

/// The level of an output whose only odd member is this one.
Overflow level_of_statistic(const std::string& name, const std::string& value) {
  std::string tensor = R"({"type": "torch.Tensor")";
  for (const char* statistic : {"Max", "Min", "Mean", "Norm"}) {
    tensor += std::string(", \"") + statistic + "\": " + (name == statistic ? value : "1.0");
  }
  return level(call({good}, {tensor + "}"}));
}

TEST(OverflowLevel, BadSpellings) {
  for (const char* value :
       {"NaN", "Infinity", "-Infinity", "1e999", "-1e999", R"("nan")", R"("NaN")", R"("NAN")", R"("inf")", R"("-Inf")"}) {
    for (const char* statistic : {"Max", "Min", "Mean"}) {
      EXPECT_EQ(level_of_statistic(statistic, value), Overflow::critical) << statistic << ' ' << value;
    }
  }
}

TEST(OverflowLevel, SpellingsThatAreNotBad) {
  for (const char* value : {R"("Infinity")", R"("-Infinity")", R"("+inf")", R"(" nan")", R"("infinite")", R"("na")", R"("")", "null",
                            "true", "false", "0", "-7", "1.5", "1e308", "[NaN]", "{\"Max\": NaN}"}) {
    for (const char* statistic : {"Max", "Min", "Mean"}) {
      EXPECT_EQ(level_of_statistic(statistic, value), Overflow::none) << statistic << ' ' << value;
    }
  }
}

TEST(OverflowLevel, IntegerBeyondDoubleIsFinite) {
  EXPECT_EQ(level_of_statistic("Max", "1" + std::string(400, '0')), Overflow::none);
  EXPECT_EQ(level_of_statistic("Min", "-1" + std::string(5000, '0')), Overflow::none);
}

TEST(OverflowLevel, NormIsNotPartOfTheTest) {
  EXPECT_EQ(level_of_statistic("Norm", "NaN"), Overflow::none);
}

TEST(OverflowLevel, MissingStatisticsAreNotBad) {
  EXPECT_EQ(level(call({good}, {R"({"type": "torch.Tensor"})"})), Overflow::none);
  EXPECT_EQ(level(call({good}, {"null", "3", R"("NaN")"})), Overflow::none);
}

TEST(OverflowLevel, FirstMatchWins) {
  EXPECT_EQ(level(call({good}, {bad})), Overflow::critical);
  EXPECT_EQ(level(call({bad}, {bad})), Overflow::high);
  EXPECT_EQ(level(call({bad}, {good})), Overflow::medium);
  EXPECT_EQ(level(call({good}, {with_norm("1000")})), Overflow::high);
  EXPECT_EQ(level(call({good}, {good})), Overflow::none);
  EXPECT_EQ(level(call({bad}, {with_norm("1000")})), Overflow::medium);
  EXPECT_EQ(level(call({}, {bad})), Overflow::critical);
}

TEST(OverflowLevel, ListsAreSearchedAtAnyDepth) {
  EXPECT_EQ(level(call({list({good, bad})}, {good})), Overflow::medium);
  EXPECT_EQ(level(call({list({good, list({list({bad}), good})})}, {good})), Overflow::medium);
  EXPECT_EQ(level(call({good}, {list({good, bad})})), Overflow::critical);
  EXPECT_EQ(level(entry("[]", R"({"other": [)" + bad + "]}", list({good}))), Overflow::medium);
}

TEST(OverflowLevel, ObjectsAreNotSearched) {
  EXPECT_EQ(level(call({R"({"a": )" + bad + "}"}, {bad})), Overflow::critical);
  EXPECT_EQ(level(call({good}, {R"({"logits": )" + bad + "}"})), Overflow::none);
  EXPECT_EQ(level(call({R"([{"class_type": "torch.distributed.P2POp", "tensor": )" + bad + "}]"}, {good})), Overflow::none);
  EXPECT_EQ(level(entry("[]", R"({"cfg": {"x": )" + bad + "}}", list({bad}))), Overflow::critical);
}

TEST(OverflowLevel, ScalarsAreNotAbnormal) {
  EXPECT_EQ(level(call({R"({"type": "float", "value": Infinity})"}, {good})), Overflow::none);
  EXPECT_EQ(level(call({R"({"type": "float", "value": Infinity})"}, {bad})), Overflow::critical);
}

TEST(OverflowLevel, Keywords) {
  EXPECT_EQ(level(entry("[]", R"({"input": )" + bad + "}", list({good}))), Overflow::medium);
  EXPECT_EQ(level(entry(list({good}), R"({"a": )" + good + R"(, "b": )" + bad + "}", list({bad}))), Overflow::high);
}

TEST(OverflowLevel, ContainersOfAnotherKindAreEmpty) {
  EXPECT_EQ(level(entry("{\"0\": " + bad + "}", "{}", list({good}))), Overflow::none);
  EXPECT_EQ(level(entry(list({good}), "{}", "{\"0\": " + bad + "}")), Overflow::none);
  EXPECT_EQ(level(entry("\"NaN\"", "[" + bad + "]", "7")), Overflow::none);
  EXPECT_EQ(level("[1]"), Overflow::none);
  EXPECT_EQ(level("null"), Overflow::none);
  EXPECT_EQ(level("{}"), Overflow::none);
}

TEST(OverflowLevel, NullContainersAreEmpty) {
  EXPECT_EQ(level(entry("null", "null", "null")), Overflow::none);
  EXPECT_EQ(level(entry("null", "null", list({bad}))), Overflow::critical);
  EXPECT_EQ(level(entry(list({bad}), "null", "null")), Overflow::medium);
}

TEST(OverflowLevel, InputArgsHidesInput) {
  EXPECT_EQ(level(R"({"input": [)" + bad + R"(], "output": [)" + good + "]}"), Overflow::medium);
  EXPECT_EQ(level(R"({"input": [)" + bad + R"(], "input_args": [], "output": [)" + good + "]}"), Overflow::none);
  EXPECT_EQ(level(R"({"input_args": null, "input": [)" + bad + R"(], "output": [)" + good + "]}"), Overflow::none);
}

TEST(OverflowLevel, ParametersAreNotInspected) {
  EXPECT_EQ(level(R"({"input_args": [], "output": [], "parameters": {"weight": )" + bad + "}}"), Overflow::none);
}

TEST(OverflowLevel, ListsNestedAsDeepAsAFileMayBe) {
  constexpr std::size_t depth = 900;
  EXPECT_EQ(level(call({good}, {std::string(depth, '[') + bad + std::string(depth, ']')})), Overflow::critical);
}

TEST(NormGrowth, Table) {
  const std::vector<std::pair<std::pair<std::string, std::string>, Overflow>> rows{
      {{"1.0", "100.0"}, Overflow::none},    {{"1.0", "100.00001"}, Overflow::high},
      {{"0.0", "100.0"}, Overflow::none},    {{"0.0", "100.5"}, Overflow::high},
      {{"-0.0", "100.5"}, Overflow::high},   {{"1.414", "Infinity"}, Overflow::high},
      {{"Infinity", "200"}, Overflow::none}, {{"Infinity", "Infinity"}, Overflow::none},
      {{"-2.0", "-500.0"}, Overflow::high},  {{"-2.0", "500.0"}, Overflow::none},
      {{"2", "201"}, Overflow::high},        {{"2", "200"}, Overflow::none},
      {{"true", "101"}, Overflow::high},     {{"false", "100"}, Overflow::none},
  };
  for (const auto& [norms, expected] : rows) {
    EXPECT_EQ(level(call({with_norm(norms.first)}, {with_norm(norms.second)})), expected) << norms.first << " -> " << norms.second;
  }
}

TEST(NormGrowth, NeedsNormsOnBothSides) {
  EXPECT_EQ(level(call({}, {with_norm("1000")})), Overflow::none);
  EXPECT_EQ(level(call({with_norm("null")}, {with_norm("1000")})), Overflow::none);
  EXPECT_EQ(level(call({with_norm("NaN")}, {with_norm("1000")})), Overflow::none);
  EXPECT_EQ(level(call({with_norm("1")}, {with_norm("NaN")})), Overflow::none);
  EXPECT_EQ(level(call({R"({"type": "torch.Tensor"})"}, {with_norm("1000")})), Overflow::none);
}

TEST(NormGrowth, SkippedNormsLeaveTheOthers) {
  EXPECT_EQ(level(call({with_norm("NaN"), with_norm("1.0")}, {with_norm("200.0")})), Overflow::high);
  EXPECT_EQ(level(call({with_norm("1.0"), with_norm("null")}, {with_norm("null"), with_norm("150.0")})), Overflow::high);
}

TEST(NormGrowth, MaximumBeforeDivision) {
  EXPECT_EQ(level(entry(list({with_norm("0.001")}), R"({"other": )" + with_norm("200.0") + "}", list({with_norm("500.0")}))),
            Overflow::none);
  EXPECT_EQ(level(entry("[]", R"({"input": )" + with_norm("2.0") + "}", list({with_norm("500.0")}))), Overflow::high);
}

TEST(NormGrowth, ListsAreSkipped) {
  EXPECT_EQ(level(call({with_norm("1")}, {list({with_norm("9000")})})), Overflow::none);
  EXPECT_EQ(level(call({list({with_norm("1")})}, {with_norm("9000")})), Overflow::none);
  EXPECT_EQ(level(call({list({with_norm("1000")}), with_norm("0.0")}, {with_norm("101")})), Overflow::high);
}

TEST(NormGrowth, OtherTypesAreSkipped) {
  for (const char* type : {"mindspore.Tensor", "torch.nn.Parameter", "torch.tensor", "torch.Tensor "}) {
    EXPECT_EQ(level(call({with_norm("1", type)}, {with_norm("1000")})), Overflow::none) << type;
    EXPECT_EQ(level(call({with_norm("1")}, {with_norm("1000", type)})), Overflow::none) << type;
  }
}

TEST(NormGrowth, NormThatIsNoNumberIsAbsent) {
  EXPECT_EQ(level(call({with_norm(R"("3.5")")}, {with_norm("1000")})), Overflow::none);
  EXPECT_EQ(level(call({with_norm("1")}, {with_norm(R"("1000")")})), Overflow::none);
  EXPECT_EQ(level(call({with_norm("[1]"), with_norm("1")}, {with_norm("1000")})), Overflow::high);
}

TEST(NormGrowth, IntegersOfAnySize) {
  const std::string huge = "1" + std::string(30, '0');
  EXPECT_EQ(level(call({with_norm(huge)}, {with_norm("3.5")})), Overflow::none);
  EXPECT_EQ(level(call({with_norm("3.5")}, {with_norm(huge)})), Overflow::high);
  EXPECT_EQ(level(call({with_norm("3.5")}, {with_norm("1" + std::string(400, '0'))})), Overflow::high);
}

std::string tensor(const std::string& max, const std::string& min, const std::string& mean, const std::string& norm) {
  return R"({"type": "torch.Tensor", "Max": )" + max + R"(, "Min": )" + min + R"(, "Mean": )" + mean + R"(, "Norm": )" + norm + "}";
}

TEST(OverflowLevel, CallsAsTheDumperWritesThem) {
  const std::string ones = tensor("1.0", "1.0", "1.0", "2.0");
  const std::string zeros = tensor("0.0", "0.0", "0.0", "0.0");
  const std::string minus_infinity = tensor("-Infinity", "-Infinity", "-Infinity", "Infinity");
  // log(zeros)
  EXPECT_EQ(level(call({zeros}, {minus_infinity})), Overflow::critical);
  // (-inf tensor) * 2.0
  EXPECT_EQ(level(call({minus_infinity, R"({"type": "float", "value": 2.0})"}, {minus_infinity})), Overflow::high);
  // where(cond, ones, -inf tensor)
  EXPECT_EQ(
      level(call({R"({"type": "torch.Tensor", "Max": true, "Min": true, "Mean": null, "Norm": null})", ones, minus_infinity}, {ones})),
      Overflow::medium);
  // relu([-inf, -1])
  EXPECT_EQ(level(call({tensor("-1.0", "-Infinity", "-Infinity", "Infinity")}, {zeros})), Overflow::medium);
  // nan_to_num(-inf tensor): the mean overflows
  EXPECT_EQ(level(call({minus_infinity}, {tensor("-3.4028234663852886e+38", "-3.4028234663852886e+38", "-Infinity", "Infinity")})),
            Overflow::high);
  // ones * inf: scalars are not inspected
  EXPECT_EQ(level(call({ones, R"({"type": "float", "value": Infinity})"}, {tensor("Infinity", "Infinity", "Infinity", "Infinity")})),
            Overflow::critical);
  // masked_fill(ones, mask, -inf)
  EXPECT_EQ(level(call({ones, R"({"type": "torch.Tensor", "Max": true, "Min": false, "Mean": null, "Norm": null})",
                        R"({"type": "float", "value": -Infinity})"},
                       {tensor("1.0", "-Infinity", "-Infinity", "Infinity")})),
            Overflow::critical);
  // ones(2) * 1e20: only the norm overflows
  EXPECT_EQ(level(call({tensor("1.0", "1.0", "1.0", "1.4142135381698608")}, {tensor("1e20", "1e20", "1e20", "Infinity")})), Overflow::high);
  // full(1e30) * 2
  EXPECT_EQ(level(call({tensor("1e30", "1e30", "1e30", "Infinity")}, {tensor("2e30", "2e30", "2e30", "Infinity")})), Overflow::none);
  // full((4,), 1e10) * 2e28
  EXPECT_EQ(level(call({tensor("1e10", "1e10", "1e10", "2e10")}, {tensor("2e38", "2e38", "Infinity", "Infinity")})), Overflow::critical);
  // 0-d 0.0 + 500.0
  EXPECT_EQ(level(call({zeros}, {tensor("500.0", "500.0", "500.0", "500.0")})), Overflow::high);
  // max(x, dim) with NaN: values bad, indices fine
  EXPECT_EQ(level(call({bad}, {bad, R"({"type": "torch.Tensor", "Max": 2, "Min": 0, "Mean": null, "Norm": null})"})), Overflow::high);
  // int tensor x 1000
  EXPECT_EQ(level(call({R"({"type": "torch.Tensor", "Max": 9, "Min": 1, "Mean": null, "Norm": null})"},
                       {R"({"type": "torch.Tensor", "Max": 9000, "Min": 1000, "Mean": null, "Norm": null})"})),
            Overflow::none);
}

// --- Rules and graphs ---

IgnoreRules default_rules() {
  return IgnoreRules::read(MSVIS_SOURCE_DIR "/data/overflow_ignore_rules.json");
}

/// A graph of a root and one node.
struct OneNode {
  JsonDocument document;
  Graph graph;
  OneNode(const std::string& name, const std::string& text, NodeType type = NodeType::function_api) : document(JsonDocument::parse(text)) {
    Node root;
    root.name = root_name;
    Node node;
    node.name = graph.pool.keep(name);
    node.type = type;
    node.entry = document.root();
    graph.nodes = {root, node};
    graph.order = {1, 0};
  }
};

std::pair<Overflow, std::uint64_t> classify(const std::string& name, const std::string& text, NodeType type = NodeType::function_api) {
  OneNode one(name, text, type);
  const std::uint64_t removed = classify_overflow(one.graph, default_rules());
  EXPECT_EQ(one.graph.nodes[0].overflow, Overflow::none);
  return {one.graph.nodes[1].overflow, removed};
}

constexpr std::uint64_t one_removed = 1;
constexpr std::uint64_t none_removed = 0;
using Outcome = std::pair<Overflow, std::uint64_t>;

TEST(IgnoreRules, UninitialisedMemory) {
  EXPECT_EQ(classify("Torch.empty.0.forward", call({}, {bad})), Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Torch.empty.1.forward", call({}, {good, bad})), Outcome(Overflow::critical, none_removed));
  EXPECT_EQ(classify("Torch.empty_strided.0.forward", call({}, {bad})), Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Torch.empty_like.0.forward", call({with_norm("1")}, {with_norm("1000")})), Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Torch.new_empty.0.forward", call({}, {bad})), Outcome(Overflow::critical, none_removed));
}

TEST(IgnoreRules, Receive) {
  EXPECT_EQ(classify("Distributed.recv.0.forward", call({good}, {bad})), Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Distributed.recv.0.forward", entry("[]", R"({"tensor": )" + bad + "}", list({good}))),
            Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Distributed.recv.3.forward", entry("[]", R"({"other": )" + bad + "}", list({bad}))),
            Outcome(Overflow::high, none_removed));
  EXPECT_EQ(classify("Distributed.irecv.0.forward", call({bad}, {good})), Outcome(Overflow::medium, none_removed));
}

TEST(IgnoreRules, Gather) {
  EXPECT_EQ(classify("Distributed.all_gather.0.forward", call({bad, good}, {good})), Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Distributed.all_gather.1.forward", call({good, bad}, {bad})), Outcome(Overflow::high, none_removed));
  EXPECT_EQ(classify("Distributed.all_gather.2.forward", call({good, list({bad})}, {bad})), Outcome(Overflow::none, one_removed));
  // Keywords are not checked by this rule.
  EXPECT_EQ(classify("Distributed.all_gather.3.forward", entry(list({bad, good}), R"({"tensor": )" + bad + "}", list({bad}))),
            Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Distributed.all_gather_into_tensor.0.forward", call({bad, good}, {good})), Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Distributed._all_gather_base.0.forward", call({bad, good}, {good})), Outcome(Overflow::medium, none_removed));
}

TEST(IgnoreRules, ReduceScatter) {
  EXPECT_EQ(classify("Distributed.reduce_scatter.1.forward", call({good, list({bad, good})}, {bad, list({bad, good})})),
            Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Distributed.reduce_scatter.2.forward",
                     entry("[]", R"({"output": )" + bad + R"(, "input_list": [)" + bad + "]}", list({good}))),
            Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Distributed.reduce_scatter.3.forward",
                     entry("[]", R"({"output": )" + bad + R"(, "input_list": )" + bad + "}", list({good}))),
            Outcome(Overflow::medium, none_removed));
  EXPECT_EQ(classify("Distributed._reduce_scatter_base.0.forward", call({bad, good}, {good, good})), Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Distributed._reduce_scatter_base.1.forward", call({good, bad}, {bad, bad})), Outcome(Overflow::high, none_removed));
  EXPECT_EQ(classify("Distributed.reduce_scatter_tensor.0.forward", call({bad, good}, {good, good})), Outcome(Overflow::none, one_removed));
}

TEST(IgnoreRules, MaskedFill) {
  EXPECT_EQ(classify("Tensor.masked_fill_.1.forward", call({good, good}, {bad})), Outcome(Overflow::none, one_removed));
  EXPECT_EQ(classify("Tensor.masked_fill_.2.forward", call({good, bad}, {bad})), Outcome(Overflow::high, none_removed));
  EXPECT_EQ(classify("Tensor.masked_fill.0.forward", call({good}, {bad})), Outcome(Overflow::critical, none_removed));
}

TEST(IgnoreRules, NameIsTheFirstTwoFieldsInLowerCase) {
  EXPECT_EQ(classify("TORCH.Empty.0.forward", call({}, {bad})).first, Overflow::none);
  EXPECT_EQ(classify("torch.empty", call({}, {bad})).first, Overflow::none);
  EXPECT_EQ(classify("torch", call({}, {bad})).first, Overflow::critical);
  EXPECT_EQ(classify("Torch.empty_.0.forward", call({}, {bad})).first, Overflow::critical);
  IgnoreRules rules;
  rules.rules["lonely"] = IgnoreRule{};
  OneNode one("Lonely", call({}, {bad}));
  EXPECT_EQ(classify_overflow(one.graph, rules), one_removed);
}

TEST(IgnoreRules, NothingToRemoveIsNotCounted) {
  EXPECT_EQ(classify("Torch.empty.0.forward", call({good}, {good})), Outcome(Overflow::none, none_removed));
}

TEST(ClassifyOverflow, OnlyRecordedNodes) {
  EXPECT_EQ(classify("Module.m.Lin.forward.0", call({good}, {bad}), NodeType::module).first, Overflow::critical);
  EXPECT_EQ(classify("Apis_Between_Modules.0", call({good}, {bad}), NodeType::api_collection).first, Overflow::none);
  for (const char* name : {"Module.m.Lin.parameters_grad", "Module.m.Lin.parameters_grad.0"}) {
    EXPECT_EQ(classify(name, R"({"output": [)" + bad + "]}", NodeType::module).first, Overflow::none) << name;
  }
  EXPECT_EQ(classify("Module.parameters_grad.Lin.forward.0", call({good}, {bad}), NodeType::module).first, Overflow::critical);

  OneNode without("Torch.log.0.forward", call({good}, {bad}));
  without.graph.nodes[1].entry = JsonValue();
  without.graph.nodes[1].overflow = Overflow::high;
  without.graph.nodes[0].entry = without.document.root();
  EXPECT_EQ(classify_overflow(without.graph, {}), none_removed);
  EXPECT_EQ(without.graph.nodes[0].overflow, Overflow::none);
  EXPECT_EQ(without.graph.nodes[1].overflow, Overflow::none);
}

TEST(ClassifyOverflow, EmptyGraph) {
  Graph graph;
  EXPECT_EQ(classify_overflow(graph, {}), none_removed);
}

}  // namespace
}  // namespace msvis
