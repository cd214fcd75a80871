// `.pt` files: every dtype in every container, views, metadata, and what must be refused.
#include <complex>

#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using Wrap = TorchSpec::Wrap;

/// 12 elements of arbitrary bytes (booleans: 0 and 1) as a 3 × 4 tensor.
TorchSpec any_tensor(DType dtype) {
  TorchSpec spec;
  spec.dtype = dtype;
  spec.size = {3, 4};
  spec.stride = {4, 1};
  for (std::size_t k = 0; k < 12 * dtype_size(dtype); ++k) {
    spec.storage += static_cast<char>(dtype == DType::boolean ? k % 2 : (k * 37 + 11) % 251);
  }
  return spec;
}

struct Container {
  std::string_view name;
  std::string (*write)(const TorchSpec&);
};

std::string zip_with(const TorchSpec& spec, void (*change)(ZipOptions&)) {
  ZipOptions options;
  change(options);
  return torch_zip(spec, options);
}

const std::vector<Container>& containers() {
  static const std::vector<Container> all = {
      {"stored", [](const TorchSpec& spec) { return torch_zip(spec); }},
      {"deflated", [](const TorchSpec& spec) { return zip_with(spec, [](ZipOptions& o) { o.deflate = true; }); }},
      {"zip64", [](const TorchSpec& spec) { return zip_with(spec, [](ZipOptions& o) { o.zip64 = true; }); }},
      {"deflated zip64", [](const TorchSpec& spec) { return zip_with(spec, [](ZipOptions& o) { o.zip64 = o.deflate = true; }); }},
      {"sizes in the local header", [](const TorchSpec& spec) { return zip_with(spec, [](ZipOptions& o) { o.data_descriptor = false; }); }},
      {"no zip64 end record", [](const TorchSpec& spec) { return zip_with(spec, [](ZipOptions& o) { o.zip64_end = false; }); }},
      {"unaligned payloads", [](const TorchSpec& spec) { return zip_with(spec, [](ZipOptions& o) { o.alignment = 1; }); }},
      {"archive comment",
       [](const TorchSpec& spec) { return zip_with(spec, [](ZipOptions& o) { o.comment = "PK\x05\x06 in a comment"; }); }},
      {"legacy", [](const TorchSpec& spec) { return torch_legacy(spec); }},
  };
  return all;
}

TEST(Torch, ReadsEveryDtypeInEveryContainerAndProtocol) {
  for (const DTypeInfo& info : dtype_infos) {
    for (const Container& container : containers()) {
      for (int protocol = 2; protocol <= 5; ++protocol) {
        SCOPED_TRACE(testing::Message() << info.name << ", " << container.name << ", protocol " << protocol);
        TorchSpec spec = any_tensor(info.dtype);
        spec.protocol = protocol;
        const std::string file = container.write(spec);
        Loaded tensor(file);
        EXPECT_EQ(tensor.dtype(), info.dtype);
        EXPECT_THAT(tensor.shape(), ElementsAre(3, 4));
        EXPECT_TRUE(tensor.is_contiguous());
        EXPECT_EQ(text_of(tensor.contiguous()), spec.storage);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % info.scalar_size, 0U);
      }
    }
  }
}

TEST(Torch, ReadsEveryFunctionThatRebuildsADenseTensor) {
  for (const Wrap wrap : {Wrap::parameter, Wrap::parameter_with_state, Wrap::from_type, Wrap::npu, Wrap::version1}) {
    for (const Container& container : containers()) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(wrap) << ", " << container.name);
      TorchSpec spec = any_tensor(DType::float32);
      spec.wrap = wrap;
      EXPECT_EQ(text_of(Loaded(container.write(spec)).contiguous()), spec.storage);
    }
  }
}

