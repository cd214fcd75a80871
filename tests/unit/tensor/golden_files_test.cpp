// The tensor files of the golden dumps: each is read, and agrees with what its dump.json says of it, or is refused for the right reason.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path golden = fs::path(MSVIS_TESTDATA) / "golden";

/// Files that were damaged on purpose, or hold something else.
const std::map<std::string, TensorFault>& faulty_files() {
  static const std::map<std::string, TensorFault> faults = {
      {"random/tensor_009/target/dump_tensor_data/MindSpeed.rope.0.forward.output.1.pt", TensorFault::not_a_tensor},
      {"random/tensor_009/golden/dump_tensor_data/MindSpeed.rope.2.forward.output.1.pt", TensorFault::not_a_tensor},
      {"random/tensor_ranks_001/golden/rank0/dump_tensor_data/Torch.extra.1.forward.output.1.pt", TensorFault::damaged},
      {"random/tensor_fm_003/target/dump_tensor_data/Tensor.to.0.forward.input.2.logits.pt", TensorFault::damaged},
      {"random/tensor_fm_003/golden/dump_tensor_data/Tensor.to.0.forward.input.2.logits.pt", TensorFault::damaged},
      {"random/tensor_002/target/dump_tensor_data/Module.module.parameters.L.forward.0.output.0.logits.pt", TensorFault::damaged},
      {"random/tensor_002/target/dump_tensor_data/Torch.empty.1.forward.output.0.0.pt", TensorFault::damaged},
      {"random/tensor_002/golden/dump_tensor_data/Module.module.parameters.L.forward.0.output.0.logits.pt", TensorFault::damaged},
      {"random/tensor_002/golden/dump_tensor_data/Torch.empty.1.forward.output.0.0.pt", TensorFault::damaged},
      {"random/tensor_lm_cross_001/golden/rank/dump_tensor_data/Torch.add.0.forward.input.1.pt", TensorFault::damaged},
      {"random/tensor_oc_002/target/dump_tensor_data/Module.1.net.ParallelTransformer.forward.0.kwargs.x.pt", TensorFault::damaged},
      {"random/tensor_oc_002/target/dump_tensor_data/Torch.empty.0.forward.input.0.pt", TensorFault::damaged},
      {"random/tensor_oc_002/target/dump_tensor_data/NPU.fused.0.forward.input.0.pt", TensorFault::not_a_tensor},
      {"random/tensor_oc_002/golden/dump_tensor_data/Module.1.net.ParallelTransformer.forward.0.kwargs.x.pt", TensorFault::damaged},
      {"random/tensor_oc_002/golden/dump_tensor_data/Torch.empty.0.forward.input.0.pt", TensorFault::damaged},
      {"random/tensor_oc_002/golden/dump_tensor_data/NPU.fused.0.forward.input.0.pt", TensorFault::not_a_tensor},
      {"tensor/mlp_damaged_file/target/dump_tensor_data/Module.head.Linear.forward.0.output.0.pt", TensorFault::damaged},
      {"tensor/mlp_damaged_file/golden/dump_tensor_data/Module.input_layernorm.LayerNorm.forward.0.output.0.pt", TensorFault::damaged},
  };
  return faults;
}

TEST(GoldenFiles, AreReadOrRefusedAsTheyShould) {
  if (!fs::exists(golden)) {
    GTEST_SKIP() << "no golden dumps in " << MSVIS_TESTDATA;
  }
  std::size_t read = 0;
  std::size_t refused = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(golden)) {
    const fs::path extension = entry.path().extension();
    if (!entry.is_regular_file() || (extension != ".pt" && extension != ".npy")) {
      continue;
    }
    const std::string name = fs::relative(entry.path(), golden).string();
    SCOPED_TRACE(name);
    const auto fault = faulty_files().find(name);
    if (fault != faulty_files().end()) {
      expect_fault(fault->second, "", [&] { (void)read_tensor(entry.path()); });
      ++refused;
      continue;
    }
    Tensor tensor = read_tensor(entry.path());
    EXPECT_EQ(tensor.contiguous().size(), tensor.byte_count());
    ++read;
  }
  EXPECT_GT(read, 1000U);
  EXPECT_EQ(refused, faulty_files().size());
}

/// Calls `visit` with each object that has a data_name.
template <typename Visit>
void visit_leaves(const json& value, const Visit& visit) {
  if (value.is_object() && value.contains("data_name") && value["data_name"].is_string()) {
    visit(value);
  }
  if (value.is_structured()) {
    for (const json& element : value) {
      visit_leaves(element, visit);
    }
  }
}

template <typename T>
std::pair<double, double> range_of(std::span<const std::byte> bytes) {
  const std::vector<T> values = values_of<T>(bytes);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {static_cast<double>(*low), static_cast<double>(*high)};
}

std::optional<std::pair<double, double>> range_of(Tensor& tensor) {
  const std::span<const std::byte> bytes = tensor.contiguous();
  if (bytes.empty()) {
    return std::nullopt;
  }
  switch (tensor.dtype()) {
    case DType::float64:
      return range_of<double>(bytes);
    case DType::float32:
      return range_of<float>(bytes);
    case DType::int64:
      return range_of<std::int64_t>(bytes);
    case DType::int32:
      return range_of<std::int32_t>(bytes);
    case DType::int16:
      return range_of<std::int16_t>(bytes);
    case DType::int8:
      return range_of<std::int8_t>(bytes);
    case DType::uint8:
      return range_of<std::uint8_t>(bytes);
    default:
      return std::nullopt;
  }
}

// The dumper wrote shape, type, maximum and minimum beside the file: values that this program did not make.
TEST(GoldenFiles, AgreeWithTheStatisticsOfTheDumper) {
  std::size_t shapes = 0;
  std::size_t ranges = 0;
  for (const std::string_view group : {"tensor", "mindspore"}) {
    if (!fs::exists(golden / group)) {
      continue;
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(golden / group)) {
      if (entry.path().filename() != "dump.json") {
        continue;
      }
      std::ifstream in(entry.path());
      const json dump = json::parse(in, nullptr, false);
      if (dump.is_discarded()) {  // NaN and Infinity are no JSON to this parser
        continue;
      }
      visit_leaves(dump.value("data", json::object()), [&](const json& leaf) {
        const fs::path file = entry.path().parent_path() / "dump_tensor_data" / leaf["data_name"].get<std::string>();
        SCOPED_TRACE(file);
        if (!fs::exists(file) || faulty_files().contains(fs::relative(file, golden).string())) {
          return;
        }
        Tensor tensor = read_tensor(file);
        EXPECT_EQ(tensor.shape(), leaf["shape"].get<std::vector<std::uint64_t>>());
        const std::string dtype = leaf["dtype"].get<std::string>();
        if (file.extension() == ".pt") {
          EXPECT_EQ(dtype_from_name(dtype), tensor.dtype());
        }
        ++shapes;
        const auto range = range_of(tensor);
        if (range && dtype_from_name(dtype) == tensor.dtype() && leaf["Max"].is_number() && leaf["Min"].is_number()) {
          EXPECT_EQ(range->first, leaf["Min"].get<double>());
          EXPECT_EQ(range->second, leaf["Max"].get<double>());
          ++ranges;
        }
      });
    }
  }
  EXPECT_GT(shapes, 500U);
  EXPECT_GT(ranges, 300U);
}

}  // namespace
}  // namespace msvis::test
