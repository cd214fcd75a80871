// The kernels for NEON on AArch64.
#define MSVIS_SIMD_NEON
#include "kernels/kernel_impl.h"

namespace msvis::kernels {

const KernelTable& neon_table() {
  static constexpr KernelTable table = make_table(InstructionSet::neon);
  return table;
}

}  // namespace msvis::kernels
