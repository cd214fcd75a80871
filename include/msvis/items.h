// Parameter items: what a node's dump entry says of each of its inputs, outputs, parameters and gradients.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/json.h"

namespace msvis {

enum class ItemState : std::uint8_t { input, output, parameters, parameters_grad, debug };

/// Order of the statistics everywhere.
enum Statistic : std::size_t { stat_max, stat_min, stat_mean, stat_norm };

/// One parameter. All values point into the dump or into the pool that was given at construction; every JsonValue below
/// is present (null where the dump has nothing), except `leaf` and `p2p`.
struct Item {
  std::string_view key;        ///< its key in input_data / output_data
  std::string_view full_name;  ///< file name without the last dotted part, else the structural name
  ItemState state = ItemState::input;
  JsonValue leaf;                  ///< the dump's object; absent for a null item
  JsonValue p2p;                   ///< the P2P operation this is the tensor of; absent otherwise
  JsonValue data_name;             ///< string; "-1" if there is no file
  JsonValue requires_grad;         ///< "True", "False", null, or as the dump has it
  std::array<JsonValue, 4> stats;  ///< Max, Min, Mean, Norm; a boolean scalar argument stays a boolean here, a tensor's becomes a string
  JsonValue dtype;
  JsonValue shape;
  JsonValue md5;
};

/// The items of one node in map order: repeated keys merged (last value, first place).
struct ItemLists {
  std::vector<Item> inputs;
  std::vector<Item> outputs;
};

/// Walks `entry` (absent: no items) by the rules of dump-format section 4. `lists` is cleared first (buffers are reused).
void build_items(std::string_view node_name, JsonValue entry, JsonPool& pool, ItemLists& lists);

/// The members of an item in stored order, before the removals of the result file: the leaf's own members at their places (booleans
/// as the strings True and False, derived values in place), then what had to be added in the fixed order data_name, requires_grad, Max,
/// Min, Mean, Norm, dtype, shape, md5, then class_type, op, peer, tag, group_id of a P2P operation. `state` and `full_op_name` are left
/// out. A null item yields type, Max, Min, Mean, Norm, dtype, shape, md5, value (all null), data_name, requires_grad. `members` is cleared
/// first.
void list_members(const Item& item, std::vector<JsonValue::Member>& members);

}  // namespace msvis
