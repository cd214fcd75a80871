#include "merge/fold.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dump/python_text.h"
#include "graph/names.h"
#include "merge/entries.h"
#include "merge/experts.h"
#include "merge/names.h"
#include "merge/parts.h"
#include "merge/resolve.h"

namespace msvis {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr std::array<std::string_view, 4> statistic_names{"Max", "Min", "Mean", "Norm"};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// `[4, 1, 8]`; nothing for anything else.
std::optional<Shape> parse_shape(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return std::nullopt;
  }
  Shape shape;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    std::uint64_t size = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), size);
    if (result.ec != std::errc()) {
      return std::nullopt;
    }
    shape.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
    if (text.starts_with(", ")) {
      text.remove_prefix(2);
    } else if (!text.empty()) {
      return std::nullopt;
    }
  }
  return shape;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t k = 0; k < shape.size(); ++k) {
    text += (k == 0 ? "" : ", ") + std::to_string(shape[k]);
  }
  return text + "]";
}

std::string number_text(double value) {
  std::string text;
  append_float(text, value);
  return text;
}

bool is_reduction(std::string_view name) {
  return name.starts_with("Distributed") && (contains(name, "all_reduce") || contains(name, "reduce_scatter"));
}

class Fold {
 public:
  Fold(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, ParallelAxis axis, MergeTally& tally)
      : forest_(forest), main_(main), axis_(axis), tally_(tally) {
    ranks_.push_back(main);
    ranks_.insert(ranks_.end(), others.begin(), others.end());
    for (const std::uint32_t rank : ranks_) {
      numbers_.push_back(forest.ranks[rank].rank);
    }
    group_text_ = rank_list(numbers_);
  }

  void run() {
    survey();
    for (const std::uint32_t index : nodes_) {
      // Of ranks that share experts the rest of the model works on other data.
      if (axis_ != ParallelAxis::expert || (node(index).type == NodeType::module && holds_experts(forest_.name(index)))) {
        fold_node(index);
      }
    }
    for (std::size_t k = 1; axis_ != ParallelAxis::expert && k < ranks_.size(); ++k) {
      keep_extra_nodes(k);
    }
  }

 private:
  [[nodiscard]] TreeNode& node(std::uint32_t index) { return forest_.nodes[index]; }
  [[nodiscard]] std::string_view text(Text id) const { return forest_.texts[id]; }

  /// What has to be known of the whole graph.
  void survey() {
    nodes_ = below(forest_.ranks[main_].root);
    std::uint64_t embedding_batch = 0;
    std::uint64_t layer_batch = 0;
    for (const std::uint32_t index : nodes_) {
      const std::string_view name = forest_.name(index);
      const std::uint32_t parent = node(index).parent;
      const std::uint32_t module = node(index).type == NodeType::module ? index : module_of(parent);
      modules_[index] = module;
      if (node(index).type != NodeType::module) {
        if (module != no_node && scatters_sequence(forest_.name(module), name)) {
          sequence_parallel_ = true;
        }
        if (names_gated_activation(name)) {
          for (std::uint32_t at = module; at != no_node && at != forest_.ranks[main_].root; at = node(at).parent) {
            if (contains(module_class(forest_.name(at)), "MLP")) {
              gated_paths_.insert(std::string(drop_fields(forest_.name(at), 3)));
            }
          }
        }
        if (is_reduction(name)) {
          reductions_[parent].push_back(index);
        }
        continue;
      }
      const std::string_view class_name = module_class(name);
      if (const auto* input = first(index, false), *output = first(index, true); input != nullptr && output != nullptr) {
        sequence_parallel_ = sequence_parallel_ || gathers_sequence(name, shard_record(forest_.texts, *input).shape,
                                                                    shard_record(forest_.texts, *output).shape, ranks_.size());
      }
      for (const TreeEntry& entry : node(index).inputs) {
        const auto shape = shard_record(forest_.texts, entry).shape;
        if (text(entry.key) == "parameters.weight" && shape) {
          weights_.emplace(std::string(drop_fields(name, 3)), *shape);
        }
        if (embedding_batch == 0 && contains(class_name, "Embedding") && shape && shape->size() == 2 &&
            contains(text(entry.dtype), "int")) {
          embedding_batch = shape->front();
        }
        if (layer_batch == 0 && contains(class_name, "TransformerLayer") && shape && shape->size() == 3) {
          layer_batch = (*shape)[1];
        }
      }
    }
    // Of a dump without APIs the shapes tell that the MLP is gated.
    constexpr std::string_view fc1 = ".linear_fc1";
    for (const auto& [path, weight] : weights_) {
      if (path.ends_with(fc1) && weight.size() == 2) {
        const std::string mlp = path.substr(0, path.size() - fc1.size());
        const auto fc2 = weights_.find(mlp + ".linear_fc2");
        if (fc2 != weights_.end() && fc2->second.size() == 2 && weight[0] / 2 == fc2->second[1] && weight[0] % 2 == 0) {
          gated_paths_.insert(mlp);
        }
      }
    }
    batch_ = embedding_batch != 0 ? embedding_batch : layer_batch != 0 ? layer_batch : 1;
  }

