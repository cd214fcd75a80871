// Links between communication nodes of different ranks: local records, and the pure function that pairs them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "msvis/graph.h"
#include "msvis/options.h"

namespace msvis {

/// Column data_source: target rows are NPU, golden rows are Bench.
enum class Side : std::uint8_t { target, golden };

enum class LinkKind : std::uint8_t { p2p, rooted, symmetric, batch };

/// What another rank must know of a communication node (distributed rules, section 10). One per countable node, one per operation of a
/// batch node.
struct LinkRecord {
  std::array<std::uint64_t, 2> key{};  ///< 128-bit hash of the canonical key text
  std::int64_t step = 0;
  std::int64_t rank = 0;
  Side side = Side::target;
  LinkKind kind = LinkKind::p2p;
  bool is_root = false;
  bool sends = false;  ///< p2p, batch: the sending end; rooted: the root of this API sends (broadcast, scatter)
  std::string index;   ///< "0", "0.5", "1", "medium", "high", "critical" or "Nan"
  std::uint32_t node_order = 0;
  std::uint32_t operation = 0;  ///< position in a batch node
  /// LinkMode::extended: the root was read from the other spelling, or assumed. Roots that are stated as usual act first.
  bool assumed_root = false;
  std::string name;
  std::vector<std::int64_t> group_ranks;  ///< the node's own list, in its order, each rank once; empty for p2p and batch
  bool operator==(const LinkRecord&) const = default;
};

/// One partner of a node. For batch operations several links of one node are merged afterwards.
struct Link {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  Side side = Side::target;
  std::string name;
  LinkKind kind = LinkKind::p2p;
  enum class Type : std::uint8_t { send, receive, send_receive } type = Type::send;
  std::uint32_t operation = 0;
  struct Peer {
    std::int64_t rank = 0;
    std::string index;
    std::string name;
    bool operator==(const Peer&) const = default;
  };
  std::vector<Peer> peers;
  bool operator==(const Link&) const = default;
};

/// Options that change the records.
struct LinkOptions {
  Compat compat = Compat::standard;
  LinkMode mode = LinkMode::standard;
  bool overflow_index = false;            ///< -oc: indices are overflow levels
  std::vector<std::int64_t> world_ranks;  ///< ranks of the step, ascending (LinkMode::extended: the missing group)
};

/// Records of one graph, in node_order. The graph's precision indices and overflow levels must be final.
std::vector<LinkRecord> link_records(const Graph& graph, Side side, std::int64_t step, std::int64_t rank, const LinkOptions& options);

/// Pairs the records of one or more whole keys (each key's records must all be there; any order). Nodes without a partner
/// get no link. Records of several steps and sides may come together; they are never paired with each other. The result is sorted by (side,
/// step, rank, node_order, operation) and does not depend on the order of the input. Time: n log n in the records and listed ranks.
std::vector<Link> pair_records(const std::vector<LinkRecord>& records);

/// Merges the operations of batch nodes (all operations of a node must be there, in any order) to one link per node; other links pass
/// unchanged and come first, the merged ones are sorted by (side, step, rank, name).
std::vector<Link> merge_batch_links(std::vector<Link> links);

/// Text of the column matched_distributed.
std::string link_json(const Link& link);

/// How often one rank called one API on one group: as the calls are counted to pair them.
struct GroupCount {
  Side side = Side::target;
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::string group_id;
  std::string api;
  std::vector<std::int64_t> group_ranks;  ///< of the first of these calls
  std::uint64_t count = 0;
  bool operator==(const GroupCount&) const = default;
};

/// Counts of one graph, sorted by (group_id, api).
std::vector<GroupCount> group_counts(const Graph& graph, Side side, std::int64_t step, std::int64_t rank, const LinkOptions& options);

/// One sentence for each group and API that its members called unequally often, so that later calls may be linked with wrong partners.
/// `counts` holds those of all ranks of one step, in any order; `ranks` are the ranks of that step (a member without calls counts 0, a
/// member that was not dumped is left out). Sorted by (side, step, group_id, api).
std::vector<std::string> group_count_warnings(std::vector<GroupCount> counts, const std::vector<std::int64_t>& ranks);

}  // namespace msvis
