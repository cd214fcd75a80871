// The worked examples of the comparison rules: tensors and the texts of their six cells.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/kernels/tensors.h"

namespace msvis::testing {
namespace {

using ::testing::ElementsAre;

std::string text(const MetricCell& cell) {
  if (cell.state != MetricState::number) {
    return std::string(metric_text(cell.state));
  }
  if (std::isinf(cell.value)) {
    return cell.value > 0 ? "inf" : "-inf";
  }
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), cell.value);
  return {buffer.data(), end.ptr};
}

std::vector<std::string> texts(const TensorMetrics& metrics) {
  return {text(metrics.cosine),           text(metrics.euclidean_distance),       text(metrics.max_abs_err),
          text(metrics.max_relative_err), text(metrics.one_thousandth_err_ratio), text(metrics.five_thousandths_err_ratio)};
}

std::string shortest(const std::string& number) {
  if (number.find_first_of("0123456789") == std::string::npos) {
    return number;
  }
  double value = 0;
  const auto end = std::from_chars(number.data(), number.data() + number.size(), value);
  if (end.ec != std::errc() || end.ptr != number.data() + number.size()) {
    return number;
  }
  MetricCell cell{MetricState::number, value};
  return text(cell);
}

struct Example {
  std::string name;
  Tensor target;
  Tensor golden;
  std::array<std::string, 6> cells;
  bool zero_d = false;
};

constexpr DType f64 = DType::float64;
constexpr DType f32 = DType::float32;
constexpr DType f16 = DType::float16;
constexpr DType bf16 = DType::bfloat16;
const std::string uns = "unsupported";
const std::string unmatched = "shape unmatched";
const std::array<std::string, 6> all_equal = {"1", "0", "0", "0", "1", "1"};
const std::array<std::string, 6> all_not_available = {"N/A", "N/A", "N/A", "N/A", "N/A", "N/A"};
const std::array<std::string, 6> all_unmatched = {unmatched, unmatched, unmatched, unmatched, unmatched, unmatched};
const std::array<std::string, 6> all_unsupported = {uns, uns, uns, uns, uns, uns};

Tensor floats(const std::vector<double>& values) {
  return tensor(f32, values);
}
std::array<std::string, 6> two(const std::string& max_abs, const std::string& max_rel) {
  return {uns, uns, max_abs, max_rel, uns, uns};
}

