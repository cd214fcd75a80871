// Every kernel against an oracle in plain C++: lengths around the sizes that matter, misalignments, types, special values.
#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "unit/kernels/tensors.h"

namespace msvis::testing {
namespace {

/// The rules as they are written, one number after the other.
struct Oracle {
  long double dot = 0;
  long double target_squares = 0;
  long double golden_squares = 0;
  long double distance_squares = 0;
  double max_abs = 0;
  std::size_t worst = 0;
  double max_rel = 0;
  std::size_t below_1 = 0;
  std::size_t below_5 = 0;
  std::size_t mismatches = 0;
  std::size_t sign_mismatches = 0;
  ValueCounts target;
  ValueCounts golden;
};

bool is_double(DType dtype) {
  return !is_floating(dtype) || dtype == DType::float64;
}

double value_of(const Tensor& tensor, std::size_t index) {
  const auto read = [&]<typename T>(T value) {
    std::memcpy(&value, tensor.data() + index * dtype_size(tensor.dtype()), sizeof value);
    return value;
  };
  switch (tensor.dtype()) {
    case DType::float64:
    case DType::complex128:
      return read(0.0);
    case DType::float32:
    case DType::complex64:
      return static_cast<double>(read(0.0F));
    case DType::float16: {  // from the definition, not from the bits
      const auto bits = read(std::uint16_t{0});
      const int exponent = (bits >> 10) & 31;
      const int fraction = bits & 1023;
      const double sign = (bits & 0x8000) != 0 ? -1 : 1;
      if (exponent == 31) {
        return fraction != 0 ? nan_value : sign * inf_value;
      }
      return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
    }
    case DType::bfloat16: {
      const auto bits = read(std::uint16_t{0});
      const int exponent = (bits >> 7) & 255;
      const int fraction = bits & 127;
      const double sign = (bits & 0x8000) != 0 ? -1 : 1;
      if (exponent == 255) {
        return fraction != 0 ? nan_value : sign * inf_value;
      }
      return sign * (exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134));
    }
    case DType::float8_e4m3fn:
    case DType::float8_e4m3fnuz: {
      const auto bits = read(std::uint8_t{0});
      const bool fnuz = tensor.dtype() == DType::float8_e4m3fnuz;
      if (fnuz ? bits == 0x80 : (bits & 0x7f) == 0x7f) {
        return nan_value;
      }
      const int exponent = (bits >> 3) & 15;
      const int fraction = bits & 7;
      const int bias = fnuz ? 8 : 7;
      return ((bits & 0x80) != 0 ? -1 : 1) *
             (exponent == 0 ? std::ldexp(fraction, -2 - bias) : std::ldexp(8 + fraction, exponent - 3 - bias));
    }
    case DType::float8_e5m2:
    case DType::float8_e5m2fnuz: {
      const auto bits = read(std::uint8_t{0});
      const bool fnuz = tensor.dtype() == DType::float8_e5m2fnuz;
      const int exponent = (bits >> 2) & 31;
      const int fraction = bits & 3;
      const int bias = fnuz ? 16 : 15;
      const double sign = (bits & 0x80) != 0 ? -1 : 1;
      if (fnuz && bits == 0x80) {
        return nan_value;
      }
      if (!fnuz && exponent == 31) {
        return fraction != 0 ? nan_value : sign * inf_value;
      }
      return sign * (exponent == 0 ? std::ldexp(fraction, -1 - bias) : std::ldexp(4 + fraction, exponent - 2 - bias));
    }
    case DType::int8:
      return static_cast<double>(read(std::int8_t{0}));
    case DType::int16:
      return static_cast<double>(read(std::int16_t{0}));
    case DType::int32:
      return static_cast<double>(read(std::int32_t{0}));
    case DType::int64:
      return static_cast<double>(read(std::int64_t{0}));
    case DType::uint8:
      return static_cast<double>(read(std::uint8_t{0}));
    case DType::uint16:
      return static_cast<double>(read(std::uint16_t{0}));
    case DType::uint32:
      return static_cast<double>(read(std::uint32_t{0}));
    case DType::uint64:
      return static_cast<double>(read(std::uint64_t{0}));
    case DType::boolean:
      return read(std::uint8_t{0}) != 0 ? 1 : 0;
  }
  return 0;
}

void count_value(double value, ValueCounts& counts) {
  counts.nan += std::isnan(value) ? 1 : 0;
  counts.positive_infinity += value == inf_value ? 1 : 0;
  counts.negative_infinity += value == -inf_value ? 1 : 0;
  counts.zero += value == 0 ? 1 : 0;
}

template <typename T>
T relative_error(T n, T b) {
  const T epsilon = std::numeric_limits<T>::epsilon();
  if (b == 0) {
    volatile T shifted_n = n + epsilon;
    volatile T shifted_b = b + epsilon;
    n = shifted_n;
    b = shifted_b;
  }
  volatile T difference = n - b;
  volatile T quotient = difference / b;
  return std::fabs(quotient);
}

/// With Compat::reference.
Oracle oracle(const Tensor& target, const Tensor& golden) {
  Oracle result;
  const bool in_double = is_double(target.dtype()) || is_double(golden.dtype());
  for (std::size_t k = 0; k < target.count(); ++k) {
    double n = value_of(target, k);
    double b = value_of(golden, k);
    count_value(n, result.target);
    count_value(b, result.golden);
    if (std::isnan(n) != std::isnan(b) || std::isinf(n) != std::isinf(b)) {
      ++result.mismatches;
    } else if (std::isinf(n) && n != b) {
      ++result.sign_mismatches;
    }
    if (!std::isfinite(n) || !std::isfinite(b)) {
      n = b = 0;
    }
    result.dot += static_cast<long double>(n) * static_cast<long double>(b);
    result.target_squares += static_cast<long double>(n) * static_cast<long double>(n);
    result.golden_squares += static_cast<long double>(b) * static_cast<long double>(b);
    const double distance = n - b;
    result.distance_squares += static_cast<long double>(distance) * static_cast<long double>(distance);
    if (std::fabs(distance) > result.max_abs) {
      result.max_abs = std::fabs(distance);
      result.worst = k;
    }
    if (in_double) {
      const double r = relative_error(n, b);
      result.max_rel = std::max(result.max_rel, r);
      result.below_1 += r < 0.001 ? 1 : 0;
      result.below_5 += r < 0.005 ? 1 : 0;
    } else {
      const float r = relative_error(static_cast<float>(n), static_cast<float>(b));
      result.max_rel = std::max(result.max_rel, static_cast<double>(r));
      result.below_1 += r < 0.001F ? 1 : 0;
      result.below_5 += r < 0.005F ? 1 : 0;
    }
  }
  return result;
}

double printed(double value, int decimals = 12) {
  std::array<char, 400> buffer{};
  (void)std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, value);
  return std::strtod(buffer.data(), nullptr);
}

