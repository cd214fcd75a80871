// Which comparison two dumps allow (comparison rules, section 1).
#include "compare/compare.h"
#include "msvis/error.h"

namespace msvis {
namespace {

std::filesystem::path dump_file(const Dump& dump) {
  return dump.directory / "dump.json";
}

std::string_view framework_text(Framework framework) {
  return framework == Framework::mindspore ? "mindspore" : "pytorch";
}

Framework detected_or_pytorch(const Dump& dump) {
  const Framework found = dump.detected_framework();
  return found == Framework::unknown ? Framework::pytorch : found;
}

void check_task(const Dump& dump) {
  if (dump.task.empty()) {
    throw Error(ErrorCategory::mismatch, "no member \"task\", so it can't be compared", dump_file(dump));
  }
}

void check_data(const Dump& dump) {
  if (!dump.data.is_object()) {
    throw Error(ErrorCategory::mismatch, "no object \"data\", so it can't be compared", dump_file(dump));
  }
}

/// The pairs of frameworks for which there are readers (D2).
void check_readers(const Dump& target, const Dump& golden, std::vector<std::string>& warnings) {
  const auto stated = [&warnings](const Dump& dump) -> std::string {
    if (dump.framework.empty()) {
      warnings.push_back(dump_file(dump).string() + ": no member \"framework\"; taken as pytorch");
      return "pytorch";
    }
    return dump.framework;
  };
  const std::string ours = stated(target);
  const std::string theirs = stated(golden);
  const bool both_pytorch = ours == "pytorch" && theirs == "pytorch";
  const bool mindspore_target = (ours == "mindspore" || ours == "mindtorch") && (theirs == "pytorch" || theirs == "mindspore");
  if (!both_pytorch && !mindspore_target) {
    throw Error(ErrorCategory::mismatch,
                "a target of framework " + ours + " can't be compared with a golden of framework " + theirs +
                    "; accepted are pytorch with pytorch, and mindspore or mindtorch with pytorch or mindspore",
                dump_file(target));
  }
}

}  // namespace

std::string_view task_text(CompareMode mode) {
  switch (mode) {
    case CompareMode::summary:
      return "summary";
    case CompareMode::md5:
      return "md5";
    case CompareMode::tensor:
      return "all";
    case CompareMode::structure:
      return "structure";
  }
  return "";
}

bool cross_framework(const Dump& target, const Dump& golden) {
  return detected_or_pytorch(target) != detected_or_pytorch(golden);
}

CompareMode choose_mode(const Dump& target, const Dump& golden, bool layer_mapping, std::vector<std::string>& warnings) {
  for (const Dump* dump : {&target, &golden}) {
    if (!dump->framework.empty() && dump->detected_framework() == Framework::unknown) {
      warnings.push_back(dump_file(*dump).string() + ": nothing in it tells the framework \"" + dump->framework + "\"; taken as pytorch");
    }
  }
  if (cross_framework(target, golden) && !layer_mapping) {
    throw Error(ErrorCategory::mismatch,
                "the target is a " + std::string(framework_text(detected_or_pytorch(target))) + " dump and the golden a " +
                    std::string(framework_text(detected_or_pytorch(golden))) +
                    " dump; comparing across frameworks needs a layer mapping (-lm, with or without a file)",
                dump_file(target));
  }
  check_task(target);
  check_task(golden);
  check_data(target);
  check_data(golden);
  if (target.task != golden.task) {
    throw Error(ErrorCategory::mismatch,
                "task \"" + target.task + "\" differs from \"" + golden.task + "\" of " + dump_file(golden).string(), dump_file(target));
  }
  CompareMode mode = CompareMode::summary;
  if (target.task == "tensor") {
    mode = CompareMode::tensor;
  } else if (target.task == "structure") {
    mode = CompareMode::structure;
  } else if (target.task == "statistics") {
    const bool ours = target.has_md5();
    if (ours != golden.has_md5()) {
      throw Error(
          ErrorCategory::mismatch,
          "only the " + std::string(ours ? "target" : "golden") + " has checksums (md5); dump both sides with the same summary_mode",
          dump_file(target));
    }
    mode = ours ? CompareMode::md5 : CompareMode::summary;
  } else {
    throw Error(ErrorCategory::mismatch, "task \"" + target.task + "\" can't be compared; accepted are statistics, tensor and structure",
                dump_file(target));
  }
  check_readers(target, golden, warnings);
  return mode;
}

}  // namespace msvis
