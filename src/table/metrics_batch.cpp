#include "table/metrics_batch.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <unordered_map>

#include "base/bytes.h"
#include "compare/numbers.h"
#include "dump/python_text.h"
#include "msvis/error.h"
#include "msvis/items.h"
#include "visdb/json_text.h"
#include "visdb/rows_by_name.h"

namespace msvis {
namespace {

/// Rows of the result file begin with a side, 0 or 1.
constexpr char batch_mark = 'M';
constexpr double none = std::numeric_limits<double>::quiet_NaN();

static_assert(number_columns <= 32, "a row has a bit for each number");

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorCategory::internal, std::string("a batch of the parameter table is damaged: ") + what);
}

/// The value of a text that stands for a number: 12, 1e400, nan, -Inf, True and so on.
double number_of_text(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!text.empty() && end == text.data() + text.size()) {
    if (fault == std::errc()) {
      return value;
    }
    if (fault == std::errc::result_out_of_range && text.find_first_of("eE") == std::string_view::npos) {
      // Only digits: an integer of hundreds of them.
      return text.starts_with('-') ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    }
  }
  if (text == "True") {
    return 1;
  }
  return text == "False" ? 0 : none;
}

double number_of(JsonValue value) {
  if (!value) {
    return none;
  }
  switch (value.kind()) {
    case JsonKind::integer:
    case JsonKind::real:
      return value.number();
    case JsonKind::boolean:
      return value.boolean() ? 1 : 0;
    case JsonKind::string:
      return number_of_text(value.text());
    case JsonKind::null:
    case JsonKind::array:
    case JsonKind::object:
      break;
  }
  return none;
}

double number_of(const Cell& cell) {
  switch (cell.kind) {
    case Cell::Kind::number:
    case Cell::Kind::percent:
      return cell.value;
    case Cell::Kind::blank:
      return none;
    case Cell::Kind::text:
      break;
  }
  std::string_view text = cell.text;
  while (text.ends_with('\t')) {  // the mark that keeps an infinite difference a text in spreadsheets
    text.remove_suffix(1);
  }
  return number_of_text(text);  // differences of integers are exact texts
}

double number_of(Precision precision) {
  switch (precision) {
    case Precision::pass:
      return 0;
    case Precision::warning:
      return 0.5;
    case Precision::error:
      return 1;
    case Precision::none:
      break;
  }
  return none;
}

/// A text as every file can hold it: valid UTF-8 without NUL.
void append_clean(std::string& out, std::string_view text) {
  const std::size_t start = out.size();
  append_valid_utf8(out, text);
  for (std::size_t at = out.find('\0', start); at != std::string::npos; at = out.find('\0', at)) {
    out.replace(at, 1, "\xEF\xBF\xBD");
  }
}

