// The checker itself: it must find each kind of fault.
#include "support/visdb_check.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "msvis/visdb.h"
#include "support/temporary_directory.h"

namespace msvis {
namespace {

using test::TemporaryDirectory;
using test::Violation;
namespace fs = std::filesystem;

NodeRow node(const std::string& name, std::uint32_t order, NodeType type, const std::string& parent, const std::string& children,
             const std::string& link) {
  NodeRow row;
  row.name = name;
  row.node_order = order;
  row.type = type;
  row.up_node = parent;
  row.sub_nodes = children;
  row.matched_node_link = link;
  row.input_data = R"({"a": {"type": "int"}})";
  return row;
}

fs::path good_file(const fs::path& directory) {
  VisDbWriter writer(directory, true);
  for (const Side side : {Side::target, Side::golden}) {
    for (const int rank : {0, 1}) {
      RowBatch batch;
      batch.side = side;
      batch.rank = rank;
      batch.stacks = {"[]"};
      batch.dump_data_dir = "/d";
      batch.nodes = {node("DefaultModel", 1, NodeType::module, "", R"(["Distributed.send.0.forward"])", R"(["DefaultModel"])"),
                     node("Distributed.send.0.forward", 0, NodeType::function_api, "DefaultModel", "",
                          R"(["DefaultModel", "Distributed.send.0.forward"])")};
      batch.nodes[1].matched_distributed =
          R"({"communications_type": "send", "nodes_info": {")" + std::to_string(1 - rank) + R"(": ["0", "Distributed.send.0.forward"]}})";
      writer.add(batch);
    }
  }
  RunConfig config;
  config.compare = true;
  config.mode = CompareMode::tensor;
  config.ranks = {0, 1};
  config.steps = {0};
  return writer.finish(config, {}, {});
}

void change(const fs::path& file, const std::string& sql) {
  sqlite3* opened = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &opened), SQLITE_OK);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> database(opened, sqlite3_close);
  ASSERT_EQ(sqlite3_exec(opened, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(opened) << " in " << sql;
}

bool finds(const fs::path& file, const std::string& rule) {
  for (const Violation& violation : test::check_visdb(file)) {
    if (violation.rule == rule) {
      return true;
    }
  }
  return false;
}

struct Fault {
  const char* rule;
  const char* sql;
};

const Fault faults[] = {
    {"S01", "ALTER TABLE tb_nodes ADD COLUMN more TEXT"},
    {"S02", "DROP INDEX index3"},
    {"S02", "DROP INDEX index7; CREATE INDEX index7 ON tb_nodes (rank)"},
    {"N01", "UPDATE tb_nodes SET id = 'x' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N02", "UPDATE tb_nodes SET up_node = NULL WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N03", "UPDATE tb_nodes SET node_order = 7 WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N04", "UPDATE tb_nodes SET up_node = 'nobody' WHERE up_node <> ''"},
    {"N05", "UPDATE tb_nodes SET node_type = '8' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N06", "UPDATE tb_nodes SET sub_nodes = '[]' WHERE id = 'NPU_0_0_Distributed.send.0.forward'"},
    {"N07", "UPDATE tb_nodes SET sub_nodes = '[\"x\"]' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N08", "UPDATE tb_nodes SET precision_index = 2 WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N08", "UPDATE tb_nodes SET precision_index = 0 WHERE id = 'Bench_0_0_DefaultModel'"},
    {"N09", "UPDATE tb_nodes SET overflow_level = 'high' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N10", "UPDATE tb_nodes SET micro_step_id = 1 WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N11", "UPDATE tb_nodes SET matched_node_link = '' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N12", "UPDATE tb_nodes SET matched_node_link = '[]' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N13", "DELETE FROM tb_stack WHERE id = 'NPU_0_0_0'"},
    {"N14", "UPDATE tb_stack SET stack_info = '\"x\"' WHERE id = 'NPU_0_0_0'"},
    {"N15", "UPDATE tb_nodes SET parallel_merge_info = '{}' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N16", "UPDATE tb_nodes SET matched_distributed = '[]' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N17", "UPDATE tb_nodes SET modified = 1 WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N18", "UPDATE tb_nodes SET input_data = '{\"a\": NaN}' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N19", "UPDATE tb_nodes SET output_data = '{\"a\": \"x\"}' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N20", "UPDATE tb_nodes SET output_data = '{\"a\": {\"b\": 1}}' WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N21", "UPDATE tb_nodes SET is_distributed = 0 WHERE node_name LIKE 'Distributed%'"},
    {"N22", "UPDATE tb_nodes SET dump_data_dir = NULL WHERE id = 'NPU_0_0_DefaultModel'"},
    {"N23", "DELETE FROM tb_nodes WHERE data_source = 'Bench' AND rank = 1"},
    {"N24", "DELETE FROM tb_nodes WHERE rank = 1 AND is_distributed = 1"},
    {"C01", "DELETE FROM tb_config"},
    {"C01", "UPDATE tb_config SET id = '2'"},
    {"C02", "UPDATE tb_config SET task = 'x'"},
    {"C03", "UPDATE tb_config SET micro_steps = 0"},
    {"C04", "UPDATE tb_config SET rank_list = '[0]'"},
    {"C05", "UPDATE tb_config SET step_list = '[1]'"},
    {"C06", "UPDATE tb_config SET node_colors = '{\"red\": {\"value\": []}}'"},
};

TEST(VisDbCheck, AGoodFileHasNoViolations) {
  const TemporaryDirectory directory;
  EXPECT_EQ(test::visdb_violations(good_file(directory.path())), "");
}

TEST(VisDbCheck, FindsEachFault) {
  const TemporaryDirectory directory;
  const fs::path good = good_file(directory.path());
  const fs::path copy = directory.path() / "compare_20200101000000.vis.db";
  for (const Fault& fault : faults) {
    fs::copy_file(good, copy, fs::copy_options::overwrite_existing);
    change(copy, fault.sql);
    EXPECT_TRUE(finds(copy, fault.rule)) << fault.rule << ": " << fault.sql;
  }
}

TEST(VisDbCheck, FindsFaultsOfTheFile) {
  const TemporaryDirectory directory;
  const fs::path good = good_file(directory.path());
  std::ofstream(good.string() + "-journal") << "x";
  EXPECT_TRUE(finds(good, "S05"));
  fs::remove(good.string() + "-journal");
  ::chmod(good.c_str(), 0664);
  EXPECT_TRUE(finds(good, "S06"));
  ::chmod(good.c_str(), 0640);
  ::chmod(directory.path().c_str(), 0777);
  EXPECT_TRUE(finds(good, "S06"));
  ::chmod(directory.path().c_str(), 0755);
  const fs::path misnamed = directory.path() / "result.vis.db";
  fs::create_symlink(good, misnamed);
  EXPECT_TRUE(finds(misnamed, "S04"));
  EXPECT_TRUE(finds(misnamed, "S07"));
  const fs::path text = directory.path() / "build_20200101000000.vis.db";
  std::ofstream(text) << "this is no database";
  EXPECT_TRUE(finds(text, "open"));
  EXPECT_EQ(test::visdb_violations(good), "");
}

TEST(VisDbCheck, FindsDamage) {
  const TemporaryDirectory directory;
  const fs::path good = good_file(directory.path());
  {
    std::fstream file(good, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096 * 2 + 8);
    file << std::string(200, '\xAA');
  }
  EXPECT_FALSE(test::check_visdb(good).empty());
}

}  // namespace
}  // namespace msvis
