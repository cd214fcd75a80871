// Writers of tensor files for tests, with every freedom that a test needs: .pt (zip and legacy) and .npy.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msvis/dtype.h"

namespace msvis::test {

template <typename T>
void append_little(std::string& out, T value) {
  for (std::size_t k = 0; k < sizeof(T); ++k) {
    out += static_cast<char>((static_cast<std::uint64_t>(value) >> (8 * k)) & 0xff);
  }
}

// ---------------------------------------------------------------------------------------------------------------------- pickle

/// Writes a pickle operation by operation, in the dialect of a protocol.
class PickleWriter {
 public:
  explicit PickleWriter(int protocol = 2) : protocol_(protocol) { raw({'\x80', static_cast<char>(protocol)}); }

  PickleWriter& raw(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }
  PickleWriter& raw(std::initializer_list<char> bytes) {
    out_.append(bytes);
    return *this;
  }
  PickleWriter& mark() { return raw("("); }
  PickleWriter& none() { return raw("N"); }
  PickleWriter& boolean(bool value) { return raw({value ? '\x88' : '\x89'}); }
  PickleWriter& integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
      return raw({'K', static_cast<char>(value)});
    }
    if (value >= 0 && value < 65536) {
      out_ += 'M';
      append_little(out_, static_cast<std::uint16_t>(value));
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      out_ += 'J';
      append_little(out_, static_cast<std::int32_t>(value));
    } else {
      raw({'\x8a', '\x08'});
      append_little(out_, value);
    }
    return *this;
  }
  PickleWriter& text(std::string_view value) {
    if (protocol_ >= 4 && value.size() < 256) {
      raw({'\x8c', static_cast<char>(value.size())});
    } else {
      out_ += 'X';
      append_little(out_, static_cast<std::uint32_t>(value.size()));
    }
    return raw(value).memoize();
  }
  PickleWriter& global(std::string_view module, std::string_view name) {
    if (protocol_ >= 4) {
      return text(module).text(name).raw("\x93").memoize();
    }
    return raw("c").raw(module).raw("\n").raw(name).raw("\n").memoize();
  }
  PickleWriter& tuple() { return raw("t").memoize(); }  // from the mark
  PickleWriter& empty_tuple() { return raw(")"); }
  PickleWriter& reduce() { return raw("R").memoize(); }
  PickleWriter& persistent() { return raw("Q"); }
  PickleWriter& integers(const std::vector<std::int64_t>& values) {
    if (values.empty()) {
      return empty_tuple();
    }
    const bool short_form = values.size() <= 3;
    if (!short_form) {
      mark();
    }
    for (const std::int64_t value : values) {
      integer(value);
    }
    return short_form ? raw({static_cast<char>(0x84 + values.size())}).memoize() : tuple();
  }
  PickleWriter& ordered_dict() { return global("collections", "OrderedDict").empty_tuple().reduce(); }
  PickleWriter& memoize() {
    if (protocol_ >= 4) {
      return raw("\x94");
    }
    if (slot_ < 256) {
      out_ += 'q';
      append_little(out_, static_cast<std::uint8_t>(slot_));
    } else {
      out_ += 'r';
      append_little(out_, static_cast<std::uint32_t>(slot_));
    }
    ++slot_;
    return *this;
  }
  /// Ends the pickle; with protocol 4 and 5 the content is put into a frame.
  [[nodiscard]] std::string take() {
    out_ += '.';
    if (protocol_ >= 4) {
      std::string framed = out_.substr(0, 2) + "\x95";
      append_little(framed, static_cast<std::uint64_t>(out_.size() - 2));
      return framed + out_.substr(2);
    }
    return std::move(out_);
  }

 private:
  int protocol_;
  std::string out_;
  std::uint32_t slot_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------------- zip

struct ZipOptions {
  bool deflate = false;
  bool data_descriptor = true;   ///< sizes and CRC after the payload, zeros in the local header, as torch writes
  bool zip64 = false;            ///< sizes and offsets of entries and end record only in the ZIP64 fields
  bool zip64_end = true;         ///< a ZIP64 end record and locator, as torch always writes
  std::size_t alignment = 64;    ///< of payloads; 1: none
  std::string comment;           ///< of the archive
  std::uint16_t flags = 0x0800;  ///< besides the data descriptor's bit
  std::uint16_t method_override = 0xffff;
  std::int64_t claimed_size_change = 0;  ///< added to the sizes in the directory
};

