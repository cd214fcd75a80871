#include "support/visdb_check.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <tuple>

namespace msvis::test {
namespace {

struct Rule {
  const char* id;
  const char* title;
  const char* sql;  ///< gives 0 on a good file
};

// N24: versions of SQLite differ in whether a path has quotes.
// clang-format off
const Rule rules[] = {
    {"N01", "ids are composed as defined",
     R"sql(SELECT count(*) FROM tb_nodes WHERE id <> data_source||'_'||step||'_'||rank||'_'||node_name OR graph_id <> data_source||'_'||step||'_'||rank)sql"},
    {"N02", "exactly one root per graph, root has empty (not NULL) up_node",
     R"sql(SELECT count(*) FROM (SELECT 1 FROM tb_nodes GROUP BY data_source,step,rank HAVING sum(up_node='')<>1 OR sum(up_node IS NULL)<>0))sql"},
    {"N03", "node_order is 0..n-1 without gaps per graph",
     R"sql(SELECT count(*) FROM (SELECT 1 FROM tb_nodes GROUP BY data_source,step,rank HAVING min(node_order)<>0 OR max(node_order)<>count(*)-1 OR count(DISTINCT node_order)<>count(*)))sql"},
    {"N04", "every parent exists and comes after its children",
     R"sql(SELECT count(*) FROM tb_nodes n WHERE up_node<>'' AND NOT EXISTS (SELECT 1 FROM tb_nodes p WHERE p.step=n.step AND p.rank=n.rank AND p.data_source=n.data_source AND p.node_name=n.up_node AND p.node_order>n.node_order))sql"},
    {"N05", "node type text",
     R"sql(SELECT count(*) FROM tb_nodes WHERE typeof(node_type)<>'text' OR node_type NOT IN ('0','1','9'))sql"},
    {"N06", "sub_nodes empty text or non-empty JSON array",
     R"sql(SELECT count(*) FROM tb_nodes WHERE typeof(sub_nodes)<>'text' OR NOT (sub_nodes='' OR (json_valid(sub_nodes) AND json_type(sub_nodes)='array' AND json_array_length(sub_nodes)>0)))sql"},
    {"N08", "precision_index domain",
     R"sql(SELECT count(*) FROM tb_nodes WHERE typeof(precision_index) NOT IN ('null','integer','real') OR precision_index<0 OR precision_index>1 OR (data_source='Bench' AND precision_index IS NOT NULL) OR (precision_index IS NOT NULL AND (SELECT graph_type FROM tb_config)='build'))sql"},
    {"N09", "overflow level domain",
     R"sql(SELECT count(*) FROM tb_nodes WHERE overflow_level IS NOT NULL AND (overflow_level NOT IN ('medium','high','critical') OR (SELECT overflow_check FROM tb_config)=0))sql"},
    {"N10", "micro step inside the range of the config",
     R"sql(SELECT count(*) FROM tb_nodes WHERE typeof(micro_step_id)<>'integer' OR micro_step_id<0 OR micro_step_id>=(SELECT micro_steps FROM tb_config))sql"},
    {"N11", "link is a JSON array, empty in build",
     R"sql(SELECT count(*) FROM tb_nodes WHERE typeof(matched_node_link)<>'text' OR NOT json_valid(matched_node_link) OR json_type(matched_node_link)<>'array' OR ((SELECT graph_type FROM tb_config)='build' AND matched_node_link<>'[]'))sql"},
    {"N12", "links point to an existing partner that points back (advisory under `-fm`/`-lm`)",
     R"sql(SELECT count(*) FROM tb_nodes n WHERE matched_node_link<>'[]' AND NOT EXISTS (SELECT 1 FROM tb_nodes m WHERE m.step=n.step AND m.rank=n.rank AND m.data_source<>n.data_source AND m.node_name=json_extract(n.matched_node_link,'$[#-1]') AND json_extract(m.matched_node_link,'$[#-1]')=n.node_name))sql"},
    {"N13", "stack row exists",
     R"sql(SELECT count(*) FROM tb_nodes n WHERE NOT EXISTS (SELECT 1 FROM tb_stack s WHERE s.id=n.stack_id))sql"},
    {"N14", "stack text is a JSON array",
     R"sql(SELECT count(*) FROM tb_stack WHERE NOT json_valid(stack_info) OR json_type(stack_info)<>'array')sql"},
    {"N15", "merge info form",
     R"sql(SELECT count(*) FROM tb_nodes WHERE typeof(parallel_merge_info)<>'text' OR NOT (parallel_merge_info='' OR (json_valid(parallel_merge_info) AND json_type(parallel_merge_info)='array')))sql"},
    {"N16", "matched_distributed form",
     R"sql(SELECT count(*) FROM tb_nodes WHERE typeof(matched_distributed)<>'text' OR NOT json_valid(matched_distributed) OR json_type(matched_distributed) NOT IN ('object','array') OR (is_distributed=0 AND matched_distributed<>'{}'))sql"},
    {"N17", "not modified",
     R"sql(SELECT count(*) FROM tb_nodes WHERE modified<>0)sql"},
    {"N18", "data columns are valid JSON objects (also rejects bare NaN/Infinity)",
     R"sql(SELECT count(*) FROM tb_nodes WHERE NOT json_valid(input_data) OR json_type(input_data)<>'object' OR NOT json_valid(output_data) OR json_type(output_data)<>'object')sql"},
    {"N19", "each parameter is an object",
     R"sql(SELECT count(*) FROM (SELECT input_data d FROM tb_nodes UNION ALL SELECT output_data FROM tb_nodes) t, json_each(t.d) p WHERE p.type<>'object')sql"},
    {"N20", "every display value is text",
     R"sql(SELECT count(*) FROM (SELECT input_data d FROM tb_nodes UNION ALL SELECT output_data FROM tb_nodes) t, json_each(t.d) p, json_each(p.value) v WHERE v.type<>'text')sql"},
    {"N21", "flag, side and number types",
     R"sql(SELECT count(*) FROM tb_nodes WHERE is_distributed IS NOT (node_name GLOB 'Distributed*') OR data_source NOT IN ('NPU','Bench') OR typeof(step)<>'integer' OR typeof(rank)<>'integer')sql"},
    {"N22", "tensor mode has a dump directory",
     R"sql(SELECT count(*) FROM tb_nodes WHERE dump_data_dir IS NULL AND (SELECT task FROM tb_config)='all')sql"},
    {"N23", "each (step, rank) has both sides in compare, one in build",
     R"sql(SELECT count(*) FROM (SELECT step,rank FROM tb_nodes GROUP BY step,rank HAVING count(DISTINCT data_source)<>(SELECT CASE graph_type WHEN 'compare' THEN 2 ELSE 1 END FROM tb_config)))sql"},
    {"N24", "communication links point to existing nodes",
     R"sql(SELECT count(*) FROM tb_nodes n, json_tree(n.matched_distributed) t WHERE n.is_distributed=1 AND t.path IN ('$.nodes_info', '$."nodes_info"') AND t.type='array' AND NOT EXISTS (SELECT 1 FROM tb_nodes m WHERE m.step=n.step AND m.rank=CAST(t.key AS INTEGER) AND m.data_source=n.data_source AND m.node_name=json_extract(t.value,'$[1]')))sql"},
    {"C01", "one config row with id 1",
     R"sql(SELECT abs(count(*)-1) + sum(id<>'1' OR typeof(id)<>'text') FROM tb_config)sql"},
    {"C02", "graph type, task, tool tip, colours agree",
     R"sql(SELECT count(*) FROM tb_config WHERE graph_type NOT IN ('build','compare') OR (graph_type='build' AND (task<>'' OR tool_tip IS NOT NULL OR node_colors<>'null')) OR (graph_type='compare' AND (task NOT IN ('summary','md5','all','structure') OR NOT json_valid(tool_tip) OR json_type(tool_tip)<>'object' OR json_type(node_colors)<>'object')))sql"},
    {"C03", "micro steps and overflow flag",
     R"sql(SELECT count(*) FROM tb_config WHERE typeof(micro_steps)<>'integer' OR micro_steps<1 OR overflow_check NOT IN (0,1))sql"},
    {"C04", "rank list = ranks present, sorted",
     R"sql(SELECT count(*) FROM tb_config c WHERE (SELECT json_group_array(rank) FROM (SELECT DISTINCT rank FROM tb_nodes ORDER BY rank)) <> json(c.rank_list))sql"},
    {"C05", "step list = steps present, sorted",
     R"sql(SELECT count(*) FROM tb_config c WHERE (SELECT json_group_array(step) FROM (SELECT DISTINCT step FROM tb_nodes ORDER BY step)) <> json(c.step_list))sql"},
    {"C06", "colour entries well formed",
     R"sql(SELECT count(*) FROM tb_config c, json_each(c.node_colors) k WHERE c.node_colors<>'null' AND (k.key NOT GLOB '#[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f]' OR json_type(k.value,'$.value') IS NULL))sql"},
};
// clang-format on

struct Column {
  std::string name;
  std::string type;
  bool not_null = false;
  bool key = false;
  bool operator==(const Column&) const = default;
};

using Table = std::vector<Column>;

const std::map<std::string, Table>& tables() {
  static const std::map<std::string, Table> all{
      {"tb_nodes",
       {{"id", "TEXT", false, true},
        {"graph_id", "TEXT", true, false},
        {"node_order", "INTEGER", true, false},
        {"node_name", "TEXT", true, false},
        {"node_type", "TEXT", true, false},
        {"up_node", "TEXT", false, false},
        {"sub_nodes", "TEXT", false, false},
        {"precision_index", "INTEGER", false, false},
        {"overflow_level", "TEXT", false, false},
        {"micro_step_id", "INTEGER", true, false},
        {"matched_node_link", "TEXT", false, false},
        {"stack_id", "TEXT", false, false},
        {"parallel_merge_info", "TEXT", false, false},
        {"matched_distributed", "TEXT", false, false},
        {"modified", "INTEGER", true, false},
        {"input_data", "TEXT", false, false},
        {"output_data", "TEXT", false, false},
        {"data_source", "TEXT", false, false},
        {"dump_data_dir", "TEXT", false, false},
        {"step", "INTEGER", true, false},
        {"rank", "INTEGER", true, false},
        {"is_distributed", "INTEGER", false, false}}},
      {"tb_stack", {{"id", "TEXT", false, true}, {"stack_info", "TEXT", false, false}}},
      {"tb_config",
       {{"id", "TEXT", false, true},
        {"graph_type", "TEXT", true, false},
        {"task", "TEXT", false, false},
        {"tool_tip", "TEXT", false, false},
        {"micro_steps", "INTEGER", false, false},
        {"overflow_check", "INTEGER", false, false},
        {"node_colors", "TEXT", true, false},
        {"rank_list", "TEXT", true, false},
        {"step_list", "TEXT", true, false}}},
  };
  return all;
}

const std::map<std::string, std::string>& indexes() {
  static const std::map<std::string, std::string> all{
      {"index1", "step,rank,data_source,up_node,node_order"},
      {"index2", "step,rank,data_source,node_name"},
      {"index3", "step,rank,data_source,node_order"},
      {"index4", "step,rank,node_order"},
      {"index5", "step,rank,micro_step_id,node_order"},
      {"index6", "step,rank,modified,matched_node_link"},
      {"index7", "is_distributed"},
  };
  return all;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) {
    sqlite3* opened = nullptr;
    const int code = sqlite3_open_v2(std::filesystem::absolute(file).c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
    database_.reset(opened);
    if (code != SQLITE_OK) {
      throw std::runtime_error(opened == nullptr ? "out of memory" : sqlite3_errmsg(opened));
    }
  }

  using Values = TextRow;

  /// Calls `row` with the texts of each row.
  void query(const std::string& sql, const std::function<void(const Values&)>& row) {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &prepared, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sqlite3_errmsg(database_.get()));
    }
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepared, sqlite3_finalize);
    int code = SQLITE_ROW;
    Values values;
    while ((code = sqlite3_step(prepared)) == SQLITE_ROW) {
      values.clear();
      for (int column = 0; column < sqlite3_column_count(prepared); ++column) {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(prepared, column));
        if (text == nullptr) {
          values.emplace_back();
        } else {
          values.emplace_back(std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(prepared, column))));
        }
      }
      row(values);
    }
    if (code != SQLITE_DONE) {
      throw std::runtime_error(sqlite3_errmsg(database_.get()));
    }
  }

  std::string single(const std::string& sql) {
    std::string text;
    query(sql, [&](const Values& values) { text = values.at(0).value_or("NULL"); });
    return text;
  }

 private:
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> database_{nullptr, sqlite3_close};
};

