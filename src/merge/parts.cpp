#include "merge/parts.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace msvis {
namespace {

using Kind = TensorParts::Kind;

TensorParts impossible(std::string reason) {
  TensorParts none;
  none.kind = Kind::none;
  none.reason = std::move(reason);
  return none;
}

/// The first one; the others, and what should be the same as they are, vote.
TensorParts with_votes(std::vector<TensorParts> same, bool diverged) {
  TensorParts first = std::move(same.front());
  first.diverged = first.diverged || diverged;
  for (std::size_t k = 1; k < same.size(); ++k) {
    if (same[k].kind == Kind::none) {
      continue;
    }
    std::vector<TensorParts> more = std::move(same[k].replicas);
    same[k].replicas.clear();
    first.replicas.push_back(std::move(same[k]));
    std::move(more.begin(), more.end(), std::back_inserter(first.replicas));
  }
  return first;
}

/// Parts in a row. If all of them have replicas, the replicas in a row are replicas of the whole.
TensorParts in_a_row(TensorParts frame, std::vector<TensorParts> parts) {
  const std::size_t replicas = std::min_element(parts.begin(), parts.end(), [](const TensorParts& left, const TensorParts& right) {
                                 return left.replicas.size() < right.replicas.size();
                               })->replicas.size();
  std::vector<TensorParts> lifted(replicas, frame);
  for (TensorParts& part : parts) {
    frame.diverged = frame.diverged || part.diverged;
    for (std::size_t k = 0; k < replicas; ++k) {
      lifted[k].parts.push_back(std::move(part.replicas[k]));
    }
    part.replicas.clear();
    part.diverged = false;
  }
  frame.parts = std::move(parts);
  frame.replicas = std::move(lifted);
  return frame;
}

const TensorParts* first_impossible(const std::vector<TensorParts>& parts) {
  const auto found = std::find_if(parts.begin(), parts.end(), [](const TensorParts& part) { return part.kind == Kind::none; });
  return found == parts.end() ? nullptr : &*found;
}

TensorParts sum_of(const Classification& classification, std::vector<TensorParts> of_ranks, std::vector<TensorParts> of_reduction,
                   bool scatters) {
  if (classification.from_reduction && !of_reduction.empty() && first_impossible(of_reduction) == nullptr) {
    if (!scatters) {
      return with_votes(std::move(of_reduction), false);
    }
    if (of_reduction.size() == classification.pieces.size()) {
      TensorParts frame;
      frame.kind = Kind::joined;
      for (const Piece& piece : classification.pieces) {
        frame.runs.push_back({piece.rank, piece.offset, piece.length});
      }
      return in_a_row(std::move(frame), std::move(of_reduction));
    }
  }
  if (const TensorParts* missing = first_impossible(of_ranks)) {
    return *missing;
  }
  TensorParts frame;
  frame.kind = Kind::summed;
  return in_a_row(std::move(frame), std::move(of_ranks));
}

TensorParts joined(const Classification& classification, std::vector<TensorParts> of_ranks) {
  if (!classification.dimension || classification.pieces.empty()) {
    return impossible("the ranks have parts of it, but it is not known along which dimension it is split");
  }
  if (const TensorParts* missing = first_impossible(of_ranks)) {
    return *missing;
  }
  TensorParts frame;
  frame.kind = Kind::joined;
  frame.dimension = *classification.dimension;
  frame.padded = classification.may_be_padded;
  // Only the ranks that have a piece (of keys and values, several ranks may have the same).
  std::vector<std::uint32_t> used;
  for (const Piece& piece : classification.pieces) {
    if (std::find(used.begin(), used.end(), piece.rank) == used.end()) {
      used.push_back(piece.rank);
    }
  }
  std::sort(used.begin(), used.end());
  std::vector<TensorParts> parts;
  parts.reserve(used.size());
  for (const std::uint32_t rank : used) {
    parts.push_back(std::move(of_ranks.at(rank)));
  }
  for (const Piece& piece : classification.pieces) {
    const auto place = std::lower_bound(used.begin(), used.end(), piece.rank) - used.begin();
    frame.runs.push_back({static_cast<std::uint32_t>(place), piece.offset, piece.length});
  }
  return in_a_row(std::move(frame), std::move(parts));
}

}  // namespace

TensorParts whole_of(const Classification& classification, std::vector<TensorParts> of_ranks, std::vector<TensorParts> of_reduction,
                     bool reduction_scatters) {
  if (of_ranks.empty()) {
    return impossible("no rank has it");
  }
  if (classification.kind == ShardKind::replicated || classification.kind == ShardKind::diverged) {
    // The first one that has a file stands for all.
    const auto first = std::find_if(of_ranks.begin(), of_ranks.end(), [](const TensorParts& part) { return part.kind != Kind::none; });
    if (first != of_ranks.end()) {
      std::rotate(of_ranks.begin(), first, first + 1);
    }
  }
  switch (classification.kind) {
    case ShardKind::replicated:
      if (classification.merged.md5) {
        return std::move(of_ranks.front());  // the checksums in the dump are the vote
      }
      [[fallthrough]];
    case ShardKind::diverged:
      return with_votes(std::move(of_ranks), classification.kind == ShardKind::diverged);
    case ShardKind::partial:
      return sum_of(classification, std::move(of_ranks), std::move(of_reduction), reduction_scatters);
    case ShardKind::split:
      return joined(classification, std::move(of_ranks));
    case ShardKind::not_mergeable:
      break;
  }
  return impossible("what the ranks have of it (ids masked to their part of the vocabulary) does not tell the whole");
}

}  // namespace msvis