  /// The first input or output of a node; null if there is none.
  const TreeEntry* first(std::uint32_t index, bool outputs) {
    const std::vector<TreeEntry>& entries = list(index, outputs);
    return entries.empty() ? nullptr : &entries.front();
  }

  [[nodiscard]] std::uint32_t module_of(std::uint32_t index) const {
    const auto known = modules_.find(index);
    return known == modules_.end() ? no_node : known->second;
  }

  /// All nodes below, parents first, but for API collections and what they hold.
  std::vector<std::uint32_t> below(std::uint32_t top) {
    std::vector<std::uint32_t> found;
    std::vector<std::uint32_t> waiting(node(top).children.rbegin(), node(top).children.rend());
    while (!waiting.empty()) {
      const std::uint32_t at = waiting.back();
      waiting.pop_back();
      if (node(at).type == NodeType::api_collection) {
        continue;
      }
      found.push_back(at);
      waiting.insert(waiting.end(), node(at).children.rbegin(), node(at).children.rend());
    }
    return found;
  }

  void fold_node(std::uint32_t index) {
    std::vector<std::uint32_t> partners{index};
    std::vector<std::int64_t> missing;
    for (std::size_t k = 1; k < ranks_.size(); ++k) {
      const std::uint32_t partner = forest_.find(ranks_[k], node(index).name);
      partners.push_back(partner);
      if (partner == no_node) {
        missing.push_back(numbers_[k]);
      } else {
        paired_.insert(partner);
        node(index).overflow = std::max(node(index).overflow, node(partner).overflow);
      }
    }
    lines_.clear();
    result_shape_ = node(index).outputs.empty() ? std::nullopt : shard_record(forest_.texts, node(index).outputs.front()).shape;
    if (!missing.empty()) {
      lines_.push_back("The ranks " + rank_list(missing) + " have no such node; the data are those of the others or of rank " +
                       std::to_string(numbers_.front()));
      tally_.find("missing nodes",
                  std::string(forest_.name(index)) + " is missing on the ranks " + rank_list(missing) + " of " + group_text_);
    } else {
      for (const bool outputs : {false, true}) {
        fold_entries(index, partners, outputs);
      }
    }
    if (!lines_.empty()) {
      auto& info = node(index).info;
      info.push_back(std::string("The data of this node are merged over the ") + axis_text() + "-parallel ranks " + group_text_);
      info.insert(info.end(), lines_.begin(), lines_.end());
    }
  }

  [[nodiscard]] const char* axis_text() const {
    return axis_ == ParallelAxis::tensor ? "tensor" : axis_ == ParallelAxis::context ? "context" : "expert";
  }

  std::vector<TreeEntry>& list(std::uint32_t index, bool outputs) { return outputs ? node(index).outputs : node(index).inputs; }

  static TreeEntry* find_entry(std::vector<TreeEntry>& entries, const TreeEntry& like, std::size_t near) {
    const auto same = [&](const TreeEntry& entry) { return entry.key == like.key && entry.whole_key == like.whole_key; };
    if (near < entries.size() && same(entries[near])) {
      return &entries[near];
    }
    const auto found = std::find_if(entries.begin(), entries.end(), same);
    return found == entries.end() ? nullptr : &*found;
  }

