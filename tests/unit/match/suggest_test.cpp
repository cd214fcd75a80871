#include "match/suggest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msvis/error.h"
#include "sides.h"

namespace msvis {
namespace {

using test::Construct;
using test::graph_of;
using test::partner;
using test::SideText;
using test::with_records;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

NoPartner reason_of(const Suggestions& found, std::string_view name) {
  for (const UnmatchedNode& node : found.unmatched) {
    if (node.name == name) {
      return node.reason;
    }
  }
  throw std::runtime_error("not among the unmatched: " + std::string(name));
}

auto rule(std::string_view class_name, std::string_view from, std::string_view to) {
  return AllOf(Field(&SuggestedRule::class_name, class_name), Field(&SuggestedRule::from, from), Field(&SuggestedRule::to, to));
}

/// A record with one output of a shape.
std::string output(std::string_view shape) {
  return R"({"input_args":[],"input_kwargs":{},"output":[{"type":"torch.Tensor","dtype":"torch.float32","shape":)" + std::string(shape) +
         R"(,"Max":1.0,"Min":1.0,"Mean":1.0,"Norm":1.0,"requires_grad":false}]})";
}

TEST(Reasons, OfUnmatchedNodes) {
  Graph target = graph_of(with_records({{"Module.a.A.forward.0", ""},
                                        {"Torch.new.0.forward", "Module.a.A.forward.0"},
                                        {"Torch.moved.0.forward", "Module.a.A.forward.0"},
                                        {"Distributed.x.0.forward", ""},
                                        {"Torch.onlynpu.0.forward", ""}}));
  Graph golden = graph_of(with_records({{"Module.a.A.forward.0", ""},
                                        {"Distributed.x.0.forward", ""},
                                        {"Module.b.B.forward.0", ""},
                                        {"Torch.moved.0.forward", "Module.b.B.forward.0"}}));
  match_exact(target, golden);
  const Suggestions found = suggest(target, golden, {}, Compat::standard);
  EXPECT_EQ(reason_of(found, "Torch.new.0.forward"), NoPartner::no_such_name);
  EXPECT_EQ(reason_of(found, "Torch.moved.0.forward"), NoPartner::other_parent);
  EXPECT_EQ(reason_of(found, "Distributed.x.0.forward"), NoPartner::collection_shifted);
  EXPECT_EQ(reason_of(found, "Apis_Between_Modules.0"), NoPartner::no_such_name);
  EXPECT_EQ(reason_of(found, "Torch.onlynpu.0.forward"), NoPartner::no_such_name);
  EXPECT_THAT(found.unmatched_by_reason, ElementsAre(3, 1, 1, 0));
  EXPECT_EQ(no_partner_text(NoPartner::collection_shifted), "collection shifted");
}

TEST(Reasons, ShiftedNumberOfACollection) {
  const Construct golden_nodes = {{"Module.a.A.forward.0", ""}, {"Torch.p.0.forward", ""}, {"Torch.q.0.forward", ""}};
  Construct target_nodes = {{"Torch.r.0.forward", ""}, {"Torch.s.0.forward", ""}};
  target_nodes.insert(target_nodes.end(), golden_nodes.begin(), golden_nodes.end());
  Graph target = graph_of(with_records(target_nodes));
  Graph golden = graph_of(with_records(golden_nodes));
  match_exact(target, golden);
  const Suggestions found = suggest(target, golden, {}, Compat::standard);
  EXPECT_EQ(reason_of(found, "Torch.p.0.forward"), NoPartner::collection_shifted);
  EXPECT_EQ(reason_of(found, "Torch.q.0.forward"), NoPartner::collection_shifted);
}

TEST(Reasons, PairedElsewhere) {
  const std::string a = "Module.a.A.forward.0";
  Graph target = graph_of(with_records({{a, ""}, {"Torch.add.0.forward", a}, {"Torch.add.1.forward", a}}));
  Graph golden = graph_of(with_records({{a, ""}, {"Torch.add.1.forward", a}}));
  match_fuzzy(target, golden);
  const Suggestions found = suggest(target, golden, {}, Compat::standard);
  EXPECT_THAT(found.unmatched, ElementsAre(Field(&UnmatchedNode::name, "Torch.add.1.forward")));
  EXPECT_EQ(reason_of(found, "Torch.add.1.forward"), NoPartner::paired_elsewhere);
}

class RenamedModel : public testing::Test {
 protected:
  RenamedModel() : target_(graph_of(target_text())), golden_(graph_of(golden_text())) {}

