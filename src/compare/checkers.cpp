// Verdicts over the rows of a node (comparison rules, section 8).
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "compare/compare.h"
#include "compare/numbers.h"
#include "dump/python_text.h"
#include "graph/names.h"

namespace msvis {
namespace {

enum class Ignore : std::uint8_t { none, inputs, all };

constexpr std::array<std::string_view, 9> ignored_apis{
    "empty", "empty_like", "numpy", "to", "__setitem__", "empty_with_format", "new_empty_strided", "new_empty", "empty_strided"};
constexpr std::array<std::string_view, 4> ignored_inputs{"_reduce_scatter_base", "_all_gather_base", "all_to_all_single",
                                                         "batch_isend_irecv"};
constexpr std::array<std::string_view, 6> uninitialised_apis{"empty",     "empty_like",   "empty_with_format", "new_empty_strided",
                                                             "new_empty", "empty_strided"};

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// Second dot-separated field, if there is one.
std::optional<std::string_view> second_field(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  name.remove_prefix(dot + 1);
  return name.substr(0, name.find('.'));
}

/// `sum_rank3` of a merged graph is `sum`.
std::string_view without_rank(std::string_view field) {
  constexpr std::string_view mark = "_rank";
  const std::size_t at = field.rfind(mark);
  return at != std::string_view::npos && all_digits(field.substr(at + mark.size())) ? field.substr(0, at) : field;
}

/// A cell as the checkers read it; nothing if it does not count.
std::optional<double> metric_value(const Row& row, std::size_t cell) {
  if (cell >= row.cells.size()) {
    return std::nullopt;
  }
  const Cell& found = row.cells[cell];
  if (found.kind == Cell::Kind::number) {
    return found.value;
  }
  if (found.kind == Cell::Kind::percent) {
    return found.value / 100;
  }
  return std::nullopt;
}

class Checker {
 public:
  Checker(NodeRows& node, const Graph& target, const Graph& golden, const CheckRules& rules)
      : node_(node), target_(target), golden_(golden), rules_(rules) {
    for (Row& row : node.rows) {
      row.level = Level::pass;
      row.messages.clear();
      (is_output(row) ? outputs_ : inputs_).push_back(&row);
    }
    if (!inputs_.empty()) {
      auto api = second_field(target_.items[inputs_.front()->target_item].full_name);
      if (api && rules.merged) {
        api = without_rank(*api);
      }
      if (api && is_one_of(*api, ignored_apis)) {
        ignore_ = Ignore::all;
      } else if (api && is_one_of(*api, ignored_inputs)) {
        ignore_ = Ignore::inputs;
      }
    }
  }

  void run() {
    switch (rules_.mode) {
      case CompareMode::summary:
        not_finite();
        relative_error();
        requires_grad();
        scalars();
        dtype();
        if (!rules_.merged || rules_.compat == Compat::standard) {
          shape();
        }
        relative_growth();
        break;
      case CompareMode::tensor:
        not_finite();
        one_thousandth();
        requires_grad();
        scalars();
        dtype();
        shape();
        cosine_drop();
        explain();
        break;
      case CompareMode::md5:
        checksum();
        explain();
        break;
      case CompareMode::structure:
        break;
    }
  }

  [[nodiscard]] Level worst() const {
    Level level = Level::pass;
    for (const Row& row : node_.rows) {
      level = std::max(level, row.level);
    }
    return level;
  }

 private:
  [[nodiscard]] bool is_output(const Row& row) const {
    if (rules_.compat == Compat::standard) {
      return target_.items[row.target_item].state == ItemState::output;
    }
    return target_.items[row.target_item].full_name.find(".output.") != std::string_view::npos;
  }

  template <typename Check>
  void each_counted(Check&& check) {
    for (Row& row : node_.rows) {
      if (ignore_ == Ignore::none || (ignore_ == Ignore::inputs && is_output(row))) {
        check(row);
      }
    }
  }

  static void flag(Row& row, Level level, std::string_view message) {
    row.level = std::max(row.level, level);
    row.messages.push_back((level == Level::error ? "error: " : "warning: ") + std::string(message));
  }

  [[nodiscard]] static std::string float_text(double value) {
    std::string text;
    append_float(text, value);
    return text;
  }

  /// Text of a value for a message, cut to a readable length.
  [[nodiscard]] static std::string shown(JsonValue value) {
    constexpr std::size_t readable = 80;
    std::string text;
    append_display(text, value);
    if (text.size() > readable) {
      std::size_t end = readable;
      while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
        --end;  // not inside a character
      }
      text.resize(end);
      text += "...";
    }
    return text;
  }

