// Casts and signs, against exact values.
#include "tensor/convert.h"

#include <cmath>
#include <limits>

#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

template <typename To, typename From>
To cast_one(DType from_type, From from, DType to_type) {
  To to{};
  cast_elements(reinterpret_cast<const std::byte*>(&from), from_type, reinterpret_cast<std::byte*>(&to), to_type, 1);
  return to;
}

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Convert, EveryNarrowValueSurvivesTheWayThroughFloat32) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const auto wide = cast_one<float>(dtype, static_cast<std::uint16_t>(bits), DType::float32);
      const auto back = cast_one<std::uint16_t>(DType::float32, wide, dtype);
      if (std::isnan(wide)) {
        ASSERT_TRUE(std::isnan(cast_one<float>(dtype, back, DType::float32)));
      } else {
        ASSERT_EQ(back, bits);
      }
    }
  }
  for (const DType dtype : {DType::float8_e4m3fn, DType::float8_e5m2, DType::float8_e4m3fnuz, DType::float8_e5m2fnuz}) {
    for (std::uint32_t bits = 0; bits < 256; ++bits) {
      const auto wide = cast_one<float>(dtype, static_cast<std::uint8_t>(bits), DType::float32);
      const auto back = cast_one<std::uint8_t>(DType::float32, wide, dtype);
      if (std::isnan(wide)) {
        ASSERT_TRUE(std::isnan(cast_one<float>(dtype, back, DType::float32)));
      } else {
        ASSERT_EQ(back, bits) << dtype_name(dtype);
      }
    }
  }
}

TEST(Convert, KnownNarrowValues) {
  EXPECT_EQ(cast_one<float>(DType::float16, std::uint16_t{0x3c00}, DType::float32), 1.0F);
  EXPECT_EQ(cast_one<float>(DType::float16, std::uint16_t{0x7bff}, DType::float32), 65504.0F);
  EXPECT_EQ(cast_one<float>(DType::float16, std::uint16_t{0x0001}, DType::float32), std::ldexp(1.0F, -24));
  EXPECT_EQ(cast_one<float>(DType::float16, std::uint16_t{0xfc00}, DType::float32), -infinity);
  EXPECT_EQ(cast_one<float>(DType::bfloat16, std::uint16_t{0x4049}, DType::float32), 3.140625F);
  EXPECT_EQ(cast_one<float>(DType::float8_e4m3fn, std::uint8_t{0x7e}, DType::float32), 448.0F);
  EXPECT_TRUE(std::isnan(cast_one<float>(DType::float8_e4m3fn, std::uint8_t{0x7f}, DType::float32)));
  EXPECT_EQ(cast_one<float>(DType::float8_e5m2, std::uint8_t{0x7b}, DType::float32), 57344.0F);
  EXPECT_EQ(cast_one<float>(DType::float8_e5m2, std::uint8_t{0x7c}, DType::float32), infinity);
  EXPECT_EQ(cast_one<float>(DType::float8_e4m3fnuz, std::uint8_t{0x7f}, DType::float32), 240.0F);
  EXPECT_TRUE(std::isnan(cast_one<float>(DType::float8_e4m3fnuz, std::uint8_t{0x80}, DType::float32)));
  EXPECT_EQ(cast_one<float>(DType::float8_e5m2fnuz, std::uint8_t{0x7f}, DType::float32), 57344.0F);
}

TEST(Convert, RoundingIsToNearestEven) {
  EXPECT_EQ(cast_one<std::uint16_t>(DType::float32, 1.0F + 0x1p-11F, DType::float16), 0x3c00);      // halfway, down to even
  EXPECT_EQ(cast_one<std::uint16_t>(DType::float32, 1.0F + 3 * 0x1p-11F, DType::float16), 0x3c02);  // halfway, up to even
  EXPECT_EQ(cast_one<std::uint16_t>(DType::float32, 65520.0F, DType::float16), 0x7c00);             // rounds to infinity
  EXPECT_EQ(cast_one<std::uint16_t>(DType::float32, 65519.0F, DType::float16), 0x7bff);
  EXPECT_EQ(cast_one<std::uint16_t>(DType::float32, 0x1p-25F, DType::float16), 0x0000);  // half of the smallest
  EXPECT_EQ(cast_one<std::uint16_t>(DType::float32, 0x1.8p-25F, DType::float16), 0x0001);
  EXPECT_EQ(cast_one<std::uint16_t>(DType::float32, -0.0F, DType::float16), 0x8000);
  EXPECT_EQ(cast_one<std::uint16_t>(DType::float32, 1.00390625F, DType::bfloat16), 0x3f80);
  EXPECT_EQ(cast_one<std::uint8_t>(DType::float32, 464.0F, DType::float8_e4m3fn), 0x7e);  // halfway to what would be 480
  EXPECT_EQ(cast_one<std::uint8_t>(DType::float32, 465.0F, DType::float8_e4m3fn), 0x7f);  // NaN: there is no infinity
  EXPECT_EQ(cast_one<std::uint8_t>(DType::float32, -infinity, DType::float8_e5m2), 0xfc);
  EXPECT_EQ(cast_one<std::uint8_t>(DType::float32, -1e30F, DType::float8_e4m3fnuz), 0x80);  // its only NaN
  EXPECT_EQ(cast_one<std::uint8_t>(DType::float32, -0.0F, DType::float8_e4m3fnuz), 0x00);   // there is one zero
}

