// The last phase of a run with --metrics: from the rows that were stored beside the result to the file that was asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "mpi/transport.h"
#include "table/metrics_hdf5.h"
#include "table/metrics_spill.h"

namespace msvis {

struct MetricsExportHooks {
  /// The idle check of the transport; called by process 0 again and again.
  std::function<void()> idle;
  /// Each process, before a piece: a fault for which all shall stop, if there is one.
  std::function<std::optional<Fault>()> stop_wanted;
  /// Process 0, main thread: the name of the file while it is written; empty: it has its final name, or is gone.
  std::function<void(const std::filesystem::path& temporary)> writing;
};

struct MetricsExportLimits {
  /// Packed rows that a process decodes and writes at once; in memory they take about twice that. At least one block.
  std::uint64_t piece_bytes = std::uint64_t{8} << 20U;
  /// Pieces for all processes, which process 0 holds before they leave.
  std::uint64_t round_bytes = std::uint64_t{128} << 20U;
};

/// Collective. Writes all rows of `spill` (process 0; null elsewhere) to `file`: CSV by process 0 alone if the name ends in .csv, else HDF5
/// by all processes together, each with bounded pieces at a time. Nothing is left behind when it fails. Returns the number of rows (process
/// 0). Throws AgreedError.
std::uint64_t export_metrics(Transport& transport, const MetricsSpill* spill, const std::filesystem::path& file,
                             const MetricsFileFacts& facts, const MetricsExportHooks& hooks, const MetricsExportLimits& limits = {});

}  // namespace msvis
