#include "match/suggest.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "graph/names.h"
#include "match/record_scope.h"
#include "match/translation.h"
#include "msvis/error.h"

namespace msvis {
namespace {

constexpr std::size_t max_suggested_rules = 1000;
constexpr int max_rounds = 8;

std::vector<std::uint32_t> breadth_first(const Graph& graph) {
  std::vector<std::uint32_t> nodes;
  if (graph.nodes.empty()) {
    return nodes;
  }
  nodes.push_back(0);
  for (std::size_t next = 0; next < nodes.size(); ++next) {
    for (std::uint32_t child = graph.nodes[nodes[next]].first_child; child != no_node; child = graph.nodes[child].next_sibling) {
      nodes.push_back(child);
    }
  }
  return nodes;
}

/// Nearest ancestor that is no API collection.
std::uint32_t real_parent(const Graph& graph, std::uint32_t node) {
  std::uint32_t parent = graph.nodes[node].parent;
  while (parent != no_node && graph.nodes[parent].type == NodeType::api_collection) {
    parent = graph.nodes[parent].parent;
  }
  return parent;
}

/// Compares the places of equal names in two graphs. Nodes are asked in breadth-first order of the target, so that the answer for the
/// parent is known.
class PlaceComparison {
 public:
  PlaceComparison(const Graph& target, const Graph& golden)
      : target_(target),
        golden_(golden),
        same_ancestors_(target.nodes.size(), false),
        same_without_collections_(target.nodes.size(), false) {}

  /// Records what holds for a target node.
  void visit(std::uint32_t node) {
    const std::uint32_t twin = twin_of(node);
    if (twin == no_node) {
      return;
    }
    const std::uint32_t parent = target_.nodes[node].parent;
    if (node == 0 || parent == no_node) {
      same_ancestors_[node] = same_without_collections_[node] = twin == 0;
      return;
    }
    same_ancestors_[node] = same_ancestors_[parent] && golden_.nodes[twin].parent == twin_of(parent);
    const std::uint32_t real = real_parent(target_, node);
    const std::uint32_t golden_real = real_parent(golden_, twin);
    same_without_collections_[node] =
        real != no_node && golden_real != no_node && same_without_collections_[real] && golden_real == twin_of(real);
  }

  [[nodiscard]] NoPartner reason(std::uint32_t node) const {
    if (twin_of(node) == no_node) {
      return NoPartner::no_such_name;
    }
    if (same_ancestors_[node]) {
      return NoPartner::paired_elsewhere;
    }
    return same_without_collections_[node] ? NoPartner::collection_shifted : NoPartner::other_parent;
  }

 private:
  [[nodiscard]] std::uint32_t twin_of(std::uint32_t node) const {
    const auto found = golden_.by_name.find(target_.nodes[node].name);
    return found == golden_.by_name.end() ? no_node : found->second;
  }

  const Graph& target_;
  const Graph& golden_;
  std::vector<bool> same_ancestors_;
  std::vector<bool> same_without_collections_;
};

/// Parts of the name of a module call, `Module.<path>.<Class>.<direction>.<number>`.
struct ModuleName {
  std::string_view attribute;  ///< last field of the path
  std::string_view class_name;
  std::string_view direction;
};

std::optional<ModuleName> module_name(const Node& node) {
  if (node.type != NodeType::module || !(node.name.starts_with("Module.") || node.name.starts_with("Cell."))) {
    return std::nullopt;
  }
  constexpr std::size_t least_fields = 5;
  const std::vector<std::string_view> fields = split_fields(node.name);
  const std::size_t count = fields.size();
  if (count < least_fields || !all_digits(fields[count - 1]) || (fields[count - 2] != "forward" && fields[count - 2] != "backward")) {
    return std::nullopt;
  }
  return ModuleName{fields[count - 4], fields[count - 3], fields[count - 2]};
}

/// Shape of the first output; empty if it is not known.
std::string first_output_shape(const Graph& graph, std::uint32_t node) {
  for (std::uint32_t index = graph.nodes[node].inputs_begin; index < graph.nodes[node].items_end; ++index) {
    const Item& item = graph.items[index];
    if (item.state != ItemState::output) {
      continue;
    }
    if (!item.shape.is_array()) {
      return {};
    }
    std::string shape = "[";
    for (const JsonValue length : item.shape.elements()) {
      if (!length.is_number()) {
        return {};
      }
      shape.append(length.text()).append(",");
    }
    return shape + "]";
  }
  return {};
}

/// Pairs unmatched modules that stand at the same place.
class CandidateSearch {
 public:
  CandidateSearch(const Graph& target, const Graph& golden)
      : target_(target), golden_(golden), place_(target.nodes.size(), no_node), taken_(golden.nodes.size(), false) {}

