// Text to cells. simdjson's first stage finds every token of a piece of text at many bytes per instruction and checks UTF-8; the
// second stage here differs from simdjson's own because Python writes what that refuses: NaN, integers of any size, lone surrogates.
#include <fcntl.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <vector>

#include "dump/memory_block.h"
#include "dump/name_map.h"
#include "msvis/dump.h"
#include "msvis/error.h"

namespace msvis {
namespace {

using Tag = JsonCell::Tag;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
/// Characters that a number or a word (`null`, `-Infinity`) may consist of.
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.';
}

/// What stands at a place, for a message: up to 20 printable characters in quotes.
std::string shown(const char* at, const char* end) {
  std::string text = "'";
  for (const char* stop = at + std::min<std::ptrdiff_t>(end - at, 20); at != stop; ++at) {
    const auto byte = static_cast<unsigned char>(*at);
    if (byte < 0x20 || byte >= 0x7f) {
      if (text.size() == 1) {
        constexpr std::string_view hex = "0123456789abcdef";
        return std::string("byte 0x") + hex[byte >> 4] + hex[byte & 15];
      }
      break;
    }
    text += *at;
  }
  return text + "'";
}

/// Place of the first byte that is not part of a well-formed UTF-8 character; `end` if all is well. Only used for messages.
const char* first_bad_utf8(const char* at, const char* end) {
  while (at != end) {
    const auto lead = static_cast<unsigned char>(*at);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    const std::ptrdiff_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                                  : lead >= 0xE0 && lead <= 0xEF ? 3
                                  : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                                 : 0;
    if (length == 0 || end - at < length) {
      return at;
    }
    const auto second = static_cast<unsigned char>(at[1]);
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (second < low || second > high) {
      return at;
    }
    for (std::ptrdiff_t k = 2; k < length; ++k) {
      if ((static_cast<unsigned char>(at[k]) & 0xC0) != 0x80) {
        return at;
      }
    }
    at += length;
  }
  return end;
}

/// Decoded strings that the text itself does not hold, in blocks whose addresses stay.
class TextArena {
 public:
  /// Room for `bytes`; call used() with what was needed of it before the next call.
  char* room(std::size_t bytes) {
    if (bytes > left_) {
      const std::size_t size = std::max(bytes, block_bytes);
      blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
      at_ = blocks_.back().get();
      left_ = size;
    }
    return at_;
  }
  void used(std::size_t bytes) {
    at_ += bytes;
    left_ -= bytes;
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{256} << 10;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* at_ = nullptr;
  std::size_t left_ = 0;
};

/// Six bits of a key, to see cheaply that the keys of an object all differ. Free of collisions for the members of the dumper's records.
unsigned key_mark(const char* key, std::uint32_t size) {
  if (size == 0) {
    return 0;
  }
  const auto first = static_cast<unsigned char>(key[0]);
  const auto last = static_cast<unsigned char>(key[size - 1]);
  return (size * 1U + first * 2U + last * 13U) & 63U;
}

/// Keys of an object, with the distance of each key's cell from the first cell of all.
using KeyMap = NameMap<std::uint32_t>;

struct ObjectIndex {
  std::uint64_t cell = 0;
  KeyMap keys;
};

class Parser {
 public:
  Parser(const std::filesystem::path& name, const JsonDocument::Limits& limits, std::size_t expected_bytes, MemoryBlock& cells,
         TextArena& arena)
      : name_(name),
        max_depth_(limits.max_depth),
        piece_(std::clamp<std::uint64_t>(limits.max_piece_bytes, 1, max_piece)),
        cell_block_(cells),
        arena_(arena) {
    // A guess above what the dumper's files need: address space that is not written costs nothing, growing might.
    reserve_cells(std::min<std::size_t>(expected_bytes / 8 + 16, std::numeric_limits<std::uint32_t>::max()));
    open_.reserve(64);
  }

