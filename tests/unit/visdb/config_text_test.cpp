#include "visdb/config_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace msvis {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> keys(const std::string& text) {
  std::vector<std::string> all;
  const Json parsed = Json::parse(text);
  for (const auto& [key, value] : parsed.items()) {
    all.push_back(key);
  }
  return all;
}

TEST(ConfigText, ToolTipsExplainTheMetricsOfTheMode) {
  using Keys = std::vector<std::string>;
  const Keys tensor{"One Thousandth Err Ratio", "Five Thousandths Err Ratio", "Cosine", "MaxAbsErr", "MaxRelativeErr"};
  EXPECT_EQ(keys(tool_tip_json(CompareMode::summary)), (Keys{"Max diff", "Min diff", "Mean diff", "L2norm diff"}));
  EXPECT_EQ(keys(tool_tip_json(CompareMode::md5)), Keys{"md5"});
  EXPECT_EQ(keys(tool_tip_json(CompareMode::tensor)), tensor);
  EXPECT_EQ(keys(tool_tip_json(CompareMode::structure)), tensor);
  const Json parsed = Json::parse(tool_tip_json(CompareMode::tensor));
  for (const auto& [key, text] : parsed.items()) {
    EXPECT_GT(text.get<std::string>().size(), 20U) << key;
  }
}

TEST(ConfigText, ColoursOfTheLevels) {
  for (const CompareMode mode : {CompareMode::summary, CompareMode::md5, CompareMode::tensor}) {
    const Json colors = Json::parse(node_colors_json(mode));
    EXPECT_EQ(keys(node_colors_json(mode)), (std::vector<std::string>{"#FFFCF3", "#FFDC7F", "#FF704D", "#C7C7C7"}));
    EXPECT_EQ(colors["#FFFCF3"]["value"], Json::parse("[0, 0.3]"));
    EXPECT_EQ(colors["#FFDC7F"]["value"], Json::parse("[0.3, 0.6]"));
    EXPECT_EQ(colors["#FF704D"]["value"], Json::parse("[0.6, 1]"));
    EXPECT_EQ(colors["#C7C7C7"]["value"], Json::array());
    EXPECT_EQ(colors["#FFFCF3"]["accuracy_level"], "pass");
    EXPECT_EQ(colors["#FFDC7F"]["accuracy_level"], "warning");
    EXPECT_EQ(colors["#FF704D"]["accuracy_level"], "error");
    EXPECT_EQ(colors["#C7C7C7"]["accuracy_level"], "unmatched node");
    EXPECT_EQ(keys(colors["#FFFCF3"].dump()), (std::vector<std::string>{"value", "description", "accuracy_level"}));
  }
}

TEST(ConfigText, StructureModeHasOnlyTheUnmatchedColour) {
  EXPECT_EQ(keys(node_colors_json(CompareMode::structure)), std::vector<std::string>{"#C7C7C7"});
}

}  // namespace
}  // namespace msvis
