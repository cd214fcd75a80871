// What the HDF5 library sees in a pack: the same names, types, shapes and bytes.
#include <bit>
#include <cmath>

#include "hdf5/hdf5.h"
#include "tensor/pack_format.h"
#include "unit/pack/rank_files.h"

namespace msvis {
namespace {

using hdf5::Handle;
using test::Rank;

Handle open_dataset(const Handle& file, const std::string& name) {
  return {H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT), H5Dclose, "opening", {}};
}

std::vector<std::uint64_t> shape_of(const Handle& dataset) {
  const Handle space(H5Dget_space(dataset.id()), H5Sclose, "looking", {});
  std::vector<hsize_t> sizes(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.id())));
  H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr);
  return {sizes.begin(), sizes.end()};
}

TEST(Hdf5View, SameNamesTypesShapesAndBytes) {
  const Rank rank;
  std::uint64_t seed = 0;
  for (const DTypeInfo& info : dtype_infos) {
    int number = 0;
    for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{{}, {0, 3}, {5}, {130, 2, 77}, {700'001}}) {
      rank.add(std::string(info.name) + std::to_string(number++) + ".pt", test::random_pt(info.dtype, shape, ++seed));
    }
  }
  rank.add("text.pt", "no tensor");
  for (const int compression : {0, 4}) {
    PackOptions options;
    options.compression = compression;
    pack_rank(rank.path(), options);
    const TensorPack pack(rank.packed());
    const auto lock = hdf5::lock();
    const Handle file = hdf5::open_file(rank.packed());
    for (std::size_t k = 0; k < pack.size(); ++k) {
      const PackEntry& entry = pack.entry(k);
      const std::string name(pack.name(k));
      const Handle dataset = open_dataset(file, (entry.kind == PackKind::bytes ? "files/" : "tensors/") + name);
      if (entry.storage == PackEntry::contiguous && entry.bytes > 0) {
        EXPECT_EQ(H5Dget_offset(dataset.id()), entry.offset) << name;
      }
      if (entry.kind != PackKind::bytes) {
        EXPECT_EQ(shape_of(dataset), std::vector<std::uint64_t>(pack.shape(entry).begin(), pack.shape(entry).end())) << name;
      }
      const Handle type(H5Dget_type(dataset.id()), H5Tclose, "looking", {});
      std::string bytes(entry.bytes, '\0');
      ASSERT_GE(H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), 0) << name;
      std::string ours(entry.bytes, '\0');
      TensorPack::ChunkBuffer chunk;
      pack.read_payload(entry, 0, std::as_writable_bytes(std::span(ours)), chunk, BufferPool::shared());
      EXPECT_EQ(bytes, ours) << name;
      if (entry.kind != PackKind::bytes) {
        const auto dtype = static_cast<DType>(entry.dtype);
        const bool float8 = is_floating(dtype) && dtype_size(dtype) == 1;
        EXPECT_EQ(H5Aexists(dataset.id(), "torch_dtype") > 0, float8) << name;
        const H5T_class_t expected = is_floating(dtype) && !float8 ? H5T_FLOAT
                                     : is_complex(dtype)           ? H5T_COMPOUND
                                     : dtype == DType::boolean     ? H5T_ENUM
                                                                   : H5T_INTEGER;
        EXPECT_EQ(H5Tget_class(type.id()), expected) << name;
      }
    }
  }
}

/// The values of float16 and bfloat16 when the library converts them.
TEST(Hdf5View, HalfPrecisionIsConvertedRightly) {
  struct Case {
    DType dtype;
    std::vector<std::uint16_t> bits;
    std::vector<float> values;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<Case> cases = {
      {DType::float16, {0x3e00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0x8000}, {1.5F, -2, 65504, std::ldexp(1.0F, -24), infinity, -0.0F}},
      {DType::bfloat16, {0x3fc0, 0xc000, 0x7f7f, 0x0080, 0x7f80, 0x8000}, {1.5F, -2, 0x1.fep127F, 0x1p-126F, infinity, -0.0F}}};
  for (const Case& one : cases) {
    const Rank rank;
    test::TorchSpec spec;
    spec.dtype = one.dtype;
    spec.size = {static_cast<std::int64_t>(one.bits.size())};
    spec.stride = {1};
    spec.storage.assign(reinterpret_cast<const char*>(one.bits.data()), 2 * one.bits.size());
    rank.add("a.pt", test::torch_zip(spec));
    pack_rank(rank.path(), {});
    const auto lock = hdf5::lock();
    const Handle file = hdf5::open_file(rank.packed());
    const Handle dataset = open_dataset(file, "tensors/a.pt");
    std::vector<float> values(one.bits.size());
    ASSERT_GE(H5Dread(dataset.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    for (std::size_t k = 0; k < values.size(); ++k) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[k]), std::bit_cast<std::uint32_t>(one.values[k])) << k;
    }
  }
}

}  // namespace
}  // namespace msvis
