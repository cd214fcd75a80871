// Tensors without dimensions, number formats, names of types.
#include <random>

#include <gtest/gtest.h>

#include "kernels/cells.h"
#include "unit/kernels/tensors.h"

namespace msvis::testing {
namespace {

TensorMetrics compare(const Tensor& target, const Tensor& golden, Compat compat) {
  MetricOptions options;
  options.compat = compat;
  options.zero_d = true;
  return compare_tensors(target.span(), golden.span(), options);
}

Tensor one(DType dtype, double value) {
  return tensor(dtype, {value});
}

TEST(ZeroD, ReferenceComputesInTheCommonType) {
  const auto difference = [](const Tensor& target, const Tensor& golden) {
    return compare(target, golden, Compat::reference).max_abs_err.value;
  };
  const double third = static_cast<double>(1.0F / 3);
  // float16 with float32: float32. float16 with int8: float16; with int16: float32; with int32: float64.
  EXPECT_EQ(difference(one(DType::float16, 65504), one(DType::float32, -65504)), 131008);
  EXPECT_EQ(difference(one(DType::float16, 65504), one(DType::int8, -10)), 65504);  // 65514 rounds down
  EXPECT_EQ(difference(one(DType::float16, 65504), one(DType::int8, -100)), inf_value);
  EXPECT_EQ(difference(one(DType::float16, 65504), one(DType::int16, -100)), 65604);
  EXPECT_EQ(difference(one(DType::float32, 1.0 / 3), one(DType::int16, 0)), kernels::round_decimals(third, 12));
  EXPECT_EQ(difference(one(DType::float32, 16777216), one(DType::int16, -1)), 16777216);   // float32
  EXPECT_EQ(difference(one(DType::float32, 16777216), one(DType::int32, -1)), 16777217);   // float64
  EXPECT_EQ(difference(one(DType::boolean, 1), one(DType::float32, 16777217)), 16777215);  // a bool target: float64
  // Integers of different kinds: a type that holds both, else float64.
  EXPECT_EQ(difference(one(DType::uint8, 1), one(DType::int8, 2)), 1);
  EXPECT_EQ(difference(one(DType::uint8, 1), one(DType::uint16, 2)), 65535);
  EXPECT_EQ(difference(one(DType::uint32, 1), one(DType::uint32, 2)), 4294967295.0);
  EXPECT_EQ(difference(one(DType::uint64, 1), one(DType::uint64, 2)), 18446744073709551616.0);
  EXPECT_EQ(difference(one(DType::uint64, 1), one(DType::int64, 2)), 1);
  EXPECT_EQ(difference(one(DType::uint16, 1), one(DType::int16, 2)), 1);
  EXPECT_EQ(difference(one(DType::int16, -32768), one(DType::int16, 1)), 32767);   // wraps to 32767
  EXPECT_EQ(difference(one(DType::int16, -32768), one(DType::int16, 0)), -32768);  // its own negative
  EXPECT_EQ(difference(one(DType::int32, 5), one(DType::boolean, 1)), 4);
  EXPECT_EQ(difference(raw_tensor<std::int64_t>(DType::int64, {INT64_MIN}), raw_tensor<std::int64_t>(DType::int64, {1})),
            9223372036854775808.0);
  // Complex: the modulus.
  const auto c64 = raw_tensor<std::complex<float>>(DType::complex64, {{4, 6}});
  EXPECT_EQ(difference(c64, one(DType::float32, 1)), kernels::round_decimals(static_cast<double>(std::hypot(3.0F, 6.0F)), 12));
  EXPECT_EQ(difference(raw_tensor<std::complex<double>>(DType::complex128, {{4, 6}}),
                       raw_tensor<std::complex<double>>(DType::complex128, {{1, 2}})),
            5);
}

TEST(ZeroD, StandardComputesInFloat64) {
  const auto difference = [](const Tensor& target, const Tensor& golden) {
    return compare(target, golden, Compat::standard).max_abs_err.value;
  };
  EXPECT_EQ(difference(one(DType::uint8, 1), one(DType::uint16, 2)), 1);
  EXPECT_EQ(difference(one(DType::int16, -32768), one(DType::int16, 0)), 32768);
  EXPECT_EQ(difference(one(DType::float16, 65504), one(DType::float16, -65504)), 131008);
  const auto a = raw_tensor<std::complex<float>>(DType::complex64, {{4, 6}});
  const auto b = raw_tensor<std::complex<float>>(DType::complex64, {{1, 2}});
  const TensorMetrics metrics = compare(a, b, Compat::standard);
  EXPECT_EQ(metrics.max_abs_err.value, 4);       // the larger of two reals
  EXPECT_EQ(metrics.max_relative_err.value, 3);  // (4 - 1) / 1
  EXPECT_EQ(*metrics.worst, (WorstElement{0, true, 6, 2}));
}

TEST(ZeroD, RelativeErrorIsFloat32UnlessTheValueIsTooLarge) {
  const auto relative = [](double target, double golden) {
    return compare(one(DType::float64, target), one(DType::float64, golden), Compat::standard).max_relative_err;
  };
  EXPECT_EQ(relative(1.0 / 3, 0.25).value, 0.33333337307);
  EXPECT_EQ(relative(1e39, 3e38).value, kernels::round_decimals((1e39 - 3e38) / 3e38, 12));
  EXPECT_EQ(relative(1, 0).value, 8388608.0);
  EXPECT_EQ(relative(1e39, 0).value, kernels::round_decimals(std::fabs((1e39 + 0x1p-52 - 0x1p-52) / 0x1p-52), 12));
  EXPECT_EQ(relative(0, 0).value, 0.0);
  EXPECT_EQ(relative(inf_value, 2).value, inf_value);
  EXPECT_EQ(relative(2, inf_value).state, MetricState::not_a_number);
  // Beyond float32, but a float32 it stays.
  EXPECT_EQ(compare(one(DType::float32, 3.4028234e38), one(DType::float32, -3.4028234e38), Compat::standard).max_relative_err.value,
            inf_value);
}

TEST(ZeroD, Extras) {
  const TensorMetrics metrics = compare(one(DType::float32, 2), one(DType::float32, 3), Compat::standard);
  EXPECT_EQ(metrics.outcome, MetricOutcome::compared_scalar);
  EXPECT_EQ(metrics.cosine.state, MetricState::unsupported);
  EXPECT_FALSE(metrics.bit_identical);
  EXPECT_EQ(*metrics.worst, (WorstElement{0, false, 2, 3}));
  const TensorMetrics not_finite = compare(one(DType::float32, inf_value), one(DType::float32, nan_value), Compat::standard);
  EXPECT_EQ(not_finite.target_values.positive_infinity, 1U);
  EXPECT_EQ(not_finite.golden_values.nan, 1U);
  EXPECT_EQ(not_finite.non_finite_mismatches, 1U);
  EXPECT_FALSE(not_finite.worst.has_value());
  EXPECT_TRUE(compare(one(DType::float32, nan_value), one(DType::float32, nan_value), Compat::standard).bit_identical);
}

TEST(NumberFormats, HalfRoundTrip) {
  for (unsigned code = 0; code < 65536; ++code) {
    const float value = kernels::float_from_half(static_cast<std::uint16_t>(code));
    if (!std::isnan(value)) {
      ASSERT_EQ(kernels::half_from_float(value), code);
    } else {
      ASSERT_GT(code & 0x7fffU, 0x7c00U);
    }
  }
}

TEST(NumberFormats, HalfRoundsToNearestEven) {
  EXPECT_EQ(kernels::half_from_float(65519.996F), 0x7bff);
  EXPECT_EQ(kernels::half_from_float(65520.0F), 0x7c00);
  EXPECT_EQ(kernels::half_from_float(-1e30F), 0xfc00);
  EXPECT_EQ(kernels::half_from_float(2049.0F), 0x6800);  // 2048
  EXPECT_EQ(kernels::half_from_float(2051.0F), 0x6802);  // 2052
  EXPECT_EQ(kernels::half_from_float(0x1p-25F), 0x0000);
  EXPECT_EQ(kernels::half_from_float(0x1.8p-25F), 0x0001);
  EXPECT_EQ(kernels::half_from_float(0x1.8p-24F), 0x0002);
  EXPECT_EQ(kernels::half_from_float(0x1.ffcp-15F), 0x0400);  // rounds up to the smallest normal number
}

TEST(NumberFormats, PrintedRounding) {
  EXPECT_EQ(kernels::round_decimals(0.1234567890125, 12), 0.123456789012);  // the double is below the tie
  EXPECT_EQ(kernels::round_decimals(4e-13, 12), 0.0);
  EXPECT_TRUE(std::signbit(kernels::round_decimals(-4e-13, 12)));
  EXPECT_EQ(kernels::round_decimals(1.7976931348623157e308, 12), 1.7976931348623157e308);
  EXPECT_EQ(kernels::round_decimals(-inf_value, 12), -inf_value);
  EXPECT_EQ(kernels::round_decimals(0.9999994, 6), 0.999999);
}

TEST(DTypes, Names) {
  EXPECT_EQ(dtype_from_name("torch.float32"), DType::float32);
  EXPECT_EQ(dtype_from_name("torch.half"), DType::float16);
  EXPECT_EQ(dtype_from_name("BFloat16"), DType::bfloat16);
  EXPECT_EQ(dtype_from_name("uint8"), DType::uint8);
  EXPECT_FALSE(dtype_from_name("torch.complex32").has_value());
  EXPECT_FALSE(dtype_from_name("").has_value());
  EXPECT_EQ(dtype_from_numpy("c16"), DType::complex128);
  EXPECT_FALSE(dtype_from_numpy("V2").has_value());
  for (const DTypeInfo& info : dtype_infos) {
    EXPECT_EQ(dtype_from_name(info.torch_name), info.dtype);
    EXPECT_EQ(dtype_from_name(info.mindspore_name), info.dtype);
    EXPECT_EQ(&dtype_info(info.dtype), &info);
    if (!info.numpy_code.empty()) {
      EXPECT_EQ(dtype_from_numpy(info.numpy_code), info.dtype);
    }
  }
}

}  // namespace
}  // namespace msvis::testing
