// The kernels for AVX2, FMA and F16C.
#define MSVIS_SIMD_AVX2
#include "kernels/kernel_impl.h"

namespace msvis::kernels {

const KernelTable& avx2_table() {
  static constexpr KernelTable table = make_table(InstructionSet::avx2);
  return table;
}

}  // namespace msvis::kernels
