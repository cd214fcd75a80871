#include "merge/stage.h"

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "merge/resolve.h"
#include "msvis/error.h"

namespace msvis {
namespace {

constexpr int deepest_parts = 16;

[[noreturn]] void fail() {
  throw Error(ErrorCategory::internal, "a message between processes is not what was sent");
}

class Packer {
 public:
  explicit Packer(const Forest& forest) : forest_(forest) {}

  std::string pack(const FoldedStage& stage) {
    ByteWriter nodes;
    nodes.put_all(forest_.nodes, [this](ByteWriter& out, const TreeNode& node) { put_node(out, node); });
    nodes.put_all(forest_.ranks, [this](ByteWriter& out, const TreeRank& rank) { put_rank(out, rank); });
    nodes.put(stage.main);
    nodes.put_all(stage.saved, [this](ByteWriter& out, const auto& of_name) {
      out.put(of_name.first);
      out.put_all(of_name.second, [this](ByteWriter& to, const SavedCollection& saved) {
        to.put(saved.rank);
        put_node(to, saved.collection);
        to.put_all(saved.apis, [this](ByteWriter& api, const TreeNode& node) { put_node(api, node); });
      });
    });
    for (const auto* counts : {&stage.tally.entries, &stage.tally.finding_counts}) {
      nodes.put_all(*counts, [](ByteWriter& out, const auto& entry) {
        out.put(entry.first);
        out.put(entry.second);
      });
    }
    nodes.put_all(stage.tally.findings);
    ByteWriter out;  // the texts that were met go in front
    out.put_all(texts_, [this](ByteWriter& to, Text text) { to.put(forest_.texts[text]); });
    return out.take() + nodes.take();
  }

 private:
  std::uint32_t number(Text text) {
    const auto [known, is_new] = numbers_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
    if (is_new) {
      texts_.push_back(text);
    }
    return known->second;
  }

  void put_parts(ByteWriter& out, const TensorParts& parts) {
    out.put(parts.kind);
    out.put(parts.directory.native());
    out.put(parts.data_name);
    out.put(parts.dtype);
    out.put(parts.dimension);
    out.put_all(parts.runs, [](ByteWriter& to, const TensorParts::Run& run) {
      to.put(run.part);
      to.put(run.offset);
      to.put(run.length);
    });
    out.put_all(parts.parts, [this](ByteWriter& to, const TensorParts& part) { put_parts(to, part); });
    out.put(parts.padded);
    out.put(parts.reason);
    out.put_all(parts.replicas, [this](ByteWriter& to, const TensorParts& part) { put_parts(to, part); });
    out.put(parts.diverged);
  }

  void put_unresolved(ByteWriter& out, const UnresolvedEntry& entry) {
    out.put_all(entry.records, [](ByteWriter& to, const ShardRecord& record) {
      for (const auto& value : record.stats) {
        to.put(value.has_value());
        to.put(value.value_or(0));
      }
      to.put(record.shape.has_value());
      to.put_all(record.shape.value_or(std::vector<std::uint64_t>{}));
      to.put(record.requires_grad.has_value());
      to.put(record.requires_grad.value_or(false));
    });
    out.put_all(entry.parts, [this](ByteWriter& to, const TensorParts& part) { put_parts(to, part); });
    out.put(entry.finding);
  }

  void put_entry(ByteWriter& out, const TreeEntry& entry) {
    for (const Text text : {entry.key, entry.dtype, entry.shape, entry.data_name, entry.md5, entry.requires_grad, entry.merged_shape}) {
      out.put(number(text));
    }
    out.put(entry.source_node);
    out.put(entry.source_item);
    for (std::size_t k = 0; k < entry.bits.size(); ++k) {
      out.put(entry.kinds[k]);
      out.put(entry.bits[k]);
    }
    out.put(entry.state);
    out.put(entry.source_output);
    out.put(entry.whole_key);
    out.put(entry.changed);
    out.put(entry.md5_lost);
    out.put(entry.unresolved != nullptr);
    if (entry.unresolved != nullptr) {
      put_unresolved(out, *entry.unresolved);
    }
    out.put(entry.parts != nullptr);
    if (entry.parts != nullptr) {
      put_parts(out, *entry.parts);
    }
  }

