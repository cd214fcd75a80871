// The kernels for SSE2.
#define MSVIS_SIMD_SSE2
#include "kernels/kernel_impl.h"

namespace msvis::kernels {

const KernelTable& sse2_table() {
  static constexpr KernelTable table = make_table(InstructionSet::sse2);
  return table;
}

}  // namespace msvis::kernels
