#include "merge/entries.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace msvis {
namespace {

constexpr std::array<std::string_view, 10> merged_dtypes{"torch.int8",    "torch.int32",   "torch.int64", "torch.bfloat16", "torch.float16",
                                                         "torch.float32", "torch.float64", "Float16",     "Float32",        "BFloat16"};
constexpr std::array<std::string_view, 4> statistic_names{"Max", "Min", "Mean", "Norm"};
constexpr double tolerance = 1e-6;

bool takes_part(const TextStore& texts, const TreeEntry& entry) {
  return std::find(merged_dtypes.begin(), merged_dtypes.end(), texts[entry.dtype]) != merged_dtypes.end();
}

const TreeEntry* partner_of(const TreeEntry& entry, const std::vector<TreeEntry>& list) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const TreeEntry& other) { return other.key == entry.key && other.whole_key == entry.whole_key; });
  return found == list.end() ? nullptr : &*found;
}

bool exactly_equal(const Number& a, const Number& b) {
  return a.kind == Number::Kind::integer && b.kind == Number::Kind::integer ? a.integer == b.integer : a.value() == b.value();
}

bool greater(const Number& a, const Number& b) {
  return a.kind == Number::Kind::integer && b.kind == Number::Kind::integer ? a.integer > b.integer : a.value() > b.value();
}

}  // namespace

bool statistics_differ(std::size_t statistic, const Number& main, const Number& other) {
  if (!main.is_number() || !other.is_number()) {
    return false;
  }
  if (statistic == stat_max || statistic == stat_min) {
    return !exactly_equal(main, other);
  }
  const double a = main.value();
  const double b = other.value();
  const double distance = std::abs(a - b);
  if (std::isnan(distance)) {
    return !(std::isnan(a) && std::isnan(b));
  }
  if (std::isinf(distance)) {
    return !(std::isinf(a) && std::isinf(b));
  }
  return !(a == 0 ? distance < tolerance : std::abs(distance / a) < tolerance);
}

std::vector<DifferentEntry> different_entries(const TextStore& texts, const std::vector<TreeEntry>& main,
                                              std::span<const std::vector<TreeEntry>* const> others, bool by_value) {
  std::vector<DifferentEntry> found;
  if (others.empty()) {
    return found;
  }
  for (std::size_t place = 0; place < main.size(); ++place) {
    if (!takes_part(texts, main[place])) {
      continue;
    }
    DifferentEntry entry{place, {main[place]}};
    bool different = !by_value;
    for (const auto* list : others) {
      const TreeEntry* partner = partner_of(main[place], *list);
      if (partner == nullptr || !takes_part(texts, *partner)) {
        break;
      }
      for (std::size_t statistic = 0; statistic < statistic_names.size(); ++statistic) {
        different = different || statistics_differ(statistic, main[place].stat(statistic), partner->stat(statistic));
      }
      entry.items.push_back(*partner);
    }
    if (different) {
      found.push_back(std::move(entry));
    }
  }
  return found;
}

Number combine_statistic(std::size_t statistic, std::span<const Number> values) {
  if (statistic == stat_max || statistic == stat_min) {
    Number best = values.front();
    for (const Number& value : values.subspan(1)) {
      if (statistic == stat_max ? greater(value, best) : greater(best, value)) {
        best = value;
      }
    }
    return best;
  }
  double sum = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const double value = values[k].value();
    // The C library's power function: a product differs in the last bit now and then.
    const double term = statistic == stat_norm ? std::pow(value, 2.0) : value;
    sum = k == 0 ? term : sum + term;
  }
  return Number::of(statistic == stat_norm ? std::pow(sum, 0.5) : sum / static_cast<double>(values.size()));
}

void combine_entry(TreeEntry& main, const std::vector<TreeEntry>& items, std::string_view key, std::vector<std::string>& lines) {
  if (items.size() < 2) {
    return;
  }
  constexpr std::array<std::string_view, 4> before{"max(", "min(", "(", "("};
  constexpr std::array<std::string_view, 4> between{", ", ", ", " + ", "^2 + "};
  for (std::size_t statistic = 0; statistic < statistic_names.size(); ++statistic) {
    std::vector<Number> values;
    values.reserve(items.size());
    for (const TreeEntry& item : items) {
      values.push_back(item.stat(statistic));
    }
    if (!std::all_of(values.begin(), values.end(), [](const Number& value) { return value.is_number(); })) {
      continue;
    }
    const Number result = combine_statistic(statistic, values);
    std::string line = std::string(statistic_names[statistic]) + " of " + std::string(key) + ": " + std::string(before[statistic]);
    for (std::size_t k = 0; k < values.size(); ++k) {
      line += (k == 0 ? "" : std::string(between[statistic])) + values[k].text();
    }
    line += statistic == stat_mean ? ") / " + std::to_string(values.size()) : statistic == stat_norm ? "^2)^0.5" : ")";
    lines.push_back(line + " = " + result.text());
    main.change_stat(statistic, result);
  }
}

std::string rank_list(std::span<const std::int64_t> ranks) {
  std::string text = "[";
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    text += (k == 0 ? "" : ", ") + std::to_string(ranks[k]);
  }
  return text + "]";
}

std::string merged_over_line(std::span<const std::int64_t> ranks) {
  return "The data of this node are merged over the tensor-parallel ranks " + rank_list(ranks);
}

}  // namespace msvis
