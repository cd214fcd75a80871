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

/// A (step, rank) in the partial file.
struct SavedItem {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  bool done = false;   ///< else it was in work, or failed, when the file was last committed
  std::string result;  ///< as given to end_item(); empty unless done
};

/// Writes `<directory>/<build|compare>_<timestamp>.vis.db` through a partial file whose name does not end in .vis.db. What has been
/// committed survives the end of the program, the partial file can then be opened again. It has a rollback journal and is locked
/// exclusively as long as it is open. What is needed only until the end (items in work, results of items, link records, counts) is kept in
/// tables of its own, which the finished file does not have.
/// One thread at a time (interrupt() aside). All functions throw Error (io, path) naming the file.
class VisDbWriter {
 public:
  /// Opens the partial file with a time stamp that no file in the directory has yet. The directory must exist.
  VisDbWriter(const std::filesystem::path& directory, bool compare);
  /// Opens a partial file that an earlier run left, and takes back what was not committed. Throws Error (path) if another run has it open,
  /// Error (format) if it is none of this program.
  explicit VisDbWriter(const std::filesystem::path& partial);
  /// The partial files in a directory, newest first; a directory that can't be read has none.
  static std::vector<std::filesystem::path> partial_files(const std::filesystem::path& directory, bool compare);
  /// Removes the partial file unless finish() was reached or keep(true) was called.
  ~VisDbWriter();
  VisDbWriter(const VisDbWriter&) = delete;
  VisDbWriter& operator=(const VisDbWriter&) = delete;

  void add(const RowBatch& batch);
  /// Takes back all rows, link records and counts of one (step, rank), for an item that failed half way or was lost in work.
  void remove(std::int64_t step, std::int64_t rank);
  /// Notes that an item is in work; before its first row.
  void begin_item(std::int64_t step, std::int64_t rank);
  /// Notes that all rows of an item are there; `result` is opaque here.
  void end_item(std::int64_t step, std::int64_t rank, std::string_view result);
  /// All items that were begun, ascending by (step, rank).
  void for_each_item(const std::function<void(SavedItem&&)>& use);

  /// Packed link records of a (step, rank); opaque here. A later call adds.
  void add_link_records(std::int64_t step, std::int64_t rank, std::string_view records);
  [[nodiscard]] std::uint64_t link_record_bytes();
  void for_each_link_records(const std::function<void(std::string_view records)>& use);
  void add_group_counts(const std::vector<GroupCount>& counts);
  /// The counts of one (step, side, group_id, api) after the other, in this order, each by rank.
  void for_each_group(const std::function<void(std::vector<GroupCount>&& counts)>& use);

  /// Texts that a later run needs to know (what it must agree with, ...).
  void save(std::string_view key, std::string_view value);
  [[nodiscard]] std::optional<std::string> saved(std::string_view key);

  /// Makes durable what was written so far.
  void commit();
  /// Number of finished items that are durable.
  [[nodiscard]] std::size_t durable_items() const;
  /// Whether it is time for it: in a pause (`idle`) soon, else every few seconds, and never so often that it costs more than a tenth.
  [[nodiscard]] bool commit_is_due(bool idle) const;
  /// From any thread: a finish() that is going on throws soon; the file stays as it was committed last.
  void interrupt();
  /// Whether the partial file stays when the writer ends. So it does if it was there before, else not.
  void keep(bool keep);
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
