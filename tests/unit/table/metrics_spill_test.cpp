#include "table/metrics_spill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "msvis/error.h"
#include "support/temporary_directory.h"

namespace msvis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A batch of no rows that a reader can tell from others by its block and size.
std::string batch_of(std::int64_t step, std::int64_t rank, std::uint32_t block, std::string_view filling = "") {
  ByteWriter out;
  out.put('M');
  out.put(step);
  out.put(rank);
  out.put(block);
  out.put(std::uint32_t{0});
  out.put(std::uint64_t{0});
  for (std::size_t kind = 0; kind < text_kinds; ++kind) {
    out.put(std::uint64_t{0});
  }
  out.put(filling);
  return out.take();
}

class Spill : public ::testing::Test {
 protected:
  using Place = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;
  static std::vector<Place> places(const MetricsSpill& spill) {
    std::vector<Place> all;
    for (const MetricsSpill::Frame& frame : spill.frames()) {
      all.emplace_back(frame.header.step, frame.header.rank, frame.header.block);
      EXPECT_EQ(read_metrics_header(spill.read(frame)).block, frame.header.block);
    }
    return all;
  }
  /// Fills a file that stays.
  std::uint64_t make_file() {
    MetricsSpill spill(file_);
    spill.append(batch_of(0, 1, 0, "first"));
    spill.append(batch_of(0, 0, 0, "second"));
    const std::uint64_t committed = spill.size();
    spill.remove(0, 1);
    spill.append(batch_of(0, 2, 0));
    spill.keep(true);
    return committed;
  }
  std::string failure_of_resume(std::uint64_t committed) {
    try {
      MetricsSpill::resume(file_, committed).keep(true);
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::io);
      return error.what();
    }
    return {};
  }
  void change_byte(std::uint64_t offset) {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }

  test::TemporaryDirectory dir_;
  std::filesystem::path file_ = dir_.path() / "run.partial-metrics";
};

TEST_F(Spill, SortsAndKeepsTheOrderWithinABlock) {
  MetricsSpill spill(file_);
  spill.append(batch_of(1, 0, 0));
  spill.append(batch_of(0, 10, 1, "a"));
  spill.append(batch_of(0, 10, 0));
  spill.append(batch_of(0, 10, 1, "b"));
  spill.append(batch_of(0, 2, 7));
  EXPECT_THAT(places(spill), ElementsAre(Place(0, 2, 7), Place(0, 10, 0), Place(0, 10, 1), Place(0, 10, 1), Place(1, 0, 0)));
  EXPECT_EQ(unpack_metrics_batch(spill.read(spill.frames()[2])).packed_rows, "a");
  EXPECT_EQ(unpack_metrics_batch(spill.read(spill.frames()[3])).packed_rows, "b");
}

TEST_F(Spill, RemovedRowsDoNotCountLaterOnesDo) {
  MetricsSpill spill(file_);
  spill.append(batch_of(0, 0, 0));
  spill.append(batch_of(0, 1, 0));
  spill.append(batch_of(1, 1, 0));
  spill.remove(0, 1);
  spill.append(batch_of(0, 1, 5));
  EXPECT_THAT(places(spill), ElementsAre(Place(0, 0, 0), Place(0, 1, 5), Place(1, 1, 0)));
}

TEST_F(Spill, TruncateForgetsRowsAndRemovals) {
  MetricsSpill spill(file_);
  spill.append(batch_of(0, 0, 0));
  const std::uint64_t size = spill.size();
  spill.append(batch_of(0, 1, 0));
  spill.remove(0, 0);
  spill.truncate(size);
  EXPECT_EQ(spill.size(), size);
  EXPECT_EQ(std::filesystem::file_size(file_), size);
  EXPECT_THAT(places(spill), ElementsAre(Place(0, 0, 0)));
  spill.append(batch_of(0, 3, 0));
  EXPECT_THAT(places(spill), ElementsAre(Place(0, 0, 0), Place(0, 3, 0)));
}

TEST_F(Spill, GoesWithTheObjectUnlessKept) {
  {
    MetricsSpill spill(file_);
    spill.append(batch_of(0, 0, 0));
    struct stat status {};
    ASSERT_EQ(::stat(file_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0640U);
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
  make_file();
  EXPECT_TRUE(std::filesystem::exists(file_));
}

TEST_F(Spill, NeverTakesAFileThatIsThere) {
  std::ofstream(file_) << "mine";
  EXPECT_THROW(MetricsSpill spill(file_), Error);
  EXPECT_EQ(std::filesystem::file_size(file_), 4U);
}

TEST_F(Spill, ResumesWhatWasCommitted) {
  const std::uint64_t committed = make_file();
  std::ofstream(file_, std::ios::app) << "torn";
  MetricsSpill spill = MetricsSpill::resume(file_, committed);
  EXPECT_EQ(spill.size(), committed);
  EXPECT_EQ(std::filesystem::file_size(file_), committed);
  EXPECT_THAT(places(spill), ElementsAre(Place(0, 0, 0), Place(0, 1, 0)));
  spill.remove(0, 0);
  EXPECT_THAT(places(spill), ElementsAre(Place(0, 1, 0)));
}

TEST_F(Spill, ResumesRemovals) {
  make_file();
  const MetricsSpill spill = MetricsSpill::resume(file_, std::filesystem::file_size(file_));
  EXPECT_THAT(places(spill), ElementsAre(Place(0, 0, 0), Place(0, 2, 0)));
}

TEST_F(Spill, DamageBeforeTheCommitIsTold) {
  const std::uint64_t committed = make_file();
  EXPECT_THAT(failure_of_resume(committed - 1), HasSubstr("damaged"));  // no end of a frame
  EXPECT_THAT(failure_of_resume(committed + 4), HasSubstr("damaged"));
  EXPECT_THAT(failure_of_resume(committed * 10), HasSubstr("damaged"));
  for (std::uint64_t offset = 0; offset < committed; ++offset) {
    change_byte(offset);
    EXPECT_THAT(failure_of_resume(committed), HasSubstr("run.partial-metrics")) << offset;
    change_byte(offset);
  }
  EXPECT_EQ(failure_of_resume(committed), "");
  std::filesystem::remove(file_);
  EXPECT_THAT(failure_of_resume(0), HasSubstr("No such file"));
}

TEST_F(Spill, ReadFindsDamage) {
  MetricsSpill spill(file_);
  spill.append(batch_of(0, 0, 0, "content"));
  change_byte(spill.size() - 1);
  EXPECT_THROW(static_cast<void>(spill.read(spill.frames().front())), Error);
}

}  // namespace
}  // namespace msvis