  void fold_entries(std::uint32_t index, const std::vector<std::uint32_t>& partners, bool outputs) {
    for (std::size_t place = 0; place < list(index, outputs).size(); ++place) {
      TreeEntry& main = list(index, outputs)[place];
      if (!is_tensor(forest_.texts, main)) {
        continue;
      }
      std::vector<TreeEntry*> entries{&main};
      for (std::size_t k = 1; k < partners.size(); ++k) {
        TreeEntry* entry = find_entry(list(partners[k], outputs), main, place);
        if (entry == nullptr || !is_tensor(forest_.texts, *entry)) {
          break;
        }
        entries.push_back(entry);
      }
      if (entries.size() != partners.size()) {
        ++tally_.entries["not on all ranks"];
        continue;
      }
      fold_entry(index, entries, outputs);
    }
  }

  void fold_entry(std::uint32_t index, const std::vector<TreeEntry*>& entries, bool outputs) {
    std::vector<ShardRecord> records;
    records.reserve(entries.size());
    for (const TreeEntry* entry : entries) {
      records.push_back(shard_record(forest_.texts, *entry));
    }
    EntryPlace place;
    const std::uint32_t module = modules_.at(index);
    place.node = forest_.name(index);
    place.module = module == no_node ? std::string_view() : forest_.name(module);
    place.argument = text(entries.front()->key);
    place.state = entries.front()->state;
    place.axis = axis_;
    place.sequence_parallel = sequence_parallel_;
    place.batch = batch_;
    place.result_shape = result_shape_;
    if (module != no_node) {
      const std::string path(drop_fields(forest_.name(module), forest_.name(module).ends_with("parameters_grad") ? 2 : 3));
      place.gated = std::any_of(gated_paths_.begin(), gated_paths_.end(), [&](const std::string& gated) {
        return path.starts_with(gated) && (path.size() == gated.size() || path[gated.size()] == '.');
      });
      if (const auto weight = weights_.find(path); weight != weights_.end()) {
        place.weight_shape = weight->second;
      }
    }
    std::uint32_t reduction_node = no_node;
    const auto reduction = outputs || is_reduction(place.node) ? find_reduction(index, *entries.front(), outputs, reduction_node) : nullptr;
    place.reduction = reduction.get();
    const Classification found = classify(place, records);
    ++tally_.entries[std::string(shard_kind_text(found.kind))];
    if (found.requires_grad_differs) {
      tally_.find("requires_grad differs",
                  entry_name(index, *entries.front()) + " has not the same requires_grad on the ranks " + group_text_);
    }
    keep_open(index, entries, records, found);
    keep_parts(*entries.front(), entries, found, reduction_node);
    if (found.kind != ShardKind::replicated) {
      apply(index, entries, records, found, reduction_node);
    }
  }

  std::string entry_name(std::uint32_t index, const TreeEntry& entry) {
    return std::string(forest_.name(index)) + "." + std::string(text(entry.key));
  }

  /// The reduction beside a node that takes what the node gives (for an input: the node itself), over exactly this group.
  std::unique_ptr<Reduction> find_reduction(std::uint32_t index, const TreeEntry& given, bool gives, std::uint32_t& reduction_node) {
    const auto siblings = reductions_.find(node(index).parent);
    if (siblings == reductions_.end()) {
      return nullptr;
    }
    for (const std::uint32_t candidate : siblings->second) {
      const bool scatters = contains(forest_.name(candidate), "reduce_scatter");
      // The first argument of a reduce-scatter is the buffer of the result.
      const std::size_t operand = scatters ? 1 : 0;
      if ((candidate == index) == gives || node(candidate).inputs.size() <= operand || !over_group(candidate) ||
          !same_statistics(node(candidate).inputs[operand], given)) {
        continue;
      }
      auto reduction = std::make_unique<Reduction>();
      reduction->scatters = scatters;
      for (std::size_t k = 0; k < ranks_.size(); ++k) {
        const std::uint32_t partner = k == 0 ? candidate : forest_.find(ranks_[k], node(candidate).name);
        if (partner == no_node || node(partner).inputs.size() <= operand) {
          reduction.reset();
          break;
        }
        reduction->operands.push_back(shard_record(forest_.texts, original(partner, false, operand)));
        if (!node(partner).outputs.empty()) {
          reduction->outputs.push_back(shard_record(forest_.texts, original(partner, true, 0)));
        }
      }
      if (reduction != nullptr) {
        if (reduction->outputs.size() != ranks_.size()) {
          reduction->outputs.clear();
        }
        reduction_node = candidate;
        return reduction;
      }
    }
    return nullptr;
  }

