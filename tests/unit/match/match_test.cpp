#include "match/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sides.h"

namespace msvis {
namespace {

using test::Construct;
using test::graph_of;
using test::partner;
using test::with_records;
using testing::HasSubstr;

TEST(ExactMatching, NamesAndAncestorsAreEqual) {
  Graph target = graph_of(with_records({{"Module.a.A.forward.0", ""},
                                        {"Module.a.b.B.forward.0", "Module.a.A.forward.0"},
                                        {"Torch.add.0.forward", "Module.a.b.B.forward.0"},
                                        {"Torch.mul.0.forward", "Module.a.A.forward.0"},
                                        {"Module.c.C.forward.0", ""}}));
  Graph golden = graph_of(with_records({{"Module.c.C.forward.0", ""},
                                        {"Module.a.A.forward.0", ""},
                                        {"Module.a.b.B.forward.0", "Module.a.A.forward.0"},
                                        {"Torch.mul.0.forward", "Module.a.b.B.forward.0"},
                                        {"Torch.add.0.forward", "Module.a.b.B.forward.0"}}));
  match_exact(target, golden);
  EXPECT_EQ(target.nodes[0].link, 0U);
  EXPECT_EQ(golden.nodes[0].link, 0U);
  for (const auto* name : {"Module.a.A.forward.0", "Module.a.b.B.forward.0", "Torch.add.0.forward", "Module.c.C.forward.0"}) {
    EXPECT_EQ(partner(target, golden, name), name);
    EXPECT_EQ(partner(golden, target, name), name);
  }
  EXPECT_EQ(partner(target, golden, "Torch.mul.0.forward"), "");
  EXPECT_EQ(partner(golden, target, "Torch.mul.0.forward"), "");
}

TEST(ExactMatching, CollectionsAreAncestors) {
  Graph target = graph_of(with_records({{"Module.a.A.forward.0", ""}, {"Distributed.x.0.forward", ""}, {"Torch.onlynpu.0.forward", ""}}));
  Graph golden = graph_of(with_records({{"Module.a.A.forward.0", ""}, {"Distributed.x.0.forward", ""}}));
  match_exact(target, golden);
  EXPECT_EQ(partner(target, golden, "Distributed.x.0.forward"), "");
  EXPECT_EQ(partner(target, golden, "Apis_Between_Modules.0"), "");
  EXPECT_EQ(partner(target, golden, "Module.a.A.forward.0"), "Module.a.A.forward.0");
}

TEST(ExactMatching, EarlierLinksAreForgotten) {
  Graph target = graph_of(with_records({{"Torch.add.0.forward", ""}}));
  Graph golden = graph_of(with_records({{"Torch.add.1.forward", ""}}));
  match_fuzzy(target, golden);
  EXPECT_EQ(partner(target, golden, "Torch.add.0.forward"), "Torch.add.1.forward");
  match_exact(target, golden);
  EXPECT_EQ(partner(target, golden, "Torch.add.0.forward"), "");
  EXPECT_EQ(partner(golden, target, "Torch.add.1.forward"), "");
}

TEST(FuzzyMatching, ApisOfAModuleByOccurrence) {
  const std::string a = "Module.a.A.forward.0";
  Graph target = graph_of(with_records({{a, ""}, {"Torch.add.0.forward", a}, {"Torch.add.1.forward", a}, {"Torch.mul.3.forward", a}}));
  Graph golden = graph_of(with_records({{a, ""}, {"Torch.add.4.forward", a}, {"Torch.mul.7.forward", a}, {"Torch.add.5.forward", a}}));
  match_fuzzy(target, golden);
  EXPECT_EQ(partner(target, golden, a), a);
  EXPECT_EQ(partner(target, golden, "Torch.add.0.forward"), "Torch.add.4.forward");
  EXPECT_EQ(partner(target, golden, "Torch.add.1.forward"), "Torch.add.5.forward");
  EXPECT_EQ(partner(target, golden, "Torch.mul.3.forward"), "Torch.mul.7.forward");
  EXPECT_EQ(partner(golden, target, "Torch.add.5.forward"), "Torch.add.1.forward");
}

TEST(FuzzyMatching, CollectionsAndTheRootAreParentsToo) {
  Graph target = graph_of(
      with_records({{"Torch.add.0.forward", ""}, {"Torch.mul.0.forward", ""}, {"Module.a.A.forward.0", ""}, {"Torch.cat.2.forward", ""}}));
  Graph golden = graph_of(
      with_records({{"Torch.add.8.forward", ""}, {"Torch.mul.9.forward", ""}, {"Module.a.A.forward.0", ""}, {"Torch.cat.0.forward", ""}}));
  match_fuzzy(target, golden);
  EXPECT_EQ(partner(target, golden, "Torch.add.0.forward"), "Torch.add.8.forward");
  EXPECT_EQ(partner(target, golden, "Torch.mul.0.forward"), "Torch.mul.9.forward");
  EXPECT_EQ(partner(target, golden, "Torch.cat.2.forward"), "Torch.cat.0.forward");
}

TEST(FuzzyMatching, ModulesByNameWhereverTheyStand) {
  Graph target = graph_of(with_records(
      {{"Module.a.A.forward.0", ""}, {"Module.b.B.forward.0", "Module.a.A.forward.0"}, {"Torch.x.0.forward", "Module.b.B.forward.0"}}));
  Graph golden = graph_of(with_records({{"Module.b.B.forward.0", ""}, {"Torch.x.5.forward", "Module.b.B.forward.0"}}));
  match_fuzzy(target, golden);
  EXPECT_EQ(partner(target, golden, "Module.b.B.forward.0"), "Module.b.B.forward.0");
  EXPECT_EQ(partner(target, golden, "Torch.x.0.forward"), "Torch.x.5.forward");
  EXPECT_EQ(partner(target, golden, "Module.a.A.forward.0"), "");
}

TEST(FuzzyMatching, ChildrenOfUnmatchedParentsAndOfApisStayAlone) {
  Graph target = graph_of(with_records({{"Module.a.A.forward.0", ""},
                                        {"Torch.x.0.forward", "Module.a.A.forward.0"},
                                        {"Torch.out.0.forward", ""},
                                        {"Torch.in.0.forward", "Torch.out.0.forward"}}));
  Graph golden = graph_of(with_records({{"Module.b.A.forward.0", ""},
                                        {"Torch.x.0.forward", "Module.b.A.forward.0"},
                                        {"Torch.out.0.forward", ""},
                                        {"Torch.in.0.forward", "Torch.out.0.forward"}}));
  match_fuzzy(target, golden);
  EXPECT_EQ(partner(target, golden, "Torch.x.0.forward"), "");
  EXPECT_EQ(partner(target, golden, "Torch.out.0.forward"), "Torch.out.0.forward");
  EXPECT_EQ(partner(target, golden, "Torch.in.0.forward"), "");
}

TEST(FuzzyMatching, KeysOfNames) {
  const std::string a = "Module.a.A.forward.0";
  // Two numbers in a row lose only the first; rank suffixes go; a number at the end stays.
  Graph target = graph_of(with_records(
      {{a, ""}, {"Torch.p.1.2.forward", a}, {"Torch.q_rank3.0.forward", a}, {"Torch.r.0.forward.1", a}, {"Torch.s_rankx.0.forward", a}}));
  Graph golden = graph_of(with_records(
      {{a, ""}, {"Torch.p.7.3.forward", a}, {"Torch.q_rank12.9.forward", a}, {"Torch.r.0.forward.2", a}, {"Torch.s_ranky.0.forward", a}}));
  match_fuzzy(target, golden);
  EXPECT_EQ(partner(target, golden, "Torch.p.1.2.forward"), "");
  EXPECT_EQ(partner(target, golden, "Torch.q_rank3.0.forward"), "Torch.q_rank12.9.forward");
  EXPECT_EQ(partner(target, golden, "Torch.r.0.forward.1"), "");
  EXPECT_EQ(partner(target, golden, "Torch.s_rankx.0.forward"), "");
}

class Mapped : public testing::Test {
 protected:
  void match(std::string_view yaml, Compat compat = Compat::reference) {
    mapping_ = LayerMapping::parse(yaml);
    match_mapped(target_, golden_, mapping_, compat, warnings_, &usage_);
  }
  [[nodiscard]] std::string of(std::string_view name) const { return partner(target_, golden_, name); }