TEST(Convert, IntegersAreExactAndWrap) {
  EXPECT_EQ(cast_one<std::int64_t>(DType::uint64, UINT64_MAX, DType::int64), -1);
  EXPECT_EQ(cast_one<std::uint8_t>(DType::int32, 300, DType::uint8), 44);
  EXPECT_EQ(cast_one<std::int64_t>(DType::int8, std::int8_t{-5}, DType::int64), -5);
  EXPECT_EQ(cast_one<double>(DType::uint64, UINT64_MAX, DType::float64), 18446744073709551616.0);
  EXPECT_EQ(cast_one<float>(DType::int64, std::int64_t{16777217}, DType::float32), 16777216.0F);
  EXPECT_EQ(cast_one<std::int32_t>(DType::float64, -2.9, DType::int32), -2);
  EXPECT_EQ(cast_one<std::int32_t>(DType::float64, 1e30, DType::int32), INT32_MAX);
  EXPECT_EQ(cast_one<std::int64_t>(DType::float64, -1e30, DType::int64), INT64_MIN);
  EXPECT_EQ(cast_one<std::uint64_t>(DType::float64, std::nan(""), DType::uint64), 0U);
  EXPECT_EQ(cast_one<std::uint64_t>(DType::float64, 18446744073709549568.0, DType::uint64), 18446744073709549568U);
}

TEST(Convert, BooleansAndComplexNumbers) {
  EXPECT_EQ(cast_one<std::uint8_t>(DType::float32, 0.5F, DType::boolean), 1);
  EXPECT_EQ(cast_one<std::uint8_t>(DType::int16, std::int16_t{0}, DType::boolean), 0);
  EXPECT_EQ(cast_one<float>(DType::boolean, std::uint8_t{7}, DType::float32), 1.0F);
  const std::array<float, 2> value = {3.0F, 4.0F};
  EXPECT_EQ(cast_one<double>(DType::complex64, value, DType::float64), 3.0);
  EXPECT_EQ((cast_one<std::array<double, 2>>(DType::complex64, value, DType::complex128)), (std::array<double, 2>{3.0, 4.0}));
  EXPECT_EQ((cast_one<std::array<float, 2>>(DType::int8, std::int8_t{-3}, DType::complex64)), (std::array<float, 2>{-3.0F, 0.0F}));
}

TEST(Convert, Signs) {
  const auto negated = [](auto value, DType dtype) {
    apply_sign(std::as_writable_bytes(std::span(&value, 1)), dtype, false, true);
    return value;
  };
  EXPECT_EQ(negated(2.5, DType::float64), -2.5);
  EXPECT_EQ(negated(std::uint16_t{0x3c00}, DType::float16), 0xbc00);
  EXPECT_EQ(negated(std::int32_t{7}, DType::int32), -7);
  EXPECT_EQ(negated(std::uint8_t{1}, DType::uint8), 255);
  EXPECT_EQ(negated(std::uint8_t{1}, DType::boolean), 1);
  EXPECT_EQ(negated(std::uint8_t{0x08}, DType::float8_e4m3fn), 0x88);
  EXPECT_EQ(negated(std::uint8_t{0x00}, DType::float8_e4m3fnuz), 0x00) << "the sign bit alone would be NaN";
  EXPECT_EQ(negated(std::uint8_t{0x80}, DType::float8_e4m3fnuz), 0x80) << "NaN stays";
}

}  // namespace
}  // namespace msvis::test
