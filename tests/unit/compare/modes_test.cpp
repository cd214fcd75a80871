#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msvis/error.h"
#include "pair.h"

namespace msvis {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view construct = R"({"Torch.f.0.forward": null})";

CompareMode mode_of(std::string_view target_head, std::string_view golden_head, std::string_view target_data = "{}",
                    std::string_view golden_data = "{}", bool layer_mapping = false) {
  std::vector<std::string> warnings;
  return choose_mode(test::dump_of(target_data, construct, target_head), test::dump_of(golden_data, construct, golden_head), layer_mapping,
                     warnings);
}

std::string refusal(std::string_view target_head, std::string_view golden_head, std::string_view target_data = "{}",
                    bool layer_mapping = false) {
  try {
    (void)mode_of(target_head, golden_head, target_data, "{}", layer_mapping);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::mismatch);
    return error.what();
  }
  return "accepted";
}

constexpr std::string_view pytorch_statistics = R"("task": "statistics", "framework": "pytorch")";
constexpr std::string_view with_md5 = R"({"Torch.f.0.forward": {"output": [{"type": "torch.Tensor", "md5": "00"}]}})";

TEST(ChooseMode, ByTaskAndChecksums) {
  EXPECT_EQ(mode_of(pytorch_statistics, pytorch_statistics), CompareMode::summary);
  EXPECT_EQ(mode_of(pytorch_statistics, pytorch_statistics, with_md5, with_md5), CompareMode::md5);
  EXPECT_EQ(mode_of(R"("task": "tensor", "framework": "pytorch")", R"("task": "tensor", "framework": "pytorch")"), CompareMode::tensor);
  EXPECT_EQ(mode_of(R"("task": "structure", "framework": "pytorch")", R"("task": "structure", "framework": "pytorch")"),
            CompareMode::structure);
}

TEST(ChooseMode, RefusesWhatCannotBeCompared) {
  EXPECT_THAT(refusal(R"("framework": "pytorch")", pytorch_statistics), HasSubstr("task"));
  EXPECT_THAT(refusal(R"("task": "tensor", "framework": "pytorch")", pytorch_statistics), HasSubstr("differs"));
  EXPECT_THAT(refusal(R"("task": "acc_check", "framework": "pytorch")", R"("task": "acc_check", "framework": "pytorch")"),
              HasSubstr("acc_check"));
  EXPECT_THAT(refusal(pytorch_statistics, pytorch_statistics, with_md5), HasSubstr("checksums"));
  EXPECT_THAT(refusal(pytorch_statistics, pytorch_statistics, "[]"), HasSubstr("data"));
}

TEST(ChooseMode, NeedsALayerMappingAcrossFrameworks) {
  constexpr std::string_view mindspore = R"("task": "statistics", "framework": "mindspore")";
  EXPECT_THAT(refusal(mindspore, pytorch_statistics), HasSubstr("-lm"));
  EXPECT_EQ(mode_of(mindspore, pytorch_statistics, "{}", "{}", true), CompareMode::summary);
  EXPECT_THAT(refusal(pytorch_statistics, mindspore, "{}", true), HasSubstr("can't be compared"));
  constexpr std::string_view mindtorch = R"("task": "statistics", "framework": "mindtorch")";
  EXPECT_THAT(refusal(mindtorch, mindtorch, "{}", true), HasSubstr("mindtorch"));
}

TEST(ChooseMode, TakesADumpWithoutFrameworkAsPyTorch) {
  std::vector<std::string> warnings;
  const Dump unknown = test::dump_of("{}", construct, R"("task": "structure")");
  const Dump known = test::dump_of("{}", construct, R"("task": "structure", "framework": "pytorch")");
  EXPECT_EQ(choose_mode(unknown, known, false, warnings), CompareMode::structure);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0], HasSubstr("pytorch"));
}

}  // namespace
}  // namespace msvis
