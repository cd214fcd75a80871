// Brings the records of communication nodes of all ranks together, so that each key is paired in one place, whatever the number of
// processes: from the partial file, which has those of earlier runs too, to the owner of each key, then the operations of batch nodes by
// node, and the finished links stream to process 0. No process holds more than its bound, whatever the number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/scheduler.h"
#include "mpi/transport.h"
#include "msvis/links.h"

namespace msvis {

/// The records of all items, packed (links/packed_records.h); on process 0, empty elsewhere.
struct LinkRecordSource {
  std::uint64_t bytes = 0;  ///< of all records, about
  /// Gives all records, in pieces of any size; called once for each pass.
  std::function<void(const std::function<void(std::string_view)>& use)> for_each;
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
  /// See ScheduleHooks::stop_wanted.
  std::function<std::optional<Fault>()> stop_wanted;
};

/// What process 0 learns of the exchange; empty elsewhere.
struct LinkExchangeResult {
  std::uint64_t records = 0;
  std::uint64_t links = 0;
  /// Keys or nodes that could not be linked for an internal reason; they stay without link, the run goes on.
  std::vector<std::string> faults;
};

/// Collective. Throws AgreedError on all processes when `store` throws or memory runs out.
LinkExchangeResult exchange_links(Transport& transport, const LinkRecordSource& source, const LinkExchangeHooks& hooks,
                                  const LinkExchangeLimits& limits, const ScheduleLimits& schedule_limits);

}  // namespace msvis
