// The dump of a merged graph as JSON files (merge rules, section 12).
#pragma once

#include <filesystem>

#include "msvis/graph.h"
#include "msvis/options.h"

namespace msvis {

/// Writes construct.json, stack.json and dump.json of a merged graph into `directory`, which is made with its parents. A file gets its name
/// when it is complete. With Compat::reference an entry that the main rank's dump has is copied from there and only the statistics of its
/// direct inputs and outputs are those of the graph; other entries lose nested items and parameters. Else all entries hold what the graph
/// holds. Throws Error (io) naming the file.
void export_dump(const Graph& graph, Compat compat, const std::filesystem::path& directory);

}  // namespace msvis
