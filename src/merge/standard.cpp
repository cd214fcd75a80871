#include "merge/standard.h"

#include <algorithm>
#include <map>
#include <utility>

#include "merge/experts.h"
#include "merge/fold.h"
#include "merge/names.h"
#include "merge/stage.h"
#include "merge/stages.h"

namespace msvis {
namespace {

std::size_t place(Dimension dimension) {
  return static_cast<std::size_t>(dimension);
}

class StageFold {
 public:
  StageFold(const RankGrid& grid, std::int64_t replica, const RankSource& source) : grid_(grid), replica_(replica), source_(source) {}

  FoldedStage run(std::int64_t stage) {
    result_.main = fold(stage);
    return std::move(result_);
  }

 private:
  [[nodiscard]] TreeNode& node(std::uint32_t index) { return forest_.nodes[index]; }

  /// All ranks of a stage of the replica. With expert parallelism those of other replicas that share the experts as well.
  std::uint32_t fold(std::int64_t stage) {
    Coordinates at{};
    at[place(Dimension::dp)] = replica_;
    at[place(Dimension::pp)] = stage;
    const std::vector<std::int64_t> group = grid_.expert_group(grid_.rank(at));
    if (group.size() == 1) {
      return fold_shards(stage, replica_);
    }
    const auto own_place = static_cast<std::size_t>(std::find(group.begin(), group.end(), grid_.rank(at)) - group.begin());
    std::vector<std::uint32_t> parts(group.size());
    parts[own_place] = fold_shards(stage, replica_);
    const auto first = static_cast<std::uint32_t>(forest_.nodes.size());
    std::vector<std::uint32_t> others;
    for (std::size_t expert = 0; expert < group.size(); ++expert) {
      if (expert != own_place) {
        parts[expert] = fold_shards(stage, grid_.coordinates(group[expert])[place(Dimension::dp)]);
        others.push_back(parts[expert]);
      }
    }
    const auto last = static_cast<std::uint32_t>(forest_.nodes.size());
    join_experts(forest_, parts, own_place, result_.tally);
    release(others, first, last);
    return parts[own_place];
  }

  std::uint32_t fold_shards(std::int64_t stage, std::int64_t replica) {
    std::vector<std::uint32_t> parts;
    const auto next_node = [&] { return static_cast<std::uint32_t>(forest_.nodes.size()); };
    std::uint32_t behind_first = 0;
    for (std::int64_t context = 0; context < grid_.size(Dimension::cp); ++context) {
      const std::uint32_t main = read({stage, context, 0, replica}, context == 0 ? KeepPayload::all : KeepPayload::top);
      const std::uint32_t first = next_node();
      std::vector<std::uint32_t> shards;
      for (std::int64_t tensor = 1; tensor < grid_.size(Dimension::tp); ++tensor) {
        shards.push_back(read({stage, context, tensor, replica}, KeepPayload::top));
      }
      const std::uint32_t last = next_node();
      fold_ranks(forest_, main, shards, ParallelAxis::tensor, result_.tally);
      release(shards, first, last);
      behind_first = context == 0 ? next_node() : behind_first;
      parts.push_back(main);
    }
    const std::uint32_t last = next_node();
    const std::span<const std::uint32_t> others = std::span<const std::uint32_t>(parts).subspan(1);
    fold_ranks(forest_, parts.front(), others, ParallelAxis::context, result_.tally);
    release(others, behind_first, last);
    return parts.front();
  }

  struct Place {
    std::int64_t stage;
    std::int64_t context;
    std::int64_t tensor;
    std::int64_t replica;
  };

  std::uint32_t read(const Place& of, KeepPayload keep) {
    Coordinates at{};
    at[place(Dimension::tp)] = of.tensor;
    at[place(Dimension::cp)] = of.context;
    at[place(Dimension::dp)] = of.replica;
    at[place(Dimension::pp)] = of.stage;
    const std::uint32_t index = source_(forest_, grid_.rank(at), keep);
    TreeRank& rank = forest_.ranks[index];
    rank.coordinates = std::to_string(of.tensor) + "." + std::to_string(of.context) + "." + std::to_string(of.stage);
    if (of.replica == replica_) {  // else only its experts count
      save_collections(index);
    } else {
      rank.hint = {};
    }
    return index;
  }

  /// The nodes [first, last) are those of folded ranks.
  void release(std::span<const std::uint32_t> ranks, std::uint32_t first, std::uint32_t last) {
    for (const std::uint32_t rank : ranks) {
      forest_.ranks[rank].created.clear();
      forest_.ranks[rank].by_name.clear();
      forest_.ranks[rank].own_names.clear();
      forest_.ranks[rank].root = no_node;
    }
    forest_.erase_nodes(first, last);
  }

  /// Takes the collections from the root of a rank.
  void save_collections(std::uint32_t rank) {
    const std::uint32_t root = forest_.ranks[rank].root;
    const std::vector<std::uint32_t> children = node(root).children;
    for (const std::uint32_t child : children) {
      if (node(child).type != NodeType::api_collection) {
        continue;
      }
      SavedCollection& saved = result_.saved[std::string(forest_.name(child))].emplace_back();
      saved.rank = rank;
      saved.collection = node(child);
      for (const std::uint32_t api : node(child).children) {
        saved.apis.push_back(node(api));
      }
    }
  }

