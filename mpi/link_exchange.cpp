#include "mpi/link_exchange.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "links/packed_records.h"

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
  LinkKey part;
  std::string_view bytes;
};

class Exchange {
 public:
  Exchange(Transport& transport, const LinkExchangeHooks& hooks, const LinkExchangeLimits& limits, const ScheduleLimits& schedule_limits)
      : transport_(transport), hooks_(hooks), limits_(limits), schedule_limits_(schedule_limits) {}

  LinkExchangeResult run(const LinkRecordSource& source) {
    batch_by_owner_.resize(processes());
    exchange_records(source);
    exchange_operations();
    return std::move(result_);
  }

 private:
  using Handle = std::function<void(const std::vector<std::string>& incoming, const BatchSink& sink)>;

  [[nodiscard]] std::size_t processes() const { return static_cast<std::size_t>(transport_.processes()); }
  [[nodiscard]] std::uint64_t passes_for(std::uint64_t bytes_of_an_owner) const {
    const std::uint64_t bound = std::max<std::uint64_t>(limits_.owner_bytes, 1);
    return (bytes_of_an_owner + bound - 1) / bound;
  }

  // Process 0 reads the records as often as there are passes and sends them in pieces to their owners, which pair them.
  void exchange_records(const LinkRecordSource& source) {
    const std::uint64_t passes = transport_.sum({leads() ? passes_for(source.bytes / processes()) : 0}, hint)[0];
    for (std::uint64_t pass = 0; pass < passes; ++pass) {
      std::vector<std::string> incoming(processes());
      if (leads()) {
        send_pass(source, passes, pass, incoming);
      } else {
        while (share_piece({}, true, incoming)) {
        }
      }
      stream(incoming, [this](const std::vector<std::string>& all, const BatchSink& sink) { pair(all, sink); });
    }
  }

  [[nodiscard]] bool leads() const { return transport_.process() == 0; }

  // Process 0; a partner of share_piece() of the others.
  void send_pass(const LinkRecordSource& source, std::uint64_t passes, std::uint64_t pass, std::vector<std::string>& incoming) {
    std::vector<std::string> outgoing(processes());
    std::size_t bytes = 0;
    const auto flush = [&] {
      share_piece(std::exchange(outgoing, std::vector<std::string>(processes())), true, incoming);
      bytes = 0;
    };
    const auto fault = capture_fault([&] {
      source.for_each([&](std::string_view records) {
        for_each_packed_record(records, [&](std::string_view record) {
          const Place place = place_of_key(key_of_packed_record(record).key);
          if (place.pass % passes != pass) {
            return;
          }
          result_.records += 1;
          append_packed_record(outgoing[place.owner % processes()], record);
          bytes += record.size();
        });
        if (bytes >= limits_.round_bytes) {
          flush();
        }
      });
    });
    flush();
    share_piece({}, false, incoming);
    agree(transport_, fault, hint);
  }

  // Collective. Process 0 says whether there is a piece; each process adds its part of it.
  bool share_piece(std::vector<std::string> outgoing, bool more, std::vector<std::string>& incoming) {
    std::string flag = leads() && more ? "+" : "";
    transport_.broadcast(flag, hint);
    if (flag.empty()) {
      if (!leads()) {
        agree(transport_, std::nullopt, hint);
      }
      return false;
    }
    outgoing.resize(processes());
    const auto piece = transport_.all_to_all(std::move(outgoing), limits_.round_bytes, hint);
    incoming.front() += piece.front();
    return true;
  }

  // The links of batch operations go to the process that has the node, in as many passes as the process with the largest share needs.
  void exchange_operations() {
    std::vector<std::uint64_t> shares;
    for (const auto& bytes : batch_by_owner_) {
      shares.push_back(bytes.size());
    }
    shares = transport_.sum(std::move(shares), hint);
    const std::uint64_t passes = passes_for(*std::max_element(shares.begin(), shares.end()));
    for (std::uint64_t pass = 0; pass < passes; ++pass) {
      std::vector<std::string> outgoing;
      auto fault =
          capture_fault([&] { outgoing = passes == 1 ? std::move(batch_by_owner_) : entries_of_pass(batch_by_owner_, passes, pass); });
      agree(transport_, fault, hint);
      const std::vector<std::string> incoming = transport_.all_to_all(std::move(outgoing), limits_.round_bytes, hint);
      stream(incoming, [this](const std::vector<std::string>& all, const BatchSink& sink) { merge_operations(all, sink); });
    }
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
    hooks.stop_wanted = hooks_.stop_wanted;
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
      for_each_packed_record(bytes, [&](std::string_view record) { entries.push_back({key_of_packed_record(record), record}); });
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
              records.push_back(unpack_link_record(entries[k].bytes));
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

LinkExchangeResult exchange_links(Transport& transport, const LinkRecordSource& source, const LinkExchangeHooks& hooks,
                                  const LinkExchangeLimits& limits, const ScheduleLimits& schedule_limits) {
  return Exchange(transport, hooks, limits, schedule_limits).run(source);
}

}  // namespace msvis