  /// Parses what can be parsed of the first `available` bytes of the text; all of them if these are `final`. `text` must not move
  /// between calls.
  void parse(const char* text, std::size_t available, bool final) {
    text_ = text;
    available_ = available;
    if (parsed_ == 0 && available >= 3 && std::memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
      fail(text, "starts with a byte-order mark: JSON has none");
    }
    while (parsed_ != available) {
      const std::size_t end = piece_end(final);
      if (end == parsed_) {
        return;  // more text is needed
      }
      parse_piece(end, final && end == available);
      parsed_ = end;
    }
  }

  /// To be called when all text was parsed. Returns the number of cells.
  /// `indexes` gets the key maps of the large objects, in the order of their cells.
  std::size_t finish(std::vector<ObjectIndex>& indexes) {
    if (state_ != State::end) {
      const char* end = text_ + available_;
      if (cell_count_ == 0) {
        fail(end, available_ == 0 ? "is empty: JSON text was expected" : "holds nothing but blanks: JSON text was expected");
      }
      fail(end, "ends in the middle of the JSON text: the file is cut short");
    }
    std::sort(indexes_.begin(), indexes_.end(), [](const ObjectIndex& a, const ObjectIndex& b) { return a.cell < b.cell; });
    indexes = std::move(indexes_);
    return cell_count_;
  }

 private:
  enum class State : std::uint8_t { value, first_element, first_key, key, colon, after_value, end };
  struct Open {
    std::uint64_t cell = 0;
    std::uint64_t marks = 0;
    std::size_t repeats_begin = 0;  ///< in repeats_
    std::unique_ptr<KeyMap> keys;   ///< of a large object; all but the last key
    std::uint64_t last_key = 0;     ///< of a large object: cell and hash of the key that is not yet in `keys`
    std::uint32_t last_hash = 0;
    std::uint32_t count = 0;
    bool is_object = false;
    bool maybe_repeated = false;
  };
  /// A key that was there already.
  struct Repeat {
    std::uint32_t first = 0;
    std::uint32_t again = 0;
  };
  static constexpr std::uint64_t max_piece = std::uint64_t{1} << 31;
  static constexpr std::uint32_t few_members = 24;  ///< an object with more is large
  static constexpr std::size_t indexed_levels = 2;  ///< large objects of the outermost levels are asked by key

  [[noreturn]] void fail(const char* at, const std::string& message, ErrorCategory category = ErrorCategory::format) const {
    throw Error(category, message, name_, static_cast<std::uint64_t>(at - text_));
  }

  JsonCell* cells() const { return reinterpret_cast<JsonCell*>(cell_block_.data()); }

  void reserve_cells(std::size_t count) {
    if (count > cell_capacity_) {
      if (count > std::numeric_limits<std::uint32_t>::max()) {
        throw Error(ErrorCategory::limit, "holds more than 4294967295 JSON values", name_);
      }
      cell_capacity_ = std::max(count, cell_capacity_ + cell_capacity_ / 2);
      cell_block_.resize(cell_capacity_ * sizeof(JsonCell));
    }
  }

