#include "tensor/pickle.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>

namespace msvis {
namespace {

using Kind = PickleValue::Kind;

// Opcodes as Python's pickletools names them.
enum Opcode : std::uint8_t {
  op_mark = '(',
  op_stop = '.',
  op_binfloat = 'G',
  op_binint = 'J',
  op_binint1 = 'K',
  op_binint2 = 'M',
  op_none = 'N',
  op_binpersid = 'Q',
  op_reduce = 'R',
  op_binstring = 'T',
  op_short_binstring = 'U',
  op_binunicode = 'X',
  op_append = 'a',
  op_build = 'b',
  op_global = 'c',
  op_appends = 'e',
  op_binget = 'h',
  op_long_binget = 'j',
  op_binput = 'q',
  op_long_binput = 'r',
  op_setitem = 's',
  op_tuple = 't',
  op_setitems = 'u',
  op_empty_tuple = ')',
  op_empty_list = ']',
  op_empty_dict = '}',
  op_binbytes = 'B',
  op_short_binbytes = 'C',
  op_proto = 0x80,
  op_newobj = 0x81,
  op_tuple1 = 0x85,
  op_tuple2 = 0x86,
  op_tuple3 = 0x87,
  op_newtrue = 0x88,
  op_newfalse = 0x89,
  op_long1 = 0x8a,
  op_long4 = 0x8b,
  op_short_binunicode = 0x8c,
  op_binunicode8 = 0x8d,
  op_binbytes8 = 0x8e,
  op_empty_set = 0x8f,
  op_additems = 0x90,
  op_stack_global = 0x93,
  op_memoize = 0x94,
  op_frame = 0x95,
};

struct RefusedOpcode {
  std::uint8_t code;
  std::string_view name;
};

// Named only so that a message can say what was met.
constexpr std::array<RefusedOpcode, 23> refused_opcodes = {{{'0', "POP"},
                                                            {'1', "POP_MARK"},
                                                            {'2', "DUP"},
                                                            {'F', "FLOAT"},
                                                            {'I', "INT"},
                                                            {'L', "LONG"},
                                                            {'P', "PERSID"},
                                                            {'S', "STRING"},
                                                            {'V', "UNICODE"},
                                                            {'d', "DICT"},
                                                            {'g', "GET"},
                                                            {'i', "INST"},
                                                            {'l', "LIST"},
                                                            {'o', "OBJ"},
                                                            {'p', "PUT"},
                                                            {0x82, "EXT1"},
                                                            {0x83, "EXT2"},
                                                            {0x84, "EXT4"},
                                                            {0x91, "FROZENSET"},
                                                            {0x92, "NEWOBJ_EX"},
                                                            {0x96, "BYTEARRAY8"},
                                                            {0x97, "NEXT_BUFFER"},
                                                            {0x98, "READONLY_BUFFER"}}};

constexpr std::size_t max_global_length = 1024;
constexpr std::uint8_t highest_protocol = 5;

std::string opcode_text(std::uint8_t opcode) {
  for (const RefusedOpcode& known : refused_opcodes) {
    if (known.code == opcode) {
      return std::string(known.name);
    }
  }
  return "number " + std::to_string(opcode);
}

}  // namespace

std::string_view pickle_kind_text(PickleValue::Kind kind) {
  switch (kind) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return "a bool";
    case Kind::integer:
    case Kind::big_integer:
      return "an int";
    case Kind::real:
      return "a float";
    case Kind::text:
      return "a str";
    case Kind::bytes:
    case Kind::latin1_bytes:
      return "bytes";
    case Kind::tuple:
      return "a tuple";
    case Kind::list:
      return "a list";
    case Kind::dict:
      return "a dict";
    case Kind::set:
      return "a set";
    case Kind::global:
      return "a class or function";
    case Kind::object:
      return "an object";
  }
  return "an object";
}

PickleMachine::PickleMachine(std::span<const std::byte> bytes, PickleHandler& handler, const ByteSource& source, std::uint64_t file_offset)
    : bytes_(bytes), handler_(handler), source_(source), file_offset_(file_offset) {
  stack_.reserve(32);
  tuple_items_.reserve(32);
}