TEST(Torch, ReadsStoragesOfDevices) {
  for (const std::string_view module : {"torch.cuda", "torch_npu", "torch.npu", "torch_npu.npu"}) {
    TorchSpec spec = any_tensor(DType::bfloat16);
    spec.storage_module = module;
    spec.location = "npu:0";
    EXPECT_EQ(text_of(Loaded(torch_zip(spec)).contiguous()), spec.storage);
  }
}

TEST(Torch, UsesAStoredPayloadInPlace) {
  const TorchSpec spec = any_tensor(DType::float32);
  const std::string file = torch_zip(spec);
  // Memory of this alignment is what files are read into.
  PooledBuffer copy = BufferPool::shared().acquire(file.size());
  std::memcpy(copy.data(), file.data(), file.size());
  Tensor tensor = read_tensor(copy.bytes(), "memory");
  EXPECT_EQ(static_cast<std::size_t>(tensor.data() - copy.data()), file.find(spec.storage));
  EXPECT_EQ(tensor.data(), tensor.contiguous().data());
}

TEST(Torch, ScalarsAndEmptyTensors) {
  TorchSpec scalar = float_view(1, {}, {});
  for (const Container& container : containers()) {
    SCOPED_TRACE(container.name);
    Loaded tensor(container.write(scalar));
    EXPECT_THAT(tensor.shape(), ElementsAre());
    EXPECT_EQ(tensor.element_count(), 1U);
    EXPECT_THAT(values_of<float>(tensor.contiguous()), ElementsAre(0.0F));

    TorchSpec empty = float_view(0, {3, 0, 5}, {5, 5, 1});
    Loaded nothing(container.write(empty));
    EXPECT_THAT(nothing.shape(), ElementsAre(3, 0, 5));
    EXPECT_EQ(nothing.element_count(), 0U);
    EXPECT_TRUE(nothing.contiguous().empty());
    EXPECT_TRUE(nothing.is_contiguous());
  }
}

TEST(Torch, ViewsAreReadInLogicalOrder) {
  for (const Container& container : containers()) {
    SCOPED_TRACE(container.name);
    const auto read = [&](const TorchSpec& spec) { return read_values<float>(container.write(spec)); };
    // arange(24).reshape(4, 6)[1:3, 2:5]
    EXPECT_THAT(read(float_view(24, {2, 3}, {6, 1}, 8)), ElementsAre(8, 9, 10, 14, 15, 16));
    // arange(6).reshape(2, 3).t()
    EXPECT_THAT(read(float_view(6, {3, 2}, {1, 3})), ElementsAre(0, 3, 1, 4, 2, 5));
    // arange(3).reshape(3, 1).expand(3, 2)
    EXPECT_THAT(read(float_view(3, {3, 2}, {1, 0})), ElementsAre(0, 0, 1, 1, 2, 2));
    EXPECT_THAT(read(float_view(1, {2, 2}, {0, 0})), ElementsAre(0, 0, 0, 0));
    // Strides of dimensions of size 1 mean nothing.
    EXPECT_THAT(read(float_view(4, {1, 4}, {99, 1})), ElementsAre(0, 1, 2, 3));
    // A diagonal, and every third element.
    EXPECT_THAT(read(float_view(9, {3}, {4})), ElementsAre(0, 4, 8));
    EXPECT_THAT(read(float_view(9, {3}, {3}, 1)), ElementsAre(1, 4, 7));
  }
}

TEST(Torch, TheSqueezedShapeHasNoOnes) {
  Loaded tensor(torch_zip(float_view(6, {1, 2, 1, 3}, {6, 3, 3, 1})));
  EXPECT_THAT(tensor.shape(), ElementsAre(1, 2, 1, 3));
  EXPECT_THAT(tensor.squeezed_shape(), ElementsAre(2, 3));
}

