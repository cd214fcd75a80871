// What the values of one entry on the ranks of a parallel group are to each other, and the record of the whole that follows from them. Pure
// functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "msvis/items.h"

namespace msvis {

/// One entry (argument of a node) as one rank recorded it.
struct ShardRecord {
  std::array<std::optional<double>, 4> stats;       ///< by Statistic; empty: missing or no number. A boolean is 0 or 1.
  std::optional<std::vector<std::uint64_t>> shape;  ///< empty: not recorded
  std::string_view dtype;                           ///< as in dump.json
  std::optional<bool> requires_grad;                ///< empty: not recorded
  std::string_view md5;                             ///< empty: none
};

/// Which split joins the ranks of the group.
enum class ParallelAxis : std::uint8_t {
  tensor,
  context,  ///< the sequence, in 2·cp chunks of which rank c has the chunks c and 2·cp-1-c
  expert,   ///< the experts; entries of modules that hold all experts of a rank
};

/// Records of a collective over exactly the group, for entries that are its operand. One record for each rank of the group.
struct Reduction {
  std::vector<ShardRecord> operands;
  std::vector<ShardRecord> outputs;  ///< may be empty (not recorded)
  bool scatters = false;             ///< reduce-scatter: every rank has a slice (along dimension 0) of the result
};

/// Where an entry stands and what is known from its surroundings. What is unknown stays empty; more knowledge makes more entries certain.
struct EntryPlace {
  std::string_view node;      ///< full name of the node
  std::string_view module;    ///< full name of the nearest module at or above it; empty if there is none
  std::string_view argument;  ///< key without the node's name: `input.0`, `parameters.weight`; `weight` of a parameters_grad node
  ItemState state = ItemState::input;
  ParallelAxis axis = ParallelAxis::tensor;
  bool sequence_parallel = false;                          ///< with tensor parallelism, see scatters_sequence
  bool gated = false;                                      ///< the MLP of this layer multiplies with a gate, see names_gated_activation
  std::uint64_t batch = 1;                                 ///< samples of the micro-batch, for tensors that join them with the heads
  std::uint64_t kv_groups = 0;                             ///< heads of keys and values in the whole model; 0: unknown, by the values
  std::optional<std::vector<std::uint64_t>> weight_shape;  ///< of the parameter `weight` of `module` on the first rank
  std::optional<std::vector<std::uint64_t>> result_shape;  ///< of the node's first output on the first rank
  std::optional<std::vector<std::uint64_t>> golden_shape;  ///< of the matched entry of a side that is not split
  const Reduction* reduction = nullptr;                    ///< a reduction whose operand may be this entry
};

enum class ShardKind : std::uint8_t {
  replicated,     ///< the same on all ranks
  partial,        ///< the whole is the sum over the ranks
  split,          ///< the whole is the concatenation along one dimension
  diverged,       ///< should be the same on all ranks but is not
  not_mergeable,  ///< the whole can't be told from the ranks (ids masked to the vocabulary of a rank)
};

/// `replicated`, `partial sum`, `split`, `diverged replica`, `not mergeable`.
std::string_view shard_kind_text(ShardKind kind);

/// A run along the split dimension: `length` from `offset` on of the shard of `rank` (position in the group). In the order of the whole.
struct Piece {
  std::uint32_t rank = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// The whole.
struct MergedRecord {
  std::array<std::optional<double>, 4> stats;  ///< empty: unknown
  std::array<std::optional<std::uint32_t>, 4>
      same_as;  ///< a rank (position in the group) whose own value this is, so that its text can be kept
  std::optional<std::vector<std::uint64_t>> shape;  ///< empty: unknown
  std::optional<std::uint64_t> elements;            ///< empty: unknown
  std::optional<bool> requires_grad;                ///< of the first rank
  std::optional<std::string_view> md5;              ///< only of a replicated entry
};

struct Classification {
  ShardKind kind = ShardKind::replicated;
  std::optional<std::uint32_t> dimension;  ///< with split; empty if it is not known (the statistics are right all the same)
  std::vector<Piece> pieces;    ///< with split along a known dimension; of a scattered reduction, of its outputs along dimension 0
  std::uint64_t padding = 0;    ///< rows at the end of the whole that the golden side does not have (vocabulary padding)
  bool may_be_padded = false;   ///< a vocabulary, split along this dimension
  bool complete = true;         ///< false: statistics of the whole are unknown, see MergedRecord::stats
  bool from_reduction = false;  ///< the statistics are those of the reduction's output
  bool requires_grad_differs = false;
  /// With diverged: largest difference of a statistic between a rank and the first one, and that rank. A lower bound of what the elements
  /// differ.
  double divergence = 0;
  std::uint32_t diverged_rank = 0;
  MergedRecord merged;
};

/// Classifies the entry that the ranks of a group recorded as `records` (at least one; in the order of the group) and combines it.
///
/// The order of decision: a reduction over the group whose operands the records are; the golden side's shape; the classes of Megatron
/// (ColumnParallelLinear, RowParallelLinear, VocabParallelEmbedding, norms, attention, MLP); equality of all records; and for unknown
/// places: records that are alike within 0.1 % are a diverged replica, others are shards along an unknown dimension. What a class splits
/// stays split if all shards are equal, if it is a parameter (biases that are zero) or holds one value only; else it was gathered, or not
/// split at all. What a class replicates but is not equal has diverged. NaN of any rank is NaN in the result, whatever the kind.
///
/// Combination of shards with n_r elements: Mean = Σ n_r·mean_r / Σ n_r; Norm = sqrt(Σ norm_r²), scaled by the largest norm so that it does
/// not overflow. Sums go in the order of the ranks. Throws Error (internal) if there are no records.
Classification classify(const EntryPlace& place, const std::vector<ShardRecord>& records);

/// Whether two records agree in everything that tells values: statistics (NaN equals NaN), shape, dtype, md5.
bool same_record(const ShardRecord& left, const ShardRecord& right);

/// Class of a module node: `Module.0.mlp.linear_fc1.ColumnParallelLinear.forward.0` → `ColumnParallelLinear`; of a parameters_grad node as
/// well. Empty if the name is too short.
std::string_view module_class(std::string_view name);

/// Whether a node below a module tells that the sequence is split over the ranks between the linear layers: a reduce-scatter in a
/// RowParallelLinear forward.
bool scatters_sequence(std::string_view module, std::string_view node);

/// The same by the shapes of a column-parallel linear layer, forward: its first output has `ranks` times the sequence of its first input.
bool gathers_sequence(std::string_view module, const std::optional<std::vector<std::uint64_t>>& input,
                      const std::optional<std::vector<std::uint64_t>>& output, std::size_t ranks);

/// Whether a node is the activation of a gated MLP (swiglu, silu, geglu, ...).
bool names_gated_activation(std::string_view node);

/// Pieces of the whole when every shard, of `sizes[r]` along the dimension, is `blocks` blocks of equal size and the whole has all first
/// blocks, then all second ones: plain concatenation (1), gate and up (2), heads of several samples. Falls back to plain concatenation if a
/// size can't be divided.
std::vector<Piece> block_pieces(const std::vector<std::uint64_t>& sizes, std::uint64_t blocks);

/// Pieces of a sequence in 2·n chunks, of which rank c has c and 2·n-1-c. Falls back to plain concatenation if sizes are odd or unequal.
std::vector<Piece> zigzag_pieces(const std::vector<std::uint64_t>& sizes);

/// Combination of shards whose dimension is known (see classify) or not (shape stays unknown). For callers that know the layout by other
/// means.
MergedRecord combine_split(const std::vector<ShardRecord>& records, std::optional<std::uint32_t> dimension);

}  // namespace msvis
