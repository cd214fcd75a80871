#include "run/run_item.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "base/bytes.h"
#include "support/dump_files.h"

namespace msvis {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::filesystem::path golden_cases = std::filesystem::path(MSVIS_TESTDATA) / "golden";

/// Everything that a run of an item gives, in an order that does not depend on how the work was divided.
struct Given {
  std::vector<std::string> nodes;
  std::vector<std::string> stacks;
  std::vector<std::string> tensors;
  std::vector<std::string> links;
  ItemResult result;

  void take(const RowBatch& batch) {
    const auto pack_one = [&](auto&& fill) {
      RowBatch one;
      one.side = batch.side;
      one.step = batch.step;
      one.rank = batch.rank;
      one.dump_data_dir = batch.dump_data_dir;
      fill(one);
      return pack(one);
    };
    for (const NodeRow& row : batch.nodes) {
      nodes.push_back(pack_one([&](RowBatch& one) { one.nodes = {row}; }));
    }
    for (std::size_t k = 0; k < batch.stacks.size(); ++k) {
      stacks.push_back(pack_one([&](RowBatch& one) {
        one.first_stack = batch.first_stack + static_cast<std::uint32_t>(k);
        one.stacks = {batch.stacks[k]};
      }));
    }
    for (const TensorRow& row : batch.tensors) {
      tensors.push_back(pack_one([&](RowBatch& one) { one.tensors = {row}; }));
    }
  }

