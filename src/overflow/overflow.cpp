#include "overflow/overflow.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

namespace msvis {
namespace {

/// What of an entry is judged: absent containers and those of another kind are as good as empty.
struct Containers {
  JsonValue inputs;    // array
  JsonValue keywords;  // object
  JsonValue outputs;   // array
};

Containers containers_of(JsonValue entry) {
  Containers found;
  JsonValue positional;
  JsonValue plain;
  for (const auto& [key, value] : entry.members()) {
    if (key == "input_args") {
      positional = value;
    } else if (key == "input") {
      plain = value;
    } else if (key == "input_kwargs") {
      found.keywords = value;
    } else if (key == "output") {
      found.outputs = value;
    }
  }
  // A member `input_args` hides `input` even when it is null.
  found.inputs = positional ? positional : plain;
  // elements() of anything but an array and members() of anything but an object are empty: no further check is needed.
  return found;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal_ignoring_case(std::string_view text, std::string_view lower_case) {
  return std::equal(text.begin(), text.end(), lower_case.begin(), lower_case.end(),
                    [](char left, char right) { return lower(left) == right; });
}

bool bad_statistic(JsonValue value) {
  if (value.is(JsonKind::real)) {
    return !std::isfinite(value.number());
  }
  if (value.is_string()) {
    const std::string_view text = value.text();
    return equal_ignoring_case(text, "nan") || equal_ignoring_case(text, "inf") || equal_ignoring_case(text, "-inf");
  }
  return false;  // an integer is finite, however many digits it has
}

bool bad_object(JsonValue value) {
  if (!value.is_object()) {
    return false;
  }
  for (const auto& [key, member] : value.members()) {
    if ((key == "Max" || key == "Min" || key == "Mean") && bad_statistic(member)) {
      return true;
    }
  }
  return false;
}

/// A bad object, or a list that contains one at any depth. Not recursive: lists may be nested as deep as the file is long.
bool abnormal(JsonValue value) {
  if (!value.is_array()) {
    return bad_object(value);
  }
  std::vector<JsonValue> lists{value};
  while (!lists.empty()) {
    const JsonValue list = lists.back();
    lists.pop_back();
    for (const JsonValue element : list.elements()) {
      if (element.is_array()) {
        lists.push_back(element);
      } else if (bad_object(element)) {
        return true;
      }
    }
  }
  return false;
}

bool any_abnormal_element(JsonValue list) {
  for (const JsonValue element : list.elements()) {
    if (abnormal(element)) {
      return true;
    }
  }
  return false;
}

bool any_abnormal_member(JsonValue object) {
  for (const auto& member : object.members()) {
    if (abnormal(member.value)) {
      return true;
    }
  }
  return false;
}

/// The largest norm seen so far.
class LargestNorm {
 public:
  void take(JsonValue value) {
    if (!value.is_object()) {
      return;
    }
    JsonValue type;
    JsonValue norm;
    for (const auto& [key, member] : value.members()) {
      if (key == "type") {
        type = member;
      } else if (key == "Norm") {
        norm = member;
      }
    }
    if (!type.is_string() || type.text() != "torch.Tensor") {
      return;
    }
    double number = 0;
    if (norm.is_number()) {
      number = norm.number();
    } else if (norm.is(JsonKind::boolean)) {  // the norm of a 0-d boolean tensor is its value
      number = norm.boolean() ? 1.0 : 0.0;
    } else {
      return;
    }
    if (!std::isnan(number)) {
      largest_ = largest_ ? std::max(*largest_, number) : number;
    }
  }
  [[nodiscard]] std::optional<double> value() const { return largest_; }

 private:
  std::optional<double> largest_;
};

bool norm_growth(const Containers& containers) {
  constexpr double limit = 100.0;
  LargestNorm input;
  LargestNorm output;
  for (const JsonValue element : containers.outputs.elements()) {
    output.take(element);
  }
  if (!output.value()) {
    return false;
  }
  for (const JsonValue element : containers.inputs.elements()) {
    input.take(element);
  }
  for (const auto& member : containers.keywords.members()) {
    input.take(member.value);
  }
  if (!input.value()) {
    return false;
  }
  const double largest_input = *input.value();
  const double largest_output = *output.value();
  // inf / inf is NaN, which is no growth.
  return (largest_input == 0 ? largest_output : largest_output / largest_input) > limit;
}

std::string rule_name(std::string_view node_name) {
  const std::size_t first_dot = node_name.find('.');
  const std::size_t second_dot = first_dot == std::string_view::npos ? first_dot : node_name.find('.', first_dot + 1);
  std::string name(node_name.substr(0, second_dot));
  std::transform(name.begin(), name.end(), name.begin(), lower);
  return name;
}

bool is_parameters_grad(std::string_view name) {
  constexpr std::string_view mark = "parameters_grad";
  const auto last_field = [](std::string_view text) { return text.substr(text.rfind('.') + 1); };  // npos + 1 is 0
  if (last_field(name) == mark) {
    return true;
  }
  const std::size_t last_dot = name.rfind('.');
  return last_dot != std::string_view::npos && last_field(name.substr(0, last_dot)) == mark;
}

bool bad_outside(JsonValue list, const std::set<std::size_t>& allowed) {
  std::size_t position = 0;
  for (const JsonValue element : list.elements()) {
    if (!allowed.contains(position) && bad_object(element)) {
      return true;
    }
    ++position;
  }
  return false;
}

bool bad_outside(JsonValue object, const std::set<std::string, std::less<>>& allowed) {
  for (const auto& [key, value] : object.members()) {
    if (!allowed.contains(key) && bad_object(value)) {
      return true;
    }
  }
  return false;
}

}  // namespace

Overflow overflow_level(JsonValue entry) {
  const Containers containers = containers_of(entry);
  const bool input = any_abnormal_element(containers.inputs) || any_abnormal_member(containers.keywords);
  const bool output = any_abnormal_element(containers.outputs);
  if (output) {
    return input ? Overflow::high : Overflow::critical;
  }
  if (input) {
    return Overflow::medium;
  }
  return norm_growth(containers) ? Overflow::high : Overflow::none;
}

bool removes_level(const IgnoreRule& rule, JsonValue entry) {
  const Containers containers = containers_of(entry);
  return !(rule.inputs && bad_outside(containers.inputs, *rule.inputs)) &&
         !(rule.keywords && bad_outside(containers.keywords, *rule.keywords)) &&
         !(rule.outputs && bad_outside(containers.outputs, *rule.outputs));
}

std::uint64_t classify_overflow(Graph& graph, const IgnoreRules& rules) {
  std::uint64_t removed = 0;
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    Node& node = graph.nodes[index];
    node.overflow = Overflow::none;
    if (index == 0 || !node.entry || node.type == NodeType::api_collection || is_parameters_grad(node.name)) {
      continue;
    }
    node.overflow = overflow_level(node.entry);
    if (node.overflow == Overflow::none) {
      continue;
    }
    const auto rule = rules.rules.find(rule_name(node.name));
    if (rule != rules.rules.end() && removes_level(rule->second, node.entry)) {
      node.overflow = Overflow::none;
      ++removed;
    }
  }
  return removed;
}

}  // namespace msvis