  /// End of the next piece of text: behind a token, near parsed_ + piece_. parsed_ itself if more text is needed first.
  std::size_t piece_end(bool final) {
    if (!final && available_ - parsed_ < piece_) {
      return parsed_;
    }
    const std::size_t wanted = available_ - parsed_ > piece_ ? parsed_ + piece_ : available_;
    if (final && wanted == available_ && scanned_ <= parsed_) {
      return available_;
    }
    // A line break never stands inside a string or a number, so behind one is always a good place. (If one does, the text is wrong, and
    // the string before the cut is refused as not closed.)
    if (scanned_ <= parsed_) {
      scanned_ = parsed_;
      in_string_ = false;
    }
    const void* line_break = scanned_ < wanted ? memrchr(text_ + scanned_, '\n', wanted - scanned_) : nullptr;
    if (line_break != nullptr) {
      return scanned_ = static_cast<std::size_t>(static_cast<const char*>(line_break) - text_) + 1;
    }
    if (scanned_ == parsed_) {
      if (const std::size_t cut = cut_by_quotes(wanted); cut != parsed_) {
        return scanned_ = cut;
      }
    }
    // Look for a place outside of strings. What was looked at is remembered, so that a string that is longer
    // than the piece is not walked again and again.
    std::size_t cut = parsed_;
    std::size_t at = scanned_;
    while (at < available_ && (at < wanted || cut == parsed_)) {
      if (in_string_) {
        const void* quote = memchr(text_ + at, '"', available_ - at);
        if (quote == nullptr) {
          at = available_;
          break;
        }
        const char* place = static_cast<const char*>(quote);
        const char* before = place;
        while (before[-1] == '\\') {  // the string's own opening quote ends this at the latest
          --before;
        }
        at = static_cast<std::size_t>(place - text_) + 1;
        in_string_ = (place - before) % 2 != 0;
        continue;
      }
      const char c = text_[at++];
      if (c == '"') {
        in_string_ = true;
      } else if (!is_word(c)) {
        cut = at;
      }
    }
    if (cut != parsed_) {
      scanned_ = cut;  // what lies behind is looked at again
      in_string_ = false;
      return cut;
    }
    scanned_ = at;
    if (scanned_ - parsed_ > max_piece) {
      fail(text_ + parsed_, "holds a single text or number of more than 2 GiB", ErrorCategory::limit);
    }
    return final ? available_ : parsed_;
  }

  /// In text without escapes the number of quotes up to a place tells whether it is in a string. Returns the last place up to `wanted`
  /// that is good for a cut; parsed_ if there is none or this can't tell.
  [[nodiscard]] std::size_t cut_by_quotes(std::size_t wanted) const {
    const char* begin = text_ + parsed_;
    const char* end = text_ + wanted;
    const std::size_t length = wanted - parsed_;
    if (memchr(begin, '\\', length) != nullptr) {
      return parsed_;
    }
    if (std::count(begin, end, '"') % 2 != 0) {
      end = static_cast<const char*>(memrchr(begin, '"', length));
    } else {
      while (end != begin && is_word(end[-1])) {
        --end;
      }
    }
    return static_cast<std::size_t>(end - text_);
  }

  void parse_piece(std::size_t end, bool last) {
    const std::size_t length = end - parsed_;
    const char* begin = text_ + parsed_;
    if (!indexer_ || indexer_->capacity() < length + simdjson::SIMDJSON_PADDING) {
      const std::size_t capacity =
          std::max<std::size_t>(length, std::min<std::uint64_t>(piece_, available_)) + 2 * simdjson::SIMDJSON_PADDING;
      const simdjson::error_code error =
          indexer_ ? indexer_->set_capacity(capacity)
                   : simdjson::get_active_implementation()->create_dom_parser_implementation(capacity, 1, indexer_);
      if (error != simdjson::SUCCESS) {
        throw std::bad_alloc();
      }
    }
    const simdjson::error_code error =
        indexer_->stage1(reinterpret_cast<const std::uint8_t*>(begin), length, simdjson::stage1_mode::regular);
    if (error == simdjson::EMPTY) {
      return;  // blanks only
    }
    if (error != simdjson::SUCCESS) {
      explain(error, begin, begin + length, last);
    }
    piece_begin_ = begin;
    piece_end_ = begin + length;
    find_backslash(begin);
    reserve_cells(cell_count_ + indexer_->n_structural_indexes);
    take_tokens();
  }

  /// Says where in a piece the text is wrong.
  [[noreturn]] void explain(simdjson::error_code error, const char* begin, const char* end, bool last) const {
    if (error == simdjson::UTF8_ERROR) {
      const char* bad = first_bad_utf8(begin, end);
      fail(bad, "is not UTF-8 text (found " + shown(bad, end) + ")");
    }
    if (error == simdjson::UNESCAPED_CHARS || error == simdjson::UNCLOSED_STRING) {
      bool in_string = false;
      const char* opened = begin;
      for (const char* at = begin; at != end; ++at) {
        if (in_string && static_cast<unsigned char>(*at) < 0x20) {
          fail(at, "has a control character inside a string (found " + shown(at, end) + ")");
        }
        if (in_string && *at == '\\' && at + 1 != end && static_cast<unsigned char>(at[1]) >= 0x20) {
          ++at;
        } else if (*at == '"') {
          in_string = !in_string;
          opened = at;
        }
      }
      if (in_string && last) {
        fail(opened, "ends inside a string: the file is cut short");
      }
      fail(opened, "has a string without an end");
    }
    if (error == simdjson::MEMALLOC) {
      throw std::bad_alloc();
    }
    fail(begin, std::string("is no JSON text: ") + simdjson::error_message(error));
  }

