// `.pt` files: the zip container of PyTorch >= 1.6 and the legacy container before it.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "tensor/layout.h"
#include "tensor/pickle.h"
#include "tensor/torch_pickle.h"
#include "tensor/zip_directory.h"

namespace msvis {
namespace {

constexpr std::array<std::uint8_t, 4> zip_magic = {'P', 'K', 3, 4};
constexpr std::uint8_t pickle_start = 0x80;  // PROTO

/// The integer with which legacy files begin, as the pickle holds it.
constexpr std::string_view legacy_magic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr std::int64_t legacy_protocol = 1001;

bool starts_with(std::span<const std::byte> bytes, std::span<const std::uint8_t> magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

[[noreturn]] void refuse_type(const ByteSource& source, const std::string& name) {
  source.fail(TensorFault::unsupported_dtype, "unsupported dtype " + name);
}

/// The bytes of text whose characters are below 256.
PooledBuffer latin1_bytes(const ByteSource& source, std::string_view text) {
  PooledBuffer buffer = source.acquire(text.size());
  std::size_t written = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto code = static_cast<std::uint8_t>(text[at]);
    if (code >= 0x80) {
      const auto next = static_cast<std::uint8_t>(at + 1 < text.size() ? text[at + 1] : 0);
      if ((code != 0xc2 && code != 0xc3) || (next & 0xc0) != 0x80) {
        source.fail(TensorFault::damaged, "its numpy array has bytes that are no Latin-1 text");
      }
      code = static_cast<std::uint8_t>(((code & 3) << 6) | (next & 0x3f));
      ++at;
    }
    buffer.data()[written++] = static_cast<std::byte>(code);
  }
  PooledBuffer exact = source.acquire(written);
  if (written > 0) {
    std::memcpy(exact.data(), buffer.data(), written);
  }
  return exact;
}

void fill_from_array(const ByteSource& source, const NumpyArray& array, TensorLayout& layout) {
  layout.place = TensorLayout::Place::buffer;
  layout.swap = array.big_endian;
  layout.strides = row_major_strides(layout.shape);
  if (array.fortran) {
    std::vector<std::uint64_t> reversed(layout.shape.rbegin(), layout.shape.rend());
    layout.strides = row_major_strides(reversed);
    std::reverse(layout.strides.begin(), layout.strides.end());
  }
  if (array.latin1) {
    layout.storage = latin1_bytes(source, array.content);
  } else {
    layout.storage = source.acquire(array.content.size());
    if (!array.content.empty()) {
      std::memcpy(layout.storage.data(), array.content.data(), array.content.size());
    }
  }
  layout.storage_bytes = layout.storage.size();
}

/// What the pickle says, except for the place of the storage.
TensorLayout describe(const ByteSource& source, const TorchPickle& pickle, const TorchTensor& tensor) {
  TensorLayout layout;
  if (!tensor.stored.dtype) {
    refuse_type(source, tensor.stored.name);
  }
  layout.stored = *tensor.stored.dtype;
  layout.dtype = layout.stored;
  if (tensor.cast) {
    if (!tensor.cast->dtype) {
      refuse_type(source, tensor.cast->name);
    }
    layout.dtype = *tensor.cast->dtype;
  }
  layout.shape = tensor.shape;
  layout.strides = tensor.strides;
  layout.first = tensor.first;
  layout.conjugate = tensor.conjugate;
  layout.negate = tensor.negate;
  if (tensor.array) {
    fill_from_array(source, pickle.arrays()[*tensor.array], layout);
  }
  return layout;
}

/// Bytes of a storage by what the pickle says of it.
std::uint64_t storage_bytes(const ByteSource& source, const TorchStorage& storage) {
  std::uint64_t bytes = 0;
  if (!checked_multiply(storage.count, storage.type.size, bytes)) {
    source.fail(TensorFault::damaged, "its storage has an impossible size");
  }
  return bytes;
}

/// Restricts a layout to a legacy view of a storage of `available` bytes.
void apply_storage_view(const ByteSource& source, const TorchStorage& storage, std::uint64_t available, TensorLayout& layout) {
  layout.storage_bytes = available;
  if (!storage.view_count) {
    return;
  }
  const std::uint64_t size = storage.type.size;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  if (!checked_multiply(storage.view_first, size, first) || !checked_multiply(*storage.view_count, size, count) || first > available ||
      count > available - first) {
    source.fail(TensorFault::damaged, "its view goes beyond its storage");
  }
  layout.storage_offset += first;
  layout.storage_bytes = count;
}

// ---- zip

std::string_view folder_of(std::string_view name) {
  const std::size_t slash = name.find('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash + 1);
}

void check_byte_order(const ByteSource& source, const ZipDirectory& directory, std::string_view folder) {
  constexpr std::uint64_t longest_name = 64;
  const std::optional<ZipEntry> record = directory.find(folder, "byteorder");
  if (!record) {
    return;
  }
  if (record->size > longest_name) {
    source.fail(TensorFault::damaged, "its byteorder record has " + std::to_string(record->size) + " bytes");
  }
  PooledBuffer scratch;
  const std::span<const std::byte> content = directory.content(*record, scratch);
  const std::string_view order(reinterpret_cast<const char*>(content.data()), content.size());
  if (order == "big") {
    source.fail(TensorFault::refused, "was written on a big-endian machine; convert it to little endian");
  }
  if (order != "little") {
    source.fail(TensorFault::damaged, "has the unknown byte order " + one_line(order));
  }
}

TensorLayout read_zip_layout(const ByteSource& source, const ReadHints& hints) {
  const ZipDirectory directory(source);
  const std::string_view folder = folder_of(directory.first_name());
  const std::optional<ZipEntry> data_record = directory.find(folder, "data.pkl");
  if (!data_record) {
    source.fail(TensorFault::not_a_tensor, "is a zip archive without data.pkl, not a file of torch.save");
  }
  check_byte_order(source, directory, folder);

  PooledBuffer pickle_buffer;
  const std::span<const std::byte> pickle_bytes = directory.content(*data_record, pickle_buffer);
  TorchPickle pickle(hints.compat == Compat::reference);
  PickleMachine machine(pickle_bytes, pickle, source, 0);
  const PickleValue value = machine.run();
  const TorchTensor& tensor = pickle.tensor(machine, value);
  TensorLayout layout = describe(source, pickle, tensor);
  if (!tensor.storage) {
    return layout;
  }

  const TorchStorage& storage = pickle.storages()[*tensor.storage];
  const std::string record_name = "data/" + std::string(storage.key);
  const std::optional<ZipEntry> record = directory.find(folder, record_name);
  if (!record) {
    source.fail(TensorFault::damaged, "has no record " + one_line(record_name));
  }
  const std::uint64_t needed = storage_bytes(source, storage);
  if (record->size < needed) {
    source.fail(TensorFault::damaged, "its record " + one_line(record_name) + " has " + std::to_string(record->size) +
                                          " bytes; its storage needs " + std::to_string(needed));
  }
  layout.storage_offset = directory.payload_offset(*record);
  if (record->method == ZipEntry::deflated) {
    if (storage.view_count) {
      source.fail(TensorFault::refused, "has a view of a compressed storage, which torch.save does not write");
    }
    layout.place = TensorLayout::Place::deflated;
    layout.compressed_bytes = record->compressed_size;
    layout.crc = record->crc;
    layout.record_bytes = record->size;
    layout.storage_bytes = needed;
    return layout;
  }
  apply_storage_view(source, storage, needed, layout);
  return layout;
}

// ---- legacy

/// The five pickles of a legacy file and where the data begins.
struct LegacyReader {
  const ByteSource& source;
  const ReadHints& hints;
  std::span<const std::byte> window;
  std::size_t at = 0;

  PickleValue next(PickleMachine& machine) {
    const PickleValue value = machine.run();
    at += machine.consumed();
    return value;
  }
  [[nodiscard]] PickleMachine machine(TorchPickle& handler) const { return {window.subspan(at), handler, source, at}; }

  TensorLayout read() {
    TorchPickle preamble(true);
    {
      PickleMachine magic = machine(preamble);
      const PickleValue value = next(magic);
      if (!value.is(PickleValue::Kind::big_integer) || value.view() != legacy_magic) {
        source.fail(TensorFault::not_a_tensor, "is a pickle, but not a file of torch.save");
      }
    }
    {
      PickleMachine protocol = machine(preamble);
      const PickleValue value = next(protocol);
      if (!value.is(PickleValue::Kind::integer) || value.integer != legacy_protocol) {
        source.fail(TensorFault::refused, "is a torch file of an unknown protocol; 1001 is read");
      }
    }
    {
      PickleMachine system = machine(preamble);
      const PickleValue value = next(system);
      const std::optional<PickleValue> little = system.find(value, "little_endian");
      if (little && !little->is_true()) {
        source.fail(TensorFault::refused, "was written on a big-endian machine; convert it to little endian");
      }
    }
    TorchPickle pickle(hints.compat == Compat::reference);
    PickleMachine object = machine(pickle);
    const PickleValue value = next(object);
    PickleMachine key_list = machine(preamble);
    const PickleValue keys = next(key_list);
    const TorchTensor& tensor = pickle.tensor(object, value);
    TensorLayout layout = describe(source, pickle, tensor);
    if (tensor.storage) {
      find_storage(pickle, pickle.storages()[*tensor.storage], key_list.items(keys), layout);
    }
    return layout;
  }

  void find_storage(const TorchPickle& pickle, const TorchStorage& wanted, std::span<const PickleValue> keys, TensorLayout& layout) const {
    std::uint64_t offset = at;
    for (const PickleValue& key : keys) {
      const auto known = std::find_if(pickle.storages().begin(), pickle.storages().end(),
                                      [&](const TorchStorage& storage) { return key.is_text(storage.key); });
      if (known == pickle.storages().end()) {
        source.fail(TensorFault::damaged, "lists a storage that its object does not use");
      }
      std::array<std::byte, 8> header{};
      source.read(offset, header);
      offset += header.size();
      const auto count = load_little<std::uint64_t>(header, 0);
      std::uint64_t bytes = 0;
      if (!checked_multiply(count, known->type.size, bytes) || bytes > source.size() - offset) {
        source.fail(TensorFault::damaged, "its storage of " + std::to_string(count) + " elements does not fit into the file", offset);
      }
      if (known->key == wanted.key) {
        if (bytes < storage_bytes(source, wanted)) {
          source.fail(TensorFault::damaged,
                      "its storage has " + std::to_string(count) + " elements instead of " + std::to_string(wanted.count), offset);
        }
        layout.storage_offset = offset;
        apply_storage_view(source, wanted, bytes, layout);
        return;
      }
      offset += bytes;
    }
    source.fail(TensorFault::damaged, "has no data for its storage " + one_line(wanted.key));
  }
};

TensorLayout read_legacy_layout(const ByteSource& source, const ReadHints& hints) {
  // How long the pickles are is only known by running them: the window grows until they fit.
  constexpr std::uint64_t first_window = std::uint64_t{1} << 20;
  constexpr std::uint64_t growth = 16;
  std::uint64_t window_size = source.in_memory() ? source.size() : std::min(source.size(), first_window);
  while (true) {
    PooledBuffer buffer;
    LegacyReader reader{source, hints, source.view(0, window_size, buffer)};
    try {
      return reader.read();
    } catch (const PickleEndsEarly&) {
      if (window_size == source.size()) {
        throw;
      }
    }
    window_size = std::min(source.size(), window_size * growth);
  }
}

}  // namespace

bool looks_like_torch(std::span<const std::byte> start) {
  return starts_with(start, zip_magic) || (!start.empty() && start[0] == std::byte{pickle_start});
}

TensorLayout read_torch_layout(const ByteSource& source, const ReadHints& hints) {
  std::array<std::byte, 4> start{};
  source.read(0, std::span(start).first(static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), start.size()))));
  return starts_with(start, zip_magic) ? read_zip_layout(source, hints) : read_legacy_layout(source, hints);
}

}  // namespace msvis
