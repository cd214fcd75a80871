// Exact arithmetic on numbers as JSON has them.
#pragma once

#include "msvis/compare.h"
#include "msvis/json.h"

namespace msvis {

/// The two cells of one pair of statistics (comparison rules, 7.1).
struct StatisticsCells {
  Cell difference;
  Cell relative;
};
StatisticsCells compare_statistics(JsonValue target, JsonValue golden);

/// Equality as Python sees it: numbers and booleans by value, null with null, texts, arrays and objects by content.
bool equal_values(JsonValue left, JsonValue right);

/// Whether two statistics count as different for a scalar argument: as equal_values, but texts and numbers that are not finite by their
/// text.
bool equal_statistics(JsonValue left, JsonValue right);

/// A real number, or a text such as `nan` or `-inf`, that is not finite. Integers of any size are finite.
bool is_not_finite(JsonValue value);

}  // namespace msvis