  /// An entry as its rank recorded it, even after it was folded.
  const TreeEntry& original(std::uint32_t index, bool outputs, std::size_t place) {
    const auto kept = originals_.find(&list(index, outputs)[place]);
    return kept == originals_.end() ? list(index, outputs)[place] : kept->second;
  }

  static bool same_statistics(const TreeEntry& left, const TreeEntry& right) {
    for (std::size_t statistic = 0; statistic < left.bits.size(); ++statistic) {
      const Number a = left.stat(statistic);
      const Number b = right.stat(statistic);
      if (a.is_number() != b.is_number() ||
          (a.is_number() && a.value() != b.value() && !(std::isnan(a.value()) && std::isnan(b.value())))) {
        return false;
      }
    }
    return true;
  }

  bool over_group(std::uint32_t reduction) {
    for (const TreeEntry& entry : node(reduction).inputs) {
      if (text(entry.dtype) == "torch.ProcessGroup") {
        return text(entry.md5) == group_text_;
      }
    }
    return true;  // the dump does not tell the group
  }

  std::string diverged_finding(std::uint32_t index, const TreeEntry& main, const Classification& found) {
    return entry_name(index, main) + " should be equal on the ranks " + group_text_ + ", but on rank " +
           std::to_string(numbers_[found.diverged_rank]) + " a statistic is off by " + number_text(found.divergence);
  }

  void apply(std::uint32_t index, const std::vector<TreeEntry*>& entries, const std::vector<ShardRecord>& records,
             const Classification& found, std::uint32_t reduction_node) {
    TreeEntry& main = *entries.front();
    if (is_reduction(forest_.name(index))) {
      originals_.emplace(&main, main);
    }
    const std::string key(text(main.key));
    std::string line = key + ": " + std::string(shard_kind_text(found.kind));
    if (found.kind == ShardKind::split && found.dimension) {
      line += " along dimension " + std::to_string(*found.dimension);
    } else if (found.kind == ShardKind::split) {
      line += " along an unknown dimension";
    }
    if (found.from_reduction && reduction_node != no_node) {
      line += "; the whole is the output of " + std::string(forest_.name(reduction_node));
    } else if (!found.complete) {
      line += "; the whole can't be told from the statistics of the ranks";
    }
    if (found.kind == ShardKind::diverged) {
      line += ": on rank " + std::to_string(numbers_[found.diverged_rank]) + " a statistic is off by " + number_text(found.divergence) +
              "; shown is rank " + std::to_string(numbers_.front());
      tally_.find("diverged replicas", diverged_finding(index, main, found));
    }
    const std::optional<Shape>& shape = found.merged.shape;
    if (shape && (!records.front().shape || *shape != *records.front().shape)) {
      main.merged_shape = forest_.texts.id(shape_text(*shape));
      line += "; shape " + shape_text(*shape);
    } else if (!shape && records.front().shape && found.kind == ShardKind::split) {
      main.merged_shape = forest_.texts.id("null");
      line += "; shape unknown";
    }
    lines_.push_back(line);
    for (std::size_t statistic = 0; statistic < statistic_names.size(); ++statistic) {
      if (found.kind == ShardKind::split && found.merged.stats[statistic]) {
        add_formula(statistic, key, records, *found.merged.stats[statistic]);
      }
      if (const auto& same = found.merged.same_as[statistic]) {
        if (*same != 0) {
          main.change_stat(statistic, entries[*same]->stat(statistic));
        }
      } else if (const auto& value = found.merged.stats[statistic]) {
        if (!records.front().stats[statistic] || *records.front().stats[statistic] != *value) {
          main.change_stat(statistic, Number::of(*value));
        }
      } else if (records.front().stats[statistic]) {
        main.change_stat(statistic, Number::unknown());
      }
    }
    if (main.md5 != 0 && !found.merged.md5) {
      main.md5_lost = true;
    }
  }

