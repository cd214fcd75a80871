// The graphs of several ranks in one place, small enough that those of a whole replica fit: names are interned, of an item only what
// merging needs is kept, and what the result shows of it (the payload) is text that only nodes of the result have.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "merge/groups.h"
#include "msvis/graph.h"
#include "msvis/tensor_parts.h"

namespace msvis {

/// Number of an interned text; 0 is the empty text.
using Text = std::uint32_t;

class TextStore {
 public:
  TextStore() { static_cast<void>(id("")); }
  Text id(std::string_view text);
  [[nodiscard]] std::string_view operator[](Text id) const { return texts_[id]; }
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

 private:
  JsonPool pool_;
  std::vector<std::string_view> texts_;
  std::unordered_map<std::string_view, Text> ids_;
};

/// A statistic that can be calculated with.
struct Number {
  /// `truth`: of a boolean tensor, no number to calculate with. `unknown`: merging can't tell it.
  enum class Kind : std::uint8_t { none, integer, real, truth, unknown };
  Kind kind = Kind::none;
  std::int64_t integer = 0;
  double real = 0;
  [[nodiscard]] bool is_number() const { return kind == Kind::integer || kind == Kind::real; }
  [[nodiscard]] double value() const { return kind == Kind::integer ? static_cast<double>(integer) : real; }
  /// Shortest decimal that round-trips, as Python prints it.
  [[nodiscard]] std::string text() const;
  static Number of(double value) { return {Kind::real, 0, value}; }
  static Number unknown() { return {Kind::unknown, 0, 0}; }
};

/// What merging needs of an item.
struct TreeEntry {
  Text key = 0;  ///< without the node's name and the dot in front
  Text dtype = 0;
  Text shape = 0;  ///< as Python prints the list; empty: none
  Text data_name = 0;
  Text md5 = 0;
  Text requires_grad = 0;
  std::uint32_t source_node = no_node;  ///< tree node whose payload shows the item
  std::uint32_t source_item = 0;        ///< place among the inputs or outputs there
  std::array<std::int64_t, 4> bits{};   ///< of the statistics
  std::array<Number::Kind, 4> kinds{};
  ItemState state = ItemState::input;
  bool source_output = false;
  bool whole_key = false;                             ///< `key` is the whole key: it does not begin with the node's name
  std::uint8_t changed = 0;                           ///< statistics that merging set: bit by Statistic
  bool md5_lost = false;                              ///< merging can't tell the checksum of the whole
  std::shared_ptr<const TensorParts> parts;           ///< set by merging: where the elements are; else in the file of the source
  std::shared_ptr<const UnresolvedEntry> unresolved;  ///< what the ranks alone can't tell
  Text merged_shape = 0;                              ///< set by merging; empty: as the source

  [[nodiscard]] Number stat(std::size_t statistic) const;
  void set_stat(std::size_t statistic, const Number& number);  ///< without noting the change
  void change_stat(std::size_t statistic, const Number& number) {
    set_stat(statistic, number);
    changed = static_cast<std::uint8_t>(changed | (1U << statistic));
  }
};

struct TreeNode {
  Text name = 0;
  Text source_name = 0;    ///< in its own dump
  std::uint32_t rank = 0;  ///< index in Forest::ranks
  std::uint32_t parent = no_node;
  std::vector<std::uint32_t> children;
  std::vector<TreeEntry> inputs;
  std::vector<TreeEntry> outputs;
  std::int64_t micro_step = -1;
  std::uint32_t payload = no_node;  ///< place in the payload of its rank
  Text stack = 0;                   ///< JSON text
  NodeType type = NodeType::module;
  Overflow overflow = Overflow::none;
  std::vector<std::string> info;  ///< parallel_merge_info
};

/// One rank: what remains of its dump beside the nodes.
struct TreeRank {
  std::int64_t rank = 0;
  std::uint32_t root = no_node;
  std::vector<std::uint32_t> created;               ///< nodes in creation order
  std::unordered_map<Text, std::uint32_t> by_name;  ///< current names
  std::unordered_set<Text> own_names;               ///< of its dump
  std::string coordinates;                          ///< place among the ranks of the replica, where merging knows it
  std::string payload;                              ///< JSON text: array of entries
  std::filesystem::path directory;
  std::string task, level, framework;
  std::optional<std::string> dump_data_dir;
  std::optional<std::int64_t> megatron_micro_steps;
  Framework detected = Framework::unknown;
  bool has_data = false;
  bool has_md5 = false;
  std::int64_t micro_steps = 1;  ///< of its own paging
  std::vector<std::string> warnings;
  std::uint64_t lost_nodes = 0;
  std::uint64_t removed_levels = 0;
  GroupHint hint;
};

/// Names are unique within a rank. Nodes may move between ranks.
struct Forest {
  TextStore texts;
  std::vector<TreeNode> nodes;
  std::vector<TreeRank> ranks;

  [[nodiscard]] std::string_view name(std::uint32_t node) const { return texts[nodes[node].name]; }
  /// Node of a rank by name, or no_node.
  [[nodiscard]] std::uint32_t find(std::uint32_t rank, Text name) const;
  [[nodiscard]] std::uint32_t find(std::uint32_t rank, std::string_view name);
  /// A new node in the tables of a rank, without a parent.
  std::uint32_t add(std::uint32_t rank, std::string_view name, NodeType type);
  /// Gives a node another name in the tables of `rank`.
  void rename(std::uint32_t rank, std::uint32_t node, std::string_view name);
  void append_child(std::uint32_t parent, std::uint32_t child);
  /// Takes the nodes [first, last) away, to which no other node refers; those behind them get new numbers.
  void erase_nodes(std::uint32_t first, std::uint32_t last);
};

/// What a node holds, its name and place in the tree aside, becomes that of another one as well.
void copy_node(Forest& forest, std::uint32_t from, std::uint32_t to);

/// Which nodes keep what the result shows of them.
enum class KeepPayload : std::uint8_t {
  all,
  top
};  ///< top: API nodes that hang at the root or in a collection, and modules of the root without modules below

/// Adds the graph of a rank. With Compat::standard, the texts nan, inf and -inf are statistics too. The graph is not needed afterwards.
/// Returns the index in Forest::ranks.
std::uint32_t add_rank(Forest& forest, const Graph& graph, std::int64_t rank, KeepPayload keep, Compat compat);

/// The JSON text of a value with its numbers as they were written.
void append_exact_json(std::string& out, JsonValue value);

/// Makes the graph of the tree below the root of a rank: the dump's facts are those of that rank. A name that occurs twice is only once in
/// the order (its first place). The payload of all ranks is consumed.
Graph to_graph(Forest& forest, std::uint32_t rank);

}  // namespace msvis
