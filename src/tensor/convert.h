// Work on arrays of elements: byte order, gathering of strided views, sign and conjugation, casts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "msvis/dtype.h"

namespace msvis {

/// Reverses the bytes of every `scalar_size` bytes (1, 2, 4, 8), in place.
void swap_byte_order(std::span<std::byte> bytes, std::size_t scalar_size);

/// Copies the elements of a strided view in row-major order to `out`. `strides` are in elements; element sizes 1, 2, 4, 8, 16.
void gather(const std::byte* first, const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& strides,
            std::size_t element_size, std::byte* out);

/// Negates imaginary parts (complex types only) and then whole values, in place. Integers wrap; booleans stay.
void apply_sign(std::span<std::byte> bytes, DType dtype, bool conjugate, bool negate);

/// Converts elements as PyTorch's `to(dtype)` does: floating values are rounded to nearest even (to types narrower than float32 by way of
/// float32) and truncated towards zero for integers (NaN gives 0, values out of range saturate), integers wrap, complex values lose
/// their imaginary part when the target is real, anything but 0 is true.
void cast_elements(const std::byte* from, DType from_type, std::byte* to, DType to_type, std::uint64_t count);

}  // namespace msvis
