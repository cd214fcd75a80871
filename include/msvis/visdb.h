// The result file: rows as the viewer wants them, and the one writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msvis/compare.h"
#include "msvis/graph.h"
#include "msvis/links.h"

namespace msvis {

/// One row of tb_nodes. id, graph_id and data_source follow from side, step, rank and name; `modified` is 0.
struct NodeRow {
  std::uint32_t node_order = 0;
  std::string name;
  NodeType type = NodeType::module;
  std::string up_node;
  std::string sub_nodes;
  Precision precision = Precision::none;
  Overflow overflow = Overflow::none;
  std::int64_t micro_step = 0;
  std::string matched_node_link = "[]";
  std::uint32_t stack = 0;  ///< number of the stack within the graph
  std::string parallel_merge_info;
  std::string matched_distributed = "{}";
  std::string input_data = "{}";
  std::string output_data = "{}";
};

/// One row of msvis_tensor: what the comparison of two tensor files told beyond the viewer's metrics.
struct TensorRow {
  std::string node;
  std::string parameter;             ///< key in input_data or output_data
  std::string skipped;               ///< kind of the reason why there are no metrics; empty if there are
  std::string reason;                ///< in words; may be empty
  std::vector<std::uint64_t> shape;  ///< of the target, if it could be read
  std::uint64_t elements = 0;
  TensorMetrics metrics;  ///< of which the extras are stored
};

/// Rows of (a piece of) one graph. Pieces of a graph may come in any number; `stacks` of a piece have numbers from `first_stack`.
struct RowBatch {
  Side side = Side::target;
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::optional<std::string> dump_data_dir;
  std::uint32_t first_stack = 0;
  std::vector<std::string> stacks;
  std::vector<NodeRow> nodes;
  std::vector<TensorRow> tensors;  ///< target side in tensor mode
};

/// Flat bytes for the way between processes; unpack throws Error (internal) on anything that pack did not write.
std::string pack(const RowBatch& batch);
RowBatch unpack_row_batch(std::string_view bytes);

/// The one row of tb_config.
struct RunConfig {
  bool compare = false;
  CompareMode mode = CompareMode::summary;  ///< of the lowest (step, rank); unused in a build
  std::int64_t micro_steps = 1;             ///< maximum over all graphs
  bool overflow_check = false;
  std::vector<std::int64_t> ranks;  ///< with rows, ascending
  std::vector<std::int64_t> steps;
};

/// One row of msvis_item: what became of a (step, rank).
struct ItemRecord {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::string status;  ///< done, failed
  double seconds = 0;
  std::uint64_t target_nodes = 0;
  std::uint64_t golden_nodes = 0;
  std::uint64_t matched_nodes = 0;
  std::uint64_t compared_parameters = 0;
  std::string error;  ///< one line; empty if done
};

/// Key and value pairs of msvis_run: version, command line, options, times.
using RunRecord = std::vector<std::pair<std::string, std::string>>;

/// Writes `<directory>/<build|compare>_<timestamp>.vis.db` through a partial file whose name does not end in .vis.db.
/// One thread at a time. All functions throw Error (io, path) naming the file.
class VisDbWriter {
 public:
  /// Opens the partial file with a time stamp that no file in the directory has yet. The directory must exist.
  VisDbWriter(const std::filesystem::path& directory, bool compare);
  /// Removes the partial file unless finish() was reached.
  ~VisDbWriter();
  VisDbWriter(const VisDbWriter&) = delete;
  VisDbWriter& operator=(const VisDbWriter&) = delete;

  void add(const RowBatch& batch);
  /// Takes back all rows of one (step, rank), for an item that failed half way.
  void remove(std::int64_t step, std::int64_t rank);
  /// Sets matched_distributed of one node.
  void set_link(const Link& link);
  /// Writes configuration and run tables, builds the indexes, syncs and renames. Returns the final path.
  std::filesystem::path finish(const RunConfig& config, const std::vector<ItemRecord>& items, const RunRecord& run);

  [[nodiscard]] const std::filesystem::path& partial_path() const;
  /// Rows of tb_nodes so far.
  [[nodiscard]] std::uint64_t rows() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Which rows of a graph are encoded, where several processes share the work on one.
struct EncodeSelection {
  const std::vector<bool>* nodes = nullptr;  ///< by node; null: all
  bool stacks = true;                        ///< the rows of tb_stack as well
};

/// Encodes a graph into batches of bounded size (about `batch_bytes` each) given to `sink` in order; rows are sorted by
/// name within the graph so that the primary key's tree grows at its end. `comparison` is null in a build and for the golden side.
/// `other` is the matched graph, null in a build. `mode` is empty in a build. Items without statistics collapse to a null value; in md5
/// mode those that have a checksum keep their members, except with Compat::reference.
void encode_graph(const Graph& graph, const Graph* other, const Comparison* comparison, std::optional<CompareMode> mode, Side side,
                  std::int64_t step, std::int64_t rank, std::size_t batch_bytes, const std::function<void(RowBatch&&)>& sink,
                  Compat compat = Compat::standard, const EncodeSelection& selection = {});

}  // namespace msvis
