#include <algorithm>
#include <array>
#include <ctime>
#include <string>
#include <utility>

#include "msvis/error.h"
#include "msvis/visdb.h"
#include "visdb/config_text.h"
#include "visdb/json_text.h"
#include "visdb/partial_file.h"
#include "visdb/sqlite.h"

namespace msvis {
namespace {

// Rows go in through one transaction after another: what a crash of the program leaves is then a readable file.
constexpr std::uint64_t bytes_per_transaction = std::uint64_t{256} << 20U;

constexpr const char* settings =
    "PRAGMA page_size = 4096;"
    "PRAGMA encoding = 'UTF-8';"
    "PRAGMA auto_vacuum = NONE;"
    "PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA journal_mode = TRUNCATE;"
    "PRAGMA synchronous = OFF;"  // the file gets its final name only after a sync of its own
    "PRAGMA secure_delete = OFF;"
    "PRAGMA temp_store = FILE;"
    "PRAGMA cache_size = -65536;";

// Each index is one scan of the whole table. Mapped pages (SQLite maps up to 2 GB) halve its cost: 0.9 s to 0.45 s of processor time for
// 85,632 rows.
constexpr const char* settings_for_indexes = "PRAGMA mmap_size = 2147418112;";

constexpr const char* schema = R"(
CREATE TABLE tb_nodes (
    id TEXT PRIMARY KEY,
    graph_id TEXT NOT NULL,
    node_order INTEGER NOT NULL,
    node_name TEXT NOT NULL,
    node_type TEXT NOT NULL,
    up_node TEXT,
    sub_nodes TEXT,
    precision_index INTEGER,
    overflow_level TEXT,
    micro_step_id INTEGER NOT NULL,
    matched_node_link TEXT,
    stack_id TEXT,
    parallel_merge_info TEXT,
    matched_distributed TEXT,
    modified INTEGER NOT NULL,
    input_data TEXT,
    output_data TEXT,
    data_source TEXT,
    dump_data_dir TEXT,
    step INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    is_distributed INTEGER
);
CREATE TABLE tb_stack (
    id TEXT PRIMARY KEY,
    stack_info TEXT
);
CREATE TABLE tb_config (
    id TEXT PRIMARY KEY,
    graph_type TEXT NOT NULL,
    task TEXT,
    tool_tip TEXT,
    micro_steps INTEGER,
    overflow_check INTEGER,
    node_colors TEXT NOT NULL,
    rank_list TEXT NOT NULL,
    step_list TEXT NOT NULL
);
CREATE TABLE msvis_run (
    key TEXT PRIMARY KEY,
    value TEXT
);
CREATE TABLE msvis_item (
    step INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    status TEXT NOT NULL,
    seconds REAL NOT NULL,
    target_nodes INTEGER NOT NULL,
    golden_nodes INTEGER NOT NULL,
    matched_nodes INTEGER NOT NULL,
    compared_parameters INTEGER NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (step, rank)
);
CREATE TABLE msvis_tensor (
    step INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    node_name TEXT NOT NULL,
    parameter TEXT NOT NULL,
    skipped TEXT NOT NULL,
    reason TEXT NOT NULL,
    elements INTEGER NOT NULL,
    bit_identical INTEGER NOT NULL,
    worst_at TEXT,
    worst_part TEXT,
    worst_target REAL,
    worst_golden REAL,
    target_nan INTEGER NOT NULL,
    target_positive_infinity INTEGER NOT NULL,
    target_negative_infinity INTEGER NOT NULL,
    target_zero INTEGER NOT NULL,
    golden_nan INTEGER NOT NULL,
    golden_positive_infinity INTEGER NOT NULL,
    golden_negative_infinity INTEGER NOT NULL,
    golden_zero INTEGER NOT NULL
);
)";

constexpr std::array<const char*, 7> indexes{
    "CREATE INDEX index1 ON tb_nodes (step, rank, data_source, up_node, node_order)",
    "CREATE INDEX index2 ON tb_nodes (step, rank, data_source, node_name)",
    "CREATE INDEX index3 ON tb_nodes (step, rank, data_source, node_order)",
    "CREATE INDEX index4 ON tb_nodes (step, rank, node_order)",
    "CREATE INDEX index5 ON tb_nodes (step, rank, micro_step_id, node_order)",
    "CREATE INDEX index6 ON tb_nodes (step, rank, modified, matched_node_link)",
    "CREATE INDEX index7 ON tb_nodes (is_distributed)",
};

constexpr std::string_view insert_node =
    "INSERT INTO tb_nodes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 0, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";

std::string_view source_text(Side side) {
  return side == Side::target ? "NPU" : "Bench";
}

std::string graph_id_of(Side side, std::int64_t step, std::int64_t rank) {
  std::string id(source_text(side));
  id += '_';
  id += std::to_string(step);
  id += '_';
  id += std::to_string(rank);
  return id;
}

std::string_view type_text(NodeType type) {
  switch (type) {
    case NodeType::module:
      return "0";
    case NodeType::function_api:
      return "1";
    case NodeType::api_collection:
      break;
  }
  return "9";
}

std::string number_list(const std::vector<std::int64_t>& numbers) {
  std::string text = "[";
  for (const std::int64_t number : numbers) {
    if (text.size() > 1) {
      text += ", ";
    }
    text += std::to_string(number);
  }
  return text + "]";
}

/// Coordinate of an element by its place in row-major order: `[2, 0, 5]`.
std::string coordinate_text(std::uint64_t index, const std::vector<std::uint64_t>& shape) {
  std::vector<std::int64_t> coordinate(shape.size());
  for (std::size_t left = shape.size(); left > 0; --left) {
    const std::uint64_t size = std::max<std::uint64_t>(shape[left - 1], 1);
    coordinate[left - 1] = static_cast<std::int64_t>(index % size);
    index /= size;
  }
  return number_list(coordinate);
}

std::uint64_t size_of(const NodeRow& row) {
  return row.name.size() + row.sub_nodes.size() + row.matched_node_link.size() + row.input_data.size() + row.output_data.size();
}

}  // namespace

