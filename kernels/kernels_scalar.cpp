// The kernels for one number at a time.
#include "kernels/kernel_impl.h"

namespace msvis::kernels {

const KernelTable& scalar_table() {
  static constexpr KernelTable table = make_table(InstructionSet::scalar);
  return table;
}

}  // namespace msvis::kernels
