// Element types of dumped tensors: their sizes and the names the frameworks give them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace msvis {

/// Type of the elements of a tensor, as stored.
enum class DType : std::uint8_t {
  float64,
  float32,
  float16,
  bfloat16,
  float8_e4m3fn,
  float8_e5m2,
  float8_e4m3fnuz,
  float8_e5m2fnuz,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  boolean,
  complex64,   ///< two float32: real, imaginary
  complex128,  ///< two float64
};

inline constexpr std::size_t dtype_count = 19;

/// What is known of one element type.
struct DTypeInfo {
  DType dtype;
  std::uint8_t size;                ///< bytes of one element
  std::uint8_t scalar_size;         ///< bytes that a byte-order swap reverses: half of `size` for complex types, else `size`
  std::string_view name;            ///< canonical: `float32`; the same as in numpy where numpy has the type
  std::string_view torch_name;      ///< in a PyTorch dump.json: `torch.float32`
  std::string_view mindspore_name;  ///< in a MindSpore dump.json: `Float32`
  std::string_view numpy_code;      ///< `.npy` descr without the byte order: `f4`; empty: numpy has no such type
};

inline constexpr std::array<DTypeInfo, dtype_count> dtype_infos = {{
    {DType::float64, 8, 8, "float64", "torch.float64", "Float64", "f8"},
    {DType::float32, 4, 4, "float32", "torch.float32", "Float32", "f4"},
    {DType::float16, 2, 2, "float16", "torch.float16", "Float16", "f2"},
    {DType::bfloat16, 2, 2, "bfloat16", "torch.bfloat16", "BFloat16", ""},
    {DType::float8_e4m3fn, 1, 1, "float8_e4m3fn", "torch.float8_e4m3fn", "Float8E4M3FN", ""},
    {DType::float8_e5m2, 1, 1, "float8_e5m2", "torch.float8_e5m2", "Float8E5M2", ""},
    {DType::float8_e4m3fnuz, 1, 1, "float8_e4m3fnuz", "torch.float8_e4m3fnuz", "Float8E4M3FNUZ", ""},
    {DType::float8_e5m2fnuz, 1, 1, "float8_e5m2fnuz", "torch.float8_e5m2fnuz", "Float8E5M2FNUZ", ""},
    {DType::int8, 1, 1, "int8", "torch.int8", "Int8", "i1"},
    {DType::int16, 2, 2, "int16", "torch.int16", "Int16", "i2"},
    {DType::int32, 4, 4, "int32", "torch.int32", "Int32", "i4"},
    {DType::int64, 8, 8, "int64", "torch.int64", "Int64", "i8"},
    {DType::uint8, 1, 1, "uint8", "torch.uint8", "UInt8", "u1"},
    {DType::uint16, 2, 2, "uint16", "torch.uint16", "UInt16", "u2"},
    {DType::uint32, 4, 4, "uint32", "torch.uint32", "UInt32", "u4"},
    {DType::uint64, 8, 8, "uint64", "torch.uint64", "UInt64", "u8"},
    {DType::boolean, 1, 1, "bool", "torch.bool", "Bool", "b1"},
    {DType::complex64, 8, 4, "complex64", "torch.complex64", "Complex64", "c8"},
    {DType::complex128, 16, 8, "complex128", "torch.complex128", "Complex128", "c16"},
}};

[[nodiscard]] constexpr const DTypeInfo& dtype_info(DType dtype) {
  return dtype_infos[static_cast<std::size_t>(dtype)];
}

/// Bytes of one element (a complex element is one element).
[[nodiscard]] constexpr std::size_t dtype_size(DType dtype) {
  return dtype_info(dtype).size;
}

/// Canonical name: `float32`, `bool`.
[[nodiscard]] constexpr std::string_view dtype_name(DType dtype) {
  return dtype_info(dtype).name;
}

/// Floating point of any width; complex types are not.
[[nodiscard]] constexpr bool is_floating(DType dtype) {
  return dtype <= DType::float8_e5m2fnuz;
}

[[nodiscard]] constexpr bool is_complex(DType dtype) {
  return dtype == DType::complex64 || dtype == DType::complex128;
}

/// Signed and unsigned integers; `boolean` is not one.
[[nodiscard]] constexpr bool is_integer(DType dtype) {
  return dtype >= DType::int8 && dtype <= DType::uint64;
}

/// The type that a dump calls `text`: canonical, PyTorch's (also its aliases `torch.float`, `torch.double`, `torch.half`, `torch.int`,
/// `torch.long`, `torch.short`, `torch.cfloat`, `torch.cdouble`) or MindSpore's. Nothing for other texts; case matters.
[[nodiscard]] constexpr std::optional<DType> dtype_from_name(std::string_view text) {
  struct Alias {
    std::string_view name;
    DType dtype;
  };
  constexpr std::array<Alias, 8> aliases = {{{"torch.float", DType::float32},
                                             {"torch.double", DType::float64},
                                             {"torch.half", DType::float16},
                                             {"torch.int", DType::int32},
                                             {"torch.long", DType::int64},
                                             {"torch.short", DType::int16},
                                             {"torch.cfloat", DType::complex64},
                                             {"torch.cdouble", DType::complex128}}};
  for (const DTypeInfo& info : dtype_infos) {
    if (text == info.name || text == info.torch_name || text == info.mindspore_name) {
      return info.dtype;
    }
  }
  for (const Alias& alias : aliases) {
    if (text == alias.name) {
      return alias.dtype;
    }
  }
  return std::nullopt;
}

/// The type of a `.npy` descr without its byte-order character: `f4`, `i8`, `b1`, `c16`. Nothing for others (`V2` is decided by the
/// caller).
[[nodiscard]] constexpr std::optional<DType> dtype_from_numpy(std::string_view code) {
  for (const DTypeInfo& info : dtype_infos) {
    if (!info.numpy_code.empty() && code == info.numpy_code) {
      return info.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace msvis
