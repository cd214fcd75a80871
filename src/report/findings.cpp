#include "report/findings.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace msvis {
namespace {

/// How far a row is off, and 0 where that has no number.
double badness_of(const Row& row, CompareMode mode) {
  if (mode == CompareMode::summary && row.cells.size() > norm_relative_cell && row.cells[norm_relative_cell].kind == Cell::Kind::percent) {
    const double value = row.cells[norm_relative_cell].value / 100;
    return value == value ? value : 0;
  }
  if (mode == CompareMode::tensor && row.cells.size() > cosine_cell && row.cells[cosine_cell].kind == Cell::Kind::number) {
    return 1 - row.cells[cosine_cell].value;
  }
  return 0;
}

bool is_earlier(const NodeFinding& left, const NodeFinding& right) {
  return std::tie(left.step, left.node_order, left.rank) < std::tie(right.step, right.node_order, right.rank);
}

bool inputs_pass(const Graph& target, const NodeRows& node) {
  return std::all_of(node.rows.begin(), node.rows.end(), [&target](const Row& row) {
    return target.items[row.target_item].state == ItemState::output || row.level == Level::pass;
  });
}

NodeFinding describe(const Graph& target, const NodeRows& node, CompareMode mode) {
  NodeFinding finding;
  finding.node = target.nodes[node.node].name;
  finding.precision = target.nodes[node.node].precision;
  const Row* worst = nullptr;
  for (const Row& row : node.rows) {
    const double badness = badness_of(row, mode);
    if (worst == nullptr || std::pair(row.level, badness) > std::pair(worst->level, badness_of(*worst, mode))) {
      worst = &row;
    }
    finding.badness = std::max(finding.badness, badness);
  }
  if (worst != nullptr) {
    finding.parameter = target.items[worst->target_item].key;
    finding.message = worst->messages.empty() ? "" : worst->messages.front();
  }
  return finding;
}

void keep_worst(std::vector<NodeFinding>& list) {
  std::sort(list.begin(), list.end(), is_worse);
  if (list.size() > Findings::max_worst) {
    list.resize(Findings::max_worst);
  }
}

void put_node(ByteWriter& out, const NodeFinding& finding) {
  out.put(finding.step);
  out.put(finding.rank);
  out.put(finding.node_order);
  out.put(finding.node);
  out.put(finding.precision);
  out.put(finding.badness);
  out.put(finding.parameter);
  out.put(finding.message);
}

NodeFinding get_node(ByteReader& in) {
  NodeFinding finding;
  finding.step = in.get<std::int64_t>();
  finding.rank = in.get<std::int64_t>();
  finding.node_order = in.get<std::uint32_t>();
  finding.node = in.get_string();
  finding.precision = in.get<Precision>();
  finding.badness = in.get<double>();
  finding.parameter = in.get_string();
  finding.message = in.get_string();
  return finding;
}

void put_counts(ByteWriter& out, const std::map<std::string, std::uint64_t>& counts) {
  out.put_all(counts, [](ByteWriter& writer, const auto& entry) {
    writer.put(entry.first);
    writer.put(entry.second);
  });
}

std::map<std::string, std::uint64_t> get_counts(ByteReader& in) {
  std::map<std::string, std::uint64_t> counts;
  for (auto& [name, count] : in.get_all([](ByteReader& reader) {
         std::string name = reader.get_string();
         return std::pair(std::move(name), reader.get<std::uint64_t>());
       })) {
    counts[name] = count;
  }
  return counts;
}

/// The plain counters, for everything that treats them alike.
constexpr std::array counters{&Findings::target_nodes,
                              &Findings::golden_nodes,
                              &Findings::matched,
                              &Findings::unmatched,
                              &Findings::golden_unmatched,
                              &Findings::passed,
                              &Findings::warned,
                              &Findings::failed,
                              &Findings::without_data,
                              &Findings::parameters_compared,
                              &Findings::parameters_target_only,
                              &Findings::parameters_golden_only,
                              &Findings::structures,
                              &Findings::tensors_compared,
                              &Findings::tensor_bytes};

/// The target nodes that count, by node_order.
std::vector<std::uint32_t> counted_nodes(const Graph& target, const std::vector<bool>* owned) {
  std::vector<std::uint32_t> nodes = target.order;
  if (owned != nullptr) {
    std::erase_if(nodes, [owned](std::uint32_t index) { return !(*owned)[index]; });
  }
  return nodes;
}

constexpr std::array durations{&Findings::read_seconds, &Findings::compare_seconds, &Findings::encode_seconds};

void count_nodes(Findings& findings, const Graph& target, const std::vector<std::uint32_t>& nodes) {
  findings.target_nodes = nodes.size();
  for (const std::uint32_t index : nodes) {
    const Node& node = target.nodes[index];
    if (node.overflow != Overflow::none) {
      ++findings.overflow_levels[std::string(overflow_text(node.overflow))];
    }
  }
}

void count_golden(Findings& findings, const Graph& golden) {
  findings.golden_nodes = golden.order.size();
  for (const std::uint32_t index : golden.order) {
    findings.golden_unmatched += golden.nodes[index].link == no_node ? 1U : 0U;
  }
}

void count_matches(Findings& findings, const Graph& target, const std::vector<std::uint32_t>& nodes) {
  for (const std::uint32_t index : nodes) {
    const Node& node = target.nodes[index];
    ++(node.link == no_node ? findings.unmatched : findings.matched);
    if (node.type == NodeType::api_collection) {
      continue;
    }
    switch (node.precision) {
      case Precision::none:
        findings.without_data += node.link == no_node ? 0U : 1U;
        break;
      case Precision::pass:
        ++findings.passed;
        break;
      case Precision::warning:
        ++findings.warned;
        break;
      case Precision::error:
        ++findings.failed;
        break;
    }
  }
}

}  // namespace