std::vector<Example> examples() {
  const std::int64_t two_53 = std::int64_t{1} << 53;
  const auto c64 = [](const std::vector<std::complex<float>>& values) { return raw_tensor(DType::complex64, values); };
  std::vector<Example> all = {
      {"1", floats({1, 2, 3}), floats({1, 2, 3}), all_equal},
      {"2", floats({1, 2, 3}), floats({1, 2, 4}), {"0.991460133984", "1.0", "1.0", "0.25", "0.666666666667", "0.666666666667"}},
      {"3",
       floats({1, 2, 3}),
       floats({1.001, 2.002, 3.003}),
       {"1.0", "0.003741736655188802", "0.003000020981", "0.000999047654", "1.0", "1.0"}},
      {"4", floats({1.001, 1}), floats({1, 1}), {"1.0", "0.001000046730041504", "0.00100004673", "0.00100004673", "0.5", "1.0"}},
      {"5", floats({1.005, 1.0049}), floats({1, 1}), {"1.0", "0.0070006958915651615", "0.004999995232", "0.004999995232", "0.0", "1.0"}},
      {"6", floats({0, 0}), floats({0, 0}), all_equal},
      {"7", floats({0, 0}), floats({1, 2}), {"Nan", "2.23606797749979", "2.0", "1.0", "0.0", "0.0"}},
      {"8", floats({1, 2}), floats({0, 0}), {"Nan", "2.23606797749979", "2.0", "16777215.0", "0.0", "0.0"}},
      {"9", floats({1, 2, 3}), floats({0, 2, 3}), {"0.963624111659", "1.0", "1.0", "8388608.0", "0.666666666667", "0.666666666667"}},
      {"10", floats({-0.0, 1}), floats({0.0, 1}), all_equal},
      {"11", floats({1e-9, 1}), floats({0, 1}), {"1.0", "9.999999717180685e-10", "1e-09", "0.008388638496", "0.5", "0.5"}},
      {"12", floats({1e-20, 1e-20}), floats({1e-20, 2e-20}), {"1.0", "9.999999682655225e-21", "0.0", "0.5", "0.5", "0.5"}},
      {"13", floats({1, 1}), floats({1e-45, 1}), {"0.707106781187", "1.0", "1.0", "inf", "0.5", "0.5"}},
      {"14", floats({3e38, 1}), floats({-3e38, 1}), {"-1.0", "6.0000000109955115e+38", "6.0000000109955115e+38", "inf", "0.5", "0.5"}},
      {"15", floats({1, 0}), floats({0, 1}), {"0.0", "1.4142135623730951", "1.0", "8388608.0", "0.0", "0.0"}},
      {"16", floats({1, 2}), floats({-1, -2}), {"-1.0", "4.47213595499958", "4.0", "2.0", "0.0", "0.0"}},
      {"17", floats({1, 0.01414}), floats({1, 0}), {"0.9999", "0.014139999635517597", "0.014139999636", "118614.9140625", "0.5", "0.5"}},
      {"18",
       floats({1, 0.0141435}),
       floats({1, 0}),
       {"0.999899995714", "0.014143499545753002", "0.014143499546", "118644.2734375", "0.5", "0.5"}},
      {"19", floats({1.5}), floats({1.25}), two("0.25", "0.20000000298"), true},
      {"21", floats({1, 2, 3}), floats({1, 2}), all_unmatched},
      {"22", floats({}), floats({}), all_unsupported},
      {"22b", floats({}), floats({1, 2}), all_unsupported},
      {"23", floats({1, 2}), floats({}), all_unmatched},
      {"24", floats({nan_value, 2, 3}), floats({nan_value, 2, 3}), all_equal},
      {"25",
       floats({nan_value, inf_value, 1, 2}),
       floats({nan_value, inf_value, 1, 2.5}),
       {"0.996545758245", "0.5", "0.5", "0.20000000298", "0.75", "0.75"}},
      {"26", floats({nan_value, 2, 3}), floats({1, 2, 3}), all_not_available},
      {"27", floats({inf_value, 2, 3}), floats({nan_value, 2, 3}), all_not_available},
      {"27b", floats({inf_value, 2, 3}), floats({1, 2, 3}), all_not_available},
      {"28", floats({inf_value, 2, 3}), floats({-inf_value, 2, 3}), all_equal},
      {"29", floats({nan_value, 0}), floats({nan_value, 1}), {"Nan", "1.0", "1.0", "1.0", "0.5", "0.5"}},
      {"30", floats({nan_value}), floats({nan_value}), two("Nan", "Nan"), true},
      {"30b", floats({nan_value}), floats({1}), two("Nan", "Nan"), true},
      {"31", floats({inf_value}), floats({inf_value}), two("Nan", "Nan"), true},
      {"32", floats({inf_value}), floats({1}), two("inf", "inf"), true},
      {"33", floats({1}), floats({inf_value}), two("inf", "Nan"), true},
      {"34", floats({1}), floats({0}), two("1.0", "8388608.0"), true},
      {"35", tensor(f16, {1, 2, 65504}), tensor(f16, {1, 2, 65472}), {"1.0", "32.0", "32.0", "0.000488758553", "1.0", "1.0"}},
      {"36", tensor(f16, {6e-8, 1}), tensor(f16, {1.2e-7, 1}), {"1.0", "5.960464477539063e-08", "5.9605e-08", "0.5", "0.5", "0.5"}},
      {"37", tensor(f16, {65504}), tensor(f16, {-65504}), two("inf", "2.0"), true},
      {"38",
       tensor(bf16, {1, 2, 3}),
       tensor(bf16, {1.0078125, 2, 3}),
       {"0.999998", "0.0078125", "0.0078125", "0.007751937956", "0.666666666667", "0.666666666667"}},
      {"39",
       tensor(bf16, {1, 2, 3}),
       floats({1, 2, 3.001}),
       {"1.0", "0.0009999275207519531", "0.000999927521", "0.000333198113", "1.0", "1.0"}},
      {"39b",
       tensor(f16, {1, 2, 3}),
       floats({1, 2, 3.001}),
       {"1.0", "0.0009999275207519531", "0.000999927521", "0.000333198113", "1.0", "1.0"}},
      {"40", tensor(f64, {1, 2, 3}), tensor(f64, {1, 2, 3.0000001}), {"1.0", "9.999999983634211e-08", "1e-07", "3.3333e-08", "1.0", "1.0"}},
      {"41", tensor(f64, {1, 2}), tensor(f64, {0, 2}), {"0.894427191", "1.0", "1.0", "4503599627370496.0", "0.5", "0.5"}},
      {"41b",
       tensor(DType::int64, {1, 2}),
       tensor(DType::int64, {0, 2}),
       {"0.894427191", "1.0", "1.0", "4503599627370496.0", "0.5", "0.5"}},
      {"42", floats({1, 2}), tensor(f64, {1, 2.1}), {"0.99981514003", "0.10000000000000009", "0.1", "0.047619047619", "0.5", "0.5"}},
      {"43", raw_tensor<std::int64_t>(DType::int64, {two_53 + 1, 1}), raw_tensor<std::int64_t>(DType::int64, {two_53, 1}), all_equal},
      {"44",
       tensor(DType::int32, {1, 2, 3}),
       floats({1, 2, 3.5}),
       {"0.997408650736", "0.5", "0.5", "0.142857142857", "0.666666666667", "0.666666666667"}},
      {"45",
       tensor(DType::int8, {-128, 127}),
       tensor(DType::int8, {127, 127}),
       {"-0.003921538473", "255.0", "255.0", "2.007874015748", "0.5", "0.5"}},
      {"46", tensor(DType::uint8, {1, 2}), tensor(DType::uint8, {2, 2}), {"0.948683298051", "1.0", "1.0", "0.5", "0.5", "0.5"}},
      {"47", tensor(DType::uint8, {1}), tensor(DType::uint8, {2}), two("255.0", "0.5"), true},
      {"48", tensor(DType::int8, {-128}), tensor(DType::int8, {127}), two("1.0", "2.007874011993"), true},
      {"49", tensor(DType::int64, {5}), tensor(DType::int64, {7}), two("2.0", "0.285714298487"), true},
      {"50",
       tensor(DType::boolean, {1, 0, 1}),
       tensor(DType::boolean, {1, 1, 1}),
       {"0.816496580928", "1.0", "1.0", "1.0", "0.666666666667", "0.666666666667"}},
      {"51", tensor(DType::boolean, {1}), tensor(DType::boolean, {0}), two("1.0", "8388608.0"), true},
      {"52", c64({{1, 2}, {3, 4}}), c64({{1, 5}, {3, 4}}), all_equal},
      {"53", c64({{1, 2}}), c64({{1, 5}}), two("3.0", "0.0"), true},
      {"54", tensor(f64, {1e200, 1}), tensor(f64, {-1e200, 1}), {"Nan", "inf", "2e+200", "2.0", "0.5", "0.5"}},
      {"0-d float64 in float32 arithmetic", tensor(f64, {1.0 / 3}), tensor(f64, {0.25}), two("0.083333333333", "0.33333337307"), true},
  };
  return all;
}

