// Which kernels this machine can run, and which are asked for.
#include <array>
#include <cstdlib>
#include <string>

#include "kernels/kernel_table.h"
#include "msvis/error.h"

#if defined(MSVIS_KERNELS_X86)
#include <cpuid.h>
#endif

namespace msvis {
namespace {

bool machine_has(InstructionSet set) {
  switch (set) {
    case InstructionSet::scalar:
#if defined(MSVIS_KERNELS_NEON)
    case InstructionSet::neon:
#endif
#if defined(MSVIS_KERNELS_X86)
    case InstructionSet::sse2:
#endif
      return true;
#if defined(MSVIS_KERNELS_X86)
    case InstructionSet::avx2: {
      unsigned eax = 0;
      unsigned ebx = 0;
      unsigned ecx = 0;
      unsigned edx = 0;
      const bool has_f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
      return has_f16c && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    }
    case InstructionSet::avx512:
      return machine_has(InstructionSet::avx2) && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512cd") != 0;
#endif
    default:
      return false;
  }
}

/// Asked once: the question may trap on virtual machines, which takes longer than comparing a small tensor.
bool can_run(InstructionSet set) {
  static const std::array<bool, 6> answers = [] {
    std::array<bool, 6> found{};
    for (std::size_t k = 0; k < found.size(); ++k) {
      found[k] = machine_has(static_cast<InstructionSet>(k));
    }
    return found;
  }();
  return answers[static_cast<std::size_t>(set)];
}

InstructionSet best_set() {
  const char* wanted = std::getenv("MSVIS_ISA");
  if (wanted == nullptr || *wanted == '\0' || std::string_view(wanted) == instruction_set_name(InstructionSet::best)) {
    return available_instruction_sets().back();
  }
  std::string known;
  for (const InstructionSet set : available_instruction_sets()) {
    if (instruction_set_name(set) == wanted) {
      return set;
    }
    known += known.empty() ? "" : ", ";
    known += instruction_set_name(set);
  }
  throw Error(ErrorCategory::usage, "MSVIS_ISA is \"" + std::string(wanted) + "\", but this machine has: " + known);
}

}  // namespace

std::string_view instruction_set_name(InstructionSet set) {
  switch (set) {
    case InstructionSet::scalar:
      return "scalar";
    case InstructionSet::sse2:
      return "sse2";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
    case InstructionSet::neon:
      return "neon";
    case InstructionSet::best:
      break;
  }
  return "best";
}

std::vector<InstructionSet> available_instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set :
       {InstructionSet::scalar, InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512, InstructionSet::neon}) {
    if (can_run(set)) {
      sets.push_back(set);
    }
  }
  return sets;
}

namespace kernels {

const KernelTable& table_for(InstructionSet set) {
  InstructionSet chosen = set;
  if (set == InstructionSet::best) {
    static const InstructionSet best = best_set();  // if this throws, the next call tries again
    chosen = best;
  }
  if (can_run(chosen)) {
    switch (chosen) {
#if defined(MSVIS_KERNELS_X86)
      case InstructionSet::sse2:
        return sse2_table();
      case InstructionSet::avx2:
        return avx2_table();
      case InstructionSet::avx512:
        return avx512_table();
#endif
#if defined(MSVIS_KERNELS_NEON)
      case InstructionSet::neon:
        return neon_table();
#endif
      default:
        return scalar_table();
    }
  }
  throw Error(ErrorCategory::usage, "this machine or this build has no instruction set " + std::string(instruction_set_name(set)));
}

}  // namespace kernels
}  // namespace msvis
