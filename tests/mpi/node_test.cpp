// What a process finds out about its node and its output directory; and the way of its signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "mpi/background.h"
#include "mpi/node_resources.h"
#include "mpi/output_directory.h"
#include "mpi/signals.h"
#include "mpi_test_main.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

ProcessResources on_cores(std::initializer_list<std::size_t> cores, std::uint64_t memory = 0, unsigned quota = 0) {
  ProcessResources resources;
  for (const std::size_t core : cores) {
    resources.cores.resize(std::max(resources.cores.size(), core + 1), false);
    resources.cores[core] = true;
  }
  resources.available_memory = memory;
  resources.core_quota = quota;
  return resources;
}

TEST(NodeResources, BoundProcessesShareTheCoresOfAll) {
  // Two processes bound to one core each, as mpirun -n 2 does it.
  const auto nodes = combine_by_node({on_cores({0}), on_cores({1})}, {0, 0});
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].cores, 2U);
  EXPECT_EQ(nodes[0].processes, 2U);
  EXPECT_EQ(default_threads(nodes[0], 0), 1U);
  EXPECT_EQ(default_threads(nodes[0], 1), 1U);
}

TEST(NodeResources, CoresThatAreSharedCountOnce) {
  const auto nodes = combine_by_node({on_cores({0, 1, 2}), on_cores({2, 3, 4}), on_cores({70})}, {0, 0, 1});
  EXPECT_EQ(nodes.at(0).cores, 5U);
  EXPECT_EQ(nodes.at(1).cores, 1U);
  EXPECT_EQ(default_threads(nodes[0], 0), 3U);
  EXPECT_EQ(default_threads(nodes[0], 1), 2U);
}

TEST(NodeResources, ManyProcessesOnFewCoresHaveOneThreadEach) {
  const std::vector<ProcessResources> all(64, on_cores({0, 1}));
  const auto nodes = combine_by_node(all, std::vector<int>(64, 0));
  EXPECT_EQ(default_threads(nodes.at(0), 0), 1U);
  EXPECT_EQ(default_threads(nodes.at(0), 63), 1U);
}

TEST(NodeResources, QuotaAndMemory) {
  const auto nodes = combine_by_node({on_cores({0, 1, 2, 3}, 5000, 2), on_cores({0, 1, 2, 3}, 4000), on_cores({0}, 0)}, {0, 0, 1});
  EXPECT_EQ(nodes.at(0).cores, 2U);
  EXPECT_EQ(nodes.at(0).available_memory, 4000U);
  EXPECT_EQ(nodes.at(1).available_memory, 0U) << "unknown";
}

TEST(NodeResources, PackedAndBack) {
  const auto before = on_cores({0, 9, 130}, UINT64_MAX - 3, 7);
  const auto after = unpack_process_resources(pack(before));
  for (std::size_t core = 0; core < after.cores.size(); ++core) {
    EXPECT_EQ(after.cores[core], core == 0 || core == 9 || core == 130) << core;
  }
  EXPECT_EQ(after.available_memory, before.available_memory);
  EXPECT_EQ(after.core_quota, 7U);
}

TEST(NodeResources, OfThisMachine) {
  const auto own = own_resources();
  EXPECT_GT(std::count(own.cores.begin(), own.cores.end(), true), 0);
  EXPECT_GT(own.available_memory, std::uint64_t{1} << 20U);
  const auto nodes = gather_nodes(transport());
  unsigned processes = 0;
  for (const auto& node : nodes) {
    processes += node.processes;
    EXPECT_GE(node.cores, 1U);
  }
  EXPECT_EQ(processes, static_cast<unsigned>(transport().processes()));
}

class OutputDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/msvis-output-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(OutputDirectoryTest, CreatesWithModeWhateverTheUmask) {
  for (const mode_t mask : {mode_t{0000}, mode_t{0777}, mode_t{0022}}) {
    const mode_t before = umask(mask);
    {
      OutputDirectory directory(folder_ / "a" / "b/");
      umask(before);
      for (const fs::path& path : {folder_ / "a", folder_ / "a" / "b"}) {
        struct stat status {};
        ASSERT_EQ(stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777U, 0750U) << path;
      }
    }
    EXPECT_FALSE(fs::exists(folder_ / "a")) << "what was made goes when it was not needed";
  }
}

TEST_F(OutputDirectoryTest, KeepsWhatIsNeeded) {
  {
    OutputDirectory directory(folder_ / "kept");
    directory.keep();
    OutputDirectory other(folder_ / "used" / "too");
    std::ofstream(folder_ / "used" / "too" / "file") << "x";
  }
  EXPECT_TRUE(fs::exists(folder_ / "kept"));
  EXPECT_TRUE(fs::exists(folder_ / "used" / "too" / "file"));
  { const OutputDirectory again(folder_ / "kept"); }
  EXPECT_TRUE(fs::exists(folder_ / "kept")) << "it was there before";
}

TEST_F(OutputDirectoryTest, RefusesWhatIsNoDirectory) {
  std::ofstream(folder_ / "file") << "x";
  for (const fs::path& path : {folder_ / "file", folder_ / "file" / "below", folder_ / std::string(300, 'x')}) {
    try {
      const OutputDirectory directory(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::path);
      EXPECT_THAT(error.what(), HasSubstr("-o"));
    }
  }
  // Nothing half-made stays when a level can't be created.
  EXPECT_THROW(OutputDirectory(folder_ / "new" / std::string(300, 'x')), Error);
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(OutputDirectoryTest, WarnsOfWhatTheViewerDislikes) {
  chmod(folder_.c_str(), 0750);
  EXPECT_TRUE(OutputDirectory(folder_).warnings().empty());
  std::ofstream(folder_ / "old.vis.db") << "x";
  EXPECT_THAT(OutputDirectory(folder_).warnings(), ElementsAre(HasSubstr("'old.vis.db'")));
  fs::remove(folder_ / "old.vis.db");
  chmod(folder_.c_str(), 0770);
  EXPECT_THAT(OutputDirectory(folder_).warnings(), ElementsAre(HasSubstr("group or others")));
  chmod(folder_.c_str(), 0750);
  fs::create_directory(folder_ / "real");
  chmod((folder_ / "real").c_str(), 0750);
  fs::create_directory_symlink(folder_ / "real", folder_ / "link");
  EXPECT_THAT(OutputDirectory(folder_ / "link").warnings(), ElementsAre(HasSubstr("symbolic link")));
  EXPECT_THAT(OutputDirectory((folder_ / "link").string() + "/").warnings(), ElementsAre(HasSubstr("symbolic link")));
}

TEST(Background, ReportsWhatWasThrownAndKeepsIdling) {
  int idles = 0;
  EXPECT_FALSE(run_in_background([] { usleep(120'000); }, [&] { ++idles; }));
  EXPECT_GE(idles, 2);
  const auto fault = run_in_background([] { throw Error(ErrorCategory::io, "no space"); }, [] {});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->text, "no space");
}

TEST(Signals, TheFirstIsNotedAndOthersAreIgnored) {
  note_signals();
  EXPECT_EQ(noted_signal(), 0);
  raise(SIGPIPE);
  raise(SIGXFSZ);
  EXPECT_EQ(noted_signal(), 0);
  raise(SIGTERM);
  raise(SIGINT);
  EXPECT_EQ(noted_signal(), SIGTERM);
  EXPECT_EQ(exit_code_of_signal(SIGTERM), 1);
  EXPECT_EQ(exit_code_of_signal(SIGINT), 130);
}

}  // namespace
}  // namespace msvis
