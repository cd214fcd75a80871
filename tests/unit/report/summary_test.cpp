#include "report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace msvis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ItemRecord item(std::int64_t rank, const char* status, const std::string& error = "") {
  ItemRecord record;
  record.step = 2;
  record.rank = rank;
  record.status = status;
  record.error = error;
  return record;
}

NodeFinding finding(std::int64_t rank, const char* node, Precision precision, double badness) {
  NodeFinding found;
  found.step = 2;
  found.rank = rank;
  found.node_order = 7;
  found.node = node;
  found.precision = precision;
  found.badness = badness;
  found.parameter = std::string(node) + ".output.0";
  found.message = "error: it is off";
  return found;
}

RunSummary example() {
  RunSummary summary;
  summary.version = "1.2.3";
  summary.mode = "summary";
  summary.compare = true;
  summary.items = {item(0, "done"), item(1, "failed", "step 2 rank 1 target: no construct.json\nat all"), item(2, "done")};
  summary.dropped = {"step 3 is only in the golden dump"};
  summary.links = 5;
  summary.file = "/out/compare_20260131165353.vis.db";
  summary.seconds = 1.26;
  summary.processes = 2;
  summary.threads = 3;
  summary.exit_code = 3;
  Findings& found = summary.findings;
  found.target_nodes = 200;
  found.golden_nodes = 180;
  found.matched = 160;
  found.unmatched = 40;
  found.golden_unmatched = 20;
  found.passed = 100;
  found.warned = 30;
  found.failed = 10;
  found.without_data = 20;
  found.parameters_compared = 140;
  found.parameters_target_only = 3;
  found.parameters_golden_only = 4;
  found.tensors_compared = 130;
  found.tensor_bytes = 4096;
  found.tensors_skipped = {{"missing file", 6}, {"no tensor file", 4}};
  found.overflow_levels = {{"critical", 1}, {"high", 2}};
  found.first_divergence = finding(2, "Torch.mul.0.forward", Precision::warning, 0.25);
  summary.suggestions.emplace();
  summary.suggestions->unmatched_by_reason = {3, 2, 1, 0};
  summary.suggestions->unmatched = {{"Module.a.A.forward.0", NoPartner::collection_shifted}};
  summary.suggestions->candidates = {{"Module.a.A.forward.0", "Module.b.A.forward.0", true, false}};
  summary.unused_rules = {{"GPT", "tok", "emb", 4, false}};
  found.worst = {finding(0, "Torch.div.0.forward", Precision::error, std::numeric_limits<double>::infinity()),
                 finding(2, "Torch.mul.0.forward", Precision::warning, 0.25)};
  return summary;
}

TEST(SummaryText, CountsWhatWasDoneAndNamesWhatWasNot) {
  const auto text = summary_text(example());
  EXPECT_THAT(text, HasSubstr("Compared 2 (step, rank) pairs, 1 failed\n  step 2 rank 1 target: no construct.json_at all\n"));
  EXPECT_THAT(text, HasSubstr("Left out (1):\n  step 3 is only in the golden dump\n"));
  EXPECT_THAT(text, HasSubstr("Nodes: 200 target, 180 golden; 160 matched, 40 target and 20 golden without counterpart\n"));
  EXPECT_THAT(text, HasSubstr("Verdicts: 100 pass, 30 warning, 10 error, 20 without data\n"));
  EXPECT_THAT(text, HasSubstr("Parameters: 140 compared, 3 only in the target, 4 only in the golden\n"));
  EXPECT_THAT(text, HasSubstr("Tensors: 130 compared; without metrics: 6 missing file, 4 no tensor file\n"));
  EXPECT_THAT(text, HasSubstr("Overflow: 1 critical, 2 high\n"));
  EXPECT_THAT(text, HasSubstr("First divergence:\n  step 2 rank 2 Torch.mul.0.forward: error: it is off (Torch.mul.0.forward.output.0)\n"));
  EXPECT_THAT(text, HasSubstr("Worst nodes:\n  step 2 rank 0 Torch.div.0.forward: "));
  EXPECT_THAT(text, HasSubstr("Communication links: 5\n"));
  EXPECT_THAT(text, HasSubstr("1.3 s with 2 processes, 3 worker threads\n"));
  EXPECT_TRUE(text.ends_with("Result: /out/compare_20260131165353.vis.db\n"));
}

