#include "msvis/tensor.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "msvis/tensor_pack.h"
#include "tensor/byte_source.h"
#include "tensor/convert.h"
#include "tensor/layout.h"
#include "tensor/pack_content.h"
#include "tensor/pack_format.h"
#include "tensor/zip_directory.h"

namespace msvis {
namespace {

ErrorCategory category_of(TensorFault fault) {
  switch (fault) {
    case TensorFault::bad_name:
    case TensorFault::missing:
    case TensorFault::wrong_suffix:
      return ErrorCategory::path;
    case TensorFault::unreadable:
      return ErrorCategory::io;
    case TensorFault::too_large:
      return ErrorCategory::limit;
    default:
      return ErrorCategory::format;
  }
}

std::uint64_t half_of_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_size = ::sysconf(_SC_PAGESIZE);
  constexpr std::uint64_t fallback = std::uint64_t{4} << 30;
  return pages > 0 && page_size > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size) / 2 : fallback;
}

std::uint64_t buffer_limit(const ReadHints& hints) {
  static const std::uint64_t default_limit = half_of_memory();
  return hints.max_buffer_bytes != 0 ? hints.max_buffer_bytes : default_limit;
}

BufferPool& pool_of(const ReadHints& hints) {
  return hints.pool != nullptr ? *hints.pool : BufferPool::shared();
}

void check_suffix(const std::filesystem::path& file, ReaderRule rule) {
  if (rule == ReaderRule::any) {
    return;
  }
  const std::string_view wanted = rule == ReaderRule::pt_only ? ".pt" : ".npy";
  if (!std::string_view(file.native()).ends_with(wanted)) {
    throw TensorError(TensorFault::wrong_suffix, "does not end in " + std::string(wanted), file);
  }
}

bool is_aligned(const std::byte* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------- errors

std::string_view tensor_fault_text(TensorFault fault) {
  switch (fault) {
    case TensorFault::bad_name:
      return "forbidden file name";
    case TensorFault::missing:
      return "missing file";
    case TensorFault::unreadable:
      return "unreadable file";
    case TensorFault::wrong_suffix:
      return "wrong suffix";
    case TensorFault::too_large:
      return "too large";
    case TensorFault::damaged:
      return "damaged file";
    case TensorFault::refused:
      return "refused content";
    case TensorFault::unsupported_dtype:
      return "unsupported dtype";
    case TensorFault::not_a_tensor:
      return "not a tensor";
  }
  return "unknown fault";
}

TensorError::TensorError(TensorFault fault, const std::string& message, std::filesystem::path file, std::optional<std::uint64_t> offset)
    : Error(category_of(fault), message, std::move(file), offset), fault_(fault) {}

// ---------------------------------------------------------------------------------------------------------------------- layout

std::vector<std::uint64_t> row_major_strides(const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) {
    if (!checked_multiply(strides[d], std::max<std::uint64_t>(shape[d], 1), strides[d - 1])) {
      strides[d - 1] = UINT64_MAX;
    }
  }
  return strides;
}

bool is_row_major(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& strides) {
  std::uint64_t expected = 1;
  bool fits = true;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 0) {
      return true;
    }
    if (shape[d] != 1) {
      fits = fits && strides[d] == expected;
      expected *= shape[d];
    }
  }
  return fits;
}

void check_layout(TensorLayout& layout, const ByteSource& source) {
  if (layout.shape.size() > TensorLimits::max_dimensions) {
    source.fail(TensorFault::too_large,
                "has " + std::to_string(layout.shape.size()) + " dimensions; the limit is " + std::to_string(TensorLimits::max_dimensions));
  }
  layout.element_count = 1;
  layout.extent = 0;
  if (std::find(layout.shape.begin(), layout.shape.end(), 0U) != layout.shape.end()) {
    layout.element_count = 0;
    return;
  }
  const std::uint64_t stored_size = dtype_size(layout.stored);
  const std::uint64_t size = std::max<std::uint64_t>(stored_size, dtype_size(layout.dtype));
  std::uint64_t last = layout.first;
  std::uint64_t bytes = 0;
  for (std::size_t d = 0; d < layout.shape.size(); ++d) {
    std::uint64_t reach = 0;
    if (!checked_multiply(layout.element_count, layout.shape[d], layout.element_count) ||
        !checked_multiply(layout.shape[d] - 1, layout.strides[d], reach) || !checked_add(last, reach, last)) {
      source.fail(TensorFault::damaged, "its shape and strides are impossibly large");
    }
  }
  if (!checked_multiply(layout.element_count, size, bytes)) {
    source.fail(TensorFault::damaged, "its shape is impossibly large");
  }
  if (last >= layout.storage_bytes / stored_size) {
    source.fail(TensorFault::damaged, "its elements reach to number " + std::to_string(last) + ", but there is data for " +
                                          std::to_string(layout.storage_bytes / stored_size) + " elements of type " +
                                          std::string(dtype_name(layout.stored)) + " (was the file cut off?)");
  }
  layout.extent = last - layout.first + 1;
  if (layout.element_count > layout.extent && bytes > TensorLimits::max_expansion_bytes) {
    source.fail(TensorFault::too_large, "its view repeats " + std::to_string(layout.extent) + " elements to " + std::to_string(bytes) +
                                            " bytes; the limit is " + std::to_string(TensorLimits::max_expansion_bytes));
  }
}

