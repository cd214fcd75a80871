// A pack holds what the files held, under every reading rule, and gives it back.
#include "unit/pack/rank_files.h"

#include "tensor/pack_format.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;

using test::found_in;
using test::Rank;
using testing::ElementsAre;
using testing::HasSubstr;

PackOptions options_of(int compression, bool replace = false) {
  PackOptions options;
  options.compression = compression;
  options.verify = true;
  options.replace = replace;
  options.threads = 2;
  return options;
}

const std::vector<std::vector<std::int64_t>> odd_shapes = {
    {},     {0},       {1},          {0, 3},          {3, 0, 2},
    {7},    {3, 5},    {2, 1, 4},    {1, 1, 1},       {33, 17, 5},
    {4097}, {1, 9001}, {130, 2, 77}, {2, 3, 2, 3, 2}, std::vector<std::int64_t>(32, 1)};

class RoundTrip : public testing::TestWithParam<int> {};

TEST_P(RoundTrip, EveryDtypeAndShape) {
  const Rank rank;
  std::uint64_t seed = 0;
  for (const DTypeInfo& info : dtype_infos) {
    for (std::size_t k = 0; k < odd_shapes.size(); ++k) {
      const std::string name = std::string(info.name) + "." + std::to_string(k);
      rank.add(name + ".pt", test::random_pt(info.dtype, odd_shapes[k], ++seed));
      if (!info.numpy_code.empty()) {
        rank.add(name + ".npy", test::random_npy(info.dtype, odd_shapes[k], ++seed));
      }
    }
  }
  const auto names = rank.names();
  const auto before = found_in(rank.path(), names);
  const PackResult result = pack_rank(rank.path(), options_of(GetParam(), true));
  EXPECT_EQ(result.tensors, names.size());
  EXPECT_EQ(result.kept_as_bytes, 0U);
  EXPECT_TRUE(result.removed);
  EXPECT_THAT(rank.holds(), ElementsAre("dump_tensor_data.h5"));
  EXPECT_EQ(found_in(rank.path(), names), before);
  const TensorPack pack(rank.packed());
  bool compressed = false;
  for (std::size_t k = 0; k < pack.size(); ++k) {
    compressed = compressed || pack.entry(k).storage == PackEntry::chunked;
    EXPECT_EQ(pack.payload_crc(pack.entry(k), BufferPool::shared()), pack.entry(k).crc) << pack.name(k);
  }
  EXPECT_EQ(compressed, GetParam() > 0);

  PackOptions back = options_of(0, true);
  back.unpack = true;
  EXPECT_TRUE(pack_rank(rank.path(), back).removed);
  EXPECT_THAT(rank.holds(), ElementsAre("dump_tensor_data"));
  EXPECT_EQ(rank.names(), names);
  EXPECT_EQ(found_in(rank.path(), names), before);
}

INSTANTIATE_TEST_SUITE_P(Pack, RoundTrip, testing::Values(0, 1, 9));

