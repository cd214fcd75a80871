#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "msvis/links.h"

namespace msvis {
namespace {

/// A link and where its node stands: links are sorted before they are handed out.
struct PlacedLink {
  std::uint32_t node_order = 0;
  Link link;
};

/// The records of one key of one side and step, sorted by rank.
using SameKey = std::vector<const LinkRecord*>;

auto key_of(const LinkRecord& record) {
  return std::tie(record.side, record.step, record.kind, record.key);
}

/// Within a key. All but the rank only decides between records that no well-formed input has twice.
auto place_in_key(const LinkRecord& record) {
  return std::tie(record.rank, record.sends, record.node_order, record.operation, record.name, record.index, record.is_root,
                  record.assumed_root, record.group_ranks);
}

Link::Peer peer_of(const LinkRecord& record) {
  return {.rank = record.rank, .index = record.index, .name = record.name};
}

class Pairing {
 public:
  void pair(const SameKey& records) {
    switch (records.front()->kind) {
      case LinkKind::p2p:
      case LinkKind::batch:
        pair_ends(records);
        break;
      case LinkKind::symmetric:
        pair_symmetric(records);
        break;
      case LinkKind::rooted:
        pair_rooted(records);
        break;
    }
  }

  std::vector<Link> take() {
    const auto place = [](const PlacedLink& placed) {
      return std::tie(placed.link.side, placed.link.step, placed.link.rank, placed.node_order, placed.link.name, placed.link.operation);
    };
    std::stable_sort(links_.begin(), links_.end(),
                     [&](const PlacedLink& left, const PlacedLink& right) { return place(left) < place(right); });
    std::vector<Link> all;
    all.reserve(links_.size());
    for (PlacedLink& placed : links_) {
      all.push_back(std::move(placed.link));
    }
    return all;
  }

 private:
  Link& add(const LinkRecord& record, Link::Type type) {
    PlacedLink& placed = links_.emplace_back();
    placed.node_order = record.node_order;
    placed.link.step = record.step;
    placed.link.rank = record.rank;
    placed.link.side = record.side;
    placed.link.name = record.name;
    placed.link.kind = record.kind;
    placed.link.type = type;
    placed.link.operation = record.operation;
    return placed.link;
  }

  /// A key of this kind names both ends: at most one record sends and one receives.
  void pair_ends(const SameKey& records) {
    const auto sender = std::find_if(records.begin(), records.end(), [](const LinkRecord* record) { return record->sends; });
    const auto receiver = std::find_if(records.begin(), records.end(), [](const LinkRecord* record) { return !record->sends; });
    if (sender == records.end() || receiver == records.end()) {
      return;
    }
    add(**sender, Link::Type::send).peers.push_back(peer_of(**receiver));
    add(**receiver, Link::Type::receive).peers.push_back(peer_of(**sender));
  }

  static const std::size_t nowhere = static_cast<std::size_t>(-1);

  /// Place of the first record of a rank.
  static std::size_t find_rank(const SameKey& records, std::int64_t rank) {
    const auto found = std::lower_bound(records.begin(), records.end(), rank,
                                        [](const LinkRecord* record, std::int64_t wanted) { return record->rank < wanted; });
    return found == records.end() || (*found)->rank != rank ? nowhere : static_cast<std::size_t>(found - records.begin());
  }

  /// Calls `take(place)` for each other rank of a record's own list that has the key, in the order of the list, each once.
  template <typename Take>
  void for_each_partner(const SameKey& records, const LinkRecord& own, Take&& take) {
    taken_.resize(std::max(taken_.size(), records.size()));
    ++round_;
    for (const std::int64_t rank : own.group_ranks) {
      const std::size_t place = rank == own.rank ? nowhere : find_rank(records, rank);
      if (place != nowhere && taken_[place] != round_) {
        taken_[place] = round_;
        take(place);
      }
    }
  }

