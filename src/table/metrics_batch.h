// Rows of the parameter table on their way from the worker that made them to the file.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/compare.h"
#include "msvis/graph.h"
#include "msvis/options.h"
#include "table/metrics_columns.h"

namespace msvis {

/// One row. What a text number stands for depends on where the row is: a text of its batch, or a code in the dictionary of the file.
struct MetricsRow {
  std::uint32_t node_order = 0;
  std::uint32_t position = 0;
  std::array<std::uint32_t, text_columns> texts{};
  std::array<double, number_columns> numbers;  ///< NaN: none
  std::int8_t md5_equal = -1;
  std::array<std::array<char, checksum_bytes>, checksum_columns> checksums{};  ///< filled with zeros
};

/// Target nodes whose place in node_order is in [k * n, (k + 1) * n) make block k of a (step, rank): the unit that is sorted as a whole.
inline constexpr std::uint32_t metrics_block_nodes = 512;

/// What a packed batch says of itself.
struct MetricsBatchHeader {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::uint32_t block = 0;
  std::uint32_t rows = 0;
  std::uint64_t columns = 0;  ///< bit k: a row has a value in column k of metrics_columns()
};

/// A batch of rows of one block, as views into its bytes. Text 0 of each kind is empty.
struct MetricsBatch {
  MetricsBatchHeader header;
  std::array<std::vector<std::string_view>, text_kinds> texts;
  std::string_view packed_rows;
};

/// Both throw Error (internal) on anything that make_metrics_batches did not write.
MetricsBatchHeader read_metrics_header(std::string_view bytes);
MetricsBatch unpack_metrics_batch(std::string_view bytes);

/// Reads the rows of a batch one by one.
class MetricsRowReader {
 public:
  /// `sizes`: number of texts of each kind; larger numbers in a row are refused.
  MetricsRowReader(std::string_view packed_rows, const std::array<std::size_t, text_kinds>& sizes) : rest_(packed_rows), sizes_(sizes) {}
  /// False at the end. Throws Error (internal) if the bytes are damaged.
  bool next(MetricsRow& row);

 private:
  std::string_view rest_;
  std::array<std::size_t, text_kinds> sizes_;
};

/// What the rows of a graph are made from.
struct MetricsSource {
  const Graph* target = nullptr;
  const Graph* golden = nullptr;           ///< null in a build
  const Comparison* comparison = nullptr;  ///< null in a build
  std::int64_t step = 0;
  std::int64_t rank = 0;
  Compat compat = Compat::standard;
  const std::vector<bool>* nodes = nullptr;  ///< by target node, which of them; null: all
};

/// Packs the parameters of the target nodes into batches of about `batch_bytes` and gives them to `sink`, in node_order.
void make_metrics_batches(const MetricsSource& source, std::size_t batch_bytes, const std::function<void(std::string&&)>& sink);

}  // namespace msvis