  /// Whether the row's golden name is one that the checkers skip.
  [[nodiscard]] bool without_golden_name(const Row& row) const {
    if (row.golden_item == no_node) {
      return false;  // its name is the text Nan
    }
    const std::string_view name = golden_.items[row.golden_item].full_name;
    return name.empty() || name == "N/A";
  }

  [[nodiscard]] double largest(const std::vector<Row*>& rows, std::size_t cell) const {
    double value = 0;
    for (const Row* row : rows) {
      const auto metric = metric_value(*row, cell);
      value = metric && *metric > value ? *metric : value;
    }
    return value;
  }

  [[nodiscard]] double smallest(const std::vector<Row*>& rows, std::size_t cell) const {
    double value = 1;
    for (const Row* row : rows) {
      const auto metric = metric_value(*row, cell);
      value = metric && *metric < value ? *metric : value;
    }
    return value;
  }

  void not_finite() {
    each_counted([this](Row& row) {
      if (row.golden_item == no_node) {
        return;
      }
      const Item& ours = target_.items[row.target_item];
      const Item& theirs = golden_.items[row.golden_item];
      if (is_not_finite(theirs.stats[stat_max]) || is_not_finite(theirs.stats[stat_min])) {
        return;
      }
      if (is_not_finite(ours.stats[stat_max]) || is_not_finite(ours.stats[stat_min])) {
        flag(row, Level::error,
             "the target has NaN or Inf (maximum " + shown(ours.stats[stat_max]) + ", minimum " + shown(ours.stats[stat_min]) +
                 "), the golden has not");
      }
    });
  }

  void relative_error() {
    if (ignore_ != Ignore::none || !(largest(inputs_, norm_relative_cell) < 0.1)) {
      return;
    }
    for (Row* row : outputs_) {
      const double relative = std::abs(metric_value(*row, norm_relative_cell).value_or(0));
      if (relative > 0.5) {
        flag(*row, Level::error, "the norm of this output is off by more than 50 %, while all inputs are within 10 %");
      }
    }
  }

  void one_thousandth() {
    if (ignore_ != Ignore::none || outputs_.empty()) {
      return;
    }
    const double inputs = smallest(inputs_, one_thousandth_cell);
    const double outputs = smallest(outputs_, one_thousandth_cell);
    if (inputs > 0.9 && outputs < 0.1) {
      flag(*outputs_.front(), Level::error,
           "fewer than 10 % of the elements of an output are within 1/1000 (" + float_text(outputs) +
               "), while the inputs have more than 90 %");
    }
  }

  void requires_grad() {
    each_counted([this](Row& row) {
      if (without_golden_name(row)) {
        return;
      }
      const JsonValue ours = target_.items[row.target_item].requires_grad;
      if (!ours.truthy()) {
        return;
      }
      if (row.golden_item == no_node) {
        flag(row, Level::error, "requires_grad is " + shown(ours) + ", and the golden has no such parameter");
        return;
      }
      const JsonValue theirs = golden_.items[row.golden_item].requires_grad;
      if (theirs.truthy() && !equal_values(ours, theirs)) {
        flag(row, Level::error, "requires_grad is " + shown(ours) + ", in the golden " + shown(theirs));
      }
    });
  }

  [[nodiscard]] static std::string text_of(JsonValue value) {
    std::string text;
    append_str(text, value);
    return text;
  }

  void scalars() {
    if (ignore_ != Ignore::none) {
      return;
    }
    for (Row* row : inputs_) {
      if (row->golden_item == no_node || without_golden_name(*row)) {
        continue;
      }
      const Item& facts = target_.items[row->target_fact];
      const Item& golden_facts = golden_.items[row->golden_fact];
      const auto is_class = [](JsonValue dtype) { return dtype.is_string() && dtype.text().find("class") != std::string_view::npos; };
      if (!is_class(facts.dtype) || !is_class(golden_facts.dtype) || text_of(facts.shape) != "[]") {
        continue;
      }
      const JsonValue ours = target_.items[row->target_item].stats[stat_max];
      const JsonValue theirs = golden_.items[row->golden_item].stats[stat_max];
      if (!equal_statistics(ours, theirs)) {
        flag(*row, Level::error, "this scalar argument is " + shown(ours) + ", in the golden " + shown(theirs));
      }
    }
  }

