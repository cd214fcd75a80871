// The columns of the parameter table (--metrics), described in one place: docs/metrics.md, the CSV header and the HDF5 file follow it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace msvis {

/// Version of the schema; changes when a column changes its meaning or goes.
inline constexpr int metrics_schema_version = 1;

/// Texts of one kind share a dictionary.
enum class TextKind : std::uint8_t { node, parameter, dtype, shape, result, reason };
inline constexpr std::size_t text_kinds = 6;
inline constexpr std::array<std::string_view, text_kinds> text_kind_names{"node", "parameter", "dtype", "shape", "result", "reason"};

/// Every text of the column `result`; its dictionary is the same in all files.
inline constexpr std::array<std::string_view, 5> result_texts{"", "error", "pass", "unmatched", "warning"};

enum TextColumn : std::size_t {
  text_node,
  text_parameter,
  text_golden_node,
  text_golden_parameter,
  text_target_dtype,
  text_golden_dtype,
  text_target_shape,
  text_golden_shape,
  text_result,
  text_reason,
  text_columns
};
inline constexpr std::array<TextKind, text_columns> kind_of_text{
    TextKind::node,  TextKind::parameter, TextKind::node,  TextKind::parameter, TextKind::dtype,
    TextKind::dtype, TextKind::shape,     TextKind::shape, TextKind::result,    TextKind::reason};

/// Statistics stand in the order of Statistic, the cells of a mode in the order of metric_keys.
enum NumberColumn : std::size_t {
  number_target_statistics = 0,
  number_golden_statistics = 4,
  number_statistics_cells = 8,
  number_tensor_cells = 16,
  number_precision_index = 22,
  number_columns = 23
};

/// Bytes of a checksum in the table; longer ones are cut.
inline constexpr std::size_t checksum_bytes = 32;
enum ChecksumColumn : std::size_t { checksum_target, checksum_golden, checksum_columns };

struct MetricsColumn {
  enum class Type : std::uint8_t {
    step,        ///< int64
    rank,        ///< int64
    node_order,  ///< uint32
    position,    ///< uint32
    md5_equal,   ///< int8
    number,      ///< float64
    text,        ///< code in a dictionary
    checksum,    ///< text of up to checksum_bytes
  };
  std::string_view name;
  Type type;
  std::size_t index;         ///< TextColumn, NumberColumn or ChecksumColumn, where the type is such
  std::string_view unit;     ///< "1" without a unit; empty for texts
  std::string_view meaning;  ///< one line
};

/// All columns in the order of the table.
std::span<const MetricsColumn> metrics_columns();

}  // namespace msvis
