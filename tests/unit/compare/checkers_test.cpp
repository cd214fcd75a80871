#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pair.h"

namespace msvis {
namespace {

using test::compare_entries;
using test::Pair;
using test::tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string entry(const std::string& input, const std::string& output) {
  return R"({"input_args": [)" + input + R"(], "output": [)" + output + "]}";
}

constexpr std::string_view api = "Torch.f.0.forward";

TEST(SummaryVerdict, WarnsWhenTheOutputErrorIsTenTimesTheInputs) {
  Pair pair = compare_entries(api, entry(tensor("1.0"), tensor("1.2")), entry(tensor("1.0"), tensor("1.0")));
  ASSERT_THAT(pair.rows(api), SizeIs(2));
  EXPECT_EQ(pair.rows(api)[0].level, Level::pass);
  EXPECT_EQ(pair.rows(api)[1].level, Level::warning);
  EXPECT_EQ(pair.precision(api), Precision::warning);
  pair = compare_entries(api, entry(tensor("1.001"), tensor("1.2")), entry(tensor("1.0"), tensor("1.0")));
  EXPECT_EQ(pair.precision(api), Precision::warning);
  pair = compare_entries(api, entry(tensor("1.05"), tensor("1.2")), entry(tensor("1.0"), tensor("1.0")));
  EXPECT_EQ(pair.precision(api), Precision::pass);
}

TEST(SummaryVerdict, IsAnErrorWhenAnOutputIsOffByHalfWithGoodInputs) {
  const Pair pair = compare_entries(api, entry(tensor("1.0"), tensor("1.6")), entry(tensor("1.0"), tensor("1.0")));
  EXPECT_EQ(pair.rows(api)[1].level, Level::error);
  EXPECT_THAT(pair.rows(api)[1].messages, SizeIs(2));
  EXPECT_THAT(pair.rows(api)[1].messages[0], HasSubstr("error: "));
  EXPECT_THAT(pair.rows(api)[1].messages[1], HasSubstr("warning: "));
  EXPECT_EQ(pair.precision(api), Precision::error);
}

TEST(SummaryVerdict, CountsScalarArgumentsAmongTheInputs) {
  const auto scalar = [](const char* value) { return R"({"type": "int", "value": )" + std::string(value) + "}"; };
  const Pair pair = compare_entries(api, entry(tensor("1.05") + "," + scalar("7"), tensor("1.6")),
                                    entry(tensor("1.0") + "," + scalar("8"), tensor("1.0")));
  EXPECT_THAT(pair.rows(api)[2].messages, IsEmpty());  // the 12.5 % of the scalar switch the output check off
  EXPECT_EQ(pair.rows(api)[1].level, Level::error);    // the scalars differ
  EXPECT_EQ(pair.precision(api), Precision::error);
}

TEST(SummaryVerdict, TellsANewNotANumber) {
  const std::string bad =
      R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": NaN, "Min": 0.0, "Mean": 0.5, "Norm": 1.0})";
  const std::string good =
      R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0})";
  EXPECT_EQ(compare_entries(api, entry(bad, good), entry(good, good)).precision(api), Precision::error);
  EXPECT_EQ(compare_entries(api, entry(bad, good), entry(bad, good)).precision(api), Precision::pass);
  EXPECT_EQ(compare_entries(api, entry(good, good), entry(bad, good)).precision(api), Precision::pass);
}

TEST(SummaryVerdict, TellsDifferingTypesAndShapes) {
  const std::string half =
      R"({"type": "torch.Tensor", "dtype": "torch.float16", "shape": [1, 2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0})";
  const Pair pair = compare_entries(api, entry(half, tensor("1.0")), entry(tensor("1.0"), tensor("1.0")));
  ASSERT_THAT(pair.rows(api)[0].messages, SizeIs(2));
  EXPECT_THAT(pair.rows(api)[0].messages[0], HasSubstr("torch.float16"));
  EXPECT_THAT(pair.rows(api)[0].messages[1], HasSubstr("[1, 2]"));
  EXPECT_FALSE(pair.rows(api)[0].requires_grad_consistent);  // null against False
}