  struct Pair {
    std::uint32_t target = no_node;
    std::uint32_t golden = no_node;
    bool same_class = false;
    bool same_shape = false;
  };

  /// `order`: the target breadth-first.
  std::vector<Pair> run(const std::vector<std::uint32_t>& order) {
    for (const std::uint32_t node : order) {
      if (target_.nodes[node].link != no_node) {
        place_[node] = target_.nodes[node].link;
      }
      if (place_[node] != no_node) {
        pair_children(node);
      }
    }
    return std::move(pairs_);
  }

 private:
  struct Module {
    std::uint32_t node = no_node;
    ModuleName name;
    std::string shape;
  };

  /// What has to be equal, from near to far.
  struct Nearness {
    bool class_name = false;
    bool attribute = false;
    bool shape = false;
    bool same_count = false;  ///< only where both sides have equally many left
  };

  [[nodiscard]] std::vector<Module> unmatched_children(const Graph& graph, std::uint32_t parent, bool golden_side) const {
    std::vector<Module> modules;
    for (std::uint32_t child = graph.nodes[parent].first_child; child != no_node; child = graph.nodes[child].next_sibling) {
      const bool free = graph.nodes[child].link == no_node && !(golden_side ? taken_[child] : place_[child] != no_node);
      if (const auto name = free ? module_name(graph.nodes[child]) : std::nullopt) {
        modules.push_back({child, *name, first_output_shape(graph, child)});
      }
    }
    return modules;
  }

  void pair_children(std::uint32_t parent) {
    std::vector<Module> targets = unmatched_children(target_, parent, false);
    if (targets.empty()) {
      return;
    }
    std::vector<Module> goldens = unmatched_children(golden_, place_[parent], true);
    constexpr std::array<Nearness, 6> levels = {{{true, true, true, false},
                                                 {true, false, true, false},
                                                 {false, true, true, false},
                                                 {true, false, false, false},
                                                 {false, true, false, false},
                                                 {false, false, true, true}}};
    for (const Nearness& level : levels) {
      pair_level(targets, goldens, level);
    }
  }

  void pair_level(std::vector<Module>& targets, std::vector<Module>& goldens, const Nearness& level) {
    using Key = std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>;
    const auto key_of = [&](const Module& module) {
      return Key{module.name.direction, level.class_name ? module.name.class_name : std::string_view{},
                 level.attribute ? module.name.attribute : std::string_view{}, level.shape ? module.shape : std::string_view{}};
    };
    std::map<Key, std::pair<std::vector<const Module*>, std::vector<const Module*>>> buckets;
    for (const Module& module : targets) {
      if (!level.shape || !module.shape.empty()) {
        buckets[key_of(module)].first.push_back(&module);
      }
    }
    for (const Module& module : goldens) {
      if (const auto bucket = buckets.find(key_of(module)); bucket != buckets.end()) {
        bucket->second.second.push_back(&module);
      }
    }
    for (const auto& [key, bucket] : buckets) {
      const auto& [left, right] = bucket;
      if (level.same_count && left.size() != right.size()) {
        continue;
      }
      for (std::size_t next = 0; next < std::min(left.size(), right.size()); ++next) {
        place_[left[next]->node] = right[next]->node;
        taken_[right[next]->node] = true;
        pairs_.push_back({left[next]->node, right[next]->node, left[next]->name.class_name == right[next]->name.class_name,
                          !left[next]->shape.empty() && left[next]->shape == right[next]->shape});
      }
    }
    std::erase_if(targets, [&](const Module& module) { return place_[module.node] != no_node; });
    std::erase_if(goldens, [&](const Module& module) { return taken_[module.node]; });
  }

