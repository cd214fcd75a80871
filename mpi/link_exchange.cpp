#include "mpi/link_exchange.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/bytes.h"

namespace msvis {
namespace {

constexpr std::string_view hint = "exchanging the records of communication nodes";
// Rough size of one peer in a Link, to bound what is made at once.
constexpr std::size_t peer_bytes = 128;

// Mixes all bits into all (the finalizer of splitmix64).
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

// Where something is handled: `owner` chooses the process, `pass` the time. Independent of each other.
struct Place {
  std::uint64_t owner = 0;
  std::uint64_t pass = 0;
};

Place place_of_key(const std::array<std::uint64_t, 2>& key) {
  return {mix(key[0] ^ mix(key[1])), mix(key[1] + 0x9e3779b97f4a7c15U + mix(key[0]))};
}

Place place_of_node(const Link& link) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : link.name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  hash = mix(hash ^ mix(static_cast<std::uint64_t>(link.rank) ^
                        mix(static_cast<std::uint64_t>(link.step) * 2 + (link.side == Side::golden ? 1 : 0))));
  return {hash, mix(hash + 0x9e3779b97f4a7c15U)};
}

// An entry is: hash for the pass, size of the content, content. So entries can be passed over and sorted into passes without reading them.
void append_entry(std::string& to, std::uint64_t pass, std::string_view content) {
  ByteWriter header;
  header.put(pass);
  header.put(content);
  to += header.bytes();
}

template <typename Take>
void for_each_entry(std::string_view bytes, Take&& take) {
  ByteReader in(bytes);
  while (!in.at_end()) {
    const auto pass = in.get<std::uint64_t>();
    take(pass, in.get_view());
  }
}

// Ranks of a group are mostly neighbours: differences, seven bits to a byte.
void put_ranks(ByteWriter& out, const std::vector<std::int64_t>& ranks) {
  out.put(static_cast<std::uint32_t>(ranks.size()));
  std::uint64_t previous = 0;
  for (const std::int64_t rank : ranks) {
    const auto difference = static_cast<std::int64_t>(static_cast<std::uint64_t>(rank) - previous);
    previous = static_cast<std::uint64_t>(rank);
    std::uint64_t rest = (static_cast<std::uint64_t>(difference) << 1U) ^ static_cast<std::uint64_t>(difference >> 63U);
    while (rest >= 0x80) {
      out.put(static_cast<std::uint8_t>(rest | 0x80U));
      rest >>= 7U;
    }
    out.put(static_cast<std::uint8_t>(rest));
  }
}

std::vector<std::int64_t> get_ranks(ByteReader& in, std::uint32_t count) {
  std::vector<std::int64_t> ranks;
  ranks.reserve(count);
  std::uint64_t previous = 0;
  for (std::uint32_t k = 0; k < count; ++k) {
    std::uint64_t rest = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = in.get<std::uint8_t>();
      if (shift < 64) {
        rest |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      }
      if ((byte & 0x80U) == 0) {
        break;
      }
    }
    previous += (rest >> 1U) ^ (~(rest & 1U) + 1U);
    ranks.push_back(static_cast<std::int64_t>(previous));
  }
  return ranks;
}

// What the records of one key have in common, in the order in which keys are walked, then the size of the group.
struct KeyPart {
  std::array<std::uint64_t, 2> key{};
  std::int64_t step = 0;
  Side side = Side::target;
  LinkKind kind = LinkKind::p2p;
  std::uint32_t ranks = 0;
  [[nodiscard]] auto order() const { return std::tie(step, side, kind, key); }
};

std::string pack_record(const LinkRecord& record) {
  ByteWriter out;
  out.put(record.key[0]);
  out.put(record.key[1]);
  out.put(record.step);
  out.put(record.side);
  out.put(record.kind);
  put_ranks(out, record.group_ranks);
  out.put(record.rank);
  out.put(static_cast<std::uint8_t>((record.is_root ? 1 : 0) | (record.sends ? 2 : 0) | (record.assumed_root ? 4 : 0)));
  out.put(record.node_order);
  out.put(record.operation);
  out.put(record.index);
  out.put(record.name);
  return out.take();
}