  void sort() {
    for (auto* list : {&nodes, &stacks, &tensors, &links}) {
      std::sort(list->begin(), list->end());
    }
  }
};

void add_links(Given& given, const ItemResult& result) {
  ItemResult one;
  for (const LinkRecord& record : result.links) {
    one.links = {record};
    given.links.push_back(pack(one));
  }
}

WorkItem item_of(const std::string& group_and_case, const std::string& below = "") {
  WorkItem item;
  item.target = golden_cases / group_and_case / "target" / below;
  item.golden = golden_cases / group_and_case / "golden" / below;
  return item;
}

RunContext context_of(Compat compat = Compat::standard) {
  RunContext context;
  context.options.golden = "golden";
  context.options.compat = compat;
  context.link_ranks = true;
  return context;
}

Given run_shared(WorkItem item, std::uint32_t shares, RunContext context) {
  Given given;
  std::mutex mutex;
  const auto sink = [&](RowBatch&& batch) {
    const std::lock_guard lock(mutex);
    given.take(batch);
  };
  std::vector<std::string> deferred;
  bool first = true;
  const auto run = [&] {
    ItemResult result = unpack_item_result(pack(run_item(unpack_work_item(pack(item)), context, sink)));
    EXPECT_EQ(result.record.status, "done") << result.record.error;
    add_links(given, result);
    deferred.push_back(result.deferred);
    if (std::exchange(first, false)) {
      given.result = std::move(result);
    } else {
      given.result.join(result);
    }
  };
  item.shares = shares;
  for (item.share = 0; item.share < shares; ++item.share) {
    run();
  }
  item.share = 0;
  item.deferred = join_deferred(deferred);
  if (!item.deferred.empty()) {
    run();
  }
  given.sort();
  return given;
}

struct SharedCase {
  const char* name;
  const char* below;
};

class SharedItem : public ::testing::TestWithParam<SharedCase> {};

TEST_P(SharedItem, GivesTheSameForAnyNumberOfSharesAndThreads) {
  const WorkItem item = item_of(GetParam().name, GetParam().below);
  for (const Compat compat : {Compat::standard, Compat::reference}) {
    const Given whole = run_shared(item, 1, context_of(compat));
    ASSERT_THAT(whole.nodes, ::testing::Not(IsEmpty()));
    ASSERT_THAT(whole.tensors, ::testing::Not(IsEmpty()));
    for (const std::uint32_t shares : {2U, 3U, 7U, 64U}) {
      RunContext context = context_of(compat);
      context.tensor_threads = 1 + shares % 3;
      context.sides_at_once = shares % 2 == 1;
      const Given given = run_shared(item, shares, context);
      EXPECT_EQ(given.nodes, whole.nodes) << shares;
      EXPECT_EQ(given.stacks, whole.stacks) << shares;
      EXPECT_EQ(given.tensors, whole.tensors) << shares;
      EXPECT_EQ(given.links, whole.links) << shares;
      EXPECT_EQ(given.result.record.target_nodes, whole.result.record.target_nodes);
      EXPECT_EQ(given.result.record.golden_nodes, whole.result.record.golden_nodes);
      EXPECT_EQ(given.result.record.compared_parameters, whole.result.record.compared_parameters);
      EXPECT_EQ(given.result.findings.tensors_compared, whole.result.findings.tensors_compared);
      EXPECT_EQ(given.result.findings.tensors_skipped, whole.result.findings.tensors_skipped);
      EXPECT_EQ(given.result.findings.worst, whole.result.findings.worst);
      EXPECT_EQ(given.result.findings.first_divergence, whole.result.findings.first_divergence);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, SharedItem,
                         ::testing::Values(SharedCase{"tensor/gpt_weight_fault", ""}, SharedCase{"tensor/mlp_damaged_file", ""},
                                           SharedCase{"tensor/mlp_2ranks", "rank1"}, SharedCase{"tensor/zoo_types", ""}));

TEST(SharedItem, WithoutTensorsIsDoneByTheFirstShare) {
  const WorkItem item = item_of("statistics/gpt_2ranks", "rank0");
  const Given whole = run_shared(item, 1, context_of());
  const Given shared = run_shared(item, 3, context_of());
  EXPECT_EQ(shared.nodes, whole.nodes);
  EXPECT_EQ(shared.stacks, whole.stacks);
  EXPECT_EQ(shared.links, whole.links);
  EXPECT_EQ(shared.result.record.compared_parameters, whole.result.record.compared_parameters);
}

TEST(RunItem, ReportsAFaultWithStepRankSideAndFile) {
  const test::TemporaryDirectory dir;
  test::write_dump(dir.path() / "target", R"({"Torch.f.0.forward": null})",
                   R"({"task": "statistics", "framework": "pytorch", "data": {}})");
  test::write_dump(dir.path() / "golden", R"({"Torch.f.0.forward": )", R"({"task": "statistics", "framework": "pytorch", "data": {}})");
  WorkItem item;
  item.step = 3;
  item.rank = 17;
  item.target = dir.path() / "target";
  item.golden = dir.path() / "golden";
  bool rows = false;
  const ItemResult result = run_item(item, context_of(), [&rows](RowBatch&&) { rows = true; });
  EXPECT_EQ(result.record.status, "failed");
  EXPECT_THAT(result.record.error, HasSubstr("step 3 rank 17 golden: "));
  EXPECT_THAT(result.record.error, HasSubstr((dir.path() / "golden" / "construct.json").string()));
  EXPECT_FALSE(rows);
}

TEST(RunItem, LetsTheFaultOfTheSinkPass) {
  const auto sink = [](RowBatch&&) { throw std::runtime_error("full"); };
  EXPECT_THROW((void)run_item(item_of("statistics/gpt_2ranks", "rank0"), context_of(), sink), std::runtime_error);
}

TEST(RunItem, WritesALineForEachTensor) {
  RunContext context = context_of();
  std::mutex mutex;
  std::vector<std::string> lines;
  context.tensor_log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  };
  context.tensor_threads = 2;
  const ItemResult result = run_item(item_of("tensor/mlp_damaged_file"), context, [](RowBatch&&) {});
  EXPECT_EQ(lines.size(), 2 * (result.findings.tensors_compared + 2));  // two of the pairs can't be read
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("no metrics: target ")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("Cosine 1.0")));
}

TEST(ItemResult, OfAFailedShareFailsTheWhole) {
  ItemResult done;
  done.record.status = "done";
  ItemResult failed;
  failed.record.status = "failed";
  failed.record.error = "broken";
  ItemResult whole = done;
  whole.join(failed);
  EXPECT_EQ(whole.record.error, "broken");
  whole.join(done);
  EXPECT_EQ(whole.record.status, "failed");
}

}  // namespace
}  // namespace msvis