class ZipWriter {
 public:
  explicit ZipWriter(ZipOptions options = {}) : options_(std::move(options)) {}

  /// Returns the offset of the payload.
  std::size_t add(const std::string& name, const std::string& content, bool may_deflate = true) {
    const bool deflated = options_.deflate && may_deflate && !content.empty();
    const std::string payload = deflated ? deflate_raw(content) : content;
    const std::uint16_t method =
        options_.method_override != 0xffff ? options_.method_override : static_cast<std::uint16_t>(deflated ? 8 : 0);
    const bool descriptor = options_.data_descriptor && !content.empty();
    const auto flags = static_cast<std::uint16_t>(options_.flags | (descriptor ? 8 : 0));
    const auto crc = static_cast<std::uint32_t>(
        crc32(crc32(0, nullptr, 0), reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
    const std::size_t header = out_.size();
    // Local header; the extra field pads to the alignment, as torch's "FB" field does.
    std::string extra;
    const std::size_t unpadded = header + 30 + name.size() + 4;
    if (options_.alignment > 1) {
      const std::size_t padding = (options_.alignment - unpadded % options_.alignment) % options_.alignment;
      extra = "FB";
      append_little(extra, static_cast<std::uint16_t>(padding));
      extra.append(padding, 'Z');
    }
    append_little(out_, std::uint32_t{0x04034b50});
    append_little(out_, std::uint16_t{0});
    append_little(out_, flags);
    append_little(out_, method);
    append_little(out_, std::uint32_t{0});
    append_little(out_, descriptor ? 0 : crc);
    append_little(out_, descriptor ? 0 : static_cast<std::uint32_t>(payload.size()));
    append_little(out_, descriptor ? 0 : static_cast<std::uint32_t>(content.size()));
    append_little(out_, static_cast<std::uint16_t>(name.size()));
    append_little(out_, static_cast<std::uint16_t>(extra.size()));
    out_ += name + extra;
    const std::size_t payload_at = out_.size();
    out_ += payload;
    if (descriptor) {
      append_little(out_, std::uint32_t{0x08074b50});
      append_little(out_, crc);
      append_little(out_, static_cast<std::uint32_t>(payload.size()));
      append_little(out_, static_cast<std::uint32_t>(content.size()));
    }
    const std::uint64_t compressed = payload.size() + static_cast<std::uint64_t>(deflated ? 0 : options_.claimed_size_change);
    const std::uint64_t size = content.size() + static_cast<std::uint64_t>(options_.claimed_size_change);
    std::string central_extra;
    if (options_.zip64) {
      append_little(central_extra, std::uint16_t{0xcafe});  // a field of somebody else before it
      append_little(central_extra, std::uint16_t{2});
      central_extra += "xy";
      append_little(central_extra, std::uint16_t{1});
      append_little(central_extra, std::uint16_t{24});
      append_little(central_extra, size);
      append_little(central_extra, compressed);
      append_little(central_extra, static_cast<std::uint64_t>(header));
    }
    append_little(central_, std::uint32_t{0x02014b50});
    append_little(central_, std::uint32_t{0});
    append_little(central_, flags);
    append_little(central_, method);
    append_little(central_, std::uint32_t{0});
    append_little(central_, crc);
    append_little(central_, options_.zip64 ? UINT32_MAX : static_cast<std::uint32_t>(compressed));
    append_little(central_, options_.zip64 ? UINT32_MAX : static_cast<std::uint32_t>(size));
    append_little(central_, static_cast<std::uint16_t>(name.size()));
    append_little(central_, static_cast<std::uint16_t>(central_extra.size()));
    append_little(central_, std::uint16_t{0});
    append_little(central_, std::uint16_t{0});
    append_little(central_, std::uint16_t{0});
    append_little(central_, std::uint32_t{0});
    append_little(central_, options_.zip64 ? UINT32_MAX : static_cast<std::uint32_t>(header));
    central_ += name + central_extra;
    ++entries_;
    return payload_at;
  }

  [[nodiscard]] std::string take() {
    const std::uint64_t directory = out_.size();
    out_ += central_;
    if (options_.zip64_end || options_.zip64) {
      const std::uint64_t end64 = out_.size();
      append_little(out_, std::uint32_t{0x06064b50});
      append_little(out_, std::uint64_t{44});
      append_little(out_, std::uint32_t{0x031e031e});
      append_little(out_, std::uint32_t{0});
      append_little(out_, std::uint32_t{0});
      append_little(out_, entries_);
      append_little(out_, entries_);
      append_little(out_, static_cast<std::uint64_t>(central_.size()));
      append_little(out_, directory);
      append_little(out_, std::uint32_t{0x07064b50});
      append_little(out_, std::uint32_t{0});
      append_little(out_, end64);
      append_little(out_, std::uint32_t{1});
    }
    const bool saturate = options_.zip64;
    append_little(out_, std::uint32_t{0x06054b50});
    append_little(out_, std::uint32_t{0});
    append_little(out_, saturate ? std::uint16_t{0xffff} : static_cast<std::uint16_t>(entries_));
    append_little(out_, saturate ? std::uint16_t{0xffff} : static_cast<std::uint16_t>(entries_));
    append_little(out_, saturate ? UINT32_MAX : static_cast<std::uint32_t>(central_.size()));
    append_little(out_, saturate ? UINT32_MAX : static_cast<std::uint32_t>(directory));
    append_little(out_, static_cast<std::uint16_t>(options_.comment.size()));
    out_ += options_.comment;
    return std::move(out_);
  }

 private:
  static std::string deflate_raw(const std::string& content) {
    z_stream stream{};
    if (deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::runtime_error("deflateInit2");
    }
    std::string out(deflateBound(&stream, static_cast<uLong>(content.size())), '\0');
    std::string input = content;
    stream.next_in = reinterpret_cast<Bytef*>(input.data());
    stream.avail_in = static_cast<uInt>(input.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int status = deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    if (status != Z_STREAM_END) {
      throw std::runtime_error("deflate");
    }
    return out;
  }

  ZipOptions options_;
  std::string out_;
  std::string central_;
  std::uint64_t entries_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------------- torch

inline std::string_view torch_storage_name(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return "DoubleStorage";
    case DType::float32:
      return "FloatStorage";
    case DType::float16:
      return "HalfStorage";
    case DType::bfloat16:
      return "BFloat16Storage";
    case DType::int8:
      return "CharStorage";
    case DType::int16:
      return "ShortStorage";
    case DType::int32:
      return "IntStorage";
    case DType::int64:
      return "LongStorage";
    case DType::uint8:
      return "ByteStorage";
    case DType::boolean:
      return "BoolStorage";
    case DType::complex64:
      return "ComplexFloatStorage";
    case DType::complex128:
      return "ComplexDoubleStorage";
    default:
      return "UntypedStorage";  // with _rebuild_tensor_v3
  }
}

/// A tensor as torch.save would describe it.
struct TorchSpec {
  DType dtype = DType::float32;
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> stride;
  std::int64_t offset = 0;
  std::string storage;  ///< bytes, little endian
  int protocol = 2;
  std::string storage_module = "torch";
  std::string location = "cpu";
  std::string key = "0";
  bool conjugate = false;
  bool negate = false;
  enum class Wrap : std::uint8_t { none, parameter, parameter_with_state, from_type, npu, version1, cpu_cast } wrap = Wrap::none;
  std::string cast = "float32";                                      ///< for cpu_cast
  std::optional<std::pair<std::int64_t, std::int64_t>> legacy_view;  ///< offset and size of a view of the storage
  std::optional<std::int64_t> claimed_count;
  std::string dtype_name;  ///< overrides the type of _rebuild_tensor_v3

  [[nodiscard]] bool untyped() const { return torch_storage_name(dtype) == "UntypedStorage" || !dtype_name.empty(); }
};

inline void append_torch_tensor(PickleWriter& out, const TorchSpec& spec, bool legacy) {
  using Wrap = TorchSpec::Wrap;
  if (spec.wrap == Wrap::parameter) {
    out.global("torch._utils", "_rebuild_parameter").mark();
  } else if (spec.wrap == Wrap::parameter_with_state) {
    out.global("torch._utils", "_rebuild_parameter_with_state").mark();
  } else if (spec.wrap == Wrap::from_type) {
    out.global("torch._tensor", "_rebuild_from_type_v2").mark();
  } else if (spec.wrap == Wrap::cpu_cast) {
    out.global("torch._utils", "_rebuild_device_tensor_from_cpu_tensor").mark();
  }
  if (spec.wrap == Wrap::npu) {
    out.global("torch_npu.utils.storage", "_rebuild_npu_tensor");
  } else if (spec.wrap == Wrap::version1) {
    out.global("torch._utils", "_rebuild_tensor");
  } else {
    out.global("torch._utils", spec.untyped() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  }
  if (spec.wrap == Wrap::from_type) {
    out.global("torch", "Tensor");
  }
  out.mark().mark().text("storage");
  if (spec.untyped()) {
    out.global("torch.storage", "UntypedStorage");
  } else {
    out.global(spec.storage_module, torch_storage_name(spec.dtype));
  }
  const auto element = static_cast<std::int64_t>(spec.untyped() ? 1 : dtype_size(spec.dtype));
  out.text(spec.key).text(spec.location).integer(spec.claimed_count.value_or(static_cast<std::int64_t>(spec.storage.size()) / element));
  if (legacy) {
    if (spec.legacy_view) {
      out.mark().text("view").integer(spec.legacy_view->first).integer(spec.legacy_view->second).tuple();
    } else {
      out.none();
    }
  }
  out.tuple().persistent().integer(spec.offset).integers(spec.size).integers(spec.stride);
  if (spec.wrap != Wrap::version1) {
    out.boolean(false).ordered_dict();
    if (spec.untyped()) {
      out.global("torch", spec.dtype_name.empty() ? std::string(dtype_name(spec.dtype)) : spec.dtype_name);
    }
    if (spec.conjugate || spec.negate) {
      out.raw("}").memoize().mark();
      if (spec.conjugate) {
        out.text("conj").boolean(true);
      }
      if (spec.negate) {
        out.text("neg").boolean(true);
      }
      out.raw("u");
    } else if (spec.wrap == Wrap::npu) {
      out.mark().integer(2).tuple();
    }
  }
  out.tuple();
  if (spec.wrap == Wrap::from_type) {
    out.raw("}").memoize().mark().text("partition_dim").integer(-1).raw("u").tuple().reduce();
    return;
  }
  out.reduce();
  if (spec.wrap == Wrap::parameter) {
    out.boolean(true).ordered_dict().tuple().reduce();
  } else if (spec.wrap == Wrap::parameter_with_state) {
    out.boolean(true).ordered_dict().raw("}").memoize().mark().text("tag").integer(1).raw("u").tuple().reduce();
  } else if (spec.wrap == Wrap::cpu_cast) {
    out.global("torch", spec.cast).text("maia:0").boolean(false).tuple().reduce();
  }
}

inline std::string torch_pickle(const TorchSpec& spec) {
  PickleWriter out(spec.protocol);
  append_torch_tensor(out, spec, false);
  return out.take();
}

/// A zip container around any data.pkl.
inline std::string torch_zip_of(const std::string& pickle, const std::vector<std::pair<std::string, std::string>>& records,
                                const ZipOptions& options = {}, const std::string& folder = "archive") {
  ZipWriter zip(options);
  zip.add(folder + "/data.pkl", pickle);
  for (const auto& [name, content] : records) {
    zip.add(folder + "/" + name, content);
  }
  zip.add(folder + "/version", "3\n", false);
  return zip.take();
}

inline std::string torch_zip(const TorchSpec& spec, const ZipOptions& options = {}) {
  return torch_zip_of(torch_pickle(spec),
                      {{"byteorder", "little"}, {"data/" + spec.key, spec.storage}, {".data/serialization_id", std::string(40, '7')}},
                      options);
}

inline std::string torch_legacy(const TorchSpec& spec, bool little_endian = true) {
  std::string file = PickleWriter(spec.protocol).raw("\x8a\x0a").raw("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19").take();
  file += PickleWriter(spec.protocol).integer(1001).take();
  PickleWriter system(spec.protocol);
  system.raw("}").memoize().mark().text("protocol_version").integer(1001).text("little_endian").boolean(little_endian).text("type_sizes");
  system.raw("}").memoize().mark().text("short").integer(2).text("int").integer(4).text("long").integer(4).raw("u").raw("u");
  file += system.take();
  PickleWriter object(spec.protocol);
  append_torch_tensor(object, spec, true);
  file += object.take();
  file += PickleWriter(spec.protocol).raw("]").memoize().text(spec.key).raw("a").take();
  const std::size_t element = spec.untyped() ? 1 : dtype_size(spec.dtype);
  append_little(file, static_cast<std::int64_t>(spec.storage.size() / element));
  return file + spec.storage;
}

// ---------------------------------------------------------------------------------------------------------------------- npy

/// Any header text; padded to a multiple of 64 as numpy does unless `pad` is off.
inline std::string npy_of(const std::string& header_dict, const std::string& data, int major = 1, bool pad = true) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  std::string header = header_dict;
  const std::size_t start = major == 1 ? 10 : 12;
  if (pad) {
    while ((start + header.size() + 1) % 64 != 0) {
      header += ' ';
    }
    header += '\n';
  }
  if (major == 1) {
    append_little(file, static_cast<std::uint16_t>(header.size()));
  } else {
    append_little(file, static_cast<std::uint32_t>(header.size()));
  }
  return file + header + data;
}

inline std::string npy(std::string_view descr, const std::vector<std::int64_t>& shape, bool fortran, const std::string& data,
                       int major = 1) {
  std::string sizes;
  for (const std::int64_t size : shape) {
    sizes += std::to_string(size) + ", ";
  }
  if (!sizes.empty()) {
    sizes.resize(sizes.size() - (shape.size() == 1 ? 1 : 2));
  }
  return npy_of(
      "{'descr': '" + std::string(descr) + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (" + sizes + "), }", data,
      major);
}

/// A small file of each kind, with its suffix: what mutations and fuzzers start from.
inline std::vector<std::pair<std::string, std::string>> seed_tensor_files() {
  std::vector<std::pair<std::string, std::string>> files;
  ZipOptions deflated;
  deflated.deflate = true;
  ZipOptions zip64;
  zip64.zip64 = true;
  for (const int protocol : {2, 4}) {
    TorchSpec spec;
    spec.size = {2, 3};
    spec.stride = {6, 1};
    spec.offset = 8;
    for (int k = 0; k < 96; ++k) {
      spec.storage += static_cast<char>(k);
    }
    spec.protocol = protocol;
    files.emplace_back(".pt", torch_zip(spec));
    files.emplace_back(".pt", torch_zip(spec, deflated));
    files.emplace_back(".pt", torch_zip(spec, zip64));
    files.emplace_back(".pt", torch_legacy(spec));
    spec.wrap = TorchSpec::Wrap::parameter_with_state;
    files.emplace_back(".pt", torch_zip(spec));
    spec.wrap = TorchSpec::Wrap::from_type;
    files.emplace_back(".pt", torch_legacy(spec));
    spec.wrap = TorchSpec::Wrap::cpu_cast;
    spec.cast = "float8_e4m3fn";
    files.emplace_back(".pt", torch_zip(spec));
    spec.wrap = TorchSpec::Wrap::none;
    spec.dtype = DType::float8_e5m2;
    spec.conjugate = spec.negate = true;
    files.emplace_back(".pt", torch_zip(spec));
    spec.dtype = DType::complex64;
    spec.size = {4};
    spec.stride = {1};
    files.emplace_back(".pt", torch_zip(spec));
  }
  const std::string data(64, '\x01');
  files.emplace_back(".npy", npy("<f4", {4, 4}, false, data));
  files.emplace_back(".npy", npy(">c8", {2, 4}, true, data, 2));
  files.emplace_back(".npy", npy("|V2", {32}, false, data, 3));
  files.emplace_back(".npy", npy("|b1", {}, false, data));
  return files;
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
void as_bytes(const std::string&&) = delete;  // a tensor may point into the file

}  // namespace msvis::test
