#include "table/metrics_hdf5.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <limits>
#include <new>
#include <system_error>

#include "msvis/error.h"

namespace msvis {
namespace {

using hdf5::check;
using hdf5::Handle;

constexpr std::uint64_t strings_at_once = 1U << 14U;

/// Calls `use` with the type that a column has in memory, and the value that stands for "none".
template <typename Use>
auto with_type(const MetricsColumn& column, Use&& use) {
  switch (column.type) {
    case MetricsColumn::Type::step:
    case MetricsColumn::Type::rank:
      return use(std::int64_t{0});
    case MetricsColumn::Type::node_order:
    case MetricsColumn::Type::position:
    case MetricsColumn::Type::text:
      return use(std::uint32_t{0});
    case MetricsColumn::Type::md5_equal:
      return use(std::int8_t{-1});
    case MetricsColumn::Type::number:
      return use(std::numeric_limits<double>::quiet_NaN());
    case MetricsColumn::Type::checksum:
      break;
  }
  return use(std::array<char, checksum_bytes>{});
}

Handle memory_type(const MetricsColumn& column, const std::filesystem::path& file) {
  const auto copy = [&](hid_t type) { return Handle(H5Tcopy(type), H5Tclose, "preparing a type", file); };
  switch (column.type) {
    case MetricsColumn::Type::step:
    case MetricsColumn::Type::rank:
      return copy(H5T_NATIVE_INT64);
    case MetricsColumn::Type::node_order:
    case MetricsColumn::Type::position:
    case MetricsColumn::Type::text:
      return copy(H5T_NATIVE_UINT32);
    case MetricsColumn::Type::md5_equal:
      return copy(H5T_NATIVE_INT8);
    case MetricsColumn::Type::number:
      return copy(H5T_NATIVE_DOUBLE);
    case MetricsColumn::Type::checksum:
      break;
  }
  Handle text = copy(H5T_C_S1);
  check(H5Tset_size(text.id(), checksum_bytes), "preparing a type", file);
  check(H5Tset_strpad(text.id(), H5T_STR_NULLPAD), "preparing a type", file);
  check(H5Tset_cset(text.id(), H5T_CSET_UTF8), "preparing a type", file);
  return text;
}

/// The same bytes on every machine.
Handle file_type(const MetricsColumn& column, const std::filesystem::path& file) {
  const auto copy = [&](hid_t type) { return Handle(H5Tcopy(type), H5Tclose, "preparing a type", file); };
  switch (column.type) {
    case MetricsColumn::Type::step:
    case MetricsColumn::Type::rank:
      return copy(H5T_STD_I64LE);
    case MetricsColumn::Type::node_order:
    case MetricsColumn::Type::position:
    case MetricsColumn::Type::text:
      return copy(H5T_STD_U32LE);
    case MetricsColumn::Type::md5_equal:
      return copy(H5T_STD_I8LE);
    case MetricsColumn::Type::number:
      return copy(H5T_IEEE_F64LE);
    case MetricsColumn::Type::checksum:
      break;
  }
  return memory_type(column, file);
}

Handle string_type(const std::filesystem::path& file) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "preparing a type", file);
  check(H5Tset_size(type.id(), H5T_VARIABLE), "preparing a type", file);
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "preparing a type", file);
  return type;
}

Handle space_of(hsize_t size, const std::filesystem::path& file) {
  return {H5Screate_simple(1, &size, nullptr), H5Sclose, "preparing a data space", file};
}

void put_attribute(hid_t object, const char* name, hid_t type, const void* value, const std::filesystem::path& file) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, "preparing a data space", file);
  const Handle attribute(H5Acreate2(object, name, type, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, "creating an attribute", file);
  check(H5Awrite(attribute.id(), type, value), "writing an attribute", file);
}

void put_attribute(hid_t object, const char* name, std::string_view text, const std::filesystem::path& file) {
  const std::string terminated(text);
  const char* pointer = terminated.c_str();
  put_attribute(object, name, string_type(file).id(), &pointer, file);
}

void put_attribute(hid_t object, const char* name, std::int64_t number, const std::filesystem::path& file) {
  put_attribute(object, name, H5T_NATIVE_INT64, &number, file);
}

