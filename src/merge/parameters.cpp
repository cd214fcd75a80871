#include "merge/parameters.h"

#include <algorithm>

#include "base/printable.h"
#include "graph/names.h"
#include "msvis/error.h"

namespace msvis {
namespace {

constexpr std::array<std::string_view, dimension_count> dimension_names{"tp", "cp", "dp", "pp"};
/// No job has more ranks; keeps products of sizes far from overflow.
constexpr std::int64_t most_ranks = std::int64_t{1} << 24;

[[noreturn]] void refuse(std::string_view what, const std::string& text) {
  throw Error(ErrorCategory::mismatch, "merging " + std::string(what) + ": " + text);
}

}  // namespace

MergeStrategy merge_strategy(const MergeSide& side) {
  const std::int64_t shards = side.tp * side.cp;
  if (shards == 1 && side.pp == 1 && side.rank_size == 1) {
    return MergeStrategy::none;
  }
  if (shards == side.rank_size) {
    return MergeStrategy::tp;
  }
  if (side.pp == side.rank_size) {
    return MergeStrategy::pp;
  }
  if (side.pp == 1) {
    return MergeStrategy::tp;
  }
  if (shards == 1) {
    return MergeStrategy::pp;
  }
  return shards * side.pp == side.rank_size ? MergeStrategy::tp_pp : MergeStrategy::full;
}

void check_merge_side(const MergeSide& side, std::string_view what) {
  const auto with = [](const char* name, std::int64_t value) { return std::string(name) + " " + std::to_string(value); };
  const auto ranks = with("--rank_size", side.rank_size);
  for (const auto& [name, value] : {std::pair("--rank_size", side.rank_size), std::pair("--tp", side.tp), std::pair("--pp", side.pp),
                                    std::pair("--vpp", side.vpp), std::pair("--cp", side.cp), std::pair("--ep", side.ep)}) {
    if (value <= 0) {
      refuse(what, with(name, value) + " must be at least 1");
    }
    if (value > most_ranks) {
      refuse(what, with(name, value) + " is more than " + std::to_string(most_ranks));
    }
  }
  for (const auto& [name, value] : {std::pair("--tp", side.tp), std::pair("--pp", side.pp), std::pair("--cp", side.cp)}) {
    if (value > side.rank_size) {
      refuse(what, with(name, value) + " is larger than " + ranks);
    }
    if (side.rank_size % value != 0) {
      refuse(what, ranks + " can't be divided by " + with(name, value));
    }
  }
  const std::int64_t shards = side.tp * side.cp;  // each below 2^24
  if (shards > side.rank_size || shards * side.pp > side.rank_size) {
    refuse(what, with("--tp", side.tp) + (side.cp > 1 ? " times " + with("--cp", side.cp) : "") + " times " + with("--pp", side.pp) +
                     " is more than " + ranks);
  }
  if (side.rank_size % (shards * side.pp) != 0) {
    refuse(what, ranks + " can't be divided by " + with("--tp", side.tp) + (side.cp > 1 ? " times " + with("--cp", side.cp) : "") +
                     " times " + with("--pp", side.pp));
  }
  if (side.dp() % side.ep != 0) {
    refuse(what, with("--ep", side.ep) + " must divide the number of data-parallel replicas, which is " + std::to_string(side.dp()));
  }
  if (side.vpp > 1 && side.pp < 2) {
    refuse(what, with("--vpp", side.vpp) + " needs at least two pipeline stages (--pp)");
  }
  const bool plain =
      !side.order.empty() && std::all_of(side.order.begin(), side.order.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; });
  if (!plain) {
    refuse(what, "--order " + printable(side.order) + " may hold lower-case letters and - only");
  }
  static_cast<void>(RankGrid(side, what));
}

