#include "merge/stage.h"

#include <gtest/gtest.h>

#include "merge/experts.h"
#include "merge/micro_batches.h"
#include "merge/stages.h"
#include "msvis/error.h"

namespace msvis {
namespace {

/// A rank with some modules; the parent of each is the one named before with a smaller depth.
std::uint32_t add_rank_of(Forest& forest, std::int64_t number, const std::vector<std::pair<int, std::string>>& nodes) {
  const auto rank = static_cast<std::uint32_t>(forest.ranks.size());
  forest.ranks.emplace_back().rank = number;
  const std::uint32_t root = forest.add(rank, root_name, NodeType::module);
  forest.ranks[rank].root = root;
  std::vector<std::uint32_t> way{root};
  for (const auto& [depth, name] : nodes) {
    way.resize(static_cast<std::size_t>(depth));
    const std::uint32_t added = forest.add(rank, name, node_type_of(name));
    forest.append_child(way.back(), added);
    way.push_back(added);
  }
  return rank;
}

std::vector<std::string> names_below(const Forest& forest, std::uint32_t top) {
  std::vector<std::string> names;
  for (const std::uint32_t child : forest.nodes[top].children) {
    names.emplace_back(forest.name(child));
    const auto below = names_below(forest, child);
    names.insert(names.end(), below.begin(), below.end());
  }
  return names;
}

std::vector<std::string> tree(const Forest& forest, std::uint32_t rank) {
  return names_below(forest, forest.ranks[rank].root);
}

using Names = std::vector<std::string>;

TEST(FoldedStage, TravelsAsBytes) {
  FoldedStage stage;
  stage.main = add_rank_of(stage.forest, 3, {{1, "Module.0.M.forward.0"}, {2, "Torch.add.0.forward"}});
  TreeNode& node = stage.forest.nodes.back();
  node.info = {"a line"};
  TreeEntry& entry = node.inputs.emplace_back();
  entry.key = stage.forest.texts.id("input.0");
  entry.source_node = static_cast<std::uint32_t>(stage.forest.nodes.size() - 1);
  entry.change_stat(stat_max, Number::of(1.5));
  entry.parts = std::make_shared<TensorParts>(
      TensorParts{TensorParts::Kind::file, "/dump", "x.pt", "torch.float32", 0, {}, {}, false, "", {}, false});
  stage.tally.find("diverged replicas", "one");
  stage.saved["Apis_Between_Modules.0"].push_back({0, stage.forest.nodes[1], {stage.forest.nodes[2]}});
  const std::string bytes = pack(stage);

  Forest forest;
  add_rank_of(forest, 0, {{1, "Module.x.X.forward.0"}});
  const AddedStage added = add_stage(forest, bytes);
  EXPECT_EQ(added.main, 1U);
  EXPECT_EQ(forest.ranks[1].rank, 3);
  EXPECT_EQ(tree(forest, 1), (Names{"Module.0.M.forward.0", "Torch.add.0.forward"}));
  EXPECT_EQ(tree(forest, 0), (Names{"Module.x.X.forward.0"}));
  const std::uint32_t api = forest.find(1, "Torch.add.0.forward");
  ASSERT_NE(api, no_node);
  ASSERT_EQ(forest.nodes[api].inputs.size(), 1U);
  EXPECT_EQ(forest.texts[forest.nodes[api].inputs[0].key], "input.0");
  EXPECT_EQ(forest.nodes[api].inputs[0].source_node, api);
  EXPECT_EQ(forest.nodes[api].inputs[0].stat(stat_max).value(), 1.5);
  EXPECT_EQ(forest.nodes[api].inputs[0].parts->data_name, "x.pt");
  EXPECT_EQ(forest.nodes[api].info, (Names{"a line"}));
  EXPECT_EQ(added.tally.finding_counts.at("diverged replicas"), 1U);
  EXPECT_EQ(added.saved.at("Apis_Between_Modules.0").at(0).rank, 1U);

  for (std::size_t size = 0; size < bytes.size(); ++size) {  // whatever arrives, nothing crashes
    Forest broken;
    EXPECT_THROW(add_stage(broken, std::string_view(bytes).substr(0, size)), Error) << size;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string other = bytes;
    other[at] = static_cast<char>(other[at] ^ 0x55);
    Forest broken;
    try {
      add_stage(broken, other);
    } catch (const Error&) {
    }
  }
}

const std::vector<std::pair<int, std::string>> stage_of_two{
    {1, "Module.0.G.forward.0"},    {2, "Module.0.d.T.forward.0"},           {3, "Module.0.d.layers.0.L.forward.0"},
    {4, "Torch.mm.0.forward"},      {3, "Module.0.d.layers.1.L.forward.0"},  {1, "Module.0.G.backward.0"},
    {2, "Module.0.d.T.backward.0"}, {3, "Module.0.d.layers.1.L.backward.0"}, {3, "Module.0.d.layers.0.L.backward.0"}};

TEST(Stages, LayersAreNumberedByWhatCameBefore) {
  Forest forest;
  const std::uint32_t first = add_rank_of(forest, 0, stage_of_two);
  const std::uint32_t second = add_rank_of(forest, 1,
                                           {{1, "Module.0.G.forward.0"},
                                            {2, "Module.0.d.T.forward.0"},
                                            {3, "Module.0.d.layers.0.L.forward.0"},
                                            {4, "Torch.mm.0.forward"},
                                            {2, "Module.0.norm.N.forward.0"},
                                            {1, "Module.0.G.backward.0"},
                                            {2, "Module.0.norm.N.backward.0"},
                                            {2, "Module.0.d.T.backward.0"},
                                            {3, "Module.0.d.layers.0.L.backward.0"}});
  MergeTally tally;
  join_stages(forest, first, std::vector<std::uint32_t>{second}, 1, tally);
  EXPECT_EQ(tree(forest, first),
            (Names{"Module.0.G.forward.0", "Module.0.d.T.forward.0", "Module.0.d.layers.0.L.forward.0", "Torch.mm.0.forward",
                   "Module.0.d.layers.1.L.forward.0", "Module.0.d.layers.2.L.forward.0", "Torch.mm_rank1.0.forward",
                   "Module.0.norm.N.forward.0", "Module.0.G.backward.0", "Module.0.norm.N.backward.0", "Module.0.d.T.backward.0",
                   "Module.0.d.layers.2.L.backward.0", "Module.0.d.layers.1.L.backward.0", "Module.0.d.layers.0.L.backward.0"}));
}

TEST(Stages, NumbersOfTheWholeModelStay) {
  Forest forest;
  const std::uint32_t first = add_rank_of(forest, 0, stage_of_two);
  const std::uint32_t second =
      add_rank_of(forest, 1, {{1, "Module.0.G.forward.0"}, {2, "Module.0.d.T.forward.0"}, {3, "Module.0.d.layers.2.L.forward.0"}});
  MergeTally tally;
  join_stages(forest, first, std::vector<std::uint32_t>{second}, 1, tally);
  EXPECT_NE(forest.find(first, "Module.0.d.layers.2.L.forward.0"), no_node);
  EXPECT_EQ(forest.find(first, "Module.0.d.layers.4.L.forward.0"), no_node);
}

TEST(Stages, ChunksFollowEachOtherAcrossTheStages) {
  const auto chunk = [](int number) {
    const std::string prefix = "Module." + std::to_string(number);
    return std::vector<std::pair<int, std::string>>{
        {1, prefix + ".G.forward.0"}, {2, prefix + ".d.T.forward.0"}, {3, prefix + ".d.layers.0.L.forward.0"}};
  };
  const auto both = [&](const char* tail) {
    auto nodes = chunk(0);
    const auto second = chunk(1);
    nodes.insert(nodes.end(), second.begin(), second.end());
    nodes.emplace_back(2, tail);
    return nodes;
  };
  Forest forest;
  const std::uint32_t first = add_rank_of(forest, 0, both("Torch.a.0.forward"));
  const std::uint32_t second = add_rank_of(forest, 1, both("Module.1.output_layer.C.forward.0"));
  MergeTally tally;
  join_stages(forest, first, std::vector<std::uint32_t>{second}, 2, tally);
  EXPECT_EQ(tree(forest, first), (Names{"Module.0.G.forward.0", "Module.0.d.T.forward.0", "Module.0.d.layers.0.L.forward.0",
                                        "Module.0.d.layers.1.L.forward.0", "Module.0.d.layers.2.L.forward.0",
                                        "Module.0.d.layers.3.L.forward.0", "Torch.a.0.forward", "Module.0.output_layer.C.forward.0"}));
}

TEST(Stages, RootNodesOfAllStagesAndUnequalCopiesAreKept) {
  Forest forest;
  const auto nodes = [](const char* api) {
    return std::vector<std::pair<int, std::string>>{{1, "Module.0.G.forward.0"},
                                                    {2, "Module.0.d.layers.0.L.forward.0"},
                                                    {2, "Module.0.embedding.E.forward.0"},
                                                    {1, api},
                                                    {1, "optimizer"}};
  };
  const std::uint32_t first = add_rank_of(forest, 0, nodes("Torch.a.0.forward"));
  const std::uint32_t second = add_rank_of(forest, 1, nodes("Torch.a.0.forward"));
  // The embeddings have unequal weights.
  for (const std::uint32_t rank : {first, second}) {
    TreeEntry& weight = forest.nodes[forest.find(rank, "Module.0.embedding.E.forward.0")].inputs.emplace_back();
    weight.key = forest.texts.id("parameters.weight");
    weight.state = ItemState::parameters;
    weight.set_stat(stat_max, Number::of(rank));
  }
  MergeTally tally;
  join_stages(forest, first, std::vector<std::uint32_t>{second}, 1, tally);
  EXPECT_EQ(tree(forest, first), (Names{"Module.0.G.forward.0", "Module.0.d.layers.0.L.forward.0", "Module.0.embedding.E.forward.0",
                                        "Module.0.d.layers.1.L.forward.0", "Module.0_rank1.embedding.E.forward.0", "Torch.a.0.forward",
                                        "optimizer", "Torch.a_rank1.0.forward"}));
  EXPECT_EQ(tally.finding_counts.at("shared weights differ"), 1U);
}

TEST(Experts, GetTheirNumberInTheModel) {
  const auto nodes = [] {
    return std::vector<std::pair<int, std::string>>{{1, "Module.0.mlp.experts.S.forward.0"},
                                                    {2, "Module.0.mlp.experts.local_experts.0.MLP.forward.0"},
                                                    {3, "Torch.mm.0.forward"},
                                                    {2, "Module.0.mlp.experts.local_experts.1.MLP.forward.0"}};
  };
  Forest forest;
  const std::uint32_t first = add_rank_of(forest, 0, nodes());
  const std::uint32_t second = add_rank_of(forest, 2, nodes());
  MergeTally tally;
  join_experts(forest, {first, second}, 1, tally);
  EXPECT_EQ(tree(forest, second),
            (Names{"Module.0.mlp.experts.S.forward.0", "Module.0.mlp.experts.local_experts.0.MLP.forward.0", "Torch.mm_rank0.0.forward",
                   "Module.0.mlp.experts.local_experts.1.MLP.forward.0", "Module.0.mlp.experts.local_experts.2.MLP.forward.0",
                   "Torch.mm.0.forward", "Module.0.mlp.experts.local_experts.3.MLP.forward.0"}));
  EXPECT_TRUE(holds_experts("Module.0.mlp.experts.TEGroupedMLP.forward.0"));
  EXPECT_FALSE(holds_experts("Module.0.mlp.experts.local_experts.0.MLP.forward.0"));
}

TEST(MicroBatches, GetTheirNumberInTheJob) {
  Forest forest;
  const std::uint32_t rank = add_rank_of(forest, 0,
                                         {{1, "Module.0.G.forward.0"},
                                          {2, "Module.0.s.S.forward.0"},
                                          {2, "Module.0.s.S.forward.1"},
                                          {1, "Module.0.G.forward.1"},
                                          {2, "Module.0.s.S.forward.2"},
                                          {2, "Module.0.s.S.forward.3"},
                                          {1, "Torch.a.1.forward"}});
  number_micro_batches(forest, rank, 1, 3);
  EXPECT_EQ(tree(forest, rank), (Names{"Module.0.G.forward.1", "Module.0.s.S.forward.2", "Module.0.s.S.forward.3", "Module.0.G.forward.4",
                                       "Module.0.s.S.forward.8", "Module.0.s.S.forward.9", "Torch.a.1.forward"}));
  keep_micro_batches(forest, rank, 0, 2);
  EXPECT_EQ(tree(forest, rank), (Names{"Module.0.G.forward.4", "Module.0.s.S.forward.8", "Module.0.s.S.forward.9", "Torch.a.1.forward"}));
}

TEST(MicroBatches, OfSeveralReplicasInOrder) {
  Forest forest;
  const std::uint32_t first = add_rank_of(forest, 0, {{1, "Module.0.G.forward.0"}, {1, "Torch.a.0.forward"}, {1, "Module.0.G.forward.2"}});
  const std::uint32_t second = add_rank_of(forest, 4, {{1, "Module.0.G.forward.1"}, {1, "Torch.a.0.forward"}});
  join_replicas(forest, first, std::vector<std::uint32_t>{second});
  EXPECT_EQ(tree(forest, first), (Names{"Module.0.G.forward.0", "Torch.a.0.forward", "Module.0.G.forward.1", "Module.0.G.forward.2",
                                        "Torch.a_rank4.0.forward"}));
}

}  // namespace
}  // namespace msvis
