// Packs that are cut off, damaged or made to harm: an error that names the file, never more.
#include <cstddef>
#include <cstring>
#include <functional>

#include "support/pack_files.h"
#include "tensor/pack_format.h"
#include "unit/pack/rank_files.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;

using test::Rank;
using testing::HasSubstr;

/// Small, with every kind of entry, partly compressed if that is wished.
std::string small_pack(int compression = 1) {
  const Rank rank;
  rank.add("a.pt", test::random_pt(DType::float32, {3, 2}, 1));
  rank.add("b.npy", test::random_npy(DType::int64, {4}, 2));
  rank.add("c.pt", "no tensor");
  rank.add("d.pt", test::random_pt(DType::float32, {0, 2}, 3));
  test::TorchSpec zeros;
  zeros.size = {90, 70};
  zeros.stride = {70, 1};
  zeros.storage = std::string(90 * 70 * 4, '\0');
  rank.add("e.pt", test::torch_zip(zeros));
  fs::create_directory(rank.tensors() / "f");
  PackOptions options;
  options.compression = compression;
  pack_rank(rank.path(), options);
  return test::read_bytes(rank.packed());
}

/// Reads all there is; anything but tensors and TensorErrors is a fault. Tells the first error.
std::string read_all(const std::string& bytes) {
  const test::TemporaryDirectory directory;
  const fs::path file = directory.path() / "dump_tensor_data.h5";
  std::ofstream(file, std::ios::binary) << bytes;
  const TensorStore store(directory.path());
  std::string first;
  for (const char* name : {"a.pt", "b.npy", "c.pt", "d.pt", "e.pt", "f", "g"}) {
    const std::string found = test::found_in(store, name, {});
    if (first.empty() && found.starts_with("fault") && std::string_view("a.pt b.npy d.pt e.pt").find(name) != std::string_view::npos) {
      first = found;
    }
  }
  return first;
}

/// A pack taken apart.
struct Parts {
  explicit Parts(std::string all) : bytes(std::move(all)) {
    std::memcpy(&header, bytes.data(), sizeof header);
    first = header;
    load(entries, header.entries_offset, header.entry_count);
    load(chunks, header.chunks_offset, header.chunk_count);
    load(sizes, header.shapes_offset, header.shape_count);
  }
  PackEntry& entry(std::size_t k) { return entries[k]; }
  PackChunk& chunk(std::size_t k) { return chunks[k]; }
  std::uint64_t& size(std::size_t k) { return sizes[k]; }
  char& name(std::size_t k) { return bytes[header.names_offset + k]; }
  /// Put together with right checksums: as somebody would write who means harm.
  std::string sealed() {
    store(entries, first.entries_offset);
    store(chunks, first.chunks_offset);
    store(sizes, first.shapes_offset);
    std::memcpy(bytes.data(), &header, sizeof header);
    test::seal_pack(bytes, false);
    return bytes;
  }

  template <typename T>
  void load(std::vector<T>& values, std::uint64_t offset, std::uint64_t count) {
    if (count > 0 && offset < bytes.size() && count <= (bytes.size() - offset) / sizeof(T)) {
      values.resize(count);
      std::memcpy(values.data(), bytes.data() + offset, count * sizeof(T));
    }
  }
  template <typename T>
  void store(const std::vector<T>& values, std::uint64_t offset) {
    if (!values.empty()) {
      std::memcpy(bytes.data() + offset, values.data(), values.size() * sizeof(T));
    }
  }

  std::string bytes;
  PackHeader header;
  PackHeader first;
  std::vector<PackEntry> entries;
  std::vector<PackChunk> chunks;
  std::vector<std::uint64_t> sizes;
};

TEST(Format, AHandMadePackIsRead) {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() / "dump_tensor_data.h5", std::ios::binary) << test::hand_made_pack();
  const TensorStore store(directory.path());
  ASSERT_FALSE(store.fault()) << store.fault()->what();
  const auto found = [&](const char* name, ReadHints hints = {}) { return test::found_in(store, name, hints); };
  EXPECT_THAT(found("a.pt"), testing::StartsWith("float32 2 3: "));
  std::string numbers = "uint16 3 5: ";
  for (char k = 0; k < 15; ++k) {
    numbers += {k, '\0'};
  }
  EXPECT_EQ(found("b.npy"), numbers);
  EXPECT_THAT(found("c.npy"), HasSubstr("unsupported dtype |V2"));
  ReadHints hints;
  hints.dtype = "BFloat16";
  EXPECT_EQ(found("c.npy", hints), "bfloat16 2: abcd");
  EXPECT_THAT(found("d"), HasSubstr("is not a regular file"));
  EXPECT_THAT(found("e"), HasSubstr("there is no such file"));
}

