// Cells from numbers: rounding as printed. Floating-point settings that all results assume.
#pragma once

#include <charconv>
#include <cmath>
#include <system_error>

#include "msvis/metrics.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace msvis::kernels {

/// `value` as its decimal text with that many decimals reads; infinities stay. Negative values that vanish become -0.0.
inline double round_decimals(double value, int decimals) {
  if (!std::isfinite(value)) {
    return value;
  }
  char text[352];  // sign, 309 digits, point, decimals
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, decimals);
  double rounded = value;
  std::from_chars(text, end.ptr, rounded);
  return rounded;
}

inline MetricCell number_cell(double value) {
  return std::isnan(value) ? MetricCell{MetricState::not_a_number, 0} : MetricCell{MetricState::number, value};
}

inline MetricCell rounded_cell(double value) {
  return number_cell(round_decimals(value, 12));
}

/// Round to nearest, subnormal numbers kept: a library that was built with -ffast-math may have changed that for the whole thread.
class FloatingPointSettings {
 public:
  FloatingPointSettings() {
#if defined(__x86_64__)
    _mm_setcsr(0x1f80);
#elif defined(__aarch64__)
    set_control(0);
#endif
  }
  ~FloatingPointSettings() {
#if defined(__x86_64__)
    _mm_setcsr(before_);
#elif defined(__aarch64__)
    set_control(before_);
#endif
  }
  FloatingPointSettings(const FloatingPointSettings&) = delete;
  FloatingPointSettings(FloatingPointSettings&&) = delete;
  FloatingPointSettings& operator=(const FloatingPointSettings&) = delete;
  FloatingPointSettings& operator=(FloatingPointSettings&&) = delete;

 private:
#if defined(__x86_64__)
  unsigned before_ = _mm_getcsr();
#elif defined(__aarch64__)
  static unsigned long control() {
    unsigned long value = 0;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set_control(unsigned long value) {
    asm volatile("msr fpcr, %0" : : "r"(value));
  }
  unsigned long before_ = control();
#endif
};

/// compare_tensors for one element without dimensions.
TensorMetrics compare_scalars(const TensorSpan& target, const TensorSpan& golden, Compat compat);

}  // namespace msvis::kernels
