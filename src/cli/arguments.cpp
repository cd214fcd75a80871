#include "cli/arguments.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/printable.h"

namespace msvis::cli {
namespace {

constexpr std::array kSpecs{
    OptionSpec{"-tp", "--target_path", Arity::one, true},
    OptionSpec{"-gp", "--golden_path", Arity::one, true},
    OptionSpec{"-o", "--output_path", Arity::one, true},
    OptionSpec{"-lm", "--layer_mapping", Arity::optional, true},
    OptionSpec{"-oc", "--overflow_check", Arity::flag, true},
    OptionSpec{"-fm", "--fuzzy_match", Arity::flag, true},
    OptionSpec{"-tensor_log", "--is_print_compare_log", Arity::flag, true},
    OptionSpec{"-progress_log", "--is_print_progress_log", Arity::flag, true},
    OptionSpec{"", "--rank_size", Arity::many, true},
    OptionSpec{"", "--tp", Arity::many, true},
    OptionSpec{"", "--pp", Arity::many, true},
    OptionSpec{"", "--vpp", Arity::many, true},
    OptionSpec{"", "--order", Arity::many, true},
    OptionSpec{"", "--file_type", Arity::one, true},
    OptionSpec{"-h", "--help", Arity::flag, true},
    OptionSpec{"", "--version", Arity::flag, false},
    OptionSpec{"", "--compat", Arity::one, false},
    OptionSpec{"", "--links", Arity::one, false},
    OptionSpec{"", "--steps", Arity::one, false},
    OptionSpec{"", "--ranks", Arity::one, false},
    OptionSpec{"", "--threads", Arity::one, false},
    OptionSpec{"", "--suggest-mapping", Arity::one, false},
    OptionSpec{"", "--io-depth", Arity::one, false},
    OptionSpec{"", "--drop-cache", Arity::flag, false},
    OptionSpec{"", "--ignore-rules", Arity::one, false},
    OptionSpec{"", "--summary-json", Arity::one, false},
    OptionSpec{"", "--metrics", Arity::one, false},
    OptionSpec{"", "--fail-on", Arity::one, false},
    OptionSpec{"", "--cp", Arity::many, false},
    OptionSpec{"", "--ep", Arity::many, false},
    OptionSpec{"", "--resume", Arity::flag, false},
    OptionSpec{"", "--nice", Arity::one, false},
    OptionSpec{"", "--follow", Arity::flag, false},
    OptionSpec{"", "--settle", Arity::one, false},
    OptionSpec{"", "--poll", Arity::one, false},
    OptionSpec{"", "--idle-timeout", Arity::one, false},
    OptionSpec{"", "--until-step", Arity::one, false},
};

std::string_view without_dashes(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t at_from = 1; at_from <= from.size(); ++at_from) {
    std::size_t diagonal = row[0];
    row[0] = at_from;
    for (std::size_t at_to = 1; at_to <= to.size(); ++at_to) {
      const std::size_t replaced = diagonal + (from[at_from - 1] == to[at_to - 1] ? 0 : 1);
      diagonal = row[at_to];
      row[at_to] = std::min({replaced, row[at_to] + 1, row[at_to - 1] + 1});
    }
  }
  return row.back();
}

/// ` (did you mean --compat?)`, or nothing when no name is near.
std::string suggestion(std::string_view unknown) {
  constexpr std::size_t longest_worth_comparing = 40;
  const std::string_view bare = without_dashes(unknown);
  if (bare.empty() || bare.size() > longest_worth_comparing) {
    return {};
  }
  std::string_view best;
  std::size_t best_distance = 3;
  for (const OptionSpec& spec : kSpecs) {
    for (const std::string_view name : {spec.short_name, spec.long_name}) {
      const std::string_view candidate = without_dashes(name);
      if (candidate.empty()) {
        continue;
      }
      const bool begins = bare.size() > 2 && candidate.starts_with(bare);
      const std::size_t distance = begins ? 1 : edit_distance(bare, candidate);
      if (distance < best_distance && distance < candidate.size()) {
        best = name;
        best_distance = distance;
      }
    }
  }
  return best.empty() ? std::string() : " (did you mean " + std::string(best) + "?)";
}

/// A number below zero is a value although it begins with a dash.
bool looks_negative(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word.find_first_not_of("0123456789.", 1) == std::string_view::npos;
}

bool looks_like_value(std::string_view word) {
  return word.empty() || word[0] != '-' || word == "-";
}

class Reader {
 public:
  explicit Reader(std::span<const std::string> words) : words_(words) {}

