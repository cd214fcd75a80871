// Text of a dump.json: parsed in pieces of two sizes, with the same outcome; all items built, listed and written as text.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "dump/python_text.h"
#include "msvis/dump.h"
#include "msvis/error.h"
#include "msvis/items.h"

namespace {

using msvis::JsonDocument;
using msvis::JsonValue;

/// repr of the value and whether it was accepted.
struct Outcome {
  bool accepted = false;
  msvis::ErrorCategory category = msvis::ErrorCategory::internal;
  JsonDocument document;
  std::string text;
};

Outcome parse(std::string_view text, std::uint64_t piece) {
  Outcome outcome;
  try {
    outcome.document = JsonDocument::parse(text, "fuzz", {.max_piece_bytes = piece});
    outcome.accepted = true;
    msvis::append_repr(outcome.text, outcome.document.root());
  } catch (const msvis::Error& error) {
    outcome.category = error.category();
  }
  return outcome;
}

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void build_all(JsonValue entries) {
  msvis::JsonPool pool;
  msvis::ItemLists lists;
  std::vector<JsonValue::Member> members;
  std::string text;
  const auto build = [&](std::string_view name, JsonValue entry) {
    try {
      msvis::build_items(name, entry, pool, lists);
    } catch (const msvis::Error&) {
      return;
    }
    for (const auto* list : {&lists.inputs, &lists.outputs}) {
      for (const msvis::Item& item : *list) {
        msvis::list_members(item, members);
        for (const auto& [key, value] : members) {
          text.clear();
          msvis::append_display(text, value);
        }
      }
    }
  };
  for (const auto& [name, entry] : entries.members()) {
    build(name, entry);
    build("Module.a.A.parameters_grad.0", entry);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const Outcome whole = parse(text, std::uint64_t{1} << 20);
  const Outcome pieces = parse(text, size % 17);
  require(whole.accepted == pieces.accepted && whole.text == pieces.text);
  if (!whole.accepted) {
    // What is plain JSON for another parser must be accepted; that parser takes a byte-order mark and stops at a zero byte.
    const bool comparable = !text.starts_with("\xEF\xBB\xBF") && text.find('\0') == std::string_view::npos;
    require(whole.category == msvis::ErrorCategory::limit || !comparable || !nlohmann::json::accept(text));
    return 0;
  }
  const JsonValue root = whole.document.root();
  build_all(root);
  build_all(whole.document.member(root, "data"));
  for (const auto& [key, value] : root.members()) {
    require(whole.document.member(root, key).same_as(value));
  }
  return 0;
}