  void add_formula(std::size_t statistic, const std::string& key, const std::vector<ShardRecord>& records, double result) {
    std::vector<std::uint64_t> counts;
    bool weighted = false;
    for (const ShardRecord& record : records) {
      std::uint64_t count = 1;
      for (const std::uint64_t size : record.shape.value_or(Shape{})) {
        count *= size;
      }
      counts.push_back(count);
      weighted = weighted || count != counts.front();
    }
    std::string line = std::string(statistic_names[statistic]) + " of " + key + ": ";
    constexpr std::array<std::string_view, 4> before{"max(", "min(", "(", "("};
    constexpr std::array<std::string_view, 4> between{", ", ", ", " + ", "^2 + "};
    line += before[statistic];
    std::uint64_t total = 0;
    for (std::size_t k = 0; k < records.size(); ++k) {
      line += k == 0 ? "" : between[statistic];
      line += statistic == stat_mean && weighted ? std::to_string(counts[k]) + " * " : "";
      line += records[k].stats[statistic] ? number_text(*records[k].stats[statistic]) : "unknown";
      total += counts[k];
    }
    line += statistic == stat_mean ? ") / " + std::to_string(weighted ? total : records.size()) : statistic == stat_norm ? "^2)^0.5" : ")";
    lines_.push_back(line + " = " + number_text(result));
  }

  /// Keeps what the shape of the other side can decide later.
  void keep_open(std::uint32_t index, const std::vector<TreeEntry*>& entries, const std::vector<ShardRecord>& records,
                 const Classification& found) {
    TreeEntry& main = *entries.front();
    const bool open = (found.kind == ShardKind::split && !found.dimension) || found.kind == ShardKind::diverged;
    if (axis_ != ParallelAxis::tensor || !open) {
      if (found.kind != ShardKind::replicated) {
        main.unresolved = nullptr;
      }
      return;
    }
    auto kept = std::make_shared<UnresolvedEntry>();
    kept->records = records;
    if (found.kind == ShardKind::diverged) {
      kept->finding = diverged_finding(index, main, found);
    }
    for (ShardRecord& record : kept->records) {
      record.dtype = {};
      record.md5 = {};
    }
    if (main.data_name != 0) {
      for (std::size_t k = 0; k < entries.size(); ++k) {
        kept->parts.push_back(parts_of(*entries[k], ranks_[k]));
      }
    }
    main.unresolved = std::move(kept);
  }

  /// Where the elements of the entry are, for dumps with tensor files.
  void keep_parts(TreeEntry& main, const std::vector<TreeEntry*>& entries, const Classification& found, std::uint32_t reduction_node) {
    if (main.data_name == 0 && main.parts == nullptr) {
      return;
    }
    if (axis_ == ParallelAxis::expert) {
      auto none = std::make_shared<TensorParts>();
      none->kind = TensorParts::Kind::none;
      none->reason = "the tokens and weights of experts on several ranks are compared by their statistics only";
      main.parts = std::move(none);
      return;
    }
    std::vector<TensorParts> parts;
    for (std::size_t k = 0; k < entries.size(); ++k) {
      parts.push_back(parts_of(*entries[k], ranks_[k]));
    }
    std::vector<TensorParts> reduced;
    if (found.from_reduction && reduction_node != no_node) {
      for (std::size_t k = 0; k < ranks_.size(); ++k) {
        const std::uint32_t partner = k == 0 ? reduction_node : forest_.find(ranks_[k], node(reduction_node).name);
        if (partner == no_node || node(partner).outputs.empty()) {
          reduced.clear();
          break;
        }
        reduced.push_back(parts_of(original(partner, true, 0), ranks_[k]));
      }
    }
    const bool scatters = reduction_node != no_node && contains(forest_.name(reduction_node), "reduce_scatter");
    main.parts = std::make_shared<TensorParts>(whole_of(found, std::move(parts), std::move(reduced), scatters));
  }

  TensorParts parts_of(const TreeEntry& entry, std::uint32_t rank) {
    if (entry.parts != nullptr) {
      return *entry.parts;
    }
    TensorParts file;
    // A node that was taken over from another rank has its files there.
    const std::uint32_t source = entry.source_node < forest_.nodes.size() ? node(entry.source_node).rank : rank;
    file.directory = forest_.ranks[source].directory;
    file.data_name = text(entry.data_name);
    file.dtype = text(entry.dtype);
    if (entry.data_name == 0) {
      file.kind = TensorParts::Kind::none;
      file.reason = "rank " + std::to_string(forest_.ranks[rank].rank) + " has no file of this tensor";
    }
    return file;
  }

