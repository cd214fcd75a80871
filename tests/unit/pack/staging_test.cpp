// A rank changes from one form to the other in one step or not at all; what dead runs left is cleaned up; hostile directories.
#include <sys/stat.h>

#include "pack/staging.h"
#include "unit/pack/rank_files.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;

using test::Rank;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void add_some(const Rank& rank) {
  for (int k = 0; k < 20; ++k) {
    rank.add(std::to_string(k) + ".pt", test::random_pt(DType::float32, {100}, static_cast<std::uint64_t>(k)));
  }
}

TEST(Staging, InterruptedAnywhereLeavesTheOriginals) {
  for (const bool unpack : {false, true}) {
    const Rank rank;
    add_some(rank);
    PackOptions options;
    options.replace = true;
    if (unpack) {
      pack_rank(rank.path(), options);
    }
    options.unpack = unpack;
    const auto before = rank.holds();
    int asked = 0;
    int stop_at = 1;
    options.interrupted = [&] { return ++asked == stop_at; };
    bool stopped = true;
    for (; stopped; stop_at += 3) {
      asked = 0;
      const std::string error = error_of([&] { pack_rank(rank.path(), options); });
      stopped = !error.empty();
      if (stopped) {
        EXPECT_THAT(error, HasSubstr("interrupted"));
        EXPECT_EQ(rank.holds(), before);
      }
    }
    EXPECT_GT(stop_at, 30);  // in the middle of copying and of comparing
    EXPECT_THAT(rank.holds(), ElementsAre(unpack ? "dump_tensor_data" : "dump_tensor_data.h5"));
  }
}

TEST(Staging, WhatDeadRunsLeftIsCleanedUp) {
  const Rank rank;
  add_some(rank);
  std::ofstream(rank.path() / "dump_tensor_data.h5.partial") << "half a pack";
  PackOptions options;
  options.replace = true;
  EXPECT_THAT(pack_rank(rank.path(), options).notes, Contains(HasSubstr("incomplete pack")));
  EXPECT_THAT(rank.holds(), ElementsAre("dump_tensor_data.h5"));

  // Killed while the originals were being removed.
  fs::create_directory(rank.path() / "dump_tensor_data.packed");
  std::ofstream(rank.path() / "dump_tensor_data.packed" / "19.pt") << "x";
  EXPECT_EQ(pack_rank(rank.path(), {}).outcome, PackResult::Outcome::checked);
  EXPECT_THAT(rank.holds(), ElementsAre("dump_tensor_data.h5", "dump_tensor_data.packed"));
  pack_rank(rank.path(), options);
  EXPECT_THAT(rank.holds(), ElementsAre("dump_tensor_data.h5"));

  fs::create_directory(rank.path() / "dump_tensor_data.partial");
  std::ofstream(rank.path() / "dump_tensor_data.partial" / "19.pt") << "x";
  options.unpack = true;
  pack_rank(rank.path(), options);
  EXPECT_THAT(rank.holds(), ElementsAre("dump_tensor_data"));
  EXPECT_EQ(rank.names().size(), 20U);
}

TEST(Staging, OriginalsAreNotRemovedWithoutAUsablePack) {
  const Rank rank;
  fs::remove(rank.tensors());
  fs::create_directory(rank.path() / "dump_tensor_data.packed");
  std::ofstream(rank.path() / "dump_tensor_data.packed" / "a.pt") << "x";
  std::ofstream(rank.packed()) << "no pack";
  PackOptions options;
  options.replace = true;
  EXPECT_THAT(error_of([&] { pack_rank(rank.path(), options); }), HasSubstr("dump_tensor_data.h5"));
  EXPECT_TRUE(fs::exists(rank.path() / "dump_tensor_data.packed" / "a.pt"));
}

TEST(Staging, ReplaceRefusesWhatItCantKeep) {
  PackOptions options;
  options.replace = true;
  {
    const Rank rank;
    add_some(rank);
    fs::create_directory(rank.tensors() / "more");
    EXPECT_THAT(error_of([&] { pack_rank(rank.path(), options); }), HasSubstr("more"));
    EXPECT_THAT(rank.holds(), ElementsAre("dump_tensor_data"));
  }
  {
    const Rank rank;
    add_some(rank);
    fs::rename(rank.tensors(), rank.path() / "elsewhere");
    fs::create_directory_symlink("elsewhere", rank.tensors());
    EXPECT_THAT(error_of([&] { pack_rank(rank.path(), options); }), HasSubstr("symbolic link"));
    pack_rank(rank.path(), {});
    EXPECT_THAT(rank.holds(), ElementsAre("dump_tensor_data", "dump_tensor_data.h5", "elsewhere"));
  }
}

