// The zip container when it lies.
#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

using testing::ElementsAre;

TorchSpec six_floats() {
  return float_view(6, {6}, {1});
}

/// Without records besides those that every file has.
std::string plain_zip(const ZipOptions& options) {
  return torch_zip_of(torch_pickle(six_floats()), {{"data/0", six_floats().storage}}, options);
}

/// Overwrites a little-endian number.
template <typename T>
void patch(std::string& file, std::size_t at, T value) {
  std::string bytes;
  append_little(bytes, value);
  ASSERT_LE(at + bytes.size(), file.size());
  file.replace(at, bytes.size(), bytes);
}

std::size_t end_record(const std::string& file) {
  return file.rfind("PK\x05\x06");
}

TEST(Zip, EncryptedAndUnknownMethodsAreRefused) {
  ZipOptions encrypted;
  encrypted.flags = 0x0801;
  expect_file_fault(TensorFault::refused, "encrypted", torch_zip(six_floats(), encrypted));
  ZipOptions lzma;
  lzma.method_override = 14;
  expect_file_fault(TensorFault::refused, "method 14", torch_zip(six_floats(), lzma));
}

TEST(Zip, SizesOfTheDirectoryThatDoNotFit) {
  ZipOptions larger;
  larger.claimed_size_change = 1'000'000;
  expect_file_fault(TensorFault::damaged, "does not fit into the file", plain_zip(larger));
  larger.zip64 = true;
  larger.claimed_size_change = INT64_MAX - 1000;
  expect_file_fault(TensorFault::damaged, "does not fit into the file", plain_zip(larger));
}

TEST(Zip, DeflateThatClaimsMoreThanItCanHold) {
  ZipOptions bomb;
  bomb.deflate = true;
  bomb.claimed_size_change = std::int64_t{1} << 30;
  expect_file_fault(TensorFault::damaged, "deflate can't do that", plain_zip(bomb));
  ZipOptions longer;
  longer.deflate = true;
  longer.claimed_size_change = 3;
  expect_file_fault(TensorFault::damaged, "bytes instead of", plain_zip(longer));
}

