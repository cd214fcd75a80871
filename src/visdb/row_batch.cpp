#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "compare/tensor_files.h"
#include "msvis/error.h"
#include "msvis/visdb.h"

namespace msvis {
namespace {

constexpr std::uint64_t reserve_limit = 4096;

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorCategory::internal, std::string("a batch of rows is damaged: ") + what);
}

template <typename Enum>
Enum get_enum(ByteReader& in, Enum last) {
  const auto value = in.get<std::uint8_t>();
  if (value > static_cast<std::uint8_t>(last)) {
    fail("an enumerator is out of range");
  }
  return static_cast<Enum>(value);
}

NodeType get_node_type(ByteReader& in) {
  const auto value = in.get<std::uint8_t>();
  switch (static_cast<NodeType>(value)) {
    case NodeType::module:
    case NodeType::function_api:
    case NodeType::api_collection:
      return static_cast<NodeType>(value);
  }
  fail("unknown node type");
}

void put_row(ByteWriter& out, const NodeRow& row) {
  out.put(row.node_order);
  out.put(row.name);
  out.put(row.type);
  out.put(row.up_node);
  out.put(row.sub_nodes);
  out.put(row.precision);
  out.put(row.overflow);
  out.put(row.micro_step);
  out.put(row.matched_node_link);
  out.put(row.stack);
  out.put(row.parallel_merge_info);
  out.put(row.matched_distributed);
  out.put(row.input_data);
  out.put(row.output_data);
}

NodeRow get_row(ByteReader& in) {
  NodeRow row;
  row.node_order = in.get<std::uint32_t>();
  row.name = in.get_string();
  row.type = get_node_type(in);
  row.up_node = in.get_string();
  row.sub_nodes = in.get_string();
  row.precision = get_enum(in, Precision::error);
  row.overflow = get_enum(in, Overflow::critical);
  row.micro_step = in.get<std::int64_t>();
  row.matched_node_link = in.get_string();
  row.stack = in.get<std::uint32_t>();
  row.parallel_merge_info = in.get_string();
  row.matched_distributed = in.get_string();
  row.input_data = in.get_string();
  row.output_data = in.get_string();
  return row;
}

void put_tensor(ByteWriter& out, const TensorRow& row) {
  out.put(row.node);
  out.put(row.parameter);
  out.put(row.skipped);
  out.put(row.reason);
  out.put_all(row.shape);
  out.put(row.elements);
  put(out, row.metrics);
}

TensorRow get_tensor(ByteReader& in) {
  TensorRow row;
  row.node = in.get_string();
  row.parameter = in.get_string();
  row.skipped = in.get_string();
  row.reason = in.get_string();
  row.shape = in.get_all([](ByteReader& reader) { return reader.get<std::uint64_t>(); });
  row.elements = in.get<std::uint64_t>();
  row.metrics = get_tensor_metrics(in);
  return row;
}

/// As ByteReader::get_all, but the claimed count alone never makes it allocate much.
template <typename Element, typename GetOne>
std::vector<Element> get_list(ByteReader& in, GetOne&& get_one) {
  const auto count = in.get<std::uint64_t>();
  std::vector<Element> all;
  all.reserve(std::min(count, reserve_limit));
  for (std::uint64_t k = 0; k < count; ++k) {
    all.push_back(get_one(in));
  }
  return all;
}

}  // namespace

std::string pack(const RowBatch& batch) {
  ByteWriter out;
  out.put(batch.side);
  out.put(batch.step);
  out.put(batch.rank);
  out.put(static_cast<std::uint8_t>(batch.dump_data_dir ? 1 : 0));
  if (batch.dump_data_dir) {
    out.put(*batch.dump_data_dir);
  }
  out.put(batch.first_stack);
  out.put_all(batch.stacks);
  out.put_all(batch.nodes, put_row);
  out.put_all(batch.tensors, put_tensor);
  return out.take();
}

RowBatch unpack_row_batch(std::string_view bytes) {
  ByteReader in(bytes);
  RowBatch batch;
  batch.side = get_enum(in, Side::golden);
  batch.step = in.get<std::int64_t>();
  batch.rank = in.get<std::int64_t>();
  const auto has_directory = in.get<std::uint8_t>();
  if (has_directory > 1) {
    fail("a flag is neither 0 nor 1");
  }
  if (has_directory == 1) {
    batch.dump_data_dir = in.get_string();
  }
  batch.first_stack = in.get<std::uint32_t>();
  batch.stacks = get_list<std::string>(in, [](ByteReader& reader) { return reader.get_string(); });
  batch.nodes = get_list<NodeRow>(in, get_row);
  batch.tensors = get_list<TensorRow>(in, get_tensor);
  if (!in.at_end()) {
    fail("there are bytes behind its end");
  }
  return batch;
}

}  // namespace msvis