  void find_backslash(const char* from) {
    const void* found = memchr(from, '\\', static_cast<std::size_t>(piece_end_ - from));
    backslash_ = found != nullptr ? static_cast<const char*>(found) : piece_end_;
  }

  /// The string that starts with the quote at `start`; `next` is the next token. Between its closing quote and `next` are only blanks.
  void take_string(const char* start, const char* next, JsonCell& cell) {
    const char* close = next - 1;
    while (static_cast<unsigned char>(*close) <= ' ') {
      --close;
    }
    if (close <= start || *close != '"') {
      fail(start, "has a string without an end");
    }
    const char* begin = start + 1;
    cell.tag = Tag::string;
    if (backslash_ < begin) {
      find_backslash(begin);
    }
    if (backslash_ < close) {
      unescape(begin, close, cell);
      return;
    }
    cell.text = begin;
    cell.size = static_cast<std::uint32_t>(close - begin);
  }

  void unescape(const char* at, const char* end, JsonCell& cell) {
    char* const room = arena_.room(static_cast<std::size_t>(end - at));  // decoded text is never longer
    char* out = room;
    const char* escape = backslash_;
    while (true) {
      out = std::copy(at, escape, out);
      if (escape == end) {
        break;
      }
      at = escape + 2;
      switch (escape + 1 != end ? escape[1] : '\0') {
        case '"':
        case '\\':
        case '/':
          *out++ = escape[1];
          break;
        case 'b':
          *out++ = '\b';
          break;
        case 'f':
          *out++ = '\f';
          break;
        case 'n':
          *out++ = '\n';
          break;
        case 'r':
          *out++ = '\r';
          break;
        case 't':
          *out++ = '\t';
          break;
        case 'u': {
          std::uint32_t code = hex4(escape, end);
          at = escape + 6;
          if (code >= 0xD800 && code <= 0xDBFF && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
            const std::uint32_t low = hex4(at, end);
            if (low >= 0xDC00 && low <= 0xDFFF) {
              code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
              at += 6;
            }
          }
          out = put_utf8(code >= 0xD800 && code <= 0xDFFF ? 0xFFFD : code, out);
          break;
        }
        default:
          fail(escape, "has an unknown escape in a string (found " + shown(escape, end) + ")");
      }
      const void* found = memchr(at, '\\', static_cast<std::size_t>(end - at));
      escape = found != nullptr ? static_cast<const char*>(found) : end;
    }
    find_backslash(end);
    cell.text = room;
    cell.size = static_cast<std::uint32_t>(out - room);
    arena_.used(cell.size);
  }

  /// The four digits of the escape at `escape` (`\uXXXX`).
  std::uint32_t hex4(const char* escape, const char* end) const {
    std::uint32_t code = 0;
    for (std::ptrdiff_t k = 2; k < 6; ++k) {
      const char c = end - escape > k ? escape[k] : '\0';
      std::uint32_t digit = 0;
      if (is_digit(c)) {
        digit = static_cast<std::uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<std::uint32_t>(c - 'a') + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<std::uint32_t>(c - 'A') + 10;
      } else {
        fail(escape, "has an incomplete \\u escape in a string (found " + shown(escape, end) + ")");
      }
      code = code << 4 | digit;
    }
    return code;
  }

  static char* put_utf8(std::uint32_t code, char* out) {
    const auto put = [&out](std::uint32_t byte) { *out++ = static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0 | code >> 6);
      put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      put(0xE0 | code >> 12);
      put(0x80 | (code >> 6 & 0x3F));
      put(0x80 | (code & 0x3F));
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
      put(0x80 | (code >> 6 & 0x3F));
      put(0x80 | (code & 0x3F));
    }
    return out;
  }