  void keep_extra_nodes(std::size_t k) {
    const std::uint32_t rank = ranks_[k];
    std::vector<std::pair<std::uint32_t, std::uint32_t>> waiting{{forest_.ranks[rank].root, forest_.ranks[main_].root}};
    while (!waiting.empty()) {
      const auto [other_parent, main_parent] = waiting.back();
      waiting.pop_back();
      const std::vector<std::uint32_t> children = node(other_parent).children;
      for (const std::uint32_t child : children) {
        if (node(child).type == NodeType::api_collection) {
          continue;
        }
        if (paired_.contains(child)) {
          waiting.emplace_back(child, forest_.find(main_, node(child).name));
          continue;
        }
        tally_.find("missing nodes",
                    std::string(forest_.name(child)) + " is only on rank " + std::to_string(numbers_[k]) + " of " + group_text_);
        adopt(child, main_parent, numbers_[k]);
      }
    }
  }

  /// Copies a subtree of another rank below a node of the main one.
  void adopt(std::uint32_t top, std::uint32_t parent, std::int64_t rank) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> waiting{{top, parent}};
    while (!waiting.empty()) {
      const auto [from, to] = waiting.back();
      waiting.pop_back();
      const std::uint32_t copy = forest_.add(main_, with_rank(forest_.name(from), rank), node(from).type);
      copy_node(forest_, from, copy);
      forest_.append_child(to, copy);
      node(copy).info.push_back("Only rank " + std::to_string(rank) + " has this node");
      const std::vector<std::uint32_t> children = node(from).children;
      for (std::size_t left = children.size(); left > 0; --left) {
        waiting.emplace_back(children[left - 1], copy);
      }
    }
  }

  Forest& forest_;
  std::uint32_t main_;
  ParallelAxis axis_;
  MergeTally& tally_;
  std::vector<std::uint32_t> ranks_;   ///< the main one first
  std::vector<std::int64_t> numbers_;  ///< theirs
  std::string group_text_;

  std::vector<std::uint32_t> nodes_;
  std::unordered_map<std::uint32_t, std::uint32_t> modules_;                  ///< nearest module at or above a node
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> reductions_;  ///< by parent
  std::unordered_map<std::string, Shape> weights_;                            ///< by path of the module
  std::set<std::string> gated_paths_;
  std::unordered_map<const TreeEntry*, TreeEntry> originals_;
  bool sequence_parallel_ = false;
  std::uint64_t batch_ = 1;
  std::optional<Shape> result_shape_;  ///< of the node at work
  std::unordered_set<std::uint32_t> paired_;
  std::vector<std::string> lines_;
};

}  // namespace

ShardRecord shard_record(const TextStore& texts, const TreeEntry& entry) {
  ShardRecord record;
  for (std::size_t statistic = 0; statistic < record.stats.size(); ++statistic) {
    const Number number = entry.stat(statistic);
    if (number.is_number()) {
      record.stats[statistic] = number.value();
    } else if (number.kind == Number::Kind::truth) {
      record.stats[statistic] = static_cast<double>(number.integer);
    }
  }
  record.shape = parse_shape(texts[entry.merged_shape != 0 ? entry.merged_shape : entry.shape]);
  record.dtype = texts[entry.dtype];
  const std::string_view gradient = texts[entry.requires_grad];
  if (gradient == "True" || gradient == "False") {
    record.requires_grad = gradient == "True";
  }
  record.md5 = entry.md5_lost ? std::string_view() : texts[entry.md5];
  return record;
}

bool is_tensor(const TextStore& texts, const TreeEntry& entry) {
  const std::string_view dtype = texts[entry.dtype];
  if (dtype.empty() || dtype.starts_with("<class") || entry.shape == 0) {
    return false;
  }
  constexpr std::array<std::string_view, 5> others{"torch.ProcessGroup", "torch.Size", "slice", "ellipsis", "torch.device"};
  return std::find(others.begin(), others.end(), dtype) == others.end() && dtype != "int" && dtype != "str";
}

void fold_ranks(Forest& forest, std::uint32_t main, std::span<const std::uint32_t> others, ParallelAxis axis, MergeTally& tally) {
  if (!others.empty()) {
    Fold(forest, main, others, axis, tally).run();
  }
}

}  // namespace msvis
