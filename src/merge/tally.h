// What merging found out besides the graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace msvis {

struct MergeTally {
  /// Findings beyond this number are only counted.
  static constexpr std::size_t max_findings = 50;

  std::map<std::string, std::uint64_t> entries;         ///< merged entries by kind (`split`, `replicated`, ...)
  std::map<std::string, std::uint64_t> finding_counts;  ///< by kind (`diverged replicas`, ...)
  std::vector<std::string> findings;                    ///< one sentence each, in the order in which they were found

  void find(const std::string& kind, std::string sentence) {
    ++finding_counts[kind];
    if (findings.size() < max_findings) {
      findings.push_back(std::move(sentence));
    }
  }
  void add(const MergeTally& other) {
    for (const auto& [kind, number] : other.entries) {
      entries[kind] += number;
    }
    for (const auto& [kind, number] : other.finding_counts) {
      finding_counts[kind] += number;
    }
    for (const std::string& sentence : other.findings) {
      if (findings.size() < max_findings) {
        findings.push_back(sentence);
      }
    }
  }
};

}  // namespace msvis