void expect_matches(const TensorMetrics& metrics, const Oracle& expected, std::size_t count, const std::string& where) {
  SCOPED_TRACE(where);
  EXPECT_EQ(metrics.target_values, expected.target);
  EXPECT_EQ(metrics.golden_values, expected.golden);
  EXPECT_EQ(metrics.non_finite_mismatches, expected.mismatches);
  EXPECT_EQ(metrics.worst.has_value(), expected.max_abs > 0);
  if (metrics.worst.has_value()) {
    EXPECT_EQ(metrics.worst->index, expected.worst);
    EXPECT_EQ(std::fabs(metrics.worst->target - metrics.worst->golden), expected.max_abs);
  }
  if (expected.mismatches != 0) {
    EXPECT_EQ(metrics.outcome, MetricOutcome::not_available);
    return;
  }
  ASSERT_EQ(metrics.outcome, MetricOutcome::compared);
  EXPECT_EQ(metrics.max_abs_err.value, printed(expected.max_abs));
  EXPECT_EQ(metrics.max_relative_err.value, printed(expected.max_rel));
  EXPECT_EQ(metrics.one_thousandth_err_ratio.value, printed(static_cast<double>(expected.below_1) / static_cast<double>(count)));
  EXPECT_EQ(metrics.five_thousandths_err_ratio.value, printed(static_cast<double>(expected.below_5) / static_cast<double>(count)));
  // Promised: relative 3e-13 for the distance, absolute 1e-12 for the cosine. These tolerances are those of 128 + 20 additions in sequence.
  const double tolerance = 148 * 0x1p-53;
  const auto near = [&](double value, long double exact, const char* what) {
    if (std::isfinite(static_cast<double>(exact))) {
      EXPECT_NEAR(value, static_cast<double>(exact), tolerance * std::fabs(static_cast<double>(exact))) << what;
    } else {
      EXPECT_TRUE(std::isinf(value)) << what;
    }
  };
  near(metrics.euclidean_distance.value, std::sqrt(expected.distance_squares), "distance");
  near(metrics.target_norm, std::sqrt(expected.target_squares), "target norm");
  near(metrics.golden_norm, std::sqrt(expected.golden_squares), "golden norm");
  const double target_norm = static_cast<double>(std::sqrt(expected.target_squares));
  const double golden_norm = static_cast<double>(std::sqrt(expected.golden_squares));
  if (target_norm <= 0x1p-52 && golden_norm <= 0x1p-52) {
    EXPECT_EQ(metrics.cosine.value, 1.0);
  } else if (target_norm <= 0x1p-52 || golden_norm <= 0x1p-52) {
    EXPECT_EQ(metrics.cosine.state, MetricState::not_a_number);
  } else if (std::isfinite(target_norm * golden_norm)) {
    const double exact = static_cast<double>(expected.dot / (std::sqrt(expected.target_squares) * std::sqrt(expected.golden_squares)));
    EXPECT_NEAR(metrics.cosine.value, exact, exact > 0.9999 - 1e-12 ? 5e-7 + 1e-12 : 1.5e-12);
  }
}