TEST(WorkedExamples, ReferenceOnEveryInstructionSet) {
  for (const InstructionSet set : available_instruction_sets()) {
    for (const Example& example : examples()) {
      MetricOptions options;
      options.compat = Compat::reference;
      options.zero_d = example.zero_d;
      options.instruction_set = set;
      std::array<std::string, 6> expected = example.cells;
      for (std::string& cell : expected) {
        cell = shortest(cell);
      }
      EXPECT_THAT(texts(compare_tensors(example.target.span(), example.golden.span(), options)), ::testing::ElementsAreArray(expected))
          << "example " << example.name << " on " << instruction_set_name(set);
    }
  }
}

TEST(WorkedExamples, BigEndianIsTheSame) {
  for (Example& example : examples()) {
    MetricOptions options;
    options.compat = Compat::reference;
    options.zero_d = example.zero_d;
    const auto expected = texts(compare_tensors(example.target.span(), example.golden.span(), options));
    const bool identical = compare_tensors(example.target.span(), example.golden.span(), options).bit_identical;
    example.golden.make_big_endian();
    EXPECT_EQ(texts(compare_tensors(example.target.span(), example.golden.span(), options)), expected) << "example " << example.name;
    EXPECT_EQ(compare_tensors(example.target.span(), example.golden.span(), options).bit_identical, identical)
        << "example " << example.name;
    example.target.make_big_endian();
    EXPECT_EQ(texts(compare_tensors(example.target.span(), example.golden.span(), options)), expected) << "example " << example.name;
  }
}

