// Two tiny dumps and their comparison.
#pragma once

#include <string>
#include <string_view>

#include "compare/compare.h"
#include "match/match.h"
#include "support/dump_files.h"

namespace msvis::test {

/// A dump whose construct lists `names` (JSON array members) below the root and whose data is `data`.
inline Dump dump_of(std::string_view data, std::string_view construct,
                    std::string_view head = R"("task": "statistics", "framework": "pytorch")") {
  const TemporaryDirectory dir;
  write_dump(dir.path(), construct, "{" + std::string(head) + ", \"data\": " + std::string(data) + "}");
  return Dump::read(dir.path());
}

struct Pair {
  Graph target;
  Graph golden;
  Comparison comparison;

  [[nodiscard]] const std::vector<Row>& rows(std::string_view node) const {
    static const std::vector<Row> none;
    const std::uint32_t index = target.find(node);
    for (const NodeRows& candidate : comparison.rows) {
      if (candidate.node == index) {
        return candidate.rows;
      }
    }
    return none;
  }
  [[nodiscard]] Precision precision(std::string_view node) const { return target.nodes[target.find(node)].precision; }
};

/// One node called `name` on either side, with the given entries.
inline Pair compare_entries(std::string_view name, std::string_view target, std::string_view golden,
                            CompareMode mode = CompareMode::summary, Compat compat = Compat::standard) {
  const std::string construct = "{\"" + std::string(name) + "\": null}";
  const auto data = [&](std::string_view entry) { return "{\"" + std::string(name) + "\": " + std::string(entry) + "}"; };
  Pair pair{build_graph(dump_of(data(target), construct), compat), build_graph(dump_of(data(golden), construct), compat), {}};
  match_exact(pair.target, pair.golden);
  pair.comparison = compare_graphs(pair.target, pair.golden, mode, compat);
  return pair;
}

/// A tensor leaf with the given norm; maximum 1, minimum 0, mean 0.5.
inline std::string tensor(std::string_view norm, std::string_view more = "") {
  return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": )" +
         std::string(norm) + R"(, "requires_grad": false)" + std::string(more) + "}";
}

}  // namespace msvis::test