  /// `Float32` of MindSpore and `torch.float32` of PyTorch are one type.
  [[nodiscard]] static std::string canonical_dtype(std::string_view text) {
    for (const std::string_view prefix : {"torch.", "mindspore."}) {
      if (text.starts_with(prefix)) {
        text.remove_prefix(prefix.size());
      }
    }
    std::string lower;
    for (const char c : text) {
      lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return lower;
  }

  [[nodiscard]] bool same_dtype(JsonValue ours, JsonValue theirs) const {
    if (equal_values(ours, theirs)) {
      return true;
    }
    return rules_.cross_framework && rules_.compat == Compat::standard && ours.is_string() && theirs.is_string() &&
           canonical_dtype(ours.text()) == canonical_dtype(theirs.text());
  }

  void dtype() {
    each_counted([this](Row& row) {
      const std::string_view name = target_.items[row.target_item].full_name;
      if (without_golden_name(row) || name == "N/A") {
        return;
      }
      const JsonValue ours = target_.items[row.target_fact].dtype;
      if (!ours.truthy()) {
        return;
      }
      if (row.golden_item == no_node) {
        flag(row, Level::error, "dtype is " + shown(ours) + ", and the golden has no such parameter");
        return;
      }
      const std::string_view golden_name = golden_.items[row.golden_item].full_name;
      const JsonValue theirs = golden_.items[row.golden_fact].dtype;
      const bool fused = golden_name.find("qkv") != std::string_view::npos || golden_name.find("gate_up") != std::string_view::npos;
      if (!fused && theirs.truthy() && !same_dtype(ours, theirs)) {
        flag(row, Level::error, "dtype is " + shown(ours) + ", in the golden " + shown(theirs));
      }
    });
  }

  void shape() {
    each_counted([this](Row& row) {
      if (without_golden_name(row)) {
        return;
      }
      const JsonValue ours = target_.items[row.target_fact].shape;
      if (!ours || ours.is_null()) {
        return;
      }
      if (row.golden_item == no_node) {
        flag(row, Level::error, "shape is " + shown(ours) + ", and the golden has no such parameter");
        return;
      }
      const JsonValue theirs = golden_.items[row.golden_fact].shape;
      if (theirs && !theirs.is_null() && !equal_values(ours, theirs)) {
        flag(row, Level::error, "shape is " + shown(ours) + ", in the golden " + shown(theirs));
      }
    });
  }

  void relative_growth() {
    if (ignore_ != Ignore::none || outputs_.empty()) {
      return;
    }
    const double inputs = largest(inputs_, norm_relative_cell);
    const double outputs = largest(outputs_, norm_relative_cell);
    // Statistics that are combined from those of several ranks are off by the rounding of these.
    constexpr double rounding = 1e-6;
    if (rules_.merged && rules_.compat == Compat::standard && outputs < rounding) {
      return;
    }
    if (inputs == 0 ? outputs > 0.1 : outputs / inputs > 10) {
      flag(*outputs_.front(), Level::warning,
           "the norm error of the outputs (" + float_text(outputs) + ") is more than ten times that of the inputs (" + float_text(inputs) +
               ")");
    }
  }

  void cosine_drop() {
    if (ignore_ != Ignore::none || outputs_.empty()) {
      return;
    }
    const double inputs = smallest(inputs_, cosine_cell);
    const double outputs = smallest(outputs_, cosine_cell);
    if (inputs > 0.9 && inputs - outputs > 0.1) {
      flag(*outputs_.front(), Level::warning,
           "the cosine drops from " + float_text(inputs) + " at the inputs to " + float_text(outputs) + " at the outputs");
    }
  }

  /// The reference finds these reasons out and drops them.
  void explain() {
    if (rules_.compat == Compat::reference) {
      return;
    }
    for (Row& row : node_.rows) {
      if (!row.info.empty()) {
        row.messages.push_back("info: " + row.info);
      }
    }
  }

  /// Whether merging could not tell the checksum of the whole from those of the ranks.
  static bool not_of_whole(const Graph& graph, JsonValue md5) { return graph.merged && md5.is_string() && md5.text() == "N/A"; }

  /// Where checksums can't be compared, statistics that differ by more than the rounding of those in the dump tell a difference all the
  /// same.
  void checksum_by_statistics(Row& row) {
    constexpr double rounding = 1e-6;
    const auto& ours = target_.items[row.target_fact].stats;
    const auto& theirs = golden_.items[row.golden_fact].stats;
    double scale = 0;
    bool known = false;
    for (const Statistic statistic : {stat_max, stat_min}) {
      scale = std::max(scale, ours[statistic].is_number() ? std::abs(ours[statistic].number()) : 0);
      known = known || (ours[statistic].is_number() && theirs[statistic].is_number());
    }
    if (!known) {
      row.info = "not compared: neither checksum nor statistics of the whole can be told from those of the ranks";
      return;
    }
    for (const Statistic statistic : {stat_max, stat_min, stat_mean, stat_norm}) {
      if (!ours[statistic].is_number() || !theirs[statistic].is_number()) {
        continue;
      }
      const double left = ours[statistic].number();
      const double right = theirs[statistic].number();
      const double of = statistic == stat_norm ? std::abs(right) : scale;
      if (!(left == right || std::abs(left - right) <= rounding * of || (std::isnan(left) && std::isnan(right)))) {
        constexpr std::array<std::string_view, 4> names{"Max", "Min", "Mean", "Norm"};
        flag(row, Level::error,
             "the checksum of the whole can't be told from those of the ranks, but " + std::string(names[statistic]) + " differs");
        return;
      }
    }
    row.info = "compared by statistics: the checksum of the whole can't be told from those of the ranks";
  }

  void checksum() {
    each_counted([this](Row& row) {
      const JsonValue ours = target_.items[row.target_fact].md5;
      if (row.golden_item == no_node) {
        flag(row, Level::warning, "the golden has no such parameter");
        return;
      }
      const JsonValue theirs = golden_.items[row.golden_fact].md5;
      if ((not_of_whole(target_, ours) || not_of_whole(golden_, theirs)) && rules_.compat == Compat::standard) {
        checksum_by_statistics(row);
        return;
      }
      if (equal_values(ours, theirs)) {
        return;
      }
      const auto unmatched = [](JsonValue md5) {
        return md5.is_string() && (md5.text().empty() || md5.text() == "N/A" || md5.text() == "Nan");
      };
      if (unmatched(ours) || unmatched(theirs)) {
        flag(row, Level::warning, "only one side has a checksum");
      } else {
        flag(row, Level::error, "the checksum " + shown(ours) + " differs from the golden's " + shown(theirs));
      }
    });
  }

  NodeRows& node_;
  const Graph& target_;
  const Graph& golden_;
  const CheckRules& rules_;
  std::vector<Row*> inputs_;
  std::vector<Row*> outputs_;
  Ignore ignore_ = Ignore::none;
};

Precision precision_of(Level level) {
  switch (level) {
    case Level::pass:
      return Precision::pass;
    case Level::warning:
      return Precision::warning;
    case Level::error:
      break;
  }
  return Precision::error;
}

void aggregate(Graph& graph, std::uint32_t collection) {
  Precision worst = Precision::pass;
  for (std::uint32_t child = graph.nodes[collection].first_child; child != no_node; child = graph.nodes[child].next_sibling) {
    worst = std::max(worst, graph.nodes[child].precision);
  }
  graph.nodes[collection].precision = worst;
}

}  // namespace

std::string_view level_text(Level level) {
  switch (level) {
    case Level::pass:
      return "pass";
    case Level::warning:
      return "warning";
    case Level::error:
      break;
  }
  return "error";
}

std::vector<std::string_view> metric_keys(CompareMode mode) {
  switch (mode) {
    case CompareMode::summary:
      return {"Max diff", "Min diff", "Mean diff", "L2norm diff", "MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"};
    case CompareMode::tensor:
      return {"Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio"};
    case CompareMode::md5:
    case CompareMode::structure:
      break;
  }
  return {};
}

void check_node(NodeRows& node, Graph& target, const Graph& golden, const CheckRules& rules) {
  Checker checker(node, target, golden, rules);
  checker.run();
  Node& row_node = target.nodes[node.node];
  row_node.precision = precision_of(checker.worst());
  auto api = second_field(row_node.name);
  if (api && rules.merged && rules.compat == Compat::standard) {
    api = without_rank(*api);
  }
  if (api && is_one_of(*api, uninitialised_apis)) {
    // The reference has an inverted scale left over here for checksums.
    row_node.precision = rules.mode == CompareMode::md5 && rules.compat == Compat::reference ? Precision::error : Precision::pass;
  }
}

void aggregate_collections(Graph& target) {
  for (const std::uint32_t index : target.children(0)) {
    if (target.nodes[index].type != NodeType::api_collection) {
      continue;
    }
    if (target.nodes[index].name.starts_with("Apis_Between_Modules_All_Ranks")) {
      for (const std::uint32_t child : target.children(index)) {
        aggregate(target, child);
      }
    }
    aggregate(target, index);
  }
}

}  // namespace msvis
