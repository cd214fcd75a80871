// `.npy` files.
#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

using testing::ElementsAre;

std::string reversed_scalars(std::string bytes, std::size_t size) {
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
  }
  return bytes;
}

TEST(Npy, ReadsEveryDtypeVersionAndByteOrder) {
  for (const DTypeInfo& info : dtype_infos) {
    if (info.numpy_code.empty()) {
      continue;
    }
    std::string data;
    for (std::size_t k = 0; k < std::size_t{6} * info.size; ++k) {
      data += static_cast<char>(info.dtype == DType::boolean ? k % 2 : (k * 41 + 3) % 251);
    }
    for (int major = 1; major <= 3; ++major) {
      for (const std::string_view order : {"<", "=", "|", "", ">"}) {
        SCOPED_TRACE(testing::Message() << info.name << " version " << major << " order '" << order << "'");
        const std::string stored = order == ">" ? reversed_scalars(data, info.scalar_size) : data;
        const std::string file = npy(std::string(order) + std::string(info.numpy_code), {2, 3}, false, stored, major);
        Loaded tensor(file);
        EXPECT_EQ(tensor.dtype(), info.dtype);
        EXPECT_THAT(tensor.shape(), ElementsAre(2, 3));
        EXPECT_EQ(text_of(tensor.contiguous()), data);
      }
    }
  }
}

TEST(Npy, FortranOrder) {
  // numpy.array([[1, 2, 3], [4, 5, 6]], order="F")
  const std::string data = bytes_of<std::int32_t>({1, 4, 2, 5, 3, 6});
  Loaded tensor(npy("<i4", {2, 3}, true, data));
  EXPECT_FALSE(tensor.is_contiguous());
  EXPECT_THAT(values_of<std::int32_t>(tensor.contiguous()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read_values<std::int32_t>(npy(">i4", {2, 3}, true, reversed_scalars(data, 4))), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(Loaded(npy("<i4", {6}, true, data)).is_contiguous());
}

TEST(Npy, ScalarsAndEmptyArrays) {
  EXPECT_THAT(read_values<double>(npy("<f8", {}, false, bytes_of<double>({2.5}))), ElementsAre(2.5));
  Loaded empty(npy("<f4", {0, 4}, false, ""));
  EXPECT_THAT(empty.shape(), ElementsAre(0, 4));
  EXPECT_TRUE(empty.contiguous().empty());
}

TEST(Npy, BytesBehindTheDataAreIgnored) {
  EXPECT_THAT(read_values<float>(npy("<f4", {2}, false, bytes_of<float>({1, 2, 3}))), ElementsAre(1, 2));
}

TEST(Npy, Bfloat16AsTwoVoidBytes) {
  const std::string data("\x80\x3f\x00\xc0", 4);
  for (const std::string_view descr : {"V2", "|V2", "<V2"}) {
    for (const std::string_view type : {"torch.bfloat16", "BFloat16", "bfloat16"}) {
      ReadHints hints;
      hints.dtype = type;
      const std::string file = npy(descr, {2}, false, data);
      Loaded tensor(file, hints);
      EXPECT_EQ(tensor.dtype(), DType::bfloat16);
      EXPECT_THAT(values_of<std::uint16_t>(tensor.contiguous()), ElementsAre(0x3f80, 0xc000));
    }
    ReadHints other;
    other.dtype = "Float16";
    expect_file_fault(TensorFault::unsupported_dtype, "unsupported dtype " + std::string(descr), npy(descr, {2}, false, data), other);
    expect_file_fault(TensorFault::unsupported_dtype, "dump.json", npy(descr, {2}, false, data));
  }
  // MindSpore casts to float32 before it saves: the file's own type counts.
  ReadHints hints;
  hints.dtype = "BFloat16";
  EXPECT_EQ(Loaded(npy("<f4", {1}, false, data), hints).dtype(), DType::float32);
}

TEST(Npy, OtherTypesAreUnsupportedByName) {
  for (const std::string_view descr : {"<U5", "|S3", "|O", "<M8[ns]", "<f16", "|V1", "|V8", ">V2", "<c32", "<b8", ""}) {
    expect_file_fault(TensorFault::unsupported_dtype, "unsupported dtype " + std::string(descr),
                      npy(descr, {1}, false, std::string(64, 'x')));
  }
  expect_file_fault(TensorFault::unsupported_dtype, "Python objects", npy("|O", {1}, false, "\x80\x02]."));
  expect_file_fault(TensorFault::unsupported_dtype, "structured",
                    npy_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "abcd"));
  expect_file_fault(TensorFault::unsupported_dtype, "structured",
                    npy_of("{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1,), }", "abcd"));
}

TEST(Npy, TolerantHeaders) {
  const std::string data = bytes_of<float>({1, 2, 3, 4, 5, 6});
  for (const std::string_view header : {
           "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}",
           "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2,3)}",
           "  { 'descr' : u'<f4' ,\n 'fortran_order' : False , 'shape' : ( 2L , 3L , ) , } \n",
           "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
           "{'descr': b'<f4', 'fortran_order': False, 'shape': (2,3,),}",
       }) {
    for (const bool pad : {true, false}) {
      SCOPED_TRACE(header);
      const std::string file = npy_of(std::string(header), data, 1, pad);
      Loaded tensor(file);
      EXPECT_THAT(tensor.shape(), ElementsAre(2, 3));
      EXPECT_EQ(text_of(tensor.contiguous()), data);
    }
  }
}

TEST(Npy, BrokenHeaders) {
  for (const std::string_view header : {
           "",
           "{",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'shape': (2,)}",
           "{'fortran_order': False, 'shape': (2,)}",
           "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} trailing",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'extra': 1}",
           "{'descr': '<f4 }",
           "{descr: '<f4'}",
           "__import__('os').system('true')",
       }) {
    SCOPED_TRACE(header);
    expect_file_fault(TensorFault::damaged, "its .npy header has", npy_of(std::string(header), std::string(64, 'x')));
  }
}