/// The texts of one kind in a batch, numbered by first use; 0 is the empty text.
class TextTable {
 public:
  std::uint32_t number_of(std::string_view text) {
    if (text.empty()) {
      return 0;
    }
    const auto known = numbers_.find(text);
    if (known != numbers_.end()) {
      return known->second;
    }
    const auto number = static_cast<std::uint32_t>(numbers_.size() + 1);
    const auto added = numbers_.emplace(std::string(text), number).first;
    texts_.push_back(added->first);
    bytes_ += text.size() + sizeof(std::uint64_t);
    return number;
  }
  [[nodiscard]] const std::vector<std::string_view>& texts() const { return texts_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  void clear() {
    numbers_.clear();
    texts_.clear();
    bytes_ = 0;
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<std::string_view> texts_;
  std::size_t bytes_ = 0;
};

class BatchMaker {
 public:
  BatchMaker(const MetricsSource& source, std::size_t batch_bytes, const std::function<void(std::string&&)>& sink)
      : source_(source), target_(*source.target), batch_bytes_(batch_bytes), sink_(sink) {}

  void run() {
    std::vector<const NodeRows*> rows_of;
    if (source_.comparison != nullptr) {
      rows_of = rows_by_node(target_, *source_.comparison);
    }
    for (std::uint32_t place = 0; place < target_.order.size(); ++place) {
      const std::uint32_t index = target_.order[place];
      if (source_.nodes != nullptr && !(*source_.nodes)[index]) {
        continue;
      }
      if (place / metrics_block_nodes != block_) {
        flush();
        block_ = place / metrics_block_nodes;
      }
      add_node(place, target_.nodes[index], rows_of.empty() ? nullptr : rows_of[index]);
    }
    flush();
  }

 private:
  void add_node(std::uint32_t place, const Node& node, const NodeRows* rows) {
    if (node.inputs_begin == node.items_end) {
      return;
    }
    rows_.set(target_, rows);
    const Node* golden = source_.golden != nullptr && node.link != no_node ? &source_.golden->nodes[node.link] : nullptr;
    for (std::uint32_t item = node.inputs_begin; item < node.items_end; ++item) {
      if (size() >= batch_bytes_) {
        flush();
      }
      add_item(place, item - node.inputs_begin, node, target_.items[item], golden, rows_.find(target_.items[item].key));
    }
  }

  void add_item(std::uint32_t place, std::uint32_t position, const Node& node, const Item& item, const Node* golden, const Row* row) {
    MetricsRow out;
    out.node_order = place;
    out.position = position;
    out.numbers.fill(none);
    out.numbers[number_precision_index] = number_of(node.precision);
    set_text(out, text_node, node.name);
    set_text(out, text_parameter, without_node(item.key, node.name));
    set_text(out, text_target_dtype, item.dtype);
    set_text(out, text_target_shape, item.shape);
    set_statistics(out, number_target_statistics, item);
    set_text(out, text_golden_node, golden == nullptr ? std::string_view() : golden->name);
    if (source_.comparison == nullptr || source_.comparison->mode == CompareMode::md5) {
      set_checksum(out, checksum_target, item.md5);
    }
    if (row != nullptr && golden != nullptr) {
      add_comparison(out, *row, *golden);
    } else if (source_.comparison != nullptr && golden == nullptr) {
      set_text(out, text_result, "unmatched");
    }
    pack(out);
  }

  void add_comparison(MetricsRow& out, const Row& row, const Node& golden) {
    set_text(out, text_result, level_text(row.level));
    set_reason(out, row);
    const CompareMode mode = source_.comparison->mode;
    const std::size_t first = mode == CompareMode::tensor ? number_tensor_cells : number_statistics_cells;
    const std::size_t room = (mode == CompareMode::tensor ? number_precision_index : number_tensor_cells) - first;
    for (std::size_t k = 0; k < std::min(row.cells.size(), room); ++k) {
      out.numbers[first + k] = number_of(row.cells[k]);
    }
    if (row.golden_item == no_node) {
      return;
    }
    const Item& theirs = source_.golden->items[row.golden_item];
    const Item& facts = source_.golden->items[row.golden_fact];
    set_text(out, text_golden_parameter, without_node(theirs.key, golden.name));
    set_text(out, text_golden_dtype, facts.dtype);
    set_text(out, text_golden_shape, facts.shape);
    set_statistics(out, number_golden_statistics, theirs);
    if (mode == CompareMode::md5) {
      const JsonValue ours = target_.items[row.target_fact].md5;
      set_checksum(out, checksum_golden, facts.md5);
      if (is_checksum(ours) && is_checksum(facts.md5)) {
        out.md5_equal = equal_values(ours, facts.md5) ? 1 : 0;
      }
    }
  }

  static bool is_checksum(JsonValue md5) { return md5.is_string() && !md5.text().empty(); }

  /// `X.forward.0` and `X.forward.0.input.1`: `input.1`.
  static std::string_view without_node(std::string_view parameter, std::string_view node) {
    const bool below = parameter.size() > node.size() + 1 && parameter.starts_with(node) && parameter[node.size()] == '.';
    return below ? parameter.substr(node.size() + 1) : parameter;
  }

  void set_text(MetricsRow& out, TextColumn column, std::string_view text) {
    clean_.clear();
    append_clean(clean_, text);
    out.texts[column] = tables_[static_cast<std::size_t>(kind_of_text[column])].number_of(clean_);
  }

  void set_text(MetricsRow& out, TextColumn column, JsonValue value) {
    shown_.clear();
    if (value && !value.is_null()) {
      append_display(shown_, value);
    }
    set_text(out, column, std::string_view(shown_));
  }

  void set_reason(MetricsRow& out, const Row& row) {
    shown_.clear();
    const auto add = [this](std::string_view message) {
      shown_ += shown_.empty() ? "" : "; ";
      shown_ += message;
    };
    for (const std::string& message : row.messages) {
      add(message);
    }
    // The reference does not tell it in the result file.
    if (source_.compat == Compat::reference && !row.info.empty()) {
      add("info: " + row.info);
    }
    set_text(out, text_reason, std::string_view(shown_));
  }

  static void set_statistics(MetricsRow& out, std::size_t first, const Item& item) {
    for (std::size_t k = 0; k < item.stats.size(); ++k) {
      out.numbers[first + k] = number_of(item.stats[k]);
    }
  }

  void set_checksum(MetricsRow& out, ChecksumColumn column, JsonValue md5) {
    if (!md5.is_string()) {
      return;
    }
    clean_.clear();
    append_clean(clean_, md5.text());
    std::size_t size = std::min(clean_.size(), checksum_bytes);
    while (size < clean_.size() && size > 0 && (static_cast<unsigned char>(clean_[size]) & 0xC0U) == 0x80U) {
      --size;  // not inside a character
    }
    std::copy_n(clean_.begin(), size, out.checksums[column].begin());
  }

  void pack(const MetricsRow& row) {
    ++count_;
    packed_.put(row.node_order);
    packed_.put(row.position);
    for (std::size_t k = 0; k < text_columns; ++k) {
      packed_.put(row.texts[k]);
      texts_seen_ |= row.texts[k] != 0 ? 1U << k : 0U;
    }
    std::uint32_t present = 0;
    for (std::size_t k = 0; k < number_columns; ++k) {
      present |= row.numbers[k] == row.numbers[k] ? 1U << k : 0U;
    }
    packed_.put(present);
    numbers_seen_ |= present;
    for (std::size_t k = 0; k < number_columns; ++k) {
      if ((present >> k & 1U) != 0) {
        packed_.put(row.numbers[k]);
      }
    }
    packed_.put(row.md5_equal);
    md5_compared_ = md5_compared_ || row.md5_equal >= 0;
    for (std::size_t k = 0; k < checksum_columns; ++k) {
      const auto& checksum = row.checksums[k];
      packed_.put(std::string_view(checksum.data(), strnlen(checksum.data(), checksum.size())));
      checksums_seen_ |= checksum.front() != '\0' ? 1U << k : 0U;
    }
  }

  [[nodiscard]] bool has_values(const MetricsColumn& column) const {
    switch (column.type) {
      case MetricsColumn::Type::number:
        return (numbers_seen_ >> column.index & 1U) != 0;
      case MetricsColumn::Type::text:
        return (texts_seen_ >> column.index & 1U) != 0;
      case MetricsColumn::Type::checksum:
        return (checksums_seen_ >> column.index & 1U) != 0;
      case MetricsColumn::Type::md5_equal:
        return md5_compared_;
      case MetricsColumn::Type::step:
      case MetricsColumn::Type::rank:
      case MetricsColumn::Type::node_order:
      case MetricsColumn::Type::position:
        break;
    }
    return true;
  }

  [[nodiscard]] std::uint64_t columns_with_values() const {
    std::uint64_t columns = 0;
    for (std::size_t k = 0; k < metrics_columns().size(); ++k) {
      columns |= has_values(metrics_columns()[k]) ? std::uint64_t{1} << k : 0U;
    }
    return columns;
  }

  [[nodiscard]] std::size_t size() const {
    std::size_t bytes = packed_.bytes().size();
    for (const TextTable& table : tables_) {
      bytes += table.bytes();
    }
    return bytes;
  }

  void flush() {
    if (count_ == 0) {
      return;
    }
    ByteWriter out;
    out.put(batch_mark);
    out.put(source_.step);
    out.put(source_.rank);
    out.put(block_);
    out.put(count_);
    out.put(columns_with_values());
    for (TextTable& table : tables_) {
      out.put_all(table.texts());
      table.clear();
    }
    out.put(packed_.take());
    packed_ = ByteWriter();
    count_ = 0;
    numbers_seen_ = texts_seen_ = checksums_seen_ = 0;
    md5_compared_ = false;
    sink_(out.take());
  }

  const MetricsSource& source_;
  const Graph& target_;
  std::size_t batch_bytes_;
  const std::function<void(std::string&&)>& sink_;
  RowsByName rows_;
  std::array<TextTable, text_kinds> tables_;
  ByteWriter packed_;
  std::uint32_t count_ = 0;
  std::uint32_t block_ = 0;
  // Which columns of the batch have a value, by their index.
  std::uint32_t numbers_seen_ = 0;
  std::uint32_t texts_seen_ = 0;
  std::uint32_t checksums_seen_ = 0;
  bool md5_compared_ = false;
  std::string shown_;
  std::string clean_;
};

MetricsBatchHeader get_header(ByteReader& in) {
  if (in.get<char>() != batch_mark) {
    fail("it does not begin as one");
  }
  MetricsBatchHeader header;
  header.step = in.get<std::int64_t>();
  header.rank = in.get<std::int64_t>();
  header.block = in.get<std::uint32_t>();
  header.rows = in.get<std::uint32_t>();
  header.columns = in.get<std::uint64_t>();
  return header;
}

/// Cuts a value off the front.
template <typename T>
T cut(std::string_view& bytes) {
  T value;
  if (bytes.size() < sizeof value) {
    fail("a row ends early");
  }
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

}  // namespace

MetricsBatchHeader read_metrics_header(std::string_view bytes) {
  ByteReader in(bytes);
  return get_header(in);
}

MetricsBatch unpack_metrics_batch(std::string_view bytes) {
  ByteReader in(bytes);
  MetricsBatch batch;
  batch.header = get_header(in);
  for (auto& texts : batch.texts) {
    texts = in.get_all([](ByteReader& reader) { return reader.get_view(); });
    texts.insert(texts.begin(), std::string_view());
  }
  batch.packed_rows = in.get_view();
  if (!in.at_end()) {
    fail("there are bytes behind its end");
  }
  return batch;
}

bool MetricsRowReader::next(MetricsRow& row) {
  if (rest_.empty()) {
    return false;
  }
  row.node_order = cut<std::uint32_t>(rest_);
  row.position = cut<std::uint32_t>(rest_);
  for (std::size_t k = 0; k < text_columns; ++k) {
    row.texts[k] = cut<std::uint32_t>(rest_);
    if (row.texts[k] >= sizes_[static_cast<std::size_t>(kind_of_text[k])]) {
      fail("a row refers to no text");
    }
  }
  const auto present = cut<std::uint32_t>(rest_);
  for (std::size_t k = 0; k < number_columns; ++k) {
    row.numbers[k] = (present >> k & 1U) != 0 ? cut<double>(rest_) : none;
  }
  row.md5_equal = cut<std::int8_t>(rest_);
  for (auto& checksum : row.checksums) {
    const auto size = cut<std::uint64_t>(rest_);
    if (size > checksum.size() || size > rest_.size()) {
      fail("a checksum is too long");
    }
    checksum.fill('\0');
    std::copy_n(rest_.begin(), size, checksum.begin());
    rest_.remove_prefix(size);
  }
  return true;
}

void make_metrics_batches(const MetricsSource& source, std::size_t batch_bytes, const std::function<void(std::string&&)>& sink) {
  BatchMaker(source, batch_bytes, sink).run();
}

}  // namespace msvis