TEST(DamagedPack, TheUndamagedOneReads) {
  const std::string pack = small_pack();
  EXPECT_EQ(read_all(pack), "");
  EXPECT_EQ(read_all(Parts(pack).sealed()), "");
}

TEST(DamagedPack, CutOff) {
  const std::string pack = small_pack();
  for (std::size_t size = 0; size < pack.size(); size += 1 + size / 9) {
    EXPECT_THAT(read_all(pack.substr(0, size)), HasSubstr("damaged file in dump_tensor_data.h5"));
  }
  EXPECT_THAT(read_all(pack.substr(0, pack.size() - 1)), HasSubstr("cut off"));
  EXPECT_THAT(read_all(pack + "x"), HasSubstr("changed by another program"));
  EXPECT_THAT(read_all(""), HasSubstr("is empty"));
  EXPECT_THAT(read_all("\x89HDF\r\n\x1a\n" + std::string(1000, 'x')), HasSubstr("not written by msvis-pack"));
}

TEST(DamagedPack, FlippedBytesOfTheIndexAreNoticed) {
  for (const int compression : {0, 1}) {  // without chunks, part of the index is empty
    const std::string pack = small_pack(compression);
    const PackHeader header = Parts(pack).header;
    const auto flip = [&](std::uint64_t begin, std::uint64_t bytes, const char* words) {
      for (std::size_t at = begin; at < begin + bytes; at += 7) {
        std::string damaged = pack;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
        EXPECT_THAT(read_all(damaged), HasSubstr(words)) << at;
      }
    };
    flip(header.entries_offset, header.entry_count * sizeof(PackEntry), "index whose checksum is wrong");
    flip(header.names_offset, header.names_bytes, "index whose checksum is wrong");
    flip(header.shapes_offset, header.shape_count * 8, "index whose checksum is wrong");
    flip(header.chunks_offset, header.chunk_count * sizeof(PackChunk), "index whose checksum is wrong");
    flip(0, sizeof(PackHeader), "in dump_tensor_data.h5");
  }
}