  Arguments read() {
    if (!words_.empty() && words_[0] == "graph_visualize") {
      ++next_;
    }
    while (next_ < words_.size()) {
      const std::string_view word = words_[next_++];
      if (word == "--" && next_ == words_.size()) {
        break;
      }
      if (looks_like_value(word)) {
        fail("unexpected argument " + printable(word) + "; every value belongs to an option");
      } else {
        read_option(word);
      }
    }
    return std::move(result_);
  }

 private:
  void fail(std::string message) {
    if (!result_.error) {  // the first fault is the one to mend first
      result_.error = std::move(message);
    }
  }

  const OptionSpec* find(std::string_view name) {
    std::vector<const OptionSpec*> candidates;
    for (const OptionSpec& spec : kSpecs) {
      if (name == spec.long_name || (!spec.short_name.empty() && name == spec.short_name)) {
        return &spec;
      }
      if (spec.abbreviable && name.size() > 2 && name.starts_with("--") && spec.long_name.starts_with(name)) {
        candidates.push_back(&spec);
      }
    }
    if (candidates.size() == 1) {
      return candidates[0];
    }
    if (candidates.empty()) {
      fail("unknown option " + printable(name) + suggestion(name));
      return nullptr;
    }
    std::string names;
    for (const OptionSpec* candidate : candidates) {
      names += (names.empty() ? "" : ", ") + std::string(candidate->long_name);
    }
    fail("option " + printable(name) + " is ambiguous: it could be " + names);
    return nullptr;
  }

  void read_option(std::string_view word) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const OptionSpec* spec = find(name);
    if (spec == nullptr) {
      skip_values();
      return;
    }
    std::vector<std::string> values;
    if (equals != std::string_view::npos) {
      if (spec->arity == Arity::flag) {
        fail(display_name(*spec) + " takes no value, but " + printable(word.substr(equals + 1)) + " was given");
        return;
      }
      values.emplace_back(word.substr(equals + 1));
    } else {
      values = following_values(spec->arity);
    }
    if (values.empty() && (spec->arity == Arity::one || spec->arity == Arity::many)) {
      std::string message = display_name(*spec) + " needs a value";
      if (next_ < words_.size()) {
        message += ", but " + printable(words_[next_]) + " follows (a value that begins with a dash is written as " + std::string(name) +
                   "=VALUE)";
      }
      fail(std::move(message));
      return;
    }
    if (spec->long_name == "--help") {
      result_.help = true;
    } else if (spec->long_name == "--version") {
      result_.version = true;
    } else {
      result_.given[spec->long_name] = std::move(values);
    }
  }

  std::vector<std::string> following_values(Arity arity) {
    std::vector<std::string> values;
    if (arity == Arity::flag) {
      return values;
    }
    while (next_ < words_.size()) {
      const std::string& word = words_[next_];
      const bool negative = arity != Arity::optional && looks_negative(word);
      if (!looks_like_value(word) && !negative) {
        break;
      }
      values.push_back(word);
      ++next_;
      if (arity != Arity::many) {
        break;
      }
    }
    return values;
  }

  /// The values of an unknown option would only give further errors.
  void skip_values() {
    while (next_ < words_.size() && looks_like_value(words_[next_])) {
      ++next_;
    }
  }

  std::span<const std::string> words_;
  std::size_t next_ = 0;
  Arguments result_;
};

}  // namespace

std::span<const OptionSpec> option_specs() {
  return kSpecs;
}

const OptionSpec& spec_of(std::string_view long_name) {
  return *std::find_if(kSpecs.begin(), kSpecs.end(), [&](const OptionSpec& spec) { return spec.long_name == long_name; });
}

std::string display_name(const OptionSpec& spec) {
  std::string name(spec.short_name);
  if (!name.empty()) {
    name += '/';
  }
  return name + std::string(spec.long_name);
}

Arguments read_arguments(std::span<const std::string> words) {
  return Reader(words).read();
}

}  // namespace msvis::cli
