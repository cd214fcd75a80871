// Comparison of two graphs whose nodes have been matched: rows, metrics, verdicts, precision index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/graph.h"
#include "msvis/metrics.h"
#include "msvis/options.h"

namespace msvis {

enum class CompareMode : std::uint8_t { summary = 0, md5 = 1, tensor = 2, structure = 3 };

/// Text of tb_config.task: summary, md5, all, structure.
std::string_view task_text(CompareMode mode);

/// Chooses the mode of one (step, rank) from both dumps (comparison rules, 1.1). Throws Error (mismatch) that says what
/// differs. Frameworks are checked as well (1.5): a cross-framework pair needs `layer_mapping`.
CompareMode choose_mode(const Dump& target, const Dump& golden, bool layer_mapping, std::vector<std::string>& warnings);

enum class Level : std::uint8_t { pass, warning, error };

/// Text of the key Result: pass, warning, error.
std::string_view level_text(Level level);

/// One metric or statistics cell of a row, before it becomes text.
struct Cell {
  enum class Kind : std::uint8_t {
    blank,    ///< one blank
    number,   ///< float
    percent,  ///< float followed by %
    text,     ///< literally
  };
  Kind kind = Kind::blank;
  double value = 0;
  std::string text;

  static Cell of_number(double value) { return {Kind::number, value, {}}; }
  static Cell of_percent(double value) { return {Kind::percent, value, {}}; }
  static Cell of_text(std::string_view text) { return {Kind::text, 0, std::string(text)}; }
  static Cell of_blank() { return {}; }
  /// As stored, before the display rules.
  void append_to(std::string& out) const;
};

/// Tensor mode: what is known of the files of a row beyond its cells.
struct TensorFacts {
  std::string skipped;               ///< short kind of the reason why there are no metrics; empty if there are
  std::vector<std::uint64_t> shape;  ///< of the target, if it could be read
  std::uint64_t elements = 0;        ///< of the target
  std::uint64_t bytes = 0;           ///< of the elements compared, both sides
  TensorMetrics metrics;
};

/// One row: a target item with its counterpart, if any.
struct Row {
  std::uint32_t target_item = 0;        ///< index in Graph::items of the target whose names and statistics the row has
  std::uint32_t golden_item = no_node;  ///< no_node: target-only row
  std::uint32_t target_fact = 0;        ///< item whose dtype, shape and md5 the row has (comparison rules, 5.2)
  std::uint32_t golden_fact = no_node;
  std::vector<Cell> cells;  ///< metrics in the order of the mode; empty for md5
  bool requires_grad_consistent = false;
  Level level = Level::pass;
  std::vector<std::string> messages;
  std::string info;                           ///< tensor mode: why there are no metrics, or what to know of them; becomes a message
  std::shared_ptr<const TensorFacts> tensor;  ///< tensor mode, once the files were looked at
};

/// Rows of one target node; row k belongs to target item rows[k].target_item.
struct NodeRows {
  std::uint32_t node = 0;
  std::vector<Row> rows;
};

/// Result of one pair of graphs. Links and precision indices stand in the graphs themselves.
struct Comparison {
  CompareMode mode = CompareMode::summary;
  std::vector<NodeRows> rows;  ///< matched nodes with items, breadth-first order of the target
  std::uint64_t golden_only_items = 0;
};

/// Places of single metrics among the cells of a row, see metric_keys.
inline constexpr std::size_t norm_relative_cell = 7;   ///< CompareMode::summary
inline constexpr std::size_t cosine_cell = 0;          ///< CompareMode::tensor
inline constexpr std::size_t one_thousandth_cell = 4;  ///< CompareMode::tensor

/// Names of the metric keys of a mode, in order (without the trailing Requires_grad Consistent, Result, Err_message).
std::vector<std::string_view> metric_keys(CompareMode mode);

}  // namespace msvis
