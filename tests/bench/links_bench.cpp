// Time to pair the communication records of a run: nearly linear in the records times the size of their groups.
//
// Arguments: ranks, communication nodes of each rank, ranks of a group. `records/s` is the rate to compare over the lines.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "links/hash128.h"
#include "msvis/links.h"

namespace {

/// A third each of the nodes: an exchange with the neighbour ranks, an all_reduce on the own group, a broadcast on it.
std::vector<msvis::LinkRecord> make_records(std::int64_t ranks, std::int64_t nodes, std::int64_t group_size) {
  std::vector<msvis::LinkRecord> records;
  records.reserve(static_cast<std::size_t>(ranks * nodes));
  for (std::int64_t node = 0; node < nodes; ++node) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      msvis::LinkRecord& record = records.emplace_back();
      record.rank = rank;
      record.index = "0.5";
      record.node_order = static_cast<std::uint32_t>(node);
      const std::int64_t group = rank / group_size;
      const std::string number = std::to_string(node / 3);
      if (node % 3 == 0) {
        record.sends = rank % 2 == 0;
        record.name = std::string(record.sends ? "Distributed.isend." : "Distributed.irecv.") + number + ".forward";
        record.key = msvis::hash128("P|n|" + std::to_string(rank / 2) + "|" + number);
        continue;
      }
      const bool broadcast = node % 3 == 2;
      record.kind = broadcast ? msvis::LinkKind::rooted : msvis::LinkKind::symmetric;
      record.sends = broadcast;
      record.is_root = broadcast && rank % group_size == 0;
      record.name = std::string(broadcast ? "Distributed.broadcast." : "Distributed.all_reduce.") + number + ".forward";
      record.key = msvis::hash128((broadcast ? "C|broadcast|" : "C|all_reduce|") + std::to_string(group) + "|" + number);
      for (std::int64_t member = group * group_size; member < (group + 1) * group_size; ++member) {
        record.group_ranks.push_back(member);
      }
    }
  }
  return records;
}

void pair_records(benchmark::State& state) {
  const auto records = make_records(state.range(0), state.range(1), state.range(2));
  for (auto _ : state) {
    benchmark::DoNotOptimize(msvis::pair_records(records));
  }
  state.counters["records/s"] = benchmark::Counter(static_cast<double>(records.size()), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(pair_records)
    ->Args({16, 1000, 8})
    ->Args({64, 1000, 8})
    ->Args({256, 1000, 8})
    ->Args({256, 1000, 32})
    ->Args({1024, 1000, 8})
    ->Unit(benchmark::kMillisecond);

void write_json(benchmark::State& state) {
  const auto links = msvis::pair_records(make_records(64, 300, state.range(0)));
  for (auto _ : state) {
    for (const msvis::Link& link : links) {
      benchmark::DoNotOptimize(msvis::link_json(link));
    }
  }
  state.counters["links/s"] = benchmark::Counter(static_cast<double>(links.size()), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(write_json)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond);

}  // namespace
