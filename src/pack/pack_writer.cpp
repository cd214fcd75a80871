#include "pack/pack_writer.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "base/parallel.h"
#include "hdf5/hdf5.h"
#include "pack/staging.h"
#include "tensor/checksum.h"
#include "tensor/pack_format.h"

namespace msvis {
namespace {

using hdf5::check;
using hdf5::Handle;

/// Pieces in which payloads are read and written.
constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;
/// Smaller tensors are not compressed: the bookkeeping of HDF5 for chunks takes some KiB.
constexpr std::uint64_t least_compressed_bytes = std::uint64_t{16} << 10;

/// The HDF5 types of elements and of the index.
class Types {
 public:
  explicit Types(const std::filesystem::path& file) : file_(file) {
    for (const DTypeInfo& info : dtype_infos) {
      elements_[static_cast<std::size_t>(info.dtype)] = element(info);
    }
  }

  [[nodiscard]] hid_t of(DType dtype) const { return elements_[static_cast<std::size_t>(dtype)].id(); }

  [[nodiscard]] Handle entry_type() const {
    const Handle kind = enumeration({{"bytes", 0}, {"pt", 1}, {"npy", 2}, {"irregular", 3}});
    std::vector<std::pair<std::string, std::uint8_t>> dtypes;
    dtypes.reserve(dtype_count + 1);
    for (const DTypeInfo& info : dtype_infos) {
      dtypes.emplace_back(info.name, static_cast<std::uint8_t>(info.dtype));
    }
    dtypes.emplace_back("none", PackEntry::no_dtype);
    const Handle dtype = enumeration(dtypes);
    const Handle storage = enumeration({{"contiguous", PackEntry::contiguous}, {"chunked", PackEntry::chunked}});
    Handle type = compound(sizeof(PackEntry));
    insert(type, "name_offset", offsetof(PackEntry, name_offset), H5T_STD_U64LE);
    insert(type, "offset", offsetof(PackEntry, offset), H5T_STD_U64LE);
    insert(type, "bytes", offsetof(PackEntry, bytes), H5T_STD_U64LE);
    insert(type, "file_bytes", offsetof(PackEntry, file_bytes), H5T_STD_U64LE);
    insert(type, "shape_first", offsetof(PackEntry, shape_first), H5T_STD_U64LE);
    insert(type, "chunk_first", offsetof(PackEntry, chunk_first), H5T_STD_U64LE);
    insert(type, "chunk_count", offsetof(PackEntry, chunk_count), H5T_STD_U64LE);
    insert(type, "chunk_rows", offsetof(PackEntry, chunk_rows), H5T_STD_U64LE);
    insert(type, "name_bytes", offsetof(PackEntry, name_bytes), H5T_STD_U32LE);
    insert(type, "crc32", offsetof(PackEntry, crc), H5T_STD_U32LE);
    insert(type, "dimensions", offsetof(PackEntry, dimensions), H5T_STD_U16LE);
    insert(type, "chunk_axis", offsetof(PackEntry, chunk_axis), H5T_STD_U16LE);
    insert(type, "kind", offsetof(PackEntry, kind), kind.id());
    insert(type, "dtype", offsetof(PackEntry, dtype), dtype.id());
    insert(type, "storage", offsetof(PackEntry, storage), storage.id());
    return type;
  }

  [[nodiscard]] Handle chunk_type() const {
    Handle type = compound(sizeof(PackChunk));
    insert(type, "offset", offsetof(PackChunk, offset), H5T_STD_U64LE);
    insert(type, "bytes", offsetof(PackChunk, bytes), H5T_STD_U32LE);
    insert(type, "flags", offsetof(PackChunk, flags), H5T_STD_U32LE);
    return type;
  }

  [[nodiscard]] Handle copy(hid_t type) const { return {H5Tcopy(type), H5Tclose, "making a type", file_}; }

 private:
  [[nodiscard]] Handle compound(std::size_t size) const { return {H5Tcreate(H5T_COMPOUND, size), H5Tclose, "making a type", file_}; }

  void insert(const Handle& type, const char* name, std::size_t offset, hid_t member) const {
    check(H5Tinsert(type.id(), name, offset, member), "making a type", file_);
  }

  [[nodiscard]] Handle enumeration(const std::vector<std::pair<std::string, std::uint8_t>>& values) const {
    Handle type(H5Tenum_create(H5T_STD_U8LE), H5Tclose, "making a type", file_);
    for (const auto& [name, value] : values) {
      check(H5Tenum_insert(type.id(), name.c_str(), &value), "making a type", file_);
    }
    return type;
  }

