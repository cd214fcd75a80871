// Why nodes have no partner, and which layer mapping would give them one. Pure functions on matched graphs; the results are plain values
// that can be sent between processes and merged.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "match/match.h"

namespace msvis {

/// Why a target node has no partner.
enum class NoPartner : std::uint8_t {
  no_such_name,        ///< the golden graph has no node of this name
  other_parent,        ///< it has one, below other ancestors
  collection_shifted,  ///< it has one, and only the `Apis_Between_Modules` nodes among the ancestors differ
  paired_elsewhere,    ///< it has one at the same place, but occurrence counts or mapping rules point to another node
};
inline constexpr std::size_t no_partner_reasons = 4;

/// For people: `no such name`, `other parent`, `collection shifted`, `paired elsewhere`.
std::string_view no_partner_text(NoPartner reason);

/// A target node without a partner.
struct UnmatchedNode {
  std::string name;
  NoPartner reason = NoPartner::no_such_name;
};

/// The nearest unmatched golden module of an unmatched target module: it stands below the partner (or the nearest candidate) of the
/// target's parent and runs in the same direction.
struct Candidate {
  std::string target;
  std::string golden;
  bool same_class = false;
  bool same_shape = false;  ///< first outputs have the same, known shape
};

/// A mapping rule that would match nodes which have no partner now.
struct SuggestedRule {
  std::string class_name;
  std::string from;
  std::string to;
  std::uint64_t nodes = 0;  ///< promised nodes on whose way the rule is applied
};

/// A pair that matching with the suggested mapping makes.
struct PromisedPair {
  std::string target;
  std::string golden;
};

struct Suggestions {
  std::array<std::uint64_t, no_partner_reasons> unmatched_by_reason{};  ///< all unmatched target nodes
  std::vector<UnmatchedNode> unmatched;                                 ///< the first of them, breadth-first
  std::uint64_t candidate_count = 0;
  std::vector<Candidate> candidates;  ///< the first of them
  std::vector<SuggestedRule> rules;   ///< to be added to the mapping that was used
  std::uint64_t promised_count = 0;  ///< unmatched target nodes that the mapping with these rules matches; without any rule: -lm alone does
  std::vector<PromisedPair> promised;  ///< the first of them
};

/// Judges one pair of graphs after matching. `mapping` is the one that was used (empty if none was). Rules are suggested only if adding
/// them takes no partner away that the mapping gives; each promise is checked by translating the records with the suggested mapping. The
/// lists hold at most `list_limit` entries each; counts are complete. Nodes of records that can't be placed (faults, structure dumps) get
/// no rules. Takes time linear in the size of the graphs, per round of checking (at most 8).
Suggestions suggest(const Graph& target, const Graph& golden, const LayerMapping& mapping, Compat compat, std::size_t list_limit = 1000);

/// Adds the suggestions of another pair: counts are summed, lists are appended up to the limit; of two rules with the same class and key
/// the one that serves more nodes stays.
void merge_suggestions(Suggestions& into, const Suggestions& other, std::size_t list_limit = 1000);

/// A rule of the mapping file without effect.
struct UnusedRule {
  std::string class_name;
  std::string from;
  std::string to;
  int line = 0;
  bool applied = false;  ///< it was applied, but no record on its way found a partner
};

/// Rules that matched nothing, by class and line. `usage` is the sum over all pairs.
std::vector<UnusedRule> unused_rules(const LayerMapping& mapping, const MappingUsage& usage);

/// A complete mapping file: the rules of `current` and the suggested ones (marked by a comment), grouped by class. LayerMapping::read
/// accepts it and gives `with_rules(current, rules)`.
std::string render_mapping(const LayerMapping& current, const std::vector<SuggestedRule>& rules);

/// The mapping with the suggested rules added; a suggested rule replaces one with the same class and key.
LayerMapping with_rules(const LayerMapping& current, const std::vector<SuggestedRule>& rules);

std::string pack(const Suggestions& suggestions);
Suggestions unpack_suggestions(std::string_view bytes);
std::string pack(const MappingUsage& usage);
MappingUsage unpack_mapping_usage(std::string_view bytes);

}  // namespace msvis
