// The few vector operations that the kernels need, over xsimd where it has them. One struct per instruction set; included only by the
// sources that are compiled for that set. Everything has internal linkage, so that code for one set never serves another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(MSVIS_SIMD_SSE2) || defined(MSVIS_SIMD_AVX2) || defined(MSVIS_SIMD_AVX512) || defined(MSVIS_SIMD_NEON)
#define MSVIS_SIMD_VECTORS
#include <xsimd/xsimd.hpp>
#endif
#if defined(MSVIS_SIMD_SSE2) || defined(MSVIS_SIMD_AVX2) || defined(MSVIS_SIMD_AVX512)
#include <immintrin.h>
#elif defined(MSVIS_SIMD_NEON)
#include <arm_neon.h>
#endif

#include "kernels/number_formats.h"

#define MSVIS_INLINE __attribute__((always_inline)) inline
#define MSVIS_INLINE_LAMBDA __attribute__((always_inline))

namespace msvis::kernels {
namespace {  // NOLINT(cert-dcl59-cpp): every source that includes this has its own

#ifndef MSVIS_SIMD_VECTORS

/// One number at a time: for machines without any of the other sets, and as a check on them.
struct Isa {
  using Float = float;
  using Double = double;
  static constexpr std::size_t float_width = 1;
  static constexpr std::size_t double_width = 1;
  static constexpr std::size_t columns_per_pass = 1;
  struct Wide {
    double part[1];
  };
  struct Counter {
    std::uint32_t value = 0;
    MSVIS_INLINE void add(bool mask) { value += mask ? 1U : 0U; }
    [[nodiscard]] MSVIS_INLINE std::uint32_t total() const { return value; }
  };
  using FloatCounter = Counter;
  using DoubleCounter = Counter;