// ---------------------------------------------------------------------------------------------------------------------- Tensor

std::vector<std::uint64_t> Tensor::squeezed_shape() const {
  std::vector<std::uint64_t> squeezed;
  std::copy_if(shape_.begin(), shape_.end(), std::back_inserter(squeezed), [](std::uint64_t size) { return size != 1; });
  return squeezed;
}

bool Tensor::is_contiguous() const {
  return is_row_major(shape_, strides_);
}

std::span<const std::byte> Tensor::contiguous() {
  if (element_count_ == 0) {
    return {};
  }
  if (!is_contiguous()) {
    PooledBuffer gathered = pool_->acquire(byte_count());
    gather(data_, shape_, strides_, dtype_size(dtype_), gathered.data());
    owner_ = std::move(gathered);
    data_ = owner_.data();
    strides_ = row_major_strides(shape_);
  }
  return {data_, byte_count()};
}

// ---------------------------------------------------------------------------------------------------------------------- TensorFile

struct TensorFile::Impl {
  Impl(const std::filesystem::path& file, const ReadHints& hints)
      : source(file, pool_of(hints), buffer_limit(hints), largest_file(hints), hints.drop_cache) {
    describe(hints);
  }
  Impl(std::span<const std::byte> bytes, const std::filesystem::path& name, const ReadHints& hints)
      : source(bytes, name, pool_of(hints), buffer_limit(hints)) {
    describe(hints);
  }
  /// Nothing of a chunked payload is read here; it has no part of the file to itself.
  Impl(std::shared_ptr<const TensorPack> packed, const PackEntry& packed_entry, const std::filesystem::path& name, const ReadHints& hints)
      : source(packed->content_->descriptor(), packed_entry.offset, packed_entry.storage == PackEntry::chunked ? 0 : packed_entry.bytes,
               name, pool_of(hints), buffer_limit(hints), hints.drop_cache),
        pack(std::move(packed)),
        entry(&packed_entry) {
    chunk.drop_cache = hints.drop_cache;
    if (entry->kind == PackKind::bytes) {
      describe(hints);  // as if it were a file by itself
    } else {
      describe_packed(hints);
    }
  }

  static std::uint64_t largest_file(const ReadHints& hints) {
    return hints.compat == Compat::reference ? TensorLimits::reference_max_file_bytes - 1 : static_cast<std::uint64_t>(INT64_MAX);
  }

  [[noreturn]] void fail_format(ReaderRule rule) const {
    const std::string_view wanted = rule == ReaderRule::pt_only    ? "no file of torch.save"
                                    : rule == ReaderRule::npy_only ? "no .npy file"
                                                                   : "neither a file of torch.save nor a .npy file";
    source.fail(TensorFault::damaged, "is " + std::string(wanted) + " by its first bytes");
  }

  /// A tensor whose description is in the index.
  void describe_packed(const ReadHints& hints) {
    format = entry->kind == PackKind::npy ? TensorFormat::npy : TensorFormat::pt;
    if (hints.rule != ReaderRule::any && (hints.rule == ReaderRule::npy_only) != (format == TensorFormat::npy)) {
      fail_format(hints.rule);
    }
    layout.dtype = static_cast<DType>(entry->dtype);
    layout.stored = layout.dtype;
    const std::span<const std::uint64_t> shape = pack->shape(*entry);
    layout.shape.assign(shape.begin(), shape.end());
    layout.strides = row_major_strides(layout.shape);
    layout.place = entry->storage == PackEntry::chunked ? TensorLayout::Place::chunks : TensorLayout::Place::file;
    layout.storage_bytes = entry->bytes;
    check_layout(layout, source);
  }

