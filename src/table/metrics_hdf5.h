// The parameter table as an HDF5 file: one data set for each column, a dictionary of strings for each kind of text (docs/metrics.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hdf5/hdf5.h"
#include "table/metrics_pieces.h"

namespace msvis {

/// What the file says of the run as attributes.
struct MetricsFileFacts {
  std::string program_version;
  bool comparing = false;
  std::vector<std::string> modes;  ///< task texts that occur, ascending
};

/// One process, serially. Writes everything into an existing empty file but the rows: attributes, dictionaries, columns of `rows` rows.
/// `used`: bit k for column k of metrics_columns() if it is going to be filled; the others read as their fill values and take no space.
/// Throws Error (io), also when the storage has no room for the rows.
void create_metrics_file(const std::filesystem::path& file, std::uint64_t rows, std::uint64_t used, const TextDictionary& dictionary,
                         const MetricsFileFacts& facts);

/// A file of create_metrics_file, opened for its rows by one process, or by several together under an access list for MPI-IO. Construction,
/// write(), close() and the end are collective then. All functions throw Error (io).
class MetricsColumns {
 public:
  /// `access` and `transfer` are property lists of the library; the latter must live as long as the object.
  MetricsColumns(const std::filesystem::path& file, hid_t access, hid_t transfer);
  ~MetricsColumns();
  MetricsColumns(const MetricsColumns&) = delete;
  MetricsColumns& operator=(const MetricsColumns&) = delete;
  /// `used`: as given to create_metrics_file.
  void open_columns(std::uint64_t used);
  /// Writes the rows of a piece (it may have none). Takes part in the writing of all columns even if one fails, so that no other process
  /// waits in vain; then throws the first fault.
  void write(const PieceRows& piece);
  void close();

 private:
  struct Column {
    const MetricsColumn* what = nullptr;
    hdf5::Handle set;
  };
  void write_values(const Column& column, hsize_t first, hsize_t count, const void* values) const;
  std::filesystem::path name_;
  hid_t transfer_;
  hdf5::Handle file_;
  std::vector<Column> columns_;
};

}  // namespace msvis