  static const char* token_end(const char* start, const char* next) {
    while (next != start && is_space(next[-1])) {
      --next;
    }
    return next;
  }

  void take_word(const char* start, const char* next, std::string_view word, Tag tag, JsonCell& cell) const {
    const char* end = token_end(start, next);
    if (std::string_view(start, static_cast<std::size_t>(end - start)) != word) {
      fail(start, "has no JSON value where one was expected (found " + shown(start, end) + ")");
    }
    cell.text = start;
    cell.size = static_cast<std::uint32_t>(word.size());
    cell.tag = tag;
  }

  void take_number(const char* start, const char* next, JsonCell& cell) const {
    const char* const end = token_end(start, next);
    const char* at = start;
    const auto digits = [&at, end] {
      const char* from = at;
      while (at != end && is_digit(*at)) {
        ++at;
      }
      return at != from;
    };
    if (*at == '-') {
      ++at;
      if (at != end && *at == 'I') {
        take_word(start, next, "-Infinity", Tag::real, cell);
        return;
      }
    }
    Tag tag = Tag::integer;
    bool good = true;
    if (at != end && *at == '0') {
      ++at;
    } else {
      good = digits();
    }
    if (good && at != end && *at == '.') {
      ++at;
      tag = Tag::real;
      good = digits();
    }
    if (good && at != end && (*at == 'e' || *at == 'E')) {
      ++at;
      tag = Tag::real;
      if (at != end && (*at == '+' || *at == '-')) {
        ++at;
      }
      good = digits();
    }
    if (!good || at != end) {
      fail(start, "has a malformed number (found " + shown(start, end) + ")");
    }
    cell.text = start;
    cell.size = static_cast<std::uint32_t>(end - start);
    cell.tag = tag;
  }

  void open(const char* at, JsonCell& cell, Tag tag) {
    if (open_.size() >= max_depth_) {
      fail(at, "is nested more than " + std::to_string(max_depth_) + " levels deep", ErrorCategory::limit);
    }
    cell.tag = tag;
    Open& opened = open_.emplace_back();
    opened.cell = cell_count_ - 1;
    opened.is_object = tag == Tag::object;
  }

  void close(const char* at, bool is_object) {
    if (open_.empty() || open_.back().is_object != is_object) {
      fail(at, "has " + shown(at, at + 1) + " where none is open");
    }
    Open& closed = open_.back();
    JsonCell& cell = cells()[closed.cell];
    cell.span = cell_count_ - closed.cell;
    cell.size = closed.count;
    if (closed.keys) {
      add_last_key(closed);
      cell.size = static_cast<std::uint32_t>(closed.keys->size());
      for (std::size_t k = closed.repeats_begin; k < repeats_.size(); ++k) {
        repeat(cells()[repeats_[k].first], cells()[repeats_[k].again]);
      }
      repeats_.resize(closed.repeats_begin);
      if (open_.size() <= indexed_levels) {
        indexes_.push_back({closed.cell, std::move(*closed.keys)});
      } else {
        spare_keys_.push_back(std::move(closed.keys));
      }
    } else if (closed.maybe_repeated) {
      merge_repeated(cell);
    }
    open_.pop_back();
    state_ = open_.empty() ? State::end : State::after_value;
  }

  /// Notes the key that was added last, to find those that occur again: a key keeps its first place and gets its last value.
  void note_key(Open& object, const JsonCell& key) {
    const std::uint64_t mark = std::uint64_t{1} << key_mark(key.text, key.size);
    object.maybe_repeated |= (object.marks & mark) != 0;
    object.marks |= mark;
    ++object.count;
    if (object.count > few_members) {
      note_key_of_large(object);
    }
  }

