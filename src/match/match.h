// Matching: sets Node::link in both graphs.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "msvis/graph.h"
#include "msvis/options.h"

namespace msvis {

/// Default matching: same name and same ancestors (comparison rules, 3.1).
void match_exact(Graph& target, Graph& golden);
/// Fuzzy matching (3.2).
void match_fuzzy(Graph& target, Graph& golden);

/// A parsed layer mapping file (3.4, step E).
struct LayerMapping {
  struct Rule {
    std::vector<std::string> from;  ///< fields on the target side
    std::vector<std::string> to;    ///< fields on the golden side
    int line = 0;                   ///< 1-based line in the file
  };
  std::map<std::string, std::vector<Rule>, std::less<>> rules_by_class;
  std::filesystem::path file;

  /// Throws Error (path, format) with file, line and reason.
  static LayerMapping read(const std::filesystem::path& file);
};

/// Matching by layer mapping (3.3, 3.4); an empty mapping tolerates differing class names. A fault in the records of the pair gives a
/// warning and matching by equal names.
void match_mapped(Graph& target, Graph& golden, const LayerMapping& mapping, Compat compat, std::vector<std::string>& warnings);

}  // namespace msvis