KeyPart get_key(ByteReader& in) {
  KeyPart part;
  part.key[0] = in.get<std::uint64_t>();
  part.key[1] = in.get<std::uint64_t>();
  part.step = in.get<std::int64_t>();
  part.side = in.get<Side>();
  part.kind = in.get<LinkKind>();
  part.ranks = in.get<std::uint32_t>();
  return part;
}

LinkRecord unpack_record(std::string_view bytes) {
  ByteReader in(bytes);
  const KeyPart part = get_key(in);
  LinkRecord record;
  record.key = part.key;
  record.step = part.step;
  record.side = part.side;
  record.kind = part.kind;
  record.group_ranks = get_ranks(in, part.ranks);
  record.rank = in.get<std::int64_t>();
  const auto flags = in.get<std::uint8_t>();
  record.is_root = (flags & 1U) != 0;
  record.sends = (flags & 2U) != 0;
  record.assumed_root = (flags & 4U) != 0;
  record.node_order = in.get<std::uint32_t>();
  record.operation = in.get<std::uint32_t>();
  record.index = in.get_string();
  record.name = in.get_string();
  return record;
}

void put_link(ByteWriter& out, const Link& link) {
  out.put(link.step);
  out.put(link.rank);
  out.put(link.side);
  out.put(link.name);
  out.put(link.kind);
  out.put(link.type);
  out.put(link.operation);
  out.put_all(link.peers, [](ByteWriter& to, const Link::Peer& peer) {
    to.put(peer.rank);
    to.put(peer.index);
    to.put(peer.name);
  });
}

Link get_link(ByteReader& in) {
  Link link;
  link.step = in.get<std::int64_t>();
  link.rank = in.get<std::int64_t>();
  link.side = in.get<Side>();
  link.name = in.get_string();
  link.kind = in.get<LinkKind>();
  link.type = in.get<Link::Type>();
  link.operation = in.get<std::uint32_t>();
  link.peers = in.get_all([](ByteReader& from) {
    Link::Peer peer;
    peer.rank = from.get<std::int64_t>();
    peer.index = from.get_string();
    peer.name = from.get_string();
    return peer;
  });
  return link;
}

std::string pack_links(const std::vector<Link>& links) {
  ByteWriter out;
  out.put_all(links, put_link);
  return out.take();
}

// Runs through sorted entries group by group: `same` tells whether two entries belong to one group, `weight` estimates what a group's
// entries make. `use` gets runs of whole groups of about `limit` bytes.
template <typename Entry, typename Same, typename Weight, typename Use>
void for_each_run(const std::vector<Entry>& entries, std::size_t limit, Same&& same, Weight&& weight, Use&& use) {
  std::size_t run_begin = 0;
  std::size_t run_weight = 0;
  for (std::size_t begin = 0; begin < entries.size();) {
    std::size_t end = begin;
    std::size_t group_weight = 0;
    while (end < entries.size() && same(entries[begin], entries[end])) {
      group_weight += weight(entries[end]);
      ++end;
    }
    if (run_weight > 0 && run_weight + group_weight > limit) {
      use(run_begin, begin);
      run_begin = begin;
      run_weight = 0;
    }
    run_weight += group_weight;
    begin = end;
  }
  if (run_begin < entries.size()) {
    use(run_begin, entries.size());
  }
}

struct RecordEntry {
  KeyPart part;
  std::string_view bytes;
};

class Exchange {
 public:
  Exchange(Transport& transport, const LinkExchangeHooks& hooks, const LinkExchangeLimits& limits, const ScheduleLimits& schedule_limits)
      : transport_(transport), hooks_(hooks), limits_(limits), schedule_limits_(schedule_limits) {}

  LinkExchangeResult run(LinkRecordStore& store) {
    batch_by_owner_.resize(static_cast<std::size_t>(transport_.processes()));
    in_passes(store.take(), true, [this](const std::vector<std::string>& incoming, const BatchSink& sink) { pair(incoming, sink); });
    in_passes(std::move(batch_by_owner_), false,
              [this](const std::vector<std::string>& incoming, const BatchSink& sink) { merge_operations(incoming, sink); });
    return std::move(result_);
  }

