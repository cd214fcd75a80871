#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <string>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "msvis/error.h"
#include "msvis/visdb.h"
#include "visdb/config_text.h"
#include "visdb/json_text.h"
#include "visdb/partial_file.h"
#include "visdb/sqlite.h"

namespace msvis {
namespace {

using Clock = std::chrono::steady_clock;

// What a crash of the program or of the machine may cost: the items that were finished in this time.
constexpr std::chrono::milliseconds longest_without_commit{2000};
constexpr std::chrono::milliseconds shortest_between_commits{50};
// A commit waits for the disk. At most a tenth of the time goes there.
constexpr int share_of_commits = 10;

constexpr const char* settings =
    "PRAGMA page_size = 4096;"
    "PRAGMA encoding = 'UTF-8';"
    "PRAGMA auto_vacuum = NONE;"
    "PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA journal_mode = TRUNCATE;"
    "PRAGMA synchronous = FULL;"
    "PRAGMA secure_delete = OFF;"
    "PRAGMA temp_store = FILE;"
    // Rows come in the order of the tree, so that little is read again; an index is sorted in pieces of this size. Pages of the file are
    // not mapped: that would halve the time of the scans, but count as memory of the process, as much as the file is large.
    "PRAGMA cache_size = -16384;";

constexpr const char* schema = R"(
CREATE TABLE IF NOT EXISTS tb_nodes (
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
CREATE TABLE IF NOT EXISTS tb_stack (
    id TEXT PRIMARY KEY,
    stack_info TEXT
);
CREATE TABLE IF NOT EXISTS tb_config (
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
CREATE TABLE IF NOT EXISTS msvis_run (
    key TEXT PRIMARY KEY,
    value TEXT
);
CREATE TABLE IF NOT EXISTS msvis_item (
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
CREATE TABLE IF NOT EXISTS msvis_resume_value (
    key TEXT PRIMARY KEY,
    value BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS msvis_resume_item (
    step INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    done INTEGER NOT NULL,
    result BLOB NOT NULL,
    PRIMARY KEY (step, rank)
);
CREATE TABLE IF NOT EXISTS msvis_resume_link (
    step INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    records BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS msvis_resume_count (
    side INTEGER NOT NULL,
    step INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    group_id BLOB NOT NULL,
    api BLOB NOT NULL,
    group_ranks BLOB NOT NULL,
    count INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS msvis_tensor (
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

constexpr const char* drop_resume_tables =
    "DROP TABLE msvis_resume_value; DROP TABLE msvis_resume_item; DROP TABLE msvis_resume_link; DROP TABLE msvis_resume_count;";

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

}  // namespace

struct VisDbWriter::Impl {
  Impl(const std::filesystem::path& directory, bool compare)
      : file(directory, prefix_of(compare), std::time(nullptr)), database(open(true)) {
    database->run(schema);
    prepare();
  }

  explicit Impl(const std::filesystem::path& partial) : file(partial), database(open(false)) {
    try {
      database->run(schema);  // the run may have ended before it wrote anything
      prepare();
    } catch (const Error& error) {
      throw Error(ErrorCategory::format, damaged_text(error), partial);
    }
    rows = count_of("tb_nodes");
    ended_items = durable_items = count_of("msvis_resume_item WHERE done");
  }

  void prepare() {
    node.emplace(*database, insert_node);
    stack.emplace(*database, "INSERT INTO tb_stack VALUES (?1, ?2)");
    link.emplace(*database, "UPDATE tb_nodes SET matched_distributed = ?2 WHERE id = ?1");
    link_records.emplace(*database, "INSERT INTO msvis_resume_link VALUES (?1, ?2, ?3)");
    item_state.emplace(*database, "INSERT OR REPLACE INTO msvis_resume_item VALUES (?1, ?2, ?3, ?4)");
    tensor.emplace(
        *database,
        "INSERT INTO msvis_tensor VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)");
    database->run("BEGIN");
  }

  std::unique_ptr<sqlite::Database> open(bool created) {
    for (const char* file_system : {"unix", "unix-none"}) {
      auto opened = std::make_unique<sqlite::Database>(file.directory_prefix(), file.name(), file.path(), file_system);
      try {
        opened->run(settings);
        opened->run("BEGIN EXCLUSIVE; COMMIT");
        return opened;
      } catch (const Error& error) {
        const int code = opened->last_code();
        if (!created && sqlite::is_busy(code)) {
          throw Error(ErrorCategory::path, "another run has the unfinished result open", file.path());
        }
        if (!created && !sqlite::is_lock_failure(code)) {
          throw Error(ErrorCategory::format, damaged_text(error), file.path());
        }
        // A parallel file system mounted without locks. A file that was created exclusively is ours: go on without them.
        if (!sqlite::is_lock_failure(code) || std::string_view(file_system) == "unix-none") {
          throw;
        }
      }
    }
    throw Error(ErrorCategory::internal, "unreachable");
  }

  std::uint64_t count_of(const std::string& table) {
    sqlite::Statement count(*database, "SELECT count(*) FROM " + table);
    std::uint64_t number = 0;
    while (count.next()) {
      number = static_cast<std::uint64_t>(count.number(0));
    }
    return number;
  }

  static std::string damaged_text(const Error& error) {
    return "is no unfinished result of this program, or damaged (" + error.message() + "); delete it";
  }

  static const char* prefix_of(bool compare) { return compare ? "compare_" : "build_"; }

  void commit() {
    const auto begin = Clock::now();
    database->run("COMMIT; BEGIN");
    last_commit = Clock::now();
    cost_of_commit = last_commit - begin;
    uncommitted = false;
    durable_items = ended_items;
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
  }

  void insert(const TensorRow& row, std::int64_t step, std::int64_t rank);
  void write_last_tables(const RunConfig& config, const std::vector<ItemRecord>& items, const RunRecord& run);
  void set_item(std::int64_t step, std::int64_t rank, bool done, std::string_view result);

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
  std::optional<sqlite::Statement> link_records;
  std::optional<sqlite::Statement> item_state;
  std::uint64_t rows = 0;
  bool uncommitted = true;
  std::size_t ended_items = 0;
  std::size_t durable_items = 0;
  Clock::time_point last_commit = Clock::now();
  Clock::duration cost_of_commit{};
  // Buffers of add().
  std::string graph_id;
  std::string id;
  std::string stack_id;
  std::string parent_name;
};

VisDbWriter::VisDbWriter(const std::filesystem::path& directory, bool compare) : impl_(std::make_unique<Impl>(directory, compare)) {}

VisDbWriter::VisDbWriter(const std::filesystem::path& partial) : impl_(std::make_unique<Impl>(partial)) {}

std::vector<std::filesystem::path> VisDbWriter::partial_files(const std::filesystem::path& directory, bool compare) {
  return PartialFile::find(directory, Impl::prefix_of(compare));
}

VisDbWriter::~VisDbWriter() = default;

const std::filesystem::path& VisDbWriter::partial_path() const {
  return impl_->file.path();
}

std::uint64_t VisDbWriter::rows() const {
  return impl_->rows;
}

void VisDbWriter::add(const RowBatch& batch) {
  Impl& impl = *impl_;
  impl.uncommitted = true;
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
  for (const std::string_view table : {"msvis_tensor", "msvis_resume_link", "msvis_resume_count", "msvis_resume_item"}) {
    sqlite::Statement statement(*impl.database, "DELETE FROM " + std::string(table) + " WHERE step = ?1 AND rank = ?2");
    statement.bind(1, step);
    statement.bind(2, rank);
    statement.run();
  }
  impl.uncommitted = true;
}

void VisDbWriter::Impl::set_item(std::int64_t step, std::int64_t rank, bool done, std::string_view result) {
  item_state->bind(1, step);
  item_state->bind(2, rank);
  item_state->bind(3, std::int64_t{done ? 1 : 0});
  item_state->bind_blob(4, result);
  item_state->run();
  uncommitted = true;
}

void VisDbWriter::begin_item(std::int64_t step, std::int64_t rank) {
  impl_->set_item(step, rank, false, {});
}

void VisDbWriter::end_item(std::int64_t step, std::int64_t rank, std::string_view result) {
  impl_->set_item(step, rank, true, result);
  ++impl_->ended_items;
}

void VisDbWriter::for_each_item(const std::function<void(SavedItem&&)>& use) {
  sqlite::Statement row(*impl_->database, "SELECT step, rank, done, result FROM msvis_resume_item ORDER BY step, rank");
  while (row.next()) {
    use({row.number(0), row.number(1), row.number(2) != 0, std::string(row.text(3))});
  }
}

void VisDbWriter::add_link_records(std::int64_t step, std::int64_t rank, std::string_view records) {
  Impl& impl = *impl_;
  impl.link_records->bind(1, step);
  impl.link_records->bind(2, rank);
  impl.link_records->bind_blob(3, records);
  impl.link_records->run();
  impl.uncommitted = true;
}

std::uint64_t VisDbWriter::link_record_bytes() {
  sqlite::Statement row(*impl_->database, "SELECT total(length(records)) FROM msvis_resume_link");
  std::uint64_t bytes = 0;
  while (row.next()) {
    bytes = static_cast<std::uint64_t>(row.number(0));
  }
  return bytes;
}

void VisDbWriter::for_each_link_records(const std::function<void(std::string_view records)>& use) {
  sqlite::Statement row(*impl_->database, "SELECT records FROM msvis_resume_link ORDER BY rowid");
  while (row.next()) {
    use(row.text(0));
  }
}

void VisDbWriter::add_group_counts(const std::vector<GroupCount>& counts) {
  sqlite::Statement row(*impl_->database, "INSERT INTO msvis_resume_count VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  for (const GroupCount& count : counts) {
    ByteWriter ranks;
    ranks.put_all(count.group_ranks);
    row.bind(1, static_cast<std::int64_t>(count.side));
    row.bind(2, count.step);
    row.bind(3, count.rank);
    row.bind_blob(4, count.group_id);
    row.bind_blob(5, count.api);
    row.bind_blob(6, ranks.bytes());
    row.bind(7, static_cast<std::int64_t>(count.count));
    row.run();
  }
  impl_->uncommitted = true;
}

void VisDbWriter::for_each_group(const std::function<void(std::vector<GroupCount>&& counts)>& use) {
  sqlite::Statement row(*impl_->database,
                        "SELECT side, step, rank, group_id, api, group_ranks, count FROM msvis_resume_count "
                        "ORDER BY step, side, group_id, api, rank");
  std::vector<GroupCount> group;
  while (row.next()) {
    GroupCount count;
    count.side = static_cast<Side>(row.number(0));
    count.step = row.number(1);
    count.rank = row.number(2);
    count.group_id = row.text(3);
    count.api = row.text(4);
    count.group_ranks = ByteReader(row.text(5)).get_all([](ByteReader& in) { return in.get<std::int64_t>(); });
    count.count = static_cast<std::uint64_t>(row.number(6));
    const auto key = [](const GroupCount& of) { return std::tie(of.side, of.step, of.group_id, of.api); };
    if (!group.empty() && key(group.front()) != key(count)) {
      use(std::exchange(group, {}));
    }
    group.push_back(std::move(count));
  }
  if (!group.empty()) {
    use(std::move(group));
  }
}

void VisDbWriter::save(std::string_view key, std::string_view value) {
  sqlite::Statement row(*impl_->database, "INSERT OR REPLACE INTO msvis_resume_value VALUES (?1, ?2)");
  row.bind(1, key);
  row.bind_blob(2, value);
  row.run();
  impl_->uncommitted = true;
}

std::optional<std::string> VisDbWriter::saved(std::string_view key) {
  sqlite::Statement row(*impl_->database, "SELECT value FROM msvis_resume_value WHERE key = ?1");
  row.bind(1, key);
  std::optional<std::string> value;
  while (row.next()) {
    value = row.text(0);
  }
  return value;
}

void VisDbWriter::commit() {
  impl_->commit();
}

std::size_t VisDbWriter::durable_items() const {
  return impl_->durable_items;
}

bool VisDbWriter::commit_is_due(bool idle) const {
  const Impl& impl = *impl_;
  const auto since = Clock::now() - impl.last_commit;
  return impl.uncommitted && since >= share_of_commits * impl.cost_of_commit &&
         since >= (idle ? shortest_between_commits : longest_without_commit);
}

void VisDbWriter::interrupt() {
  impl_->database->interrupt();
}

void VisDbWriter::keep(bool keep) {
  impl_->file.keep(keep);
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
}

void VisDbWriter::set_link(const Link& link) {
  std::string id = graph_id_of(link.side, link.step, link.rank) + '_';
  append_valid_utf8(id, link.name);
  const std::string text = link_json(link);
  impl_->link->bind(1, id);
  impl_->link->bind(2, text);
  impl_->link->run();
}

void VisDbWriter::Impl::write_last_tables(const RunConfig& config, const std::vector<ItemRecord>& items, const RunRecord& run) {
  {
    const std::string tool_tip = config.compare ? tool_tip_json(config.mode) : std::string();
    const std::string colors = config.compare ? node_colors_json(config.mode) : "null";
    const std::string ranks = number_list(config.ranks);
    const std::string steps = number_list(config.steps);
    sqlite::Statement row(*database, "INSERT INTO tb_config VALUES ('1', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
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
    sqlite::Statement row(*database, "INSERT OR REPLACE INTO msvis_run VALUES (?1, ?2)");
    std::string key;
    std::string value;
    for (const auto& [name, text] : run) {
      row.bind(1, valid(name, key));
      row.bind(2, valid(text, value));
      row.run();
    }
  }
  {
    sqlite::Statement row(*database, "INSERT OR REPLACE INTO msvis_item VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    std::string status;
    std::string error;
    for (const ItemRecord& item : items) {
      row.bind(1, item.step);
      row.bind(2, item.rank);
      row.bind(3, valid(item.status, status));
      row.bind(4, item.seconds);
      row.bind(5, static_cast<std::int64_t>(item.target_nodes));
      row.bind(6, static_cast<std::int64_t>(item.golden_nodes));
      row.bind(7, static_cast<std::int64_t>(item.matched_nodes));
      row.bind(8, static_cast<std::int64_t>(item.compared_parameters));
      row.bind(9, valid(item.error, error));
      row.run();
    }
  }
}

std::filesystem::path VisDbWriter::finish(const RunConfig& config, const std::vector<ItemRecord>& items, const RunRecord& run) {
  Impl& impl = *impl_;
  sqlite::Database& database = *impl.database;
  impl.node.reset();
  impl.stack.reset();
  impl.link.reset();
  impl.tensor.reset();
  impl.link_records.reset();
  impl.item_state.reset();
  // What follows is one transaction: until the last index is there, the file can be taken up again.
  impl.commit();
  impl.write_last_tables(config, items, run);
  database.run(drop_resume_tables);
  for (const char* index : indexes) {
    database.run(index);
  }
  database.run("COMMIT");
  database.close();
  return impl.file.publish();
}

}  // namespace msvis