  void put_node(ByteWriter& out, const TreeNode& node) {
    out.put(number(node.name));
    out.put(number(node.source_name));
    out.put(node.rank);
    out.put(node.parent);
    out.put_all(node.children);
    out.put_all(node.inputs, [this](ByteWriter& to, const TreeEntry& entry) { put_entry(to, entry); });
    out.put_all(node.outputs, [this](ByteWriter& to, const TreeEntry& entry) { put_entry(to, entry); });
    out.put(node.micro_step);
    out.put(node.payload);
    out.put(number(node.stack));
    out.put(node.type);
    out.put(node.overflow);
    out.put_all(node.info);
  }

  void put_rank(ByteWriter& out, const TreeRank& rank) {
    out.put(rank.rank);
    out.put(rank.root);
    out.put_all(rank.created);
    out.put_all(rank.by_name, [this](ByteWriter& to, const auto& entry) {
      to.put(number(entry.first));
      to.put(entry.second);
    });
    out.put_all(rank.own_names, [this](ByteWriter& to, Text name) { to.put(number(name)); });
    out.put(rank.coordinates);
    out.put(rank.payload);
    out.put(rank.directory.native());
    out.put(rank.task);
    out.put(rank.level);
    out.put(rank.framework);
    out.put(rank.dump_data_dir.has_value());
    out.put(rank.dump_data_dir.value_or(""));
    out.put(rank.megatron_micro_steps.has_value());
    out.put(rank.megatron_micro_steps.value_or(0));
    out.put(rank.detected);
    out.put(rank.has_data);
    out.put(rank.has_md5);
    out.put(rank.micro_steps);
    out.put_all(rank.warnings);
    out.put(rank.lost_nodes);
    out.put(rank.removed_levels);
    out.put(rank.hint.reduce_group.has_value());
    out.put_all(rank.hint.reduce_group.value_or(std::vector<std::int64_t>{}));
    out.put(rank.hint.successor.has_value());
    out.put(rank.hint.successor.value_or(0));
  }

  const Forest& forest_;
  std::unordered_map<Text, std::uint32_t> numbers_;
  std::vector<Text> texts_;
};

class Unpacker {
 public:
  Unpacker(Forest& forest, std::string_view bytes)
      : forest_(forest),
        in_(bytes),
        first_node_(static_cast<std::uint32_t>(forest.nodes.size())),
        first_rank_(static_cast<std::uint32_t>(forest.ranks.size())) {}