TEST(SummaryVerdict, DoesNotCompareFusedWeights) {
  const std::string half =
      R"({"input_args": [], "output": [], "parameters": {"qkv": {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [2], "Max": 1.0}}})";
  const std::string full =
      R"({"input_args": [], "output": [], "parameters": {"qkv": {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0}}})";
  EXPECT_EQ(compare_entries("Module.a.A.forward.0", half, full).precision("Module.a.A.forward.0"), Precision::pass);
}

TEST(SummaryVerdict, OfSurplusTargetOutputsHasThreeErrors) {
  const std::string output = tensor("1.0");
  const Pair pair = compare_entries(api, entry(tensor("1.0"), output + "," + output + "," + output), entry(tensor("1.0"), output));
  ASSERT_THAT(pair.rows(api), SizeIs(4));
  EXPECT_EQ(pair.rows(api)[2].golden_item, no_node);
  EXPECT_THAT(pair.rows(api)[2].messages, SizeIs(3));
  EXPECT_EQ(pair.rows(api)[2].cells.front().kind, Cell::Kind::blank);
  EXPECT_FALSE(pair.rows(api)[2].requires_grad_consistent);
  EXPECT_EQ(pair.precision(api), Precision::error);
}

TEST(SummaryVerdict, CountsSurplusGoldenItemsAndGivesThemNoRow) {
  const Pair pair = compare_entries(api, entry(tensor("1.0"), tensor("1.0")), entry(tensor("1.0") + "," + tensor("2.0"), tensor("1.0")));
  EXPECT_THAT(pair.rows(api), SizeIs(2));
  EXPECT_EQ(pair.comparison.golden_only_items, 1U);
}

TEST(SummaryVerdict, IgnoresUninitialisedMemory) {
  const Pair pair = compare_entries("Torch.empty.0.forward", entry(tensor("1.0"), tensor("9.0")), entry(tensor("4.0"), tensor("1.0")));
  EXPECT_EQ(pair.precision("Torch.empty.0.forward"), Precision::pass);
}

TEST(SummaryVerdict, OfGradientsWithoutOutputsPasses) {
  constexpr std::string_view name = "Module.m.Net.parameters_grad";
  const std::string construct = R"({"Module.m.Net.backward.0": null})";
  const auto data = [&](const char* norm) { return R"({"Module.m.Net.parameters_grad": {"weight": [)" + tensor(norm) + "]}}"; };
  Pair pair{build_graph(test::dump_of(data("2.0"), construct), Compat::standard),
            build_graph(test::dump_of(data("1.0"), construct), Compat::standard),
            {}};
  match_exact(pair.target, pair.golden);
  pair.comparison = compare_graphs(pair.target, pair.golden, CompareMode::summary, Compat::standard);
  ASSERT_THAT(pair.rows(name), SizeIs(1));
  EXPECT_EQ(pair.precision(name), Precision::pass);
}

std::string checksum(const char* md5) {
  return tensor("1.0", R"(, "md5": ")" + std::string(md5) + "\"");
}

TEST(ChecksumVerdict, PassesEqualAndFailsDifferent) {
  const auto precision = [](const std::string& target, const std::string& golden) {
    return compare_entries(api, target, golden, CompareMode::md5).precision(api);
  };
  EXPECT_EQ(precision(entry(checksum("aa"), checksum("bb")), entry(checksum("aa"), checksum("bb"))), Precision::pass);
  EXPECT_EQ(precision(entry(checksum("aa"), checksum("bb")), entry(checksum("aa"), checksum("cc"))), Precision::error);
  EXPECT_EQ(precision(entry(checksum("aa"), checksum("bb")), entry(checksum("aa"), "")), Precision::warning);
}

TEST(ChecksumVerdict, OfUninitialisedMemoryIsAnErrorForTheReferenceOnly) {
  constexpr std::string_view name = "Torch.empty.0.forward";
  const std::string equal = entry("", checksum("aa"));
  EXPECT_EQ(compare_entries(name, equal, equal, CompareMode::md5, Compat::standard).precision(name), Precision::pass);
  EXPECT_EQ(compare_entries(name, equal, equal, CompareMode::md5, Compat::reference).precision(name), Precision::error);
}