  static MSVIS_INLINE float set(float value) { return value; }
  static MSVIS_INLINE double set(double value) { return value; }
  static MSVIS_INLINE float load_float(const unsigned char* at) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static MSVIS_INLINE double load_double(const unsigned char* at) {
    double value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static MSVIS_INLINE std::uint16_t load_16(const unsigned char* at) {
    std::uint16_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static MSVIS_INLINE float load_bfloat16(const unsigned char* at) { return float_from_bfloat16(load_16(at)); }
  static MSVIS_INLINE float load_even_bfloat16(const unsigned char* at) { return float_from_bfloat16(load_16(at)); }
  static MSVIS_INLINE float load_odd_bfloat16(const unsigned char* at) { return float_from_bfloat16(load_16(at + 2)); }
  static MSVIS_INLINE float load_float16(const unsigned char* at) { return float_from_half(load_16(at)); }
  static MSVIS_INLINE void store(float value, float* at) { *at = value; }
  static MSVIS_INLINE void store(double value, double* at) { *at = value; }
  static MSVIS_INLINE Wide widen(float value) { return {{static_cast<double>(value)}}; }
  static MSVIS_INLINE Wide widen_from(const unsigned char* /*at*/, float value) { return widen(value); }
  static MSVIS_INLINE float abs(float value) { return __builtin_fabsf(value); }
  static MSVIS_INLINE double abs(double value) { return __builtin_fabs(value); }
  template <typename T>
  static MSVIS_INLINE T max(T a, T b) {
    return a > b ? a : b;
  }
  template <typename T>
  static MSVIS_INLINE T select(bool mask, T a, T b) {
    return mask ? a : b;
  }
  template <typename T>
  static MSVIS_INLINE bool less(T a, T b) {
    return a < b;
  }
  template <typename T>
  static MSVIS_INLINE bool equal(T a, T b) {
    return a == b;
  }
  static MSVIS_INLINE bool all(bool mask) { return mask; }
  /// The larger of most >= 0 and |value|.
  static MSVIS_INLINE double max_abs(double most, double value) { return max(most, abs(value)); }
  template <typename T>
  static MSVIS_INLINE T divide(T a, T b) {
    return a / b;
  }
  static MSVIS_INLINE bool both(bool a, bool b) { return a && b; }
  static MSVIS_INLINE bool either(bool a, bool b) { return a || b; }
  static MSVIS_INLINE bool inverse(bool a) { return !a; }
  /// sum + a * b where the product is exact in double.
  static MSVIS_INLINE double add_exact_product(double sum, double a, double b) { return sum + a * b; }
};

#else  // vectors by xsimd

#if defined(MSVIS_SIMD_AVX512)
using DoubleArch = xsimd::avx512bw;
// Half as wide as it could be: eight floats become one vector of doubles, without taking vectors apart, which costs more than it saves.
using FloatArch = xsimd::fma3<xsimd::avx2>;
#else
#if defined(MSVIS_SIMD_AVX2)
using DoubleArch = xsimd::fma3<xsimd::avx2>;
#elif defined(MSVIS_SIMD_SSE2)
using DoubleArch = xsimd::sse2;
#else
using DoubleArch = xsimd::neon64;
#endif
using FloatArch = DoubleArch;
#endif

struct Isa {
  using Float = xsimd::batch<float, FloatArch>;
  using Double = xsimd::batch<double, DoubleArch>;
  static constexpr std::size_t float_width = Float::size;
  static constexpr std::size_t double_width = Double::size;
  struct Wide {
    Double part[float_width / double_width];
  };

#if defined(MSVIS_SIMD_AVX512)
  static constexpr std::size_t columns_per_pass = 2;  // the registers suffice for all lanes
  // The masks are in mask registers; counting them is work for the integer units, which are idle.
  struct Counter {
    std::uint32_t value = 0;
    MSVIS_INLINE void add(__mmask8 mask) { value += static_cast<std::uint32_t>(__builtin_popcount(mask)); }
    [[nodiscard]] MSVIS_INLINE std::uint32_t total() const { return value; }
  };
  using FloatCounter = Counter;
  using DoubleCounter = Counter;
  static MSVIS_INLINE __mmask8 less(const Float& a, const Float& b) {
    return _mm256_cmp_ps_mask(a.data, b.data, _CMP_LT_OQ);
  }
  static MSVIS_INLINE __mmask8 less(const Double& a, const Double& b) {
    return _mm512_cmp_pd_mask(a.data, b.data, _CMP_LT_OQ);
  }
  static MSVIS_INLINE __mmask8 equal(const Float& a, const Float& b) {
    return _mm256_cmp_ps_mask(a.data, b.data, _CMP_EQ_OQ);
  }
  static MSVIS_INLINE __mmask8 equal(const Double& a, const Double& b) {
    return _mm512_cmp_pd_mask(a.data, b.data, _CMP_EQ_OQ);
  }
  static MSVIS_INLINE __mmask8 both(__mmask8 a, __mmask8 b) {
    return a & b;
  }
  static MSVIS_INLINE __mmask8 either(__mmask8 a, __mmask8 b) {
    return a | b;
  }
  static MSVIS_INLINE __mmask8 inverse(__mmask8 a) {
    return static_cast<__mmask8>(~a);
  }
  static MSVIS_INLINE bool all(__mmask8 mask) {
    return mask == 0xff;
  }
  static MSVIS_INLINE Float select(__mmask8 mask, const Float& a, const Float& b) {
    return Float(_mm256_mask_blend_ps(mask, b.data, a.data));
  }
  static MSVIS_INLINE Double select(__mmask8 mask, const Double& a, const Double& b) {
    return Double(_mm512_mask_blend_pd(mask, b.data, a.data));
  }
  static MSVIS_INLINE Wide widen(const Float& value) {
    return {{Double(_mm512_cvtps_pd(value.data))}};
  }
  static MSVIS_INLINE Wide widen_from(const unsigned char* /*at*/, const Float& value) {
    return widen(value);
  }
  static MSVIS_INLINE Double max_abs(const Double& most, const Double& value) {
    return Double(_mm512_range_pd(most.data, value.data, 0x0b));  // the larger absolute value, without its sign
  }
  static MSVIS_INLINE Double add_exact_product(const Double& sum, const Double& a, const Double& b) {
    return Double(_mm512_fmadd_pd(a.data, b.data, sum.data));
  }
#else
  using FloatMask = xsimd::batch_bool<float, FloatArch>;
  using DoubleMask = xsimd::batch_bool<double, DoubleArch>;
  static constexpr std::size_t columns_per_pass = 1;
  template <typename T>
  static MSVIS_INLINE auto less(const T& a, const T& b) {
    return a < b;
  }
  template <typename T>
  static MSVIS_INLINE auto equal(const T& a, const T& b) {
    return a == b;
  }
  template <typename M>
  static MSVIS_INLINE M both(const M& a, const M& b) {
    return a & b;
  }
  template <typename M>
  static MSVIS_INLINE M either(const M& a, const M& b) {
    return a | b;
  }
  template <typename M>
  static MSVIS_INLINE M inverse(const M& a) {
    return ~a;
  }
#if !defined(MSVIS_SIMD_AVX2)
  template <typename M>
  static MSVIS_INLINE bool all(const M& mask) {
    return xsimd::all(mask);
  }
#endif
  template <typename M, typename T>
  static MSVIS_INLINE T select(const M& mask, const T& a, const T& b) {
    return xsimd::select(mask, a, b);
  }
  static MSVIS_INLINE Double max_abs(const Double& most, const Double& value) {
    return xsimd::max(most, xsimd::abs(value));
  }
#endif

#if defined(MSVIS_SIMD_AVX512) || defined(MSVIS_SIMD_AVX2)
  static MSVIS_INLINE __m256i load_words(const unsigned char* at) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  }
  static MSVIS_INLINE Float load_even_bfloat16(const unsigned char* at) {
    return Float(_mm256_castsi256_ps(_mm256_slli_epi32(load_words(at), 16)));
  }
  static MSVIS_INLINE Float load_odd_bfloat16(const unsigned char* at) {
    return Float(_mm256_castsi256_ps(_mm256_and_si256(load_words(at), _mm256_set1_epi32(static_cast<int>(0xffff0000U)))));
  }
  static MSVIS_INLINE Float load_bfloat16(const unsigned char* at) {
    const __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    return Float(_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)));
  }
  static MSVIS_INLINE Float load_float16(const unsigned char* at) {
    return Float(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))));
  }
