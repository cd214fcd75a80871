// The least that a comparison of statistics costs with the libraries it uses: the parse of its JSON files by simdjson alone, and the insert
// of the rows of its result with their seven indexes by SQLite alone, with the settings that our writer uses and the
// same sync at the end.
//
//   statistics_floor RESULT.vis.db FILE.json ...      prints seconds as JSON; insert_cpu and indexes_cpu are processor time
#include <fcntl.h>
#include <simdjson.h>
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Looks at every value; numbers as tokens, because dumps hold NaN.
std::size_t walk(simdjson::ondemand::value value) {
  std::size_t seen = 1;
  switch (value.raw_json_token().front()) {
    case '{':
      for (auto field : value.get_object()) {
        seen += static_cast<std::size_t>(field.key().raw()[0]);
        seen += walk(field.value());
      }
      break;
    case '[':
      for (auto element : value.get_array()) {
        seen += walk(element.value());
      }
      break;
    default:
      break;
  }
  return seen;
}

std::size_t parse(simdjson::ondemand::parser& parser, const char* file) {
  const simdjson::padded_string text = simdjson::padded_string::load(file);
  auto document = parser.iterate(text);
  return walk(document.get_value());
}

void run(sqlite3* database, const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sqlite3_errmsg(database));
  }
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

using Database = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;

Database open(const std::string& file) {
  sqlite3* opened = nullptr;
  if (sqlite3_open(file.c_str(), &opened) != SQLITE_OK) {
    throw std::runtime_error(sqlite3_errmsg(opened));
  }
  return {opened, sqlite3_close};
}

std::vector<std::vector<sqlite3_value*>> rows_of(sqlite3* database, const char* sql) {
  std::vector<std::vector<sqlite3_value*>> rows;
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
  while (sqlite3_step(statement) == SQLITE_ROW) {
    auto& row = rows.emplace_back();
    for (int column = 0; column < sqlite3_column_count(statement); ++column) {
      row.push_back(sqlite3_value_dup(sqlite3_column_value(statement, column)));
    }
  }
  sqlite3_finalize(statement);
  return rows;
}

void insert(sqlite3* database, const std::string& table, const std::vector<std::vector<sqlite3_value*>>& rows) {
  if (rows.empty()) {
    return;
  }
  std::string sql = "INSERT INTO " + table + " VALUES (?";
  for (std::size_t column = 1; column < rows.front().size(); ++column) {
    sql += ", ?";
  }
  sql += ")";
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr);
  run(database, "BEGIN");
  for (const auto& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      sqlite3_bind_value(statement, static_cast<int>(column) + 1, row[column]);
    }
    sqlite3_step(statement);
    sqlite3_reset(statement);
  }
  run(database, "COMMIT");
  sqlite3_finalize(statement);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: statistics_floor RESULT.vis.db FILE.json ...\n");
    return 2;
  }
  simdjson::ondemand::parser parser;
  std::size_t seen = 0;
  auto start = Clock::now();
  for (int file = 2; file < argc; ++file) {
    seen += parse(parser, argv[file]);
  }
  const double parse_seconds = seconds_since(start);

  std::vector<std::vector<sqlite3_value*>> nodes;
  std::vector<std::vector<sqlite3_value*>> stacks;
  std::vector<std::string> schema;
  {
    const Database result = open(argv[1]);
    nodes = rows_of(result.get(), "SELECT * FROM tb_nodes ORDER BY rowid");
    stacks = rows_of(result.get(), "SELECT * FROM tb_stack ORDER BY rowid");
    for (const auto& row :
         rows_of(result.get(),
                 "SELECT sql FROM sqlite_master WHERE tbl_name IN ('tb_nodes', 'tb_stack') AND sql NOT NULL ORDER BY type DESC")) {
      schema.emplace_back(reinterpret_cast<const char*>(sqlite3_value_text(row.front())));
    }
  }
  const std::string file = std::string(argv[1]) + ".floor";
  std::filesystem::remove(file);
  start = Clock::now();
  double insert_seconds = 0;
  const double begin_cpu = processor_seconds();
  double inserted_cpu = 0;
  {
    const Database database = open(file);
    run(database.get(),
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; PRAGMA "
        "cache_size = -65536;");
    for (const std::string& sql : schema) {
      if (sql.starts_with("CREATE TABLE")) {
        run(database.get(), sql.c_str());
      }
    }
    insert(database.get(), "tb_stack", stacks);
    insert(database.get(), "tb_nodes", nodes);
    insert_seconds = seconds_since(start);
    inserted_cpu = processor_seconds();
    run(database.get(), "PRAGMA mmap_size = 2147418112;");
    for (const std::string& sql : schema) {
      if (sql.starts_with("CREATE INDEX")) {
        run(database.get(), sql.c_str());
      }
    }
  }
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || ::fsync(descriptor) != 0) {
    throw std::runtime_error("fsync");
  }
  ::close(descriptor);
  const double all_seconds = seconds_since(start);
  std::filesystem::remove(file);
  std::printf(
      "{\"parse\": %.4f, \"insert\": %.4f, \"indexes\": %.4f, \"total\": %.4f, \"insert_cpu\": %.4f, \"indexes_cpu\": %.4f, \"rows\": %zu, "
      "\"seen\": "
      "%zu}\n",
      parse_seconds, insert_seconds, all_seconds - insert_seconds, parse_seconds + all_seconds, inserted_cpu - begin_cpu,
      processor_seconds() - inserted_cpu, nodes.size(), seen);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "statistics_floor: %s\n", error.what());
  return 1;
}
