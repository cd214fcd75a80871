// Reading tensor files, as ratios to the least that any reader must do.
//
//   tensor_bench [DIRECTORY [FILES [LARGE_MIB]]]      (default: the temporary directory, 100000, 256)
//
// Small files: files per second of read_tensor over those of a bare loop of open, read, close on the same files (goal: 0.5), for one thread
// and for one per core (seconds are those of the processor, summed over threads). Large file: bytes per second of read_tensor and of
// walking in blocks, each with a sum over all elements, over read() into a reused buffer and over mmap, with the same sum.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "msvis/tensor.h"
#include "support/tensor_files.h"

namespace {

namespace fs = std::filesystem;
using msvis::BufferPool;
using msvis::read_tensor;
using msvis::Tensor;
using msvis::TensorFile;

/// Seconds of processor time of this process: on a machine that does other work as well, a better measure than the clock on the wall.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_of(const std::function<void()>& work) {
  const double begin = processor_seconds();
  work();
  return processor_seconds() - begin;
}

/// The best of several runs: the others were disturbed.
double best_of(int runs, const std::function<void()>& work) {
  double best = seconds_of(work);
  for (int run = 1; run < runs; ++run) {
    best = std::min(best, seconds_of(work));
  }
  return best;
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  if (!out.flush()) {
    throw std::runtime_error("can't write " + path.string());
  }
}

/// A tensor file of about `bytes` bytes with one byte pattern.
std::string tensor_file(bool pt, std::size_t bytes) {
  const std::size_t elements = bytes / sizeof(float);
  std::string data(elements * sizeof(float), '\x3f');
  if (!pt) {
    return msvis::test::npy("<f4", {static_cast<std::int64_t>(elements)}, false, data);
  }
  msvis::test::TorchSpec spec;
  spec.size = {static_cast<std::int64_t>(elements)};
  spec.stride = {1};
  spec.storage = std::move(data);
  return msvis::test::torch_zip(spec);
}

void bare_read(const fs::path& path, std::vector<char>& buffer) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || ::read(descriptor, buffer.data(), buffer.size()) <= 0) {
    throw std::runtime_error("can't read " + path.string());
  }
  ::close(descriptor);
}

void in_threads(std::size_t threads, const std::vector<fs::path>& files, const std::function<void(const fs::path&)>& work) {
  std::vector<std::thread> workers;
  for (std::size_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      for (std::size_t k = t; k < files.size(); k += threads) {
        work(files[k]);
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
}

void bench_small(const fs::path& directory, std::size_t count, bool pt) {
  constexpr std::size_t file_bytes = 4096;
  constexpr std::size_t container_bytes = 1100;  // what a .pt has besides its payload
  const std::string content = tensor_file(pt, pt ? file_bytes - container_bytes : file_bytes - 128);
  std::vector<fs::path> files;
  for (std::size_t k = 0; k < count; ++k) {
    const fs::path folder = directory / std::to_string(k / 1000);
    fs::create_directory(folder);
    files.push_back(folder / ("Module.layers.0.mlp.Linear.forward." + std::to_string(k) + (pt ? ".output.0.pt" : ".output.0.npy")));
    write(files.back(), content);
  }
  for (const std::size_t threads : {std::size_t{1}, std::size_t{std::max(1U, std::thread::hardware_concurrency())}}) {
    const double bare = best_of(3, [&] {
      in_threads(threads, files, [](const fs::path& file) {
        thread_local std::vector<char> buffer(16384);
        bare_read(file, buffer);
      });
    });
    const double ours = best_of(3, [&] { in_threads(threads, files, [](const fs::path& file) { (void)read_tensor(file).contiguous(); }); });
    const auto number = static_cast<double>(count);
    std::printf("%-4s %zu files of %zu bytes, %zu thread(s): bare %.0f files/s, read_tensor %.0f files/s, ratio %.2f\n",
                pt ? ".pt" : ".npy", count, content.size(), threads, number / bare, number / ours, bare / ours);
  }
  for (const fs::path& file : files) {
    fs::remove(file);
  }
}

/// Something that touches every byte, at the speed of memory.
std::uint64_t sum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    sum += word;
  }
  return sum;
}

