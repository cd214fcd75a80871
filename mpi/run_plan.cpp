#include "mpi/run_plan.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/bytes.h"

namespace msvis {

std::uint64_t memory_for(std::uint64_t json_bytes) {
  // Two graphs with their texts, and what they grow to while they are compared.
  constexpr std::uint64_t memory_per_json_byte = 6;
  constexpr std::uint64_t memory_of_any_item = std::uint64_t{16} << 20U;
  return json_bytes * memory_per_json_byte + memory_of_any_item;
}

SharedPlan share_of(const WorkPlan& plan, std::size_t open_items, int processes) {
  SharedPlan shared;
  shared.link_ranks = plan.link_ranks;
  shared.tensor_mode = plan.tensor_mode;
  shared.divided = plan.tensor_mode && open_items < static_cast<std::size_t>(processes);
  for (const auto& item : plan.items) {
    shared.world_ranks[item.step].push_back(item.rank);
  }
  return shared;
}

std::string pack(const SharedPlan& shared) {
  ByteWriter out;
  out.put(shared.link_ranks);
  out.put(shared.tensor_mode);
  out.put(shared.divided);
  out.put_all(shared.world_ranks, [](ByteWriter& to, const auto& step) {
    to.put(step.first);
    to.put_all(step.second);
  });
  return out.take();
}

SharedPlan unpack_shared_plan(std::string_view bytes) {
  ByteReader in(bytes);
  SharedPlan shared;
  shared.link_ranks = in.get<bool>();
  shared.tensor_mode = in.get<bool>();
  shared.divided = in.get<bool>();
  const auto steps = in.get_all([](ByteReader& from) {
    const auto step = from.get<std::int64_t>();
    return std::pair(step, from.get_all([](ByteReader& ranks) { return ranks.get<std::int64_t>(); }));
  });
  shared.world_ranks.insert(steps.begin(), steps.end());
  return shared;
}

std::vector<std::uint32_t> shares_of(const std::vector<WorkItem>& items, int processes) {
  std::vector<std::uint32_t> shares(items.size(), 1);
  if (items.empty()) {
    return shares;
  }
  // One process after the other goes to the item whose shares are largest.
  for (auto left = static_cast<std::size_t>(processes) - items.size(); left > 0; --left) {
    std::size_t largest = 0;
    const auto bytes_each = [&](std::size_t item) { return (items[item].tensor_bytes + 1) / shares[item]; };
    for (std::size_t item = 1; item < items.size(); ++item) {
      largest = bytes_each(item) > bytes_each(largest) ? item : largest;
    }
    ++shares[largest];
  }
  return shares;
}

std::string options_json(const RunOptions& options) {
  const auto ranges = [](const Selection& selection) {
    auto all = nlohmann::ordered_json::array();
    for (const auto& [first, last] : selection.ranges) {
      all.push_back({first, last});
    }
    return all;
  };
  nlohmann::ordered_json json;
  json["target_path"] = options.target.string();
  json["golden_path"] = options.golden.string();
  json["output_path"] = options.output.string();
  json["layer_mapping"] = options.layer_mapping;
  json["layer_mapping_file"] = options.layer_mapping_file.string();
  json["overflow_check"] = options.overflow_check;
  json["fuzzy_match"] = options.fuzzy_match;
  if (options.merge) {
    const auto side = [](const MergeSide& sizes) {
      return nlohmann::ordered_json{
          {"rank_size", sizes.rank_size}, {"tp", sizes.tp}, {"pp", sizes.pp}, {"vpp", sizes.vpp}, {"cp", sizes.cp}, {"ep", sizes.ep},
          {"order", sizes.order}};
    };
    json["merge"]["target"] = side(options.merge->target);
    if (options.comparing()) {
      json["merge"]["golden"] = side(options.merge->golden);
    }
  }
  json["compat"] = options.compat == Compat::reference ? "reference" : "standard";
  json["links"] = options.links == LinkMode::extended ? "extended" : "standard";
  json["threads"] = options.threads;
  json["steps"] = ranges(options.steps);
  json["ranks"] = ranges(options.ranks);
  json["ignore_rules"] = options.ignore_rules.string();
  json["metrics"] = options.metrics.string();
  json["fail_on"] = options.fail_on == FailOn::never ? "never" : options.fail_on == FailOn::warning ? "warning" : "error";
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace msvis
