#include "visdb/partial_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "msvis/error.h"
#include "support/temporary_directory.h"

namespace msvis {
namespace {

using test::TemporaryDirectory;
namespace fs = std::filesystem;

constexpr std::time_t noon = 1'700'000'000;

unsigned mode_of(const fs::path& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

std::string stamp(std::time_t time) {
  struct tm local {};
  ::localtime_r(&time, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%d%H%M%S", &local)};
}

void touch(const fs::path& file) {
  std::ofstream(file) << "x";
}

std::size_t files_in(const fs::path& directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST(PartialFile, NameIsTheLocalTimeAndDoesNotLookLikeAResult) {
  const TemporaryDirectory directory;
  const PartialFile file(directory.path(), "compare_", noon);
  EXPECT_EQ(file.path(), directory.path() / ("compare_" + stamp(noon) + ".vis.db.partial"));
  EXPECT_TRUE(fs::exists(file.path()));
}

TEST(PartialFile, ModeDoesNotDependOnTheUmask) {
  const TemporaryDirectory directory;
  for (const mode_t mask : {mode_t{0}, mode_t{077}, mode_t{022}, mode_t{0777}}) {
    const mode_t before = ::umask(mask);
    fs::path published;
    {
      PartialFile file(directory.path(), "build_", noon);
      EXPECT_EQ(mode_of(file.path()), 0640U) << mask;
      published = file.publish();
    }
    ::umask(before);
    EXPECT_EQ(mode_of(published), 0640U) << mask;
  }
}

TEST(PartialFile, IsRemovedUnlessPublished) {
  const TemporaryDirectory directory;
  {
    const PartialFile file(directory.path(), "build_", noon);
    touch(file.path().string() + "-journal");
  }
  EXPECT_EQ(files_in(directory.path()), 0U);
}

TEST(PartialFile, PublishingLeavesOnlyTheResult) {
  const TemporaryDirectory directory;
  {
    PartialFile file(directory.path(), "build_", noon);
    touch(file.path().string() + "-journal");
    EXPECT_EQ(file.publish(), directory.path() / ("build_" + stamp(noon) + ".vis.db"));
  }
  EXPECT_EQ(files_in(directory.path()), 1U);
}

TEST(PartialFile, RunsOfOneSecondGetDifferentNames) {
  const TemporaryDirectory directory;
  auto first = std::make_unique<PartialFile>(directory.path(), "compare_", noon);
  auto second = std::make_unique<PartialFile>(directory.path(), "compare_", noon);
  EXPECT_EQ(second->name(), "compare_" + stamp(noon + 1) + ".vis.db.partial");
  EXPECT_EQ(first->publish().filename(), "compare_" + stamp(noon) + ".vis.db");
  // The name is taken by a result now.
  PartialFile third(directory.path(), "compare_", noon);
  EXPECT_EQ(third.name(), "compare_" + stamp(noon + 2) + ".vis.db.partial");
  EXPECT_EQ(third.publish().filename(), "compare_" + stamp(noon + 2) + ".vis.db");
  EXPECT_EQ(second->publish().filename(), "compare_" + stamp(noon + 1) + ".vis.db");
  // The other kind of run has names of its own.
  const PartialFile build(directory.path(), "build_", noon);
  EXPECT_EQ(build.name(), "build_" + stamp(noon) + ".vis.db.partial");
}

TEST(PartialFile, PublishingNeverReplacesAFile) {
  const TemporaryDirectory directory;
  PartialFile file(directory.path(), "compare_", noon);
  const fs::path taken = directory.path() / ("compare_" + stamp(noon) + ".vis.db");
  touch(taken);
  fs::create_symlink("nowhere", directory.path() / ("compare_" + stamp(noon + 1) + ".vis.db"));
  EXPECT_EQ(file.publish().filename(), "compare_" + stamp(noon + 2) + ".vis.db");
  EXPECT_EQ(fs::file_size(taken), 1U);
}

TEST(PartialFile, ManyProcessesNeverShareAName) {
  const TemporaryDirectory directory;
  constexpr int processes = 8;
  for (int process = 0; process < processes; ++process) {
    if (::fork() == 0) {
      try {
        for (int round = 0; round < 5; ++round) {
          PartialFile(directory.path(), "compare_", noon).publish();
        }
        ::_exit(0);
      } catch (const Error&) {
        ::_exit(1);
      }
    }
  }
  for (int process = 0; process < processes; ++process) {
    int status = 0;
    ::wait(&status);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(files_in(directory.path()), 40U);
}

TEST(PartialFile, AMissingDirectoryIsAnErrorThatNamesIt) {
  const TemporaryDirectory directory;
  const fs::path missing = directory.path() / "missing";
  try {
    const PartialFile file(missing, "build_", noon);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::path);
    EXPECT_EQ(error.file(), missing);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
  touch(missing);
  EXPECT_THROW(PartialFile(missing, "build_", noon), Error);
}

TEST(PartialFile, AReadOnlyDirectoryIsAnErrorThatNamesTheFile) {
  const TemporaryDirectory directory;
  ::chmod(directory.path().c_str(), 0555);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::getuid() == 0 && ::setuid(65534) != 0) {  // root may write everywhere
      ::_exit(3);
    }
    try {
      const PartialFile file(directory.path(), "build_", noon);
    } catch (const Error& error) {
      ::_exit(error.category() == ErrorCategory::path && error.file().parent_path() == directory.path() ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::chmod(directory.path().c_str(), 0755);
  EXPECT_EQ(files_in(directory.path()), 0U);
}

TEST(PartialFile, FollowsItsDirectory) {
  const TemporaryDirectory directory;
  fs::create_directory(directory.path() / "out");
  PartialFile file(directory.path() / "out", "build_", noon);
  fs::rename(directory.path() / "out", directory.path() / "moved");
  (void)file.publish();
  EXPECT_TRUE(fs::exists(directory.path() / "moved" / ("build_" + stamp(noon) + ".vis.db")));
}

}  // namespace
}  // namespace msvis