 private:
  using Handle = std::function<void(const std::vector<std::string>& incoming, const BatchSink& sink)>;

  // Exchanges packed entries in as many passes as the process with the largest share needs; `handle` runs in a worker thread of each
  // process and hands packed links to the sink.
  void in_passes(std::vector<std::string> by_owner, bool records, const Handle& handle) {
    const std::uint64_t passes = number_of_passes(by_owner, records);
    for (std::uint64_t pass = 0; pass < passes; ++pass) {
      std::vector<std::string> outgoing;
      auto fault = capture_fault([&] { outgoing = passes == 1 ? std::move(by_owner) : entries_of_pass(by_owner, passes, pass); });
      agree(transport_, fault, hint);
      std::vector<std::string> incoming = transport_.all_to_all(std::move(outgoing), limits_.round_bytes, hint);
      stream(incoming, handle);
    }
  }

  // The same on all processes.
  std::uint64_t number_of_passes(const std::vector<std::string>& by_owner, bool records) {
    std::vector<std::uint64_t> shares;
    std::uint64_t entries = 0;
    for (const auto& bytes : by_owner) {
      shares.push_back(bytes.size());
      for_each_entry(bytes, [&](std::uint64_t, std::string_view) { ++entries; });
    }
    shares.push_back(entries);
    shares = transport_.sum(std::move(shares), hint);
    if (records && transport_.process() == 0) {
      result_.records = shares.back();
    }
    shares.pop_back();
    const std::uint64_t largest = *std::max_element(shares.begin(), shares.end());
    const std::uint64_t bound = std::max<std::uint64_t>(limits_.owner_bytes, 1);
    return (largest + bound - 1) / bound;
  }

  static std::vector<std::string> entries_of_pass(const std::vector<std::string>& by_owner, std::uint64_t passes, std::uint64_t pass) {
    std::vector<std::string> chosen(by_owner.size());
    for (std::size_t owner = 0; owner < by_owner.size(); ++owner) {
      for_each_entry(by_owner[owner], [&](std::uint64_t hash, std::string_view content) {
        if (hash % passes == pass) {
          append_entry(chosen[owner], hash, content);
        }
      });
    }
    return chosen;
  }

  // One item for each process, bound to it; the links take the way of the rows to process 0.
  void stream(const std::vector<std::string>& incoming, const Handle& handle) {
    std::vector<ScheduledItem> items;
    if (transport_.process() == 0) {
      for (int process = 0; process < transport_.processes(); ++process) {
        items.push_back({{}, 0, 0, process});
      }
    }
    ScheduleHooks hooks;
    hooks.run = [&](std::size_t, std::string_view, const BatchSink& sink) {
      faults_ = ByteWriter();
      handle(incoming, sink);
      return faults_.take();
    };
    hooks.store = [&](std::size_t, std::string_view batch) {
      auto links = ByteReader(batch).get_all(get_link);
      result_.links += links.size();
      hooks_.store(std::move(links));
    };
    hooks.finished = [&](std::size_t, std::string&& faults) {
      for (ByteReader in(faults); !in.at_end();) {
        result_.faults.push_back(in.get_string());
      }
    };
    hooks.idle = hooks_.idle;
    run_schedule(transport_, std::move(items), 1, hooks, schedule_limits_);
  }

  // Linking never fails the run: what can't be linked stays as it is, and the reason is told.
  template <typename Work>
  void without_failing(Work&& work) {
    try {
      work();
    } catch (const Stopped&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      faults_.put(std::string_view(error.what()));
    }
  }