TEST(DamagedPack, FlippedBytesAnywhereHarmNobody) {
  const std::string pack = small_pack();
  std::mt19937_64 random(5);
  for (int k = 0; k < 400; ++k) {
    std::string damaged = pack;
    for (int flips = 0; flips < 1 + k % 5; ++flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    (void)read_all(damaged);
    Parts parts(damaged);
    (void)read_all(parts.sealed());
  }
}

TEST(DamagedPack, DamagedChunkIsToldWithItsTensor) {
  Parts parts(small_pack());
  ASSERT_EQ(parts.entry(4).storage, PackEntry::chunked);
  std::string damaged = parts.bytes;
  damaged[parts.chunk(0).offset + parts.chunk(0).bytes - 2] ^= 1;
  EXPECT_THAT(read_all(damaged), HasSubstr("damaged chunk (0) of e.pt"));
}

TEST(DamagedPack, VerifyAndUnpackNoticeDamagedPayloads) {
  const Rank rank;
  rank.add("a.pt", test::random_pt(DType::float32, {300}, 1));
  PackOptions options;
  options.replace = true;
  pack_rank(rank.path(), options);
  std::string bytes = test::read_bytes(rank.packed());
  bytes[TensorPack(rank.packed()).entry(0).offset + 100] ^= 1;
  std::ofstream(rank.packed(), std::ios::binary) << bytes;
  for (const bool unpack : {false, true}) {
    PackOptions check;
    check.verify = true;
    check.unpack = unpack;
    try {
      pack_rank(rank.path(), check);
      ADD_FAILURE() << "a damaged payload was not noticed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("dump_tensor_data.h5"), HasSubstr("a.pt"), HasSubstr("checksum")));
    }
    EXPECT_THAT(rank.holds(), testing::ElementsAre("dump_tensor_data.h5"));
  }
}

TEST(HostilePack, IndexIsNotBelieved) {
  const std::string good = small_pack();
  constexpr std::uint64_t huge = std::uint64_t{1} << 62;
  const std::vector<std::pair<const char*, std::function<void(Parts&)>>> changes = {
      {"entries outside", [](Parts& p) { p.header.entries_offset = huge; }},
      {"too many entries", [](Parts& p) { p.header.entry_count = huge; }},
      {"many entries", [](Parts& p) { p.header.entry_count = 1'000'000; }},
      {"overflowing entries", [](Parts& p) { p.header.entry_count = UINT64_MAX / sizeof(PackEntry) + 2; }},
      {"names", [](Parts& p) { p.header.names_bytes = 2'000'000'000; }},
      {"sizes", [](Parts& p) { p.header.shape_count = huge; }},
      {"chunks", [](Parts& p) { p.header.chunk_count = 100'000'000; }},
      {"chunks outside", [](Parts& p) { p.header.chunks_offset = UINT64_MAX; }},
      {"version", [](Parts& p) { p.header.version = 2; }},
      {"size of the file", [](Parts& p) { p.header.file_bytes = huge; }},
      {"slash in a name", [](Parts& p) { p.name(0) = '/'; }},
      {"nul in a name", [](Parts& p) { p.name(1) = '\0'; }},
      {"dot as a name", [](Parts& p) { p.name(0) = '.', p.entry(0).name_bytes = 1; }},
      {"empty name", [](Parts& p) { p.entry(0).name_bytes = 0; }},
      {"long name", [](Parts& p) { p.entry(0).name_bytes = UINT32_MAX; }},
      {"name outside", [](Parts& p) { p.entry(0).name_offset = UINT64_MAX - 2; }},
      {"names not in order", [](Parts& p) { std::swap(p.entry(0), p.entry(1)); }},
      {"same name twice", [](Parts& p) { p.entry(1).name_offset = p.entry(0).name_offset, p.entry(1).name_bytes = p.entry(0).name_bytes; }},
      {"kind", [](Parts& p) { p.entry(0).kind = static_cast<PackKind>(9); }},
      {"dtype", [](Parts& p) { p.entry(0).dtype = 19; }},
      {"storage", [](Parts& p) { p.entry(0).storage = 2; }},
      {"bytes", [](Parts& p) { p.entry(0).bytes += 1; }},
      {"offset", [](Parts& p) { p.entry(0).offset = p.bytes.size() - 3; }},
      {"far offset", [](Parts& p) { p.entry(0).offset = UINT64_MAX - 3; }},
      {"bytes of a file", [](Parts& p) { p.entry(2).bytes = huge; }},
      {"dimensions", [](Parts& p) { p.entry(0).dimensions = 65; }},
      {"many dimensions", [](Parts& p) { p.entry(0).dimensions = 65'535; }},
      {"shape outside", [](Parts& p) { p.entry(0).shape_first = UINT64_MAX; }},
      {"huge shape", [](Parts& p) { p.size(0) = huge; }},
      {"overflowing shape", [](Parts& p) { p.size(0) = UINT64_MAX, p.size(1) = UINT64_MAX; }},
      {"chunk table", [](Parts& p) { p.entry(4).chunk_first = UINT64_MAX; }},
      {"chunk count", [](Parts& p) { p.entry(4).chunk_count = 2; }},
      {"chunk rows", [](Parts& p) { p.entry(4).chunk_rows = 0; }},
      {"many chunk rows", [](Parts& p) { p.entry(4).chunk_rows = huge; }},
      {"few chunk rows", [](Parts& p) { p.entry(4).chunk_rows = 1; }},
      {"chunk axis", [](Parts& p) { p.entry(4).chunk_axis = 2; }},
      {"chunk outside", [](Parts& p) { p.chunk(0).offset = UINT64_MAX; }},
      {"long chunk", [](Parts& p) { p.chunk(0).bytes = UINT32_MAX; }},
      {"chunk flags", [](Parts& p) { p.chunk(0).flags = 2; }},
      {"plain chunk", [](Parts& p) { p.chunk(0).flags = PackChunk::plain; }},
      {"chunked bytes", [](Parts& p) { p.entry(2).storage = PackEntry::chunked; }},
  };
  for (const auto& [what, change] : changes) {
    Parts parts(good);
    change(parts);
    EXPECT_THAT(read_all(parts.sealed()), HasSubstr("in dump_tensor_data.h5: has ")) << what;
  }
}

TEST(HostilePack, IsNoRegularFile) {
  const test::TemporaryDirectory directory;
  fs::create_directory(directory.path() / "dump_tensor_data.h5");
  EXPECT_THAT(test::found_in(TensorStore(directory.path()), "a.pt", {}), HasSubstr("unreadable file in dump_tensor_data.h5"));
  fs::remove(directory.path() / "dump_tensor_data.h5");
  fs::create_symlink("nowhere", directory.path() / "dump_tensor_data.h5");
  EXPECT_THAT(test::found_in(TensorStore(directory.path()), "a.pt", {}), HasSubstr("missing file in dump_tensor_data.h5"));
}

TEST(DamagedPack, ThatShrinksWhileItIsReadIsAnError) {
  const Rank rank;
  rank.add("large.pt", test::random_pt(DType::float32, {300'000}, 1));
  rank.add("small.pt", test::random_pt(DType::float32, {3}, 1));
  PackOptions options;
  options.replace = true;
  pack_rank(rank.path(), options);
  const TensorStore store(rank.path());
  TensorFile large = store.open(store.resolve("large.pt", Compat::standard), {});
  fs::resize_file(rank.packed(), 4096);
  EXPECT_THROW(large.read(0, 300'000), TensorError);
  EXPECT_THROW(static_cast<void>(store.open(store.resolve("small.pt", Compat::standard), {})), TensorError);
}

}  // namespace
}  // namespace msvis