#endif
#if defined(MSVIS_SIMD_AVX512)
#elif defined(MSVIS_SIMD_AVX2)
  // Counters in general registers: vector registers are short here.
  struct Counter {
    std::uint32_t value = 0;
    MSVIS_INLINE void add(const FloatMask& mask) { value += static_cast<std::uint32_t>(__builtin_popcount(bits(mask))); }
    MSVIS_INLINE void add(const DoubleMask& mask) { value += static_cast<std::uint32_t>(__builtin_popcount(bits(mask))); }
    [[nodiscard]] MSVIS_INLINE std::uint32_t total() const { return value; }
  };
  using FloatCounter = Counter;
  using DoubleCounter = Counter;
  static MSVIS_INLINE unsigned bits(const FloatMask& mask) {
    return static_cast<unsigned>(_mm256_movemask_ps(mask.data));
  }
  static MSVIS_INLINE unsigned bits(const DoubleMask& mask) {
    return static_cast<unsigned>(_mm256_movemask_pd(mask.data));
  }
  static MSVIS_INLINE bool all(const FloatMask& mask) {
    return bits(mask) == 0xff;
  }
  static MSVIS_INLINE bool all(const DoubleMask& mask) {
    return bits(mask) == 0xf;
  }
  static MSVIS_INLINE Wide widen(const Float& value) {
    return {{Double(_mm256_cvtps_pd(_mm256_castps256_ps128(value.data))), Double(_mm256_cvtps_pd(_mm256_extractf128_ps(value.data, 1)))}};
  }
  static MSVIS_INLINE Wide widen_from(const unsigned char* at, const Float& /*value*/) {
    const auto* values = reinterpret_cast<const float*>(at);
    return {{Double(_mm256_cvtps_pd(_mm_loadu_ps(values))), Double(_mm256_cvtps_pd(_mm_loadu_ps(values + 4)))}};
  }
  static MSVIS_INLINE Double add_exact_product(const Double& sum, const Double& a, const Double& b) {
    return Double(_mm256_fmadd_pd(a.data, b.data, sum.data));
  }
