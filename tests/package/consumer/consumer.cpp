// A program of another project: reads a dump, builds its graph, compares two tensors.
#include <cstdio>
#include <exception>
#include <utility>

#include "msvis/dump.h"
#include "msvis/graph.h"
#include "msvis/metrics.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: consumer DUMP\n", stderr);
    return 2;
  }
  try {
    const msvis::Graph graph = msvis::build_graph(msvis::Dump::read(argv[1]), msvis::Compat::standard);
    const float target[] = {1.0F, 2.0F, 3.5F};
    const float golden[] = {1.0F, 2.0F, 3.0F};
    const msvis::TensorMetrics metrics = msvis::compare_tensors({target, msvis::DType::float32, 3}, {golden, msvis::DType::float32, 3});
    std::printf("%zu nodes, largest error %g\n", graph.order.size(), metrics.max_abs_err.value);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 1;
  }
  return 0;
}