/// Numbers as in real tensors, small deviations between the sides, some zeros.
void fill(Tensor& target, Tensor& golden, std::mt19937_64& random, double special_share, bool same_specials) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const double scale = is_floating(golden.dtype()) || is_complex(golden.dtype()) ? 1 : 40;
  const std::vector<double> specials = {nan_value, inf_value, -inf_value};
  for (std::size_t k = 0; k < target.count(); ++k) {
    double b = normal(random) * scale;
    double n = b * (1 + std::exp(normal(random) * 2 - 6));
    if (uniform(random) < 0.05) {
      b = 0;
    }
    if (uniform(random) < 0.05) {
      n = 0;
    }
    if (uniform(random) < special_share) {
      n = specials[random() % 3];
      b = same_specials ? n : specials[random() % 3];
    }
    const auto put = [&](Tensor& tensor, double value) {
      switch (tensor.dtype()) {
        case DType::uint8:
        case DType::uint16:
        case DType::uint32:
        case DType::uint64:
          value = std::isfinite(value) ? std::fabs(value) : 1;
          break;
        case DType::int8:
        case DType::int16:
        case DType::int32:
        case DType::int64:
        case DType::boolean:
          value = std::isfinite(value) ? std::clamp(value, -128.0, 127.0) : 1;
          break;
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
        case DType::float8_e4m3fnuz:
        case DType::float8_e5m2fnuz: {
          auto code = static_cast<std::uint8_t>(random());
          tensor.set_raw(k, code);
          if (!std::isfinite(value_of(tensor, k)) && special_share == 0) {
            code = 0x12;
          }
          tensor.set_raw(k, code);
          return;
        }
        default:
          break;
      }
      tensor.set(k, value);
    };
    put(golden, b);
    put(target, n);
  }
}

