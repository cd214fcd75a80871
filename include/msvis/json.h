// Read-only JSON values as a dump holds them: numbers and object order exactly as written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msvis {

enum class JsonKind : std::uint8_t { null, boolean, integer, real, string, array, object };

/// One element of the flattened tree: a value is followed by its children (an object's as key, value, key, value ...).
/// An implementation detail of JsonValue, public so that values can be walked inline. Cells refer to each other by distance only, so a
/// whole tree may be moved.
struct JsonCell {
  /// The first seven are those of JsonKind. `alias` stands for a value whose key is written again later in the same object, `dropped_key`
  /// is such a later key: both are passed over when the members are walked.
  enum class Tag : std::uint8_t { null, boolean, integer, real, string, array, object, alias, dropped_key };
  union {
    const char* text = nullptr;  ///< string: decoded UTF-8; number: token as written; boolean: `true` or `false`
    std::uint64_t span;          ///< array, object: number of cells of this value including its children
    std::uint64_t target;        ///< alias: distance in cells to the value that counts
  };
  std::uint32_t size = 0;  ///< bytes of text; array, object: number of elements or distinct keys; alias: cells to pass over
  Tag tag = Tag::null;

  /// Number of cells that this value takes.
  [[nodiscard]] std::uint64_t cells() const {
    switch (tag) {
      case Tag::array:
      case Tag::object:
        return span;
      case Tag::alias:
        return size;
      default:
        return 1;
    }
  }
};
static_assert(sizeof(JsonCell) == 16);

/// A view of one JSON value. Valid as long as the JsonDocument or JsonPool it comes from. Cheap to copy.
class JsonValue {
 public:
  /// The absent value (a missing member): `if (value)` is false, `kind()` must not be asked.
  JsonValue() = default;
  /// The value at a cell; nullptr is the absent value.
  explicit JsonValue(const JsonCell* cell) : cell_(cell != nullptr && cell->tag == JsonCell::Tag::alias ? cell + cell->target : cell) {}

  explicit operator bool() const { return cell_ != nullptr; }
  [[nodiscard]] JsonKind kind() const { return static_cast<JsonKind>(cell_->tag); }
  [[nodiscard]] bool is(JsonKind kind) const { return cell_ != nullptr && this->kind() == kind; }
  [[nodiscard]] bool is_null() const { return is(JsonKind::null); }
  [[nodiscard]] bool is_string() const { return is(JsonKind::string); }
  [[nodiscard]] bool is_array() const { return is(JsonKind::array); }
  [[nodiscard]] bool is_object() const { return is(JsonKind::object); }
  /// integer or real; booleans are no numbers.
  [[nodiscard]] bool is_number() const { return is(JsonKind::integer) || is(JsonKind::real); }
  /// Value of a boolean.
  [[nodiscard]] bool boolean() const;
  /// False for absent, null, false, 0 (integer or real), "", [] and {}: the truth value that the dump's Python readers see.
  [[nodiscard]] bool truthy() const;
  /// string: the decoded text (valid UTF-8; a lone surrogate escape is U+FFFD). Number: the token as written, e.g. `1.50`,
  /// `-Infinity`, or a hundred digits.
  [[nodiscard]] std::string_view text() const;
  /// integer or real, correctly rounded; out of range gives ±infinity.
  [[nodiscard]] double number() const;
  /// array: number of elements; object: number of members (a repeated key counts once); else 0.
  [[nodiscard]] std::size_t size() const;
  /// Member of an object by key (the last one written, if repeated); absent if there is none or this is no object. Linear in the members.
  [[nodiscard]] JsonValue find(std::string_view key) const;

  struct Member;
  class MemberRange;
  class ElementRange;
  /// Members of an object in file order; a repeated key stands at its first place with its last value. Empty for other kinds.
  [[nodiscard]] MemberRange members() const;
  /// Elements of an array; empty for other kinds.
  [[nodiscard]] ElementRange elements() const;

  /// Identity (same place in the same document), not equality of content.
  [[nodiscard]] bool same_as(JsonValue other) const { return cell_ == other.cell_; }
  [[nodiscard]] const JsonCell* cell() const { return cell_; }

 private:
  const JsonCell* cell_ = nullptr;
};

struct JsonValue::Member {
  std::string_view key;
  JsonValue value;
};

/// Forward range over array elements.
class JsonValue::ElementRange {
 public:
  class iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = JsonValue;
    iterator() = default;
    explicit iterator(const JsonCell* at) : at_(at) {}
    JsonValue operator*() const { return JsonValue(at_); }
    iterator& operator++() {
      at_ += at_->cells();
      return *this;
    }
    iterator operator++(int) {  // NOLINT(cert-dcl21-cpp): as the standard library asks
      const iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const iterator&) const = default;

   private:
    const JsonCell* at_ = nullptr;
  };
  ElementRange(const JsonCell* first, const JsonCell* last) : first_(first), last_(last) {}
  [[nodiscard]] iterator begin() const { return iterator(first_); }
  [[nodiscard]] iterator end() const { return iterator(last_); }

 private:
  const JsonCell* first_;
  const JsonCell* last_;
};

/// Forward range over object members (dropped duplicates are skipped).
class JsonValue::MemberRange {
 public:
  class iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = Member;
    iterator() = default;
    iterator(const JsonCell* at, const JsonCell* last) : at_(at), last_(last) { skip_dropped(); }
    Member operator*() const { return {std::string_view(at_->text, at_->size), JsonValue(at_ + 1)}; }
    iterator& operator++() {
      step();
      skip_dropped();
      return *this;
    }
    iterator operator++(int) {  // NOLINT(cert-dcl21-cpp): as the standard library asks
      const iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const iterator& other) const { return at_ == other.at_; }

   private:
    void step() {
      ++at_;
      at_ += at_->cells();
    }
    void skip_dropped() {
      while (at_ != last_ && at_->tag == JsonCell::Tag::dropped_key) {
        step();
      }
    }
    const JsonCell* at_ = nullptr;
    const JsonCell* last_ = nullptr;
  };
  MemberRange(const JsonCell* first, const JsonCell* last) : first_(first), last_(last) {}
  [[nodiscard]] iterator begin() const { return {first_, last_}; }
  [[nodiscard]] iterator end() const { return {last_, last_}; }

 private:
  const JsonCell* first_;
  const JsonCell* last_;
};

inline JsonValue::MemberRange JsonValue::members() const {
  return is_object() ? MemberRange(cell_ + 1, cell_ + cell_->span) : MemberRange(nullptr, nullptr);
}

inline JsonValue::ElementRange JsonValue::elements() const {
  return is_array() ? ElementRange(cell_ + 1, cell_ + cell_->span) : ElementRange(nullptr, nullptr);
}

/// Owner of values that no file holds: texts that are derived from others. Addresses are stable; the pool may be moved.
class JsonPool {
 public:
  /// A string value with a copy of the text. Throws Error (limit) for 4 GiB and more.
  JsonValue string(std::string_view text);
  JsonValue null();
  /// A number with this token as its text (digits for an integer, Python's text for a real).
  JsonValue number(std::string_view token);
  /// An array of strings.
  JsonValue string_array(std::span<const std::string> texts);
  /// Keeps a copy of the text and returns a stable view of it.
  std::string_view keep(std::string_view text);

 private:
  std::deque<JsonCell> cells_;
  std::deque<std::vector<JsonCell>> arrays_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_used_ = 0;
  std::size_t block_size_ = 0;
};

}  // namespace msvis
