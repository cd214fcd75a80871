// Flat bytes for the way between processes of one run (same machine type and same binary: native byte order).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "msvis/error.h"

namespace msvis {

class ByteWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) {
    const auto* raw = reinterpret_cast<const char*>(&value);
    bytes_.append(raw, sizeof value);
  }
  void put(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text);
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  /// Any range of values that have a `put` of their own or a callable for one element.
  template <typename Range, typename PutOne>
  void put_all(const Range& range, PutOne&& put_one) {
    put(static_cast<std::uint64_t>(range.size()));
    for (const auto& element : range) {
      put_one(*this, element);
    }
  }
  template <typename Range>
  void put_all(const Range& range) {
    put_all(range, [](ByteWriter& out, const auto& element) { out.put(element); });
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Checks every size before it is believed; throws Error (internal) when the bytes end early.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  [[nodiscard]] T get() {
    if constexpr (std::is_same_v<T, bool>) {
      return get<std::uint8_t>() != 0;  // any other byte would be no value of the type
    } else {
      T value;
      std::memcpy(&value, cut(sizeof value).data(), sizeof value);
      return value;
    }
  }
  [[nodiscard]] std::string_view get_view() { return cut(get<std::uint64_t>()); }
  [[nodiscard]] std::string get_string() { return std::string(get_view()); }
  /// A vector of elements, each read by `get_one(reader)`.
  template <typename GetOne>
  [[nodiscard]] auto get_all(GetOne&& get_one) {
    std::vector<std::decay_t<decltype(get_one(*this))>> all;
    const auto count = get<std::uint64_t>();
    if (count > rest_.size()) {  // every element has at least one byte
      fail();
    }
    all.reserve(count);
    for (std::uint64_t k = 0; k < count; ++k) {
      all.push_back(get_one(*this));
    }
    return all;
  }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  [[noreturn]] static void fail() { throw Error(ErrorCategory::internal, "a message between processes ends early"); }
  std::string_view cut(std::uint64_t size) {
    if (size > rest_.size()) {
      fail();
    }
    const std::string_view piece = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return piece;
  }
  std::string_view rest_;
};

}  // namespace msvis