TEST(Torch, ConjugateAndNegativeViewsAreResolved) {
  using Complex = std::complex<float>;
  TorchSpec spec;
  spec.dtype = DType::complex64;
  spec.size = {2};
  spec.stride = {1};
  spec.storage = bytes_of<Complex>({{1, 2}, {-3, -4}});
  spec.conjugate = true;
  EXPECT_THAT(read_values<Complex>(torch_zip(spec)), ElementsAre(Complex(1, -2), Complex(-3, 4)));
  spec.negate = true;
  EXPECT_THAT(read_values<Complex>(torch_zip(spec)), ElementsAre(Complex(-1, 2), Complex(3, -4)));
  spec.conjugate = false;
  EXPECT_THAT(read_values<Complex>(torch_zip(spec)), ElementsAre(Complex(-1, -2), Complex(3, 4)));
  // An element that a view shows twice is still changed once.
  spec.size = {2, 2};
  spec.stride = {0, 1};
  EXPECT_THAT(read_values<Complex>(torch_zip(spec)), ElementsAre(Complex(-1, -2), Complex(3, 4), Complex(-1, -2), Complex(3, 4)));
  // conj().imag of a complex tensor is a negative view of real numbers.
  TorchSpec imaginary = float_view(4, {2}, {2}, 1);
  imaginary.negate = true;
  EXPECT_THAT(read_values<float>(torch_zip(imaginary)), ElementsAre(-1, -3));
}

TEST(Torch, TensorsOfOtherDevicesAreCast) {
  TorchSpec spec = float_view(4, {2, 2}, {1, 2});
  spec.wrap = Wrap::cpu_cast;
  spec.cast = "int16";
  const std::string file = torch_zip(spec);
  Loaded tensor(file);
  EXPECT_EQ(tensor.dtype(), DType::int16);
  EXPECT_THAT(values_of<std::int16_t>(tensor.contiguous()), ElementsAre(0, 2, 1, 3));
}

std::string numpy_tensor_pickle(std::string_view module, std::string_view order, std::string_view code, bool fortran,
                                std::string_view latin1, std::string_view dtype) {
  PickleWriter out;
  out.global("torch._utils", "_rebuild_device_tensor_from_numpy").mark();
  out.global(module, "_reconstruct").mark().global("numpy", "ndarray").integers({0});
  out.global("_codecs", "encode").mark().text("b").text("latin1").tuple().reduce().tuple().reduce();
  out.mark().integer(1).integers({2, 2});
  out.global("numpy", "dtype").mark().text(code).boolean(false).boolean(true).tuple().reduce();
  out.mark().integer(3).text(order).none().none().none().integer(-1).integer(-1).integer(0).tuple().raw("b");
  out.boolean(fortran);
  out.global("_codecs", "encode").mark().text(latin1).text("latin1").tuple().reduce().tuple().raw("b");
  out.global("torch", dtype).text("xla:0").boolean(false).tuple().reduce();
  return out.take();
}

TEST(Torch, TensorsThatWereSavedAsNumpyArrays) {
  // int16 1, 2, 3, -256: the last one has bytes 0x00 0xff, of which the second takes two bytes of UTF-8.
  const std::string content("\x01\x00\x02\x00\x03\x00\x00\xc3\xbf", 9);
  for (const std::string_view module : {"numpy.core.multiarray", "numpy._core.multiarray"}) {
    EXPECT_THAT(read_values<std::int16_t>(torch_zip_of(numpy_tensor_pickle(module, "<", "i2", false, content, "int16"), {})),
                ElementsAre(1, 2, 3, -256));
  }
  EXPECT_THAT(read_values<std::int16_t>(torch_zip_of(numpy_tensor_pickle("numpy.core.multiarray", "<", "i2", true, content, "int16"), {})),
              ElementsAre(1, 3, 2, -256));
  EXPECT_THAT(read_values<std::int16_t>(torch_zip_of(numpy_tensor_pickle("numpy.core.multiarray", ">", "i2", false, content, "int16"), {})),
              ElementsAre(256, 512, 768, 255));
  EXPECT_THAT(read_values<float>(torch_zip_of(numpy_tensor_pickle("numpy.core.multiarray", "<", "i2", false, content, "float32"), {})),
              ElementsAre(1, 2, 3, -256));
  expect_file_fault(TensorFault::damaged, "no Latin-1",
                    torch_zip_of(numpy_tensor_pickle("numpy.core.multiarray", "<", "i2", false, "\xe2\x82\xac", "float32"), {}));
  expect_file_fault(TensorFault::damaged, "data for 2 elements",
                    torch_zip_of(numpy_tensor_pickle("numpy.core.multiarray", "<", "i2", false, "abcd", "float32"), {}));
}

