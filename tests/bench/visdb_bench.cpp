// Rows per second of the result writer, indexes included, against plain SQLite with the same rows and indexes.
//
//   visdb_bench [--rows N] [--rounds N] [--directory DIR] [--settings "PRAGMA ...;"] [--setting-name NAME]
//
// Each round writes the same rows with VisDbWriter and with plain SQLite (its default settings, or those given), in turns, so that the
// ratio is taken within one run. Times are the best of the rounds.
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "msvis/visdb.h"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string item_json(const std::string& key, std::size_t seed, bool compared) {
  const std::string number = std::to_string(static_cast<double>(seed % 9973) / 31.7);
  std::string text = "\"" + key + R"(": {"type": "torch.Tensor", "dtype": "torch.float32", "shape": "[2, 4, 32]", "Max": ")" + number +
                     R"(", "Min": "-)" + number +
                     R"(", "Mean": "-0.05711210519075394", "Norm": "9.346435546875", "requires_grad": "True", "data_name": "-1")";
  if (compared) {
    text +=
        R"(, "Max diff": "-0.01161503791809082", "Min diff": "0.018383026123046875", "Mean diff": "-0.003344595432281494", "L2norm diff": )"
        R"("-0.0053424835205078125", "MaxRelativeErr": "0.855911%", "MinRelativeErr": "1.228938%", "MeanRelativeErr": "6.220477%", )"
        R"("NormRelativeErr": "0.057128%", "Requires_grad Consistent": "True", "Result": "pass", "Err_message": "[]")";
  }
  return text + "}";
}

/// Modules of 30 APIs below one root; about 2 kB a row.
std::vector<msvis::RowBatch> make_graph(msvis::Side side, int rank, std::size_t nodes) {
  constexpr std::size_t fan = 30;
  std::vector<msvis::NodeRow> rows;
  std::string root_children = "[";
  std::string children;
  std::string parent;
  const bool target = side == msvis::Side::target;
  for (std::size_t at = 0; at + 1 < nodes; ++at) {
    msvis::NodeRow row;
    row.node_order = static_cast<std::uint32_t>(at);
    const bool module = at % (fan + 1) == fan || at + 2 == nodes;
    parent = "Module.model.layers." + std::to_string(at / (fan + 1)) + ".ParallelTransformerLayer.forward.0";
    if (module) {
      row.name = parent;
      row.up_node = "DefaultModel";
      row.sub_nodes = children.empty() ? "" : children + "]";
      children.clear();
      root_children += (root_children.size() > 1 ? ", \"" : "\"") + row.name + "\"";
      row.matched_node_link = "[\"DefaultModel\", \"" + row.name + "\"]";
    } else {
      row.name = "Functional.scaled_dot_product." + std::to_string(at) + ".forward";
      row.up_node = parent;
      row.type = msvis::NodeType::function_api;
      children += (children.empty() ? "[\"" : ", \"") + row.name + "\"";
      row.matched_node_link = "[\"DefaultModel\", \"" + parent + "\", \"" + row.name + "\"]";
    }
    if (target) {
      row.precision = at % 50 == 0 ? msvis::Precision::error : msvis::Precision::pass;
    }
    row.stack = static_cast<std::uint32_t>(at % 200);
    row.input_data = "{" + item_json(row.name + ".input.0", at, target) + ", " + item_json(row.name + ".input.1", at * 7, target) + "}";
    row.output_data = "{" + item_json(row.name + ".output.0", at * 3, target) + "}";
    rows.push_back(std::move(row));
  }
  msvis::NodeRow root;
  root.name = "DefaultModel";
  root.node_order = static_cast<std::uint32_t>(nodes - 1);
  root.sub_nodes = root_children + "]";
  root.matched_node_link = "[\"DefaultModel\"]";
  rows.push_back(std::move(root));
  std::sort(rows.begin(), rows.end(), [](const auto& left, const auto& right) { return left.name < right.name; });

  std::vector<msvis::RowBatch> batches;
  msvis::RowBatch batch;
  batch.side = side;
  batch.rank = rank;
  for (int stack = 0; stack < 200; ++stack) {
    batch.stacks.push_back("[\"File /home/user/model/layers.py, line " + std::to_string(stack) + ", in forward, \\n " +
                           std::string(500, 's') + "\"]");
  }
  for (msvis::NodeRow& row : rows) {
    batch.nodes.push_back(std::move(row));
    if (batch.nodes.size() == 500) {
      batches.push_back(std::move(batch));
      batch = {};
      batch.side = side;
      batch.rank = rank;
      batch.first_stack = 200;
    }
  }
  batches.push_back(std::move(batch));
  return batches;
}