void PickleMachine::fail(TensorFault fault, const std::string& message) const {
  source_.fail(fault, message, file_offset_ + at_);
}

PickleValue PickleMachine::run() {
  for (std::uint64_t operations = 0;; ++operations) {
    if (operations >= TensorLimits::max_pickle_operations) {
      fail(TensorFault::too_large, "its pickle has more than " + std::to_string(TensorLimits::max_pickle_operations) + " operations");
    }
    const auto opcode = std::to_integer<std::uint8_t>(take(1)[0]);
    if (opcode == op_stop) {
      return pop();
    }
    step(opcode);
  }
}

std::span<const PickleValue> PickleMachine::items(const PickleValue& value) const {
  switch (value.kind) {
    case Kind::tuple:
      return std::span(tuple_items_).subspan(value.index, value.count);
    case Kind::list:
    case Kind::dict:
    case Kind::set:
      return containers_[value.index];
    default:
      return {};
  }
}

std::optional<PickleValue> PickleMachine::find(const PickleValue& dict, std::string_view key) const {
  std::optional<PickleValue> found;
  if (dict.is(Kind::dict)) {
    const std::span<const PickleValue> all = items(dict);
    for (std::size_t k = 0; k + 1 < all.size(); k += 2) {
      if (all[k].is_text(key)) {
        found = all[k + 1];  // the last one counts
      }
    }
  }
  return found;
}

PickleValue PickleMachine::make_dict() {
  PickleValue value;
  value.kind = Kind::dict;
  value.index = containers_.size();
  containers_.emplace_back();
  return value;
}

PickleValue PickleMachine::make_object(std::uint32_t tag, std::uint64_t index) {
  PickleValue value;
  value.kind = Kind::object;
  value.tag = tag;
  value.index = index;
  return value;
}

std::span<const std::byte> PickleMachine::take(std::uint64_t size) {
  if (size > bytes_.size() - at_) {
    throw PickleEndsEarly(TensorFault::damaged, "its pickle ends early", source_.name(), file_offset_ + at_);
  }
  const std::span<const std::byte> piece = bytes_.subspan(at_, size);
  at_ += size;
  return piece;
}

template <typename T>
T PickleMachine::take_little() {
  return load_little<T>(take(sizeof(T)), 0);
}

std::string_view PickleMachine::take_line() {
  const std::size_t first = at_;
  while (std::to_integer<char>(take(1)[0]) != '\n') {
    if (at_ - first > max_global_length) {
      fail(TensorFault::refused, "its pickle names a global of more than " + std::to_string(max_global_length) + " characters");
    }
  }
  return {reinterpret_cast<const char*>(bytes_.data()) + first, at_ - first - 1};
}

void PickleMachine::push(const PickleValue& value) {
  if (stack_.size() >= TensorLimits::max_pickle_stack) {
    fail(TensorFault::too_large, "its pickle needs a stack of more than " + std::to_string(TensorLimits::max_pickle_stack) + " values");
  }
  stack_.push_back(value);
}

PickleValue PickleMachine::pop() {
  const PickleValue value = top();
  stack_.pop_back();
  return value;
}

PickleValue& PickleMachine::top() {
  if (stack_.size() <= floor()) {
    fail(TensorFault::damaged, "its pickle takes a value that is not there");
  }
  return stack_.back();
}

std::size_t PickleMachine::pop_mark() {
  if (marks_.empty()) {
    fail(TensorFault::damaged, "its pickle takes a mark that is not there");
  }
  const std::size_t first = marks_.back();
  marks_.pop_back();
  return first;
}

void PickleMachine::push_text(Kind kind, std::uint64_t size) {
  const std::span<const std::byte> content = take(size);
  PickleValue value;
  value.kind = kind;
  value.index = content.size();
  value.chars = reinterpret_cast<const char*>(content.data());
  push(value);
}

void PickleMachine::push_integer(std::int64_t value) {
  PickleValue pushed;
  pushed.kind = Kind::integer;
  pushed.integer = value;
  push(pushed);
}