TEST(WorkedExamples, StandardModeDiffersWhereItShould) {
  const MetricOptions array;
  MetricOptions zero_d;
  zero_d.zero_d = true;
  // Infinities have a sign.
  const TensorMetrics signs = compare_tensors(floats({inf_value, 2, 3}).span(), floats({-inf_value, 2, 3}).span(), array);
  EXPECT_EQ(signs.outcome, MetricOutcome::not_available);
  EXPECT_EQ(signs.non_finite_mismatches, 1U);
  EXPECT_THAT(texts(signs), ::testing::Each("N/A"));
  EXPECT_EQ(compare_tensors(floats({-inf_value, 2, 3}).span(), floats({-inf_value, 2, 3}).span(), array).outcome, MetricOutcome::compared);
  // Absolute errors without dimension are computed in float64.
  EXPECT_EQ(texts(compare_tensors(tensor(DType::uint8, {1}).span(), tensor(DType::uint8, {2}).span(), zero_d)), texts([] {
              TensorMetrics metrics = TensorMetrics::of(MetricOutcome::compared_scalar);
              metrics.max_abs_err = {MetricState::number, 1.0};
              metrics.max_relative_err = {MetricState::number, 0.5};
              return metrics;
            }()));
  EXPECT_EQ(compare_tensors(tensor(DType::int8, {-128}).span(), tensor(DType::int8, {127}).span(), zero_d).max_abs_err.value, 255.0);
  EXPECT_EQ(compare_tensors(tensor(f16, {65504}).span(), tensor(f16, {-65504}).span(), zero_d).max_abs_err.value, 131008.0);
  // A complex number is two reals.
  const auto a = raw_tensor<std::complex<float>>(DType::complex64, {{1, 2}, {3, 4}});
  const auto b = raw_tensor<std::complex<float>>(DType::complex64, {{1, 5}, {3, 4}});
  const TensorMetrics complex = compare_tensors(a.span(), b.span(), array);
  // dot 1 + 10 + 9 + 16 = 36, squares 30 and 51: cosine 36 / sqrt(1530)
  EXPECT_THAT(texts(complex), ElementsAre("0.920357986617", "3", "3", "0.6", "0.75", "0.75"));
  ASSERT_TRUE(complex.worst.has_value());
  EXPECT_EQ(*complex.worst, (WorstElement{0, true, 2, 5}));
  // ... against a real number as well.
  const TensorMetrics mixed = compare_tensors(a.span(), floats({1, 3}).span(), array);
  EXPECT_EQ(mixed.euclidean_distance.value, std::sqrt(20.0));
  EXPECT_EQ(mixed.one_thousandth_err_ratio.value, 0.5);
  EXPECT_EQ(*mixed.worst, (WorstElement{1, true, 4, 0}));
}

TEST(WorkedExamples, Extras) {
  const TensorMetrics metrics = compare_tensors(floats({nan_value, inf_value, 0, -0.0, 5, -inf_value, 1}).span(),
                                                floats({nan_value, inf_value, 0, 1, 9, -inf_value, 5}).span());
  EXPECT_EQ(metrics.outcome, MetricOutcome::compared);
  EXPECT_FALSE(metrics.bit_identical);
  EXPECT_EQ(metrics.target_values, (ValueCounts{1, 1, 1, 2}));
  EXPECT_EQ(metrics.golden_values, (ValueCounts{1, 1, 1, 1}));
  ASSERT_TRUE(metrics.worst.has_value());
  EXPECT_EQ(*metrics.worst, (WorstElement{4, false, 5, 9}));  // the first of two
  EXPECT_EQ(metrics.target_norm, std::sqrt(26.0));
  EXPECT_EQ(metrics.golden_norm, std::sqrt(107.0));

  const TensorMetrics mismatch = compare_tensors(floats({nan_value, inf_value, 2, 4}).span(), floats({1, inf_value, nan_value, 8}).span());
  EXPECT_EQ(mismatch.outcome, MetricOutcome::not_available);
  EXPECT_EQ(mismatch.non_finite_mismatches, 2U);
  EXPECT_EQ(*mismatch.worst, (WorstElement{3, false, 4, 8}));

  const TensorMetrics same = compare_tensors(floats({nan_value, 0, 7}).span(), floats({nan_value, 0, 7}).span());
  EXPECT_TRUE(same.bit_identical);
  EXPECT_FALSE(same.worst.has_value());
  EXPECT_EQ(same.target_values, (ValueCounts{1, 0, 0, 1}));
  EXPECT_FALSE(compare_tensors(floats({-0.0, 1}).span(), floats({0.0, 1}).span()).bit_identical);
  EXPECT_FALSE(compare_tensors(floats({2, 1}).span(), tensor(f64, {2, 1}).span()).bit_identical);
}

}  // namespace
}  // namespace msvis::testing