  Graph target_;
  Graph golden_;
  LayerMapping mapping_;
  MappingUsage usage_;
  std::vector<std::string> warnings_;
};

const std::string net = "Module.module.Net.forward.0";

TEST_F(Mapped, RulesAndEqualNames) {
  target_ = graph_of(with_records({{net, ""},
                                   {"Module.module.fc.Fc.forward.0", net},
                                   {"Torch.add.0.forward", "Module.module.fc.Fc.forward.0"},
                                   {"Torch.top.0.forward", ""},
                                   {"Torch.top.1.forward", ""}}));
  golden_ = graph_of(with_records({{"Module.model.Net2.forward.0", ""},
                                   {"Module.model.dense.Dense.forward.0", "Module.model.Net2.forward.0"},
                                   {"Torch.add.4.forward", "Module.model.dense.Dense.forward.0"},
                                   {"Torch.top.6.forward", ""},
                                   {"Torch.top.7.forward", ""}}));
  match("TopLayer: {module: model}\nNet: {fc: dense, zzz: y, fc.none: x}\nOther: {a: b}\n");
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(of(net), "Module.model.Net2.forward.0");
  EXPECT_EQ(of("Module.module.fc.Fc.forward.0"), "Module.model.dense.Dense.forward.0");
  EXPECT_EQ(of("Torch.add.0.forward"), "Torch.add.4.forward");
  EXPECT_EQ(of("Torch.top.1.forward"), "Torch.top.7.forward");
  EXPECT_EQ(of("Apis_Between_Modules.0"), "Apis_Between_Modules.0");
  EXPECT_EQ(of("DefaultModel"), "DefaultModel");
  const auto& top = usage_.counts_by_class.at("TopLayer");
  ASSERT_EQ(top.size(), 1U);
  EXPECT_EQ(top[0].applied, 3U);
  EXPECT_EQ(top[0].matched, 3U);
  const auto& rules = usage_.counts_by_class.at("Net");
  ASSERT_EQ(rules.size(), 3U);  // fc.none, fc, zzz
  EXPECT_EQ(rules[0].applied, 0U);
  EXPECT_EQ(rules[1].applied, 2U);
  EXPECT_EQ(rules[2].applied, 0U);
  EXPECT_EQ(usage_.counts_by_class.at("Other")[0].applied, 0U);
}

TEST_F(Mapped, NotAvailableMeansNoPartner) {
  target_ = graph_of(with_records({{net, ""}, {"Module.module.fc.Fc.forward.0", net}}));
  golden_ = graph_of(with_records({{net, ""}, {"Module.module.fc.Fc.forward.0", net}}));
  match("Net: {fc: nothing}");
  EXPECT_EQ(of("Module.module.fc.Fc.forward.0"), "");
  EXPECT_EQ(usage_.counts_by_class.at("Net")[0].applied, 1U);
  EXPECT_EQ(usage_.counts_by_class.at("Net")[0].matched, 0U);
}

TEST_F(Mapped, NodesWithoutRecordMatchByEqualName) {
  auto side = with_records({{net, ""}});
  side.construct.push_back({"Torch.norecord.0.forward", net});
  target_ = graph_of(side);
  golden_ = graph_of(side);
  match("{}");
  EXPECT_EQ(of("Torch.norecord.0.forward"), "Torch.norecord.0.forward");
}

TEST_F(Mapped, GoldenKeepsTheLastLink) {
  target_ = graph_of(with_records({{net, ""}, {"Module.module.a.A.forward.0", net}, {"Module.module.b.A.forward.0", net}}));
  golden_ = graph_of(with_records({{net, ""}, {"Module.module.c.A.forward.0", net}}));
  match("Net: {a: c, b: c}");
  EXPECT_EQ(of("Module.module.a.A.forward.0"), "Module.module.c.A.forward.0");
  EXPECT_EQ(of("Module.module.b.A.forward.0"), "Module.module.c.A.forward.0");
  EXPECT_EQ(partner(golden_, target_, "Module.module.c.A.forward.0"), "Module.module.b.A.forward.0");
}

TEST_F(Mapped, FaultsInRecordsGiveAWarningAndEqualNames) {
  auto side = with_records({{net, ""}, {"Module.module.a.A.forward.0", net}}, {"a.b.c"});
  target_ = graph_of(side);
  golden_ = graph_of(with_records({{net, ""}, {"Module.module.a.A.forward.0", net}}));
  match("Net: {a: c}");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("dump.json: record name 'a.b.c'"));
  EXPECT_EQ(of("Module.module.a.A.forward.0"), "Module.module.a.A.forward.0");
  EXPECT_EQ(usage_.counts_by_class.at("Net").size(), 1U);
}

TEST_F(Mapped, StackFaultsGiveAWarning) {
  auto side = with_records({{net, ""}, {"Torch.add.0.forward", net}});
  golden_ = graph_of(side);
  side.stack = R"({"Torch.add.0.forward": ["x", 7]})";
  target_ = graph_of(side);
  match("{}");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("stack.json: the stack of 'Torch.add.0.forward' has a line that is no text"));
  EXPECT_EQ(of("Torch.add.0.forward"), "Torch.add.0.forward");
}