TEST(Torch, LegacyFilesWithViewsOfStorages) {
  TorchSpec spec = float_view(10, {3}, {1}, 1);
  spec.legacy_view = {4, 5};
  EXPECT_THAT(read_values<float>(torch_legacy(spec)), ElementsAre(5, 6, 7));
  spec.legacy_view = {4, 3};  // the third element of the tensor is beyond the view
  expect_file_fault(TensorFault::damaged, "data for 3 elements", torch_legacy(spec));
  spec.legacy_view = {8, 3};
  expect_file_fault(TensorFault::damaged, "its view goes beyond its storage", torch_legacy(spec));
}

TEST(Torch, ASecondStorageIsFoundByItsKey) {
  TorchSpec spec = float_view(3, {3}, {1});
  spec.key = "1";
  const std::string file = torch_zip_of(torch_pickle(spec), {{"data/0", bytes_of<float>({7, 7, 7})}, {"data/1", spec.storage}});
  EXPECT_THAT(read_values<float>(file), ElementsAre(0, 1, 2));
}

TEST(Torch, TheFolderIsThatOfTheFirstRecord) {
  const TorchSpec spec = float_view(2, {2}, {1});
  EXPECT_THAT(read_values<float>(torch_zip_of(torch_pickle(spec), {{"data/0", spec.storage}}, {}, "Torch.add.0.forward.kwargs.other")),
              ElementsAre(0, 1));
}

TEST(Torch, ALargerRecordThanTheStorageIsAllowed) {
  const TorchSpec spec = float_view(2, {2}, {1});
  EXPECT_THAT(read_values<float>(torch_zip_of(torch_pickle(spec), {{"data/0", spec.storage + "tail"}})), ElementsAre(0, 1));
}

TEST(Torch, OtherByteOrdersAreRefused) {
  const TorchSpec spec = float_view(2, {2}, {1});
  expect_file_fault(TensorFault::refused, "big-endian", torch_zip_of(torch_pickle(spec), {{"byteorder", "big"}, {"data/0", spec.storage}}));
  expect_file_fault(TensorFault::damaged, "byte order middle",
                    torch_zip_of(torch_pickle(spec), {{"byteorder", "middle"}, {"data/0", spec.storage}}));
  expect_file_fault(TensorFault::refused, "big-endian", torch_legacy(spec, false));
}

TEST(Torch, UnsupportedDtypesAreNamed) {
  for (const std::string_view name : {"float8_e8m0fnu", "complex32", "bits8", "quint8", "hifloat8", "float99"}) {
    TorchSpec spec = any_tensor(DType::uint8);
    spec.dtype_name = name;
    for (const Container& container : containers()) {
      expect_file_fault(TensorFault::unsupported_dtype, "unsupported dtype torch." + std::string(name), container.write(spec));
    }
  }
  PickleWriter out;
  out.global("torch._utils", "_rebuild_tensor_v2")
      .mark()
      .mark()
      .text("storage")
      .global("torch", "QInt8Storage")
      .text("0")
      .text("cpu")
      .integer(2);
  out.tuple().persistent().integer(0).integers({2}).integers({1}).boolean(false).ordered_dict().tuple().reduce();
  expect_file_fault(TensorFault::unsupported_dtype, "unsupported dtype torch.QInt8Storage", torch_zip_of(out.take(), {{"data/0", "ab"}}));
}