  /// A key goes into the map one key late: meanwhile its place there comes into the cache.
  void note_key_of_large(Open& object) {
    const auto hash_key = [this, &object](std::uint64_t number) {
      const JsonCell& key = cells()[number];
      object.last_key = number;
      object.last_hash = object.keys->prepare(std::string_view(key.text, key.size));
    };
    if (!object.keys) {
      if (spare_keys_.empty()) {
        object.keys = std::make_unique<KeyMap>();
      } else {
        object.keys = std::move(spare_keys_.back());
        spare_keys_.pop_back();
      }
      object.keys->reset(std::size_t{2} * few_members);
      object.repeats_begin = repeats_.size();
      for (std::uint64_t number = object.cell + 1; number < cell_count_ - 1; number += 1 + cells()[number + 1].cells()) {
        hash_key(number);
        add_last_key(object);
      }
    } else {
      add_last_key(object);
    }
    hash_key(cell_count_ - 1);
  }

  void add_last_key(Open& object) {
    const JsonCell& key = cells()[object.last_key];
    const auto place = static_cast<std::uint32_t>(object.last_key);
    const auto [first, is_new] = object.keys->insert(std::string_view(key.text, key.size), object.last_hash, place);
    if (!is_new) {
      repeats_.push_back({*first, place});
    }
  }

  /// Merges the repeated keys of a small object.
  void merge_repeated(JsonCell& object) {
    const JsonCell* const end = &object + object.span;
    std::array<JsonCell*, few_members> firsts{};
    std::size_t count = 0;
    for (JsonCell* key = &object + 1; key != end; key += 1 + (key + 1)->cells()) {
      bool is_new = true;
      for (std::size_t k = 0; k < count && is_new; ++k) {
        is_new = firsts[k]->size != key->size || std::memcmp(firsts[k]->text, key->text, key->size) != 0;
        if (!is_new) {
          repeat(*firsts[k], *key);
        }
      }
      if (is_new) {
        firsts[count++] = key;
      }
    }
    object.size = static_cast<std::uint32_t>(count);
  }

  static void repeat(JsonCell& first_key, JsonCell& key) {
    JsonCell& value = *(&first_key + 1);
    const std::uint64_t passed = value.cells();
    value.tag = Tag::alias;
    value.size = static_cast<std::uint32_t>(passed);
    value.target = static_cast<std::uint64_t>(&key + 1 - &value);
    key.tag = Tag::dropped_key;
  }

  JsonCell& add_cell() { return *new (cells() + cell_count_++) JsonCell(); }

  void take_tokens() {
    const std::uint32_t* token = indexer_->structural_indexes.get();
    const std::uint32_t* const tokens_end = token + indexer_->n_structural_indexes;
    const auto next_of = [this, tokens_end](const std::uint32_t* of) { return of + 1 != tokens_end ? piece_begin_ + of[1] : piece_end_; };
    while (token != tokens_end) {
      const char* at = piece_begin_ + *token;
      switch (state_) {
        case State::first_key:
          if (*at == '}') {
            close(at, true);
            ++token;
            break;
          }
          [[fallthrough]];
        case State::key: {
          if (*at != '"') {
            fail(at, "has no key where one was expected in an object (found " + shown(at, next_of(token)) + ")");
          }
          JsonCell& cell = add_cell();
          take_string(at, next_of(token), cell);
          note_key(open_.back(), cell);
          state_ = State::colon;
          if (++token == tokens_end) {
            break;
          }
          at = piece_begin_ + *token;
          [[fallthrough]];
        }
        case State::colon:
          if (*at != ':') {
            fail(at, "has no ':' behind a key (found " + shown(at, next_of(token)) + ")");
          }
          state_ = State::value;
          if (++token == tokens_end) {
            break;
          }
          at = piece_begin_ + *token;
          [[fallthrough]];
        case State::value: {
          const char* next = next_of(token);
          JsonCell& cell = add_cell();
          state_ = State::after_value;
          switch (*at) {
            case '"':
              take_string(at, next, cell);
              break;
            case '{':
              open(at, cell, Tag::object);
              state_ = State::first_key;
              break;
            case '[':
              open(at, cell, Tag::array);
              state_ = State::first_element;
              break;
            case 'n':
              take_word(at, next, "null", Tag::null, cell);
              break;
            case 't':
              take_word(at, next, "true", Tag::boolean, cell);
              break;
            case 'f':
              take_word(at, next, "false", Tag::boolean, cell);
              break;
            case 'N':
              take_word(at, next, "NaN", Tag::real, cell);
              break;
            case 'I':
              take_word(at, next, "Infinity", Tag::real, cell);
              break;
            default:
              if (*at != '-' && !is_digit(*at)) {
                fail(at, "has no JSON value where one was expected (found " + shown(at, next) + ")");
              }
              take_number(at, next, cell);
          }
          ++token;
          if (state_ != State::after_value) {
            break;
          }
          if (open_.empty()) {
            state_ = State::end;
            break;
          }
          if (token == tokens_end) {
            break;
          }
          at = piece_begin_ + *token;
          [[fallthrough]];
        }
        case State::after_value: {
          Open& in = open_.back();
          if (*at == ',') {
            state_ = in.is_object ? State::key : State::value;
            in.count += in.is_object ? 0U : 1U;
          } else if (*at == '}' || *at == ']') {
            in.count += in.is_object ? 0U : 1U;
            close(at, *at == '}');
          } else {
            fail(at, std::string("has no ',' or '") + (in.is_object ? '}' : ']') + "' behind a value (found " + shown(at, next_of(token)) +
                         ")");
          }
          ++token;
          break;
        }
        case State::first_element:
          if (*at == ']') {
            close(at, false);
            ++token;
          } else {
            state_ = State::value;
          }
          break;
        case State::end:
          fail(at, "has text behind the end of the JSON value (found " + shown(at, next_of(token)) + ")");
      }
    }
  }

