#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "msvis/error.h"
#include "msvis/visdb.h"
#include "support/temporary_directory.h"
#include "support/visdb_check.h"

namespace msvis {
namespace {

using test::query_visdb;
using test::single_value;
using test::TemporaryDirectory;
using test::TextRow;
using test::visdb_violations;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// A graph of three nodes: two APIs below the root.
RowBatch small_graph(Side side, std::int64_t step, std::int64_t rank, bool linked) {
  RowBatch batch;
  batch.side = side;
  batch.step = step;
  batch.rank = rank;
  batch.stacks = {"[]", R"(["File \"x.py\", line 1, in f, \n y"])"};
  NodeRow root;
  root.name = "DefaultModel";
  root.node_order = 2;
  root.sub_nodes = R"(["Functional.linear.0.forward", "Distributed.all_reduce.0.forward"])";
  NodeRow linear;
  linear.name = "Functional.linear.0.forward";
  linear.type = NodeType::function_api;
  linear.up_node = root.name;
  linear.stack = 1;
  linear.input_data = R"({"Functional.linear.0.forward.input.0": {"type": "int"}})";
  NodeRow reduce;
  reduce.name = "Distributed.all_reduce.0.forward";
  reduce.type = NodeType::function_api;
  reduce.node_order = 1;
  reduce.up_node = root.name;
  if (linked) {
    root.matched_node_link = R"(["DefaultModel"])";
    linear.matched_node_link = R"(["DefaultModel", "Functional.linear.0.forward"])";
    if (side == Side::target) {
      linear.precision = Precision::warning;
      reduce.precision = Precision::error;
      reduce.overflow = Overflow::high;
    }
  }
  batch.nodes = {root, reduce, linear};
  return batch;
}

RunConfig compare_config() {
  RunConfig config;
  config.compare = true;
  config.overflow_check = true;
  config.ranks = {0};
  config.steps = {0};
  return config;
}

fs::path write_comparison(const fs::path& directory) {
  VisDbWriter writer(directory, true);
  writer.add(small_graph(Side::target, 0, 0, true));
  writer.add(small_graph(Side::golden, 0, 0, true));
  return writer.finish(compare_config(), {{0, 0, "done", 1.5, 3, 3, 2, 1, ""}}, {{"version", "0.1"}, {"command", "msvis-mpi -tp a"}});
}

unsigned mode_of(const fs::path& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(VisDbWriter, AComparisonKeepsEveryRule) {
  const TemporaryDirectory directory;
  const fs::path file = write_comparison(directory.path());
  EXPECT_EQ(visdb_violations(file), "");
  EXPECT_THAT(names_in(directory.path()), ElementsAre(file.filename().string()));
  EXPECT_TRUE(file.filename().string().starts_with("compare_"));
}

TEST(VisDbWriter, ABuildKeepsEveryRule) {
  const TemporaryDirectory directory;
  VisDbWriter writer(directory.path(), false);
  writer.add(small_graph(Side::target, 1, 2, false));
  RunConfig config;
  config.ranks = {2};
  config.steps = {1};
  const fs::path file = writer.finish(config, {}, {});
  EXPECT_EQ(visdb_violations(file), "");
  EXPECT_TRUE(file.filename().string().starts_with("build_"));
  const std::vector<TextRow> rows = query_visdb(file, "SELECT * FROM tb_config");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_THAT(rows[0], ElementsAre("1", "build", "", std::nullopt, "1", "0", "null", "[2]", "[1]"));
}

TEST(VisDbWriter, ColumnsOfANode) {
  const TemporaryDirectory directory;
  const fs::path file = write_comparison(directory.path());
  EXPECT_THAT(query_visdb(file, "SELECT * FROM tb_nodes WHERE id = 'NPU_0_0_Functional.linear.0.forward'").at(0),
              ElementsAre("NPU_0_0_Functional.linear.0.forward", "NPU_0_0", "0", "Functional.linear.0.forward", "1", "DefaultModel", "",
                          "0.5", std::nullopt, "0", R"(["DefaultModel", "Functional.linear.0.forward"])", "NPU_0_0_1", "", "{}", "0",
                          R"({"Functional.linear.0.forward.input.0": {"type": "int"}})", "{}", "NPU", std::nullopt, "0", "0", "0"));
  EXPECT_THAT(query_visdb(file, "SELECT * FROM tb_nodes WHERE id = 'Bench_0_0_DefaultModel'").at(0),
              ElementsAre("Bench_0_0_DefaultModel", "Bench_0_0", "2", "DefaultModel", "0", "",
                          R"(["Functional.linear.0.forward", "Distributed.all_reduce.0.forward"])", std::nullopt, std::nullopt, "0",
                          R"(["DefaultModel"])", "Bench_0_0_0", "", "{}", "0", "{}", "{}", "Bench", std::nullopt, "0", "0", "0"));
  EXPECT_EQ(single_value(file, "SELECT is_distributed FROM tb_nodes WHERE id = 'NPU_0_0_Distributed.all_reduce.0.forward'"), "1");
  EXPECT_EQ(single_value(file, "SELECT overflow_level FROM tb_nodes WHERE id = 'NPU_0_0_Distributed.all_reduce.0.forward'"), "high");
  EXPECT_EQ(
      single_value(
          file, "SELECT group_concat(DISTINCT typeof(precision_index)) FROM tb_nodes WHERE data_source = 'NPU' AND node_name LIKE 'D%.%'"),
      "integer");
  EXPECT_EQ(single_value(file, "SELECT typeof(precision_index) FROM tb_nodes WHERE id = 'NPU_0_0_Functional.linear.0.forward'"), "real");
  EXPECT_THAT(query_visdb(file, "SELECT id, stack_info FROM tb_stack WHERE id LIKE 'NPU%' ORDER BY id"),
              ElementsAre(ElementsAre("NPU_0_0_0", "[]"), ElementsAre("NPU_0_0_1", R"(["File \"x.py\", line 1, in f, \n y"])")));
}

TEST(VisDbWriter, RunTables) {
  const TemporaryDirectory directory;
  const fs::path file = write_comparison(directory.path());
  EXPECT_THAT(query_visdb(file, "SELECT key, value FROM msvis_run ORDER BY key"),
              ElementsAre(ElementsAre("command", "msvis-mpi -tp a"), ElementsAre("version", "0.1")));
  EXPECT_THAT(
      query_visdb(
          file,
          "SELECT step, rank, status, seconds, target_nodes, golden_nodes, matched_nodes, compared_parameters, error FROM msvis_item"),
      ElementsAre(ElementsAre("0", "0", "done", "1.5", "3", "3", "2", "1", "")));
  EXPECT_EQ(single_value(file, "SELECT group_concat(name) FROM (SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name)"),
            "msvis_item,msvis_run,msvis_tensor,tb_config,tb_nodes,tb_stack");
  EXPECT_EQ(single_value(file, "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')"), "0");
}

TEST(VisDbWriter, WhatIsKnownOfTensors) {
  const TemporaryDirectory directory;
  VisDbWriter writer(directory.path(), false);
  TensorRow row;
  row.node = "Functional.linear.0.forward";
  row.parameter = "Functional.linear.0.forward.input.0";
  row.shape = {2, 3, 4};
  row.elements = 24;
  row.metrics.bit_identical = false;
  row.metrics.target_values = {1, 2, 3, 4};
  row.metrics.golden_values = {5, 6, 7, 8};
  row.metrics.worst = WorstElement{23, false, 1.5, -2.5};
  for (const int rank : {0, 1}) {
    RowBatch batch = small_graph(Side::target, 0, rank, false);
    batch.tensors = {row};
    writer.add(batch);
    TensorRow unreadable;
    unreadable.node = row.node;
    unreadable.parameter = "x";
    unreadable.skipped = "unreadable";
    unreadable.reason = "no such file";
    batch = {};
    batch.rank = rank;
    batch.tensors = {unreadable};
    writer.add(batch);
  }
  writer.remove(0, 0);
  RunConfig config;
  config.ranks = {1};
  config.steps = {0};
  const fs::path file = writer.finish(config, {}, {});
  EXPECT_EQ(visdb_violations(file), "");
  EXPECT_THAT(query_visdb(file, "SELECT * FROM msvis_tensor ORDER BY parameter"),
              ElementsAre(ElementsAre("0", "1", row.node, row.parameter, "", "", "24", "0", "[1, 2, 3]", "real", "1.5", "-2.5", "1", "2",
                                      "3", "4", "5", "6", "7", "8"),
                          ElementsAre("0", "1", row.node, "x", "unreadable", "no such file", "0", "0", std::nullopt, std::nullopt,
                                      std::nullopt, std::nullopt, "0", "0", "0", "0", "0", "0", "0", "0")));
}

TEST(VisDbWriter, FileFacts) {
  const TemporaryDirectory directory;
  const fs::path file = write_comparison(directory.path());
  std::ifstream in(file, std::ios::binary);
  std::string header(100, '\0');
  in.read(header.data(), 100);
  EXPECT_EQ(header.substr(0, 15), "SQLite format 3");
  EXPECT_EQ(header[16], '\x10');  // page size 4096
  EXPECT_EQ(header[17], '\0');
  EXPECT_EQ(header[18], '\x01');  // rollback journal, not WAL
  EXPECT_EQ(header[19], '\x01');
  EXPECT_EQ(single_value(file, "PRAGMA journal_mode"), "delete");
  EXPECT_EQ(single_value(file, "PRAGMA page_size"), "4096");
  EXPECT_EQ(single_value(file, "PRAGMA encoding"), "UTF-8");
  EXPECT_EQ(single_value(file, "PRAGMA auto_vacuum"), "0");
  EXPECT_EQ(single_value(file, "PRAGMA user_version"), "0");
  EXPECT_EQ(single_value(file, "PRAGMA application_id"), "0");
  EXPECT_EQ(single_value(file, "PRAGMA freelist_count"), "0");
}

TEST(VisDbWriter, ModeDoesNotDependOnTheUmask) {
  const TemporaryDirectory directory;
  for (const mode_t mask : {mode_t{0}, mode_t{077}}) {
    const mode_t before = ::umask(mask);
    const fs::path file = write_comparison(directory.path());
    ::umask(before);
    EXPECT_EQ(mode_of(file), 0640U);
  }
}

TEST(VisDbWriter, RunsOfOneSecondDoNotCollide) {
  const TemporaryDirectory directory;
  VisDbWriter first(directory.path(), false);
  VisDbWriter second(directory.path(), false);
  EXPECT_NE(first.partial_path(), second.partial_path());
  EXPECT_FALSE(first.partial_path().string().ends_with(".vis.db"));
  first.add(small_graph(Side::target, 0, 0, false));
  second.add(small_graph(Side::target, 0, 1, false));
  RunConfig config;
  config.ranks = {0};
  config.steps = {0};
  const fs::path one = first.finish(config, {}, {});
  config.ranks = {1};
  const fs::path two = second.finish(config, {}, {});
  EXPECT_NE(one, two);
  EXPECT_EQ(visdb_violations(one), "");
  EXPECT_EQ(visdb_violations(two), "");
}

TEST(VisDbWriter, AnUnfinishedFileIsRemoved) {
  const TemporaryDirectory directory;
  {
    VisDbWriter writer(directory.path(), true);
    writer.add(small_graph(Side::target, 0, 0, true));
    EXPECT_TRUE(fs::exists(writer.partial_path()));
  }
  EXPECT_TRUE(names_in(directory.path()).empty());
}

TEST(VisDbWriter, PiecesOfAGraphAddUp) {
  const TemporaryDirectory directory;
  VisDbWriter writer(directory.path(), false);
  RowBatch whole = small_graph(Side::target, 0, 0, false);
  RowBatch piece = whole;
  piece.stacks = {whole.stacks[0]};
  piece.nodes.clear();
  writer.add(piece);
  piece.stacks = {whole.stacks[1]};
  piece.first_stack = 1;
  piece.nodes = {whole.nodes[0]};
  writer.add(piece);
  piece.stacks.clear();
  piece.nodes = {whole.nodes[1], whole.nodes[2]};
  writer.add(piece);
  EXPECT_EQ(writer.rows(), 3U);
  RunConfig config;
  config.ranks = {0};
  config.steps = {0};
  EXPECT_EQ(visdb_violations(writer.finish(config, {}, {})), "");
}

TEST(VisDbWriter, RemoveTakesBackOneStepAndRankOnly) {
  const TemporaryDirectory directory;
  VisDbWriter writer(directory.path(), true);
  for (const auto& [step, rank] : {std::pair<int, int>{0, 1}, {0, 10}, {0, 11}, {1, 1}, {10, 1}}) {
    writer.add(small_graph(Side::target, step, rank, true));
    writer.add(small_graph(Side::golden, step, rank, true));
  }
  EXPECT_EQ(writer.rows(), 30U);
  writer.remove(0, 1);
  EXPECT_EQ(writer.rows(), 24U);
  writer.remove(5, 5);
  EXPECT_EQ(writer.rows(), 24U);
  const fs::path file = writer.finish(compare_config(), {}, {});
  EXPECT_EQ(
      single_value(file, "SELECT group_concat(DISTINCT step || ':' || rank) FROM (SELECT step, rank FROM tb_nodes ORDER BY step, rank)"),
      "0:10,0:11,1:1,10:1");
  EXPECT_EQ(single_value(file, "SELECT count(*) FROM tb_stack"), "16");
}

TEST(VisDbWriter, AnItemCanBeWrittenAgainAfterItsRemoval) {
  const TemporaryDirectory directory;
  VisDbWriter writer(directory.path(), false);
  writer.add(small_graph(Side::target, 0, 0, false));
  EXPECT_THROW(writer.add(small_graph(Side::target, 0, 0, false)), Error);  // ids are unique
  writer.remove(0, 0);
  writer.add(small_graph(Side::target, 0, 0, false));
  RunConfig config;
  config.ranks = {0};
  config.steps = {0};
  const fs::path file = writer.finish(config, {}, {});
  EXPECT_EQ(visdb_violations(file), "");
}

TEST(VisDbWriter, Links) {
  const TemporaryDirectory directory;
  VisDbWriter writer(directory.path(), false);
  writer.add(small_graph(Side::target, 0, 0, false));
  writer.add(small_graph(Side::target, 0, 1, false));
  Link link;
  link.rank = 1;
  link.name = "Distributed.all_reduce.0.forward";
  link.kind = LinkKind::symmetric;
  link.type = Link::Type::send_receive;
  link.peers = {{0, "Nan", "Distributed.all_reduce.0.forward"}};
  writer.set_link(link);
  link.name = "Distributed.unknown.0.forward";  // of an item that was removed, say
  writer.set_link(link);
  RunConfig config;
  config.ranks = {0, 1};
  config.steps = {0};
  const fs::path file = writer.finish(config, {}, {});
  EXPECT_EQ(visdb_violations(file), "");
  link.name = "Distributed.all_reduce.0.forward";
  EXPECT_EQ(single_value(file, "SELECT matched_distributed FROM tb_nodes WHERE rank = 1 AND is_distributed = 1"), link_json(link));
  EXPECT_EQ(single_value(file, "SELECT matched_distributed FROM tb_nodes WHERE rank = 0 AND is_distributed = 1"), "{}");
}

TEST(VisDbWriter, TextIsAlwaysUtf8) {
  const TemporaryDirectory directory;
  VisDbWriter writer(directory.path(), false);
  RowBatch batch = small_graph(Side::target, 0, 0, false);
  batch.dump_data_dir = "/data/\xFF/d";
  batch.nodes = {batch.nodes[0]};
  batch.nodes[0].name = "Default\xC3Model";
  batch.nodes[0].node_order = 0;
  batch.nodes[0].sub_nodes.clear();
  writer.add(batch);
  RunConfig config;
  config.ranks = {0};
  config.steps = {0};
  const fs::path file = writer.finish(config, {{0, 0, "failed", 0, 0, 0, 0, 0, "bad \x80"}}, {{"k\xFF", "v\xFE"}});
  EXPECT_EQ(visdb_violations(file), "");
  EXPECT_EQ(single_value(file, "SELECT node_name FROM tb_nodes"), "Default\xEF\xBF\xBDModel");
  EXPECT_EQ(single_value(file, "SELECT dump_data_dir FROM tb_nodes"), "/data/\xEF\xBF\xBD/d");
  EXPECT_EQ(single_value(file, "SELECT error FROM msvis_item"), "bad \xEF\xBF\xBD");
  EXPECT_EQ(single_value(file, "SELECT value FROM msvis_run"), "v\xEF\xBF\xBD");
}

TEST(VisDbWriter, HostileNamesAreBoundNotInterpreted) {
  const TemporaryDirectory directory;
  VisDbWriter writer(directory.path(), false);
  RowBatch batch = small_graph(Side::target, 0, 0, false);
  const std::string name = "x'); DROP TABLE tb_nodes; --\"%_\n";
  batch.nodes = {batch.nodes[0]};
  batch.nodes[0].name = name;
  batch.nodes[0].node_order = 0;
  batch.nodes[0].sub_nodes.clear();
  writer.add(batch);
  RunConfig config;
  config.ranks = {0};
  config.steps = {0};
  EXPECT_EQ(single_value(writer.finish(config, {}, {}), "SELECT node_name FROM tb_nodes"), name);
}

TEST(VisDbWriter, LongOutputPaths) {
  const TemporaryDirectory directory;
  fs::path deep = directory.path();
  while (deep.string().size() < 1500) {
    deep /= std::string(100, 'd');
  }
  fs::create_directories(deep);
  ::chmod(deep.c_str(), 0755);
  const fs::path file = write_comparison(deep);
  EXPECT_EQ(file.parent_path(), deep);
  // SQLite refuses to read such a path, so look at it from a shorter one.
  const fs::path near = directory.path() / file.filename();
  fs::rename(file, near);
  EXPECT_EQ(visdb_violations(near), "");
}

TEST(VisDbWriter, RelativeAndOddDirectories) {
  const TemporaryDirectory directory;
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  fs::create_directory("file:a?mode=ro#%20");
  ::chmod("file:a?mode=ro#%20", 0755);
  const fs::path file = write_comparison("file:a?mode=ro#%20");
  fs::current_path(before);
  EXPECT_TRUE(file.is_absolute());
  EXPECT_EQ(visdb_violations(file), "");
}

/// Runs `body` in a child whose files can't grow beyond a size. 0: an Error (io) that names the partial file was thrown.
template <typename Body>
int in_full_file_system(rlim_t bytes, Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    (void)::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
      ::_exit(4);
    }
    int code = 2;
    try {
      body();
    } catch (const Error& error) {
      const bool named = std::string(error.what()).find(".vis.db.partial") != std::string::npos;
      const bool one_line = std::string(error.what()).find('\n') == std::string::npos;
      code = error.category() == ErrorCategory::io && named && one_line ? 0 : 3;
      if (code != 0) {
        (void)std::fprintf(stderr, "%s\n", error.what());
      }
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(VisDbWriter, AFullDiskIsAnErrorAndLeavesNothing) {
  // 300 rows of 100 kB: more than SQLite's cache, so that writing begins before the end.
  for (const rlim_t limit : {rlim_t{0}, rlim_t{1000}, rlim_t{50'000}, rlim_t{5'000'000}, rlim_t{30'200'000}}) {
    const TemporaryDirectory directory;
    EXPECT_EQ(in_full_file_system(limit,
                                  [&] {
                                    VisDbWriter writer(directory.path(), false);
                                    RowBatch batch = small_graph(Side::target, 0, 0, false);
                                    batch.nodes[0].node_order = 0;
                                    batch.nodes[0].input_data = "{\"a\": \"" + std::string(100'000, 'x') + "\"}";
                                    batch.nodes[0].matched_node_link = "[\"" + std::string(1000, 'n') + "\"]";
                                    for (int row = 0; row < 300; ++row) {
                                      batch.nodes = {batch.nodes[0]};
                                      batch.nodes[0].name = "node." + std::to_string(row);
                                      writer.add(batch);
                                      batch.stacks.clear();
                                    }
                                    writer.finish(compare_config(), {}, {});
                                  }),
              0)
        << limit;
    EXPECT_TRUE(names_in(directory.path()).empty()) << limit;
  }
}

TEST(VisDbWriter, AMissingDirectoryIsAnError) {
  const TemporaryDirectory directory;
  try {
    const VisDbWriter writer(directory.path() / "missing", true);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::path);
    EXPECT_THAT(error.what(), HasSubstr("missing"));
  }
}

// A file system without locks, such as a parallel one mounted without them: SQLite's "unix" with every lock failing.
sqlite3_io_methods unlockable_methods;
const sqlite3_vfs* real_unix = nullptr;
int refused_locks = 0;

int refuse_lock(sqlite3_file* /*file*/, int /*level*/) {
  ++refused_locks;
  return SQLITE_IOERR_LOCK;
}

int open_unlockable(sqlite3_vfs* /*vfs*/, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  const int code = real_unix->xOpen(const_cast<sqlite3_vfs*>(real_unix), name, file, flags, out_flags);
  if (code == SQLITE_OK) {
    unlockable_methods = *file->pMethods;
    unlockable_methods.xLock = refuse_lock;
    file->pMethods = &unlockable_methods;
  }
  return code;
}

TEST(VisDbWriter, WorksWhereFilesCanNotBeLocked) {
  const TemporaryDirectory directory;
  sqlite3_vfs* const original = sqlite3_vfs_find("unix");
  real_unix = original;
  sqlite3_vfs unlockable = *original;
  unlockable.pNext = nullptr;
  unlockable.xOpen = open_unlockable;
  sqlite3_vfs_unregister(original);
  sqlite3_vfs_register(&unlockable, 1);
  fs::path file;
  EXPECT_NO_THROW(file = write_comparison(directory.path()));
  sqlite3_vfs_unregister(&unlockable);
  sqlite3_vfs_register(original, 1);
  EXPECT_GT(refused_locks, 0);
  EXPECT_EQ(visdb_violations(file), "");
}

TEST(VisDbWriter, TemporaryFilesStayInTheOutputDirectory) {
  // Sorting more than the cache holds needs temporary files. With /tmp and the like out of reach they must work all the same.
  const TemporaryDirectory directory;
  const TemporaryDirectory elsewhere;
  VisDbWriter writer(directory.path(), false);
  RowBatch batch = small_graph(Side::target, 0, 0, false);
  writer.add(batch);
  batch.stacks.clear();
  NodeRow row = batch.nodes[1];
  row.up_node = std::string(3000, 'u');
  row.matched_node_link = "[\"" + std::string(3000, 'n') + "\"]";
  batch.nodes.assign(40'000, row);
  for (std::size_t at = 0; at < batch.nodes.size(); ++at) {
    batch.nodes[at].name = "node." + std::to_string(at);
  }
  writer.add(batch);
  const std::string old_directory = sqlite3_temp_directory == nullptr ? "" : sqlite3_temp_directory;
  EXPECT_EQ(old_directory, "");
  ::setenv("SQLITE_TMPDIR", (elsewhere.path() / "missing").c_str(), 1);
  const fs::path file = writer.finish(compare_config(), {}, {});
  ::unsetenv("SQLITE_TMPDIR");
  EXPECT_THAT(names_in(directory.path()), ElementsAre(file.filename().string()));
  EXPECT_EQ(single_value(file, "PRAGMA integrity_check"), "ok");
}

// --- a file that is taken up again -----------------------------------------------------------------------------------------------------

std::vector<SavedItem> items_of(VisDbWriter& writer) {
  std::vector<SavedItem> items;
  writer.for_each_item([&](SavedItem&& item) { items.push_back(std::move(item)); });
  return items;
}

TEST(VisDbResume, WhatWasCommittedIsThere) {
  const TemporaryDirectory directory;
  fs::path partial;
  {
    VisDbWriter writer(directory.path(), true);
    partial = writer.partial_path();
    writer.save("key", std::string("a\0b", 3));
    writer.begin_item(0, 0);
    writer.begin_item(0, 1);
    writer.add(small_graph(Side::target, 0, 0, false));
    writer.add(small_graph(Side::target, 0, 1, false));
    writer.add_link_records(0, 0, "records of rank 0");
    writer.add_link_records(0, 1, "lost");
    writer.add_group_counts({{Side::target, 0, 0, "group", "all_reduce", {0, 1}, 3}});
    writer.end_item(0, 0, "result");
    EXPECT_EQ(writer.durable_items(), 0U);
    writer.commit();
    EXPECT_EQ(writer.durable_items(), 1U);
    writer.end_item(0, 1, "never committed");
    writer.keep(true);
  }
  EXPECT_THAT(VisDbWriter::partial_files(directory.path(), true), ElementsAre(partial));
  EXPECT_THAT(VisDbWriter::partial_files(directory.path(), false), ElementsAre());
  VisDbWriter writer(partial);
  EXPECT_EQ(writer.saved("key"), std::string("a\0b", 3));
  EXPECT_EQ(writer.saved("other"), std::nullopt);
  EXPECT_EQ(writer.rows(), 6U);
  EXPECT_EQ(writer.durable_items(), 1U);
  const auto items = items_of(writer);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_TRUE(items[0].done);
  EXPECT_EQ(items[0].result, "result");
  EXPECT_FALSE(items[1].done);
  writer.remove(0, 1);
  EXPECT_EQ(writer.rows(), 3U);
  std::string records;
  writer.for_each_link_records([&](std::string_view some) { records += some; });
  EXPECT_EQ(records, "records of rank 0");
  EXPECT_EQ(writer.link_record_bytes(), records.size());
  std::vector<GroupCount> counts;
  writer.for_each_group([&](std::vector<GroupCount>&& group) { counts.insert(counts.end(), group.begin(), group.end()); });
  EXPECT_THAT(counts, ElementsAre(GroupCount{Side::target, 0, 0, "group", "all_reduce", {0, 1}, 3}));
  writer.add(small_graph(Side::target, 0, 1, false));
  const auto path = writer.finish(compare_config(), {}, {});
  EXPECT_EQ(path.string() + ".partial", partial.string());
  EXPECT_EQ(single_value(path, "SELECT count(*) FROM tb_nodes"), "6");
  EXPECT_EQ(single_value(path, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'msvis_resume%'"), "0");
}

// The end fails in its last transaction, in which the tables for resuming were dropped: the disk is full.
TEST(VisDbResume, AFailedEndLeavesWhatWasCommitted) {
  const TemporaryDirectory directory;
  constexpr std::int64_t ranks = 300;
  std::optional<VisDbWriter> writer(std::in_place, directory.path(), true);
  const fs::path partial = writer->partial_path();
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    writer->add(small_graph(Side::target, 0, rank, false));
    writer->end_item(0, rank, "result");
  }
  writer->commit();
  writer->keep(true);
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  struct rlimit small = before;
  small.rlim_cur = fs::file_size(partial) + 65536;
  writer->end_item(0, ranks, "committed by the end itself");
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(writer->finish(compare_config(), {}, {}), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(writer->durable_items(), std::size_t{ranks + 1});
  writer.reset();
  VisDbWriter again(partial);
  EXPECT_EQ(again.durable_items(), std::size_t{ranks + 1});
  EXPECT_EQ(again.rows(), 3U * ranks);
  const auto path = again.finish(compare_config(), {}, {});
  EXPECT_EQ(single_value(path, "SELECT count(*) FROM tb_nodes"), std::to_string(3 * ranks));
}

TEST(VisDbResume, GroupsComeInOrder) {
  const TemporaryDirectory directory;
  VisDbWriter writer(directory.path(), false);
  for (const std::int64_t rank : {2, 0, 1}) {
    writer.add_group_counts(
        {{Side::golden, 1, rank, "b", "x", {}, 1}, {Side::target, 1, rank, "b", "x", {}, 1}, {Side::target, 0, rank, "c", "x", {}, 1}});
  }
  std::vector<std::tuple<std::int64_t, Side, std::size_t, std::int64_t>> order;
  writer.for_each_group(
      [&](std::vector<GroupCount>&& group) { order.emplace_back(group[0].step, group[0].side, group.size(), group[2].rank); });
  EXPECT_THAT(order, ElementsAre(std::tuple(0, Side::target, 3, 2), std::tuple(1, Side::target, 3, 2), std::tuple(1, Side::golden, 3, 2)));
}

TEST(VisDbResume, OneThatIsOpenElsewhereIsRefused) {
  const TemporaryDirectory directory;
  const VisDbWriter writer(directory.path(), true);
  try {
    const VisDbWriter again(writer.partial_path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::path);
    EXPECT_THAT(error.what(), HasSubstr("another run"));
  }
  EXPECT_TRUE(fs::exists(writer.partial_path()));
}

TEST(VisDbResume, NewestFirst) {
  const TemporaryDirectory directory;
  for (const char* name : {"compare_20260101000000.vis.db.partial", "compare_20261231235959.vis.db.partial", "compare_2026.vis.db.partial",
                           "compare_20260101000001.vis.db", "build_20270101000000.vis.db.partial"}) {
    std::ofstream(directory.path() / name) << "";
  }
  EXPECT_THAT(VisDbWriter::partial_files(directory.path(), true), ElementsAre(directory.path() / "compare_20261231235959.vis.db.partial",
                                                                              directory.path() / "compare_20260101000000.vis.db.partial"));
}

}  // namespace
}  // namespace msvis