  /// A binary format of 16 bits: sign, exponent, mantissa from the top.
  [[nodiscard]] Handle half(std::size_t mantissa_bits) const {
    Handle type = copy(H5T_IEEE_F32LE);
    const std::size_t exponent_bits = 15 - mantissa_bits;
    check(H5Tset_fields(type.id(), 15, mantissa_bits, exponent_bits, 0, mantissa_bits), "making a type", file_);
    check(H5Tset_size(type.id(), 2), "making a type", file_);
    check(H5Tset_ebias(type.id(), (std::size_t{1} << (exponent_bits - 1)) - 1), "making a type", file_);
    return type;
  }

  /// As h5py has it: FALSE and TRUE over signed bytes.
  [[nodiscard]] Handle boolean() const {
    Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose, "making a type", file_);
    for (const std::int8_t value : {std::int8_t{0}, std::int8_t{1}}) {
      check(H5Tenum_insert(type.id(), value == 0 ? "FALSE" : "TRUE", &value), "making a type", file_);
    }
    return type;
  }

  /// As h5py has it: members r and i.
  [[nodiscard]] Handle complex(hid_t part) const {
    const std::size_t size = H5Tget_size(part);
    Handle type = compound(2 * size);
    insert(type, "r", 0, part);
    insert(type, "i", size, part);
    return type;
  }

  [[nodiscard]] Handle element(const DTypeInfo& info) const {
    switch (info.dtype) {
      case DType::float64:
        return copy(H5T_IEEE_F64LE);
      case DType::float32:
        return copy(H5T_IEEE_F32LE);
      case DType::float16:
        return half(10);
      case DType::bfloat16:
        return half(7);
      case DType::int8:
        return copy(H5T_STD_I8LE);
      case DType::int16:
        return copy(H5T_STD_I16LE);
      case DType::int32:
        return copy(H5T_STD_I32LE);
      case DType::int64:
        return copy(H5T_STD_I64LE);
      case DType::uint16:
        return copy(H5T_STD_U16LE);
      case DType::uint32:
        return copy(H5T_STD_U32LE);
      case DType::uint64:
        return copy(H5T_STD_U64LE);
      case DType::boolean:
        return boolean();
      case DType::complex64:
        return complex(H5T_IEEE_F32LE);
      case DType::complex128:
        return complex(H5T_IEEE_F64LE);
      default:
        return copy(H5T_STD_U8LE);  // uint8, and float8 as its bytes
    }
  }

  std::filesystem::path file_;
  std::array<Handle, dtype_count> elements_;
};

bool is_float8(DType dtype) {
  return is_floating(dtype) && dtype_size(dtype) == 1;
}

}  // namespace

struct PackWriter::Impl {
  Impl(std::filesystem::path path, int opened, const Options& chosen) : file(std::move(path)), descriptor(opened), options(chosen) {}

  struct Named {
    std::string name;
    PackEntry entry;
    std::vector<std::uint64_t> shape;
  };

  std::filesystem::path file;
  int descriptor;
  Options options;
  // Closed in the reverse order, under the lock.
  Handle hdf5_file;
  std::optional<Types> types;
  Handle tensors;
  Handle files;
  Handle early;       // contiguous storage, allocated when a dataset is made, not filled
  Handle link_ascii;  // names in UTF-8
  std::vector<Named> entries;
  std::vector<PackChunk> chunks;
  std::optional<std::uint64_t> chunk_base;  // see absolute()