/// Processor time of the process, user and system: what counts on a machine that others use, too.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Times {
  double rows = 0;       ///< seconds of the insertion
  double indexes = 0;    ///< seconds of indexes, commit, sync
  double processor = 0;  ///< processor seconds of both
  double bytes = 0;
  [[nodiscard]] double total() const { return rows + indexes; }
};

void keep_best(Times& best, const Times& one) {
  const double processor = best.total() == 0 ? one.processor : std::min(best.processor, one.processor);
  if (best.total() == 0 || one.total() < best.total()) {
    best = one;
  }
  best.processor = processor;
}

Times write_with_writer(const fs::path& directory, const std::vector<msvis::RowBatch>& batches, int ranks) {
  Times times;
  const auto start = Clock::now();
  const double before = processor_seconds();
  msvis::VisDbWriter writer(directory, true);
  for (const msvis::RowBatch& batch : batches) {
    writer.add(batch);
  }
  times.rows = seconds_since(start);
  msvis::RunConfig config;
  config.compare = true;
  config.steps = {0};
  for (int rank = 0; rank < ranks; ++rank) {
    config.ranks.push_back(rank);
  }
  const fs::path file = writer.finish(config, {}, {});
  times.indexes = seconds_since(start) - times.rows;
  times.processor = processor_seconds() - before;
  times.bytes = static_cast<double>(fs::file_size(file));
  fs::remove(file);
  return times;
}

void run(sqlite3* database, const char* sql) {
  char* message = nullptr;
  if (sqlite3_exec(database, sql, nullptr, nullptr, &message) != SQLITE_OK) {
    throw std::runtime_error(message == nullptr ? "SQLite" : message);
  }
}

constexpr const char* plain_schema =
    "CREATE TABLE tb_nodes (id TEXT PRIMARY KEY, graph_id TEXT NOT NULL, node_order INTEGER NOT NULL, node_name TEXT NOT NULL, node_type "
    "TEXT NOT "
    "NULL, up_node TEXT, sub_nodes TEXT, precision_index INTEGER, overflow_level TEXT, micro_step_id INTEGER NOT NULL, matched_node_link "
    "TEXT, "
    "stack_id TEXT, parallel_merge_info TEXT, matched_distributed TEXT, modified INTEGER NOT NULL, input_data TEXT, output_data TEXT, "
    "data_source "
    "TEXT, dump_data_dir TEXT, step INTEGER NOT NULL, rank INTEGER NOT NULL, is_distributed INTEGER);"
    "CREATE TABLE tb_stack (id TEXT PRIMARY KEY, stack_info TEXT);";

constexpr const char* plain_indexes =
    "CREATE INDEX index1 ON tb_nodes (step, rank, data_source, up_node, node_order);"
    "CREATE INDEX index2 ON tb_nodes (step, rank, data_source, node_name);"
    "CREATE INDEX index3 ON tb_nodes (step, rank, data_source, node_order);"
    "CREATE INDEX index4 ON tb_nodes (step, rank, node_order);"
    "CREATE INDEX index5 ON tb_nodes (step, rank, micro_step_id, node_order);"
    "CREATE INDEX index6 ON tb_nodes (step, rank, modified, matched_node_link);"
    "CREATE INDEX index7 ON tb_nodes (is_distributed);";

