// A data-only interpreter of Python pickles (protocols 2 to 5). Nothing is ever executed: what a pickle asks to call is given, as names
// and values, to a handler that knows a fixed list of functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/byte_source.h"

namespace msvis {

struct PickleValue {
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    big_integer,  ///< wider than 64 bits: two's complement, little endian, in text
    real,
    text,
    bytes,
    latin1_bytes,  ///< bytes that are written as text: each character is one byte
    tuple,
    list,
    dict,
    set,
    global,
    object,  ///< of the handler
  };
  Kind kind = Kind::none;
  std::uint32_t tag = 0;    ///< object: the handler's kind
  std::uint64_t index = 0;  ///< tuple, list, dict, set, global, object; size of a text
  union {
    std::int64_t integer = 0;
    double real;
    const char* chars;
    std::uint64_t count;  ///< elements of a tuple
  };

  [[nodiscard]] bool is(Kind wanted) const { return kind == wanted; }
  /// Content of text, bytes, latin1_bytes, big_integer.
  [[nodiscard]] std::string_view view() const { return {chars, index}; }
  [[nodiscard]] bool is_text(std::string_view wanted) const { return kind == Kind::text && view() == wanted; }
  [[nodiscard]] bool is_true() const { return kind == Kind::boolean && integer != 0; }
};

/// What the value is called in a message: `a list`.
std::string_view pickle_kind_text(PickleValue::Kind kind);

struct PickleGlobal {
  std::string_view module;
  std::string_view name;
};

class PickleMachine;

/// Meaning of calls and references; all functions may throw TensorError.
class PickleHandler {
 public:
  PickleHandler() = default;
  PickleHandler(const PickleHandler&) = delete;
  PickleHandler& operator=(const PickleHandler&) = delete;
  virtual ~PickleHandler() = default;
  /// A global was named.
  virtual void name_global(PickleMachine& machine, const PickleGlobal& global) = 0;
  /// callable(*arguments), also for objects made by `__new__`.
  virtual PickleValue call(PickleMachine& machine, const PickleGlobal& callable, const PickleValue& arguments) = 0;
  /// A persistent id.
  virtual PickleValue load_persistent(PickleMachine& machine, const PickleValue& id) = 0;
  /// `__setstate__` of an object of the handler; states of dicts are dropped by the machine.
  virtual void set_state(PickleMachine& machine, const PickleValue& object, const PickleValue& state) = 0;
};

/// A pickle that goes on beyond the bytes that were given.
class PickleEndsEarly : public TensorError {
 public:
  using TensorError::TensorError;
};

/// Runs one pickle. `bytes` must outlive the machine and its values.
class PickleMachine {
 public:
  /// `file_offset` is where the bytes stand in the file, for messages.
  PickleMachine(std::span<const std::byte> bytes, PickleHandler& handler, const ByteSource& source, std::uint64_t file_offset);

  /// Runs to STOP and returns the value. Throws TensorError: refused (opcode), damaged, too_large (limits); PickleEndsEarly.
  PickleValue run();
  /// Bytes up to and with STOP.
  [[nodiscard]] std::size_t consumed() const { return at_; }

  /// Elements of a tuple, list or set; keys and values alternating of a dict. Valid until the next value is made.
  [[nodiscard]] std::span<const PickleValue> items(const PickleValue& value) const;
  [[nodiscard]] const PickleGlobal& global(const PickleValue& value) const { return globals_[value.index]; }
  /// Value of a text key in a dict; nothing if absent.
  [[nodiscard]] std::optional<PickleValue> find(const PickleValue& dict, std::string_view key) const;
  [[nodiscard]] PickleValue make_dict();
  static PickleValue make_object(std::uint32_t tag, std::uint64_t index);

  [[noreturn]] void fail(TensorFault fault, const std::string& message) const;

 private:
  void step(std::uint8_t opcode);
  std::span<const std::byte> take(std::uint64_t size);
  template <typename T>
  T take_little();
  std::string_view take_line();
  void push(const PickleValue& value);
  PickleValue pop();
  PickleValue& top();
  std::size_t pop_mark();
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  void push_text(PickleValue::Kind kind, std::uint64_t size);
  void push_integer(std::int64_t value);
  void push_long(std::uint64_t size);
  void push_tuple(std::size_t first);
  void push_container(PickleValue::Kind kind);
  void push_global(const PickleGlobal& global);
  void append_from(std::size_t first, PickleValue::Kind kind);
  void remember(std::uint64_t slot);
  void recall(std::uint64_t slot);
  void build();

  std::span<const std::byte> bytes_;
  PickleHandler& handler_;
  const ByteSource& source_;
  std::uint64_t file_offset_;
  std::size_t at_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<std::optional<PickleValue>> memo_;
  std::uint64_t remembered_ = 0;
  std::vector<PickleValue> tuple_items_;
  std::vector<std::vector<PickleValue>> containers_;
  std::vector<PickleGlobal> globals_;
};

}  // namespace msvis
