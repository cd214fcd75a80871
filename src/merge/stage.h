// One stage of a replica, folded: what travels between processes, or from the reading to the joining in one process.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "merge/tally.h"
#include "merge/tree.h"

namespace msvis {

/// A collection of APIs at the root of one rank.
struct SavedCollection {
  std::uint32_t rank = 0;  ///< index in Forest::ranks
  TreeNode collection;
  std::vector<TreeNode> apis;
};

/// By name.
using SavedCollections = std::map<std::string, std::vector<SavedCollection>>;

struct FoldedStage {
  Forest forest;
  std::uint32_t main = 0;  ///< rank whose tree is the stage
  SavedCollections saved;
  MergeTally tally;
};

std::string pack(const FoldedStage& stage);

/// Adds a packed stage to a forest. Indices and texts are those of `forest` afterwards. Throws Error (internal) for anything that pack did
/// not write.
struct AddedStage {
  std::uint32_t main = 0;
  SavedCollections saved;
  MergeTally tally;
};
AddedStage add_stage(Forest& forest, std::string_view bytes);

}  // namespace msvis
