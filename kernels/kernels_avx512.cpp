// The kernels for AVX-512 (F, BW, DQ, VL).
#define MSVIS_SIMD_AVX512
#include "kernels/kernel_impl.h"

namespace msvis::kernels {

const KernelTable& avx512_table() {
  static constexpr KernelTable table = make_table(InstructionSet::avx512);
  return table;
}

}  // namespace msvis::kernels