  static SideText target_text() {
    Construct nodes;
    const std::string net = "Module.module.GPT.forward.0";
    nodes.push_back({net, ""});
    nodes.push_back({"Module.module.tok.Embedding.forward.0", net});
    for (const std::string layer : {"0", "1"}) {
      const std::string block = "Module.module.layers." + layer + ".Block.forward.0";
      nodes.push_back({block, net});
      nodes.push_back({"Module.module.layers." + layer + ".attn.Attn.forward.0", block});
      nodes.push_back({"Torch.matmul." + layer + ".forward", "Module.module.layers." + layer + ".attn.Attn.forward.0"});
      nodes.push_back({"Module.module.layers." + layer + ".mlp.Mlp.forward.0", block});
      nodes.push_back(
          {"Module.module.layers." + layer + ".mlp.fc.Linear.forward.0", "Module.module.layers." + layer + ".mlp.Mlp.forward.0"});
    }
    nodes.push_back({"Module.module.GPT.backward.0", ""});
    nodes.push_back({"Module.module.tok.Embedding.backward.0", "Module.module.GPT.backward.0"});
    return with_records(nodes);
  }

  static SideText golden_text() {
    Construct nodes;
    const std::string net = "Module.model.GPT2.forward.0";
    nodes.push_back({net, ""});
    nodes.push_back({"Module.model.wte.Embedding.forward.0", net});
    for (const std::string layer : {"0", "1"}) {
      const std::string block = "Module.model.h." + layer + ".Block.forward.0";
      nodes.push_back({block, net});
      nodes.push_back({"Module.model.h." + layer + ".self_attention.Attn.forward.0", block});
      nodes.push_back({"Torch.matmul." + layer + ".forward", "Module.model.h." + layer + ".self_attention.Attn.forward.0"});
      nodes.push_back({"Module.model.h." + layer + ".mlp.FeedForward.forward.0", block});
      nodes.push_back(
          {"Module.model.h." + layer + ".mlp.dense.Linear.forward.0", "Module.model.h." + layer + ".mlp.FeedForward.forward.0"});
    }
    nodes.push_back({"Module.model.GPT2.backward.0", ""});
    nodes.push_back({"Module.model.wte.Embedding.backward.0", "Module.model.GPT2.backward.0"});
    SideText side = with_records(nodes);
    side.record_text[net] = output("[2,3]");
    return side;
  }

  /// Second run with the rendered file; every promise must hold.
  void expect_promises_kept(const LayerMapping& current, const Suggestions& found) {
    const LayerMapping mapping = LayerMapping::parse(render_mapping(current, found.rules));
    std::vector<std::string> warnings;
    match_mapped(target_, golden_, mapping, Compat::standard, warnings);
    EXPECT_TRUE(warnings.empty());
    EXPECT_EQ(found.promised_count, found.promised.size());
    for (const PromisedPair& pair : found.promised) {
      EXPECT_EQ(partner(target_, golden_, pair.target), pair.golden);
    }
  }