MetricOptions options_for(InstructionSet set, Compat compat = Compat::reference) {
  MetricOptions options;
  options.compat = compat;
  options.instruction_set = set;
  return options;
}

void expect_same_bits(const TensorMetrics& a, const TensorMetrics& b, const std::string& where) {
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  const auto same = [&](const MetricCell& x, const MetricCell& y) { return x.state == y.state && bits(x.value) == bits(y.value); };
  EXPECT_TRUE(a.outcome == b.outcome && same(a.cosine, b.cosine) && same(a.euclidean_distance, b.euclidean_distance) &&
              same(a.max_abs_err, b.max_abs_err) && same(a.max_relative_err, b.max_relative_err) &&
              same(a.one_thousandth_err_ratio, b.one_thousandth_err_ratio) &&
              same(a.five_thousandths_err_ratio, b.five_thousandths_err_ratio) && a.bit_identical == b.bit_identical &&
              a.target_values == b.target_values && a.golden_values == b.golden_values &&
              a.non_finite_mismatches == b.non_finite_mismatches && a.worst == b.worst && bits(a.target_norm) == bits(b.target_norm) &&
              bits(a.golden_norm) == bits(b.golden_norm))
      << where;
}

void check(const Tensor& target, const Tensor& golden, const std::string& where) {
  const Oracle expected = oracle(target, golden);
  const TensorMetrics scalar = compare_tensors(target.span(), golden.span(), options_for(InstructionSet::scalar));
  expect_matches(scalar, expected, target.count(), where + " scalar");
  for (const InstructionSet set : available_instruction_sets()) {
    expect_same_bits(compare_tensors(target.span(), golden.span(), options_for(set)), scalar,
                     where + " " + std::string(instruction_set_name(set)));
    const TensorMetrics standard = compare_tensors(target.span(), golden.span(), options_for(set, Compat::standard));
    if (!is_complex(target.dtype()) && !is_complex(golden.dtype())) {
      EXPECT_EQ(standard.non_finite_mismatches, expected.mismatches + expected.sign_mismatches) << where;
      if (expected.sign_mismatches == 0) {
        expect_same_bits(standard, scalar, where + " standard");
      }
    }
  }
}

const std::vector<std::size_t> lengths = {1,   2,   3,    4,    5,    7,    8,    9,    15,   16,   17,   23,  24,  25,
                                          31,  32,  33,   47,   48,   49,   63,   64,   65,   95,   96,   97,  127, 128,
                                          129, 255, 1023, 1024, 1025, 2046, 2047, 2048, 2049, 4095, 4096, 4097};

TEST(KernelGrid, LengthsAndMisalignments) {
  std::mt19937_64 random = generator(1);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::float64}) {
    for (const std::size_t length : lengths) {
      for (const std::size_t shift : std::vector<std::size_t>{0, 1, 2, 3, 4, 7, 8, 16, 31}) {
        Tensor target(dtype, length, shift);
        Tensor golden(dtype, length, (shift * 3) % 64);
        fill(target, golden, random, 0, true);
        check(target, golden, std::string(dtype_name(dtype)) + " " + std::to_string(length) + " shifted by " + std::to_string(shift));
      }
    }
  }
}

