#include "links/hash128.h"

#include <bit>

namespace msvis {
namespace {

constexpr std::uint64_t first_factor = 0x87c37b91114253d5U;
constexpr std::uint64_t second_factor = 0x4cf5ad432745937fU;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t word = 0;
  unsigned shift = 0;
  for (const char byte : bytes) {
    word |= std::uint64_t{static_cast<unsigned char>(byte)} << shift;
    shift += 8;
  }
  return word;
}

std::uint64_t scramble_first(std::uint64_t word) {
  return std::rotl(word * first_factor, 31) * second_factor;
}
std::uint64_t scramble_second(std::uint64_t word) {
  return std::rotl(word * second_factor, 33) * first_factor;
}

std::uint64_t finish(std::uint64_t word) {
  word ^= word >> 33U;
  word *= 0xff51afd7ed558ccdU;
  word ^= word >> 33U;
  word *= 0xc4ceb9fe1a85ec53U;
  word ^= word >> 33U;
  return word;
}

}  // namespace

std::array<std::uint64_t, 2> hash128(std::string_view text) {
  const std::uint64_t size = text.size();
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  while (text.size() >= 16) {
    first ^= scramble_first(little_endian(text.substr(0, 8)));
    first = (std::rotl(first, 27) + second) * 5 + 0x52dce729U;
    second ^= scramble_second(little_endian(text.substr(8, 8)));
    second = (std::rotl(second, 31) + first) * 5 + 0x38495ab5U;
    text.remove_prefix(16);
  }
  if (text.size() > 8) {
    second ^= scramble_second(little_endian(text.substr(8)));
  }
  first ^= scramble_first(little_endian(text.substr(0, 8)));  // an empty rest scrambles to 0
  first ^= size;
  second ^= size;
  first += second;
  second += first;
  first = finish(first);
  second = finish(second);
  first += second;
  second += first;
  return {first, second};
}

}  // namespace msvis
