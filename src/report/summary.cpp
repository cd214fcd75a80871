#include "report/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "report/log.h"

namespace msvis {
namespace {

constexpr std::size_t most_failed = 20;
constexpr std::size_t most_dropped = 10;
constexpr std::size_t most_worst = 5;
constexpr std::size_t most_merge_findings = 5;

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

std::string place(const NodeFinding& finding) {
  return "step " + std::to_string(finding.step) + " rank " + std::to_string(finding.rank) + " " + finding.node;
}

std::string_view precision_text(Precision precision) {
  switch (precision) {
    case Precision::pass:
      return "pass";
    case Precision::warning:
      return "warning";
    case Precision::error:
      return "error";
    case Precision::none:
      break;
  }
  return "none";
}

void append_finding(std::string& text, const NodeFinding& finding) {
  text += "  " + log_text(finding_text(finding)) + "\n";
}

std::string counts_text(const std::map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [name, number] : counts) {
    text += (text.empty() ? "" : ", ") + std::to_string(number) + " " + name;
  }
  return text;
}

void append_findings(std::string& text, const RunSummary& summary) {
  const Findings& found = summary.findings;
  if (!summary.compare) {
    text += "Nodes: " + std::to_string(found.target_nodes) + "\n";
  } else {
    text += "Nodes: " + std::to_string(found.target_nodes) + " target, " + std::to_string(found.golden_nodes) + " golden; " +
            std::to_string(found.matched) + " matched, " + std::to_string(found.unmatched) + " target and " +
            std::to_string(found.golden_unmatched) + " golden without counterpart\n";
    text += "Verdicts: " + std::to_string(found.passed) + " pass, " + std::to_string(found.warned) + " warning, " +
            std::to_string(found.failed) + " error, " + std::to_string(found.without_data) + " without data\n";
    text += "Parameters: " + std::to_string(found.parameters_compared) + " compared, " + std::to_string(found.parameters_target_only) +
            " only in the target, " + std::to_string(found.parameters_golden_only) + " only in the golden\n";
    if (found.tensors_compared > 0 || !found.tensors_skipped.empty()) {
      text += "Tensors: " + std::to_string(found.tensors_compared) + " compared";
      text += found.tensors_skipped.empty() ? "\n" : "; without metrics: " + log_text(counts_text(found.tensors_skipped)) + "\n";
    }
  }
  if (!found.overflow_levels.empty()) {
    text += "Overflow: " + counts_text(found.overflow_levels) + "\n";
  }
  if (!found.merging.entries.empty()) {
    text += "Merged parameters: " + counts_text(found.merging.entries) + "\n";
  }
  if (!found.merging.finding_counts.empty()) {
    text += "Merging found: " + counts_text(found.merging.finding_counts) + "\n";
    append_some(text, found.merging.findings, most_merge_findings);
  }
  if (found.first_divergence) {
    text += "First divergence:\n";
    append_finding(text, *found.first_divergence);
  }
  if (!found.worst.empty()) {
    text += "Worst nodes:\n";
    for (std::size_t k = 0; k < std::min(most_worst, found.worst.size()); ++k) {
      append_finding(text, found.worst[k]);
    }
  }
}

nlohmann::ordered_json unmatched_json(const Suggestions& suggestions) {
  nlohmann::ordered_json json;
  json["by_reason"] = nlohmann::ordered_json::object();
  for (std::size_t reason = 0; reason < no_partner_reasons; ++reason) {
    json["by_reason"][std::string(no_partner_text(static_cast<NoPartner>(reason)))] = suggestions.unmatched_by_reason[reason];
  }
  json["nodes"] = nlohmann::ordered_json::array();
  for (const UnmatchedNode& node : suggestions.unmatched) {
    json["nodes"].push_back({{"node", node.name}, {"reason", no_partner_text(node.reason)}});
  }
  json["nearest"] = nlohmann::ordered_json::array();
  for (const Candidate& candidate : suggestions.candidates) {
    json["nearest"].push_back({{"target", candidate.target},
                               {"golden", candidate.golden},
                               {"same_class", candidate.same_class ? 1 : 0},
                               {"same_shape", candidate.same_shape ? 1 : 0}});
  }
  return json;
}

nlohmann::ordered_json finding_json(const NodeFinding& finding) {
  nlohmann::ordered_json json;
  json["step"] = finding.step;
  json["rank"] = finding.rank;
  json["node"] = finding.node;
  json["node_order"] = finding.node_order;
  json["result"] = precision_text(finding.precision);
  json["parameter"] = finding.parameter;
  // JSON has no infinity.
  json["error"] = std::isfinite(finding.badness) ? nlohmann::ordered_json(finding.badness) : nlohmann::ordered_json(nullptr);
  json["message"] = finding.message;
  return json;
}

}  // namespace

std::string finding_text(const NodeFinding& finding) {
  std::string line = place(finding) + ": " + (finding.message.empty() ? std::string(precision_text(finding.precision)) : finding.message);
  if (!finding.parameter.empty()) {
    line += " (" + finding.parameter + ")";
  }
  return line;
}