  void open() {
    hdf5_file = hdf5::create_file(file, PackHeader::user_block);
    types.emplace(file);
    tensors = group("tensors");
    files = group("files");
    early = Handle(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "preparing datasets", file);
    store_early(early);
    const Handle scalar(H5Screate(H5S_SCALAR), H5Sclose, "making a space", file);
    put_text(hdf5_file.id(), "format", "msvis-pack");
    const Handle version(H5Acreate2(hdf5_file.id(), "version", H5T_STD_U32LE, scalar.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                         "writing the version", file);
    check(H5Awrite(version.id(), H5T_STD_U32LE, &PackHeader::right_version), "writing the version", file);
  }

  void store_early(const Handle& list) const {
    check(H5Pset_alloc_time(list.id(), H5D_ALLOC_TIME_EARLY), "preparing datasets", file);
    check(H5Pset_fill_time(list.id(), H5D_FILL_TIME_NEVER), "preparing datasets", file);
    check(H5Pset_obj_track_times(list.id(), false), "preparing datasets", file);
  }

  [[nodiscard]] Handle group(const char* name) const {
    return {H5Gcreate2(hdf5_file.id(), name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, "making a group", file};
  }

  void put_text(hid_t object, const char* name, const std::string& text) const {
    const Handle type = types->copy(H5T_C_S1);
    check(H5Tset_size(type.id(), text.size()), "writing an attribute", file);
    const Handle scalar(H5Screate(H5S_SCALAR), H5Sclose, "writing an attribute", file);
    const Handle attribute(H5Acreate2(object, name, type.id(), scalar.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, "writing an attribute",
                           file);
    check(H5Awrite(attribute.id(), type.id(), text.data()), "writing an attribute", file);
  }

  [[nodiscard]] Handle space(std::span<const std::uint64_t> shape) const {
    if (shape.empty()) {
      return {H5Screate(H5S_SCALAR), H5Sclose, "making a space", file};
    }
    const std::vector<hsize_t> sizes(shape.begin(), shape.end());
    return {H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), H5Sclose, "making a space", file};
  }

  /// With the lock held.
  [[nodiscard]] Handle dataset(const Handle& parent, const std::string& name, hid_t type, std::span<const std::uint64_t> shape,
                               const Handle& creation) const {
    const Handle dimensions = space(shape);
    return {H5Dcreate2(parent.id(), name.c_str(), type, dimensions.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT), H5Dclose,
            "making the dataset " + name, file};
  }

  /// With the lock held: where the bytes of a contiguous dataset are in the file.
  [[nodiscard]] std::uint64_t place(const Handle& made, std::uint64_t bytes) const {
    if (bytes == 0) {
      return 0;
    }
    const haddr_t address = H5Dget_offset(made.id());
    if (address == HADDR_UNDEF) {
      hdf5::fail("finding the place of a dataset", file);
    }
    return address;
  }

  std::uint32_t write_contiguous(Named& added, const Handle& parent, hid_t type, std::optional<DType> dtype, const PayloadSource& source) {
    {
      const auto lock = hdf5::lock();
      const Handle made = dataset(parent, added.name, type, added.shape, early);
      if (dtype && is_float8(*dtype)) {
        put_text(made.id(), "torch_dtype", std::string(dtype_info(*dtype).torch_name));
      }
      added.entry.offset = place(made, added.entry.bytes);
    }
    // The storage is there: its bytes need no library.
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at < added.entry.bytes; at += piece_bytes) {
      const std::span<const std::byte> piece = source(at, std::min(piece_bytes, added.entry.bytes - at));
      crc = continue_crc(crc, piece);
      write_exactly(descriptor, added.entry.offset + at, piece, file);
    }
    return crc;
  }

  struct Packed {
    std::vector<Bytef> bytes;
    bool plain = false;
  };

  /// A chunk as the deflate filter of HDF5 writes it; plain if that would not make it smaller.
  void compress_chunk(std::span<const std::byte> content, std::size_t whole, Packed& out) const {
    std::vector<std::byte> padded;
    if (content.size() < whole) {
      padded.assign(content.begin(), content.end());
      padded.resize(whole);
      content = padded;
    }
    out.bytes.resize(compressBound(static_cast<uLong>(whole)));
    auto size = static_cast<uLongf>(out.bytes.size());
    const int status =
        compress2(out.bytes.data(), &size, reinterpret_cast<const Bytef*>(content.data()), static_cast<uLong>(whole), options.compression);
    out.plain = status != Z_OK || size >= whole;
    if (out.plain) {
      out.bytes.resize(whole);
      std::memcpy(out.bytes.data(), content.data(), whole);
    } else {
      out.bytes.resize(size);
    }
  }

  std::uint32_t write_chunked(Named& added, DType dtype, const PayloadSource& source) {
    const std::uint64_t element = dtype_size(dtype);
    const ChunkGrid grid = choose_chunk_grid(added.shape, element);
    PackEntry& entry = added.entry;
    entry.storage = PackEntry::chunked;
    entry.chunk_axis = static_cast<std::uint16_t>(grid.axis);
    entry.chunk_rows = grid.rows;
    entry.chunk_first = chunks.size();
    entry.chunk_count = grid.chunk_count();
    Handle made;
    {
      const auto lock = hdf5::lock();
      const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "preparing a dataset", file);
      std::vector<hsize_t> sizes(added.shape.begin(), added.shape.end());
      std::fill_n(sizes.begin(), grid.axis, 1);
      sizes[grid.axis] = grid.rows;
      check(H5Pset_chunk(creation.id(), static_cast<int>(sizes.size()), sizes.data()), "preparing a dataset", file);
      check(H5Pset_deflate(creation.id(), static_cast<unsigned>(options.compression)), "preparing a dataset", file);
      check(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), "preparing a dataset", file);
      check(H5Pset_obj_track_times(creation.id(), false), "preparing a dataset", file);
      made = dataset(tensors, added.name, types->of(dtype), added.shape, creation);
      if (is_float8(dtype)) {
        put_text(made.id(), "torch_dtype", std::string(dtype_info(dtype).torch_name));
      }
    }
    std::uint32_t crc = 0;
    const auto finish = [&] {
      const auto lock = hdf5::lock();
      made = Handle();
    };
    try {
      const std::uint64_t window = std::max<std::uint64_t>(options.threads, piece_bytes / ChunkGrid::target_bytes);
      std::vector<Packed> packed(window);
      for (std::uint64_t first = 0; first < entry.chunk_count; first += window) {
        const std::uint64_t count = std::min(window, entry.chunk_count - first);
        const std::uint64_t begin = grid.first_of(first) * element;
        const std::uint64_t end = first + count < entry.chunk_count ? grid.first_of(first + count) * element : entry.bytes;
        const std::span<const std::byte> piece = source(begin, end - begin);
        crc = continue_crc(crc, piece);
        parallel_for(count, options.threads, [&](std::size_t k) {
          const std::uint64_t at = grid.first_of(first + k) * element - begin;
          compress_chunk(piece.subspan(at, grid.count_of(first + k) * element), grid.chunk_elements() * element, packed[k]);
        });
        const auto lock = hdf5::lock();
        for (std::uint64_t k = 0; k < count; ++k) {
          chunks.push_back(store_chunk(made, added.shape, grid, first + k, packed[k]));
        }
      }
    } catch (...) {
      finish();
      throw;
    }
    finish();
    return crc;
  }

  /// With the lock held.
  PackChunk store_chunk(const Handle& made, std::span<const std::uint64_t> shape, const ChunkGrid& grid, std::uint64_t number,
                        const Packed& packed) {
    std::vector<hsize_t> at(shape.size(), 0);
    at[grid.axis] = number % grid.chunks_along_axis() * grid.rows;
    std::uint64_t outer = number / grid.chunks_along_axis();
    for (std::size_t d = grid.axis; d-- > 0;) {
      at[d] = outer % shape[d];
      outer /= shape[d];
    }
    check(H5Dwrite_chunk(made.id(), H5P_DEFAULT, packed.plain ? 1 : 0, at.data(), packed.bytes.size(), packed.bytes.data()),
          "writing a chunk", file);
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    hsize_t size = 0;
    check(H5Dget_chunk_info_by_coord(made.id(), at.data(), &mask, &address, &size), "finding a chunk", file);
    if (address == HADDR_UNDEF || size != packed.bytes.size()) {
      hdf5::fail("finding a chunk", file);
    }
    return {absolute(address, packed.bytes), static_cast<std::uint32_t>(size), packed.plain ? PackChunk::plain : 0};
  }

  /// Some versions of HDF5 count the address of a chunk from the end of the user block, others from the beginning of the file (as
  /// H5Dget_offset always does). The first chunk shows which.
  std::uint64_t absolute(haddr_t address, const std::vector<Bytef>& written) {
    if (!chunk_base) {
      for (const std::uint64_t base : {std::uint64_t{PackHeader::user_block}, std::uint64_t{0}}) {
        std::vector<Bytef> there(written.size());
        const ssize_t got = ::pread(descriptor, there.data(), there.size(), static_cast<off_t>(address + base));
        if (got == static_cast<ssize_t>(there.size()) && there == written) {
          chunk_base = base;
          break;
        }
      }
      if (!chunk_base) {
        throw Error(ErrorCategory::io, "a chunk can't be found where HDF5 says it is; pack without --compress", file);
      }
    }
    return address + *chunk_base;
  }

  /// With the lock held. Writes a dataset of the index and returns where it is.
  template <typename T>
  std::uint64_t put_index(const Handle& parent, const char* name, hid_t type, const T* values, std::uint64_t count) const {
    const std::array<std::uint64_t, 1> shape{count};
    const Handle made = dataset(parent, name, type, shape, early);
    if (count == 0) {
      return 0;
    }
    check(H5Dwrite(made.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "writing the index", file);
    return place(made, count * sizeof(T));
  }

  std::uint64_t finish() {
    std::sort(entries.begin(), entries.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
    PackHeader header;
    std::string names;
    std::vector<std::uint64_t> sizes;
    std::vector<PackEntry> table;
    table.reserve(entries.size());
    for (Named& added : entries) {
      added.entry.name_offset = names.size();
      added.entry.name_bytes = static_cast<std::uint32_t>(added.name.size());
      names += added.name;
      added.entry.shape_first = sizes.size();
      added.entry.dimensions = static_cast<std::uint16_t>(added.shape.size());
      sizes.insert(sizes.end(), added.shape.begin(), added.shape.end());
      header.original_bytes += added.entry.file_bytes;
      table.push_back(added.entry);
    }
    {
      const auto lock = hdf5::lock();
      const Handle index = group("index");
      const Handle entry_type = types->entry_type();
      const Handle chunk_type = types->chunk_type();
      header.entries_offset = put_index(index, "entries", entry_type.id(), table.data(), table.size());
      header.names_offset = put_index(index, "names", H5T_STD_U8LE, names.data(), names.size());
      header.shapes_offset = put_index(index, "shapes", H5T_STD_U64LE, sizes.data(), sizes.size());
      header.chunks_offset = put_index(index, "chunks", chunk_type.id(), chunks.data(), chunks.size());
      close();
    }
    header.entry_count = table.size();
    header.names_bytes = names.size();
    header.shape_count = sizes.size();
    header.chunk_count = chunks.size();
    header.index_crc = continue_crc(0, std::as_bytes(std::span(table)));
    header.index_crc = continue_crc(header.index_crc, std::as_bytes(std::span(names)));
    header.index_crc = continue_crc(header.index_crc, std::as_bytes(std::span(sizes)));
    header.index_crc = continue_crc(header.index_crc, std::as_bytes(std::span(chunks)));
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) {
      fail_io("can't be examined", file);
    }
    header.file_bytes = static_cast<std::uint64_t>(status.st_size);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(&header, 1));
    header.header_crc = continue_crc(0, bytes.first(offsetof(PackHeader, header_crc)));
    write_exactly(descriptor, 0, bytes, file);
    return header.file_bytes;
  }

  /// With the lock held.
  void close() {
    early = Handle();
    files = Handle();
    tensors = Handle();
    types.reset();
    if (hdf5_file) {
      hdf5_file.close("closing the file", file);
    }
  }
};