  const std::filesystem::path& name_;
  std::size_t max_depth_;
  std::size_t piece_;
  MemoryBlock& cell_block_;
  TextArena& arena_;
  std::size_t cell_count_ = 0;
  std::size_t cell_capacity_ = 0;

  const char* text_ = nullptr;
  std::size_t available_ = 0;
  std::size_t parsed_ = 0;   ///< all text before was parsed
  std::size_t scanned_ = 0;  ///< beyond parsed_: text up to there was searched for a place to cut, without success
  bool in_string_ = false;   ///< at scanned_

  std::unique_ptr<simdjson::internal::dom_parser_implementation> indexer_;
  const char* piece_begin_ = nullptr;
  const char* piece_end_ = nullptr;
  const char* backslash_ = nullptr;  ///< next one at or behind the last string that was looked at, or piece_end_

  State state_ = State::value;
  std::vector<Open> open_;
  std::vector<Repeat> repeats_;
  std::vector<std::unique_ptr<KeyMap>> spare_keys_;
  std::vector<ObjectIndex> indexes_;
};

class FileHandle {
 public:
  explicit FileHandle(int descriptor) : descriptor_(descriptor) {}
  ~FileHandle() {
    if (descriptor_ >= 0) {
      close(descriptor_);
    }
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

std::string reason(int error) {
  return std::generic_category().message(error);
}

}  // namespace

struct JsonDocument::Storage {
  MemoryBlock text;
  std::size_t text_size = 0;
  MemoryBlock cells;
  TextArena arena;
  std::vector<ObjectIndex> indexes;

