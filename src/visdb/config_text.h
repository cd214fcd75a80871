// The explaining texts of tb_config.
#pragma once

#include <string>

#include "msvis/compare.h"

namespace msvis {

/// tb_config.tool_tip of a comparison: JSON object, metric -> what it is and which direction is good.
std::string tool_tip_json(CompareMode mode);
/// tb_config.node_colors of a comparison: JSON object, colour -> range of the precision index and its meaning.
std::string node_colors_json(CompareMode mode);

}  // namespace msvis