void put_attribute(hid_t object, const char* name, const std::vector<std::string>& texts, const std::filesystem::path& file) {
  std::vector<const char*> pointers(texts.size());
  std::transform(texts.begin(), texts.end(), pointers.begin(), [](const std::string& text) { return text.c_str(); });
  const Handle type = string_type(file);
  const Handle space = space_of(pointers.size(), file);
  const Handle attribute(H5Acreate2(object, name, type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, "creating an attribute",
                         file);
  if (!pointers.empty()) {
    check(H5Awrite(attribute.id(), type.id(), static_cast<const void*>(pointers.data())), "writing an attribute", file);
  }
}

/// Without the time of day, so that the same table gives the same file.
Handle creation_list(const std::filesystem::path& file) {
  Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "preparing a data set", file);
  check(H5Pset_obj_track_times(list.id(), false), "preparing a data set", file);
  return list;
}

void write_dictionary(hid_t group, TextKind kind, const TextDictionary& dictionary, const std::filesystem::path& file) {
  const std::string name(text_kind_names[static_cast<std::size_t>(kind)]);
  const std::uint64_t size = dictionary.size(kind);
  const Handle type = string_type(file);
  const Handle space = space_of(size, file);
  const Handle set(H5Dcreate2(group, name.c_str(), type.id(), space.id(), H5P_DEFAULT, creation_list(file).id(), H5P_DEFAULT), H5Dclose,
                   "creating the dictionary " + name, file);
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
  for (std::uint64_t first = 0; first < size; first += strings_at_once) {
    const hsize_t count = std::min(strings_at_once, size - first);
    texts.clear();
    pointers.clear();
    for (std::uint64_t k = 0; k < count; ++k) {
      texts.emplace_back(dictionary.text(kind, first + k));
    }
    for (const std::string& text : texts) {
      pointers.push_back(text.c_str());
    }
    const Handle memory = space_of(count, file);
    const hsize_t start = first;
    check(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, &start, nullptr, &count, nullptr), "choosing a part of a dictionary", file);
    check(H5Dwrite(set.id(), type.id(), memory.id(), space.id(), H5P_DEFAULT, static_cast<const void*>(pointers.data())),
          "writing the dictionary " + name, file);
  }
}

void create_column(hid_t group, const MetricsColumn& column, std::uint64_t rows, bool used, const std::filesystem::path& file) {
  const std::string name(column.name);
  const Handle type = file_type(column, file);
  const Handle space = space_of(rows, file);
  const Handle creation = creation_list(file);
  // A column without values takes no space and reads as its fill value; of the others every row is written.
  check(H5Pset_alloc_time(creation.id(), used ? H5D_ALLOC_TIME_EARLY : H5D_ALLOC_TIME_LATE), "preparing a column", file);
  check(H5Pset_fill_time(creation.id(), used ? H5D_FILL_TIME_NEVER : H5D_FILL_TIME_IFSET), "preparing a column", file);
  const Handle in_memory = memory_type(column, file);
  with_type(column,
            [&](const auto& none) { return check(H5Pset_fill_value(creation.id(), in_memory.id(), &none), "preparing a column", file); });
  const Handle set(H5Dcreate2(group, name.c_str(), type.id(), space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT), H5Dclose,
                   "creating the column " + name, file);
  put_attribute(set.id(), "description", column.meaning, file);
  if (!column.unit.empty()) {
    put_attribute(set.id(), "unit", column.unit, file);
  }
  if (column.type == MetricsColumn::Type::text) {
    put_attribute(set.id(), "dictionary",
                  "/dictionary/" + std::string(text_kind_names[static_cast<std::size_t>(kind_of_text[column.index])]), file);
  }
}

/// Takes the room for all rows, so that a full disk shows before several processes write together.
void reserve_storage(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  int error = descriptor < 0 || ::fstat(descriptor, &status) != 0 ? errno : 0;
  if (error == 0 && status.st_size > 0 && ::fallocate(descriptor, 0, 0, status.st_size) != 0) {
    error = errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL ? 0 : errno;  // not every file system can
  }
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  if (error != 0) {
    throw Error(ErrorCategory::io, "there is no room for the rows: " + std::generic_category().message(error), file);
  }
}

/// The values of a column as they lie in memory.
template <typename Value>
Value value_of(const PieceRows::Item& item, const MetricsColumn& column) {
  const MetricsRow& row = item.row;
  if constexpr (std::is_same_v<Value, std::int64_t>) {
    return column.type == MetricsColumn::Type::step ? item.step : item.rank;
  } else if constexpr (std::is_same_v<Value, std::uint32_t>) {
    if (column.type == MetricsColumn::Type::node_order) {
      return row.node_order;
    }
    return column.type == MetricsColumn::Type::position ? row.position : row.texts[column.index];
  } else if constexpr (std::is_same_v<Value, std::int8_t>) {
    return row.md5_equal;
  } else if constexpr (std::is_same_v<Value, double>) {
    return row.numbers[column.index];
  } else {
    return row.checksums[column.index];
  }
}

}  // namespace

