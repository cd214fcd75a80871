#include "visdb/config_text.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "visdb/json_text.h"

namespace msvis {
namespace {

using Tip = std::pair<std::string_view, std::string_view>;

std::vector<Tip> tips(CompareMode mode) {
  switch (mode) {
    case CompareMode::summary:
      return {{"Max diff", "Largest element of the target minus that of the golden tensor. Good near 0."},
              {"Min diff", "Smallest element of the target minus that of the golden tensor. Good near 0."},
              {"Mean diff", "Mean of the target minus mean of the golden tensor. Good near 0."},
              {"L2norm diff", "L2 norm of the target minus L2 norm of the golden tensor. Good near 0."}};
    case CompareMode::md5:
      return {{"md5", "Checksum of the tensor. Equal checksums mean that both tensors are the same bit for bit."}};
    case CompareMode::tensor:
    case CompareMode::structure:
      break;
  }
  return {
      {"One Thousandth Err Ratio", "Share of the elements whose relative error is below 1/1000. Good near 1."},
      {"Five Thousandths Err Ratio", "Share of the elements whose relative error is below 5/1000. Good near 1."},
      {"Cosine",
       "Cosine of the angle between both tensors, taken as vectors. Good near 1, acceptable above 0.99; not a number if a tensor is all "
       "zeros."},
      {"MaxAbsErr", "Largest absolute difference of two elements. Good near 0, acceptable below 0.001."},
      {"MaxRelativeErr",
       "Largest relative difference of two elements. Good near 0; infinite or not a number where the golden tensor has zeros or NaN."}};
}

struct Colour {
  std::string_view colour;
  std::string_view range;
  std::string_view level;
};

constexpr std::array<Colour, 3> levels{
    {{"#FFFCF3", "[0, 0.3]", "pass"}, {"#FFDC7F", "[0.3, 0.6]", "warning"}, {"#FF704D", "[0.6, 1]", "error"}}};
constexpr Colour unmatched{"#C7C7C7", "[]", "unmatched node"};

std::string_view level_description(CompareMode mode, std::string_view level) {
  switch (mode) {
    case CompareMode::md5:
      return level == "pass" ? "The checksums of all inputs and outputs of the node are equal."
                             : "Some checksum of an input or output of the node differs.";
    case CompareMode::summary:
      return "Deviation of the statistics of all inputs and outputs of the node; the darker the colour, the larger it is.";
    case CompareMode::tensor:
    case CompareMode::structure:
      break;
  }
  return "Deviation of the tensors of all inputs and outputs of the node; the darker the colour, the larger it is.";
}

void append_colour(std::string& out, const Colour& colour, std::string_view description) {
  append_json_string(out, colour.colour);
  out += ": {\"value\": ";
  out += colour.range;
  out += ", \"description\": ";
  append_json_string(out, description);
  out += ", \"accuracy_level\": ";
  append_json_string(out, colour.level);
  out += '}';
}

}  // namespace

std::string tool_tip_json(CompareMode mode) {
  std::string out = "{";
  for (const auto& [metric, text] : tips(mode)) {
    if (out.size() > 1) {
      out += ", ";
    }
    append_json_string(out, metric);
    out += ": ";
    append_json_string(out, text);
  }
  return out + "}";
}

std::string node_colors_json(CompareMode mode) {
  std::string out = "{";
  if (mode != CompareMode::structure) {
    for (const Colour& colour : levels) {
      append_colour(out, colour, level_description(mode, colour.level));
      out += ", ";
    }
  }
  append_colour(out, unmatched, "The node has no partner in the other graph.");
  return out + "}";
}

}  // namespace msvis