struct VisDbWriter::Impl {
  Impl(const std::filesystem::path& directory, bool compare)
      : file(directory, compare ? "compare_" : "build_", std::time(nullptr)), database(open()) {
    database->run(schema);
    node.emplace(*database, insert_node);
    stack.emplace(*database, "INSERT INTO tb_stack VALUES (?1, ?2)");
    link.emplace(*database, "UPDATE tb_nodes SET matched_distributed = ?2 WHERE id = ?1");
    tensor.emplace(
        *database,
        "INSERT INTO msvis_tensor VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)");
    database->run("BEGIN");
  }

  std::unique_ptr<sqlite::Database> open() {
    for (const char* file_system : {"unix", "unix-none"}) {
      auto opened = std::make_unique<sqlite::Database>(file.directory_prefix(), file.name(), file.path(), file_system);
      try {
        opened->run(settings);
        opened->run("BEGIN EXCLUSIVE; COMMIT");
        return opened;
      } catch (const Error&) {
        // A parallel file system mounted without locks. The file was created exclusively and is ours: go on without them.
        if (!sqlite::is_lock_failure(opened->last_code()) || std::string_view(file_system) == "unix-none") {
          throw;
        }
      }
    }
    throw Error(ErrorCategory::internal, "unreachable");
  }

  void note_bytes(std::uint64_t bytes) {
    uncommitted += bytes;
    if (uncommitted >= bytes_per_transaction) {
      uncommitted = 0;
      database->run("COMMIT; BEGIN");
    }
  }

  /// Values of the graph (2, 17 to 20) are bound already.
  void insert(const NodeRow& row) {
    id.resize(graph_id.size());
    id += '_';
    append_valid_utf8(id, row.name);
    const std::string_view name = std::string_view(id).substr(graph_id.size() + 1);
    stack_id.resize(graph_id.size() + 1);
    stack_id += std::to_string(row.stack);

    node->bind(1, id);
    node->bind(3, std::int64_t{row.node_order});
    node->bind(4, name);
    node->bind(5, type_text(row.type));
    node->bind(6, valid(row.up_node, parent_name));
    node->bind(7, row.sub_nodes);
    switch (row.precision) {
      case Precision::none:
        node->bind_null(8);
        break;
      case Precision::pass:
        node->bind(8, std::int64_t{0});
        break;
      case Precision::warning:
        node->bind(8, 0.5);
        break;
      case Precision::error:
        node->bind(8, std::int64_t{1});
        break;
    }
    if (row.overflow == Overflow::none) {
      node->bind_null(9);
    } else {
      node->bind(9, overflow_text(row.overflow));
    }
    node->bind(10, row.micro_step);
    node->bind(11, row.matched_node_link);
    node->bind(12, stack_id);
    node->bind(13, row.parallel_merge_info);
    node->bind(14, row.matched_distributed);
    node->bind(15, row.input_data);
    node->bind(16, row.output_data);
    node->bind(21, std::int64_t{name.starts_with("Distributed") ? 1 : 0});
    node->run();
    ++rows;
    note_bytes(size_of(row));
  }

