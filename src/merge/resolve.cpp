#include "merge/resolve.h"

#include <charconv>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "dump/python_text.h"
#include "merge/parts.h"

namespace msvis {
namespace {

using Shape = std::vector<std::uint64_t>;

std::optional<Shape> shape_of(JsonValue value) {
  if (!value.is_array()) {
    return std::nullopt;
  }
  Shape shape;
  for (const JsonValue element : value.elements()) {
    std::uint64_t size = 0;
    const std::string_view token = element.is(JsonKind::integer) ? element.text() : std::string_view();
    const auto result = std::from_chars(token.data(), token.data() + token.size(), size);
    if (token.empty() || result.ec != std::errc() || result.ptr != token.data() + token.size()) {
      return std::nullopt;
    }
    shape.push_back(size);
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

std::string_view short_key(const Node& node, const Item& item) {
  return item.key.starts_with(node.name) ? item.key.substr(node.name.size()) : item.key;
}

/// Whether one size of the whole is `ranks` times that of the shard and all others are equal.
bool is_larger(const Shape& whole, const Shape& shard, std::int64_t ranks) {
  if (whole.size() != shard.size()) {
    return false;
  }
  std::size_t unequal = 0;
  for (std::size_t k = 0; k < whole.size(); ++k) {
    if (whole[k] != shard[k]) {
      ++unequal;
      if (shard[k] == 0 || whole[k] % shard[k] != 0 || whole[k] / shard[k] != static_cast<std::uint64_t>(ranks)) {
        return false;
      }
    }
  }
  return unequal == 1;
}

class Resolver {
 public:
  Resolver(Graph& split, const Graph& whole, std::int64_t ranks, std::vector<std::string>& withdrawn)
      : split_(split), whole_(whole), ranks_(ranks), withdrawn_(withdrawn) {}

  std::uint64_t run() {
    for (std::uint32_t index = 0; index < split_.nodes.size(); ++index) {
      const Node& node = split_.nodes[index];
      if (node.link == no_node || node.type == NodeType::api_collection || in_collection(node)) {
        continue;
      }
      const Node& partner = whole_.nodes[node.link];
      std::unordered_map<std::string_view, const Item*> items;
      for (std::uint32_t at = partner.inputs_begin; at < partner.items_end; ++at) {
        items.emplace(short_key(partner, whole_.items[at]), &whole_.items[at]);
      }
      for (std::uint32_t at = node.inputs_begin; at < node.items_end; ++at) {
        const auto found = items.find(short_key(node, split_.items[at]));
        if (found != items.end()) {
          if (const auto shape = shape_of(found->second->shape)) {
            resolve(index, at, *shape);
          }
        }
      }
    }
    return resolved_;
  }

 private:
  /// APIs of collections are listed for every rank, not merged.
  [[nodiscard]] bool in_collection(const Node& node) const {
    return node.parent != no_node && split_.nodes[node.parent].type == NodeType::api_collection;
  }

  void resolve(std::uint32_t node, std::uint32_t at, const Shape& whole) {
    Item& item = split_.items[at];
    const auto open = split_.unresolved.find(at);
    std::vector<ShardRecord> records;
    if (open != split_.unresolved.end()) {
      records = open->second->records;
    } else {
      const auto shape = shape_of(item.shape);
      if (!shape || !is_larger(whole, *shape, ranks_) || split_.merged_items.contains(at)) {
        return;
      }
      ShardRecord record;  // the same on all ranks, and yet a piece
      record.shape = shape;
      for (std::size_t statistic = 0; statistic < record.stats.size(); ++statistic) {
        if (item.stats[statistic].is_number()) {
          record.stats[statistic] = item.stats[statistic].number();
        }
      }
      records.assign(static_cast<std::size_t>(ranks_), record);
    }
    EntryPlace place;
    place.state = item.state;
    place.golden_shape = whole;
    const Classification found = classify(place, records);
    if (found.kind != ShardKind::split || !found.dimension || !found.merged.shape || *found.merged.shape != whole) {
      return;
    }
    ++resolved_;
    if (open != split_.unresolved.end() && !open->second->finding.empty()) {
      withdrawn_.push_back(open->second->finding);
    }
    for (std::size_t statistic = 0; statistic < item.stats.size(); ++statistic) {
      const auto& value = found.merged.stats[statistic];
      if (value && !(item.stats[statistic].is_number() && item.stats[statistic].number() == *value)) {
        std::string text;
        append_float(text, *value);
        item.stats[statistic] = split_.pool.number(text);
      }
    }
    split_.documents.push_back(JsonDocument::parse(shape_text(whole), "shape"));
    item.shape = split_.documents.back().root();
    split_.merge_info[node].push_back(std::string(item.key) + ": split along dimension " + std::to_string(*found.dimension) +
                                      " by the shape of the other side " + shape_text(whole));
    if (open != split_.unresolved.end() && !open->second->parts.empty()) {
      split_.tensor_parts[at] = std::make_shared<TensorParts>(whole_of(found, open->second->parts, {}, false));
    }
  }

  Graph& split_;
  const Graph& whole_;
  std::int64_t ranks_;
  std::vector<std::string>& withdrawn_;
  std::uint64_t resolved_ = 0;
};

}  // namespace

std::uint64_t resolve_by_shape(Graph& split, const Graph& whole, std::int64_t ranks, std::vector<std::string>& withdrawn) {
  return ranks > 1 ? Resolver(split, whole, ranks, withdrawn).run() : 0;
}

}  // namespace msvis
