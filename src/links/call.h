// What a communication node says of its call: peer or root, and group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/graph.h"
#include "msvis/links.h"

namespace msvis {

/// How an API is linked (distributed rules, section 3).
struct ApiRule {
  LinkKind kind = LinkKind::symmetric;
  bool sends = false;               ///< p2p: this end sends; rooted: the root sends
  char family = '\0';               ///< p2p: 'b' send/recv, 'n' isend/irecv
  std::string_view parameter;       ///< input that names the peer or root
  std::string_view other_spelling;  ///< LinkMode::extended: where the same parameter stands when it is written the other way
  std::string_view within_group;    ///< LinkMode::extended: keyword that gives the peer or root as a position in the group
};

/// Second dot-separated field of the name of a participating node; nullopt for every other name.
std::optional<std::string_view> communication_api(std::string_view node_name);

ApiRule api_rule(std::string_view api);

/// A group that can be linked.
struct CallGroup {
  std::string id;
  /// Its ranks in order, each once. An element that is no rank number belongs to the group but matches nobody, and is left out.
  std::vector<std::int64_t> ranks;
};

/// Reads the inputs of one node. Compat::reference sees them as the result file stores them, Compat::standard as the dump has them.
class CallReader {
 public:
  CallReader(const Graph& graph, const Node& node, Compat compat) : graph_(graph), node_(node), compat_(compat) {}

  /// Text of the `value` of an input: nullopt if there is no such input or it has no value, `null` for a null.
  [[nodiscard]] std::optional<std::string> value(std::string_view parameter) const;
  /// The keyword `group`, if it is usable: it has a non-empty list of ranks and a non-empty id.
  [[nodiscard]] std::optional<CallGroup> group() const;
  /// The first positional input that looks like a group, if that is usable (LinkMode::extended).
  [[nodiscard]] std::optional<CallGroup> positional_group() const;
  /// Whether the call names a group at all, usable or not: None as keyword `group` names none.
  [[nodiscard]] bool names_group() const;

 private:
  [[nodiscard]] const Item* input(std::string_view parameter) const;
  [[nodiscard]] const Item* positional_group_item() const;
  [[nodiscard]] std::optional<std::string> member(const Item& item, std::string_view name) const;
  [[nodiscard]] std::optional<CallGroup> group_of(const Item& item) const;

  const Graph& graph_;
  const Node& node_;
  Compat compat_;
};

/// The number if a text is a rank as ranks are printed: digits without superfluous zeros, not beyond 63 bits.
std::optional<std::int64_t> rank_number(std::string_view text);

}  // namespace msvis