  void pair_symmetric(const SameKey& records) {
    if (records.front()->rank == records.back()->rank) {
      return;
    }
    for (const LinkRecord* own : records) {
      std::vector<Link::Peer> peers;
      for_each_partner(records, *own, [&](std::size_t place) { peers.push_back(peer_of(*records[place])); });
      if (!peers.empty()) {
        add(*own, Link::Type::send_receive).peers = std::move(peers);
      }
    }
  }

  /// Roots act in ascending order of their ranks, and only while they have no link yet.
  void pair_rooted(const SameKey& records) {
    std::vector<bool> linked(records.size(), false);
    for (const bool assumed : {false, true}) {
      for (std::size_t own_place = 0; own_place < records.size(); ++own_place) {
        const LinkRecord& root = *records[own_place];
        if (!root.is_root || root.assumed_root != assumed || linked[own_place]) {
          continue;
        }
        std::vector<Link::Peer> peers;
        for_each_partner(records, root, [&](std::size_t place) {
          if (linked[place]) {
            return;  // belongs to an earlier root
          }
          linked[place] = true;
          peers.push_back(peer_of(*records[place]));
          add(*records[place], root.sends ? Link::Type::receive : Link::Type::send).peers.push_back(peer_of(root));
        });
        if (!peers.empty()) {
          linked[own_place] = true;
          add(root, root.sends ? Link::Type::send : Link::Type::receive).peers = std::move(peers);
        }
      }
    }
  }

  std::vector<PlacedLink> links_;
  std::vector<std::uint64_t> taken_;  // round in which a place was taken
  std::uint64_t round_ = 0;
};

Link merge_operations(const std::vector<Link*>& operations) {
  Link merged = std::move(*operations.front());
  std::unordered_set<std::int64_t> seen;
  std::vector<Link::Peer> peers;
  const auto take_peers = [&](std::vector<Link::Peer>& more) {
    for (Link::Peer& peer : more) {
      if (seen.insert(peer.rank).second) {
        peers.push_back(std::move(peer));
      }
    }
  };
  take_peers(merged.peers);
  for (auto operation = operations.begin() + 1; operation != operations.end(); ++operation) {
    if ((*operation)->type != merged.type) {
      merged.type = Link::Type::send_receive;
    }
    take_peers((*operation)->peers);
  }
  merged.peers = std::move(peers);
  return merged;
}

}  // namespace

std::vector<Link> pair_records(const std::vector<LinkRecord>& records) {
  SameKey sorted;
  sorted.reserve(records.size());
  for (const LinkRecord& record : records) {
    sorted.push_back(&record);
  }
  std::sort(sorted.begin(), sorted.end(), [](const LinkRecord* left, const LinkRecord* right) {
    return key_of(*left) != key_of(*right) ? key_of(*left) < key_of(*right) : place_in_key(*left) < place_in_key(*right);
  });
  Pairing pairing;
  SameKey same_key;
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto last = std::find_if(first, sorted.end(), [&](const LinkRecord* record) { return key_of(*record) != key_of(**first); });
    if (last - first > 1) {
      same_key.assign(first, last);
      pairing.pair(same_key);
    }
    first = last;
  }
  return pairing.take();
}

std::vector<Link> merge_batch_links(std::vector<Link> links) {
  std::vector<Link> merged;
  std::vector<Link*> operations;
  for (Link& link : links) {
    if (link.kind == LinkKind::batch) {
      operations.push_back(&link);
    } else {
      merged.push_back(std::move(link));
    }
  }
  const auto node_of = [](const Link* link) { return std::tie(link->side, link->step, link->rank, link->name); };
  std::sort(operations.begin(), operations.end(), [&](const Link* left, const Link* right) {
    return node_of(left) != node_of(right) ? node_of(left) < node_of(right) : left->operation < right->operation;
  });
  for (auto first = operations.begin(); first != operations.end();) {
    const auto last = std::find_if(first, operations.end(), [&](const Link* link) { return node_of(link) != node_of(*first); });
    merged.push_back(merge_operations({first, last}));
    first = last;
  }
  return merged;
}

}  // namespace msvis
