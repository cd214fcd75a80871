#include "mpi/metrics_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "mpi_test_main.h"
#include "support/dump_files.h"
#include "support/temporary_directory.h"

namespace msvis {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t nodes = 2 * metrics_block_nodes + 100;

/// A dump of many APIs, each with eleven inputs, so that the order of their names is not that of their numbers.
Graph many_nodes() {
  std::string construct = "{";
  std::string data = R"({"task": "statistics", "framework": "pytorch", "data": {)";
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const std::string name = "\"Torch.f." + std::to_string(node) + ".forward\": ";
    construct += (node == 0 ? "" : ", ") + name + "null";
    data += (node == 0 ? "" : ", ") + name + R"({"input_args": [)";
    for (int input = 0; input < 11; ++input) {
      data += std::string(input == 0 ? "" : ", ") + R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": )" +
              std::to_string(node) + "." + std::to_string(input) + R"(, "Min": 0.0, "Mean": 0.5, "Norm": 1.5, "requires_grad": false})";
    }
    data += R"(], "output": []})";
  }
  const test::TemporaryDirectory dir;
  test::write_dump(dir.path(), construct + "}", data + "}}");
  return build_graph(Dump::read(dir.path()), Compat::standard);
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class MetricsExport : public ::testing::Test {
 protected:
  void SetUp() override {
    // All processes use the directory of process 0.
    std::string name;
    if (leads()) {
      directory_.emplace();
      name = directory_->path().string();
    }
    transport().broadcast(name, "testing");
    folder_ = name;
    hooks_.idle = [] {};
    hooks_.stop_wanted = [] { return std::optional<Fault>(); };
    hooks_.writing = [this](const std::filesystem::path& temporary) { temporary_ = temporary; };
  }
  void TearDown() override {
    // Nobody needs the directory any more.
    transport().maximum(0, "testing");
  }

  static bool leads() { return transport().process() == 0; }

  /// Batches of two steps with two ranks, in an order of chance, and one rank that is taken back. Process 0 only.
  void fill(MetricsSpill& spill) const {
    const Graph graph = many_nodes();
    std::vector<std::string> batches;
    for (const std::int64_t step : {0, 10}) {
      for (const std::int64_t rank : {3, 20}) {
        const MetricsSource source{&graph, nullptr, nullptr, step, rank, Compat::standard, nullptr};
        make_metrics_batches(source, 20'000, [&](std::string&& batch) { batches.push_back(std::move(batch)); });
      }
    }
    std::shuffle(batches.begin(), batches.end(), std::mt19937(5));  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
    for (const std::string& batch : batches) {
      spill.append(batch);
    }
    spill.remove(10, 20);
  }

  /// Returns the number of rows in process 0, and the same number elsewhere.
  std::uint64_t write(const char* name, const MetricsExportLimits& limits) {
    std::optional<MetricsSpill> spill;
    if (leads()) {
      spill.emplace(folder_ / "spill");
      fill(*spill);
    }
    const std::uint64_t rows = export_metrics(transport(), spill ? &*spill : nullptr, folder_ / name, {"1.2", false, {}}, hooks_, limits);
    return static_cast<std::uint64_t>(transport().maximum(leads() ? static_cast<std::int64_t>(rows) : 0, "testing"));
  }

  std::filesystem::path folder_;
  std::filesystem::path temporary_;
  MetricsExportHooks hooks_;

 private:
  std::optional<test::TemporaryDirectory> directory_;
};

TEST_F(MetricsExport, PiecesAndRoundsDoNotShow) {
  constexpr std::uint64_t rows = std::uint64_t{3} * nodes * 11;
  EXPECT_EQ(write("large.h5", {}), rows);
  EXPECT_EQ(write("small.h5", {.piece_bytes = 1}), rows);  // a block at a time
  EXPECT_EQ(write("large.csv", {}), rows);
  EXPECT_EQ(write("small.csv", {.piece_bytes = 1}), rows);
  if (!leads()) {
    return;
  }
  EXPECT_EQ(content_of(folder_ / "large.h5"), content_of(folder_ / "small.h5"));
  const std::string csv = content_of(folder_ / "large.csv");
  EXPECT_EQ(csv, content_of(folder_ / "small.csv"));
  EXPECT_EQ(static_cast<std::uint64_t>(std::count(csv.begin(), csv.end(), '\n')), rows + 1);
  EXPECT_THAT(csv, HasSubstr("\r\n0,3,0,Torch.f.0.forward,input.0,0,,,torch.float32,,[2],,,NaN,0,0,0.5,1.5,NaN"));
  // By the bytes of the name: input.10 comes before input.2.
  EXPECT_LT(csv.find("\r\n10,3,7,Torch.f.7.forward,input.10,10,"), csv.find("\r\n10,3,7,Torch.f.7.forward,input.2,2,"));
  EXPECT_LT(csv.find("\r\n0,20,1123,"), csv.find("\r\n10,3,0,"));
  EXPECT_EQ(csv.find("\r\n10,20,"), std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 4) << "something else is left";
  EXPECT_TRUE(temporary_.empty());
}

TEST_F(MetricsExport, ColumnsAreWhatTheRowsHold) {
  write("table.h5", {.piece_bytes = 1});
  if (!leads()) {
    return;
  }
  const std::filesystem::path file = folder_ / "table.h5";
  const auto lock = hdf5::lock();
  const hdf5::Handle opened = hdf5::open_file(file);
  constexpr std::size_t rows = std::size_t{3} * nodes * 11;
  const auto read = [&](const char* path, hid_t type, auto value) {
    std::vector<decltype(value)> values(rows);
    const hdf5::Handle set(H5Dopen2(opened.id(), path, H5P_DEFAULT), H5Dclose, "opening", file);
    hdf5::check(H5Dread(set.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "reading", file);
    return values;
  };
  const auto steps = read("/table/step", H5T_NATIVE_INT64, std::int64_t{});
  const auto ranks = read("/table/rank", H5T_NATIVE_INT64, std::int64_t{});
  const auto orders = read("/table/node_order", H5T_NATIVE_UINT32, std::uint32_t{});
  const auto positions = read("/table/position", H5T_NATIVE_UINT32, std::uint32_t{});
  const auto maxima = read("/table/target_max", H5T_NATIVE_DOUBLE, double{});
  const auto cosines = read("/table/cosine", H5T_NATIVE_DOUBLE, double{});
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t graph = row / (std::size_t{nodes} * 11);
    ASSERT_EQ(steps[row], graph < 2 ? 0 : 10) << row;
    ASSERT_EQ(ranks[row], graph == 1 ? 20 : 3) << row;
    ASSERT_EQ(orders[row], row / 11 % nodes) << row;
    constexpr std::array<std::uint32_t, 11> by_name{0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9};
    ASSERT_EQ(positions[row], by_name[row % 11]) << row;
    ASSERT_EQ(maxima[row], std::stod(std::to_string(orders[row]) + "." + std::to_string(positions[row]))) << row;
    ASSERT_TRUE(std::isnan(cosines[row])) << row;
  }
}

TEST_F(MetricsExport, FailureIsAgreedAndLeavesNothing) {
  std::string text;
  try {
    write("no/such/folder/table.h5", {});
  } catch (const AgreedError& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("table.h5"));
  EXPECT_TRUE(temporary_.empty());
  if (leads()) {
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
  }
}

TEST_F(MetricsExport, AStopIsAgreedAndLeavesTheEarlierFile) {
  for (const char* name : {"table.h5", "table.csv"}) {
    if (leads()) {
      std::ofstream(folder_ / name) << "earlier";
    }
    // The last process alone is told to stop; alone, process 0 is.
    hooks_.stop_wanted = [] {
      const bool told = transport().process() == transport().processes() - 1;
      return told ? std::optional(Fault{ErrorCategory::interrupted, "stopped"}) : std::nullopt;
    };
    const bool asked = transport().processes() == 1 || std::string_view(name) == "table.h5";  // CSV is the work of process 0
    std::optional<ErrorCategory> category;
    try {
      write(name, {.piece_bytes = 1});
    } catch (const AgreedError& error) {
      category = error.category();
    }
    EXPECT_EQ(category, asked ? std::optional(ErrorCategory::interrupted) : std::nullopt);
    EXPECT_TRUE(temporary_.empty());
    if (leads() && asked) {
      EXPECT_EQ(content_of(folder_ / name), "earlier");
      std::filesystem::remove(folder_ / name);
      EXPECT_TRUE(std::filesystem::is_empty(folder_));
    }
  }
}

/// The others can write no more than a page. Which processes write is the choice of MPI-IO.
TEST_F(MetricsExport, AFullDiskOfSomeProcessesIsAgreed) {
  write("good.h5", {});
  ::signal(SIGXFSZ, SIG_IGN);  // NOLINT(cert-err33-c)
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  if (!leads()) {
    const struct rlimit limit { 4096, before.rlim_max };
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  std::string text;
  try {
    write("table.h5", {.piece_bytes = 1});
  } catch (const AgreedError& error) {
    text = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  if (!leads()) {
    return;
  }
  if (text.empty()) {
    EXPECT_EQ(content_of(folder_ / "table.h5"), content_of(folder_ / "good.h5"));
  } else {
    EXPECT_THAT(text, HasSubstr("table.h5"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "table.h5"));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  }
}

}  // namespace
}  // namespace msvis