PackWriter::PackWriter(const std::filesystem::path& file, int descriptor, const Options& options)
    : impl_(std::make_unique<Impl>(file, descriptor, options)) {
  const auto lock = hdf5::lock();
  try {
    impl_->open();
  } catch (...) {
    impl_.reset();  // under the lock
    throw;
  }
}

PackWriter::~PackWriter() {
  const auto lock = hdf5::lock();
  impl_.reset();
}

std::uint32_t PackWriter::add_tensor(std::string_view name, std::uint64_t file_bytes, TensorFormat format, DType dtype,
                                     const std::vector<std::uint64_t>& shape, const PayloadSource& source) {
  Impl::Named added{std::string(name), {}, shape};
  added.entry.kind = format == TensorFormat::npy ? PackKind::npy : PackKind::pt;
  added.entry.dtype = static_cast<std::uint8_t>(dtype);
  added.entry.file_bytes = file_bytes;
  added.entry.bytes = std::accumulate(shape.begin(), shape.end(), std::uint64_t{dtype_size(dtype)}, std::multiplies<>());
  const bool chunked = impl_->options.compression > 0 && !shape.empty() && added.entry.bytes >= least_compressed_bytes;
  added.entry.crc = chunked ? impl_->write_chunked(added, dtype, source)
                            : impl_->write_contiguous(added, impl_->tensors, impl_->types->of(dtype), dtype, source);
  impl_->entries.push_back(std::move(added));
  return impl_->entries.back().entry.crc;
}

std::uint32_t PackWriter::add_bytes(std::string_view name, std::uint64_t file_bytes, const PayloadSource& source) {
  Impl::Named added{std::string(name), {}, {file_bytes}};
  added.entry.kind = PackKind::bytes;
  added.entry.file_bytes = file_bytes;
  added.entry.bytes = file_bytes;
  added.entry.crc = impl_->write_contiguous(added, impl_->files, impl_->types->of(DType::uint8), std::nullopt, source);
  impl_->entries.push_back(std::move(added));
  return impl_->entries.back().entry.crc;
}

void PackWriter::add_irregular(std::string_view name) {
  Impl::Named added{std::string(name), {}, {}};
  added.entry.kind = PackKind::irregular;
  impl_->entries.push_back(std::move(added));
}

std::uint64_t PackWriter::finish() {
  return impl_->finish();
}

}  // namespace msvis