  const Graph& target_;
  const Graph& golden_;
  std::vector<std::uint32_t> place_;  ///< by target node: partner or candidate
  std::vector<bool> taken_;           ///< by golden node: is a candidate
  std::vector<Pair> pairs_;
};

std::vector<std::string_view> scope_fields(std::string_view scope) {
  std::vector<std::string_view> fields;
  visit_scope_fields(scope, [&](std::string_view field) {
    fields.push_back(field);
    return true;
  });
  return fields;
}

std::string join(const std::vector<std::string_view>& fields) {
  std::string path;
  for (const std::string_view field : fields) {
    if (!path.empty()) {
      path += '.';
    }
    path += field;
  }
  return path;
}

std::vector<std::string> as_fields(std::string_view path) {
  const std::vector<std::string_view> fields = split_fields(path);
  return {fields.begin(), fields.end()};
}

/// Whether the mapping reader would give this path back.
bool expressible(std::string_view path) {
  return !path.empty() && path.size() <= LayerMapping::max_path_bytes && count_fields(path) <= LayerMapping::max_path_fields &&
         path.find('(') == std::string_view::npos;
}

/// Derives rules from candidates and checks what they do.
class RuleSearch {
 public:
  RuleSearch(const Graph& target, const Graph& golden, const LayerMapping& mapping, Compat compat)
      : target_(target),
        golden_(golden),
        mapping_(mapping),
        target_records_(record_scopes(target.dump, compat)),
        golden_records_(record_scopes(golden.dump, compat)),
        target_tree_(target_records_),
        golden_tree_(golden_records_),
        target_index_(index_of(target_records_)),
        golden_index_(index_of(golden_records_)) {}

  void run(const std::vector<CandidateSearch::Pair>& pairs, std::size_t list_limit, Suggestions& result) {
    std::unordered_map<std::uint32_t, std::uint32_t> place;
    for (const auto& pair : pairs) {
      place.emplace(pair.target, pair.golden);
    }
    for (const auto& pair : pairs) {
      const std::uint32_t parent = target_.nodes[pair.target].parent;
      const auto found = place.find(parent);
      vote(pair.target, pair.golden, parent, found != place.end() ? found->second : target_.nodes[parent].link);
    }
    choose();
    check();
    promise(list_limit, result);
  }

 private:
  using RuleKey = std::pair<std::string, std::string>;  ///< class, key
  using RecordIndex = std::unordered_map<std::string_view, std::uint32_t>;

  static RecordIndex index_of(const std::vector<RecordScope>& records) {
    RecordIndex index;
    index.reserve(records.size());
    for (std::uint32_t record = 0; record < records.size(); ++record) {
      index.emplace(records[record].name, record);
    }
    return index;
  }

  /// Path of a node; empty for the root.
  static std::optional<std::vector<std::string_view>> path_of(const Graph& graph, std::uint32_t node, const RecordIndex& index,
                                                              const std::vector<RecordScope>& records) {
    if (node == 0) {
      return std::vector<std::string_view>{};
    }
    if (node == no_node) {
      return std::nullopt;
    }
    const auto found = index.find(graph.nodes[node].name);
    return found == index.end() ? std::nullopt : std::optional(scope_fields(records[found->second].full_scope));
  }