  const RankGrid& grid_;
  std::int64_t replica_;
  const RankSource& source_;
  FoldedStage result_;
  Forest& forest_ = result_.forest;
};

class StageJoin {
 public:
  StageJoin(Forest& forest, const RankGrid& grid, std::int64_t chunks, MergeTally& tally)
      : forest_(forest), grid_(grid), chunks_(chunks), tally_(tally) {}

  std::uint32_t run(const StageSource& source, std::vector<std::string>& warnings) {
    const auto first = static_cast<std::uint32_t>(forest_.ranks.size());
    std::vector<std::uint32_t> stages;
    for (std::int64_t stage = 0; stage < grid_.size(Dimension::pp); ++stage) {
      AddedStage added = add_stage(forest_, source(stage));
      stages.push_back(added.main);
      tally_.add(added.tally);
      for (auto& [name, saved] : added.saved) {
        auto& all = saved_[name];
        all.insert(all.end(), std::make_move_iterator(saved.begin()), std::make_move_iterator(saved.end()));
      }
    }
    std::map<std::int64_t, GroupHint> hints;
    for (std::size_t rank = first; rank < forest_.ranks.size(); ++rank) {
      hints[forest_.ranks[rank].rank] = forest_.ranks[rank].hint;
    }
    for (std::string& contradiction : group_contradictions(hints, grid_)) {
      warnings.push_back(std::move(contradiction));
    }
    join_stages(forest_, stages.front(), std::span<const std::uint32_t>(stages).subspan(1), chunks_, tally_);
    place_collections(stages.front());
    return stages.front();
  }

 private:
  [[nodiscard]] TreeNode& node(std::uint32_t index) { return forest_.nodes[index]; }

  /// Hangs what was saved to the root, where the first rank has its collections or, if it has none of this number, at the end.
  void place_collections(std::uint32_t main) {
    const std::uint32_t root = forest_.ranks[main].root;
    const std::vector<std::uint32_t> top = node(root).children;
    std::vector<std::uint32_t> children;
    std::uint64_t number = 0;
    const auto place_one = [&](std::vector<SavedCollection> saved, std::string_view index) {
      const std::uint32_t all = forest_.add(main, std::string(all_ranks_prefix) + std::to_string(number++), NodeType::api_collection);
      node(all).parent = root;
      children.push_back(all);
      std::stable_sort(saved.begin(), saved.end(), [this](const SavedCollection& left, const SavedCollection& right) {
        return forest_.ranks[left.rank].rank < forest_.ranks[right.rank].rank;
      });
      for (SavedCollection& of_rank : saved) {
        const std::int64_t rank = forest_.ranks[of_rank.rank].rank;
        const std::string name = std::string(rank_collection_prefix) + std::to_string(rank) + "." + std::string(index);
        const std::uint32_t collection = forest_.add(main, name, NodeType::api_collection);
        node(collection).rank = of_rank.rank;
        node(collection).micro_step = of_rank.collection.micro_step;
        node(all).micro_step = std::max(node(all).micro_step, of_rank.collection.micro_step);
        forest_.append_child(all, collection);
        for (TreeNode& api : of_rank.apis) {
          const std::string_view own(forest_.texts[api.name]);
          const std::uint32_t added = forest_.add(main, of_rank.rank == main ? std::string(own) : with_rank(own, rank), api.type);
          const Text new_name = node(added).name;
          node(added) = std::move(api);
          node(added).name = new_name;
          node(added).children.clear();
          for (auto* entries : {&node(added).inputs, &node(added).outputs}) {
            for (TreeEntry& entry : *entries) {
              entry.source_node = added;
            }
          }
          forest_.append_child(collection, added);
        }
      }
    };
    for (const std::uint32_t child : top) {
      const std::string name(forest_.name(child));
      const auto found = node(child).type == NodeType::api_collection ? saved_.find(name) : saved_.end();
      if (found == saved_.end()) {
        children.push_back(child);
        continue;
      }
      std::vector<SavedCollection> saved = std::move(found->second);
      saved_.erase(found);
      place_one(std::move(saved), std::string_view(name).substr(name.find('.') + 1));
    }
    // Numbers that the first rank has not, ascending.
    std::map<std::pair<std::size_t, std::string>, std::vector<SavedCollection>> rest;
    for (auto& [name, saved] : saved_) {
      rest[{name.size(), name}] = std::move(saved);
    }
    for (auto& [name, saved] : rest) {
      place_one(std::move(saved), std::string_view(name.second).substr(name.second.find('.') + 1));
    }
    node(root).children = std::move(children);
  }

  Forest& forest_;
  const RankGrid& grid_;
  std::int64_t chunks_;
  MergeTally& tally_;
  SavedCollections saved_;
};

}  // namespace

std::string fold_stage(const RankGrid& grid, std::int64_t replica, std::int64_t stage, const RankSource& source) {
  return pack(StageFold(grid, replica, source).run(stage));
}

std::uint32_t merge_standard(Forest& forest, const RankGrid& grid, std::int64_t chunks, const StageSource& source, MergeTally& tally,
                             std::vector<std::string>& warnings) {
  return StageJoin(forest, grid, chunks, tally).run(source, warnings);
}

}  // namespace msvis
