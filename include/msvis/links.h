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
  std::string name;
  std::vector<std::int64_t> group_ranks;  ///< the node's own list, in its order; empty for p2p and batch
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
/// get no link. The result is sorted by (side, rank, node, operation) and does not depend on the order of the input.
std::vector<Link> pair_records(std::vector<LinkRecord> records);

/// Merges the operations of batch nodes (all operations of a node must be there) to one link per node; other links pass unchanged.
std::vector<Link> merge_batch_links(std::vector<Link> links);

/// Text of the column matched_distributed.
std::string link_json(const Link& link);

}  // namespace msvis
