#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "dump/python_text.h"
#include "links/call.h"
#include "links/hash128.h"
#include "msvis/links.h"

namespace msvis {
namespace {

std::string index_text(const Node& node, bool overflow_index) {
  if (overflow_index) {
    return node.overflow == Overflow::none ? "Nan" : std::string(overflow_text(node.overflow));
  }
  switch (node.precision) {
    case Precision::pass:
      return "0";
    case Precision::warning:
      return "0.5";
    case Precision::error:
      return "1";
    case Precision::none:
      break;
  }
  return "Nan";
}

/// Builds key texts: parts with a separator between them.
class KeyText {
 public:
  explicit KeyText(std::string_view beginning) : text_(beginning) {}
  /// A part that can't hold a separator.
  KeyText& part(std::string_view text) {
    text_ += '|';
    text_ += text;
    return *this;
  }
  /// Free text: with its length before it, no two different texts run together to the same key.
  KeyText& free_text(std::string_view text) {
    part(std::to_string(text.size()));
    text_ += ':';
    text_ += text;
    return *this;
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// Walks the communication nodes of one graph in node_order, counts them and makes their records.
class Walk {
 public:
  Walk(const Graph& graph, Side side, std::int64_t step, std::int64_t rank, const LinkOptions& options)
      : graph_(graph), side_(side), step_(step), rank_(rank), rank_text_(std::to_string(rank)), options_(options) {
    for (std::uint32_t position = 0; position < graph.order.size(); ++position) {
      const Node& node = graph.nodes[graph.order[position]];
      if (const auto api = communication_api(node.name)) {
        visit(node, *api, position);
      }
    }
  }

  std::vector<LinkRecord> take_records() { return std::move(records_); }

  std::vector<GroupCount> take_counts() {
    std::vector<GroupCount> all;
    all.reserve(counts_.size());
    for (auto& entry : counts_) {
      all.push_back(std::move(entry.second));
    }
    return all;
  }

 private:
  [[nodiscard]] bool extended() const { return options_.mode == LinkMode::extended; }

  /// What extended linking may reinterpret: a recorded forward call. Backward nodes and nodes without an entry say nothing of a group.
  [[nodiscard]] bool may_reinterpret(const Node& node) const { return extended() && node.entry && node.name.ends_with(".forward"); }

  void visit(const Node& node, std::string_view api, std::uint32_t position) {
    const ApiRule rule = api_rule(api);
    if (rule.kind == LinkKind::batch) {
      visit_batch(node, position);
    } else if (rule.kind == LinkKind::p2p) {
      visit_p2p(node, rule, position);
    } else {
      visit_group(node, api, rule, position);
    }
  }

  LinkRecord& add(const Node& node, LinkKind kind, std::uint32_t position, const std::string& base, std::uint64_t occurrence) {
    LinkRecord& record = records_.emplace_back();
    record.key = hash128(KeyText(base).part(std::to_string(occurrence)).take());
    record.step = step_;
    record.rank = rank_;
    record.side = side_;
    record.kind = kind;
    record.index = index_text(node, options_.overflow_index);
    record.node_order = position;
    record.name = node.name;
    return record;
  }

  void visit_batch(const Node& node, std::uint32_t position) {
    if (options_.compat == Compat::reference) {
      return;  // never linked there
    }
    std::uint32_t place = 0;
    for (const BatchOperation& operation : batch_operations(node.name, node.entry)) {
      const std::uint32_t here = place++;
      const auto peer = peer_of(operation);
      if (!operation.op.is_string() || !peer) {
        continue;
      }
      const bool sends = operation.op.text() == "isend";
      if (!sends && operation.op.text() != "irecv") {
        continue;
      }
      std::string group;
      if (!operation.group_id.is_null()) {
        append_str(group, operation.group_id);
      }
      const std::string& sender = sends ? rank_text_ : *peer;
      const std::string& receiver = sends ? *peer : rank_text_;
      const std::string base = KeyText("B").part(sender).part(receiver).free_text(group).take();
      LinkRecord& record = add(node, LinkKind::batch, position, base, ++occurrence_of(sends, base));
      record.sends = sends;
      record.operation = here;
    }
  }

  /// A peer that is no rank number (null, 1.0, "x") has no partner, and its counter is nobody else's: no record is needed.
  static std::optional<std::string> peer_of(const BatchOperation& operation) {
    if (!operation.peer || operation.peer.is_array() || operation.peer.is_object()) {
      return std::nullopt;
    }
    std::string text;
    append_str(text, operation.peer);
    return rank_number(text) ? std::optional(std::move(text)) : std::nullopt;
  }

  void visit_p2p(const Node& node, const ApiRule& rule, std::uint32_t position) {
    const CallReader call(graph_, node, options_.compat);
    auto peer = call.value(rule.parameter);
    bool newly_read = false;
    if ((!peer || *peer == "null") && may_reinterpret(node)) {
      peer = other_spelling(call, rule, {});
      newly_read = true;
    }
    if (!peer || !rank_number(*peer)) {
      return;  // as in peer_of
    }
    const std::string& sender = rule.sends ? rank_text_ : *peer;
    const std::string& receiver = rule.sends ? *peer : rank_text_;
    const std::string base = KeyText(newly_read ? "XP" : "P").part({&rule.family, 1}).part(sender).part(receiver).take();
    add(node, LinkKind::p2p, position, base, ++occurrence_of(rule.sends, base)).sends = rule.sends;
  }

  /// The counter of one end of a transfer: a rank that sends to itself counts both ends.
  std::uint64_t& occurrence_of(bool sends, const std::string& base) { return occurrences_[KeyText(base).part(sends ? "s" : "r").take()]; }

  void visit_group(const Node& node, std::string_view api, const ApiRule& rule, std::uint32_t position) {
    const CallReader call(graph_, node, options_.compat);
    auto group = call.group();
    std::string_view beginning = "C";
    if (group) {
      count(*group, api);
    } else if (may_reinterpret(node)) {
      group = call.positional_group();
      beginning = "XC";
      if (!group && !call.names_group() && !options_.world_ranks.empty()) {
        group = CallGroup{.id = {}, .ranks = options_.world_ranks};
        beginning = "XW";
      }
    }
    if (!group) {
      return;
    }
    const std::string base = KeyText(beginning).free_text(group->id).free_text(api).take();
    LinkRecord& record = add(node, rule.kind, position, base, ++occurrences_[base]);
    record.group_ranks = std::move(group->ranks);
    if (rule.kind != LinkKind::rooted) {
      return;
    }
    record.sends = rule.sends;
    auto root = call.value(rule.parameter);
    if ((!root || *root == "null") && may_reinterpret(node)) {
      root = other_spelling(call, rule, record.group_ranks).value_or("0");
      record.assumed_root = *root == rank_text_;
    }
    record.is_root = root == rank_text_;
  }

  /// The peer or root where it stands when it is not written as standard linking expects; nullopt if it is nowhere.
  static std::optional<std::string> other_spelling(const CallReader& call, const ApiRule& rule, const std::vector<std::int64_t>& ranks) {
    auto text = call.value(rule.other_spelling);
    if (text && rank_number(*text)) {
      return text;
    }
    if (const auto within = call.value(rule.within_group)) {
      std::vector<std::int64_t> group = ranks;
      if (group.empty()) {
        auto named = call.group();
        if (!named) {
          named = call.positional_group();
        }
        if (named) {
          group = std::move(named->ranks);
        }
      }
      const auto place = rank_number(*within);
      if (place && static_cast<std::uint64_t>(*place) < group.size()) {
        return std::to_string(group[static_cast<std::size_t>(*place)]);
      }
      return "null";  // stated, but not to be resolved: nothing is to be assumed in its place
    }
    return std::nullopt;
  }

  void count(const CallGroup& group, std::string_view api) {
    const auto [entry, is_new] = counts_.try_emplace({group.id, std::string(api)});
    GroupCount& counted = entry->second;
    if (is_new) {
      counted = {.side = side_,
                 .step = step_,
                 .rank = rank_,
                 .group_id = group.id,
                 .api = std::string(api),
                 .group_ranks = group.ranks,
                 .count = 0};
    }
    ++counted.count;
  }

  const Graph& graph_;
  Side side_;
  std::int64_t step_;
  std::int64_t rank_;
  std::string rank_text_;
  const LinkOptions& options_;
  std::unordered_map<std::string, std::uint64_t> occurrences_;
  std::map<std::pair<std::string, std::string>, GroupCount> counts_;
  std::vector<LinkRecord> records_;
};

std::string list_ranks(const std::vector<std::int64_t>& ranks) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t place = 0; place < ranks.size() && place < most; ++place) {
    text += (place == 0 ? "" : ", ") + std::to_string(ranks[place]);
  }
  return ranks.size() > most ? text + ", ... (" + std::to_string(ranks.size()) + " ranks)" : text;
}

std::string calls(std::uint64_t count) {
  return std::to_string(count) + (count == 1 ? " call" : " calls");
}

}  // namespace

std::vector<LinkRecord> link_records(const Graph& graph, Side side, std::int64_t step, std::int64_t rank, const LinkOptions& options) {
  return Walk(graph, side, step, rank, options).take_records();
}

std::vector<GroupCount> group_counts(const Graph& graph, Side side, std::int64_t step, std::int64_t rank, const LinkOptions& options) {
  return Walk(graph, side, step, rank, options).take_counts();
}

std::vector<std::string> group_count_warnings(std::vector<GroupCount> counts, const std::vector<std::int64_t>& ranks) {
  const auto group_key = [](const GroupCount& count) { return std::tie(count.side, count.step, count.group_id, count.api); };
  std::sort(counts.begin(), counts.end(), [&](const GroupCount& left, const GroupCount& right) {
    return std::tuple_cat(group_key(left), std::tie(left.rank)) < std::tuple_cat(group_key(right), std::tie(right.rank));
  });
  std::vector<std::int64_t> present = ranks;
  std::sort(present.begin(), present.end());
  std::vector<std::string> warnings;
  for (auto first = counts.begin(); first != counts.end();) {
    const auto last = std::find_if(first, counts.end(), [&](const GroupCount& count) { return group_key(count) != group_key(*first); });
    std::map<std::int64_t, std::uint64_t> by_rank;
    for (const std::int64_t member : first->group_ranks) {
      if (std::binary_search(present.begin(), present.end(), member)) {
        by_rank[member] = 0;
      }
    }
    for (auto count = first; count != last; ++count) {
      by_rank[count->rank] += count->count;
    }
    const auto [fewest, most] =
        std::minmax_element(by_rank.begin(), by_rank.end(), [](const auto& left, const auto& right) { return left.second < right.second; });
    if (fewest->second != most->second) {
      warnings.push_back(std::string(first->side == Side::target ? "target" : "golden") + ", step " + std::to_string(first->step) +
                         ": the members of group " + first->group_id + " (" + list_ranks(first->group_ranks) +
                         ") differ in their number of linkable calls of " + first->api + " (rank " + std::to_string(fewest->first) +
                         " has " + calls(fewest->second) + ", rank " + std::to_string(most->first) + " has " + calls(most->second) +
                         "), so these may be linked with wrong partners");
    }
    first = last;
  }
  return warnings;
}

}  // namespace msvis
