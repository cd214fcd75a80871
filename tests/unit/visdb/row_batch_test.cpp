#include <gtest/gtest.h>

#include <string>

#include "msvis/error.h"
#include "msvis/visdb.h"

namespace msvis {
namespace {

RowBatch full_batch() {
  RowBatch batch;
  batch.side = Side::golden;
  batch.step = 3;
  batch.rank = -1;
  batch.dump_data_dir = "/data/dump";
  batch.first_stack = 5;
  batch.stacks = {"[]", "[\"frame\"]"};
  NodeRow first;
  first.node_order = 7;
  first.name = "Functional.linear.0.forward";
  first.type = NodeType::function_api;
  first.up_node = "Module.a.A.forward.0";
  first.precision = Precision::warning;
  first.overflow = Overflow::critical;
  first.micro_step = 2;
  first.matched_node_link = "[\"DefaultModel\"]";
  first.stack = 6;
  first.parallel_merge_info = "[\"x\"]";
  first.matched_distributed = "{\"a\": 1}";
  first.input_data = "{\"b\": {}}";
  first.output_data = "{\"c\": {}}";
  NodeRow second;
  second.name = std::string("root\0x", 6);
  second.type = NodeType::api_collection;
  second.sub_nodes = "[\"a\"]";
  batch.nodes = {first, second};
  TensorRow tensor;
  tensor.node = first.name;
  tensor.parameter = "Functional.linear.0.forward.input.0";
  tensor.skipped = "unreadable";
  tensor.reason = "no such file";
  tensor.shape = {2, 3};
  tensor.elements = 6;
  tensor.metrics.bit_identical = true;
  tensor.metrics.golden_values.zero = 4;
  tensor.metrics.worst = WorstElement{5, true, 1.5, -2.5};
  batch.tensors = {tensor, TensorRow{}};
  return batch;
}

void expect_equal(const RowBatch& left, const RowBatch& right) {
  EXPECT_EQ(left.side, right.side);
  EXPECT_EQ(left.step, right.step);
  EXPECT_EQ(left.rank, right.rank);
  EXPECT_EQ(left.dump_data_dir, right.dump_data_dir);
  EXPECT_EQ(left.first_stack, right.first_stack);
  EXPECT_EQ(left.stacks, right.stacks);
  ASSERT_EQ(left.nodes.size(), right.nodes.size());
  for (std::size_t at = 0; at < left.nodes.size(); ++at) {
    const NodeRow& a = left.nodes[at];
    const NodeRow& b = right.nodes[at];
    EXPECT_EQ(a.node_order, b.node_order);
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.type, b.type);
    EXPECT_EQ(a.up_node, b.up_node);
    EXPECT_EQ(a.sub_nodes, b.sub_nodes);
    EXPECT_EQ(a.precision, b.precision);
    EXPECT_EQ(a.overflow, b.overflow);
    EXPECT_EQ(a.micro_step, b.micro_step);
    EXPECT_EQ(a.matched_node_link, b.matched_node_link);
    EXPECT_EQ(a.stack, b.stack);
    EXPECT_EQ(a.parallel_merge_info, b.parallel_merge_info);
    EXPECT_EQ(a.matched_distributed, b.matched_distributed);
    EXPECT_EQ(a.input_data, b.input_data);
    EXPECT_EQ(a.output_data, b.output_data);
  }
  ASSERT_EQ(left.tensors.size(), right.tensors.size());
  for (std::size_t at = 0; at < left.tensors.size(); ++at) {
    const TensorRow& a = left.tensors[at];
    const TensorRow& b = right.tensors[at];
    EXPECT_EQ(a.node, b.node);
    EXPECT_EQ(a.parameter, b.parameter);
    EXPECT_EQ(a.skipped, b.skipped);
    EXPECT_EQ(a.reason, b.reason);
    EXPECT_EQ(a.shape, b.shape);
    EXPECT_EQ(a.elements, b.elements);
    EXPECT_EQ(a.metrics.bit_identical, b.metrics.bit_identical);
    EXPECT_EQ(a.metrics.target_values, b.metrics.target_values);
    EXPECT_EQ(a.metrics.golden_values, b.metrics.golden_values);
    EXPECT_EQ(a.metrics.worst, b.metrics.worst);
  }
}

void expect_refused(std::string_view bytes) {
  try {
    (void)unpack_row_batch(bytes);
    ADD_FAILURE() << "accepted " << bytes.size() << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::internal);
  }
}

TEST(RowBatch, SurvivesTheWay) {
  expect_equal(unpack_row_batch(pack(full_batch())), full_batch());
  expect_equal(unpack_row_batch(pack(RowBatch{})), RowBatch{});
}

TEST(RowBatch, EveryTruncationIsRefused) {
  const std::string bytes = pack(full_batch());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    expect_refused(std::string_view(bytes).substr(0, length));
  }
  expect_refused(bytes + "x");
}

TEST(RowBatch, ADamagedByteNeverDoesHarm) {
  const std::string good = pack(full_batch());
  std::size_t refused = 0;
  for (std::size_t place = 0; place < good.size(); ++place) {
    for (const int change : {0x01, 0x80, 0xFF}) {
      std::string bytes = good;
      bytes[place] = static_cast<char>(static_cast<unsigned char>(bytes[place]) ^ static_cast<unsigned>(change));
      try {
        (void)unpack_row_batch(bytes);
      } catch (const Error& error) {
        EXPECT_EQ(error.category(), ErrorCategory::internal);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0U);
}

TEST(RowBatch, UnknownEnumeratorsAreRefused) {
  std::string bytes = pack(RowBatch{});
  bytes[0] = 2;  // side
  expect_refused(bytes);
  bytes[0] = 0;
  bytes[17] = 2;  // whether there is a directory
  expect_refused(bytes);
}

TEST(RowBatch, AHugeCountAllocatesNothing) {
  const std::string good = pack(RowBatch{});
  // The last three numbers count the stacks, the nodes and the tensors.
  for (const std::size_t from_end : {std::size_t{24}, std::size_t{16}, std::size_t{8}}) {
    std::string bytes = good;
    bytes.replace(bytes.size() - from_end, 8, std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x0F", 8));
    expect_refused(bytes);
  }
}

}  // namespace
}  // namespace msvis
