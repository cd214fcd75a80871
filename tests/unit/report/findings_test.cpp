#include "report/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/compare/pair.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

/// Three APIs one after the other; norms of input and output for each.
std::string chain(const std::vector<std::pair<const char*, const char*>>& norms) {
  std::string data;
  for (std::size_t k = 0; k < norms.size(); ++k) {
    data += (k == 0 ? "{" : ", ") + ("\"Torch.f." + std::to_string(k) + ".forward\": {\"input_args\": [") + test::tensor(norms[k].first) +
            "], \"output\": [" + test::tensor(norms[k].second) + "]}";
  }
  return data + "}";
}

constexpr std::string_view construct =
    R"({"Torch.f.0.forward": "Module.m.M.forward.0", "Torch.f.1.forward": "Module.m.M.forward.0", "Torch.f.2.forward": "Module.m.M.forward.0",
        "Module.m.M.forward.0": null})";

test::Pair compare(const std::string& target, const std::string& golden) {
  test::Pair pair{
      build_graph(test::dump_of(target, construct), Compat::standard), build_graph(test::dump_of(golden, construct), Compat::standard), {}};
  match_exact(pair.target, pair.golden);
  pair.comparison = compare_graphs(pair.target, pair.golden, CompareMode::summary, Compat::standard);
  return pair;
}

TEST(Findings, OfAPairCountVerdictsAndFindWhereItBegins) {
  const test::Pair pair =
      compare(chain({{"1.0", "1.0"}, {"1.0", "1.2"}, {"1.0", "1.9"}}), chain({{"1.0", "1.0"}, {"1.0", "1.0"}, {"1.0", "1.0"}}));
  const Findings found = find_in_pair(pair.target, &pair.golden, &pair.comparison, 4, 9);
  EXPECT_EQ(found.target_nodes, 5U);
  EXPECT_EQ(found.matched, 5U);
  EXPECT_EQ(found.passed, 1U);
  EXPECT_EQ(found.warned, 1U);
  EXPECT_EQ(found.failed, 1U);
  EXPECT_EQ(found.without_data, 2U);  // module and root
  EXPECT_EQ(found.parameters_compared, 6U);
  ASSERT_TRUE(found.first_divergence);
  EXPECT_EQ(found.first_divergence->node, "Torch.f.1.forward");
  EXPECT_EQ(found.first_divergence->step, 4);
  EXPECT_EQ(found.first_divergence->rank, 9);
  EXPECT_EQ(found.first_divergence->node_order, 1U);
  EXPECT_EQ(found.first_divergence->parameter, "Torch.f.1.forward.output.0");
  ASSERT_THAT(found.worst, SizeIs(2));
  EXPECT_EQ(found.worst[0].node, "Torch.f.2.forward");
  EXPECT_NEAR(found.worst[0].badness, 0.9, 1e-12);
  EXPECT_TRUE(found.compared_something());
}

TEST(Findings, ANodeWithBadInputsIsNoFirstDivergence) {
  const std::string half =
      R"({"type": "torch.Tensor", "dtype": "torch.float16", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0})";
  const std::string target = R"({"Torch.f.0.forward": {"input_args": [)" + half + R"(], "output": [)" + test::tensor("1.0") + "]}}";
  const std::string golden =
      R"({"Torch.f.0.forward": {"input_args": [)" + test::tensor("1.0") + R"(], "output": [)" + test::tensor("1.0") + "]}}";
  const test::Pair pair = compare(target, golden);
  const Findings found = find_in_pair(pair.target, &pair.golden, &pair.comparison, 0, 0);
  EXPECT_EQ(found.failed, 1U);
  EXPECT_FALSE(found.first_divergence);
}

NodeFinding finding(std::int64_t step, std::int64_t rank, std::uint32_t order, Precision precision, double badness) {
  NodeFinding node;
  node.step = step;
  node.rank = rank;
  node.node_order = order;
  node.precision = precision;
  node.badness = badness;
  return node;
}

TEST(Findings, MergeDoesNotDependOnTheOrder) {
  std::vector<Findings> parts(4);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    parts[k].failed = k;
    parts[k].tensors_skipped["missing file"] = k;
    parts[k].first_divergence = finding(1, static_cast<std::int64_t>(k), 5, Precision::error, 0);
    for (std::uint32_t node = 0; node < 8; ++node) {
      parts[k].worst.push_back(
          finding(1, static_cast<std::int64_t>(k), node, node % 2 == 0 ? Precision::error : Precision::warning, node * 0.1));
    }
  }
  Findings forward;
  Findings backward;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    forward.merge(parts[k]);
    backward.merge(parts[parts.size() - 1 - k]);
  }
  EXPECT_EQ(forward.failed, 6U);
  EXPECT_EQ(forward.tensors_skipped["missing file"], 6U);
  EXPECT_THAT(forward.worst, SizeIs(Findings::max_worst));
  EXPECT_EQ(forward.worst, backward.worst);
  EXPECT_EQ(forward.worst[0], finding(1, 0, 6, Precision::error, 0.6000000000000001));
  EXPECT_EQ(forward.first_divergence, backward.first_divergence);
  EXPECT_EQ(forward.first_divergence->rank, 0);
}

TEST(Findings, OfAComparisonWithoutAnythingInCommonSaySo) {
  const test::Pair pair = compare("{}", "{}");
  EXPECT_FALSE(find_in_pair(pair.target, &pair.golden, &pair.comparison, 0, 0).compared_something());
}

TEST(Findings, SurviveTheWayBetweenProcesses) {
  Findings found;
  found.failed = 3;
  found.read_seconds = 1.5;
  found.overflow_levels["high"] = 2;
  found.worst = {finding(1, 2, 3, Precision::error, 0.5)};
  found.first_divergence = found.worst[0];
  ByteWriter out;
  put(out, found);
  ByteReader in(out.bytes());
  const Findings back = get_findings(in);
  EXPECT_TRUE(in.at_end());
  EXPECT_EQ(back.failed, 3U);
  EXPECT_EQ(back.read_seconds, 1.5);
  EXPECT_EQ(back.overflow_levels, found.overflow_levels);
  EXPECT_EQ(back.worst, found.worst);
  EXPECT_EQ(back.first_divergence, found.first_divergence);
}

}  // namespace
}  // namespace msvis
