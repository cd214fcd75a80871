#include "msvis/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "msvis/error.h"

namespace msvis {
namespace {

/// Whether a number token that is out of double's range is too large (else it is too small). The token is `-?digits[.digits][e..]`.
bool is_too_large(std::string_view token) {
  std::int64_t exponent = 0;
  const std::size_t e = token.find_first_of("eE");
  if (e != std::string_view::npos) {
    std::string_view digits = token.substr(e + 1);
    const bool negative = digits.starts_with('-');
    if (negative || digits.starts_with('+')) {
      digits.remove_prefix(1);
    }
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (result.ec == std::errc::result_out_of_range) {
      exponent = std::numeric_limits<std::int64_t>::max() / 2;
    }
    if (negative) {
      exponent = -exponent;
    }
    token = token.substr(0, e);
  }
  // Place of the first digit that is not 0, counted from the decimal point: only its sign is needed, the value is far off anyway.
  const std::size_t first = token.find_first_of("123456789");
  if (first == std::string_view::npos) {
    return false;
  }
  const std::size_t point = std::min(token.find('.'), token.size());
  return exponent + static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) > 0;
}

}  // namespace

bool JsonValue::boolean() const {
  return is(JsonKind::boolean) && cell_->size == 4;
}

bool JsonValue::truthy() const {
  if (cell_ == nullptr) {
    return false;
  }
  switch (kind()) {
    case JsonKind::null:
      return false;
    case JsonKind::boolean:
      return boolean();
    case JsonKind::integer:
      return text() != "0" && text() != "-0";
    case JsonKind::real:
      return number() != 0.0;
    case JsonKind::string:
    case JsonKind::array:
    case JsonKind::object:
      return cell_->size != 0;
  }
  return false;
}

std::string_view JsonValue::text() const {
  if (!is_string() && !is_number()) {
    return {};
  }
  return {cell_->text, cell_->size};
}

double JsonValue::number() const {
  std::string_view token = text();
  if (!is_number()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (token == "NaN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const bool negative = token.starts_with('-');
  if (negative) {
    token.remove_prefix(1);
  }
  double value = 0;
  if (token == "Infinity") {
    value = std::numeric_limits<double>::infinity();
  } else {
    const auto result = std::from_chars(token.data(), token.data() + token.size(), value);
    if (result.ec == std::errc::result_out_of_range) {
      value = is_too_large(token) ? std::numeric_limits<double>::infinity() : 0.0;
    }
  }
  return negative ? -value : value;
}

std::size_t JsonValue::size() const {
  return is_array() || is_object() ? cell_->size : 0;
}

JsonValue JsonValue::find(std::string_view key) const {
  for (const Member member : members()) {
    if (member.key == key) {
      return member.value;
    }
  }
  return {};
}

std::string_view JsonPool::keep(std::string_view text) {
  constexpr std::size_t block_bytes = std::size_t{64} << 10;
  if (text.empty()) {
    return "";
  }
  if (text.size() > block_size_ - block_used_) {
    if (text.size() > block_bytes / 4) {
      // A block of its own, put before the one in use so that the rest of that is not lost.
      auto own = std::make_unique<char[]>(text.size());
      std::memcpy(own.get(), text.data(), text.size());
      const std::string_view kept(own.get(), text.size());
      blocks_.insert(blocks_.empty() ? blocks_.end() : blocks_.end() - 1, std::move(own));
      return kept;
    }
    blocks_.push_back(std::make_unique<char[]>(block_bytes));
    block_used_ = 0;
    block_size_ = block_bytes;
  }
  char* place = blocks_.back().get() + block_used_;
  std::memcpy(place, text.data(), text.size());
  block_used_ += text.size();
  return {place, text.size()};
}

JsonValue JsonPool::string(std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCategory::limit, "a text of " + std::to_string(text.size()) + " bytes is too long");
  }
  JsonCell cell;
  cell.text = keep(text).data();
  cell.size = static_cast<std::uint32_t>(text.size());
  cell.tag = JsonCell::Tag::string;
  return JsonValue(&cells_.emplace_back(cell));
}

JsonValue JsonPool::null() {
  return JsonValue(&cells_.emplace_back());
}

JsonValue JsonPool::number(std::string_view token) {
  JsonCell cell;
  cell.tag = token.find_first_not_of("-0123456789") == std::string_view::npos ? JsonCell::Tag::integer : JsonCell::Tag::real;
  if (token == "nan") {
    token = "NaN";
  } else if (token == "inf") {
    token = "Infinity";
  } else if (token == "-inf") {
    token = "-Infinity";
  } else {
    token = keep(token);
  }
  cell.text = token.data();
  cell.size = static_cast<std::uint32_t>(token.size());
  return JsonValue(&cells_.emplace_back(cell));
}

JsonValue JsonPool::string_array(std::span<const std::string> texts) {
  std::vector<JsonCell> cells;
  cells.reserve(texts.size() + 1);
  JsonCell& head = cells.emplace_back();
  head.tag = JsonCell::Tag::array;
  head.span = texts.size() + 1;
  head.size = static_cast<std::uint32_t>(texts.size());
  for (const std::string& text : texts) {
    cells.push_back(*string(text).cell());
  }
  return JsonValue(arrays_.emplace_back(std::move(cells)).data());
}

}  // namespace msvis