  Graph target_;
  Graph golden_;
};

TEST_F(RenamedModel, RulesMatchTheWholeModel) {
  match_exact(target_, golden_);
  // Names of the top modules have nothing in common but their shape, so help with one rule.
  const LayerMapping current = LayerMapping::parse("TopLayer: {module: model}\n");
  std::vector<std::string> warnings;
  match_mapped(target_, golden_, current, Compat::standard, warnings);
  EXPECT_EQ(partner(target_, golden_, "Module.module.tok.Embedding.forward.0"), "");
  const Suggestions found = suggest(target_, golden_, current, Compat::standard);
  EXPECT_THAT(found.rules, ElementsAre(rule("Block", "attn", "self_attention"), rule("GPT", "layers", "h"), rule("GPT", "tok", "wte"),
                                       rule("Mlp", "fc", "dense")));
  EXPECT_EQ(found.rules[2].nodes, 2U);  // forward and backward
  EXPECT_EQ(found.rules[1].nodes, 10U);
  EXPECT_EQ(found.promised_count, 12U);
  expect_promises_kept(current, found);
  for (const Node& node : target_.nodes) {
    EXPECT_NE(node.link, no_node) << node.name;
  }
}

TEST_F(RenamedModel, CandidatesStandAtTheSamePlace) {
  const LayerMapping current = LayerMapping::parse("TopLayer: {module: model}\n");
  std::vector<std::string> warnings;
  match_mapped(target_, golden_, current, Compat::standard, warnings);
  const Suggestions found = suggest(target_, golden_, current, Compat::standard);
  EXPECT_EQ(found.candidate_count, found.candidates.size());
  std::map<std::string, std::string> candidates;
  for (const Candidate& candidate : found.candidates) {
    candidates[candidate.target] = candidate.golden;
    EXPECT_FALSE(candidate.same_shape);
  }
  EXPECT_EQ(candidates["Module.module.tok.Embedding.forward.0"], "Module.model.wte.Embedding.forward.0");
  EXPECT_EQ(candidates["Module.module.tok.Embedding.backward.0"], "Module.model.wte.Embedding.backward.0");
  EXPECT_EQ(candidates["Module.module.layers.1.Block.forward.0"], "Module.model.h.1.Block.forward.0");
  EXPECT_EQ(candidates["Module.module.layers.1.mlp.fc.Linear.forward.0"], "Module.model.h.1.mlp.dense.Linear.forward.0");
  EXPECT_EQ(candidates.count("Torch.matmul.0.forward"), 0U);
}

TEST_F(RenamedModel, BoundedLists) {
  const LayerMapping current = LayerMapping::parse("TopLayer: {module: model}\n");
  std::vector<std::string> warnings;
  match_mapped(target_, golden_, current, Compat::standard, warnings);
  Suggestions found = suggest(target_, golden_, current, Compat::standard, 3);
  EXPECT_EQ(found.unmatched.size(), 3U);
  EXPECT_EQ(found.candidates.size(), 3U);
  EXPECT_EQ(found.promised.size(), 3U);
  EXPECT_EQ(found.promised_count, 12U);
  merge_suggestions(found, found, 4);
  EXPECT_EQ(found.promised.size(), 4U);
  EXPECT_EQ(found.promised_count, 24U);
  EXPECT_EQ(found.rules.size(), 4U);
  EXPECT_EQ(found.rules[1].nodes, 20U);
}

TEST(Suggesting, ClassesOnly) {
  Graph target = graph_of(with_records({{"Module.net.Net.forward.0", ""}, {"Module.net.fc.Dense.forward.0", "Module.net.Net.forward.0"}}));
  Graph golden =
      graph_of(with_records({{"Module.net.Model.forward.0", ""}, {"Module.net.fc.Linear.forward.0", "Module.net.Model.forward.0"}}));
  match_exact(target, golden);
  const Suggestions found = suggest(target, golden, {}, Compat::standard);
  EXPECT_THAT(found.rules, IsEmpty());
  EXPECT_EQ(found.promised_count, 2U);
  EXPECT_TRUE(LayerMapping::parse(render_mapping({}, found.rules)).rules_by_class.empty());
}

TEST(Suggesting, ShapeAndClassOfTheFirstOutputDecide) {
  const std::string net = "Module.net.Net.forward.0";
  auto target_text = with_records(
      {{net, ""}, {"Module.net.a.Linear.forward.0", net}, {"Module.net.b.Linear.forward.0", net}, {"Module.net.c.Norm.forward.0", net}});
  target_text.record_text["Module.net.a.Linear.forward.0"] = output("[2,3]");
  target_text.record_text["Module.net.b.Linear.forward.0"] = output("[4]");
  target_text.record_text["Module.net.c.Norm.forward.0"] = output("[7]");
  auto golden_text = with_records(
      {{net, ""}, {"Module.net.x.Linear.forward.0", net}, {"Module.net.y.Linear.forward.0", net}, {"Module.net.z.RmsNorm.forward.0", net}});
  golden_text.record_text["Module.net.x.Linear.forward.0"] = output("[4]");
  golden_text.record_text["Module.net.y.Linear.forward.0"] = output("[2,3]");
  golden_text.record_text["Module.net.z.RmsNorm.forward.0"] = output("[7]");
  Graph target = graph_of(target_text);
  Graph golden = graph_of(golden_text);
  match_exact(target, golden);
  const Suggestions found = suggest(target, golden, {}, Compat::standard);
  EXPECT_THAT(found.rules, ElementsAre(rule("Net", "a", "y"), rule("Net", "b", "x"), rule("Net", "c", "z")));
  ASSERT_EQ(found.candidates.size(), 3U);
  EXPECT_TRUE(found.candidates[0].same_class);
  EXPECT_TRUE(found.candidates[0].same_shape);
  EXPECT_FALSE(found.candidates[2].same_class);
  EXPECT_TRUE(found.candidates[2].same_shape);
}

TEST(Suggesting, NoRuleTakesAPartnerAway) {
  // `fc` is `dense` in one block and `fc` in the other of the same class.
  const std::string net = "Module.net.Net.forward.0";
  Graph target = graph_of(with_records({{net, ""},
                                        {"Module.net.a.Block.forward.0", net},
                                        {"Module.net.a.fc.Linear.forward.0", "Module.net.a.Block.forward.0"},
                                        {"Module.net.b.Block.forward.0", net},
                                        {"Module.net.b.fc.Linear.forward.0", "Module.net.b.Block.forward.0"}}));
  Graph golden = graph_of(with_records({{net, ""},
                                        {"Module.net.a.Block.forward.0", net},
                                        {"Module.net.a.fc.Linear.forward.0", "Module.net.a.Block.forward.0"},
                                        {"Module.net.b.Block.forward.0", net},
                                        {"Module.net.b.dense.Linear.forward.0", "Module.net.b.Block.forward.0"}}));
  match_exact(target, golden);
  const Suggestions found = suggest(target, golden, {}, Compat::standard);
  EXPECT_EQ(found.candidate_count, 1U);
  EXPECT_THAT(found.rules, IsEmpty());
  EXPECT_EQ(found.promised_count, 0U);
}

TEST(Suggesting, OldRulesAreKeptOrReplaced) {
  const std::string net = "Module.net.Net.forward.0";
  Graph target = graph_of(with_records({{net, ""}, {"Module.net.a.A.forward.0", net}, {"Module.net.b.B.forward.0", net}}));
  Graph golden = graph_of(with_records({{net, ""}, {"Module.net.x.A.forward.0", net}, {"Module.net.y.B.forward.0", net}}));
  const LayerMapping current = LayerMapping::parse("Net: {a: wrong, b: y}\nUnused: {p.q: r}\n");
  std::vector<std::string> warnings;
  MappingUsage usage;
  match_mapped(target, golden, current, Compat::standard, warnings, &usage);
  const Suggestions found = suggest(target, golden, current, Compat::standard);
  EXPECT_THAT(found.rules, ElementsAre(rule("Net", "a", "x")));
  const std::string text = render_mapping(current, found.rules);
  EXPECT_THAT(text, HasSubstr("Net:\n  a: x  # suggested: 1 node\n  b: \"y\"\nUnused:\n  p.q: r\n"));
  match_mapped(target, golden, LayerMapping::parse(text), Compat::standard, warnings);
  EXPECT_EQ(partner(target, golden, "Module.net.a.A.forward.0"), "Module.net.x.A.forward.0");
  EXPECT_EQ(partner(target, golden, "Module.net.b.B.forward.0"), "Module.net.y.B.forward.0");

  const auto unused = unused_rules(current, usage);
  ASSERT_EQ(unused.size(), 2U);
  EXPECT_EQ(unused[0].class_name, "Net");
  EXPECT_EQ(unused[0].from, "a");
  EXPECT_EQ(unused[0].to, "wrong");
  EXPECT_TRUE(unused[0].applied);
  EXPECT_EQ(unused[1].from, "p.q");
  EXPECT_EQ(unused[1].line, 2);
  EXPECT_FALSE(unused[1].applied);
}

TEST(Suggesting, FaultyRecordsGiveCandidatesOnly) {
  const std::string net = "Module.net.Net.forward.0";
  Graph target = graph_of(with_records({{net, ""}, {"Module.net.a.A.forward.0", net}}, {"a.b"}));
  Graph golden = graph_of(with_records({{net, ""}, {"Module.net.x.A.forward.0", net}}));
  match_exact(target, golden);
  const Suggestions found = suggest(target, golden, {}, Compat::standard);
  EXPECT_EQ(found.candidate_count, 1U);
  EXPECT_EQ(found.promised_count, 0U);
}

TEST(Rendering, AnyNameComesBack) {
  std::vector<SuggestedRule> rules;
  for (const std::string name :
       {"5",           "layers.0",  "true",     "No", "y", "~", "null",        "with blank", "a: b", "#x",    "\"q\"",
        "back\\slash", "tab\there", "\xC3\xA4", "-",  "?", "'", "0x1F",        ".inf",       "!t",   "&a",    "*a",
        "{",           "trailing ", " leading", "%x", "@", "`", "line\nbreak", "\x7F",       "on",   "a.b.c", "1.5"}) {
    rules.push_back({name, name, name, 1});
  }
  rules.push_back({"Long", std::string(4000, 'k'), std::string(4000, 'v'), 1});
  rules.push_back({"Escaped", std::string(2000, '"'), "v", 1});
  const LayerMapping mapping = LayerMapping::parse(render_mapping({}, rules));
  for (const SuggestedRule& rule : rules) {
    const auto found = mapping.rules_by_class.find(rule.class_name);
    ASSERT_NE(found, mapping.rules_by_class.end()) << rule.class_name;
    std::string from;
    for (std::size_t field = 0; field < found->second[0].from.size(); ++field) {
      from += (field == 0 ? "" : ".") + found->second[0].from[field];
    }
    EXPECT_EQ(from, rule.from);
  }
}

TEST(Packing, ComesBackEqual) {
  Suggestions all;
  all.unmatched_by_reason = {1, 2, 3, 4};
  all.unmatched = {{"n", NoPartner::other_parent}};
  all.candidate_count = 7;
  all.candidates = {{"t", "g", true, false}};
  all.rules = {{"C", "a", "b", 5}};
  all.promised_count = 9;
  all.promised = {{"t", "g"}};
  const Suggestions back = unpack_suggestions(pack(all));
  EXPECT_EQ(back.unmatched_by_reason, all.unmatched_by_reason);
  EXPECT_EQ(back.unmatched[0].reason, NoPartner::other_parent);
  EXPECT_EQ(back.candidate_count, 7U);
  EXPECT_TRUE(back.candidates[0].same_class);
  EXPECT_FALSE(back.candidates[0].same_shape);
  EXPECT_THAT(back.rules, ElementsAre(rule("C", "a", "b")));
  EXPECT_EQ(back.rules[0].nodes, 5U);
  EXPECT_EQ(back.promised_count, 9U);
  EXPECT_EQ(back.promised[0].golden, "g");
  const MappingUsage usage = unpack_mapping_usage(pack(MappingUsage{{{"A", {{1, 2}, {3, 4}}}, {"B", {}}}}));
  EXPECT_EQ(usage.counts_by_class.at("A")[1].matched, 4U);
  EXPECT_TRUE(usage.counts_by_class.at("B").empty());
  EXPECT_THROW((void)unpack_suggestions("short"), Error);
}

TEST(Merging, RulesOfSeveralRanksAreVotes) {
  Suggestions sum;
  sum.rules = {{"C", "a", "x", 5}};
  Suggestions other;
  other.rules = {{"C", "a", "y", 3}, {"D", "b", "z", 1}};
  merge_suggestions(sum, other);
  EXPECT_THAT(sum.rules, ElementsAre(rule("C", "a", "x"), rule("D", "b", "z")));
  merge_suggestions(sum, other);
  other.rules[0].nodes = 30;
  merge_suggestions(sum, other);
  EXPECT_THAT(sum.rules, ElementsAre(rule("C", "a", "y"), rule("D", "b", "z")));
}

}  // namespace
}  // namespace msvis
