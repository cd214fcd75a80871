#include "merge/experts.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>
#include <utility>

#include "graph/names.h"
#include "merge/fold.h"
#include "merge/names.h"

namespace msvis {
namespace {

struct ExpertNumber {
  std::size_t at = 0;
  std::size_t size = 0;
  std::int64_t number = 0;
};

/// `...local_experts.3.` or `...experts.3.`
std::optional<ExpertNumber> find_expert(std::string_view name) {
  constexpr std::string_view mark = "experts.";
  constexpr std::size_t most_digits = 9;
  for (std::size_t at = name.find(mark); at != std::string_view::npos; at = name.find(mark, at + 1)) {
    ExpertNumber found;
    found.at = at + mark.size();
    while (found.at + found.size < name.size() && name[found.at + found.size] >= '0' && name[found.at + found.size] <= '9') {
      ++found.size;
    }
    const std::size_t end = found.at + found.size;
    if (found.size > 0 && found.size <= most_digits && end < name.size() && name[end] == '.' &&
        std::from_chars(name.data() + found.at, name.data() + end, found.number).ec == std::errc()) {
      return found;
    }
  }
  return std::nullopt;
}

class Experts {
 public:
  Experts(Forest& forest, const std::vector<std::uint32_t>& group, std::size_t own) : forest_(forest), group_(group), own_(own) {}

  void run() {
    for (const std::uint32_t rank : group_) {
      for (const std::uint32_t index : forest_.ranks[rank].created) {
        if (const auto expert = find_expert(forest_.name(index)); expert && node(index).type == NodeType::module) {
          experts_ = std::max(experts_, expert->number + 1);
        }
      }
    }
    if (experts_ == 0) {
      return;
    }
    rename_own();
    for (std::size_t place = 0; place < group_.size(); ++place) {
      if (place != own_) {
        take_from(place);
      }
    }
    for (const std::uint32_t parent : parents_) {
      sort_children(parent);
    }
  }

 private:
  [[nodiscard]] TreeNode& node(std::uint32_t index) { return forest_.nodes[index]; }

  [[nodiscard]] std::string in_model(std::string_view name, std::size_t place) const {
    const auto expert = find_expert(name);
    if (!expert) {
      return std::string(name);
    }
    std::string text(name.substr(0, expert->at));
    text += std::to_string(static_cast<std::int64_t>(place) * experts_ + expert->number);
    text += name.substr(expert->at + expert->size);
    return text;
  }

  void rename_own() {
    // From the last to the first, so that no new name is one that is still taken.
    std::vector<std::uint32_t> modules;
    for (const std::uint32_t index : forest_.ranks[group_[own_]].created) {
      if (node(index).type == NodeType::module && find_expert(forest_.name(index))) {
        modules.push_back(index);
      }
    }
    std::stable_sort(modules.begin(), modules.end(), [this](std::uint32_t left, std::uint32_t right) {
      return find_expert(forest_.name(left))->number > find_expert(forest_.name(right))->number;
    });
    for (const std::uint32_t index : modules) {
      forest_.rename(group_[own_], index, in_model(forest_.name(index), own_));
    }
  }

  /// The tops of experts hang below a module that is no part of one.
  void take_from(std::size_t place) {
    const std::uint32_t rank = group_[place];
    const std::vector<std::uint32_t> created = forest_.ranks[rank].created;
    for (const std::uint32_t index : created) {
      const std::uint32_t parent = node(index).parent;
      if (node(index).type != NodeType::module || parent == no_node || !find_expert(forest_.name(index)) ||
          find_expert(forest_.name(parent))) {
        continue;
      }
      const std::uint32_t holder = forest_.find(group_[own_], node(parent).name);
      if (holder != no_node) {
        copy(index, holder, place);
        parents_.insert(holder);
      }
    }
  }

  void copy(std::uint32_t top, std::uint32_t holder, std::size_t place) {
    const std::int64_t rank = forest_.ranks[group_[place]].rank;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> waiting{{top, holder}};
    while (!waiting.empty()) {
      const auto [from, to] = waiting.back();
      waiting.pop_back();
      const bool module = node(from).type == NodeType::module;
      const std::string name = module ? in_model(forest_.name(from), place) : with_rank(forest_.name(from), rank);
      const std::uint32_t added = forest_.add(group_[own_], name, node(from).type);
      copy_node(forest_, from, added);
      forest_.append_child(to, added);
      const std::vector<std::uint32_t> children = node(from).children;
      for (std::size_t left = children.size(); left > 0; --left) {
        waiting.emplace_back(children[left - 1], added);
      }
    }
  }

  /// Experts behind the other children, by number; backward the last one first.
  void sort_children(std::uint32_t parent) {
    const bool backward = forest_.name(parent).find(".backward.") != std::string_view::npos;
    auto& children = node(parent).children;
    const auto experts = std::stable_partition(children.begin(), children.end(), [this](std::uint32_t child) {
      return node(child).type != NodeType::module || !find_expert(forest_.name(child));
    });
    std::stable_sort(experts, children.end(), [&](std::uint32_t left, std::uint32_t right) {
      const auto a = find_expert(forest_.name(left))->number;
      const auto b = find_expert(forest_.name(right))->number;
      return backward ? a > b : a < b;
    });
  }

  Forest& forest_;
  const std::vector<std::uint32_t>& group_;
  std::size_t own_;
  std::int64_t experts_ = 0;  ///< of a rank
  std::unordered_set<std::uint32_t> parents_;
};

}  // namespace

bool holds_experts(std::string_view name) {
  std::string_view path = drop_fields(name, 3);
  if (name.ends_with("parameters_grad")) {
    path = drop_fields(name, 2);
  }
  return path.ends_with(".experts") || path == "experts";
}

void join_experts(Forest& forest, const std::vector<std::uint32_t>& group, std::size_t own, MergeTally& tally) {
  std::vector<std::uint32_t> others;
  for (std::size_t place = 0; place < group.size(); ++place) {
    if (place != own) {
      others.push_back(group[place]);
    }
  }
  fold_ranks(forest, group[own], others, ParallelAxis::expert, tally);
  Experts(forest, group, own).run();
}

}  // namespace msvis
