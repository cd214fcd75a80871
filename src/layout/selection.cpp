#include <algorithm>

#include "msvis/options.h"

namespace msvis {

bool Selection::contains(std::int64_t number) const {
  return all() ||
         std::any_of(ranges.begin(), ranges.end(), [number](const auto& range) { return range.first <= number && number <= range.second; });
}

}  // namespace msvis
