// Matching: sets Node::link in both graphs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "match/layer_mapping.h"
#include "msvis/graph.h"
#include "msvis/options.h"

namespace msvis {

// All matching functions reset the links of both graphs, walk the target breadth-first from its root, and take time linear in the size
// of the graphs. A golden node that several target nodes hit keeps the last of them.

/// Default matching: same name and same ancestors (comparison rules, 3.1).
void match_exact(Graph& target, Graph& golden);
/// Fuzzy matching (3.2).
void match_fuzzy(Graph& target, Graph& golden);

/// Matching by equal names, whatever the ancestors: what is left of a layer mapping whose file is unusable (Compat::reference; 3.3).
void match_by_name(Graph& target, Graph& golden);

/// How often the rules of a mapping were used; vectors are parallel to those of LayerMapping::rules_by_class. Sums of several pairs are
/// built with `add`.
struct MappingUsage {
  struct Count {
    std::uint64_t applied = 0;  ///< records of the target on whose way the rule was applied
    std::uint64_t matched = 0;  ///< those of them that found a golden record
  };
  std::map<std::string, std::vector<Count>, std::less<>> counts_by_class;

  void add(const MappingUsage& other);
};

/// Matching by layer mapping (3.3, 3.4); an empty mapping tolerates differing class names. A fault in the records of the pair gives a
/// warning and matching by equal names. Counts are added to `usage` if it is given.
void match_mapped(Graph& target, Graph& golden, const LayerMapping& mapping, Compat compat, std::vector<std::string>& warnings,
                  MappingUsage* usage = nullptr);

}  // namespace msvis
