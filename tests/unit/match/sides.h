// Small dumps and graphs for the tests of matching.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msvis/graph.h"

namespace msvis::test {

/// Name and parent (empty: root).
using Construct = std::vector<std::pair<std::string, std::string>>;

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "msvis-match-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("mkdtemp failed");
    }
    path_ = pattern;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What a dump holds.
struct SideText {
  Construct construct;
  std::vector<std::string> records;                ///< names in dump.json, in order
  std::map<std::string, std::string> record_text;  ///< JSON of single records; `{}` for the others
  std::string stack = R"({"none": ["none"]})";     ///< stack.json; an empty one would switch layer mapping off
  std::string framework = "pytorch";
};

/// A side with a record for every entry of construct.json, then those in `more`.
inline SideText with_records(Construct construct, const std::vector<std::string>& more = {}) {
  SideText side;
  side.construct = std::move(construct);
  for (const auto& [child, parent] : side.construct) {
    side.records.push_back(child);
  }
  side.records.insert(side.records.end(), more.begin(), more.end());
  return side;
}

/// Writes the three files and builds the graph. Names must need no escapes.
inline Graph graph_of(const SideText& side, Compat compat = Compat::reference) {
  const ScratchDirectory directory;
  std::string construct;
  for (const auto& [child, parent] : side.construct) {
    construct.append(construct.empty() ? "" : ",").append("\"").append(child).append("\":");
    construct += parent.empty() ? "null" : "\"" + parent + "\"";
  }
  std::string data;
  for (const std::string& name : side.records) {
    const auto text = side.record_text.find(name);
    data.append(data.empty() ? "" : ",").append("\"").append(name).append("\":");
    data += text == side.record_text.end() ? "{}" : text->second;
  }
  directory.write("construct.json", "{" + construct + "}");
  directory.write("dump.json", R"({"task":"statistics","level":"mix","framework":")" + side.framework +
                                   R"(","dump_data_dir":null,"data":{)" + data + "}}");
  directory.write("stack.json", side.stack);
  return build_graph(Dump::read(directory.path()), compat);
}

/// Name of the partner of a node; "" if it has none, "?" if there is no such node.
inline std::string partner(const Graph& graph, const Graph& other, std::string_view name) {
  const auto found = graph.by_name.find(name);
  if (found == graph.by_name.end()) {
    return "?";
  }
  const std::uint32_t link = graph.nodes[found->second].link;
  return link == no_node ? "" : std::string(other.nodes[link].name);
}

}  // namespace msvis::test