  void vote(std::uint32_t target_node, std::uint32_t golden_node, std::uint32_t parent, std::uint32_t golden_parent) {
    const auto path = path_of(target_, target_node, target_index_, target_records_);
    const auto golden_path = path_of(golden_, golden_node, golden_index_, golden_records_);
    if (!path || !golden_path) {
      return;
    }
    auto above = path_of(target_, parent, target_index_, target_records_);
    auto golden_above = path_of(golden_, golden_parent, golden_index_, golden_records_);
    const auto begins = [](const auto& whole, const auto& head) {
      return head && head->size() < whole->size() && std::equal(head->begin(), head->end(), whole->begin());
    };
    if (!begins(path, above) || !begins(golden_path, golden_above)) {
      above.emplace();
      golden_above.emplace();
    }
    std::uint32_t scope_node = 0;
    for (const std::string_view field : *above) {
      scope_node = target_tree_.find(scope_node, field);
    }
    std::vector<std::string_view> from(path->begin() + static_cast<std::ptrdiff_t>(above->size()), path->end());
    std::vector<std::string_view> to(golden_path->begin() + static_cast<std::ptrdiff_t>(golden_above->size()), golden_path->end());
    while (from.size() > 1 && to.size() > 1 && from.back() == to.back()) {
      from.pop_back();
      to.pop_back();
    }
    if (from.empty() || to.empty() || from == to) {
      return;
    }
    std::string key = join(from);
    std::string value = join(to);
    const std::string class_name(target_tree_.type_name(scope_node));
    if (class_name.empty() || class_name == "Cell" || !expressible(key) || !expressible(value)) {
      return;
    }
    ++votes_[{class_name, std::move(key)}][std::move(value)];
  }

  void choose() {
    for (const auto& [key, values] : votes_) {
      const auto best =
          std::max_element(values.begin(), values.end(), [](const auto& left, const auto& right) { return left.second < right.second; });
      rules_[key] = best->first;
    }
    if (rules_.size() > max_suggested_rules) {
      std::vector<std::pair<std::uint64_t, RuleKey>> ranking;
      for (const auto& [key, value] : rules_) {
        ranking.emplace_back(votes_[key][value], key);
      }
      std::stable_sort(ranking.begin(), ranking.end(), [](const auto& left, const auto& right) { return left.first > right.first; });
      for (std::size_t next = max_suggested_rules; next < ranking.size(); ++next) {
        rules_.erase(ranking[next].second);
      }
    }
  }

  [[nodiscard]] std::vector<SuggestedRule> as_list() const {
    std::vector<SuggestedRule> list;
    list.reserve(rules_.size());
    for (const auto& [key, value] : rules_) {
      list.push_back({key.first, key.second, value, 0});
    }
    return list;
  }

  /// Golden records by target record; `rules_used` receives the suggested rules on the way of each.
  void translate(const LayerMapping& mapping, std::vector<std::uint32_t>& partners, std::vector<std::vector<RuleKey>>* rules_used) const {
    const Translator translator(target_records_, target_tree_, golden_tree_, mapping);
    partners.resize(target_records_.size());
    std::vector<Translator::Applied> applied;
    for (std::size_t record = 0; record < target_records_.size(); ++record) {
      partners[record] = translator.translate(record, applied);
      if (rules_used == nullptr) {
        continue;
      }
      (*rules_used)[record].clear();
      for (const auto& [class_name, rule] : applied) {
        std::string key;
        for (const std::string& field : mapping.rules_by_class.find(class_name)->second[rule].from) {
          key.append(key.empty() ? "" : ".").append(field);
        }
        if (RuleKey rule_key{std::string(class_name), std::move(key)}; rules_.contains(rule_key)) {
          (*rules_used)[record].push_back(std::move(rule_key));
        }
      }
    }
  }

  /// Removes the rules that take away a partner which the mapping in use gives, until none does.
  void check() {
    std::vector<std::uint32_t> before;
    translate(mapping_, before, nullptr);
    rules_used_.resize(target_records_.size());
    for (int round = 0;; ++round) {
      if (round == max_rounds) {
        rules_.clear();
      }
      translate(with_rules(mapping_, as_list()), partners_, &rules_used_);
      std::set<RuleKey> harmful;
      for (std::size_t record = 0; record < before.size(); ++record) {
        if (before[record] != no_node && partners_[record] != before[record]) {
          harmful.insert(rules_used_[record].begin(), rules_used_[record].end());
        }
      }
      if (harmful.empty()) {
        return;
      }
      for (const RuleKey& key : harmful) {
        rules_.erase(key);
      }
    }
  }