  void insert(const TensorRow& row, std::int64_t step, std::int64_t rank);

  static std::string_view valid(const std::string& text, std::string& buffer) {
    if (is_valid_utf8(text)) {
      return text;
    }
    buffer.clear();
    append_valid_utf8(buffer, text);
    return buffer;
  }

  PartialFile file;
  std::unique_ptr<sqlite::Database> database;
  std::optional<sqlite::Statement> node;
  std::optional<sqlite::Statement> stack;
  std::optional<sqlite::Statement> link;
  std::optional<sqlite::Statement> tensor;
  std::uint64_t rows = 0;
  std::uint64_t uncommitted = 0;
  // Buffers of add().
  std::string graph_id;
  std::string id;
  std::string stack_id;
  std::string parent_name;
};

VisDbWriter::VisDbWriter(const std::filesystem::path& directory, bool compare) : impl_(std::make_unique<Impl>(directory, compare)) {}

VisDbWriter::~VisDbWriter() = default;

const std::filesystem::path& VisDbWriter::partial_path() const {
  return impl_->file.path();
}

std::uint64_t VisDbWriter::rows() const {
  return impl_->rows;
}

void VisDbWriter::add(const RowBatch& batch) {
  Impl& impl = *impl_;
  impl.graph_id = graph_id_of(batch.side, batch.step, batch.rank);
  impl.id = impl.graph_id;
  impl.stack_id = impl.graph_id + '_';
  std::string directory;
  impl.node->bind(2, impl.graph_id);
  impl.node->bind(17, source_text(batch.side));
  if (batch.dump_data_dir) {
    impl.node->bind(18, Impl::valid(*batch.dump_data_dir, directory));
  } else {
    impl.node->bind_null(18);
  }
  impl.node->bind(19, batch.step);
  impl.node->bind(20, batch.rank);
  std::uint32_t number = batch.first_stack;
  for (const std::string& text : batch.stacks) {
    impl.stack_id.resize(impl.graph_id.size() + 1);
    impl.stack_id += std::to_string(number++);
    impl.stack->bind(1, impl.stack_id);
    impl.stack->bind(2, text);
    impl.stack->run();
    impl.note_bytes(text.size());
  }
  for (const NodeRow& row : batch.nodes) {
    impl.insert(row);
  }
  for (const TensorRow& row : batch.tensors) {
    impl.insert(row, batch.step, batch.rank);
  }
}

void VisDbWriter::remove(std::int64_t step, std::int64_t rank) {
  Impl& impl = *impl_;
  for (const Side side : {Side::target, Side::golden}) {
    // All ids that begin with "<graph id>_", by the index of the primary key.
    const std::string begin = graph_id_of(side, step, rank) + '_';
    std::string end = begin;
    ++end.back();
    for (const std::string_view sql :
         {"DELETE FROM tb_nodes WHERE id >= ?1 AND id < ?2", "DELETE FROM tb_stack WHERE id >= ?1 AND id < ?2"}) {
      sqlite::Statement statement(*impl.database, sql);
      statement.bind(1, begin);
      statement.bind(2, end);
      statement.run();
      if (sql.find("tb_nodes") != std::string_view::npos) {
        impl.rows -= impl.database->changes();
      }
    }
  }
  sqlite::Statement statement(*impl.database, "DELETE FROM msvis_tensor WHERE step = ?1 AND rank = ?2");
  statement.bind(1, step);
  statement.bind(2, rank);
  statement.run();
}