TEST(KernelGrid, AllPairsOfTypes) {
  std::mt19937_64 random = generator(2);
  for (const DTypeInfo& first : dtype_infos) {
    for (const DTypeInfo& second : dtype_infos) {
      for (const std::size_t length : {std::size_t{2}, std::size_t{19}, std::size_t{2049}, std::size_t{5000}}) {
        Tensor target(first.dtype, length, length % 7);
        Tensor golden(second.dtype, length, length % 5);
        fill(target, golden, random, 0, true);
        check(target, golden, std::string(first.name) + " against " + std::string(second.name) + " " + std::to_string(length));
        target.make_big_endian();
        const Tensor little_golden = golden;
        golden.make_big_endian();
        Tensor little_target = target;
        little_target.make_big_endian();  // back again, apart from the flag
        const TensorMetrics turned = compare_tensors(target.span(), golden.span(), options_for(InstructionSet::best));
        TensorSpan plain = little_target.span();
        plain.big_endian = false;
        expect_same_bits(turned, compare_tensors(plain, little_golden.span(), options_for(InstructionSet::best)), "big endian");
      }
    }
  }
}

TEST(KernelGrid, BlockBorders) {
  std::mt19937_64 random = generator(3);
  const std::vector<std::pair<DType, DType>> pairs = {{DType::float32, DType::float32},    {DType::bfloat16, DType::bfloat16},
                                                      {DType::float16, DType::float16},    {DType::float64, DType::float64},
                                                      {DType::bfloat16, DType::float32},   {DType::float16, DType::float32},
                                                      {DType::complex64, DType::complex64}};
  for (const auto& [first, second] : pairs) {
    for (const std::size_t length : std::vector<std::size_t>{65535, 65536, 65537, 200001}) {
      Tensor target(first, length, 2);
      Tensor golden(second, length, 4);
      fill(target, golden, random, 0, true);
      check(target, golden, std::string(dtype_name(first)) + " against " + std::string(dtype_name(second)) + " " + std::to_string(length));
    }
  }
}

TEST(KernelGrid, NotFinite) {
  std::mt19937_64 random = generator(4);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::float64, DType::float8_e5m2}) {
    for (const std::size_t length : std::vector<std::size_t>{1, 5, 16, 33, 2047, 2048, 2049, 70000}) {
      for (const double share : {0.001, 0.3, 1.0}) {
        for (const bool same : {true, false}) {
          Tensor target(dtype, length, 1);
          Tensor golden(dtype, length, 3);
          fill(target, golden, random, share, same);
          check(target, golden, std::string(dtype_name(dtype)) + " not finite " + std::to_string(length));
        }
      }
    }
  }
  // One value alone, at every place of a chunk and its tail.
  for (std::size_t place = 0; place < 2100; place += 13) {
    for (const double value : {nan_value, inf_value, -inf_value}) {
      Tensor target(DType::float32, 2100);
      Tensor golden(DType::float32, 2100);
      fill(target, golden, random, 0, true);
      target.set(place, value);
      check(target, golden, "one value in the target");
      std::swap(target, golden);
      check(target, golden, "one value in the golden tensor");
    }
  }
}

TEST(KernelGrid, CloseAndFarApart) {
  // The sums are computed in different ways, by how many pairs are far apart and how the norms compare.
  std::mt19937_64 random = generator(8);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    for (const double far_share : {0.0, 0.0005, 0.01, 0.02, 0.3, 1.0}) {
      for (const double scale : {1.0, 1e-3, 0.3, 0.0}) {
        for (const std::size_t length : {std::size_t{2048}, std::size_t{5003}, std::size_t{70001}}) {
          Tensor target(dtype, length, 1);
          Tensor golden(dtype, length, 6);
          for (std::size_t k = 0; k < length; ++k) {
            const double b = normal(random);
            target.set(k, uniform(random) < far_share ? normal(random) * 10 : b * (1 + 1e-3 * normal(random)));
            golden.set(k, b * scale);
          }
          const std::string where =
              std::string(dtype_name(dtype)) + " far " + std::to_string(far_share) + " scale " + std::to_string(scale);
          check(target, golden, where);
          check(golden, target, where + " exchanged");
        }
      }
      // One huge number decides a norm: then it must not come from a difference of large sums.
      Tensor target(dtype, 4096);
      Tensor golden(dtype, 4096);
      for (std::size_t k = 0; k < 4096; ++k) {
        golden.set(k, normal(random) * 1e-3);
        target.set(k, k == 77 ? 6e4 : value_of(golden, k));
      }
      check(target, golden, "one huge number");
      check(golden, target, "one huge number, exchanged");
    }
  }
  // Just around the limits within which a float32 difference is exact, and of what counts as close.
  Tensor target(DType::float32, 4096);
  Tensor golden(DType::float32, 4096);
  for (std::size_t k = 0; k < 4096; ++k) {
    const double b = normal(random);
    const double factor = std::vector<double>{0.49, 0.5, 0.51, 1.48, 1.49, 1.5, 2.0}[k % 7];
    golden.set(k, b);
    target.set(k, b * (1 + (k % 2 == 0 ? factor - 1 : 1 - factor)));
  }
  check(target, golden, "limits");
}