TEST_F(Mapped, EmptyStackFileSwitchesTheSideOff) {
  auto side = with_records({{net, ""}});
  golden_ = graph_of(side);
  side.stack = "{}";
  target_ = graph_of(side);
  match("TopLayer: {module: model}");
  EXPECT_EQ(of(net), net);
  // On the golden side: there is nothing to find.
  target_ = graph_of(with_records({{net, ""}}));
  golden_ = graph_of(side);
  match("{}");
  EXPECT_EQ(of(net), "");
}

TEST_F(Mapped, FrameworksDecideTheFrameFunction) {
  const std::string parent = "Cell.network.Net.forward.0";
  auto target = with_records({{parent, ""}, {"Mint.linear.0.forward", parent}});
  target.framework = "mindspore";
  target.stack =
      R"({"Mint.linear.0.forward": ["File /Template.py, line 1, in t, \n", "File /site-packages/mindspore/n.py, line 1, in linear, \n", "File /u.py, line 3, in construct, \n"]})";
  auto golden = with_records({{"Module.network.Net.forward.0", ""}, {"Functional.linear.7.forward", "Module.network.Net.forward.0"}});
  golden.stack =
      R"({"Functional.linear.7.forward": ["File /site-packages/torch/f.py, line 1, in linear, \n", "File /u.py, line 3, in forward, \n"]})";
  target_ = graph_of(target);
  golden_ = graph_of(golden);
  match("{}");
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(of("Mint.linear.0.forward"), "Functional.linear.7.forward");
}