  void promise(std::size_t list_limit, Suggestions& result) {
    std::map<RuleKey, std::uint64_t> served;
    for (const std::uint32_t node : breadth_first(target_)) {
      const Node& target_node = target_.nodes[node];
      const auto record = target_index_.find(target_node.name);
      if (target_node.link != no_node || record == target_index_.end() || partners_[record->second] == no_node) {
        continue;
      }
      const std::string_view partner = golden_records_[partners_[record->second]].name;
      if (!golden_.by_name.contains(partner)) {
        continue;
      }
      ++result.promised_count;
      if (result.promised.size() < list_limit) {
        result.promised.push_back({std::string(target_node.name), std::string(partner)});
      }
      for (const RuleKey& key : rules_used_[record->second]) {
        ++served[key];
      }
    }
    for (const auto& [key, nodes] : served) {
      result.rules.push_back({key.first, key.second, rules_.at(key), nodes});
    }
  }

  const Graph& target_;
  const Graph& golden_;
  const LayerMapping& mapping_;
  std::vector<RecordScope> target_records_;
  std::vector<RecordScope> golden_records_;
  ScopeTree target_tree_;
  ScopeTree golden_tree_;
  RecordIndex target_index_;
  RecordIndex golden_index_;
  std::map<RuleKey, std::map<std::string, std::uint64_t>> votes_;
  std::map<RuleKey, std::string> rules_;
  std::vector<std::uint32_t> partners_;
  std::vector<std::vector<RuleKey>> rules_used_;
};

template <typename Element>
void append_up_to(std::vector<Element>& into, const std::vector<Element>& other, std::size_t limit) {
  const std::size_t room = into.size() < limit ? limit - into.size() : 0;
  into.insert(into.end(), other.begin(), other.begin() + static_cast<std::ptrdiff_t>(std::min(room, other.size())));
}

/// A double-quoted YAML string.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  constexpr std::string_view digits = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20U || byte == 0x7FU) {
      out += "\\x";
      out += digits[byte >> 4U];
      out += digits[byte & 0xFU];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// A string as YAML: bare if it is a plain path, else in quotes.
std::string yaml_text(std::string_view text) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.";
  // Short words may be truth values or null to one reader or another.
  constexpr std::size_t longest_word = 5;
  const bool word = text.size() <= longest_word && text.find_first_of("._0123456789") == std::string_view::npos;
  constexpr std::array<std::string_view, 9> reserved = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const bool bare = !text.empty() && letters.find(text.front()) != std::string_view::npos &&
                    text.find_first_not_of(plain) == std::string_view::npos &&
                    !(word && std::find(reserved.begin(), reserved.end(), lower) != reserved.end());
  return bare ? std::string(text) : quoted(text);
}

std::string dotted(const std::vector<std::string>& fields) {
  std::string path;
  for (std::size_t next = 0; next < fields.size(); ++next) {
    path.append(next == 0 ? "" : ".").append(fields[next]);
  }
  return path;
}

}  // namespace

std::string_view no_partner_text(NoPartner reason) {
  constexpr std::array<std::string_view, no_partner_reasons> texts = {"no such name", "other parent", "collection shifted",
                                                                      "paired elsewhere"};
  return texts.at(static_cast<std::size_t>(reason));
}

