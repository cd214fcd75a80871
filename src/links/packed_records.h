// Link records as flat bytes: for the way between processes, and as the partial file keeps them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "msvis/links.h"

namespace msvis {

/// What the records of one key have in common, in the order in which keys are walked, then the size of the group.
struct LinkKey {
  std::array<std::uint64_t, 2> key{};
  std::int64_t step = 0;
  Side side = Side::target;
  LinkKind kind = LinkKind::p2p;
  std::uint32_t ranks = 0;
  [[nodiscard]] auto order() const { return std::tie(step, side, kind, key); }
};

std::string pack_link_records(std::span<const LinkRecord> records);

/// Calls `use` with the bytes of each record. What it gets can be passed on (append_packed_record) without being read.
template <typename Use>
void for_each_packed_record(std::string_view bytes, Use&& use) {
  for (ByteReader in(bytes); !in.at_end();) {
    use(in.get_view());
  }
}
void append_packed_record(std::string& to, std::string_view record);

/// Both throw Error (internal) on anything that pack_link_records did not write.
LinkKey key_of_packed_record(std::string_view record);
LinkRecord unpack_link_record(std::string_view packed);

}  // namespace msvis
