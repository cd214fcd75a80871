// Speed of the kernels as a fraction of plain reading, measured in the same run.
//
// Each line: a pair of types on one instruction set, with one thread or one per core, on arrays that fit into the second-level cache or
// only into memory. `GB/s` counts the bytes of both inputs; `of_read` is that divided by the speed of a loop that only reads as many bytes,
// in as large arrays, with as many threads.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "msvis/metrics.h"

namespace {

using msvis::DType;
using msvis::InstructionSet;
using msvis::MetricOptions;
using msvis::TensorSpan;

constexpr std::size_t cached_bytes = std::size_t{512} << 10U;  // of one side, per thread
constexpr std::size_t memory_bytes = std::size_t{64} << 20U;   // of one side, all threads together

struct Free {
  void operator()(void* memory) const { std::free(memory); }  // NOLINT(cppcoreguidelines-no-malloc)
};

class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : memory_(std::aligned_alloc(std::size_t{1} << 21U, bytes)), bytes_(bytes) {
    ::madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // so that the reading, not the translation of addresses, is measured
    std::memset(memory_.get(), 0, bytes);
  }
  [[nodiscard]] unsigned char* data() const { return static_cast<unsigned char*>(memory_.get()); }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  std::unique_ptr<void, Free> memory_;
  std::size_t bytes_;
};

Buffer& target_buffer() {
  static Buffer buffer(2 * memory_bytes);
  return buffer;
}
Buffer& golden_buffer() {
  static Buffer buffer(2 * memory_bytes);
  return buffer;
}

template <typename Float>
Float narrow(float value) {
  if constexpr (sizeof(Float) == 2) {
    return static_cast<Float>(std::bit_cast<std::uint32_t>(value) >> 16U);
  } else {
    return static_cast<Float>(value);
  }
}

/// Values like those of a real pair of tensors: golden ones normal, target ones a little off. A pattern of 2^16 numbers, repeated.
template <typename Number>
void fill(unsigned char* data, std::size_t bytes, bool target, bool identical, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Number> pattern(65536);
  for (Number& number : pattern) {
    const float golden = normal(random);
    const float deviation = normal(random) * 1e-3F;
    number = narrow<Number>(target && !identical ? golden * (1 + deviation) : golden);
  }
  const std::size_t pattern_bytes = pattern.size() * sizeof(Number);
  for (std::size_t at = 0; at < bytes; at += pattern_bytes) {
    std::memcpy(data + at, pattern.data(), std::min(pattern_bytes, bytes - at));
  }
}

void fill(unsigned char* data, std::size_t bytes, DType dtype, bool target, bool identical) {
  switch (dtype) {
    case DType::float64:
      return fill<double>(data, bytes, target, identical, 1);
    case DType::float32:
      return fill<float>(data, bytes, target, identical, 1);
    default:  // as bfloat16; read as float16 these are good numbers too
      return fill<std::uint16_t>(data, bytes, target, identical, 1);
  }
}

/// Reads every byte and does next to nothing with it.
[[gnu::target_clones("default", "avx2", "avx512f")]] std::uint64_t read_all(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[32] = {};
  for (std::size_t at = 0; at + 32 <= count; at += 32) {
    for (std::size_t k = 0; k < 32; ++k) {
      sums[k] ^= words[at + k];
    }
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) {
    sum ^= part;
  }
  return sum;
}

/// Seconds of the best of many calls of work(thread) on all threads at the same time.
double best_seconds(unsigned threads, std::size_t repetitions, const std::function<void(unsigned)>& work) {
  std::atomic<unsigned> ready{0};
  std::vector<std::atomic<unsigned>> done(repetitions);
  double fastest = 1e9;
  const auto run = [&](unsigned thread) {
    for (std::size_t k = 0; k < repetitions; ++k) {
      ++ready;
      while (ready.load() < threads * (k + 1)) {  // all start together
      }
      const auto begin = std::chrono::steady_clock::now();
      work(thread);
      ++done[k];
      if (thread == 0) {
        while (done[k].load() < threads) {
        }
        fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      }
    }
  };
  std::vector<std::thread> others;
  for (unsigned thread = 1; thread < threads; ++thread) {
    others.emplace_back(run, thread);
  }
  run(0);
  for (std::thread& other : others) {
    other.join();
  }
  return fastest;
}

