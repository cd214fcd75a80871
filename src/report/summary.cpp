#include "report/summary.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "report/log.h"

namespace msvis {
namespace {

constexpr std::size_t most_failed = 20;
constexpr std::size_t most_dropped = 10;

std::string count(std::uint64_t number, const char* one, const char* many) {
  return std::to_string(number) + " " + (number == 1 ? one : many);
}

void append_some(std::string& text, const std::vector<std::string>& lines, std::size_t most) {
  for (std::size_t k = 0; k < std::min(most, lines.size()); ++k) {
    text += "  " + log_text(lines[k]) + "\n";
  }
  if (lines.size() > most) {
    text += "  ... and " + std::to_string(lines.size() - most) + " more\n";
  }
}

}  // namespace

std::string summary_text(const RunSummary& summary) {
  std::uint64_t target_nodes = 0;
  std::uint64_t golden_nodes = 0;
  std::uint64_t matched = 0;
  std::uint64_t parameters = 0;
  std::vector<std::string> failed;
  for (const auto& item : summary.items) {
    if (item.status != "done") {
      failed.push_back("step " + std::to_string(item.step) + " rank " + std::to_string(item.rank) + ": " + item.error);
      continue;
    }
    target_nodes += item.target_nodes;
    golden_nodes += item.golden_nodes;
    matched += item.matched_nodes;
    parameters += item.compared_parameters;
  }
  std::string text = (summary.compare ? "Compared " : "Built ") +
                     count(summary.items.size() - failed.size(), "(step, rank) pair", "(step, rank) pairs");
  text += ", " + std::to_string(failed.size()) + " failed\n";
  append_some(text, failed, most_failed);
  if (!summary.dropped.empty()) {
    text += "Left out (" + std::to_string(summary.dropped.size()) + "):\n";
    append_some(text, summary.dropped, most_dropped);
  }
  if (summary.compare) {
    text += "Nodes: " + std::to_string(target_nodes) + " target, " + std::to_string(golden_nodes) + " golden, " +
            std::to_string(matched) + " matched; " + count(parameters, "parameter", "parameters") + " compared\n";
  } else {
    text += "Nodes: " + std::to_string(target_nodes) + "\n";
  }
  if (summary.links > 0) {
    text += "Communication links: " + std::to_string(summary.links) + "\n";
  }
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.1f s", summary.seconds);
  text += "Time: " + std::string(seconds.data()) + " with " +
          count(static_cast<std::uint64_t>(summary.processes), "process", "processes") + ", " +
          count(summary.threads, "worker thread", "worker threads") + "\n";
  text += summary.file.empty() ? "No result file was written\n" : "Result: " + log_text(summary.file.string()) + "\n";
  return text;
}

}  // namespace msvis