std::string summary_json(const RunSummary& summary) {
  const Findings& found = summary.findings;
  nlohmann::ordered_json json;
  json["schema"] = 1;
  json["version"] = summary.version;
  json["kind"] = summary.compare ? "compare" : "build";
  json["mode"] = summary.mode;
  json["file"] = summary.file.string();
  json["exit_code"] = summary.exit_code;
  auto& nodes = json["nodes"];
  nodes["target"] = found.target_nodes;
  nodes["golden"] = found.golden_nodes;
  nodes["matched"] = found.matched;
  nodes["unmatched"] = found.unmatched;
  nodes["golden_unmatched"] = found.golden_unmatched;
  nodes["pass"] = found.passed;
  nodes["warning"] = found.warned;
  nodes["error"] = found.failed;
  nodes["without_data"] = found.without_data;
  auto& parameters = json["parameters"];
  parameters["compared"] = found.parameters_compared;
  parameters["target_only"] = found.parameters_target_only;
  parameters["golden_only"] = found.parameters_golden_only;
  auto& tensors = json["tensors"];
  tensors["compared"] = found.tensors_compared;
  tensors["bytes"] = found.tensor_bytes;
  tensors["skipped"] = nlohmann::ordered_json::object();
  for (const auto& [reason, number] : found.tensors_skipped) {
    tensors["skipped"][reason] = number;
  }
  json["overflow"] = nlohmann::ordered_json::object();
  for (const auto& [level, number] : found.overflow_levels) {
    json["overflow"][level] = number;
  }
  json["merging"] = nullptr;
  if (!found.merging.entries.empty() || !found.merging.finding_counts.empty()) {
    auto& merging = json["merging"];
    merging["parameters"] = nlohmann::ordered_json(found.merging.entries);
    merging["findings"] = nlohmann::ordered_json(found.merging.finding_counts);
    merging["examples"] = found.merging.findings;
  }
  json["links"] = summary.links;
  json["first_divergence"] = found.first_divergence ? finding_json(*found.first_divergence) : nlohmann::ordered_json(nullptr);
  json["worst"] = nlohmann::ordered_json::array();
  for (const NodeFinding& finding : found.worst) {
    json["worst"].push_back(finding_json(finding));
  }
  json["unmatched"] = summary.suggestions ? unmatched_json(*summary.suggestions) : nlohmann::ordered_json(nullptr);
  json["unused_mapping_rules"] = nlohmann::ordered_json::array();
  for (const UnusedRule& rule : summary.unused_rules) {
    json["unused_mapping_rules"].push_back({{"class", rule.class_name}, {"from", rule.from}, {"to", rule.to}, {"line", rule.line}});
  }
  json["dropped"] = summary.dropped;
  json["items"] = nlohmann::ordered_json::array();
  for (const ItemRecord& item : summary.items) {
    nlohmann::ordered_json entry;
    entry["step"] = item.step;
    entry["rank"] = item.rank;
    entry["status"] = item.status;
    entry["seconds"] = item.seconds;
    entry["target_nodes"] = item.target_nodes;
    entry["golden_nodes"] = item.golden_nodes;
    entry["matched_nodes"] = item.matched_nodes;
    entry["compared_parameters"] = item.compared_parameters;
    entry["error"] = item.error;
    json["items"].push_back(std::move(entry));
  }
  auto& seconds = json["seconds"];
  seconds["total"] = summary.seconds;
  seconds["items"] = summary.items_seconds;
  seconds["links"] = summary.links_seconds;
  seconds["finish"] = summary.finish_seconds;
  seconds["work"]["read"] = found.read_seconds;
  seconds["work"]["compare"] = found.compare_seconds;
  seconds["work"]["encode"] = found.encode_seconds;
  json["processes"] = summary.processes;
  json["threads"] = summary.threads;
  return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string summary_text(const RunSummary& summary) {
  std::vector<std::string> failed;
  for (const auto& item : summary.items) {
    if (item.status != "done") {
      failed.push_back(item.error);
    }
  }
  std::string text =
      (summary.compare ? "Compared " : "Built ") + count(summary.items.size() - failed.size(), "(step, rank) pair", "(step, rank) pairs");
  text += ", " + std::to_string(failed.size()) + " failed\n";
  append_some(text, failed, most_failed);
  if (!summary.dropped.empty()) {
    text += "Left out (" + std::to_string(summary.dropped.size()) + "):\n";
    append_some(text, summary.dropped, most_dropped);
  }
  append_findings(text, summary);
  if (summary.links > 0) {
    text += "Communication links: " + std::to_string(summary.links) + "\n";
  }
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.1f s", summary.seconds);
  text += "Time: " + std::string(seconds.data()) + " with " + count(static_cast<std::uint64_t>(summary.processes), "process", "processes") +
          ", " + count(summary.threads, "worker thread", "worker threads") + "\n";
  text += summary.file.empty() ? "No result file was written\n" : "Result: " + log_text(summary.file.string()) + "\n";
  return text;
}

}  // namespace msvis