std::uint64_t checksum = 0;

void bench_large(const fs::path& directory, std::size_t mebibytes, bool pt) {
  const std::size_t bytes = mebibytes << 20;
  const fs::path path = directory / (pt ? "large.pt" : "large.npy");
  write(path, tensor_file(pt, bytes));
  const auto rate = [&](double seconds) { return static_cast<double>(bytes) / seconds / 1e9; };
  constexpr int runs = 5;

  msvis::PooledBuffer reused = BufferPool::shared().acquire(fs::file_size(path));
  const double plain = best_of(runs, [&] {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::size_t done = 0;
    while (done < reused.size()) {
      const ssize_t got = ::pread(descriptor, reused.data() + done, reused.size() - done, static_cast<off_t>(done));
      if (got <= 0) {
        throw std::runtime_error("can't read " + path.string());
      }
      done += static_cast<std::size_t>(got);
    }
    ::close(descriptor);
    checksum += sum_of(reused.bytes());
  });
  reused = {};
  const double mapped = best_of(runs, [&] {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const std::size_t size = fs::file_size(path);
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
      throw std::runtime_error("can't map " + path.string());
    }
    checksum += sum_of({static_cast<const std::byte*>(memory), size});
    ::munmap(memory, size);
    ::close(descriptor);
  });
  const double fresh = best_of(runs, [&] {
    BufferPool pool(0);
    msvis::ReadHints hints;
    hints.pool = &pool;
    checksum += sum_of(read_tensor(path, hints).contiguous());
  });
  const double pooled = best_of(runs, [&] { checksum += sum_of(read_tensor(path).contiguous()); });
  std::printf(
      "%-4s of %zu MiB: read() %.2f GB/s, mmap %.2f GB/s (ratio %.2f), read_tensor with fresh memory %.2f GB/s (ratio %.2f), "
      "with the pool %.2f GB/s (ratio %.2f)",
      pt ? ".pt" : ".npy", mebibytes, rate(plain), rate(mapped), plain / mapped, rate(fresh), plain / fresh, rate(pooled), plain / pooled);
  for (const std::size_t block : {std::size_t{64} << 10, std::size_t{256} << 10, std::size_t{1} << 20, std::size_t{4} << 20}) {
    const double walked = best_of(runs, [&] {
      TensorFile file = TensorFile::open(path);
      const std::uint64_t elements = block / sizeof(float);
      for (std::uint64_t first = 0; first < file.element_count(); first += elements) {
        checksum += sum_of(file.read(first, std::min(elements, file.element_count() - first)));
      }
    });
    std::printf(", blocks of %zu KiB %.2f GB/s (ratio %.2f)", block >> 10, rate(walked), plain / walked);
  }
  std::printf("\n");
  fs::remove(path);
}

}  // namespace

int main(int argument_count, char** arguments) {
  try {
    std::string pattern = ((argument_count > 1 ? fs::path(arguments[1]) : fs::temp_directory_path()) / "tensor-bench-XXXXXX").string();
    const std::size_t files = argument_count > 2 ? std::stoul(arguments[2]) : 100'000;
    const std::size_t mebibytes = argument_count > 3 ? std::stoul(arguments[3]) : 256;
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("no directory can be made at " + pattern);
    }
    const fs::path directory = pattern;
    for (const bool pt : {true, false}) {
      bench_large(directory, mebibytes, pt);
      bench_small(directory, files, pt);
    }
    fs::remove_all(directory);
    std::printf("(sum of all bytes: %llu)\n", static_cast<unsigned long long>(checksum));
  } catch (const std::exception& error) {
    std::cerr << "tensor_bench: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
