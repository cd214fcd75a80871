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
/// An implementation detail of JsonValue, public so that values stay two machine words small.
struct JsonCell {
  const char* text = nullptr;  ///< string: decoded UTF-8; number: token as written; boolean: "true"/"false"; alias: the cell
  std::uint32_t size = 0;      ///< bytes of text; array, object: number of live elements or members
  std::uint32_t span = 1;      ///< number of cells of this value including its children (low 28 bits), see json.cpp
  enum class Tag : std::uint8_t { null, boolean, integer, real, string, array, object, alias, dropped_key };
  Tag tag = Tag::null;
};

/// A view of one JSON value. Valid as long as the JsonDocument or JsonPool it comes from. Cheap to copy.
class JsonValue {
 public:
  /// The absent value (a missing member): `if (value)` is false, `kind()` must not be asked.
  JsonValue() = default;
  explicit JsonValue(const JsonCell* cell);

  explicit operator bool() const { return cell_ != nullptr; }
  [[nodiscard]] JsonKind kind() const;
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
    JsonValue operator*() const;
    iterator& operator++();
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
    iterator(const JsonCell* at, const JsonCell* last);
    Member operator*() const;
    iterator& operator++();
    bool operator==(const iterator& other) const { return at_ == other.at_; }

   private:
    void skip_dropped();
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

/// Owner of values that no file holds: texts that are derived from others. Addresses are stable; the pool may be moved.
class JsonPool {
 public:
  JsonValue string(std::string_view text);
  JsonValue null();
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
