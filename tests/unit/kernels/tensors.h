// Tensors for the tests of the kernels: made from numbers, encoded in plain C++.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/number_formats.h"
#include "msvis/metrics.h"

namespace msvis::testing {

/// The same numbers in every run, so that a failure can be repeated.
inline std::mt19937_64 generator(std::uint64_t seed) {
  return std::mt19937_64(seed);
}

inline constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
inline constexpr double inf_value = std::numeric_limits<double>::infinity();

/// Bytes of a tensor with room for misalignment; what surrounds the elements is 0xff, which is NaN in every floating-point format here.
class Tensor {
 public:
  Tensor(DType dtype, std::size_t count, std::size_t misalignment = 0)
      : dtype_(dtype), count_(count), offset_(guard + misalignment), bytes_(count * dtype_size(dtype) + 2 * guard + 64, 0xff) {}

  [[nodiscard]] unsigned char* data() { return bytes_.data() + offset_; }
  [[nodiscard]] const unsigned char* data() const { return bytes_.data() + offset_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] TensorSpan span() const { return {data(), dtype_, count_, big_endian_}; }

  /// Turns the bytes of every number.
  void make_big_endian() {
    const std::size_t size = dtype_info(dtype_).scalar_size;
    for (std::size_t at = 0; at < count_ * dtype_size(dtype_); at += size) {
      std::reverse(data() + at, data() + at + size);
    }
    big_endian_ = true;
  }

  /// The nearest value of an integer type; 0 for NaN.
  template <typename T>
  static T saturated(double value) {
    if (!(value > static_cast<double>(std::numeric_limits<T>::min()))) {
      return std::isnan(value) ? T{0} : std::numeric_limits<T>::min();
    }
    return value >= static_cast<double>(std::numeric_limits<T>::max()) ? std::numeric_limits<T>::max() : static_cast<T>(value);
  }

  template <typename T>
  void set_raw(std::size_t index, T value) {
    std::memcpy(data() + index * sizeof value, &value, sizeof value);
  }

  /// Stores the nearest value (bfloat16: cut off; 8-bit formats: not supported, use set_raw).
  void set(std::size_t index, double value) {
    switch (dtype_) {
      case DType::float64:
        return set_raw(index, value);
      case DType::float32:
        return set_raw(index, static_cast<float>(value));
      case DType::float16:
        return set_raw(index, kernels::half_from_float(static_cast<float>(value)));
      case DType::bfloat16:
        return set_raw(index, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16U));
      case DType::int8:
        return set_raw(index, saturated<std::int8_t>(value));
      case DType::int16:
        return set_raw(index, saturated<std::int16_t>(value));
      case DType::int32:
        return set_raw(index, saturated<std::int32_t>(value));
      case DType::int64:
        return set_raw(index, saturated<std::int64_t>(value));
      case DType::uint8:
        return set_raw(index, saturated<std::uint8_t>(value));
      case DType::uint16:
        return set_raw(index, saturated<std::uint16_t>(value));
      case DType::uint32:
        return set_raw(index, saturated<std::uint32_t>(value));
      case DType::uint64:
        return set_raw(index, saturated<std::uint64_t>(value));
      case DType::boolean:
        return set_raw(index, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
      case DType::complex64:
        return set_raw(index, std::complex<float>(static_cast<float>(value), 0));
      case DType::complex128:
        return set_raw(index, std::complex<double>(value, 0));
      default:
        throw std::invalid_argument("no such conversion");
    }
  }

 private:
  static constexpr std::size_t guard = 256;
  DType dtype_;
  std::size_t count_;
  std::size_t offset_;
  bool big_endian_ = false;
  std::vector<unsigned char> bytes_;
};

inline Tensor tensor(DType dtype, const std::vector<double>& values) {
  Tensor made(dtype, values.size());
  for (std::size_t k = 0; k < values.size(); ++k) {
    made.set(k, values[k]);
  }
  return made;
}

template <typename T>
Tensor raw_tensor(DType dtype, const std::vector<T>& values) {
  Tensor made(dtype, values.size());
  for (std::size_t k = 0; k < values.size(); ++k) {
    made.set_raw(k, values[k]);
  }
  return made;
}

}  // namespace msvis::testing