Suggestions suggest(const Graph& target, const Graph& golden, const LayerMapping& mapping, Compat compat, std::size_t list_limit) {
  Suggestions result;
  const std::vector<std::uint32_t> order = breadth_first(target);
  PlaceComparison places(target, golden);
  for (const std::uint32_t node : order) {
    places.visit(node);
    if (target.nodes[node].link != no_node) {
      continue;
    }
    const NoPartner reason = places.reason(node);
    ++result.unmatched_by_reason.at(static_cast<std::size_t>(reason));
    if (result.unmatched.size() < list_limit) {
      result.unmatched.push_back({std::string(target.nodes[node].name), reason});
    }
  }
  const auto pairs = CandidateSearch(target, golden).run(order);
  result.candidate_count = pairs.size();
  for (std::size_t next = 0; next < std::min(pairs.size(), list_limit); ++next) {
    const auto& pair = pairs[next];
    result.candidates.push_back(
        {std::string(target.nodes[pair.target].name), std::string(golden.nodes[pair.golden].name), pair.same_class, pair.same_shape});
  }
  try {
    RuleSearch(target, golden, mapping, compat).run(pairs, list_limit, result);
  } catch (const Error&) {
    // The records have no places; match_mapped reports why.
    result.rules.clear();
    result.promised.clear();
    result.promised_count = 0;
  }
  return result;
}

void merge_suggestions(Suggestions& into, const Suggestions& other, std::size_t list_limit) {
  for (std::size_t reason = 0; reason < no_partner_reasons; ++reason) {
    into.unmatched_by_reason.at(reason) += other.unmatched_by_reason.at(reason);
  }
  into.candidate_count += other.candidate_count;
  into.promised_count += other.promised_count;
  append_up_to(into.unmatched, other.unmatched, list_limit);
  append_up_to(into.candidates, other.candidates, list_limit);
  append_up_to(into.promised, other.promised, list_limit);
  std::map<std::pair<std::string, std::string>, std::map<std::string, std::uint64_t>> votes;
  const auto collect = [&](const std::vector<SuggestedRule>& rules) {
    for (const SuggestedRule& rule : rules) {
      votes[{rule.class_name, rule.from}][rule.to] += rule.nodes;
    }
  };
  collect(into.rules);
  collect(other.rules);
  into.rules.clear();
  for (const auto& [key, values] : votes) {
    const auto best =
        std::max_element(values.begin(), values.end(), [](const auto& left, const auto& right) { return left.second < right.second; });
    into.rules.push_back({key.first, key.second, best->first, best->second});
  }
}

std::vector<UnusedRule> unused_rules(const LayerMapping& mapping, const MappingUsage& usage) {
  std::vector<UnusedRule> unused;
  for (const auto& [class_name, rules] : mapping.rules_by_class) {
    const auto counts = usage.counts_by_class.find(class_name);
    for (std::size_t rule = 0; rule < rules.size(); ++rule) {
      MappingUsage::Count count;
      if (counts != usage.counts_by_class.end() && rule < counts->second.size()) {
        count = counts->second[rule];
      }
      if (count.matched == 0) {
        unused.push_back({class_name, dotted(rules[rule].from), dotted(rules[rule].to), rules[rule].line, count.applied > 0});
      }
    }
  }
  std::stable_sort(unused.begin(), unused.end(), [](const UnusedRule& left, const UnusedRule& right) { return left.line < right.line; });
  return unused;
}

LayerMapping with_rules(const LayerMapping& current, const std::vector<SuggestedRule>& rules) {
  LayerMapping mapping = current;
  for (const SuggestedRule& rule : rules) {
    mapping.set(rule.class_name, {as_fields(rule.from), as_fields(rule.to), 0});
  }
  return mapping;
}

std::string render_mapping(const LayerMapping& current, const std::vector<SuggestedRule>& rules) {
  std::map<std::pair<std::string_view, std::string_view>, std::uint64_t> suggested;
  for (const SuggestedRule& rule : rules) {
    suggested.emplace(std::pair{std::string_view(rule.class_name), std::string_view(rule.from)}, rule.nodes);
  }
  const LayerMapping mapping = with_rules(current, rules);
  std::string text = "# Layer mapping: attribute path of the target model: attribute path of the golden model, by class of the target.\n";
  if (mapping.rules_by_class.empty()) {
    return text + "{}\n";
  }
  for (const auto& [class_name, class_rules] : mapping.rules_by_class) {
    text += yaml_text(class_name) + (class_rules.empty() ? ": {}\n" : ":\n");
    for (const LayerMapping::Rule& rule : class_rules) {
      const std::string key = dotted(rule.from);
      // A long key needs the explicit form.
      constexpr std::size_t longest_simple_key = 900;
      const std::string key_text = yaml_text(key);
      text += key_text.size() > longest_simple_key ? "  ? " + key_text + "\n  : " : "  " + key_text + ": ";
      text += yaml_text(dotted(rule.to));
      if (const auto found = suggested.find({class_name, key}); found != suggested.end()) {
        text += "  # suggested: " + std::to_string(found->second) + (found->second == 1 ? " node" : " nodes");
      }
      text += '\n';
    }
  }
  return text;
}