TEST(Npy, SizesThatDoNotFit) {
  expect_file_fault(TensorFault::damaged, "data for 2 elements of type float32", npy("<f4", {3}, false, bytes_of<float>({1, 2})));
  expect_file_fault(TensorFault::damaged, "data for 0 elements", npy("<f4", {1}, false, "abc"));
  expect_file_fault(TensorFault::damaged, "impossibly large", npy("<f4", {INT64_MAX, INT64_MAX}, false, "abcd"));
  expect_file_fault(TensorFault::damaged, "impossibly large", npy("<f8", {INT64_MAX}, false, "abcd"));
  EXPECT_EQ(Loaded(npy("<f8", {INT64_MAX, 0, INT64_MAX}, false, "")).element_count(), 0U);
  std::vector<std::int64_t> many(65, 1);
  expect_file_fault(TensorFault::too_large, "64 dimensions", npy("<f4", many, false, "abcd"));
  many.pop_back();
  EXPECT_EQ(Loaded(npy("<f4", many, false, "abcd")).element_count(), 1U);
}

TEST(Npy, VersionsAndHeaderLengths) {
  expect_file_fault(TensorFault::refused, "version 4", npy_of("{}", "", 4));
  expect_file_fault(TensorFault::refused, "version 0", npy_of("{}", "", 0));
  std::string long_header = npy_of("{}", "", 2);
  long_header.replace(8, 4, std::string("\xff\xff\xff\xff"));
  expect_file_fault(TensorFault::too_large, "header of 4294967295 bytes", long_header);
  std::string beyond = npy_of("{}", "", 1);
  beyond.replace(8, 2, std::string("\xff\xff"));
  expect_file_fault(TensorFault::damaged, "ends early", beyond);
  const std::string file = npy("<f4", {2}, false, bytes_of<float>({1, 2}));
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THROW((void)Loaded(file.substr(0, size)), TensorError) << size;
  }
}

TEST(Npy, LargeFilesAndLongHeaders) {
  const TemporaryDirectory directory;
  std::vector<double> values(100'000);
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[k] = static_cast<double>(k);
  }
  const std::string data = bytes_of(values);
  const auto plain = write_bytes(directory.path() / "plain.npy", npy("<f8", {100'000}, false, data));
  EXPECT_EQ(text_of(read_tensor(plain).contiguous()), data);
  const auto big = write_bytes(directory.path() / "big.npy", npy(">f8", {100'000}, false, reversed_scalars(data, 8)));
  EXPECT_EQ(text_of(read_tensor(big).contiguous()), data);
  const std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (100000,), " + std::string(10'000, ' ') + "}";
  const auto long_header = write_bytes(directory.path() / "long.npy", npy_of(header, data, 2));
  EXPECT_EQ(text_of(read_tensor(long_header).contiguous()), data);
}

}  // namespace
}  // namespace msvis::test