class Checker {
 public:
  Checker(const std::filesystem::path& file, const VisDbCheckOptions& options)
      : file_(std::filesystem::absolute(file)), options_(options) {}

  std::vector<Violation> run() {
    check_surroundings();
    try {
      Reader reader(file_);
      check_schema(reader);
      const std::string integrity = reader.single("PRAGMA integrity_check");
      if (integrity != "ok") {
        report("S03", integrity);
      }
      for (const Rule& rule : rules) {
        check_rule(reader, rule);
      }
      check_children(reader);
    } catch (const std::exception& error) {
      report("open", error.what());
    }
    return std::move(violations_);
  }

 private:
  void report(const std::string& rule, const std::string& detail) { violations_.push_back({rule, detail}); }

  void check_surroundings() {
    const std::string name = file_.filename().string();
    const bool build = name.starts_with("build_");
    const std::string rest = build ? name.substr(6) : name.starts_with("compare_") ? name.substr(8) : std::string();
    const bool digits =
        rest.size() == 14 + 7 && std::all_of(rest.begin(), rest.begin() + 14, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!digits || !rest.ends_with(".vis.db")) {
      report("S04", "name is " + name);
    }
    std::error_code ignored;
    if (std::filesystem::exists(file_.string() + "-journal", ignored)) {
      report("S05", "a journal is left");
    }
    if (std::filesystem::exists(file_.string() + "-wal", ignored) && std::filesystem::file_size(file_.string() + "-wal", ignored) > 0) {
      report("S05", "a write-ahead log is left");
    }
    check_mode(file_);
    if (options_.check_directory) {
      check_mode(file_.parent_path());
    }
    if (std::filesystem::is_symlink(file_, ignored)) {
      report("S07", "it is a symbolic link");
    }
  }

