// Any text as a layer mapping file: refused with an Error, or read within the limits and reproduced by its own rendering.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "match/layer_mapping.h"
#include "match/suggest.h"
#include "msvis/error.h"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using msvis::LayerMapping;
  LayerMapping mapping;
  try {
    mapping = LayerMapping::parse({reinterpret_cast<const char*>(data), size});
  } catch (const msvis::Error&) {
    return 0;
  }
  std::size_t rules = 0;
  for (const auto& [class_name, class_rules] : mapping.rules_by_class) {
    rules += class_rules.size();
    for (const auto& rule : class_rules) {
      require(!rule.from.empty() && rule.from.size() <= LayerMapping::max_path_fields);
      require(!rule.to.empty() && rule.to.size() <= LayerMapping::max_path_fields);
      require(rule.line > 0);
    }
  }
  require(rules <= LayerMapping::max_rules);
  const LayerMapping again = LayerMapping::parse(msvis::render_mapping(mapping, {}));
  require(again.rules_by_class.size() == mapping.rules_by_class.size());
  for (const auto& [class_name, class_rules] : mapping.rules_by_class) {
    const auto found = again.rules_by_class.find(class_name);
    require(found != again.rules_by_class.end() && found->second.size() == class_rules.size());
    for (std::size_t rule = 0; rule < class_rules.size(); ++rule) {
      require(found->second[rule].from == class_rules[rule].from && found->second[rule].to == class_rules[rule].to);
    }
  }
  return 0;
}
