#include "hdf5/hdf5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "msvis/error.h"
#include "support/temporary_directory.h"

namespace msvis {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Hdf5, FileIsCreatedAndReadWithoutLocks) {
  const auto lock = hdf5::lock();
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "a.h5";
  {
    hdf5::Handle file = hdf5::create_file(path, 512);
    const hdf5::Handle group(H5Gcreate2(file.id(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, "creating a group", path);
    file.close("closing the file", path);  // the group is closed with it
    EXPECT_FALSE(file);
  }
  EXPECT_STREQ(std::getenv("HDF5_USE_FILE_LOCKING"), "FALSE");
  const hdf5::Handle file = hdf5::open_file(path);
  EXPECT_GT(H5Lexists(file.id(), "g", H5P_DEFAULT), 0);
}

TEST(Hdf5, ErrorsNameFileAndReason) {
  const auto lock = hdf5::lock();
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "none.h5";
  try {
    hdf5::open_file(path);
    FAIL() << "a file that is not there was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::io);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("none.h5"), HasSubstr("opening the file"), HasSubstr("No such file")));
  }
}

TEST(Hdf5, HandlesMove) {
  const auto lock = hdf5::lock();
  hdf5::Handle one(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "creating a list", {});
  hdf5::Handle two(std::move(one));
  EXPECT_TRUE(two);
  one = std::move(two);
  EXPECT_TRUE(one);
  EXPECT_GT(H5Iis_valid(one.id()), 0);
}

}  // namespace
}  // namespace msvis