TEST(Torch, OtherObjectsAreNoTensors) {
  const auto file_of = [](PickleWriter& out) { return torch_zip_of(out.take(), {}); };
  const auto call = [](std::string_view name) {
    PickleWriter out;
    out.global("torch._utils", name).mark().none().tuple().reduce();
    return torch_zip_of(out.take(), {});
  };
  expect_file_fault(TensorFault::not_a_tensor, "sparse", call("_rebuild_sparse_tensor"));
  expect_file_fault(TensorFault::not_a_tensor, "sparse", call("_rebuild_sparse_csr_tensor"));
  expect_file_fault(TensorFault::not_a_tensor, "quantised", call("_rebuild_qtensor"));
  expect_file_fault(TensorFault::not_a_tensor, "meta", call("_rebuild_meta_tensor_no_storage"));
  expect_file_fault(TensorFault::not_a_tensor, "a list", file_of(PickleWriter().raw("]")));
  expect_file_fault(TensorFault::not_a_tensor, "a dict", file_of(PickleWriter().raw("}")));
  expect_file_fault(TensorFault::not_a_tensor, "a dict", file_of(PickleWriter().ordered_dict()));
  expect_file_fault(TensorFault::not_a_tensor, "an int", file_of(PickleWriter().integer(7)));
  expect_file_fault(TensorFault::not_a_tensor, "a float", file_of(PickleWriter().raw("G\x40\x09\x21\xfb").raw("TD-\x18")));
  expect_file_fault(TensorFault::not_a_tensor, "a str", file_of(PickleWriter().text("x")));
  expect_file_fault(TensorFault::not_a_tensor, "None", file_of(PickleWriter().none()));
  expect_file_fault(TensorFault::not_a_tensor, "a tuple", file_of(PickleWriter().empty_tuple()));
  PickleWriter storage;
  storage.mark().text("storage").global("torch", "FloatStorage").text("0").text("cpu").integer(2).tuple().persistent();
  expect_file_fault(TensorFault::not_a_tensor, "a bare storage", file_of(storage));
  ZipWriter zip;
  zip.add("folder/readme", "nothing");
  expect_file_fault(TensorFault::not_a_tensor, "data.pkl", zip.take());
  expect_file_fault(TensorFault::not_a_tensor, "not a file of torch.save", PickleWriter().integer(7).take());
}

TEST(Torch, ShapesThatDoNotFitTheStorageAreDamage) {
  const auto expect_damaged = [](const TorchSpec& spec, std::string_view words) {
    expect_file_fault(TensorFault::damaged, words, torch_zip(spec));
    expect_file_fault(TensorFault::damaged, words, torch_legacy(spec));
  };
  expect_damaged(float_view(6, {7}, {1}), "data for 6 elements");
  expect_damaged(float_view(6, {2, 3}, {3, 2}), "data for 6 elements");
  expect_damaged(float_view(6, {3}, {1}, 4), "data for 6 elements");
  expect_damaged(float_view(6, {2, 3}, {3}), "2 dimensions, but 1 strides");
  expect_damaged(float_view(6, {-1}, {1}), "negative");
  expect_damaged(float_view(6, {2}, {-1}), "negative");
  expect_damaged(float_view(6, {2}, {1}, -1), "negative");
  expect_damaged(float_view(6, {INT64_MAX, INT64_MAX}, {0, 0}), "impossibly large");
  expect_damaged(float_view(6, {INT64_MAX, 8}, {0, 0}), "impossibly large");
  expect_damaged(float_view(6, {INT64_MAX}, {1}), "impossibly large");
  expect_damaged(float_view(6, {3, 3}, {INT64_MAX, 1}), "impossibly large");
  expect_damaged(float_view(6, {2}, {1}, INT64_MAX), "data for 6 elements");
}