TEST(KernelGrid, IdenticalSides) {
  std::mt19937_64 random = generator(5);
  for (const DTypeInfo& info : dtype_infos) {
    for (const std::size_t length : std::vector<std::size_t>{1, 17, 2048, 2049, 66000}) {
      Tensor target(info.dtype, length, 5);
      Tensor golden(info.dtype, length, 2);
      fill(target, golden, random, 0.01, true);
      std::memcpy(target.data(), golden.data(), length * info.size);
      check(target, golden, "identical " + std::string(info.name));
      const TensorMetrics same = compare_tensors(target.span(), golden.span());
      EXPECT_TRUE(same.bit_identical);
      EXPECT_EQ(same.outcome, MetricOutcome::compared);
      target.data()[length * info.size - 1] ^= 1;
      EXPECT_FALSE(compare_tensors(target.span(), golden.span()).bit_identical);
    }
  }
}

TEST(KernelGrid, ExtremeValues) {
  std::mt19937_64 random = generator(6);
  // Every combination of special float32 values at every lane.
  const std::vector<double> floats = {0.0,           -0.0,         1e-45,         -1e-45, 1.1754942e-38, 1.17549435e-38, 1.0,   -1.0,
                                      1.0 + 0x1p-23, 3.4028234e38, -3.4028234e38, 1e-20,  1e20,          0x1p-23,        0.001, 0.005};
  for (std::size_t shift = 0; shift < 17; ++shift) {
    Tensor target(DType::float32, floats.size() * floats.size() + shift, 4);
    Tensor golden(DType::float32, target.count(), 8);
    for (std::size_t k = 0; k < target.count(); ++k) {
      target.set(k, floats[(k + shift) % floats.size()]);
      golden.set(k, floats[((k + shift) / floats.size()) % floats.size()]);
    }
    check(target, golden, "extreme float32");
  }
  const std::vector<double> doubles = {0.0,         -0.0,   5e-324, -5e-324, 2.2250738585072014e-308, 1.0,
                                       1 + 0x1p-52, 1e100,  -1e100, 1e200,   1.7976931348623157e308,  -1.7976931348623157e308,
                                       1e-200,      0x1p-52};
  for (std::size_t shift = 0; shift < 17; ++shift) {
    Tensor target(DType::float64, doubles.size() * doubles.size() + shift, 1);
    Tensor golden(DType::float64, target.count(), 2);
    for (std::size_t k = 0; k < target.count(); ++k) {
      target.set(k, doubles[(k + shift) % doubles.size()]);
      golden.set(k, doubles[((k + shift) / doubles.size()) % doubles.size()]);
    }
    const TensorMetrics scalar = compare_tensors(target.span(), golden.span(), options_for(InstructionSet::scalar));
    const Oracle expected = oracle(target, golden);
    EXPECT_EQ(scalar.max_abs_err.value, printed(expected.max_abs));
    EXPECT_EQ(scalar.max_relative_err.value, printed(expected.max_rel));
    EXPECT_EQ(scalar.worst->index, expected.worst);
    for (const InstructionSet set : available_instruction_sets()) {
      expect_same_bits(compare_tensors(target.span(), golden.span(), options_for(set)), scalar, "extreme float64");
    }
  }
  // All pairs (value, random value) of the 16-bit formats: exact conversion of every code, subnormal ones too.
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    Tensor target(dtype, 65536);
    Tensor golden(dtype, 65536);
    for (std::size_t k = 0; k < 65536; ++k) {
      target.set_raw(k, static_cast<std::uint16_t>(k));
      golden.set_raw(k, static_cast<std::uint16_t>(k ^ (random() & 3U)));
    }
    check(target, golden, "all codes of " + std::string(dtype_name(dtype)));
    Tensor wide(DType::float64, 65536);
    for (std::size_t k = 0; k < 65536; ++k) {
      wide.set(k, value_of(target, k));
    }
    for (const InstructionSet set : available_instruction_sets()) {
      const TensorMetrics metrics = compare_tensors(target.span(), wide.span(), options_for(set));
      EXPECT_EQ(metrics.outcome, MetricOutcome::compared);
      EXPECT_EQ(metrics.max_abs_err.value, 0.0);
    }
  }
  for (const DType dtype : {DType::float8_e4m3fn, DType::float8_e5m2, DType::float8_e4m3fnuz, DType::float8_e5m2fnuz}) {
    Tensor codes(dtype, 256);
    Tensor wide(DType::float32, 256);
    for (std::size_t k = 0; k < 256; ++k) {
      codes.set_raw(k, static_cast<std::uint8_t>(k));
      wide.set(k, value_of(codes, k));
    }
    const TensorMetrics metrics = compare_tensors(codes.span(), wide.span());
    EXPECT_EQ(metrics.outcome, MetricOutcome::compared) << dtype_name(dtype);
    EXPECT_EQ(metrics.max_abs_err.value, 0.0) << dtype_name(dtype);
    EXPECT_EQ(metrics.max_relative_err.value, 0.0) << dtype_name(dtype);
  }
}