TEST(SummaryText, CutsLongLists) {
  RunSummary summary;
  for (int rank = 0; rank < 30; ++rank) {
    summary.items.push_back(item(rank, "failed", "rank " + std::to_string(rank) + ": broken"));
  }
  const auto text = summary_text(summary);
  EXPECT_THAT(text, HasSubstr("Built 0 (step, rank) pairs, 30 failed\n"));
  EXPECT_THAT(text, HasSubstr("rank 19: broken\n"));
  EXPECT_THAT(text, Not(HasSubstr("rank 20: broken\n")));
  EXPECT_THAT(text, HasSubstr("... and 10 more\n"));
  EXPECT_THAT(text, HasSubstr("No result file was written\n"));
}

TEST(SummaryJson, HoldsTheSameNumbers) {
  const auto json = nlohmann::json::parse(summary_json(example()));
  EXPECT_EQ(json["kind"], "compare");
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_EQ(json["nodes"]["error"], 10);
  EXPECT_EQ(json["nodes"]["golden_unmatched"], 20);
  EXPECT_EQ(json["parameters"]["target_only"], 3);
  EXPECT_EQ(json["tensors"]["skipped"]["missing file"], 6);
  EXPECT_EQ(json["overflow"]["high"], 2);
  EXPECT_EQ(json["first_divergence"]["node"], "Torch.mul.0.forward");
  EXPECT_EQ(json["first_divergence"]["error"], 0.25);
  EXPECT_TRUE(json["worst"][0]["error"].is_null());  // infinite
  EXPECT_EQ(json["items"][1]["status"], "failed");
  EXPECT_EQ(json["unmatched"]["by_reason"]["other parent"], 2);
  EXPECT_EQ(json["unmatched"]["nodes"][0]["reason"], "collection shifted");
  EXPECT_EQ(json["unmatched"]["nearest"][0]["golden"], "Module.b.A.forward.0");
  EXPECT_EQ(json["unused_mapping_rules"][0]["line"], 4);
  EXPECT_EQ(json["file"], "/out/compare_20260131165353.vis.db");
}

/// Every member must be declared, with its type, where the schema says; enough of JSON Schema for a schema of our own.
void check(const nlohmann::json& schema, const nlohmann::json& value, const std::string& where) {
  const auto& type = schema.at("type");
  const auto fits = [&](const std::string& name) {
    return (name == "object" && value.is_object()) || (name == "array" && value.is_array()) || (name == "string" && value.is_string()) ||
           (name == "integer" && value.is_number_integer()) || (name == "number" && value.is_number()) ||
           (name == "null" && value.is_null());
  };
  EXPECT_TRUE(type.is_array() ? std::any_of(type.begin(), type.end(), fits) : fits(type)) << where;
  if (value.is_object() && schema.contains("properties")) {
    for (const auto& required : schema.at("required")) {
      EXPECT_TRUE(value.contains(required)) << where << "/" << required;
    }
    for (const auto& [key, member] : value.items()) {
      ASSERT_TRUE(schema["properties"].contains(key)) << where << "/" << key;
      check(schema["properties"][key], member, where + "/" + key);
    }
  }
  if (value.is_array()) {
    for (const auto& element : value) {
      check(schema.at("items"), element, where + "/[]");
    }
  }
}

TEST(SummaryJson, FollowsThePublishedSchema) {
  const auto schema = nlohmann::json::parse(std::ifstream(std::string(MSVIS_SOURCE_DIR) + "/docs/summary.schema.json"));
  check(schema, nlohmann::json::parse(summary_json(example())), "");
  RunSummary build;
  check(schema, nlohmann::json::parse(summary_json(build)), "");
}

}  // namespace
}  // namespace msvis