TEST(Torch, LimitsOfViews) {
  std::vector<std::int64_t> many(64, 1);
  EXPECT_THAT(read_values<float>(torch_zip(float_view(1, many, many))), ElementsAre(0.0F));
  many.push_back(1);
  expect_file_fault(TensorFault::too_large, "65 dimensions", torch_zip(float_view(1, many, many)));
  // A hundred bytes must not become gigabytes.
  expect_file_fault(TensorFault::too_large, "repeats 1 elements", torch_zip(float_view(1, {1 << 20, 1 << 10}, {0, 0})));
}

TEST(Torch, StoragesThatAreNotThere) {
  TorchSpec spec = float_view(6, {6}, {1});
  expect_file_fault(TensorFault::damaged, "no record data/0", torch_zip_of(torch_pickle(spec), {}));
  expect_file_fault(TensorFault::damaged, "has 23 bytes; its storage needs 24",
                    torch_zip_of(torch_pickle(spec), {{"data/0", spec.storage.substr(1)}}));
  spec.claimed_count = INT64_MAX;
  expect_file_fault(TensorFault::damaged, "impossible size", torch_zip(spec));
  spec.claimed_count = 7;
  expect_file_fault(TensorFault::damaged, "6 elements instead of 7", torch_legacy(spec));
}

TEST(Torch, EveryTruncationIsFound) {
  const TorchSpec spec = float_view(6, {2, 3}, {3, 1});
  for (const Container& container : containers()) {
    const std::string file = container.write(spec);
    for (std::size_t size = 0; size < file.size(); ++size) {
      SCOPED_TRACE(testing::Message() << container.name << " cut to " << size);
      try {
        (void)Loaded(file.substr(0, size));
        // Only what stands behind the end of the archive may be missing.
        EXPECT_EQ(container.name, "archive comment");
      } catch (const TensorError& error) {
        EXPECT_TRUE(error.fault() == TensorFault::damaged || error.fault() == TensorFault::not_a_tensor) << error.what();
      }
    }
  }
}

TEST(Torch, OnlyTheElementsOfAViewAreRead) {
  const TemporaryDirectory directory;
  const auto path = write_bytes(directory.path() / "large.pt", torch_zip(float_view(300'000, {2, 2}, {100, 1}, 150'000)));
  BufferPool pool(0);
  ReadHints hints;
  hints.pool = &pool;
  Tensor tensor = read_tensor(path, hints);
  EXPECT_LT(pool.bytes_in_use(), 100'000U);
  EXPECT_THAT(values_of<float>(tensor.contiguous()), ElementsAre(150'000, 150'001, 150'100, 150'101));
}

TEST(Torch, LargeFilesOfAllContainers) {
  const TemporaryDirectory directory;
  const TorchSpec spec = float_view(400'000, {400'000}, {1});
  for (const Container& container : containers()) {
    SCOPED_TRACE(container.name);
    const auto path = write_bytes(directory.path() / "large.pt", container.write(spec));
    ASSERT_GT(std::filesystem::file_size(path), TensorLimits::whole_file_bytes);
    Tensor tensor = read_tensor(path);
    EXPECT_EQ(text_of(tensor.contiguous()), spec.storage);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % sizeof(float), 0U);
  }
}

TEST(Torch, LegacyFilesWhosePicklesAreLongerThanTheFirstWindow) {
  // Two MiB of text in the object, as a view of a stream in the way of the tensor.
  const TemporaryDirectory directory;
  TorchSpec spec = float_view(2, {2}, {1});
  spec.wrap = Wrap::parameter;
  spec.location = std::string(std::size_t{2} << 20, 'x');
  const auto path = write_bytes(directory.path() / "long.pt", torch_legacy(spec));
  Tensor tensor = read_tensor(path);
  EXPECT_THAT(values_of<float>(tensor.contiguous()), ElementsAre(0, 1));
}

}  // namespace
}  // namespace msvis::test