RankGrid::RankGrid(const MergeSide& side, std::string_view what) : sizes_{side.tp, side.cp, side.dp(), side.pp}, ep_(side.ep) {
  const std::string shown = "--order " + printable(side.order);
  const std::vector<std::string_view> fields = [&] {
    std::string_view rest = side.order;
    std::vector<std::string_view> all;
    while (true) {
      const std::size_t dash = rest.find('-');
      all.push_back(rest.substr(0, dash));
      if (dash == std::string_view::npos) {
        return all;
      }
      rest.remove_prefix(dash + 1);
    }
  }();
  const auto has_ep = std::find(fields.begin(), fields.end(), "ep");
  if (has_ep != fields.end()) {
    const bool before = has_ep + 1 != fields.end() && *(has_ep + 1) == "dp";
    const bool after = has_ep != fields.begin() && *(has_ep - 1) == "dp";
    if (!before && !after) {
      refuse(what, shown + ": ep and dp must stand beside each other");
    }
    ep_first_ = before;
  }
  std::array<bool, dimension_count> seen{};
  std::size_t placed = 0;
  for (const std::string_view field : fields) {
    if (field == "ep") {
      continue;
    }
    const auto* const name = std::find(dimension_names.begin(), dimension_names.end(), field);
    if (name == dimension_names.end()) {
      refuse(what, shown + ": " + printable(field) + " is no dimension; give tp, cp, ep, dp and pp, joined by -");
    }
    const auto dimension = static_cast<std::size_t>(name - dimension_names.begin());
    if (seen[dimension]) {
      refuse(what, shown + " names " + std::string(field) + " twice");
    }
    seen[dimension] = true;
    order_[placed++] = static_cast<Dimension>(dimension);
  }
  for (std::size_t dimension = 0; dimension < dimension_count; ++dimension) {
    if (seen[dimension]) {
      continue;
    }
    if (sizes_[dimension] != 1) {
      refuse(what,
             shown + " does not name " + std::string(dimension_names[dimension]) + ", whose size is " + std::to_string(sizes_[dimension]));
    }
    order_[placed++] = static_cast<Dimension>(dimension);
  }
  for (const std::int64_t size : sizes_) {
    ranks_ *= size;
  }
}

Coordinates RankGrid::coordinates(std::int64_t rank) const {
  Coordinates at{};
  for (const Dimension dimension : order_) {
    at[static_cast<std::size_t>(dimension)] = rank % size(dimension);
    rank /= size(dimension);
  }
  return at;
}

std::int64_t RankGrid::rank(const Coordinates& coordinates) const {
  std::int64_t stride = 1;
  std::int64_t number = 0;
  for (const Dimension dimension : order_) {
    number += coordinates[static_cast<std::size_t>(dimension)] * stride;
    stride *= size(dimension);
  }
  return number;
}

RankGroups RankGrid::groups(Dimension dimension) const {
  RankGroups groups;
  for (std::int64_t first = 0; first < ranks_; ++first) {  // ascending numbers: the others' mixed radix, the fastest first
    Coordinates at = coordinates(first);
    std::int64_t& along = at[static_cast<std::size_t>(dimension)];
    if (along != 0) {
      continue;
    }
    std::vector<std::int64_t>& group = groups.emplace_back();
    for (; along < size(dimension); ++along) {
      group.push_back(rank(at));
    }
  }
  return groups;
}

std::int64_t RankGrid::expert_coordinate(std::int64_t rank) const {
  const std::int64_t dp = coordinates(rank)[static_cast<std::size_t>(Dimension::dp)];
  return ep_first_ ? dp % ep_ : dp / (size(Dimension::dp) / ep_);
}

std::int64_t RankGrid::dp_of_expert(std::int64_t dp, std::int64_t expert) const {
  const std::int64_t copies = size(Dimension::dp) / ep_;
  return ep_first_ ? dp / ep_ * ep_ + expert : expert * copies + dp % copies;
}

std::vector<std::int64_t> RankGrid::expert_group(std::int64_t rank) const {
  std::vector<std::int64_t> group;
  Coordinates at = coordinates(rank);
  std::int64_t& dp = at[static_cast<std::size_t>(Dimension::dp)];
  const std::int64_t own = dp;
  for (std::int64_t expert = 0; expert < ep_; ++expert) {
    dp = dp_of_expert(own, expert);
    group.push_back(this->rank(at));
  }
  return group;
}

bool is_partition(const RankGroups& groups, std::int64_t ranks) {
  std::vector<bool> seen(static_cast<std::size_t>(ranks), false);
  std::int64_t count = 0;
  for (const auto& group : groups) {
    for (const std::int64_t rank : group) {
      if (rank < 0 || rank >= ranks || seen[static_cast<std::size_t>(rank)]) {
        return false;
      }
      seen[static_cast<std::size_t>(rank)] = true;
      ++count;
    }
  }
  return count == ranks;
}

}  // namespace msvis