std::string pack(const Suggestions& suggestions) {
  ByteWriter out;
  for (const std::uint64_t count : suggestions.unmatched_by_reason) {
    out.put(count);
  }
  out.put_all(suggestions.unmatched, [](ByteWriter& to, const UnmatchedNode& node) {
    to.put(node.name);
    to.put(node.reason);
  });
  out.put(suggestions.candidate_count);
  out.put_all(suggestions.candidates, [](ByteWriter& to, const Candidate& candidate) {
    to.put(candidate.target);
    to.put(candidate.golden);
    to.put(candidate.same_class);
    to.put(candidate.same_shape);
  });
  out.put_all(suggestions.rules, [](ByteWriter& to, const SuggestedRule& rule) {
    to.put(rule.class_name);
    to.put(rule.from);
    to.put(rule.to);
    to.put(rule.nodes);
  });
  out.put(suggestions.promised_count);
  out.put_all(suggestions.promised, [](ByteWriter& to, const PromisedPair& pair) {
    to.put(pair.target);
    to.put(pair.golden);
  });
  return out.take();
}

Suggestions unpack_suggestions(std::string_view bytes) {
  ByteReader in(bytes);
  Suggestions suggestions;
  for (std::uint64_t& count : suggestions.unmatched_by_reason) {
    count = in.get<std::uint64_t>();
  }
  suggestions.unmatched = in.get_all([](ByteReader& from) {
    UnmatchedNode node;
    node.name = from.get_string();
    node.reason = from.get<NoPartner>();
    return node;
  });
  suggestions.candidate_count = in.get<std::uint64_t>();
  suggestions.candidates = in.get_all([](ByteReader& from) {
    Candidate candidate;
    candidate.target = from.get_string();
    candidate.golden = from.get_string();
    candidate.same_class = from.get<bool>();
    candidate.same_shape = from.get<bool>();
    return candidate;
  });
  suggestions.rules = in.get_all([](ByteReader& from) {
    SuggestedRule rule;
    rule.class_name = from.get_string();
    rule.from = from.get_string();
    rule.to = from.get_string();
    rule.nodes = from.get<std::uint64_t>();
    return rule;
  });
  suggestions.promised_count = in.get<std::uint64_t>();
  suggestions.promised = in.get_all([](ByteReader& from) {
    PromisedPair pair;
    pair.target = from.get_string();
    pair.golden = from.get_string();
    return pair;
  });
  return suggestions;
}

std::string pack(const MappingUsage& usage) {
  ByteWriter out;
  out.put_all(usage.counts_by_class, [](ByteWriter& to, const auto& entry) {
    to.put(entry.first);
    to.put_all(entry.second, [](ByteWriter& each, const MappingUsage::Count& count) {
      each.put(count.applied);
      each.put(count.matched);
    });
  });
  return out.take();
}

MappingUsage unpack_mapping_usage(std::string_view bytes) {
  ByteReader in(bytes);
  MappingUsage usage;
  const auto entries = in.get_all([](ByteReader& from) {
    std::pair<std::string, std::vector<MappingUsage::Count>> entry;
    entry.first = from.get_string();
    entry.second = from.get_all([](ByteReader& each) {
      MappingUsage::Count count;
      count.applied = each.get<std::uint64_t>();
      count.matched = each.get<std::uint64_t>();
      return count;
    });
    return entry;
  });
  usage.counts_by_class.insert(entries.begin(), entries.end());
  return usage;
}

}  // namespace msvis