  void check_mode(const std::filesystem::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      report("S06", path.string() + " has no status");
    } else if ((status.st_mode & 022U) != 0) {
      report("S06", path.string() + " can be written by group or others");
    }
  }

  void check_schema(Reader& reader) {
    for (const auto& [table, columns] : tables()) {
      Table found;
      reader.query("PRAGMA table_info(" + table + ")", [&](const Reader::Values& row) {
        found.push_back({row.at(1).value_or(""), row.at(2).value_or(""), row.at(3) == "1", row.at(5) == "1"});
      });
      if (found != columns) {
        report("S01", table);
      }
    }
    std::map<std::string, std::string> found;
    reader.query("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = 'tb_nodes'",
                 [&](const Reader::Values& row) { found[row.at(0).value_or("")]; });
    for (auto& [name, columns] : found) {
      std::string& text = columns;
      reader.query("PRAGMA index_info('" + name + "')", [&](const Reader::Values& row) {
        text += text.empty() ? "" : ",";
        text += row.at(2).value_or("");
      });
    }
    for (const auto& [name, columns] : indexes()) {
      if (const auto at = found.find(name); at == found.end() || at->second != columns) {
        report("S02", name);
      }
    }
  }

  void check_rule(Reader& reader, const Rule& rule) {
    if (std::string_view(rule.id) == "N12" && !options_.mutual_links) {
      return;
    }
    std::string found;
    try {
      found = reader.single(rule.sql);
    } catch (const std::exception& error) {
      found = error.what();
    }
    if (found != "0") {
      report(rule.id, std::string(rule.title) + ": " + found);
    }
  }

  /// N07: sub_nodes equals the children by node_order. One pass instead of a query for each node.
  void check_children(Reader& reader) {
    using Key = std::tuple<std::string, std::string, std::string, std::string>;
    const auto key_of = [](const Reader::Values& row) {
      return Key(row.at(0).value_or(""), row.at(1).value_or(""), row.at(2).value_or(""), row.at(3).value_or(""));
    };
    std::map<Key, std::vector<std::string>> children;
    reader.query("SELECT data_source, step, rank, up_node, node_name FROM tb_nodes WHERE up_node <> '' ORDER BY node_order",
                 [&](const Reader::Values& row) { children[key_of(row)].push_back(row.at(4).value_or("")); });
    std::size_t wrong = 0;
    reader.query("SELECT data_source, step, rank, node_name, sub_nodes FROM tb_nodes", [&](const Reader::Values& row) {
      const std::string text = row.at(4).value_or("");
      std::vector<std::string> stated;
      bool good = true;
      if (!text.empty()) {
        const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
        good = parsed.is_array() && std::all_of(parsed.begin(), parsed.end(), [](const auto& name) { return name.is_string(); });
        if (good) {
          stated = parsed.get<std::vector<std::string>>();
        }
      }
      const auto found = children.find(key_of(row));
      const std::vector<std::string> none;
      if (!good || stated != (found == children.end() ? none : found->second)) {
        ++wrong;
      }
    });
    if (wrong != 0) {
      report("N07", "sub_nodes equals the children by node_order: " + std::to_string(wrong));
    }
  }

  std::filesystem::path file_;
  VisDbCheckOptions options_;
  std::vector<Violation> violations_;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Violation& violation) {
  return out << violation.rule << ": " << violation.detail;
}

std::vector<Violation> check_visdb(const std::filesystem::path& file, const VisDbCheckOptions& options) {
  return Checker(file, options).run();
}

std::string visdb_violations(const std::filesystem::path& file, const VisDbCheckOptions& options) {
  std::ostringstream text;
  for (const Violation& violation : check_visdb(file, options)) {
    text << violation << '\n';
  }
  return text.str();
}

std::vector<TextRow> query_visdb(const std::filesystem::path& file, const std::string& sql) {
  std::vector<TextRow> rows;
  Reader(file).query(sql, [&](const TextRow& row) { rows.push_back(row); });
  return rows;
}

std::string single_value(const std::filesystem::path& file, const std::string& sql) {
  const std::vector<TextRow> rows = query_visdb(file, sql);
  return rows.empty() ? "no row" : rows.front().at(0).value_or("NULL");
}

}  // namespace msvis::test