TEST(KernelGrid, IntegerLimits) {
  const auto limits = [](const std::vector<std::uint64_t>& values, DType dtype) {
    Tensor target(dtype, values.size() * 20);
    Tensor golden(dtype, values.size() * 20);
    for (std::size_t k = 0; k < target.count(); ++k) {
      target.set_raw(k, values[k % values.size()]);
      golden.set_raw(k, values[(k / 3) % values.size()]);
    }
    check(target, golden, "limits of " + std::string(dtype_name(dtype)));
  };
  const std::uint64_t one = 1;
  const std::vector<std::uint64_t> values = {0,
                                             1,
                                             (one << 53) - 1,
                                             one << 53,
                                             (one << 53) + 1,
                                             (one << 53) + 3,
                                             (one << 63) - 1,
                                             one << 63,
                                             (one << 63) + 1024,
                                             (one << 63) + 1025,
                                             ~std::uint64_t{0},
                                             ~std::uint64_t{0} - 1023,
                                             ~std::uint64_t{0} - 1024};
  limits(values, DType::int64);
  limits(values, DType::uint64);
}

TEST(KernelGrid, FloatingPointSettingsOfTheCallerDoNotMatter) {
#if defined(__x86_64__)
  const auto target = tensor(DType::float32, {1e-45, 2e-40, 1});
  const auto golden = tensor(DType::float32, {3e-45, 1e-40, 1});
  const TensorMetrics expected = compare_tensors(target.span(), golden.span());
  EXPECT_EQ(expected.one_thousandth_err_ratio.value, printed(1.0 / 3));
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040U | 0x6000U);  // flush to zero, subnormals are zero, round toward zero
  const TensorMetrics metrics = compare_tensors(target.span(), golden.span());
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(after & 0xffc0U, (before | 0x8040U | 0x6000U) & 0xffc0U);
  expect_same_bits(metrics, expected, "settings");
#endif
}

}  // namespace
}  // namespace msvis::testing
