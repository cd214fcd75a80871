#include "table/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "msvis/error.h"
#include "support/temporary_directory.h"

namespace msvis {
namespace {

using ::testing::HasSubstr;

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string failure_of(const std::filesystem::path& file) {
  try {
    const NewFile trial(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::path);
    return error.what();
  }
  return {};
}

class NewFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::ptrdiff_t files() const { return std::distance(std::filesystem::directory_iterator(dir_.path()), {}); }
  test::TemporaryDirectory dir_;
};

TEST_F(NewFileTest, AppearsCompleteOrNotAtAll) {
  const auto file = dir_.path() / "table.csv";
  std::ofstream(file) << "old";
  {
    NewFile fresh(file);
    EXPECT_EQ(fresh.path().parent_path(), dir_.path());
    std::ofstream(fresh.path()) << "new";
    EXPECT_EQ(content_of(file), "old");
    EXPECT_EQ(files(), 2);
  }
  EXPECT_EQ(content_of(file), "old");
  EXPECT_EQ(files(), 1);
  NewFile fresh(file);
  NewFile another(file);
  EXPECT_NE(fresh.path(), another.path());
  std::ofstream(fresh.path()) << "new";
  fresh.publish();
  EXPECT_EQ(content_of(file), "new");
}

TEST_F(NewFileTest, ReplacesWhatALinkPointsTo) {
  const auto real = dir_.path() / "real.csv";
  const auto link = dir_.path() / "link.csv";
  std::ofstream(real) << "old";
  std::filesystem::create_symlink(real, link);
  NewFile fresh(link);
  std::ofstream(fresh.path()) << "new";
  fresh.publish();
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(content_of(real), "new");
}

TEST_F(NewFileTest, UmaskRules) {
  const mode_t before = ::umask(0027);
  NewFile fresh(dir_.path() / "table.csv");
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(fresh.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST_F(NewFileTest, RefusesWhatCanNotBeReplaced) {
  EXPECT_THAT(failure_of(dir_.path()), HasSubstr("no regular file"));
  EXPECT_THAT(failure_of("/dev/null"), HasSubstr("no regular file"));
  EXPECT_THAT(failure_of(dir_.path() / "no" / "table.csv"), HasSubstr("existing, writable directory"));
  EXPECT_THAT(failure_of(dir_.path() / std::string(300, 'x')), HasSubstr("can't be written there"));
  EXPECT_THAT(failure_of("/proc/table.csv"), HasSubstr("/proc/table.csv"));
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace msvis
