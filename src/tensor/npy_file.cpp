// `.npy` files, versions 1.0, 2.0 and 3.0 (NumPy Enhancement Proposal 1 and its successors).
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/layout.h"

namespace msvis {
namespace {

constexpr std::string_view magic("\x93NUMPY", 6);
constexpr std::size_t version1_start = 10;  // magic, version, 2 bytes of length
constexpr std::size_t version2_start = 12;  // 4 bytes of length
constexpr std::uint64_t first_piece = 4096;

/// The Python dict text of a header.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const ByteSource& source) : text_(text), source_(source) {}

  void parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        parse_type();
      } else if (key == "fortran_order") {
        fortran = parse_bool();
      } else if (key == "shape") {
        shape = parse_shape();
      } else {
        fail("the unknown key " + one_line(key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) {
      fail("text after the dict");
    }
    if (!type || !fortran || !shape) {
      fail("not all of descr, fortran_order and shape");
    }
  }

  std::optional<std::string_view> type;
  std::optional<bool> fortran;
  std::optional<std::vector<std::uint64_t>> shape;

 private:
  [[noreturn]] void fail(const std::string& what) const { source_.fail(TensorFault::damaged, "its .npy header has " + what); }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  [[nodiscard]] char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char wanted) {
    if (peek() != wanted || at_ == text_.size()) {
      return false;
    }
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) {
      fail("no '" + std::string(1, wanted) + "' at character " + std::to_string(at_));
    }
  }

  std::string_view quoted() {
    const char first = peek();
    if (first == 'u' || first == 'b') {  // texts of Python 2
      ++at_;
    }
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      fail("no text at character " + std::to_string(at_));
    }
    const std::size_t begin = at_ + 1;
    const std::size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) {
      fail("a text without an end");
    }
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  void parse_type() {
    const char first = peek();
    if (first == '[' || first == '(') {
      source_.fail(TensorFault::unsupported_dtype, "unsupported dtype: an array of records (structured dtype)");
    }
    type = quoted();
  }

  bool parse_bool() {
    skip_blanks();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    fail("a fortran_order that is neither True nor False");
  }

  std::vector<std::uint64_t> parse_shape() {
    std::vector<std::uint64_t> sizes;
    const char closing = accept('[') ? ']' : ')';
    if (closing == ')') {
      expect('(');
    }
    while (!accept(closing)) {
      std::uint64_t value = 0;
      skip_blanks();
      const std::size_t begin = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        if (!checked_multiply(value, 10, value) || !checked_add(value, static_cast<std::uint64_t>(text_[at_] - '0'), value)) {
          fail("a size beyond 64 bits");
        }
      }
      if (at_ == begin) {
        fail("a shape that is no tuple of numbers");
      }
      if (at_ < text_.size() && text_[at_] == 'L') {  // long integers of Python 2
        ++at_;
      }
      sizes.push_back(value);
      if (sizes.size() > TensorLimits::max_dimensions) {
        source_.fail(TensorFault::too_large, "has more than " + std::to_string(TensorLimits::max_dimensions) + " dimensions");
      }
      if (!accept(',')) {
        expect(closing);
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  const ByteSource& source_;
  std::size_t at_ = 0;
};

struct FileType {
  DType dtype;
  bool swap;
};

FileType file_type(std::string_view descr, const ByteSource& source, const ReadHints& hints) {
  char order = '=';
  std::string_view code = descr;
  if (!code.empty() && std::string_view("<>=|").find(code[0]) != std::string_view::npos) {
    order = code[0];
    code.remove_prefix(1);
  }
  const bool swap = order == '>';
  if (const std::optional<DType> dtype = dtype_from_numpy(code)) {
    return {*dtype, swap};
  }
  if (code == "?") {
    return {DType::boolean, false};
  }
  const std::string name = one_line(descr);
  if (code == "V2" && order != '>') {
    if (dtype_from_name(hints.dtype) == DType::bfloat16) {
      return {DType::bfloat16, false};
    }
    source.fail(TensorFault::unsupported_dtype,
                "unsupported dtype " + name + ": two bytes of unknown meaning (dump.json does not call them bfloat16)");
  }
  if (!code.empty() && (code[0] == 'U' || code[0] == 'S' || code[0] == 'a')) {
    source.fail(TensorFault::unsupported_dtype, "unsupported dtype " + name + ": text");
  }
  if (!code.empty() && code[0] == 'O') {
    source.fail(TensorFault::unsupported_dtype, "unsupported dtype " + name + ": Python objects");
  }
  source.fail(TensorFault::unsupported_dtype, "unsupported dtype " + name);
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> start) {
  return start.size() >= magic.size() && std::memcmp(start.data(), magic.data(), magic.size()) == 0;
}

TensorLayout read_npy_layout(const ByteSource& source, const ReadHints& hints) {
  PooledBuffer scratch;
  std::span<const std::byte> start = source.view(0, std::min(source.size(), first_piece), scratch);
  if (start.size() < version2_start || !looks_like_npy(start)) {
    source.fail(TensorFault::damaged, "is no complete .npy file");
  }
  const auto major = std::to_integer<unsigned>(start[6]);
  if (major < 1 || major > 3) {
    source.fail(TensorFault::refused, "has .npy version " + std::to_string(major) + "; 1 to 3 are read");
  }
  const std::size_t header_start = major == 1 ? version1_start : version2_start;
  const std::uint64_t header_size = major == 1 ? load_little<std::uint16_t>(start, 8) : load_little<std::uint32_t>(start, 8);
  if (header_size > TensorLimits::max_npy_header_bytes) {
    source.fail(TensorFault::too_large, "has a .npy header of " + std::to_string(header_size) + " bytes; the limit is " +
                                            std::to_string(TensorLimits::max_npy_header_bytes));
  }
  const std::uint64_t data_start = header_start + header_size;
  if (data_start > start.size()) {
    start = source.view(0, data_start, scratch);
  }
  HeaderParser header({reinterpret_cast<const char*>(start.data()) + header_start, header_size}, source);
  header.parse();
  const FileType type = file_type(*header.type, source, hints);

  TensorLayout layout;
  layout.stored = type.dtype;
  layout.dtype = type.dtype;
  layout.swap = type.swap;
  layout.shape = *header.shape;
  layout.strides = row_major_strides(layout.shape);
  if (*header.fortran) {
    const std::vector<std::uint64_t> reversed(layout.shape.rbegin(), layout.shape.rend());
    layout.strides = row_major_strides(reversed);
    std::reverse(layout.strides.begin(), layout.strides.end());
  }
  layout.storage_offset = data_start;
  layout.storage_bytes = source.size() - data_start;
  return layout;
}

}  // namespace msvis
