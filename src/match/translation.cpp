#include "match/translation.h"

namespace msvis {

std::uint32_t FieldTree::find(std::uint32_t node, std::string_view field) const {
  const auto found = edges_.find({node, field});
  return found == edges_.end() ? no_node : found->second;
}

std::uint32_t FieldTree::child(std::uint32_t node, std::string_view field) {
  const auto [edge, added] = edges_.try_emplace({node, field}, size_);
  if (added) {
    ++size_;
  }
  return edge->second;
}

ScopeTree::ScopeTree(const std::vector<RecordScope>& records) : type_names_{"TopLayer"} {
  places_.reserve(records.size());
  for (std::uint32_t index = 0; index < records.size(); ++index) {
    const RecordScope& record = records[index];
    std::uint32_t node = 0;
    visit_scope_fields(record.full_scope, [&](std::string_view field) {
      node = tree_.child(node, field);
      if (node == type_names_.size()) {
        type_names_.push_back(field);
      }
      return true;
    });
    type_names_[node] = record.type_name;
    std::vector<std::uint32_t>& same_state = records_[{node, record.state}];
    places_.push_back({node, static_cast<std::uint32_t>(same_state.size())});
    same_state.push_back(index);
  }
}

std::uint32_t ScopeTree::record_at(std::uint32_t node, std::string_view state, std::uint32_t position) const {
  const auto found = records_.find({node, state});
  return found != records_.end() && position < found->second.size() ? found->second[position] : no_node;
}

Translator::Translator(const std::vector<RecordScope>& target, const ScopeTree& target_tree, const ScopeTree& golden_tree,
                       const LayerMapping& mapping)
    : target_(target), target_tree_(target_tree), golden_tree_(golden_tree) {
  for (const auto& [class_name, rules] : mapping.rules_by_class) {
    ClassRules& compiled = classes_[class_name];
    compiled.name = class_name;
    compiled.rules = &rules;
    compiled.rule_at.push_back(no_node);
    for (std::uint32_t index = 0; index < rules.size(); ++index) {
      std::uint32_t node = 0;
      for (const std::string& field : rules[index].from) {
        node = compiled.keys.child(node, field);
        if (node == compiled.rule_at.size()) {
          compiled.rule_at.push_back(no_node);
        }
      }
      compiled.rule_at[node] = index;
    }
  }
}

std::uint32_t Translator::translate(std::size_t record, std::vector<Applied>& applied) const {
  applied.clear();
  std::vector<std::string_view> fields;
  visit_scope_fields(target_[record].full_scope, [&](std::string_view field) {
    fields.push_back(field);
    return true;
  });
  std::uint32_t target_node = 0;
  std::uint32_t golden_node = 0;
  const auto go_golden = [&](std::string_view field) {
    if (golden_node != no_node) {
      golden_node = golden_tree_.find(golden_node, field);
    }
  };
  for (std::size_t position = 0; position < fields.size();) {
    // Of the rules for this class the longest key that the next fields spell wins; no two rules have the same key.
    std::size_t consumed = 1;
    const LayerMapping::Rule* rule = nullptr;
    if (const auto found = classes_.find(target_tree_.type_name(target_node)); found != classes_.end()) {
      const ClassRules& rules = found->second;
      std::uint32_t longest = no_node;
      std::uint32_t key = 0;
      for (std::size_t next = position; next < fields.size() && key != no_node; ++next) {
        key = rules.keys.find(key, fields[next]);
        if (key != no_node && rules.rule_at[key] != no_node) {
          longest = rules.rule_at[key];
          consumed = next - position + 1;
        }
      }
      if (longest != no_node) {
        rule = &(*rules.rules)[longest];
        applied.push_back({rules.name, longest});
      }
    }
    if (rule != nullptr) {
      for (const std::string& field : rule->to) {
        go_golden(field);
      }
    } else {
      go_golden(fields[position]);
    }
    for (; consumed > 0; --consumed, ++position) {
      target_node = target_tree_.find(target_node, fields[position]);
    }
  }
  if (golden_node == no_node) {
    return no_node;
  }
  return golden_tree_.record_at(golden_node, target_[record].state, target_tree_.position_of(record));
}

}  // namespace msvis