TEST(ChecksumVerdict, IgnoresTheInputsOfSomeCollectives) {
  constexpr std::string_view name = "Distributed.all_to_all_single.0.forward";
  EXPECT_EQ(
      compare_entries(name, entry(checksum("aa"), checksum("bb")), entry(checksum("xx"), checksum("bb")), CompareMode::md5).precision(name),
      Precision::pass);
}

std::vector<std::string> paired_names(const Pair& pair, std::string_view node) {
  std::vector<std::string> names;
  for (const Row& row : pair.rows(node)) {
    names.push_back(std::string(pair.target.items[row.target_item].full_name) + " ~ " +
                    (row.golden_item == no_node ? "-" : std::string(pair.golden.items[row.golden_item].full_name)));
  }
  return names;
}

TEST(Pairing, GoesByStateNotByTheModulePath) {
  constexpr std::string_view name = "Module.enc.output.Dense.forward.0";
  const auto with = [](const std::string& inputs) {
    return R"({"input_args": [)" + inputs + R"(], "output": [)" + tensor("1.0") + R"(], "parameters": {"w": )" + tensor("1.0") + "}}";
  };
  const std::string two = with(tensor("1.0") + "," + tensor("1.0"));
  const std::string one = with(tensor("1.0"));
  const std::string n(name);
  EXPECT_THAT(paired_names(compare_entries(name, two, one), name),
              ElementsAre(n + ".input.0 ~ " + n + ".input.0", n + ".input.1 ~ -", n + ".parameters.w ~ " + n + ".parameters.w",
                          n + ".output.0 ~ " + n + ".output.0"));
  // The reference cuts the stored order into slices: all items of this path but the inputs stand among the outputs, output.0 first.
  EXPECT_THAT(paired_names(compare_entries(name, two, one, CompareMode::summary, Compat::reference), name),
              ElementsAre(n + ".input.0 ~ " + n + ".input.0", n + ".input.1 ~ -", n + ".output.0 ~ " + n + ".output.0",
                          n + ".parameters.w ~ " + n + ".parameters.w"));
}

TEST(Pairing, IsNotShiftedByANullOutput) {
  constexpr std::string_view name = "Module.a.A.forward.0";
  const std::string null_output = R"({"input_args": [], "output": null, "parameters": {"w": )" + tensor("1.0") + "}}";
  const std::string output = R"({"input_args": [], "output": [)" + tensor("1.0") + R"(], "parameters": {"w": )" + tensor("1.0") + "}}";
  const std::string n(name);
  EXPECT_THAT(paired_names(compare_entries(name, output, null_output), name),
              ElementsAre(n + ".parameters.w ~ " + n + ".parameters.w", n + ".output.0 ~ " + n + ".output"));
  EXPECT_THAT(paired_names(compare_entries(name, output, null_output, CompareMode::summary, Compat::reference), name),
              ElementsAre(n + ".parameters.w ~ " + n + ".output", n + ".output.0 ~ " + n + ".parameters.w"));
}

TEST(Collection, HasTheWorstOfItsChildrenEvenUnmatched) {
  const std::string construct = R"({"Torch.a.0.forward": null, "Torch.b.0.forward": null})";
  const auto data = [&](const char* norm) {
    return R"({"Torch.a.0.forward": )" + entry(tensor("1.0"), tensor(norm)) + R"(, "Torch.b.0.forward": )" +
           entry(tensor("1.0"), tensor("1.0")) + "}";
  };
  Pair pair{build_graph(test::dump_of(data("2.0"), construct), Compat::standard),
            build_graph(test::dump_of(data("1.0"), construct), Compat::standard),
            {}};
  match_exact(pair.target, pair.golden);
  pair.comparison = compare_graphs(pair.target, pair.golden, CompareMode::summary, Compat::standard);
  EXPECT_EQ(pair.precision("Apis_Between_Modules.0"), Precision::error);
  EXPECT_EQ(pair.precision("DefaultModel"), Precision::none);
  Pair unmatched{build_graph(test::dump_of(data("2.0"), construct), Compat::standard),
                 build_graph(test::dump_of("{}", R"({"Torch.a.0.forward": null})"), Compat::standard),
                 {}};
  match_exact(unmatched.target, unmatched.golden);
  unmatched.comparison = compare_graphs(unmatched.target, unmatched.golden, CompareMode::summary, Compat::standard);
  EXPECT_EQ(unmatched.target.nodes[unmatched.target.find("Apis_Between_Modules.0")].link, no_node);
  EXPECT_EQ(unmatched.precision("Apis_Between_Modules.0"), Precision::pass);
}

