// 128-bit hash of a short text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace msvis {

/// MurmurHash3, the 128-bit variant for 64-bit machines, seed 0. The same on every machine (bytes are read in little-endian order).
std::array<std::uint64_t, 2> hash128(std::string_view text);

}  // namespace msvis