  void describe(const ReadHints& hints) {
    std::array<std::byte, 8> start_buffer{};
    const std::span<std::byte> start =
        std::span(start_buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), start_buffer.size())));
    source.read(0, start);
    if (looks_like_npy(start) && hints.rule != ReaderRule::pt_only) {
      format = TensorFormat::npy;
      layout = read_npy_layout(source, hints);
    } else if (looks_like_torch(start) && hints.rule != ReaderRule::npy_only) {
      layout = read_torch_layout(source, hints);
    } else if (source.size() == 0) {
      source.fail(TensorFault::damaged, "is empty");
    } else {
      fail_format(hints.rule);
    }
    check_layout(layout, source);
  }

  [[nodiscard]] bool plain() const { return !layout.conjugate && !layout.negate && layout.stored == layout.dtype; }

  /// The elements of the storage that the tensor spans, in native byte order; `owner` holds them unless they are in the source's memory.
  std::span<const std::byte> read_extent(PooledBuffer& owner) {
    const std::uint64_t size = dtype_size(layout.stored);
    const std::uint64_t scalar = dtype_info(layout.stored).scalar_size;
    const std::uint64_t skipped = layout.first * size;  // both within storage_bytes by check_layout
    const std::uint64_t bytes = layout.extent * size;
    std::span<std::byte> writable;
    switch (layout.place) {
      case TensorLayout::Place::file: {
        if (source.in_memory()) {
          PooledBuffer unused;
          const std::span<const std::byte> in_place = source.view(layout.storage_offset + skipped, bytes, unused);
          if (!layout.swap && is_aligned(in_place.data(), scalar)) {
            owner = source.take_buffer();
            return in_place;
          }
        }
        owner = source.acquire(bytes);
        writable = owner.bytes();
        source.read(layout.storage_offset + skipped, writable);
        break;
      }
      case TensorLayout::Place::deflated: {
        const std::uint64_t wanted = skipped + bytes;
        owner = source.acquire(wanted);
        inflate_at(source, layout.storage_offset, layout.compressed_bytes, layout.record_bytes, layout.crc, owner.bytes());
        writable = owner.bytes().subspan(skipped, bytes);
        break;
      }
      case TensorLayout::Place::chunks:
        owner = source.acquire(bytes);
        writable = owner.bytes();
        pack->read_payload(*entry, skipped, writable, chunk, source.pool());
        break;
      case TensorLayout::Place::buffer:
        owner = std::move(layout.storage);
        writable = owner.bytes().subspan(skipped, bytes);
        break;
    }
    if (layout.swap) {
      swap_byte_order(writable, scalar);
    }
    return writable;
  }

  ByteSource source;
  std::shared_ptr<const TensorPack> pack;
  const PackEntry* entry = nullptr;  ///< of the pack
  TensorFormat format = TensorFormat::pt;
  TensorLayout layout;
  PooledBuffer block;
  TensorPack::ChunkBuffer chunk;
};

TensorFile::TensorFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TensorFile::TensorFile(TensorFile&&) noexcept = default;
TensorFile& TensorFile::operator=(TensorFile&&) noexcept = default;
TensorFile::~TensorFile() = default;

TensorFile TensorFile::open(const std::filesystem::path& file, const ReadHints& hints) {
  check_suffix(file, hints.rule);
  return TensorFile(std::make_unique<Impl>(file, hints));
}

TensorFile TensorFile::open(std::span<const std::byte> bytes, const std::filesystem::path& name, const ReadHints& hints) {
  check_suffix(name, hints.rule);
  return TensorFile(std::make_unique<Impl>(bytes, name, hints));
}

TensorFile TensorFile::open(std::shared_ptr<const TensorPack> pack, const std::filesystem::path& name, const ReadHints& hints) {
  check_suffix(name, hints.rule);
  const std::string_view path = name.native();
  const std::optional<std::size_t> index = pack->find(path.substr(path.rfind('/') + 1));
  if (!index) {
    throw TensorError(TensorFault::missing, no_such_file, name);
  }
  const PackEntry& entry = pack->entry(*index);
  if (entry.kind == PackKind::irregular) {
    throw TensorError(TensorFault::unreadable, no_regular_file, name);
  }
  if (entry.file_bytes > Impl::largest_file(hints)) {
    throw TensorError(TensorFault::too_large, text_of_size_limit(entry.file_bytes, Impl::largest_file(hints)), name);
  }
  return TensorFile(std::make_unique<Impl>(std::move(pack), entry, name, hints));
}

TensorFormat TensorFile::format() const {
  return impl_->format;
}

DType TensorFile::dtype() const {
  return impl_->layout.dtype;
}

const std::vector<std::uint64_t>& TensorFile::shape() const {
  return impl_->layout.shape;
}

std::uint64_t TensorFile::element_count() const {
  return impl_->layout.element_count;
}

std::uint64_t TensorFile::byte_count() const {
  return impl_->layout.element_count * dtype_size(impl_->layout.dtype);
}

