// Random shapes, strides and offsets against a plain walk over all indices.
#include <random>

#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

struct View {
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> stride;
  std::int64_t offset = 0;
  std::int64_t storage = 0;
};

View random_view(std::mt19937_64& random) {
  const auto pick = [&](std::int64_t low, std::int64_t high) { return std::uniform_int_distribution<std::int64_t>(low, high)(random); };
  View view;
  const std::int64_t dimensions = pick(0, 5);
  for (std::int64_t d = 0; d < dimensions; ++d) {
    view.size.push_back(pick(0, 19) == 0 ? 0 : pick(1, d < 2 ? 40 : 5));
  }
  view.stride.assign(view.size.size(), 0);
  if (pick(0, 2) == 0) {
    for (std::int64_t& stride : view.stride) {
      stride = pick(0, 50);
    }
  } else {
    // A permuted dense tensor, sometimes with gaps or repeated elements.
    std::vector<std::size_t> order(view.size.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
      order[k] = k;
    }
    if (pick(0, 3) != 0) {
      std::shuffle(order.begin(), order.end(), random);
    }
    std::int64_t stride = 1;
    for (std::size_t k = order.size(); k-- > 0;) {
      view.stride[order[k]] = pick(0, 9) == 0 ? 0 : stride;
      stride *= std::max<std::int64_t>(view.size[order[k]], 1) + (pick(0, 5) == 0 ? 1 : 0);
    }
  }
  view.offset = pick(0, 9);
  view.storage = view.offset + 1 + pick(0, 3);
  for (std::size_t d = 0; d < view.size.size(); ++d) {
    view.storage += std::max<std::int64_t>(view.size[d] - 1, 0) * view.stride[d];
  }
  return view;
}

/// The elements in logical order, by their definition.
std::string plain_walk(const View& view, const std::string& storage, std::size_t element_size) {
  std::string out;
  std::vector<std::int64_t> index(view.size.size(), 0);
  for (const std::int64_t size : view.size) {
    if (size == 0) {
      return out;
    }
  }
  while (true) {
    std::int64_t at = view.offset;
    for (std::size_t d = 0; d < index.size(); ++d) {
      at += index[d] * view.stride[d];
    }
    out += storage.substr(static_cast<std::size_t>(at) * element_size, element_size);
    std::size_t d = index.size();
    while (d > 0 && ++index[d - 1] == view.size[d - 1]) {
      index[--d] = 0;
    }
    if (d == 0) {
      return out;
    }
  }
}

TEST(Views, RandomViewsAreReadAsByAPlainWalk) {
  const unsigned seed = 20240607;
  std::mt19937_64 random(seed);
  const std::vector<DType> dtypes = {DType::uint8, DType::float16, DType::float32, DType::int64, DType::complex128};
  std::size_t strided = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    const View view = random_view(random);
    TorchSpec spec;
    spec.dtype = dtypes[static_cast<std::size_t>(round) % dtypes.size()];
    const std::size_t size = dtype_size(spec.dtype);
    spec.size = view.size;
    spec.stride = view.stride;
    spec.offset = view.offset;
    spec.storage.resize(static_cast<std::size_t>(view.storage) * size);
    for (char& byte : spec.storage) {
      byte = static_cast<char>(random());
    }
    ZipOptions options;
    options.deflate = round % 3 == 1;
    const std::string file = round % 3 == 2 ? torch_legacy(spec) : torch_zip(spec, options);
    Loaded tensor(file);
    strided += tensor.is_contiguous() ? 0 : 1;
    ASSERT_EQ(text_of(tensor.contiguous()), plain_walk(view, spec.storage, size));
    ASSERT_TRUE(tensor.is_contiguous());
    ASSERT_EQ(text_of(tensor.contiguous()), plain_walk(view, spec.storage, size));
  }
  EXPECT_GT(strided, 1000U);
}

TEST(Views, OneElementLessOfStorageIsFound) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    const View view = random_view(random);
    std::int64_t last = view.offset;
    bool empty = false;
    for (std::size_t d = 0; d < view.size.size(); ++d) {
      last += std::max<std::int64_t>(view.size[d] - 1, 0) * view.stride[d];
      empty = empty || view.size[d] == 0;
    }
    TorchSpec spec = float_view(last, view.size, view.stride, view.offset);
    if (empty) {
      EXPECT_EQ(Loaded(torch_zip(spec)).element_count(), 0U);
    } else {
      expect_file_fault(TensorFault::damaged, "data for " + std::to_string(last) + " elements", torch_zip(spec));
    }
  }
}

}  // namespace
}  // namespace msvis::test
