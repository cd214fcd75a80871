// Names of files in JSON, kinds of files, reader rules.
#include <sys/stat.h>
#include <unistd.h>

#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

using testing::ElementsAre;

TEST(DataName, PlainNamesAreJoined) {
  for (const std::string_view name :
       {"Torch.add.0.forward.input.0.pt", "a", "...", "..a", "a..pt", "mit Leerzeichen.npy", "\xc3\xa4.pt", "back\\slash"}) {
    EXPECT_EQ(resolve_data_name("/dump/dump_tensor_data", name), std::filesystem::path("/dump/dump_tensor_data") / name);
  }
}

TEST(DataName, NamesThatLeaveTheFolderAreRefused) {
  for (const std::string_view name :
       {std::string_view(""), std::string_view("."), std::string_view(".."), std::string_view("../x.pt"), std::string_view("/etc/passwd"),
        std::string_view("a/b.pt"), std::string_view("a/"), std::string_view("x\0.pt", 5)}) {
    for (const Compat compat : {Compat::standard, Compat::reference}) {
      expect_fault(TensorFault::bad_name, "no plain file name", [&] { (void)resolve_data_name("/dump", name, compat); });
    }
  }
}

TEST(DataName, TheReferenceAllowsFewCharacters) {
  EXPECT_NO_THROW((void)resolve_data_name("/dump", "Module.a_b.C-1:2.forward.0.input.0.pt", Compat::reference));
  for (const std::string_view name : {"a b.pt", "a+b.pt", "a@b.pt", "a=b.pt", "a~.pt", "a[0].pt", "\xc3\xa4.pt"}) {
    expect_fault(TensorFault::bad_name, "not accepted", [&] { (void)resolve_data_name("/dump", name, Compat::reference); });
    EXPECT_NO_THROW((void)resolve_data_name("/dump", name));
  }
  EXPECT_NO_THROW((void)resolve_data_name("/dump", std::string(255, 'a'), Compat::reference));
  expect_fault(TensorFault::bad_name, "not accepted", [&] { (void)resolve_data_name("/dump", std::string(256, 'a'), Compat::reference); });
}

class Files : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& bytes) const {
    return write_bytes(directory_.path() / name, bytes);
  }
  [[nodiscard]] std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }

 private:
  TemporaryDirectory directory_;
};

TEST_F(Files, ReasonsOfFilesThatCanNotBeRead) {
  expect_fault(TensorFault::missing, "no such file", [&] { (void)read_tensor(path("none.pt")); });
  expect_fault(TensorFault::missing, "no such file", [&] { (void)read_tensor(path("none/none.pt")); });
  expect_fault(TensorFault::unreadable, "not a regular file", [&] { (void)read_tensor(path("")); });
  ASSERT_EQ(::mkfifo(path("pipe.pt").c_str(), 0600), 0);
  expect_fault(TensorFault::unreadable, "not a regular file", [&] { (void)read_tensor(path("pipe.pt")); });
  expect_fault(TensorFault::unreadable, "not a regular file", [&] { (void)read_tensor("/dev/zero"); });
  expect_fault(TensorFault::unreadable, "can't be opened", [&] { (void)read_tensor(path(std::string(300, 'n'))); });
  expect_fault(TensorFault::damaged, "is empty", [&] { (void)read_tensor(file("empty.pt", "")); });
  expect_fault(TensorFault::damaged, "first bytes", [&] { (void)read_tensor(file("text.pt", "hello, tensor")); });
  if (::geteuid() != 0) {
    const auto secret = file("secret.pt", "x");
    ASSERT_EQ(::chmod(secret.c_str(), 0), 0);
    expect_fault(TensorFault::unreadable, "can't be opened", [&] { (void)read_tensor(secret); });
  }
}

TEST_F(Files, ErrorsNameTheFileAndHaveACategory) {
  try {
    (void)read_tensor(path("none.pt"));
    FAIL();
  } catch (const TensorError& error) {
    EXPECT_EQ(error.file(), path("none.pt"));
    EXPECT_EQ(error.category(), ErrorCategory::path);
    EXPECT_THAT(error.what(), testing::HasSubstr("none.pt"));
  }
  EXPECT_EQ(TensorError(TensorFault::damaged, "").category(), ErrorCategory::format);
  EXPECT_EQ(TensorError(TensorFault::too_large, "").category(), ErrorCategory::limit);
  EXPECT_EQ(TensorError(TensorFault::unreadable, "").category(), ErrorCategory::io);
}