void bind(sqlite3_stmt* statement, int place, const std::string& text) {
  sqlite3_bind_text64(statement, place, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

Times write_plainly(const fs::path& directory, const std::vector<msvis::RowBatch>& batches, const std::string& settings) {
  Times times;
  const fs::path file = directory / "plain.db";
  const auto start = Clock::now();
  const double before = processor_seconds();
  sqlite3* opened = nullptr;
  sqlite3_open(file.c_str(), &opened);
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> database(opened, sqlite3_close);
  run(opened, settings.c_str());
  run(opened, plain_schema);
  sqlite3_stmt* node = nullptr;
  sqlite3_stmt* stack = nullptr;
  sqlite3_prepare_v2(opened, "INSERT INTO tb_nodes VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,0,?,?,?,?,?,?,?)", -1, &node, nullptr);
  sqlite3_prepare_v2(opened, "INSERT INTO tb_stack VALUES (?,?)", -1, &stack, nullptr);
  run(opened, "BEGIN");
  for (const msvis::RowBatch& batch : batches) {
    const std::string source = batch.side == msvis::Side::target ? "NPU" : "Bench";
    const std::string graph = source + "_" + std::to_string(batch.step) + "_" + std::to_string(batch.rank);
    std::size_t number = batch.first_stack;
    for (const std::string& text : batch.stacks) {
      const std::string id = graph + "_" + std::to_string(number++);
      bind(stack, 1, id);
      bind(stack, 2, text);
      sqlite3_step(stack);
      sqlite3_reset(stack);
    }
    for (const msvis::NodeRow& row : batch.nodes) {
      const std::string id = graph + "_" + row.name;
      const std::string stack_id = graph + "_" + std::to_string(row.stack);
      const std::string type = std::to_string(static_cast<int>(row.type));
      bind(node, 1, id);
      bind(node, 2, graph);
      sqlite3_bind_int64(node, 3, row.node_order);
      bind(node, 4, row.name);
      bind(node, 5, type);
      bind(node, 6, row.up_node);
      bind(node, 7, row.sub_nodes);
      if (row.precision == msvis::Precision::none) {
        sqlite3_bind_null(node, 8);
      } else {
        sqlite3_bind_double(node, 8, row.precision == msvis::Precision::pass ? 0 : row.precision == msvis::Precision::error ? 1 : 0.5);
      }
      sqlite3_bind_null(node, 9);
      sqlite3_bind_int64(node, 10, row.micro_step);
      bind(node, 11, row.matched_node_link);
      bind(node, 12, stack_id);
      bind(node, 13, row.parallel_merge_info);
      bind(node, 14, row.matched_distributed);
      bind(node, 15, row.input_data);
      bind(node, 16, row.output_data);
      bind(node, 17, source);
      sqlite3_bind_null(node, 18);
      sqlite3_bind_int64(node, 19, batch.step);
      sqlite3_bind_int64(node, 20, batch.rank);
      sqlite3_bind_int64(node, 21, 0);
      if (sqlite3_step(node) != SQLITE_DONE) {
        throw std::runtime_error(sqlite3_errmsg(opened));
      }
      sqlite3_reset(node);
    }
  }
  run(opened, "COMMIT");
  times.rows = seconds_since(start);
  run(opened, plain_indexes);
  sqlite3_finalize(node);
  sqlite3_finalize(stack);
  database.reset();
  times.indexes = seconds_since(start) - times.rows;
  times.processor = processor_seconds() - before;
  times.bytes = static_cast<double>(fs::file_size(file));
  fs::remove(file);
  return times;
}

void print(const char* name, const Times& times, std::size_t rows) {
  std::printf("%-16s rows %6.3f s, indexes and end %6.3f s, total %6.3f s, processor %6.3f s, %8.0f rows/s, %6.1f MB\n", name, times.rows,
              times.indexes, times.total(), times.processor, static_cast<double>(rows) / times.total(), times.bytes / 1e6);
}

double megabytes_at_peak() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t rows = 85'632;
  int rounds = 5;
  fs::path directory = fs::temp_directory_path();
  std::string settings;
  std::string name = "plain SQLite";
  for (int at = 1; at + 1 < count; at += 2) {
    const std::string key = arguments[at];
    const std::string value = arguments[at + 1];
    if (key == "--rows") {
      rows = std::stoul(value);
    } else if (key == "--rounds") {
      rounds = std::stoi(value);
    } else if (key == "--directory") {
      directory = value;
    } else if (key == "--settings") {
      settings = value;
    } else if (key == "--setting-name") {
      name = value;
    }
  }
  constexpr int ranks = 8;
  const std::size_t nodes = rows / 16;  // two graphs for each rank
  std::vector<msvis::RowBatch> batches;
  std::size_t made = 0;
  std::size_t bytes = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const msvis::Side side : {msvis::Side::target, msvis::Side::golden}) {
      for (msvis::RowBatch& batch : make_graph(side, rank, nodes)) {
        made += batch.nodes.size();
        for (const msvis::NodeRow& row : batch.nodes) {
          bytes += row.input_data.size() + row.output_data.size() + row.name.size() + row.matched_node_link.size();
        }
        batches.push_back(std::move(batch));
      }
    }
  }
  std::printf("%zu rows of %.0f bytes in %s; memory before %.0f MB\n", made, static_cast<double>(bytes) / static_cast<double>(made),
              directory.c_str(), megabytes_at_peak());
  Times writer;
  Times plain;
  for (int round = 0; round < rounds; ++round) {
    keep_best(writer, write_with_writer(directory, batches, ranks));
    if (round == 0) {
      std::printf("memory after the first file %.0f MB\n", megabytes_at_peak());
    }
    keep_best(plain, write_plainly(directory, batches, settings));
  }
  print("VisDbWriter", writer, made);
  print(name.c_str(), plain, made);
  std::printf("VisDbWriter / %s: %.2f of the time, %.2f of the processor time\n", name.c_str(), writer.total() / plain.total(),
              writer.processor / plain.processor);
  return 0;
}