#elif defined(MSVIS_SIMD_SSE2)
  struct FloatCounter {
    __m128i value = _mm_setzero_si128();
    MSVIS_INLINE void add(const FloatMask& mask) { value = _mm_sub_epi32(value, _mm_castps_si128(mask.data)); }
    [[nodiscard]] MSVIS_INLINE std::uint32_t total() const {
      alignas(16) std::uint32_t all[4];
      _mm_store_si128(reinterpret_cast<__m128i*>(all), value);
      return all[0] + all[1] + all[2] + all[3];
    }
  };
  struct DoubleCounter {
    __m128i value = _mm_setzero_si128();
    MSVIS_INLINE void add(const DoubleMask& mask) { value = _mm_sub_epi64(value, _mm_castpd_si128(mask.data)); }
    [[nodiscard]] MSVIS_INLINE std::uint32_t total() const {
      alignas(16) std::uint64_t all[2];
      _mm_store_si128(reinterpret_cast<__m128i*>(all), value);
      return static_cast<std::uint32_t>(all[0] + all[1]);
    }
  };
  static MSVIS_INLINE __m128i load_four_16(const unsigned char* at) {
    std::int64_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return _mm_cvtsi64_si128(bits);
  }
  static MSVIS_INLINE Float load_bfloat16(const unsigned char* at) {
    return Float(_mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), load_four_16(at))));
  }
  static MSVIS_INLINE __m128i load_words(const unsigned char* at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  }
  static MSVIS_INLINE Float load_even_bfloat16(const unsigned char* at) {
    return Float(_mm_castsi128_ps(_mm_slli_epi32(load_words(at), 16)));
  }
  static MSVIS_INLINE Float load_odd_bfloat16(const unsigned char* at) {
    return Float(_mm_castsi128_ps(_mm_and_si128(load_words(at), _mm_set1_epi32(static_cast<int>(0xffff0000U)))));
  }
  static MSVIS_INLINE Float load_float16(const unsigned char* at) {  // as float_from_half
    const __m128i half = _mm_unpacklo_epi16(load_four_16(at), _mm_setzero_si128());
    const __m128i magnitude = _mm_slli_epi32(_mm_and_si128(half, _mm_set1_epi32(0x7fff)), 13);
    const __m128i sign = _mm_slli_epi32(_mm_and_si128(half, _mm_set1_epi32(0x8000)), 16);
    const __m128 scaled = _mm_mul_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(0x1p112F));
    const __m128i special = _mm_and_si128(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x0f7fffff)), _mm_set1_epi32(0x7f800000));
    return Float(_mm_or_ps(scaled, _mm_castsi128_ps(_mm_or_si128(special, sign))));
  }
  static MSVIS_INLINE Wide widen(const Float& value) {
    return {{Double(_mm_cvtps_pd(value.data)), Double(_mm_cvtps_pd(_mm_movehl_ps(value.data, value.data)))}};
  }
  static MSVIS_INLINE Wide widen_from(const unsigned char* /*at*/, const Float& value) {
    return widen(value);
  }
  static MSVIS_INLINE Double add_exact_product(const Double& sum, const Double& a, const Double& b) {
    return sum + a * b;
  }