TEST(Staging, LinksAreNotWrittenThrough) {
  const Rank rank;
  add_some(rank);
  std::ofstream(rank.path() / "victim") << "precious";
  fs::create_symlink("victim", rank.path() / "dump_tensor_data.h5.partial");
  pack_rank(rank.path(), {});
  EXPECT_EQ(test::read_bytes(rank.path() / "victim"), "precious");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(rank.packed())));

  // A link in the place of the pack is replaced itself.
  fs::remove(rank.packed());
  fs::create_symlink("victim", rank.packed());
  pack_rank(rank.path(), {});
  EXPECT_EQ(test::read_bytes(rank.path() / "victim"), "precious");
  // Linked files are packed by their content, and only the link goes.
  fs::create_symlink(rank.path() / "victim", rank.tensors() / "linked.pt");
  PackOptions options;
  options.replace = true;
  pack_rank(rank.path(), options);
  EXPECT_EQ(test::read_bytes(rank.path() / "victim"), "precious");
}

TEST(Staging, UnpackDoesNotOverwrite) {
  const Rank rank;
  add_some(rank);
  pack_rank(rank.path(), {});
  PackOptions options;
  options.unpack = true;
  EXPECT_THAT(error_of([&] { pack_rank(rank.path(), options); }), HasSubstr("is there already"));
  EXPECT_EQ(rank.names().size(), 20U);
}

TEST(Staging, NothingToPack) {
  const test::TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] { pack_rank(directory.path(), {}); }), HasSubstr("no dump_tensor_data"));
  PackOptions options;
  options.unpack = true;
  EXPECT_THAT(error_of([&] { pack_rank(directory.path(), options); }), HasSubstr("dump_tensor_data.h5"));
}

TEST(Staging, TwoAtOnceDoNotMixTheirFiles) {
  const test::TemporaryDirectory directory;
  const fs::path path = directory.path() / "a.partial";
  StagedFile first(path, 0640);
  EXPECT_TRUE(first.own());
  {
    StagedFile second(path, 0640);
    EXPECT_FALSE(first.own());
    EXPECT_THAT(error_of([&] { first.publish(directory.path() / "a"); }), HasSubstr("another msvis-pack"));
    second.publish(directory.path() / "a");
  }
  EXPECT_TRUE(fs::exists(directory.path() / "a"));
}

TEST(Staging, ModesFollowTheOriginals) {
  const Rank rank;
  add_some(rank);
  fs::permissions(rank.tensors(), static_cast<fs::perms>(0750));
  PackOptions options;
  options.replace = true;
  pack_rank(rank.path(), options);
  const auto mode = [](const fs::path& path) { return static_cast<unsigned>(fs::status(path).permissions()); };
  EXPECT_EQ(mode(rank.packed()), 0640U);
  options.unpack = true;
  pack_rank(rank.path(), options);
  EXPECT_EQ(mode(rank.tensors()), 0750U);
  EXPECT_EQ(mode(rank.tensors() / "1.pt"), 0640U);
}

TEST(Staging, ChangedWhileItWasPackedIsNoticed) {
  const Rank rank;
  add_some(rank);
  int asked = 0;
  PackOptions options;
  options.replace = true;
  options.interrupted = [&] {
    if (++asked == 15) {
      rank.add("0.pt", test::random_pt(DType::float32, {100}, 77));
    }
    return false;
  };
  EXPECT_THAT(error_of([&] { pack_rank(rank.path(), options); }), HasSubstr("0.pt"));
  EXPECT_THAT(rank.holds(), ElementsAre("dump_tensor_data"));
  asked = 0;
  options.interrupted = [&] {
    if (++asked == 15) {
      rank.add("later.pt", "x");
    }
    return false;
  };
  EXPECT_THAT(error_of([&] { pack_rank(rank.path(), options); }), HasSubstr("later.pt"));
}

}  // namespace
}  // namespace msvis
