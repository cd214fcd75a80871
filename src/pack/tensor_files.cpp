#include "pack/tensor_files.h"

#include <limits>
#include <string_view>

#include "tensor/checksum.h"

namespace msvis {
namespace {

template <typename T>
void append_little(std::string& out, T value) {
  for (std::size_t k = 0; k < sizeof(T); ++k) {
    out += static_cast<char>((static_cast<std::uint64_t>(value) >> (8 * k)) & 0xff);
  }
}

// ---- pickle, protocol 2, as torch.save writes it

void append_integer(std::string& out, std::uint64_t value) {
  if (value <= 0xff) {
    out += 'K';
    append_little(out, static_cast<std::uint8_t>(value));
  } else if (value <= 0xffff) {
    out += 'M';
    append_little(out, static_cast<std::uint16_t>(value));
  } else if (value <= std::numeric_limits<std::int32_t>::max()) {
    out += 'J';
    append_little(out, static_cast<std::uint32_t>(value));
  } else {
    out += "\x8a\x09";  // LONG1 of nine bytes: the sign never comes into the way
    append_little(out, value);
    out += '\0';
  }
}

void append_text(std::string& out, std::string_view text) {
  out += 'X';
  append_little(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

void append_global(std::string& out, std::string_view module, std::string_view name) {
  out += 'c';
  out += module;
  out += '\n';
  out += name;
  out += '\n';
}

void append_tuple(std::string& out, std::span<const std::uint64_t> values) {
  out += '(';
  for (const std::uint64_t value : values) {
    append_integer(out, value);
  }
  out += 't';
}

/// Class of the storage; empty: an untyped one, and the tensor names its type.
std::string_view storage_class(DType dtype) {
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
      return {};
  }
}

std::string torch_pickle(DType dtype, std::span<const std::uint64_t> shape, std::uint64_t bytes) {
  const std::string_view storage = storage_class(dtype);
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * (shape[d] == 0 ? 1 : shape[d]);
  }
  std::string out = "\x80\x02";
  append_global(out, "torch._utils", storage.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  out += "((";
  append_text(out, "storage");
  if (storage.empty()) {
    append_global(out, "torch.storage", "UntypedStorage");
  } else {
    append_global(out, "torch", storage);
  }
  append_text(out, "0");
  append_text(out, "cpu");
  append_integer(out, storage.empty() ? bytes : bytes / dtype_size(dtype));
  out += "tQ";  // the storage, by its persistent id
  append_integer(out, 0);
  append_tuple(out, shape);
  append_tuple(out, strides);
  out += '\x89';  // requires no gradient
  append_global(out, "collections", "OrderedDict");
  out += ")R";
  if (storage.empty()) {
    append_global(out, "torch", dtype_name(dtype));
  }
  out += "tR.";
  return out;
}

// ---- zip (APPNOTE.TXT 6.3.10): stored entries, sizes in both headers, ZIP64 where they need it

class ZipFrame {
 public:
  static constexpr std::size_t alignment = 64;

  void add(std::string_view name, std::string_view content) {
    begin(name, content.size(), continue_crc(0, std::as_bytes(std::span(content))));
    out_ += content;
    at_ += content.size();
  }

  /// An entry whose content the caller writes. Returns all up to it.
  std::string add_outside(std::string_view name, std::uint64_t size, std::uint32_t crc) {
    begin(name, size, crc);
    at_ += size;
    std::string before = std::move(out_);
    out_.clear();
    return before;
  }

  std::string finish() {
    const std::uint64_t directory = at_;
    out_ += directory_;
    const std::uint64_t end64 = directory + directory_.size();
    append_little(out_, std::uint32_t{0x06064b50});  // ZIP64 end record, which torch always writes
    append_little(out_, std::uint64_t{44});
    append_little(out_, std::uint16_t{45});
    append_little(out_, std::uint16_t{45});
    append_little(out_, std::uint64_t{0});
    append_little(out_, entries_);
    append_little(out_, entries_);
    append_little(out_, std::uint64_t{directory_.size()});
    append_little(out_, directory);
    append_little(out_, std::uint32_t{0x07064b50});  // its locator
    append_little(out_, std::uint32_t{0});
    append_little(out_, end64);
    append_little(out_, std::uint32_t{1});
    append_little(out_, std::uint32_t{0x06054b50});  // end record
    append_little(out_, std::uint32_t{0});
    append_little(out_, static_cast<std::uint16_t>(entries_));
    append_little(out_, static_cast<std::uint16_t>(entries_));
    append_little(out_, static_cast<std::uint32_t>(directory_.size()));
    append_little(out_, directory >= UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(directory));
    append_little(out_, std::uint16_t{0});
    return std::move(out_);
  }

 private:
  void begin(std::string_view name, std::uint64_t size, std::uint32_t crc) {
    const std::uint64_t header = at_;
    const bool large = size >= UINT32_MAX;
    const bool far = header >= UINT32_MAX;
    const std::uint32_t short_size = large ? UINT32_MAX : static_cast<std::uint32_t>(size);
    const auto put_common = [&](std::string& to, std::uint16_t extra_size) {
      append_little(to, std::uint16_t{45});      // version needed
      append_little(to, std::uint16_t{0x0800});  // names are UTF-8
      append_little(to, std::uint16_t{0});       // stored
      append_little(to, std::uint32_t{0});       // time
      append_little(to, crc);
      append_little(to, short_size);
      append_little(to, short_size);
      append_little(to, static_cast<std::uint16_t>(name.size()));
      append_little(to, extra_size);
    };
    std::string extra;
    if (large) {
      append_little(extra, std::uint16_t{1});
      append_little(extra, std::uint16_t{16});
      append_little(extra, size);
      append_little(extra, size);
    }
    constexpr std::size_t local_header = 30;
    const std::size_t unpadded = static_cast<std::size_t>(at_) + local_header + name.size() + extra.size() + 4;
    const std::size_t padding = (alignment - unpadded % alignment) % alignment;
    extra += "FB";  // the field with which torch aligns contents
    append_little(extra, static_cast<std::uint16_t>(padding));
    extra.append(padding, 'Z');
    std::string local;
    append_little(local, std::uint32_t{0x04034b50});
    put_common(local, static_cast<std::uint16_t>(extra.size()));
    local += name;
    local += extra;
    out_ += local;
    at_ += local.size();

    std::string central_extra;
    if (large || far) {
      append_little(central_extra, std::uint16_t{1});
      append_little(central_extra, static_cast<std::uint16_t>((large ? 16 : 0) + (far ? 8 : 0)));
      if (large) {
        append_little(central_extra, size);
        append_little(central_extra, size);
      }
      if (far) {
        append_little(central_extra, header);
      }
    }
    append_little(directory_, std::uint32_t{0x02014b50});
    append_little(directory_, std::uint16_t{45});  // made by
    put_common(directory_, static_cast<std::uint16_t>(central_extra.size()));
    append_little(directory_, std::uint16_t{0});  // comment
    append_little(directory_, std::uint16_t{0});  // disk
    append_little(directory_, std::uint16_t{0});  // attributes
    append_little(directory_, std::uint32_t{0});
    append_little(directory_, far ? UINT32_MAX : static_cast<std::uint32_t>(header));
    directory_ += name;
    directory_ += central_extra;
    ++entries_;
  }

  std::string out_;
  std::uint64_t at_ = 0;
  std::string directory_;
  std::uint64_t entries_ = 0;
};

}  // namespace

TensorFileFrame npy_frame(DType dtype, std::span<const std::uint64_t> shape) {
  constexpr std::size_t start = 10;
  constexpr std::size_t alignment = 64;
  const DTypeInfo& info = dtype_info(dtype);
  std::string header = "{'descr': '" + std::string(info.scalar_size > 1 ? "<" : "|") + std::string(info.numpy_code) +
                       "', 'fortran_order': False, 'shape': (";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    header += (d == 0 ? "" : " ") + std::to_string(shape[d]) + (d + 1 < shape.size() || shape.size() == 1 ? "," : "");
  }
  header += "), }";
  header.append((alignment - (start + header.size() + 1) % alignment) % alignment, ' ');
  header += '\n';
  TensorFileFrame frame;
  frame.before = std::string("\x93NUMPY\x01\x00", 8);
  append_little(frame.before, static_cast<std::uint16_t>(header.size()));
  frame.before += header;
  return frame;
}

TensorFileFrame pt_frame(DType dtype, std::span<const std::uint64_t> shape, std::uint64_t bytes, std::uint32_t crc) {
  ZipFrame zip;
  zip.add("archive/data.pkl", torch_pickle(dtype, shape, bytes));
  zip.add("archive/byteorder", "little");
  TensorFileFrame frame;
  frame.before = zip.add_outside("archive/data/0", bytes, crc);
  zip.add("archive/version", "3\n");
  frame.behind = zip.finish();
  return frame;
}

}  // namespace msvis
