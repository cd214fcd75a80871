// From the file dump.json to a Dump, beside the floors: reading the file alone, simdjson alone walking all values of the text.
// MSVIS_BENCH_MIB sets the size of the text (default 256 MiB).
#include <benchmark/benchmark.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "dump/python_text.h"
#include "msvis/dump.h"
#include "msvis/items.h"

namespace {

std::string number_text(std::uint64_t& state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  std::string text;
  msvis::append_float(text, static_cast<double>(static_cast<float>(static_cast<double>(state >> 11) * 0x1p-50 - 4.0)));
  return text;
}

std::string tensor_text(std::uint64_t& state, const std::string& indent) {
  const std::string inner = ",\n" + indent + " ";
  return "{\n" + indent + " \"type\": \"torch.Tensor\"" + inner + "\"dtype\": \"torch.bfloat16\"" + inner + "\"shape\": [\n" + indent +
         "  4096,\n" + indent + "  1,\n" + indent + "  8192\n" + indent + " ]" + inner + "\"Max\": " + number_text(state) + inner +
         "\"Min\": " + number_text(state) + inner + "\"Mean\": " + number_text(state) + inner + "\"Norm\": " + number_text(state) + inner +
         "\"requires_grad\": true\n" + indent + "}";
}

/// Text of a dump.json as the dumper writes it (indent 1), of about `bytes` bytes.
std::string dump_text(std::size_t bytes) {
  std::string text =
      "{\n \"task\": \"statistics\",\n \"level\": \"mix\",\n \"framework\": \"pytorch\",\n \"dump_data_dir\": null,\n \"data\": {";
  std::uint64_t state = 1;
  for (std::uint64_t call = 0; text.size() < bytes; ++call) {
    text += (call == 0 ? "\n" : ",\n") + ("  \"Functional.linear." + std::to_string(call)) + ".forward\": {\n   \"input_args\": [\n    " +
            tensor_text(state, "    ") + ",\n    " + tensor_text(state, "    ") +
            ",\n    {\n     \"type\": \"float\",\n     \"value\": " + number_text(state) +
            "\n    }\n   ],\n   \"input_kwargs\": {\n    \"bias\": " + tensor_text(state, "    ") + "\n   },\n   \"output\": [\n    " +
            tensor_text(state, "    ") + "\n   ]\n  }";
  }
  return text + "\n }\n}";
}

/// A dump directory in the temporary directory, removed at the end.
class BenchDump {
 public:
  BenchDump() {
    const char* size = std::getenv("MSVIS_BENCH_MIB");
    const std::size_t mebibytes = size != nullptr ? std::strtoull(size, nullptr, 10) : 256;
    directory_ = std::filesystem::temp_directory_path() / ("msvis-dump-bench-" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    text_ = dump_text(std::max<std::size_t>(mebibytes, 1) << 20);
    std::ofstream(directory_ / "dump.json") << text_;
    std::ofstream(directory_ / "stack.json") << "{}";
    std::ofstream(directory_ / "construct.json") << "{\"Functional.linear.0.forward\": null}";
  }
  ~BenchDump() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  BenchDump(const BenchDump&) = delete;
  BenchDump& operator=(const BenchDump&) = delete;
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  [[nodiscard]] const simdjson::padded_string& text() const { return text_; }

 private:
  std::filesystem::path directory_;
  simdjson::padded_string text_;
};

const BenchDump& bench_dump() {
  static const BenchDump dump;
  return dump;
}

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bench_dump().text().size()));
}

void read_file_alone(benchmark::State& state) {
  const std::filesystem::path file = bench_dump().directory() / "dump.json";
  for (auto _ : state) {
    auto text = simdjson::padded_string::load(file.string());
    benchmark::DoNotOptimize(text);
  }
  count_bytes(state);
}
BENCHMARK(read_file_alone)->Unit(benchmark::kMillisecond);

std::size_t walk(simdjson::ondemand::value value) {
  std::size_t count = 1;
  switch (value.type()) {
    case simdjson::ondemand::json_type::object:
      for (auto field : value.get_object()) {
        count += field.unescaped_key().value().size() + walk(field.value());
      }
      break;
    case simdjson::ondemand::json_type::array:
      for (auto element : value.get_array()) {
        count += walk(element.value());
      }
      break;
    default:
      count += value.raw_json_token().size();
  }
  return count;
}

void simdjson_walk(benchmark::State& state) {
  simdjson::ondemand::parser parser;
  for (auto _ : state) {
    auto document = parser.iterate(bench_dump().text());
    std::size_t count = 0;
    for (auto field : document.get_object()) {
      count += walk(field.value());
    }
    benchmark::DoNotOptimize(count);
  }
  count_bytes(state);
}
BENCHMARK(simdjson_walk)->Unit(benchmark::kMillisecond);

void simdjson_dom(benchmark::State& state) {
  simdjson::dom::parser parser;
  for (auto _ : state) {
    benchmark::DoNotOptimize(parser.parse(bench_dump().text()).error());
  }
  count_bytes(state);
}
BENCHMARK(simdjson_dom)->Unit(benchmark::kMillisecond);

void parse_text(benchmark::State& state) {
  (void)msvis::JsonDocument::parse(bench_dump().text());  // its memory is reused: a first touch would be measured else
  for (auto _ : state) {
    const auto document = msvis::JsonDocument::parse(bench_dump().text());
    benchmark::DoNotOptimize(document.root().size());
  }
  count_bytes(state);
}
BENCHMARK(parse_text)->Unit(benchmark::kMillisecond);

void read_dump(benchmark::State& state) {
  for (auto _ : state) {
    const msvis::Dump dump = msvis::Dump::read(bench_dump().directory());
    benchmark::DoNotOptimize(dump.data.size());
  }
  count_bytes(state);
}
BENCHMARK(read_dump)->Unit(benchmark::kMillisecond);

void items_of_dump(benchmark::State& state) {
  const msvis::Dump dump = msvis::Dump::read(bench_dump().directory());
  for (auto _ : state) {
    msvis::JsonPool pool;
    msvis::ItemLists lists;
    std::size_t count = 0;
    for (const auto& [name, entry] : dump.data.members()) {
      msvis::build_items(name, entry, pool, lists);
      count += lists.inputs.size() + lists.outputs.size();
    }
    benchmark::DoNotOptimize(count);
  }
  count_bytes(state);
}
BENCHMARK(items_of_dump)->Unit(benchmark::kMillisecond);

}  // namespace
