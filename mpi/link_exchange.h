// Brings the records of communication nodes of all ranks together, so that each key is paired in one place, whatever the number of
// processes: one exchange by key, one for the operations of batch nodes by node, and the finished links stream to process 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mpi/scheduler.h"
#include "mpi/transport.h"
#include "msvis/links.h"

namespace msvis {

/// The records of the items that this process has finished, packed, sorted by the process that will pair them.
class LinkRecordStore {
 public:
  explicit LinkRecordStore(int processes) : processes_(static_cast<std::size_t>(processes)) {}
  /// The records of one (step, rank), or of a share of it. From any thread.
  void add(const std::vector<LinkRecord>& records);
  /// Forgets a (step, rank), of which another process failed to do its share.
  void drop(std::int64_t step, std::int64_t rank);
  /// Packed bytes for each process; the store is empty afterwards.
  std::vector<std::string> take();

 private:
  std::mutex mutex_;
  std::size_t processes_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::string>> by_item_;  ///< each by owner
};

struct LinkExchangeLimits {
  std::size_t round_bytes = std::size_t{32} << 20;   ///< sent and received by a process in one round
  std::size_t owner_bytes = std::size_t{256} << 20;  ///< records that a process pairs in one pass (more only if one key has more)
  std::size_t chunk_bytes = std::size_t{4} << 20;    ///< about the size of the links that are made at once
};

struct LinkExchangeHooks {
  /// Process 0, in a thread of its own: finished links, batch operations merged. An exception stops the run.
  std::function<void(std::vector<Link>&& links)> store;
  /// Every process, main thread, now and then; see ScheduleHooks::idle.
  std::function<void()> idle;
};

/// What process 0 learns of the exchange; empty elsewhere.
struct LinkExchangeResult {
  std::uint64_t records = 0;
  std::uint64_t links = 0;
  /// Keys or nodes that could not be linked for an internal reason; they stay without link, the run goes on.
  std::vector<std::string> faults;
};

/// Collective. Throws AgreedError on all processes when `store` throws or memory runs out.
LinkExchangeResult exchange_links(Transport& transport, LinkRecordStore& store, const LinkExchangeHooks& hooks,
                                  const LinkExchangeLimits& limits, const ScheduleLimits& schedule_limits);

}  // namespace msvis