TEST_F(Files, TheContentDecidesByDefault) {
  const std::string pt = torch_zip(float_view(2, {2}, {1}));
  const std::string array = npy("<f4", {2}, false, bytes_of<float>({0, 1}));
  for (const std::string name : {"a.pt", "a.npy", "a.bin", "a"}) {
    EXPECT_THAT(values_of<float>(read_tensor(file(name, pt)).contiguous()), ElementsAre(0, 1));
    EXPECT_THAT(values_of<float>(read_tensor(file(name, array)).contiguous()), ElementsAre(0, 1));
  }
}

TEST_F(Files, RestrictedRulesWantSuffixAndContent) {
  const std::string pt = torch_zip(float_view(2, {2}, {1}));
  const std::string array = npy("<f4", {2}, false, bytes_of<float>({0, 1}));
  ReadHints pt_only;
  pt_only.rule = ReaderRule::pt_only;
  ReadHints npy_only;
  npy_only.rule = ReaderRule::npy_only;
  EXPECT_NO_THROW((void)read_tensor(file("a.pt", pt), pt_only));
  EXPECT_NO_THROW((void)read_tensor(file("a.npy", array), npy_only));
  expect_fault(TensorFault::wrong_suffix, "does not end in .pt", [&] { (void)read_tensor(file("a.npy", pt), pt_only); });
  expect_fault(TensorFault::wrong_suffix, "does not end in .npy", [&] { (void)read_tensor(file("a.pt", array), npy_only); });
  expect_fault(TensorFault::wrong_suffix, "does not end in .npy", [&] { (void)read_tensor(path("none.pt"), npy_only); });
  expect_fault(TensorFault::damaged, "no file of torch.save", [&] { (void)read_tensor(file("a.pt", array), pt_only); });
  expect_fault(TensorFault::damaged, "no .npy file", [&] { (void)read_tensor(file("a.npy", pt), npy_only); });
}

TEST_F(Files, TheReferenceHasALimitOfTenGibibytes) {
  const auto huge = file("huge.pt", "PK\x03\x04");
  std::error_code error;
  std::filesystem::resize_file(huge, std::uint64_t{10} << 30, error);  // a hole
  if (error) {
    GTEST_SKIP() << "no large files here";
  }
  ReadHints reference;
  reference.compat = Compat::reference;
  expect_fault(TensorFault::too_large, "10737418240", [&] { (void)read_tensor(huge, reference); });
  expect_fault(TensorFault::damaged, "no end record", [&] { (void)read_tensor(huge); });
  std::filesystem::resize_file(huge, (std::uint64_t{10} << 30) - 1);
  expect_fault(TensorFault::damaged, "no end record", [&] { (void)read_tensor(huge, reference); });
}

TEST_F(Files, AFileThatShrinksIsAnErrorOfThatFile) {
  const auto shrinking = file("shrinking.npy", npy("<f4", {1 << 20}, false, std::string(std::size_t{4} << 20, 'x')));
  TensorFile opened = TensorFile::open(shrinking);
  std::filesystem::resize_file(shrinking, 100'000);
  expect_fault(TensorFault::damaged, "became shorter", [&] { (void)std::move(opened).load(); });
}

TEST_F(Files, DroppingTheCacheChangesNothing) {
  ReadHints hints;
  hints.drop_cache = true;
  const std::string data(std::size_t{4} << 20, 'x');
  const auto large = file("large.npy", npy("<f4", {1 << 20}, false, data));
  EXPECT_EQ(text_of(read_tensor(large, hints).contiguous()), data);
}

TEST_F(Files, NoDescriptorIsLeftOpen) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto good = file("good.pt", torch_zip(float_view(2, {2}, {1})));
  const auto large = file("large.npy", npy("<f4", {1 << 20}, false, std::string(std::size_t{4} << 20, 'x')));
  const auto bad = file("bad.pt", std::string(500'000, 'x'));
  const auto before = count();
  for (int k = 0; k < 10; ++k) {
    (void)read_tensor(good);
    (void)read_tensor(large);
    EXPECT_THROW((void)read_tensor(bad), TensorError);
  }
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace msvis::test