  [[nodiscard]] const JsonCell* first_cell() const { return reinterpret_cast<const JsonCell*>(cells.data()); }
  /// The key map of an object of this document, or nullptr.
  [[nodiscard]] const KeyMap* index_of(JsonValue object) const {
    const auto cell = static_cast<std::uint64_t>(object.cell() - first_cell());
    const auto found = std::lower_bound(indexes.begin(), indexes.end(), cell,
                                        [](const ObjectIndex& index, std::uint64_t wanted) { return index.cell < wanted; });
    return found != indexes.end() && found->cell == cell ? &found->keys : nullptr;
  }
};

JsonDocument::JsonDocument() = default;
JsonDocument::~JsonDocument() = default;
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;

JsonDocument JsonDocument::read(const std::filesystem::path& file) {
  return read(file, Limits{});
}

JsonDocument JsonDocument::read(const std::filesystem::path& file, const Limits& limits) {
  // Not blocking, so that a named pipe in the place of a file is seen instead of waited for.
  const FileHandle handle(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (handle.get() < 0) {
    const int error = errno;
    throw Error(ErrorCategory::path, error == ENOENT ? "does not exist" : "can't be opened: " + reason(error), file);
  }
  struct stat status {};
  if (fstat(handle.get(), &status) != 0) {
    throw Error(ErrorCategory::path, "can't be examined: " + reason(errno), file);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCategory::path, S_ISDIR(status.st_mode) ? "is a directory, not a file" : "is no regular file", file);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  JsonDocument document;
  try {
    document.storage_ = std::make_unique<Storage>();
    Storage& storage = *document.storage_;
    storage.text.resize(size + 1);  // one byte more, to see a file that grows
    Parser parser(file, limits, size, storage.cells, storage.arena);
    // Text is parsed right behind the read, while it is in the cache.
    constexpr std::size_t chunk = std::size_t{512} << 10;
    while (true) {
      const std::size_t room = storage.text.size() - storage.text_size;
      const ssize_t got = ::read(handle.get(), storage.text.data() + storage.text_size, std::min(room, chunk));
      if (got < 0) {
        if (errno == EINTR) {
          continue;
        }
        throw Error(ErrorCategory::io, "can't be read: " + reason(errno), file, storage.text_size);
      }
      if (got == 0) {
        break;
      }
      storage.text_size += static_cast<std::size_t>(got);
      if (storage.text_size > size) {
        throw Error(ErrorCategory::io, "grew while it was read: is it still being written?", file, size);
      }
      parser.parse(storage.text.data(), storage.text_size, false);
    }
    parser.parse(storage.text.data(), storage.text_size, true);
    storage.cells.resize(parser.finish(storage.indexes) * sizeof(JsonCell));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCategory::limit, "needs more memory than there is (" + std::to_string(size) + " bytes of text)", file);
  }
  return document;
}

JsonDocument JsonDocument::parse(std::string_view text, const std::filesystem::path& name) {
  return parse(text, name, Limits{});
}

JsonDocument JsonDocument::parse(std::string_view text, const std::filesystem::path& name, const Limits& limits) {
  JsonDocument document;
  try {
    document.storage_ = std::make_unique<Storage>();
    Storage& storage = *document.storage_;
    storage.text.resize(text.size());
    std::copy(text.begin(), text.end(), storage.text.data());
    storage.text_size = text.size();
    Parser parser(name, limits, text.size(), storage.cells, storage.arena);
    parser.parse(storage.text.data(), storage.text_size, true);
    storage.cells.resize(parser.finish(storage.indexes) * sizeof(JsonCell));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCategory::limit, "needs more memory than there is (" + std::to_string(text.size()) + " bytes of text)", name);
  }
  return document;
}

JsonValue JsonDocument::root() const {
  return storage_ ? JsonValue(storage_->first_cell()) : JsonValue();
}

JsonValue JsonDocument::member(JsonValue object, std::string_view key) const {
  const KeyMap* keys = storage_ && object ? storage_->index_of(object) : nullptr;
  if (keys == nullptr) {
    return object.find(key);
  }
  const std::uint32_t* cell = keys->find(key);
  return cell != nullptr ? JsonValue(storage_->first_cell() + *cell + 1) : JsonValue();
}

std::optional<std::uint32_t> JsonDocument::position(JsonValue object, std::string_view key) const {
  if (const KeyMap* keys = storage_ && object ? storage_->index_of(object) : nullptr) {
    const std::uint32_t number = keys->number_of(key);
    return number != KeyMap::none ? std::optional(number) : std::nullopt;
  }
  std::uint32_t number = 0;
  for (const JsonValue::Member member : object.members()) {
    if (member.key == key) {
      return number;
    }
    ++number;
  }
  return std::nullopt;
}

std::string_view JsonDocument::text() const {
  return storage_ ? std::string_view(storage_->text.data(), storage_->text_size) : std::string_view();
}

}  // namespace msvis
