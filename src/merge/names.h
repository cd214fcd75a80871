// Names of nodes in merged graphs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace msvis {

inline constexpr std::string_view collection_prefix = "Apis_Between_Modules.";
inline constexpr std::string_view all_ranks_prefix = "Apis_Between_Modules_All_Ranks.";
inline constexpr std::string_view rank_collection_prefix = "Apis_Between_Modules_Rank";

/// The name with `_rank{rank}` behind its second dot-separated field: `Torch.sum.0.forward` is `Torch.sum_rank1.0.forward`.
std::string with_rank(std::string_view name, std::int64_t rank);

/// Where `layers.<digits>.` or `layer.<digits>.` stands, from `from` on: the place and size of the digits.
struct LayerNumber {
  std::size_t at = 0;
  std::size_t size = 0;
};
std::optional<LayerNumber> find_layer_number(std::string_view name, std::size_t from = 0);

/// Every layer number in the name replaced by `number` (which may be empty).
std::string with_layer_number(std::string_view name, std::string_view number);

/// Number of `Apis_Between_Modules_Rank{n}.k`, of `x_rank{n}.y`; nothing if the name has no such part.
std::optional<std::int64_t> rank_of_collection(std::string_view name);
struct RankSuffix {
  std::size_t at = 0;  ///< of the digits
  std::size_t size = 0;
  std::int64_t rank = 0;
};
std::optional<RankSuffix> find_rank_suffix(std::string_view name);

/// `n`-th dot-separated field from the end (1: the last); empty if there are fewer.
std::string_view field_from_end(std::string_view name, std::size_t n);

}  // namespace msvis
