#include "graph/names.h"

#include <algorithm>

namespace msvis {

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string_view> split_fields(std::string_view name) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t dot = name.find('.');
    fields.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) {
      return fields;
    }
    name.remove_prefix(dot + 1);
  }
}

std::size_t count_fields(std::string_view name) {
  return static_cast<std::size_t>(std::count(name.begin(), name.end(), '.')) + 1;
}

std::string_view drop_fields(std::string_view name, std::size_t count) {
  for (; count > 0; --count) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) {
      return {};
    }
    name = name.substr(0, dot);
  }
  return name;
}

ModuleCall split_module_call(std::string_view name, std::string_view direction) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || !all_digits(name.substr(dot + 1))) {
    return {};
  }
  const std::string_view head = name.substr(0, dot);
  if (head.size() <= direction.size() || !head.ends_with(direction) || head[head.size() - direction.size() - 1] != '.') {
    return {};
  }
  return {head.substr(0, head.size() - direction.size() - 1), name.substr(dot + 1)};
}

std::string with_direction(std::string_view name, std::string_view from, std::string_view to) {
  const ModuleCall call = split_module_call(name, from);
  if (!call) {
    return std::string(name);
  }
  std::string result(call.base);
  result.append(1, '.').append(to).append(1, '.').append(call.number);
  return result;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (;;) {
    const std::size_t at = text.find(from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) {
      return result;
    }
    result += to;
    text.remove_prefix(at + from.size());
  }
}

}  // namespace msvis