bool is_worse(const NodeFinding& left, const NodeFinding& right) {
  if (left.precision != right.precision) {
    return left.precision > right.precision;
  }
  if (left.badness != right.badness) {
    return left.badness > right.badness;
  }
  return std::tie(left.step, left.rank, left.node_order) < std::tie(right.step, right.rank, right.node_order);
}

void Findings::merge(const Findings& other) {
  for (const auto counter : counters) {
    this->*counter += other.*counter;
  }
  for (const auto duration : durations) {
    this->*duration += other.*duration;
  }
  for (const auto& [reason, count] : other.tensors_skipped) {
    tensors_skipped[reason] += count;
  }
  for (const auto& [level, count] : other.overflow_levels) {
    overflow_levels[level] += count;
  }
  merging.add(other.merging);
  worst.insert(worst.end(), other.worst.begin(), other.worst.end());
  keep_worst(worst);
  if (other.first_divergence && (!first_divergence || is_earlier(*other.first_divergence, *first_divergence))) {
    first_divergence = other.first_divergence;
  }
}

void put(ByteWriter& out, const Findings& findings) {
  for (const auto counter : counters) {
    out.put(findings.*counter);
  }
  for (const auto duration : durations) {
    out.put(findings.*duration);
  }
  put_counts(out, findings.tensors_skipped);
  put_counts(out, findings.overflow_levels);
  put_counts(out, findings.merging.entries);
  put_counts(out, findings.merging.finding_counts);
  out.put_all(findings.merging.findings);
  out.put_all(findings.worst, put_node);
  out.put(findings.first_divergence.has_value());
  if (findings.first_divergence) {
    put_node(out, *findings.first_divergence);
  }
}

Findings get_findings(ByteReader& in) {
  Findings findings;
  for (const auto counter : counters) {
    findings.*counter = in.get<std::uint64_t>();
  }
  for (const auto duration : durations) {
    findings.*duration = in.get<double>();
  }
  findings.tensors_skipped = get_counts(in);
  findings.overflow_levels = get_counts(in);
  findings.merging.entries = get_counts(in);
  findings.merging.finding_counts = get_counts(in);
  findings.merging.findings = in.get_all([](ByteReader& reader) { return reader.get_string(); });
  findings.worst = in.get_all(get_node);
  if (in.get<bool>()) {
    findings.first_divergence = get_node(in);
  }
  return findings;
}

Findings find_in_pair(const Graph& target, const Graph* golden, const Comparison* comparison, std::int64_t step, std::int64_t rank,
                      const std::vector<bool>* owned, bool with_golden) {
  Findings findings;
  const std::vector<std::uint32_t> nodes = counted_nodes(target, owned);
  count_nodes(findings, target, nodes);
  if (golden == nullptr || comparison == nullptr) {
    return findings;
  }
  count_matches(findings, target, nodes);
  if (with_golden) {
    count_golden(findings, *golden);
    findings.parameters_golden_only = comparison->golden_only_items;
    findings.structures = comparison->mode == CompareMode::structure ? 1 : 0;
  }
  std::vector<std::uint32_t> place(target.nodes.size(), 0);
  for (std::uint32_t order = 0; order < target.order.size(); ++order) {
    place[target.order[order]] = order;
  }
  for (const NodeRows& node : comparison->rows) {
    for (const Row& row : node.rows) {
      ++(row.golden_item == no_node ? findings.parameters_target_only : findings.parameters_compared);
      if (row.tensor && row.golden_item != no_node) {
        if (row.tensor->skipped.empty()) {
          ++findings.tensors_compared;
          findings.tensor_bytes += row.tensor->bytes;
        } else {
          ++findings.tensors_skipped[row.tensor->skipped];
        }
      }
    }
    if (target.nodes[node.node].precision < Precision::warning) {
      continue;
    }
    NodeFinding finding = describe(target, node, comparison->mode);
    finding.step = step;
    finding.rank = rank;
    finding.node_order = place[node.node];
    if (inputs_pass(target, node) && (!findings.first_divergence || is_earlier(finding, *findings.first_divergence))) {
      findings.first_divergence = finding;
    }
    findings.worst.push_back(std::move(finding));
    if (findings.worst.size() >= 4096) {
      keep_worst(findings.worst);
    }
  }
  keep_worst(findings.worst);
  return findings;
}

}  // namespace msvis