struct Case {
  DType target;
  DType golden;
  InstructionSet set;
  unsigned threads;
  bool in_memory;
  bool identical;
};

std::size_t repetitions_for(bool in_memory) {
  return in_memory ? 60 : 500;
}

void run_case(benchmark::State& state, const Case& shape) {
  const std::size_t target_size = msvis::dtype_size(shape.target);
  const std::size_t golden_size = msvis::dtype_size(shape.golden);
  const std::size_t wide = std::max(target_size, golden_size);
  const std::size_t share =
      (shape.in_memory ? memory_bytes / shape.threads : cached_bytes) / wide / msvis::metric_block_elements * msvis::metric_block_elements;
  fill(target_buffer().data(), share * shape.threads * target_size, shape.target, true, shape.identical);
  fill(golden_buffer().data(), share * shape.threads * golden_size, shape.golden, false, shape.identical);
  MetricOptions options;
  options.instruction_set = shape.set;
  const auto compare = [&](unsigned thread) {
    const TensorSpan target{target_buffer().data() + thread * share * target_size, shape.target, share};
    const TensorSpan golden{golden_buffer().data() + thread * share * golden_size, shape.golden, share};
    benchmark::DoNotOptimize(msvis::accumulate_metrics(target, golden, options));
  };
  const auto read = [&](unsigned thread) {
    const std::size_t target_words = share * target_size / 8;
    const std::size_t golden_words = share * golden_size / 8;
    benchmark::DoNotOptimize(
        read_all(reinterpret_cast<const std::uint64_t*>(target_buffer().data()) + thread * target_words, target_words) ^
        read_all(reinterpret_cast<const std::uint64_t*>(golden_buffer().data()) + thread * golden_words, golden_words));
  };
  double compared = 1e9;
  double plain = 1e9;
  for (auto unused : state) {
    static_cast<void>(unused);
    plain = std::min(plain, best_seconds(shape.threads, repetitions_for(shape.in_memory), read));
    compared = std::min(compared, best_seconds(shape.threads, repetitions_for(shape.in_memory), compare));
    state.SetIterationTime(compared);
  }
  const auto elements = static_cast<double>(share * shape.threads);
  const double bytes = elements * static_cast<double>(target_size + golden_size);
  state.counters["GB/s"] = bytes / compared * 1e-9;
  state.counters["read_GB/s"] = bytes / plain * 1e-9;
  state.counters["of_read"] = plain / compared;
  state.counters["ns/element"] = compared / elements * 1e9 * shape.threads;
}

void add_cases() {
  struct Types {
    DType target;
    DType golden;
    bool identical;
  };
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<unsigned> thread_counts = {1};
  if (cores > 1) {
    thread_counts.push_back(cores);
  }
  for (const Types& types :
       {Types{DType::float32, DType::float32, false}, Types{DType::float32, DType::float32, true},
        Types{DType::bfloat16, DType::bfloat16, false}, Types{DType::bfloat16, DType::bfloat16, true},
        Types{DType::float16, DType::float16, false}, Types{DType::float64, DType::float64, false},
        Types{DType::bfloat16, DType::float32, false}, Types{DType::float32, DType::float64, false}, Types{DType::int8, DType::int8, false},
        Types{DType::int64, DType::int64, false}, Types{DType::float8_e4m3fn, DType::float8_e4m3fn, false}}) {
    for (const InstructionSet set : msvis::available_instruction_sets()) {
      for (const bool in_memory : {false, true}) {
        for (const unsigned threads : thread_counts) {
          const Case shape{types.target, types.golden, set, threads, in_memory, types.identical};
          const std::string name = std::string(msvis::dtype_name(types.target)) + "/" + std::string(msvis::dtype_name(types.golden)) +
                                   (types.identical ? "/identical/" : "/") + std::string(msvis::instruction_set_name(set)) +
                                   (in_memory ? "/memory/" : "/cache/") + std::to_string(threads);
          benchmark::RegisterBenchmark(name.c_str(), [shape](benchmark::State& state) { run_case(state, shape); })
              ->UseManualTime()
              ->Iterations(1)
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  add_cases();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
