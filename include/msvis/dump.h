// One dump directory (one step, one rank, one side) in memory: dump.json, stack.json, construct.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msvis/json.h"

namespace msvis {

enum class Framework : std::uint8_t { pytorch, mindspore, mindtorch, unknown };

/// A parsed JSON file. Holds the text of the file; all values point into it. Movable (values stay valid), not copyable.
class JsonDocument {
 public:
  struct Limits {
    std::uint32_t max_depth = 1000;  ///< nesting of arrays and objects; deeper is ErrorCategory::limit
    /// The text is parsed in pieces of about this size, cut between two tokens, so that a piece stays in the processor's cache. Has no
    /// effect on the result; a longer token makes a longer piece (below 4 GiB, else ErrorCategory::limit).
    std::uint64_t max_piece_bytes = std::uint64_t{256} << 10;
  };
  JsonDocument();
  ~JsonDocument();
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;

  /// Reads and parses a whole file. Accepts what Python's json module writes: NaN, Infinity, -Infinity, integers of any
  /// size, repeated keys (last value at first place), lone surrogate escapes. Throws Error: path (missing, unreadable, no
  /// regular file), format (not UTF-8, not JSON, trailing text, byte-order mark; with the byte offset), limit (depth).
  static JsonDocument read(const std::filesystem::path& file, const Limits& limits);
  static JsonDocument read(const std::filesystem::path& file);
  /// The same for a text in memory; `name` stands for the file in errors.
  static JsonDocument parse(std::string_view text, const std::filesystem::path& name, const Limits& limits);
  static JsonDocument parse(std::string_view text, const std::filesystem::path& name = "(memory)");

  [[nodiscard]] JsonValue root() const;
  /// JsonValue::find for an object of this document; hashed for large objects of the two outermost levels.
  [[nodiscard]] JsonValue member(JsonValue object, std::string_view key) const;
  /// Place of a key among the members of an object (those that members() gives), or nullopt; hashed like member().
  [[nodiscard]] std::optional<std::uint32_t> position(JsonValue object, std::string_view key) const;
  /// The text of the file as it was read.
  [[nodiscard]] std::string_view text() const;

 private:
  struct Storage;
  std::unique_ptr<Storage> storage_;
};

/// One member of construct.json.
struct ConstructEntry {
  std::string_view child;
  std::string_view parent;      ///< empty: none given (null or "")
  std::int64_t micro_step = 0;  ///< Megatron form only
};

class Dump {
 public:
  /// What the files told, for a dump whose files are not held any more.
  struct Facts {
    Framework framework = Framework::unknown;
    bool md5 = false;
  };
  /// Reads `dump.json`, `stack.json` and `construct.json` below `directory` (links are resolved first).
  /// Throws Error naming the file: path (missing, unreadable), format (not JSON, wrong type at top level, construct value
  /// that is neither string nor null nor a pair, an empty construct.json: the message says that level L0 or mix is needed).
  static Dump read(const std::filesystem::path& directory);

  Dump();
  ~Dump();
  Dump(Dump&&) noexcept;
  Dump& operator=(Dump&&) noexcept;

  std::filesystem::path directory;  ///< resolved
  std::string task;                 ///< "" if missing or no string
  std::string level;                ///< ditto
  std::string framework;            ///< as stated; "" if missing
  JsonValue data;                   ///< member `data`; absent if missing, may be of any kind
  /// Column dump_data_dir of the result: nullopt for SQL NULL, "" if the member is missing, else an absolute directory (dump-format section
  /// 7).
  std::optional<std::string> dump_data_dir;
  std::vector<ConstructEntry> construct;             ///< in file order, without the Megatron member
  std::optional<std::int64_t> megatron_micro_steps;  ///< value of `megatron_micro_step_number`
  JsonValue stack_root;                              ///< the raw stack.json
  JsonValue construct_root;                          ///< the raw construct.json
  std::optional<Facts> facts;                        ///< detected_framework() and has_md5() say these

  /// Entry of `data` by name (hashed); absent if there is none.
  [[nodiscard]] JsonValue entry(std::string_view name) const;
  /// Stack of a name (either form of stack.json, hashed); absent if there is none.
  [[nodiscard]] JsonValue stack(std::string_view name) const;
  /// Index in `construct` of a child (hashed), or nullopt.
  [[nodiscard]] std::optional<std::uint32_t> construct_index(std::string_view child) const;

  /// D1 of the comparison rules: the stated framework if it is pytorch or mindspore, else by the first line of dump.json with a
  /// `"type": "mindspore..."` or `"type": "torch..."`; unknown if neither occurs.
  [[nodiscard]] Framework detected_framework() const;
  /// Whether an element of a record, at depth 1, contains `md5` (comparison rules, 1.2).
  [[nodiscard]] bool has_md5() const;
  /// Bytes of the three files.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Storage;
  std::unique_ptr<Storage> storage_;
};

}  // namespace msvis