/// A tensor comparison with given cells: input cosine/ratio, output cosine/ratio.
Pair tensor_pair(const std::vector<Cell>& input, const std::vector<Cell>& output, Compat compat = Compat::standard) {
  Pair pair = compare_entries(api, entry(tensor("1.0"), tensor("1.0")), entry(tensor("1.0"), tensor("1.0")), CompareMode::tensor, compat);
  pair.comparison.rows[0].rows[0].cells = input;
  pair.comparison.rows[0].rows[1].cells = output;
  finish_tensor_comparison(pair.comparison, pair.target, pair.golden, compat);
  return pair;
}

std::vector<Cell> metrics(double cosine, double one_thousandth) {
  return {Cell::of_number(cosine),         Cell::of_number(0), Cell::of_number(0), Cell::of_number(0),
          Cell::of_number(one_thousandth), Cell::of_number(1)};
}

TEST(TensorVerdict, WarnsOfADropInCosineAndFailsOnTheRatio) {
  EXPECT_EQ(tensor_pair(metrics(1, 1), metrics(0.714285714286, 0.333)).precision(api), Precision::warning);
  EXPECT_EQ(tensor_pair(metrics(1, 1), metrics(0.9746, 0.0)).precision(api), Precision::error);
  EXPECT_EQ(tensor_pair(metrics(0.8, 0), metrics(0.8, 0)).precision(api), Precision::pass);
  const std::vector<Cell> unsupported(6, Cell::of_text("unsupported"));
  EXPECT_EQ(tensor_pair(unsupported, unsupported).precision(api), Precision::pass);
}

TEST(TensorVerdict, OfCollectionsIsTakenAfterTheMetrics) {
  for (const Compat compat : {Compat::standard, Compat::reference}) {
    const std::string construct = R"({"Torch.a.0.forward": null, "Torch.b.0.forward": null})";
    const std::string data = R"({"Torch.a.0.forward": )" + entry(tensor("1.0"), tensor("1.0")) + "}";
    Pair pair{build_graph(test::dump_of(data, construct), compat), build_graph(test::dump_of(data, construct), compat), {}};
    match_exact(pair.target, pair.golden);
    pair.comparison = compare_graphs(pair.target, pair.golden, CompareMode::tensor, compat);
    pair.comparison.rows[0].rows[0].cells = metrics(1, 1);
    pair.comparison.rows[0].rows[1].cells = metrics(1, 0);
    finish_tensor_comparison(pair.comparison, pair.target, pair.golden, compat);
    EXPECT_EQ(pair.precision("Apis_Between_Modules.0"), compat == Compat::standard ? Precision::error : Precision::pass);
  }
}

TEST(CrossFramework, ComparesCanonicalTypeNames) {
  const std::string ours =
      R"({"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0})";
  const auto precision = [&](Compat compat) {
    const std::string construct = R"({"Torch.f.0.forward": null})";
    Pair pair{build_graph(test::dump_of(R"({"Torch.f.0.forward": )" + entry(ours, ours) + "}", construct,
                                        R"("task": "statistics", "framework": "mindspore")"),
                          compat),
              build_graph(test::dump_of(R"({"Torch.f.0.forward": )" + entry(tensor("1.0"), tensor("1.0")) + "}", construct), compat),
              {}};
    match_exact(pair.target, pair.golden);
    pair.comparison = compare_graphs(pair.target, pair.golden, CompareMode::summary, compat);
    return pair.precision(api);
  };
  EXPECT_EQ(precision(Compat::standard), Precision::pass);
  EXPECT_EQ(precision(Compat::reference), Precision::error);
}

}  // namespace
}  // namespace msvis