  AddedStage unpack() {
    texts_ = in_.get_all([this](ByteReader& in) { return forest_.texts.id(in.get_view()); });
    std::vector<TreeNode> nodes = in_.get_all([this](ByteReader& in) { return get_node(in); });
    std::vector<TreeRank> ranks = in_.get_all([this](ByteReader& in) { return get_rank(in); });
    forest_.nodes.insert(forest_.nodes.end(), std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
    forest_.ranks.insert(forest_.ranks.end(), std::make_move_iterator(ranks.begin()), std::make_move_iterator(ranks.end()));
    AddedStage stage;
    stage.main = rank_index(in_.get<std::uint32_t>());
    auto saved = in_.get_all([this](ByteReader& in) {
      std::string name = in.get_string();
      return std::pair(std::move(name), in.get_all([this](ByteReader& from) {
        SavedCollection collection;
        collection.rank = rank_index(from.get<std::uint32_t>());
        collection.collection = get_node(from);
        collection.apis = from.get_all([this](ByteReader& api) { return get_node(api); });
        return collection;
      }));
    });
    for (auto& [name, collections] : saved) {
      stage.saved.emplace(std::move(name), std::move(collections));
    }
    for (auto* counts : {&stage.tally.entries, &stage.tally.finding_counts}) {
      for (auto& [kind, count] : in_.get_all([](ByteReader& in) {
             std::string kind = in.get_string();
             return std::pair(std::move(kind), in.get<std::uint64_t>());
           })) {
        (*counts)[kind] = count;
      }
    }
    stage.tally.findings = in_.get_all([](ByteReader& in) { return in.get_string(); });
    check();
    return stage;
  }

 private:
  Text text(ByteReader& in) {
    const auto number = in.get<std::uint32_t>();
    if (number >= texts_.size()) {
      fail();
    }
    return texts_[number];
  }

  [[nodiscard]] std::uint32_t node_index(std::uint32_t number) const {
    if (number != no_node && number > no_node - 1 - first_node_) {
      fail();
    }
    return number == no_node ? no_node : first_node_ + number;
  }

  [[nodiscard]] std::uint32_t rank_index(std::uint32_t number) const {
    if (number > no_node - 1 - first_rank_) {
      fail();
    }
    return first_rank_ + number;
  }

  /// Indices are in range now that all is there.
  void check() const {
    const auto good = [this](std::uint32_t index) { return index == no_node || index < forest_.nodes.size(); };
    for (std::size_t k = first_node_; k < forest_.nodes.size(); ++k) {
      const TreeNode& node = forest_.nodes[k];
      bool fine = good(node.parent) && node.rank < forest_.ranks.size();
      for (const std::uint32_t child : node.children) {
        fine = fine && child < forest_.nodes.size();
      }
      if (!fine) {
        fail();
      }
    }
    for (std::size_t k = first_rank_; k < forest_.ranks.size(); ++k) {
      if (!good(forest_.ranks[k].root)) {
        fail();
      }
    }
  }

  TensorParts get_parts(ByteReader& in, int depth) {
    if (depth > deepest_parts) {
      fail();
    }
    TensorParts parts;
    parts.kind = in.get<TensorParts::Kind>();
    parts.directory = in.get_string();
    parts.data_name = in.get_string();
    parts.dtype = in.get_string();
    parts.dimension = in.get<std::uint32_t>();
    parts.runs = in.get_all([](ByteReader& from) {
      TensorParts::Run run;
      run.part = from.get<std::uint32_t>();
      run.offset = from.get<std::uint64_t>();
      run.length = from.get<std::uint64_t>();
      return run;
    });
    parts.parts = in.get_all([&](ByteReader& from) { return get_parts(from, depth + 1); });
    parts.padded = in.get<bool>();
    parts.reason = in.get_string();
    parts.replicas = in.get_all([&](ByteReader& from) { return get_parts(from, depth + 1); });
    parts.diverged = in.get<bool>();
    return parts;
  }

  UnresolvedEntry get_unresolved(ByteReader& in) {
    UnresolvedEntry entry;
    entry.records = in.get_all([](ByteReader& from) {
      ShardRecord record;
      for (auto& value : record.stats) {
        const bool known = from.get<bool>();
        const auto number = from.get<double>();
        value = known ? std::optional(number) : std::nullopt;
      }
      const bool has_shape = from.get<bool>();
      auto shape = from.get_all([](ByteReader& size) { return size.get<std::uint64_t>(); });
      record.shape = has_shape ? std::optional(std::move(shape)) : std::nullopt;
      const bool has_gradient = from.get<bool>();
      const bool gradient = from.get<bool>();
      record.requires_grad = has_gradient ? std::optional(gradient) : std::nullopt;
      return record;
    });
    if (entry.records.empty()) {
      fail();
    }
    entry.parts = in.get_all([this](ByteReader& from) { return get_parts(from, 0); });
    entry.finding = in.get_string();
    return entry;
  }

  TreeEntry get_entry(ByteReader& in) {
    TreeEntry entry;
    for (Text* member : {&entry.key, &entry.dtype, &entry.shape, &entry.data_name, &entry.md5, &entry.requires_grad, &entry.merged_shape}) {
      *member = text(in);
    }
    entry.source_node = node_index(in.get<std::uint32_t>());
    entry.source_item = in.get<std::uint32_t>();
    for (std::size_t statistic = 0; statistic < entry.bits.size(); ++statistic) {
      entry.kinds[statistic] = in.get<Number::Kind>();
      entry.bits[statistic] = in.get<std::int64_t>();
    }
    entry.state = in.get<ItemState>();
    entry.source_output = in.get<bool>();
    entry.whole_key = in.get<bool>();
    entry.changed = in.get<std::uint8_t>();
    entry.md5_lost = in.get<bool>();
    if (in.get<bool>()) {
      entry.unresolved = std::make_shared<const UnresolvedEntry>(get_unresolved(in));
    }
    if (in.get<bool>()) {
      entry.parts = std::make_shared<const TensorParts>(get_parts(in, 0));
    }
    return entry;
  }

  TreeNode get_node(ByteReader& in) {
    TreeNode node;
    node.name = text(in);
    node.source_name = text(in);
    node.rank = rank_index(in.get<std::uint32_t>());
    node.parent = node_index(in.get<std::uint32_t>());
    node.children = in.get_all([this](ByteReader& from) { return node_index(from.get<std::uint32_t>()); });
    node.inputs = in.get_all([this](ByteReader& from) { return get_entry(from); });
    node.outputs = in.get_all([this](ByteReader& from) { return get_entry(from); });
    node.micro_step = in.get<std::int64_t>();
    node.payload = in.get<std::uint32_t>();
    node.stack = text(in);
    node.type = in.get<NodeType>();
    node.overflow = in.get<Overflow>();
    node.info = in.get_all([](ByteReader& from) { return from.get_string(); });
    return node;
  }

  TreeRank get_rank(ByteReader& in) {
    const auto number = [](ByteReader& from) { return from.get<std::int64_t>(); };
    const auto line = [](ByteReader& from) { return from.get_string(); };
    TreeRank rank;
    rank.rank = in.get<std::int64_t>();
    rank.root = node_index(in.get<std::uint32_t>());
    rank.created = in.get_all([this](ByteReader& from) { return node_index(from.get<std::uint32_t>()); });
    for (const auto& [name, index] : in.get_all([this](ByteReader& from) {
           const Text name = text(from);
           return std::pair(name, node_index(from.get<std::uint32_t>()));
         })) {
      rank.by_name.emplace(name, index);
    }
    for (const Text name : in.get_all([this](ByteReader& from) { return text(from); })) {
      rank.own_names.insert(name);
    }
    rank.coordinates = in.get_string();
    rank.payload = in.get_string();
    rank.directory = in.get_string();
    rank.task = in.get_string();
    rank.level = in.get_string();
    rank.framework = in.get_string();
    const bool has_directory = in.get<bool>();
    std::string directory = in.get_string();
    rank.dump_data_dir = has_directory ? std::optional(std::move(directory)) : std::nullopt;
    const bool has_micro_steps = in.get<bool>();
    const auto micro_steps = in.get<std::int64_t>();
    rank.megatron_micro_steps = has_micro_steps ? std::optional(micro_steps) : std::nullopt;
    rank.detected = in.get<Framework>();
    rank.has_data = in.get<bool>();
    rank.has_md5 = in.get<bool>();
    rank.micro_steps = in.get<std::int64_t>();
    rank.warnings = in.get_all(line);
    rank.lost_nodes = in.get<std::uint64_t>();
    rank.removed_levels = in.get<std::uint64_t>();
    const bool has_group = in.get<bool>();
    std::vector<std::int64_t> group = in.get_all(number);
    rank.hint.reduce_group = has_group ? std::optional(std::move(group)) : std::nullopt;
    const bool has_successor = in.get<bool>();
    const auto successor = in.get<std::int64_t>();
    rank.hint.successor = has_successor ? std::optional(successor) : std::nullopt;
    return rank;
  }

  Forest& forest_;
  ByteReader in_;
  std::uint32_t first_node_;
  std::uint32_t first_rank_;
  std::vector<Text> texts_;
};

}  // namespace

std::string pack(const FoldedStage& stage) {
  return Packer(stage.forest).pack(stage);
}

AddedStage add_stage(Forest& forest, std::string_view bytes) {
  return Unpacker(forest, bytes).unpack();
}

}  // namespace msvis