TEST(Zip, ABombIsStoppedByTheLimitOfBuffers) {
  ZipOptions options;
  options.deflate = true;
  const std::string file = torch_zip(float_view(0, {0}, {1}), options);
  TorchSpec zeros = float_view(0, {1 << 20}, {1});
  zeros.storage = std::string(std::size_t{4} << 20, '\0');
  const std::string bomb = torch_zip(zeros, options);
  ASSERT_LT(bomb.size(), 10'000U);
  ReadHints hints;
  hints.max_buffer_bytes = std::uint64_t{1} << 20;
  expect_file_fault(TensorFault::too_large, "the limit is 1048576", bomb, hints);
  Loaded tensor(bomb);
  EXPECT_EQ(text_of(tensor.contiguous()), zeros.storage);
}

TEST(Zip, DamagedCompressedData) {
  ZipOptions options;
  options.deflate = true;
  const TorchSpec spec = float_view(1000, {1000}, {1});
  const std::string file = torch_zip(spec, options);
  const std::size_t header = file.find("archive/data/0");
  std::size_t found = 0;
  for (std::size_t at = header + 60; at < header + 1000; ++at) {
    std::string broken = file;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    try {
      (void)Loaded(broken);
    } catch (const TensorError& error) {
      EXPECT_EQ(error.fault(), TensorFault::damaged);
      ++found;
    }
  }
  EXPECT_GT(found, 900U);  // the checksum finds what the format does not; the first bytes are padding
}

TEST(Zip, BrokenEndRecords) {
  const std::string file = torch_zip(six_floats());
  expect_file_fault(TensorFault::damaged, "no end record", file.substr(0, end_record(file)));
  std::string parts = file;
  patch(parts, end_record(file) + 4, std::uint16_t{3});
  expect_file_fault(TensorFault::damaged, "divided", parts);
  std::string outside = file;
  patch(outside, end_record(file) + 16, std::uint32_t{0x7fffffff});
  expect_file_fault(TensorFault::damaged, "directory does not fit", outside);
  std::string long_directory = file;
  patch(long_directory, end_record(file) + 12, std::uint32_t{0x00ffffff});
  expect_file_fault(TensorFault::damaged, "directory does not fit", long_directory);
  std::string many = file;
  patch(many, end_record(file) + 10, std::uint16_t{500});
  EXPECT_THAT(read_values<float>(many), ElementsAre(0, 1, 2, 3, 4, 5));  // every record that is asked for is there
}

TEST(Zip, BrokenZip64Records) {
  ZipOptions options;
  options.zip64 = true;
  const std::string file = torch_zip(six_floats(), options);
  const std::size_t locator = file.rfind("PK\x06\x07");
  const std::size_t end64 = file.rfind("PK\x06\x06");
  std::string wild = file;
  patch(wild, locator + 8, UINT64_MAX - 10);
  expect_file_fault(TensorFault::damaged, "locator points outside", wild);
  std::string wrong = file;
  patch(wrong, locator + 8, std::uint64_t{64});
  expect_file_fault(TensorFault::damaged, "no zip64 end record", wrong);
  std::string many = file;
  patch(many, end64 + 32, std::uint64_t{1} << 40);
  expect_file_fault(TensorFault::too_large, "entries", many);
  std::string huge = file;
  patch(huge, end64 + 40, std::uint64_t{1} << 50);
  expect_file_fault(TensorFault::too_large, "directory", huge);
  std::string overflow = file;
  patch(overflow, end64 + 48, UINT64_MAX - 5);
  expect_file_fault(TensorFault::damaged, "directory does not fit", overflow);
}

TEST(Zip, BrokenDirectoryAndLocalHeaders) {
  const std::string file = torch_zip(six_floats());
  const std::size_t directory = file.find("PK\x01\x02");
  std::string no_entry = file;
  no_entry[directory] = 'X';
  expect_file_fault(TensorFault::damaged, "directory is broken", no_entry);
  std::string long_name = file;
  patch(long_name, directory + 28, std::uint16_t{0xfff0});
  expect_file_fault(TensorFault::damaged, "directory is broken", long_name);
  std::string no_header = file;
  patch(no_header, directory + 42, std::uint32_t{5});
  expect_file_fault(TensorFault::damaged, "no header where the directory says", no_header);
  std::string outside = file;
  patch(outside, directory + 42, std::uint32_t{0x7fffffff});
  expect_file_fault(TensorFault::damaged, "begins outside the file", outside);
  std::string two_sizes = file;
  patch(two_sizes, directory + 20, std::uint32_t{5});
  expect_file_fault(TensorFault::damaged, "two different sizes", two_sizes);
  std::string long_extra = file;
  patch(long_extra, 28, std::uint16_t{0xffff});
  expect_file_fault(TensorFault::damaged, "does not fit into the file", long_extra);
}

TEST(Zip, TheDirectoryIsBelievedNotTheLocalHeaders) {
  // Something that looks like a local header stands in the payload and before the archive's own records.
  std::string storage = bytes_of<float>({0, 1, 2});
  storage += std::string("PK\x03\x04") + std::string(26, '\0');
  TorchSpec spec = float_view(0, {3}, {1});
  storage.resize(36);
  spec.storage = storage;
  EXPECT_THAT(read_values<float>(torch_zip(spec)), ElementsAre(0, 1, 2));
}

TEST(Zip, TensorsFromFourGibibytesOn) {
  // A record beyond 4 GiB of a file: with holes, so that it costs nothing.
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "huge.pt";
  const std::uint64_t shift = (std::uint64_t{4} << 30) + 64;
  const TorchSpec spec = six_floats();
  ZipOptions options;
  options.zip64 = true;
  std::string file = torch_zip(spec, options);
  // Everything from the record data/0 on moves by `shift`; the offsets are corrected.
  const std::size_t cut = file.find("PK\x03\x04", file.find("archive/byteorder"));
  const std::size_t locator = file.rfind("PK\x06\x07");
  const std::size_t end64 = file.rfind("PK\x06\x06");
  const auto add = [&](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, file.data() + at, sizeof value);
    patch(file, at, value + shift);
  };
  add(locator + 8);
  add(end64 + 48);
  for (std::size_t at = file.find("PK\x01\x02"); at != std::string::npos; at = file.find("PK\x01\x02", at + 4)) {
    std::uint16_t name_size = 0;
    std::memcpy(&name_size, file.data() + at + 28, sizeof name_size);
    const std::size_t offset_field = at + 46 + name_size + 6 + 4 + 16;
    std::uint64_t offset = 0;
    std::memcpy(&offset, file.data() + offset_field, sizeof offset);
    if (offset >= cut) {
      add(offset_field);
    }
  }
  {
    std::ofstream out(path, std::ios::binary);
    out.write(file.data(), static_cast<std::streamsize>(cut));
    out.seekp(static_cast<std::streamoff>(cut + shift));
    out.write(file.data() + cut, static_cast<std::streamsize>(file.size() - cut));
    ASSERT_TRUE(out.good());
  }
  Tensor tensor = read_tensor(path);
  EXPECT_THAT(values_of<float>(tensor.contiguous()), ElementsAre(0, 1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace msvis::test
