#include "merge/names.h"

#include <algorithm>
#include <charconv>

namespace msvis {
namespace {

std::size_t count_digits(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') {
    ++end;
  }
  return end - at;
}

std::optional<std::int64_t> number_at(std::string_view text, std::size_t at, std::size_t size) {
  std::int64_t number = 0;
  const auto result = std::from_chars(text.data() + at, text.data() + at + size, number);
  return size > 0 && result.ec == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string with_rank(std::string_view name, std::int64_t rank) {
  const std::size_t first = name.find('.');
  if (first == std::string_view::npos) {
    return std::string(name) + "_rank" + std::to_string(rank);
  }
  const std::size_t second = std::min(name.find('.', first + 1), name.size());
  std::string text(name.substr(0, second));
  text += "_rank" + std::to_string(rank);
  text += name.substr(second);
  return text;
}

std::optional<LayerNumber> find_layer_number(std::string_view name, std::size_t from) {
  for (std::size_t at = name.find("layer", from); at != std::string_view::npos; at = name.find("layer", at + 1)) {
    std::size_t dot = at + 5;
    if (dot < name.size() && name[dot] == 's') {
      ++dot;
    }
    if (dot >= name.size() || name[dot] != '.') {
      continue;
    }
    const std::size_t digits = count_digits(name, dot + 1);
    const std::size_t end = dot + 1 + digits;
    if (digits > 0 && end < name.size() && name[end] == '.') {
      return LayerNumber{dot + 1, digits};
    }
  }
  return std::nullopt;
}

std::string with_layer_number(std::string_view name, std::string_view number) {
  std::string text;
  std::size_t from = 0;
  while (const auto found = find_layer_number(name, from)) {
    text += name.substr(from, found->at - from);
    text += number;
    from = found->at + found->size;
  }
  text += name.substr(from);
  return text;
}

std::optional<std::int64_t> rank_of_collection(std::string_view name) {
  if (!name.starts_with(rank_collection_prefix)) {
    return std::nullopt;
  }
  return number_at(name, rank_collection_prefix.size(), count_digits(name, rank_collection_prefix.size()));
}

std::optional<RankSuffix> find_rank_suffix(std::string_view name) {
  constexpr std::string_view mark = "_rank";
  for (std::size_t at = name.find(mark); at != std::string_view::npos; at = name.find(mark, at + 1)) {
    const std::size_t digits = at + mark.size();
    const std::size_t size = count_digits(name, digits);
    const auto rank = number_at(name, digits, size);
    if (rank && digits + size < name.size() && name[digits + size] == '.') {
      return RankSuffix{digits, size, *rank};
    }
  }
  return std::nullopt;
}

std::string_view field_from_end(std::string_view name, std::size_t n) {
  for (; n > 1; --n) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) {
      return {};
    }
    name = name.substr(0, dot);
  }
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

}  // namespace msvis