bool TensorFile::can_stream() const {
  const TensorLayout& layout = impl_->layout;
  return (layout.place == TensorLayout::Place::file || layout.place == TensorLayout::Place::chunks) && impl_->plain() &&
         is_row_major(layout.shape, layout.strides);
}

std::span<const std::byte> TensorFile::read(std::uint64_t first, std::uint64_t count) {
  const TensorLayout& layout = impl_->layout;
  const ByteSource& source = impl_->source;
  if (!can_stream() || first > layout.element_count || count > layout.element_count - first) {
    throw Error(ErrorCategory::internal, "elements are read that a tensor file can't give", source.name());
  }
  if (count == 0) {
    return {};
  }
  const std::uint64_t size = dtype_size(layout.stored);
  const std::uint64_t offset = layout.storage_offset + (layout.first + first) * size;
  const std::uint64_t bytes = count * size;
  const std::size_t scalar = dtype_info(layout.stored).scalar_size;
  if (source.in_memory() && !layout.swap && layout.place == TensorLayout::Place::file) {
    PooledBuffer unused;
    const std::span<const std::byte> in_place = source.view(offset, bytes, unused);
    if (is_aligned(in_place.data(), scalar)) {
      return in_place;
    }
  }
  if (impl_->block.capacity() < bytes) {
    impl_->block = {};
    impl_->block = source.acquire(bytes);
  }
  const std::span<std::byte> out(impl_->block.data(), bytes);
  if (layout.place == TensorLayout::Place::chunks) {
    impl_->pack->read_payload(*impl_->entry, offset, out, impl_->chunk, source.pool());
    return out;
  }
  source.read(offset, out);
  if (layout.swap) {
    swap_byte_order(out, scalar);
  }
  return out;
}

Tensor TensorFile::load() && {
  TensorLayout& layout = impl_->layout;
  Tensor tensor;
  tensor.dtype_ = layout.dtype;
  tensor.element_count_ = layout.element_count;
  tensor.pool_ = &impl_->source.pool();
  if (layout.element_count == 0) {
    tensor.shape_ = std::move(layout.shape);
    tensor.strides_ = row_major_strides(tensor.shape_);
    return tensor;
  }
  const std::span<const std::byte> extent = impl_->read_extent(tensor.owner_);
  tensor.data_ = extent.data();
  if (!impl_->plain()) {
    // Each element must be changed once, however often a view shows it: on a copy in logical order.
    const std::uint64_t count = layout.element_count;
    PooledBuffer copy = impl_->source.acquire(count * dtype_size(layout.stored));
    gather(extent.data(), layout.shape, layout.strides, dtype_size(layout.stored), copy.data());
    apply_sign(copy.bytes(), layout.stored, layout.conjugate, layout.negate);
    if (layout.stored != layout.dtype) {
      PooledBuffer converted = impl_->source.acquire(count * dtype_size(layout.dtype));
      cast_elements(copy.data(), layout.stored, converted.data(), layout.dtype, count);
      copy = std::move(converted);
    }
    layout.strides = row_major_strides(layout.shape);
    tensor.owner_ = std::move(copy);
    tensor.data_ = tensor.owner_.data();
  }
  tensor.shape_ = std::move(layout.shape);
  tensor.strides_ = std::move(layout.strides);
  return tensor;
}

// ---------------------------------------------------------------------------------------------------------------------- functions

Tensor read_tensor(const std::filesystem::path& file, const ReadHints& hints) {
  return TensorFile::open(file, hints).load();
}

Tensor read_tensor(std::span<const std::byte> bytes, const std::filesystem::path& name, const ReadHints& hints) {
  return TensorFile::open(bytes, name, hints).load();
}

std::filesystem::path resolve_data_name(const std::filesystem::path& directory, std::string_view data_name, Compat compat) {
  constexpr std::size_t reference_longest_name = 255;
  const bool leaves = data_name.empty() || data_name == "." || data_name == ".." || data_name.find('/') != std::string_view::npos ||
                      data_name.find('\0') != std::string_view::npos;
  if (leaves) {
    throw TensorError(TensorFault::bad_name, "the data_name '" + one_line(data_name) + "' of dump.json is no plain file name", directory);
  }
  if (compat == Compat::reference) {
    const bool allowed = std::all_of(data_name.begin(), data_name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == ':' || c == '-';
    });
    if (!allowed || data_name.size() > reference_longest_name) {
      throw TensorError(TensorFault::bad_name, "the data_name '" + one_line(data_name) + "' of dump.json is not accepted", directory);
    }
  }
  return directory / data_name;
}

}  // namespace msvis
