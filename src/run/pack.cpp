// Work items and results as bytes for the way between processes.
#include "base/bytes.h"
#include "run/run_item.h"

namespace msvis {
namespace {

void put_count(ByteWriter& out, const GroupCount& count) {
  out.put(count.side);
  out.put(count.step);
  out.put(count.rank);
  out.put(count.group_id);
  out.put(count.api);
  out.put_all(count.group_ranks);
  out.put(count.count);
}

GroupCount get_count(ByteReader& in) {
  GroupCount count;
  count.side = in.get<Side>();
  count.step = in.get<std::int64_t>();
  count.rank = in.get<std::int64_t>();
  count.group_id = in.get_string();
  count.api = in.get_string();
  count.group_ranks = in.get_all([](ByteReader& reader) { return reader.get<std::int64_t>(); });
  count.count = in.get<std::uint64_t>();
  return count;
}

void put_groups(ByteWriter& out, const std::vector<std::vector<std::int64_t>>& groups) {
  out.put_all(groups, [](ByteWriter& to, const auto& group) { to.put_all(group); });
}

std::vector<std::int64_t> get_ranks(ByteReader& in) {
  return in.get_all([](ByteReader& reader) { return reader.get<std::int64_t>(); });
}

void put_replica(ByteWriter& out, const Replica& replica) {
  out.put(replica.directory.native());
  out.put_all(replica.ranks);
  out.put_all(replica.names);
  out.put(replica.number);
  out.put(replica.main);
  put_groups(out, replica.tp_groups);
  put_groups(out, replica.pp_groups);
}

Replica get_replica(ByteReader& in) {
  Replica replica;
  replica.directory = in.get_string();
  replica.ranks = get_ranks(in);
  replica.names = in.get_all([](ByteReader& reader) { return reader.get_string(); });
  replica.number = in.get<std::int64_t>();
  replica.main = in.get<std::int64_t>();
  replica.tp_groups = in.get_all(get_ranks);
  replica.pp_groups = in.get_all(get_ranks);
  return replica;
}

}  // namespace

std::string pack(const ItemResult& result) {
  ByteWriter out;
  const ItemRecord& record = result.record;
  out.put(record.step);
  out.put(record.rank);
  out.put(record.status);
  out.put(record.seconds);
  out.put(record.target_nodes);
  out.put(record.golden_nodes);
  out.put(record.matched_nodes);
  out.put(record.compared_parameters);
  out.put(record.error);
  out.put(result.mode.has_value());
  out.put(result.mode.value_or(CompareMode::summary));
  out.put(result.micro_steps);
  out.put_all(result.group_counts, put_count);
  put(out, result.findings);
  out.put(result.suggestions ? pack(*result.suggestions) : std::string());
  out.put(pack(result.mapping_usage));
  out.put(result.deferred);
  out.put_all(result.warnings);
  return out.take();
}

ItemResult unpack_item_result(std::string_view bytes) {
  ByteReader in(bytes);
  ItemResult result;
  ItemRecord& record = result.record;
  record.step = in.get<std::int64_t>();
  record.rank = in.get<std::int64_t>();
  record.status = in.get_string();
  record.seconds = in.get<double>();
  record.target_nodes = in.get<std::uint64_t>();
  record.golden_nodes = in.get<std::uint64_t>();
  record.matched_nodes = in.get<std::uint64_t>();
  record.compared_parameters = in.get<std::uint64_t>();
  record.error = in.get_string();
  const bool has_mode = in.get<bool>();
  const auto mode = in.get<CompareMode>();
  if (has_mode) {
    result.mode = mode;
  }
  result.micro_steps = in.get<std::int64_t>();
  result.group_counts = in.get_all(get_count);
  result.findings = get_findings(in);
  if (const std::string_view suggestions = in.get_view(); !suggestions.empty()) {
    result.suggestions = unpack_suggestions(suggestions);
  }
  result.mapping_usage = unpack_mapping_usage(in.get_view());
  result.deferred = in.get_string();
  result.warnings = in.get_all([](ByteReader& reader) { return reader.get_string(); });
  return result;
}

std::string pack(const WorkItem& item) {
  ByteWriter out;
  out.put(item.step);
  out.put(item.rank);
  out.put(item.target.native());
  out.put(item.golden.native());
  out.put(item.json_bytes);
  out.put(item.tensor_bytes);
  out.put(item.share);
  out.put(item.shares);
  out.put_all(item.replicas, put_replica);
  out.put(item.largest_rank_bytes);
  out.put(item.deferred);
  return out.take();
}

WorkItem unpack_work_item(std::string_view bytes) {
  ByteReader in(bytes);
  WorkItem item;
  item.step = in.get<std::int64_t>();
  item.rank = in.get<std::int64_t>();
  item.target = in.get_string();
  item.golden = in.get_string();
  item.json_bytes = in.get<std::uint64_t>();
  item.tensor_bytes = in.get<std::uint64_t>();
  item.share = in.get<std::uint32_t>();
  item.shares = in.get<std::uint32_t>();
  item.replicas = in.get_all(get_replica);
  item.largest_rank_bytes = in.get<std::uint64_t>();
  item.deferred = in.get_string();
  return item;
}

}  // namespace msvis