#else  // NEON
  struct FloatCounter {
    uint32x4_t value = vdupq_n_u32(0);
    MSVIS_INLINE void add(const FloatMask& mask) { value = vsubq_u32(value, mask.data); }
    [[nodiscard]] MSVIS_INLINE std::uint32_t total() const { return vaddvq_u32(value); }
  };
  struct DoubleCounter {
    uint64x2_t value = vdupq_n_u64(0);
    MSVIS_INLINE void add(const DoubleMask& mask) { value = vsubq_u64(value, mask.data); }
    [[nodiscard]] MSVIS_INLINE std::uint32_t total() const { return static_cast<std::uint32_t>(vaddvq_u64(value)); }
  };
  // xsimd multiplies by an approximate reciprocal.
  static MSVIS_INLINE Float divide(const Float& a, const Float& b) {
    return Float(vdivq_f32(a.data, b.data));
  }
  static MSVIS_INLINE Double divide(const Double& a, const Double& b) {
    return Double(vdivq_f64(a.data, b.data));
  }
  static MSVIS_INLINE uint16x4_t load_four_16(const unsigned char* at) {
    std::uint64_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return vcreate_u16(bits);
  }
  static MSVIS_INLINE Float load_bfloat16(const unsigned char* at) {
    return Float(vreinterpretq_f32_u32(vshll_n_u16(load_four_16(at), 16)));
  }
  static MSVIS_INLINE uint32x4_t load_words(const unsigned char* at) {
    return vreinterpretq_u32_u8(vld1q_u8(at));
  }
  static MSVIS_INLINE Float load_even_bfloat16(const unsigned char* at) {
    return Float(vreinterpretq_f32_u32(vshlq_n_u32(load_words(at), 16)));
  }
  static MSVIS_INLINE Float load_odd_bfloat16(const unsigned char* at) {
    return Float(vreinterpretq_f32_u32(vandq_u32(load_words(at), vdupq_n_u32(0xffff0000U))));
  }
  static MSVIS_INLINE Float load_float16(const unsigned char* at) {
    return Float(vcvt_f32_f16(vreinterpret_f16_u16(load_four_16(at))));
  }
  static MSVIS_INLINE Wide widen(const Float& value) {
    return {{Double(vcvt_f64_f32(vget_low_f32(value.data))), Double(vcvt_high_f64_f32(value.data))}};
  }
  static MSVIS_INLINE Wide widen_from(const unsigned char* /*at*/, const Float& value) {
    return widen(value);
  }
  static MSVIS_INLINE Double add_exact_product(const Double& sum, const Double& a, const Double& b) {
    return Double(vfmaq_f64(sum.data, a.data, b.data));
  }
#endif

#if !defined(MSVIS_SIMD_NEON)
  template <typename T>
  static MSVIS_INLINE T divide(const T& a, const T& b) {
    return a / b;
  }
#endif
  static MSVIS_INLINE Float set(float value) {
    return Float(value);
  }
  static MSVIS_INLINE Double set(double value) {
    return Double(value);
  }
  static MSVIS_INLINE Float load_float(const unsigned char* at) {
    return Float::load_unaligned(reinterpret_cast<const float*>(at));
  }
  static MSVIS_INLINE Double load_double(const unsigned char* at) {
    return Double::load_unaligned(reinterpret_cast<const double*>(at));
  }
  static MSVIS_INLINE void store(const Float& value, float* at) {
    value.store_unaligned(at);
  }
  static MSVIS_INLINE void store(const Double& value, double* at) {
    value.store_unaligned(at);
  }
  template <typename T>
  static MSVIS_INLINE T abs(const T& value) {
    return xsimd::abs(value);
  }
  template <typename T>
  static MSVIS_INLINE T max(const T& a, const T& b) {
    return xsimd::max(a, b);
  }
};

#endif

}  // namespace
}  // namespace msvis::kernels