TEST(Pack, FilesThatAreNoPlainTensorsReadAsBefore) {
  const Rank rank;
  int number = 0;
  for (const auto& [suffix, bytes] : test::seed_tensor_files()) {
    const std::string name = "seed" + std::to_string(number++);
    rank.add(name + suffix, bytes);
    rank.add(name + ".other", bytes);                                      // wrong suffix
    rank.add(name + "short" + suffix, bytes.substr(0, bytes.size() / 2));  // cut off
    std::string damaged = bytes;
    damaged[damaged.size() / 2] = static_cast<char>(~damaged[damaged.size() / 2]);
    rank.add(name + "damaged" + suffix, damaged);
  }
  rank.add("empty.pt", "");
  rank.add("empty.npy", "");
  rank.add("text.pt", "no tensor at all");
  rank.add("text.npy", std::string(70'000, 'x'));
  rank.add("text_objects.npy", test::npy("|O", {2}, false, std::string(16, '\0')));
  rank.add("fortran.npy", test::npy("<f4", {2, 3}, true, test::random_bytes(24, 1)));
  rank.add("big.npy", test::npy(">i8", {5}, false, test::random_bytes(40, 2)));
  rank.add("int.pt", test::torch_zip_of(test::PickleWriter().integer(3).take(), {}));
  rank.add("list.pt", test::torch_zip_of(test::PickleWriter().raw("]").take(), {}));
  rank.add("foreign.pt", test::torch_zip_of(test::PickleWriter().global("os", "system").text("true").raw("\x85").reduce().take(), {}));
  rank.add("Namen mit Umlaut \xc3\xa4.pt", test::random_pt(DType::float32, {3}, 3));
  rank.add("no utf8 \xff\xfe.pt", test::random_pt(DType::float32, {3}, 4));
  rank.add("many_dimensions.pt", test::random_pt(DType::float32, std::vector<std::int64_t>(40, 1), 5));
  test::TorchSpec expanded;  // one number shown a million times
  expanded.size = {1000, 1000};
  expanded.stride = {0, 0};
  expanded.storage = std::string(4, '\x3f');
  rank.add("expanded.pt", test::torch_zip(expanded));
  fs::create_directory(rank.tensors() / "directory.pt");
  fs::create_symlink("nowhere", rank.tensors() / "dangling.pt");
  fs::create_symlink("big.npy", rank.tensors() / "link.npy");
  auto names = rank.names();
  names.insert({"missing.pt", "..", ".", "", "a/b.pt", std::string("nul\0.pt", 7)});

  const auto before = found_in(rank.path(), names);
  const PackResult result = pack_rank(rank.path(), options_of(6));
  EXPECT_GT(result.kept_as_bytes, 20U);
  EXPECT_GT(result.tensors, 20U);
  EXPECT_EQ(result.irregular, 2U);
  EXPECT_LT(result.packed_bytes, 500'000U);
  const auto originals = rank.names();
  const std::map<std::string, std::string> text_before{{"text.npy", test::read_bytes(rank.tensors() / "text.npy")},
                                                       {"foreign.pt", test::read_bytes(rank.tensors() / "foreign.pt")}};
  fs::rename(rank.tensors(), rank.path() / "originals");
  EXPECT_EQ(found_in(rank.path(), names), before);

  PackOptions back = options_of(0);
  back.unpack = true;
  const PackResult restored = pack_rank(rank.path(), back);
  EXPECT_EQ(restored.irregular, 1U);
  EXPECT_FALSE(restored.removed);
  for (const auto& [name, bytes] : text_before) {
    EXPECT_EQ(test::read_bytes(rank.tensors() / name), bytes) << name;
  }
  auto expected = originals;
  expected.erase("directory.pt");
  expected.erase("dangling.pt");
  EXPECT_EQ(rank.names(), expected);
  names.erase("directory.pt");
  for (const auto& [name, found] : found_in(rank.path(), names)) {
    EXPECT_EQ(found, before.at(name)) << name;
  }
}

TEST(Pack, AViewThatRepeatsItsElementsStaysSmall) {
  const Rank rank;
  test::TorchSpec expanded;
  expanded.size = {100'000'000};
  expanded.stride = {0};
  expanded.storage = std::string(4, '\x3f');
  rank.add("expanded.pt", test::torch_zip(expanded));
  EXPECT_LT(pack_rank(rank.path(), options_of(0)).packed_bytes, 100'000U);
}

TEST(Pack, RestoredFilesAreTheSameKindOfFile) {
  const Rank rank;
  rank.add("a.npy", test::random_npy(DType::float32, {3, 2}, 1));
  rank.add("b.pt", test::random_pt(DType::float32, {3, 2}, 2));
  test::TorchSpec legacy;
  legacy.size = {2};
  legacy.stride = {1};
  legacy.storage = std::string(8, '\x01');
  rank.add("c.pt", test::torch_legacy(legacy));
  pack_rank(rank.path(), options_of(0, true));
  PackOptions back = options_of(0);
  back.unpack = true;
  pack_rank(rank.path(), back);
  EXPECT_THAT(test::read_bytes(rank.tensors() / "a.npy"), testing::StartsWith("\x93NUMPY"));
  EXPECT_THAT(test::read_bytes(rank.tensors() / "b.pt"), testing::StartsWith("PK\x03\x04"));
  EXPECT_THAT(test::read_bytes(rank.tensors() / "c.pt"), testing::StartsWith("PK\x03\x04"));
}

TEST(Pack, EmptyDirectory) {
  const Rank rank;
  EXPECT_EQ(pack_rank(rank.path(), options_of(3, true)).tensors, 0U);
  EXPECT_EQ(TensorPack(rank.packed()).size(), 0U);
  PackOptions back = options_of(0, true);
  back.unpack = true;
  pack_rank(rank.path(), back);
  EXPECT_TRUE(rank.names().empty());
}

TEST(ChunkGrid, ChunksCoverEveryElementOnce) {
  const std::vector<std::vector<std::uint64_t>> shapes = {{1'000'003},       {3, 700, 333},   {2, 3, 400'000}, {5, 262'144},   {262'145, 4},
                                                          {1, 1, 3'000'000}, {17, 1, 65'537}, {600, 600, 3},   {7, 7, 7, 7, 7}};
  for (const auto& shape : shapes) {
    for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{8}, std::uint64_t{16}}) {
      const ChunkGrid grid = choose_chunk_grid(shape, size);
      EXPECT_LE(grid.chunk_elements() * size, ChunkGrid::target_bytes);
      std::uint64_t at = 0;
      for (std::uint64_t chunk = 0; chunk < grid.chunk_count(); ++chunk) {
        ASSERT_EQ(grid.first_of(chunk), at);
        ASSERT_EQ(grid.chunk_with(at), chunk);
        at += grid.count_of(chunk);
        ASSERT_EQ(grid.chunk_with(at - 1), chunk);
      }
      std::uint64_t elements = 1;
      for (const std::uint64_t length : shape) {
        elements *= length;
      }
      EXPECT_EQ(at, elements);
    }
  }
}

TEST(Pack, ChunkedTensorsAreReadInPieces) {
  const Rank rank;
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{3, 200, 333}, {300'001}, {2, 3, 90'000}}) {
    rank.add("t" + std::to_string(shape.size()) + ".pt", test::random_pt(DType::float64, shape, 7));
  }
  test::TorchSpec zeros;
  zeros.size = {1'000, 700};
  zeros.stride = {700, 1};
  zeros.storage = std::string(2'800'000, '\0');
  rank.add("zeros.pt", test::torch_zip(zeros));
  const auto names = rank.names();
  std::map<std::string, std::string> whole;
  for (const std::string& name : names) {
    Tensor tensor = read_tensor(rank.tensors() / name);
    const auto bytes = tensor.contiguous();
    whole[name] = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const PackResult result = pack_rank(rank.path(), options_of(1, true));
  EXPECT_LT(result.packed_bytes, result.original_bytes - 2'000'000);
  const TensorStore store(rank.path());
  std::mt19937_64 random(3);
  for (const std::string& name : names) {
    for (const bool drop_cache : {false, true}) {
      ReadHints hints;
      hints.drop_cache = drop_cache;
      TensorFile file = store.open(store.resolve(name, Compat::standard), hints);
      ASSERT_TRUE(file.can_stream());
      const std::size_t size = dtype_size(file.dtype());
      for (int k = 0; k < 50; ++k) {
        const std::uint64_t first = random() % file.element_count();
        const std::uint64_t count = random() % (file.element_count() - first + 1);
        const auto piece = file.read(first, count);
        ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(piece.data()), piece.size()),
                  std::string_view(whole[name]).substr(first * size, count * size));
      }
    }
  }
}

TEST(Pack, PayloadsAreInTheOrderOfTheDump) {
  const Rank rank;
  for (const char* name : {"a.pt", "b.pt", "c.pt", "d.pt", "e.pt"}) {
    rank.add(name, test::random_pt(DType::float32, {3}, 1));
  }
  const auto order = [&](const std::string& dump) {
    std::ofstream(rank.path() / "dump.json") << dump;
    pack_rank(rank.path(), {});
    const TensorPack pack(rank.packed());
    std::map<std::uint64_t, std::string> by_place;
    for (std::size_t k = 0; k < pack.size(); ++k) {
      by_place[pack.entry(k).offset] += pack.name(k);
    }
    std::string names;
    for (const auto& [place, name] : by_place) {
      names += name[0];
    }
    return names;
  };
  EXPECT_EQ(order(R"({"x": [{"data_name": "d.pt"}, {"data_name" :"b.pt"}, {"data_name": "none.pt"}, {"data_name": "d.pt"}]})"), "dbace");
  EXPECT_EQ(order(R"({"data_name": 3, "data_name": "e.pt"})"), "eabcd");
  for (const char* odd :
       {"", "\"data_name\"", "\"data_name\":", "\"data_name\": ", "\"data_name\": \"c.pt", "\"data_name\"\"data_name\":\"\""}) {
    EXPECT_EQ(order(odd), "abcde") << odd;
  }
}

TEST(Pack, PackDoesNotDependOnThreads) {
  const Rank rank;
  rank.add("a.pt", test::random_pt(DType::float32, {3'000, 700}, 1));
  PackOptions options = options_of(5);
  options.threads = 1;
  pack_rank(rank.path(), options);
  const std::string one = test::read_bytes(rank.packed());
  options.threads = 5;
  pack_rank(rank.path(), options);
  EXPECT_EQ(test::read_bytes(rank.packed()), one);
}

TEST(Store, DirectoryGoesBeforePack) {
  const Rank rank;
  rank.add("a.pt", test::random_pt(DType::float32, {3}, 1));
  pack_rank(rank.path(), options_of(0));
  fs::remove(rank.tensors() / "a.pt");
  ReadHints hints;
  EXPECT_THAT(found_in(TensorStore(rank.path()), "a.pt", hints), HasSubstr("missing file"));
  fs::remove_all(rank.tensors());
  EXPECT_THAT(found_in(TensorStore(rank.path()), "a.pt", hints), HasSubstr("float32 3"));
}

TEST(Store, OpensEachPackOnceAndKeepsItOpen) {
  const Rank rank;
  rank.add("a.pt", test::random_pt(DType::float32, {3}, 1));
  pack_rank(rank.path(), options_of(0, true));
  std::optional<TensorFile> file;
  {
    TensorStores stores;
    const auto store = stores.of(rank.path());
    EXPECT_EQ(stores.of(rank.path()), store);
    EXPECT_TRUE(stores.faults().empty());
    file = store->open(store->resolve("a.pt", Compat::standard), {});
  }
  fs::remove(rank.packed());
  EXPECT_EQ(std::move(*file).load().element_count(), 3U);
}

}  // namespace
}  // namespace msvis