void VisDbWriter::Impl::insert(const TensorRow& row, std::int64_t step, std::int64_t rank) {
  const TensorMetrics& metrics = row.metrics;
  const std::optional<WorstElement>& worst = metrics.worst;
  const std::string at = worst ? coordinate_text(worst->index, row.shape) : std::string();
  tensor->bind(1, step);
  tensor->bind(2, rank);
  tensor->bind(3, row.node);
  tensor->bind(4, row.parameter);
  tensor->bind(5, row.skipped);
  tensor->bind(6, row.reason);
  tensor->bind(7, static_cast<std::int64_t>(row.elements));
  tensor->bind(8, std::int64_t{metrics.bit_identical ? 1 : 0});
  if (worst) {
    tensor->bind(9, at);
    tensor->bind(10, worst->imaginary ? "imaginary" : "real");
    tensor->bind(11, worst->target);
    tensor->bind(12, worst->golden);
  } else {
    for (int column = 9; column <= 12; ++column) {
      tensor->bind_null(column);
    }
  }
  int column = 13;
  for (const ValueCounts* counts : {&metrics.target_values, &metrics.golden_values}) {
    for (const std::uint64_t count : {counts->nan, counts->positive_infinity, counts->negative_infinity, counts->zero}) {
      tensor->bind(column++, static_cast<std::int64_t>(count));
    }
  }
  tensor->run();
  note_bytes(row.node.size() + row.parameter.size() + row.reason.size() + 64);
}

void VisDbWriter::set_link(const Link& link) {
  std::string id = graph_id_of(link.side, link.step, link.rank) + '_';
  append_valid_utf8(id, link.name);
  const std::string text = link_json(link);
  impl_->link->bind(1, id);
  impl_->link->bind(2, text);
  impl_->link->run();
}

std::filesystem::path VisDbWriter::finish(const RunConfig& config, const std::vector<ItemRecord>& items, const RunRecord& run) {
  Impl& impl = *impl_;
  sqlite::Database& database = *impl.database;
  {
    const std::string tool_tip = config.compare ? tool_tip_json(config.mode) : std::string();
    const std::string colors = config.compare ? node_colors_json(config.mode) : "null";
    const std::string ranks = number_list(config.ranks);
    const std::string steps = number_list(config.steps);
    sqlite::Statement row(database, "INSERT INTO tb_config VALUES ('1', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    row.bind(1, config.compare ? "compare" : "build");
    row.bind(2, config.compare ? task_text(config.mode) : "");
    if (config.compare) {
      row.bind(3, tool_tip);
    } else {
      row.bind_null(3);
    }
    row.bind(4, config.micro_steps);
    row.bind(5, std::int64_t{config.overflow_check ? 1 : 0});
    row.bind(6, colors);
    row.bind(7, ranks);
    row.bind(8, steps);
    row.run();
  }
  {
    sqlite::Statement row(database, "INSERT OR REPLACE INTO msvis_run VALUES (?1, ?2)");
    std::string key;
    std::string value;
    for (const auto& [name, text] : run) {
      row.bind(1, Impl::valid(name, key));
      row.bind(2, Impl::valid(text, value));
      row.run();
    }
  }
  {
    sqlite::Statement row(database, "INSERT OR REPLACE INTO msvis_item VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    std::string status;
    std::string error;
    for (const ItemRecord& item : items) {
      row.bind(1, item.step);
      row.bind(2, item.rank);
      row.bind(3, Impl::valid(item.status, status));
      row.bind(4, item.seconds);
      row.bind(5, static_cast<std::int64_t>(item.target_nodes));
      row.bind(6, static_cast<std::int64_t>(item.golden_nodes));
      row.bind(7, static_cast<std::int64_t>(item.matched_nodes));
      row.bind(8, static_cast<std::int64_t>(item.compared_parameters));
      row.bind(9, Impl::valid(item.error, error));
      row.run();
    }
  }
  impl.node.reset();
  impl.stack.reset();
  impl.link.reset();
  impl.tensor.reset();
  database.run("COMMIT");
  database.run(settings_for_indexes);
  for (const char* index : indexes) {
    database.run(index);
  }
  database.close();
  return impl.file.publish();
}

}  // namespace msvis
