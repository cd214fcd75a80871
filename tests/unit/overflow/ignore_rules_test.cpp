#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "msvis/error.h"
#include "overflow/overflow.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RuleFile : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / ("msvis_rules_" + std::to_string(getpid()));
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path write(const std::string& text) const {
    fs::path file = directory_ / "rules.json";
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
  [[nodiscard]] IgnoreRules read(const std::string& text) const { return IgnoreRules::read(write(text)); }

  /// The complaint about a file.
  [[nodiscard]] std::string complaint(const std::string& text, ErrorCategory category = ErrorCategory::format) const {
    const fs::path file = write(text);
    try {
      IgnoreRules::read(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), category);
      EXPECT_EQ(error.file(), file);
      EXPECT_THAT(error.what(), HasSubstr("rules.json"));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    ADD_FAILURE() << "accepted: " << text;
    return {};
  }
  [[nodiscard]] std::string complaint_about_rule(const std::string& rule) const {
    return complaint(R"({"version": 1, "rules": [)" + rule + "]}");
  }

  fs::path directory_;
};

TEST_F(RuleFile, AllColumns) {
  const IgnoreRules rules = read(R"({"version": 1, "rules": [
    {"name": "a.b", "inputs": [2, 0], "keywords": ["x"], "outputs": [], "reason": "because"},
    {"name": "c"}]})");
  ASSERT_EQ(rules.rules.size(), 2U);
  const IgnoreRule& rule = rules.rules.at("a.b");
  EXPECT_THAT(rule.inputs.value(), ElementsAre(0, 2));
  EXPECT_THAT(rule.keywords.value(), ElementsAre("x"));
  EXPECT_THAT(rule.outputs.value(), ElementsAre());
  EXPECT_FALSE(rules.rules.at("c").inputs || rules.rules.at("c").keywords || rules.rules.at("c").outputs);
}

TEST_F(RuleFile, NoRules) {
  EXPECT_TRUE(read(R"({"version": 1, "rules": []})").rules.empty());
}

TEST_F(RuleFile, Complaints) {
  EXPECT_THAT(complaint("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(complaint("{}"), HasSubstr("\"version\": 1, found none"));
  EXPECT_THAT(complaint(R"({"version": 2, "rules": []})"), HasSubstr("found the number 2"));
  EXPECT_THAT(complaint(R"({"version": "1", "rules": []})"), HasSubstr("found a string"));
  EXPECT_THAT(complaint(R"({"version": 1})"), HasSubstr("\"rules\" to be a list, found none"));
  EXPECT_THAT(complaint(R"({"version": 1, "rules": {}})"), HasSubstr("found an object"));
  EXPECT_THAT(complaint(R"({"version": 1, "rules": [], "rule": []})"), HasSubstr("unknown member 'rule'"));
  EXPECT_THAT(complaint_about_rule("7"), HasSubstr("rule 1: expected an object, found the number 7"));
  EXPECT_THAT(complaint_about_rule("{}"), HasSubstr("\"name\" to be a string, found none"));
  EXPECT_THAT(complaint_about_rule(R"({"name": 1})"), HasSubstr("found the number 1"));
  EXPECT_THAT(complaint_about_rule(R"({"name": ""})"), HasSubstr("first two fields"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "torch.empty.0"})"), HasSubstr("first two fields"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "Torch.empty"})"), HasSubstr("lower case"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b", "input": [0]})"), HasSubstr("unknown member 'input'"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b", "inputs": 0})"), HasSubstr("list of positions"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b", "inputs": null})"), HasSubstr("found a null"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b", "inputs": [-1]})"), HasSubstr("found the number -1"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b", "outputs": [0.5]})"), HasSubstr("found the number 0.5"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b", "outputs": ["0"]})"), HasSubstr("\"outputs\" to hold positions"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b", "keywords": "x"})"), HasSubstr("list of names"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b", "keywords": [1]})"), HasSubstr("to hold names"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b", "reason": 1})"), HasSubstr("\"reason\" to be a string"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b"}, {"name": "a.b"})"), HasSubstr("rule 2 ('a.b'): there is an earlier rule"));
  EXPECT_THAT(complaint_about_rule(R"({"name": "a.b", "inputs": [0], "inputs": [1]})"), HasSubstr("'inputs' is there twice"));
}

TEST_F(RuleFile, TextThatIsNoJson) {
  EXPECT_THAT(complaint(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("{\"version\": 1, \"rules\": [}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("{\"version\": 1e999, \"rules\": []}"), HasSubstr("not usable as JSON"));
  EXPECT_THAT(complaint("{\"version\": 1, \"rules\": [\"\xff\"]}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint(std::string(100'000, '[')), HasSubstr("nested too deeply"));
  EXPECT_THAT(complaint(std::string(2'000'000, ' '), ErrorCategory::limit), HasSubstr("at most 1048576 bytes"));
}

TEST_F(RuleFile, MissingFileAndDirectory) {
  for (const fs::path& file : {directory_ / "absent.json", directory_}) {
    try {
      IgnoreRules::read(file);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::path);
      EXPECT_EQ(error.file(), file);
    }
  }
}

TEST_F(RuleFile, InstalledFileIsFoundFromTheProgram) {
  const fs::path program = directory_ / "prefix" / "bin" / "program";
  EXPECT_FALSE(installed_ignore_rules_file(program));
  const fs::path data = directory_ / "prefix" / "share" / "msvis";
  fs::create_directories(data);
  std::ofstream(data / "overflow_ignore_rules.json") << R"({"version": 1, "rules": []})";
  EXPECT_EQ(installed_ignore_rules_file(program), data / "overflow_ignore_rules.json");
}

TEST(DefaultRules, BuildTreeFileHoldsTheTenRules) {
  const IgnoreRules rules = IgnoreRules::read(default_ignore_rules_file());
  std::string summary;
  for (const auto& [name, rule] : rules.rules) {
    summary +=
        name + (rule.inputs ? " in" : "") + (rule.keywords ? " " + *rule.keywords->begin() : "") + (rule.outputs ? " out" : "") + "\n";
  }
  EXPECT_EQ(summary,
            "distributed._reduce_scatter_base in\n"
            "distributed.all_gather in\n"
            "distributed.all_gather_into_tensor in\n"
            "distributed.recv in tensor\n"
            "distributed.reduce_scatter in output\n"
            "distributed.reduce_scatter_tensor in\n"
            "tensor.masked_fill_ in\n"
            "torch.empty out\n"
            "torch.empty_like out\n"
            "torch.empty_strided out\n");
}

}  // namespace
}  // namespace msvis