  void pair(const std::vector<std::string>& incoming, const BatchSink& sink) {
    std::vector<RecordEntry> entries;
    for (const auto& bytes : incoming) {
      for_each_entry(bytes, [&](std::uint64_t, std::string_view content) {
        ByteReader in(content);
        entries.push_back({get_key(in), content});
      });
    }
    std::sort(entries.begin(), entries.end(), [](const RecordEntry& a, const RecordEntry& b) { return a.part.order() < b.part.order(); });
    for_each_run(
        entries, limits_.chunk_bytes, [](const RecordEntry& a, const RecordEntry& b) { return a.part.order() == b.part.order(); },
        [](const RecordEntry& entry) { return entry.bytes.size() + (std::size_t{1} + entry.part.ranks) * peer_bytes; },
        [&](std::size_t begin, std::size_t end) {
          without_failing([&] {
            std::vector<LinkRecord> records;
            records.reserve(end - begin);
            for (std::size_t k = begin; k < end; ++k) {
              records.push_back(unpack_record(entries[k].bytes));
            }
            std::vector<Link> links = pair_records(records);
            const auto first_batch =
                std::stable_partition(links.begin(), links.end(), [](const Link& link) { return link.kind != LinkKind::batch; });
            for (auto link = first_batch; link != links.end(); ++link) {
              const Place place = place_of_node(*link);
              ByteWriter out;
              put_link(out, *link);
              append_entry(batch_by_owner_[place.owner % batch_by_owner_.size()], place.pass, out.bytes());
            }
            links.erase(first_batch, links.end());
            if (!links.empty()) {
              sink(pack_links(links));
            }
          });
        });
  }

  void merge_operations(const std::vector<std::string>& incoming, const BatchSink& sink) {
    std::vector<Link> operations;
    for (const auto& bytes : incoming) {
      for_each_entry(bytes, [&](std::uint64_t, std::string_view content) {
        ByteReader in(content);
        operations.push_back(get_link(in));
      });
    }
    const auto node = [](const Link& link) { return std::tie(link.side, link.step, link.rank, link.name); };
    std::sort(operations.begin(), operations.end(), [&](const Link& a, const Link& b) {
      return std::tuple_cat(node(a), std::tie(a.operation, a.type)) < std::tuple_cat(node(b), std::tie(b.operation, b.type));
    });
    for_each_run(
        operations, limits_.chunk_bytes, [&](const Link& a, const Link& b) { return node(a) == node(b); },
        [](const Link& link) { return link.peers.size() * peer_bytes + sizeof(Link); },
        [&](std::size_t begin, std::size_t end) {
          without_failing([&] {
            const auto first = operations.begin();
            std::vector<Link> of_nodes(std::make_move_iterator(first + static_cast<std::ptrdiff_t>(begin)),
                                       std::make_move_iterator(first + static_cast<std::ptrdiff_t>(end)));
            sink(pack_links(merge_batch_links(std::move(of_nodes))));
          });
        });
  }

  Transport& transport_;
  const LinkExchangeHooks& hooks_;
  const LinkExchangeLimits& limits_;
  const ScheduleLimits& schedule_limits_;
  std::vector<std::string> batch_by_owner_;  // links of batch operations, for the process that has the node
  ByteWriter faults_;
  LinkExchangeResult result_;
};

}  // namespace

void LinkRecordStore::add(const std::vector<LinkRecord>& records) {
  const std::lock_guard lock(mutex_);
  for (const auto& record : records) {
    auto& by_owner = by_item_[{record.step, record.rank}];
    by_owner.resize(processes_);
    const Place place = place_of_key(record.key);
    append_entry(by_owner[place.owner % processes_], place.pass, pack_record(record));
  }
}

void LinkRecordStore::drop(std::int64_t step, std::int64_t rank) {
  const std::lock_guard lock(mutex_);
  by_item_.erase({step, rank});
}

std::vector<std::string> LinkRecordStore::take() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all(processes_);
  while (!by_item_.empty()) {
    const auto item = by_item_.extract(by_item_.begin());
    for (std::size_t owner = 0; owner < processes_; ++owner) {
      all[owner] += item.mapped()[owner];
    }
  }
  return all;
}

LinkExchangeResult exchange_links(Transport& transport, LinkRecordStore& store, const LinkExchangeHooks& hooks,
                                  const LinkExchangeLimits& limits, const ScheduleLimits& schedule_limits) {
  return Exchange(transport, hooks, limits, schedule_limits).run(store);
}

}  // namespace msvis
