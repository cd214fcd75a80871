#include "mpi/node_resources.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "base/bytes.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_cores = 8192;

std::vector<bool> own_cores() {
  std::array<cpu_set_t, most_cores / CPU_SETSIZE> sets{};
  std::vector<bool> cores;
  if (sched_getaffinity(0, sizeof sets, sets.data()) == 0) {
    for (std::size_t core = 0; core < most_cores; ++core) {
      if (CPU_ISSET(core % CPU_SETSIZE, &sets[core / CPU_SETSIZE])) {
        cores.resize(core + 1, false);
        cores[core] = true;
      }
    }
  } else {
    cores.resize(std::max(1U, std::thread::hardware_concurrency()), true);
  }
  return cores;
}

// First number of a file; nothing if there is none (`max`).
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// Value behind a key at the start of a line.
std::optional<std::uint64_t> value_in(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  std::string word;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::uint64_t value = 0;
    if (words >> word && word == key && words >> value) {
      return value;
    }
  }
  return std::nullopt;
}

// The control group (version 2) of this process and those around it, innermost first.
std::vector<fs::path> control_groups() {
  std::vector<fs::path> groups;
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) {
      const fs::path root = "/sys/fs/cgroup";
      for (fs::path group = fs::path(line.substr(4)).lexically_normal();; group = group.parent_path()) {
        groups.push_back(root / group);
        if (group.empty() || group == ".") {
          break;
        }
      }
    }
  }
  return groups;
}

}  // namespace

ProcessResources own_resources() {
  ProcessResources resources;
  resources.cores = own_cores();
  resources.available_memory = value_in("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  for (const auto& group : control_groups()) {
    if (const auto limit = number_in(group / "memory.max")) {
      // Pages of files can be dropped when memory is needed.
      const std::uint64_t used = number_in(group / "memory.current").value_or(0);
      const std::uint64_t files = value_in(group / "memory.stat", "inactive_file").value_or(0);
      const std::uint64_t taken = used - std::min(used, files);
      const std::uint64_t left = *limit - std::min(*limit, taken);
      resources.available_memory = resources.available_memory == 0 ? left : std::min(resources.available_memory, left);
    }
    std::ifstream quota_file(group / "cpu.max");
    double quota = 0;
    double period = 0;
    if (quota_file >> quota >> period && quota > 0 && period > 0) {
      const auto cores = static_cast<unsigned>(std::min(std::ceil(quota / period), static_cast<double>(most_cores)));
      resources.core_quota = resources.core_quota == 0 ? cores : std::min(resources.core_quota, cores);
    }
  }
  return resources;
}

std::string pack(const ProcessResources& resources) {
  ByteWriter out;
  std::vector<std::uint8_t> bits((resources.cores.size() + 7) / 8);
  for (std::size_t core = 0; core < resources.cores.size(); ++core) {
    if (resources.cores[core]) {
      bits[core / 8] = static_cast<std::uint8_t>(bits[core / 8] | (1U << (core % 8)));
    }
  }
  out.put_all(bits);
  out.put(resources.core_quota);
  out.put(resources.available_memory);
  return out.take();
}

ProcessResources unpack_process_resources(std::string_view bytes) {
  ByteReader in(bytes);
  ProcessResources resources;
  for (const auto bits : in.get_all([](ByteReader& reader) { return reader.get<std::uint8_t>(); })) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      resources.cores.push_back(((bits >> bit) & 1U) != 0);
    }
  }
  resources.core_quota = in.get<unsigned>();
  resources.available_memory = in.get<std::uint64_t>();
  return resources;
}

std::vector<NodeResources> combine_by_node(const std::vector<ProcessResources>& all, const std::vector<int>& node_of) {
  std::vector<NodeResources> nodes;
  std::vector<std::vector<bool>> cores;
  std::vector<unsigned> quotas;
  for (std::size_t process = 0; process < all.size(); ++process) {
    const auto number = static_cast<std::size_t>(node_of[process]);
    if (nodes.size() <= number) {
      nodes.resize(number + 1);
      cores.resize(number + 1);
      quotas.resize(number + 1, 0);
    }
    auto& node = nodes[number];
    const auto& own = all[process];
    ++node.processes;
    cores[number].resize(std::max(cores[number].size(), own.cores.size()), false);
    for (std::size_t core = 0; core < own.cores.size(); ++core) {
      cores[number][core] = cores[number][core] || own.cores[core];
    }
    if (own.core_quota > 0) {
      quotas[number] = std::max(quotas[number], own.core_quota);
    }
    if (own.available_memory > 0) {
      node.available_memory = node.available_memory == 0 ? own.available_memory : std::min(node.available_memory, own.available_memory);
    }
  }
  for (std::size_t number = 0; number < nodes.size(); ++number) {
    auto count = static_cast<unsigned>(std::count(cores[number].begin(), cores[number].end(), true));
    if (quotas[number] > 0) {
      count = std::min(count, quotas[number]);
    }
    nodes[number].cores = std::max(1U, count);
  }
  return nodes;
}

unsigned default_threads(const NodeResources& node, unsigned position) {
  const unsigned processes = std::max(1U, node.processes);
  return std::max(1U, node.cores / processes + (position < node.cores % processes ? 1 : 0));
}

std::vector<NodeResources> gather_nodes(Transport& transport) {
  const auto texts = transport.gather_all(pack(own_resources()), "asking the nodes for their cores and memory");
  std::vector<ProcessResources> all;
  std::vector<int> node_of;
  for (std::size_t process = 0; process < texts.size(); ++process) {
    all.push_back(unpack_process_resources(texts[process]));
    node_of.push_back(transport.node_of(static_cast<int>(process)));
  }
  return combine_by_node(all, node_of);
}

}  // namespace msvis