void create_metrics_file(const std::filesystem::path& file, std::uint64_t rows, std::uint64_t used, const TextDictionary& dictionary,
                         const MetricsFileFacts& facts) {
  const auto lock = hdf5::lock();
  Handle out = hdf5::create_file(file);
  put_attribute(out.id(), "format", "msvis-metrics", file);
  put_attribute(out.id(), "version", metrics_schema_version, file);
  put_attribute(out.id(), "program_version", facts.program_version, file);
  put_attribute(out.id(), "kind", facts.comparing ? "compare" : "build", file);
  put_attribute(out.id(), "modes", facts.modes, file);
  put_attribute(out.id(), "rows", static_cast<std::int64_t>(rows), file);
  {
    const Handle group(H5Gcreate2(out.id(), "dictionary", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, "creating a group", file);
    for (std::size_t kind = 0; kind < text_kinds; ++kind) {
      write_dictionary(group.id(), static_cast<TextKind>(kind), dictionary, file);
    }
  }
  {
    const Handle group(H5Gcreate2(out.id(), "table", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, "creating a group", file);
    for (std::size_t k = 0; k < metrics_columns().size(); ++k) {
      create_column(group.id(), metrics_columns()[k], rows, (used >> k & 1U) != 0, file);
    }
  }
  out.close("closing the file", file);
  reserve_storage(file);
}

MetricsColumns::MetricsColumns(const std::filesystem::path& file, hid_t access, hid_t transfer) : name_(file), transfer_(transfer) {
  const auto lock = hdf5::lock();
  file_ = Handle(H5Fopen(file.c_str(), H5F_ACC_RDWR, access), H5Fclose, "opening the file for its rows", file);
}

void MetricsColumns::open_columns(std::uint64_t used) {
  const auto lock = hdf5::lock();
  for (std::size_t k = 0; k < metrics_columns().size(); ++k) {
    if ((used >> k & 1U) != 0) {
      const MetricsColumn& column = metrics_columns()[k];
      const std::string path = "/table/" + std::string(column.name);
      columns_.push_back({&column, Handle(H5Dopen2(file_.id(), path.c_str(), H5P_DEFAULT), H5Dclose, "opening the column " + path, name_)});
    }
  }
}

MetricsColumns::~MetricsColumns() {
  const auto lock = hdf5::lock();
  columns_.clear();
  file_ = hdf5::Handle();
}

void MetricsColumns::write(const PieceRows& piece) {
  const auto lock = hdf5::lock();
  std::exception_ptr fault;
  const auto note_fault = [&fault] {
    if (!fault) {
      fault = std::current_exception();
    }
  };
  for (const Column& column : columns_) {
    with_type(*column.what, [&](auto none) {
      std::vector<decltype(none)> values;
      try {
        values.reserve(piece.rows.size());
        for (const PieceRows::Item& item : piece.rows) {
          values.push_back(value_of<decltype(none)>(item, *column.what));
        }
      } catch (const std::bad_alloc&) {
        note_fault();
        values.clear();
      }
      try {
        write_values(column, piece.first_row, values.size(), values.data());
      } catch (const Error&) {
        note_fault();
      }
    });
  }
  if (fault) {
    std::rethrow_exception(fault);
  }
}

void MetricsColumns::write_values(const Column& column, hsize_t first, hsize_t count, const void* values) const {
  const Handle space(H5Dget_space(column.set.id()), H5Sclose, "preparing rows", name_);
  const Handle memory = space_of(count, name_);
  const Handle type = memory_type(*column.what, name_);
  check(count == 0 ? H5Sselect_none(space.id()) : H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, &first, nullptr, &count, nullptr),
        "choosing rows", name_);
  check(H5Dwrite(column.set.id(), type.id(), memory.id(), space.id(), transfer_, values), "writing rows (is there room on that storage?)",
        name_);
}

void MetricsColumns::close() {
  const auto lock = hdf5::lock();
  columns_.clear();
  file_.close("closing the file", name_);
}

}  // namespace msvis
