#include "merge/names.h"

#include <gtest/gtest.h>

namespace msvis {
namespace {

TEST(MergeNames, RankBehindTheSecondField) {
  EXPECT_EQ(with_rank("Torch.matmul.0.forward", 1), "Torch.matmul_rank1.0.forward");
  EXPECT_EQ(with_rank("Torch.matmul", 12), "Torch.matmul_rank12");
  EXPECT_EQ(with_rank("optimizer", 1), "optimizer_rank1");
  EXPECT_EQ(with_rank("", 1), "_rank1");
}

TEST(MergeNames, LayerNumbers) {
  const auto number = [](std::string_view name) {
    const auto found = find_layer_number(name);
    return found ? std::string(name.substr(found->at, found->size)) : std::string("none");
  };
  EXPECT_EQ(number("Module.0.module.decoder.layers.12.mlp.MLP.forward.0"), "12");
  EXPECT_EQ(number("Cell.model.layer.3.Layer.forward.0"), "3");
  EXPECT_EQ(number("Module.mylayers.4.X.forward.0"), "4");  // not anchored
  EXPECT_EQ(number("Module.layers.X.forward.0"), "none");
  EXPECT_EQ(number("Module.layers.3"), "none");
  EXPECT_EQ(number("Module.final_layernorm.RMSNorm.forward.0"), "none");
  EXPECT_EQ(number("layer"), "none");
  EXPECT_EQ(with_layer_number("a.layers.0.experts.layers.0.X", "7"), "a.layers.7.experts.layers.7.X");
  EXPECT_EQ(with_layer_number("a.mtp.layers.0.X", ""), "a.mtp.layers..X");
}

TEST(MergeNames, RankSuffixes) {
  const auto rank = [](std::string_view name) {
    const auto found = find_rank_suffix(name);
    return found ? found->rank : -1;
  };
  EXPECT_EQ(rank("Torch.matmul_rank12.0.forward"), 12);
  EXPECT_EQ(rank("Torch.matmul.0.forward"), -1);
  EXPECT_EQ(rank("Torch.matmul_rank.0.forward"), -1);
  EXPECT_EQ(rank("Torch.matmul_rank1"), -1);
  EXPECT_EQ(rank_of_collection("Apis_Between_Modules_Rank3.1"), 3);
  EXPECT_EQ(rank_of_collection("Apis_Between_Modules_All_Ranks.1"), std::nullopt);
}

TEST(MergeNames, FieldsFromTheEnd) {
  EXPECT_EQ(field_from_end("a.b.c", 1), "c");
  EXPECT_EQ(field_from_end("a.b.c", 3), "a");
  EXPECT_EQ(field_from_end("a.b.c", 4), "");
}

}  // namespace
}  // namespace msvis
