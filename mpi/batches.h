// What the workers send to process 0 while an item is in work: batches of different kinds, told apart by their first byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "links/packed_records.h"
#include "msvis/visdb.h"

namespace msvis {

enum class BatchKind : std::uint8_t { rows, link_records, metrics };

inline std::string rows_batch(const RowBatch& batch) {
  ByteWriter kind;
  kind.put(BatchKind::rows);
  return kind.take() + pack(batch);
}

/// `batch`: of table/metrics_batch.h.
inline std::string metrics_batch(std::string_view batch) {
  ByteWriter out;
  out.put(BatchKind::metrics);
  return out.take().append(batch);
}

inline std::string link_records_batch(std::int64_t step, std::int64_t rank, std::span<const LinkRecord> records) {
  ByteWriter out;
  out.put(BatchKind::link_records);
  out.put(step);
  out.put(rank);
  out.put(pack_link_records(records));
  return out.take();
}

}  // namespace msvis