void PickleMachine::push_long(std::uint64_t size) {
  if (size > sizeof(std::int64_t)) {
    push_text(Kind::big_integer, size);
    return;
  }
  const std::span<const std::byte> digits = take(size);
  std::uint64_t bits = 0;
  for (std::size_t k = 0; k < digits.size(); ++k) {
    bits |= std::to_integer<std::uint64_t>(digits[k]) << (8 * k);
  }
  if (size > 0 && size < sizeof bits && (digits.back() & std::byte{0x80}) != std::byte{0}) {
    bits |= ~std::uint64_t{0} << (8 * size);
  }
  push_integer(static_cast<std::int64_t>(bits));
}

void PickleMachine::push_tuple(std::size_t first) {
  if (first < floor() || first > stack_.size()) {
    fail(TensorFault::damaged, "its pickle takes a value that is not there");
  }
  PickleValue value;
  value.kind = Kind::tuple;
  value.index = tuple_items_.size();
  value.count = stack_.size() - first;
  tuple_items_.insert(tuple_items_.end(), stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
  stack_.resize(first);
  push(value);
}

void PickleMachine::push_container(Kind kind) {
  PickleValue value = make_dict();
  value.kind = kind;
  push(value);
}

void PickleMachine::push_global(const PickleGlobal& global) {
  handler_.name_global(*this, global);
  PickleValue value;
  value.kind = Kind::global;
  value.index = globals_.size();
  globals_.push_back(global);
  push(value);
}

void PickleMachine::append_from(std::size_t first, Kind kind) {
  if (first < floor() || first > stack_.size() || first - floor() < 1) {
    fail(TensorFault::damaged, "its pickle takes a value that is not there");
  }
  const PickleValue target = stack_[first - 1];
  const std::size_t count = stack_.size() - first;
  if (!target.is(kind) || (kind == Kind::dict && count % 2 != 0)) {
    fail(TensorFault::refused, "its pickle adds elements to " + std::string(pickle_kind_text(target.kind)));
  }
  std::vector<PickleValue>& elements = containers_[target.index];
  elements.insert(elements.end(), stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
  stack_.resize(first);
}

void PickleMachine::remember(std::uint64_t slot) {
  if (slot >= TensorLimits::max_pickle_memo) {
    fail(TensorFault::too_large, "its pickle remembers more than " + std::to_string(TensorLimits::max_pickle_memo) + " values");
  }
  if (slot >= memo_.size()) {
    memo_.resize(slot + 1);
  }
  remembered_ += memo_[slot] ? 0 : 1;
  memo_[slot] = top();
}

void PickleMachine::recall(std::uint64_t slot) {
  if (slot >= memo_.size() || !memo_[slot]) {
    fail(TensorFault::damaged, "its pickle recalls a value that it did not remember");
  }
  push(*memo_[slot]);
}

void PickleMachine::build() {
  const PickleValue state = pop();
  const PickleValue object = top();
  if (object.is(Kind::object)) {
    handler_.set_state(*this, object, state);
  } else if (!object.is(Kind::dict)) {  // attributes of an OrderedDict mean nothing to us
    fail(TensorFault::refused, "its pickle sets the state of " + std::string(pickle_kind_text(object.kind)));
  }
}

void PickleMachine::step(std::uint8_t opcode) {
  PickleValue value;
  switch (opcode) {
    case op_proto: {
      const auto protocol = take_little<std::uint8_t>();
      if (protocol > highest_protocol) {
        fail(TensorFault::refused, "its pickle has protocol " + std::to_string(protocol) + "; up to 5 is read");
      }
      return;
    }
    case op_frame:
      (void)take_little<std::uint64_t>();  // frames only help readers of streams
      return;
    case op_mark:
      if (marks_.size() >= TensorLimits::max_pickle_stack) {
        fail(TensorFault::too_large, "its pickle needs more than " + std::to_string(TensorLimits::max_pickle_stack) + " marks");
      }
      marks_.push_back(stack_.size());
      return;
    case op_none:
      return push(value);
    case op_newtrue:
    case op_newfalse:
      value.kind = Kind::boolean;
      value.integer = opcode == op_newtrue ? 1 : 0;
      return push(value);
    case op_binint:
      return push_integer(static_cast<std::int32_t>(take_little<std::uint32_t>()));
    case op_binint1:
      return push_integer(take_little<std::uint8_t>());
    case op_binint2:
      return push_integer(take_little<std::uint16_t>());
    case op_long1:
      return push_long(take_little<std::uint8_t>());
    case op_long4:
      return push_long(take_little<std::uint32_t>());
    case op_binfloat:
      value.kind = Kind::real;
      value.real = std::bit_cast<double>(__builtin_bswap64(take_little<std::uint64_t>()));
      return push(value);
    case op_short_binunicode:
      return push_text(Kind::text, take_little<std::uint8_t>());
    case op_binunicode:
      return push_text(Kind::text, take_little<std::uint32_t>());
    case op_binunicode8:
      return push_text(Kind::text, take_little<std::uint64_t>());
    case op_short_binstring:  // a str of Python 2
      return push_text(Kind::text, take_little<std::uint8_t>());
    case op_binstring:
      return push_text(Kind::text, take_little<std::uint32_t>());
    case op_short_binbytes:
      return push_text(Kind::bytes, take_little<std::uint8_t>());
    case op_binbytes:
      return push_text(Kind::bytes, take_little<std::uint32_t>());
    case op_binbytes8:
      return push_text(Kind::bytes, take_little<std::uint64_t>());
    case op_empty_tuple:
      return push_tuple(stack_.size());
    case op_tuple1:
    case op_tuple2:
    case op_tuple3: {
      const std::size_t count = std::size_t{opcode} - op_tuple1 + 1U;
      if (stack_.size() - floor() < count) {
        fail(TensorFault::damaged, "its pickle takes a value that is not there");
      }
      return push_tuple(stack_.size() - count);
    }
    case op_tuple:
      return push_tuple(pop_mark());
    case op_empty_list:
      return push_container(Kind::list);
    case op_empty_dict:
      return push_container(Kind::dict);
    case op_empty_set:
      return push_container(Kind::set);
    case op_append:
      (void)top();
      return append_from(stack_.size() - 1, Kind::list);
    case op_appends:
      return append_from(pop_mark(), Kind::list);
    case op_additems:
      return append_from(pop_mark(), Kind::set);
    case op_setitem:
      if (stack_.size() - floor() < 2) {
        fail(TensorFault::damaged, "its pickle takes a value that is not there");
      }
      return append_from(stack_.size() - 2, Kind::dict);
    case op_setitems:
      return append_from(pop_mark(), Kind::dict);
    case op_binput:
      return remember(take_little<std::uint8_t>());
    case op_long_binput:
      return remember(take_little<std::uint32_t>());
    case op_memoize:
      return remember(remembered_);
    case op_binget:
      return recall(take_little<std::uint8_t>());
    case op_long_binget:
      return recall(take_little<std::uint32_t>());
    case op_global: {
      const std::string_view module = take_line();
      const std::string_view name = take_line();
      return push_global({module, name});
    }
    case op_stack_global: {
      const PickleValue name = pop();
      const PickleValue module = pop();
      if (!name.is(Kind::text) || !module.is(Kind::text) || name.view().size() > max_global_length ||
          module.view().size() > max_global_length) {
        fail(TensorFault::damaged, "its pickle names a global by something that is no name");
      }
      return push_global({module.view(), name.view()});
    }
    case op_reduce:
    case op_newobj: {
      const PickleValue arguments = pop();
      const PickleValue callable = pop();
      if (!callable.is(Kind::global) || !arguments.is(Kind::tuple)) {
        fail(TensorFault::refused, "its pickle calls " + std::string(pickle_kind_text(callable.kind)));
      }
      const PickleGlobal name = global(callable);
      return push(handler_.call(*this, name, arguments));
    }
    case op_binpersid: {
      const PickleValue id = pop();
      return push(handler_.load_persistent(*this, id));
    }
    case op_build:
      return build();
    default:
      fail(TensorFault::refused, "its pickle has the operation " + opcode_text(opcode) + ", which no tensor file needs");
  }
}

}  // namespace msvis
