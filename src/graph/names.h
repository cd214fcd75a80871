// Parts of node names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msvis {

/// Whether a text is one or more ASCII digits.
bool all_digits(std::string_view text);

/// Dot-separated fields; an empty text has one empty field.
std::vector<std::string_view> split_fields(std::string_view name);

/// Number of dot-separated fields.
std::size_t count_fields(std::string_view name);

/// The name without its last `count` fields; empty if it has no more than that.
std::string_view drop_fields(std::string_view name, std::size_t count);

/// A module call `base.direction.number`; `base` is empty if the name has not this form.
struct ModuleCall {
  std::string_view base;
  std::string_view number;
  [[nodiscard]] explicit operator bool() const { return !number.empty(); }
};

/// Splits a name that ends in `.<direction>.<digits>`.
ModuleCall split_module_call(std::string_view name, std::string_view direction);

/// `x.<from>.N` as `x.<to>.N`; a name that does not end so is returned unchanged.
std::string with_direction(std::string_view name, std::string_view from, std::string_view to);

/// Every occurrence of a text replaced.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace msvis
