#include "links/packed_records.h"

namespace msvis {
namespace {

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

LinkKey get_key(ByteReader& in) {
  LinkKey part;
  part.key[0] = in.get<std::uint64_t>();
  part.key[1] = in.get<std::uint64_t>();
  part.step = in.get<std::int64_t>();
  part.side = in.get<Side>();
  part.kind = in.get<LinkKind>();
  part.ranks = in.get<std::uint32_t>();
  return part;
}

}  // namespace

LinkRecord unpack_link_record(std::string_view packed) {
  ByteReader in(packed);
  const LinkKey part = get_key(in);
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

void append_packed_record(std::string& to, std::string_view record) {
  ByteWriter out;
  out.put(record);
  to += out.bytes();
}

std::string pack_link_records(std::span<const LinkRecord> records) {
  std::string bytes;
  for (const LinkRecord& record : records) {
    append_packed_record(bytes, pack_record(record));
  }
  return bytes;
}

LinkKey key_of_packed_record(std::string_view record) {
  ByteReader in(record);
  return get_key(in);
}

}  // namespace msvis
