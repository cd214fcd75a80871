// Names of target records in terms of the golden model, by the rules of a layer mapping.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "match/layer_mapping.h"
#include "match/record_scope.h"
#include "msvis/graph.h"

namespace msvis {

/// Hash of an edge of a tree: node and field.
struct EdgeHash {
  std::size_t operator()(const std::pair<std::uint32_t, std::string_view>& edge) const noexcept {
    constexpr std::size_t spread = 0x9E3779B97F4A7C15U;
    return std::hash<std::string_view>{}(edge.second) ^ ((edge.first + std::size_t{1}) * spread);
  }
};

/// Edges of a tree whose nodes are numbers; node 0 is the root. Fields are views of texts that must outlive it.
class FieldTree {
 public:
  [[nodiscard]] std::uint32_t find(std::uint32_t node, std::string_view field) const;
  /// Finds or adds a child.
  std::uint32_t child(std::uint32_t node, std::string_view field);
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  std::unordered_map<std::pair<std::uint32_t, std::string_view>, std::uint32_t, EdgeHash> edges_;
  std::uint32_t size_ = 1;
};

/// Calls `visit(field)` for every field of a scope after the first, until it returns false.
template <typename Visit>
void visit_scope_fields(std::string_view scope, Visit&& visit) {
  for (std::size_t dot = scope.find('.'); dot != std::string_view::npos;) {
    const std::size_t begin = dot + 1;
    dot = scope.find('.', begin);
    if (!visit(scope.substr(begin, dot == std::string_view::npos ? dot : dot - begin))) {
      return;
    }
  }
}

/// The records of one side by their scopes (comparison rules, 3.4, step D).
class ScopeTree {
 public:
  /// The records must outlive the tree.
  explicit ScopeTree(const std::vector<RecordScope>& records);

  [[nodiscard]] std::uint32_t find(std::uint32_t node, std::string_view field) const { return tree_.find(node, field); }
  [[nodiscard]] std::string_view type_name(std::uint32_t node) const { return type_names_[node]; }
  /// Node of a record.
  [[nodiscard]] std::uint32_t node_of(std::size_t record) const { return places_[record].node; }
  /// Position of a record among those of its node and state.
  [[nodiscard]] std::uint32_t position_of(std::size_t record) const { return places_[record].position; }
  /// Record at a position, or no_node.
  [[nodiscard]] std::uint32_t record_at(std::uint32_t node, std::string_view state, std::uint32_t position) const;

 private:
  struct Place {
    std::uint32_t node = 0;
    std::uint32_t position = 0;
  };
  FieldTree tree_;
  std::vector<std::string_view> type_names_;
  std::vector<Place> places_;
  std::unordered_map<std::pair<std::uint32_t, std::string_view>, std::vector<std::uint32_t>, EdgeHash> records_;
};

/// Translates target records by a mapping (step F). All arguments must outlive it.
class Translator {
 public:
  /// A rule that was applied, by its class and its index in LayerMapping::rules_by_class.
  struct Applied {
    std::string_view class_name;
    std::uint32_t rule = 0;
  };

  Translator(const std::vector<RecordScope>& target, const ScopeTree& target_tree, const ScopeTree& golden_tree,
             const LayerMapping& mapping);

  /// Index of the golden record for a target record, or no_node; `applied` receives the rules on the way.
  [[nodiscard]] std::uint32_t translate(std::size_t record, std::vector<Applied>& applied) const;

 private:
  struct ClassRules {
    std::string_view name;
    FieldTree keys;
    std::vector<std::uint32_t> rule_at;  ///< by node of `keys`: index of the rule that ends there, or no_node
    const std::vector<LayerMapping::Rule>* rules = nullptr;
  };

  const std::vector<RecordScope>& target_;
  const ScopeTree& target_tree_;
  const ScopeTree& golden_tree_;
  std::unordered_map<std::string_view, ClassRules> classes_;
};

}  // namespace msvis