TEST_F(Mapped, GroupedStackIsNotExpanded) {
  const std::string parent = "Module.network.Net.forward.0";
  auto target = with_records({{parent, ""}, {"Torch.linear.0.forward", parent}});
  target.stack = R"({"0": [["Torch.linear.0.forward"], ["File /site-packages/torch/f.py, line 1, in linear, \n"]]})";
  target_ = graph_of(target);
  golden_ = graph_of(with_records(target.construct));
  match("{}");
  EXPECT_EQ(of("Torch.linear.0.forward"), "Torch.linear.0.forward");
}

TEST_F(Mapped, UsageIsSummed) {
  MappingUsage sum;
  sum.add(MappingUsage{{{"A", {{1, 1}, {2, 0}}}}});
  sum.add(MappingUsage{{{"A", {{1, 0}, {0, 0}}}, {"B", {{5, 5}}}}});
  EXPECT_EQ(sum.counts_by_class.at("A")[0].applied, 2U);
  EXPECT_EQ(sum.counts_by_class.at("A")[0].matched, 1U);
  EXPECT_EQ(sum.counts_by_class.at("A")[1].applied, 2U);
  EXPECT_EQ(sum.counts_by_class.at("B")[0].matched, 5U);
}

TEST_F(Mapped, DeepTreesNeedNoStack) {
  Construct chain;
  std::string name = "Module.m";
  std::string parent;
  for (int level = 0; level < 1000; ++level) {
    name += ".m";
    chain.push_back({name + ".M.forward.0", parent});
    parent = chain.back().first;
  }
  target_ = graph_of(with_records(chain));
  golden_ = graph_of(with_records(chain));
  match("{}");
  EXPECT_EQ(of(parent), parent);
  match_exact(target_, golden_);
  EXPECT_EQ(of(parent), parent);
  match_fuzzy(target_, golden_);
  EXPECT_EQ(of(parent), parent);
}

}  // namespace
}  // namespace msvis
