// A whole tiny dump against a good one: the input is the three files one after the other, separated by lines of `----`.
#include <cstdint>
#include <cstdlib>

#include "fuzz_dump_files.h"
#include "run/run_item.h"

namespace {

constexpr std::string_view separator = "\n----\n";

std::string_view cut(std::string_view& rest) {
  const std::size_t end = rest.find(separator);
  const std::string_view piece = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + separator.size());
  return piece;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const msvis::FuzzDirectory target("target");
  static const msvis::FuzzDirectory golden("golden");
  static const bool prepared = [] {
    golden.write(
        "construct.json",
        R"({"Module.a.A.forward.0": null, "Torch.f.0.forward": "Module.a.A.forward.0", "Distributed.all_reduce.0.forward": null})");
    golden.write("dump.json",
                 R"({"task": "statistics", "framework": "pytorch", "data": {"Torch.f.0.forward": {"input_args": [{"type": "torch.Tensor",
        "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0, "requires_grad": false}], "output": [{"type": "int", "value": 3}]}}})");
    return true;
  }();
  (void)prepared;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"construct.json", "dump.json", "stack.json"}) {
    target.write(name, cut(rest));
  }
  msvis::RunContext context;
  context.link_ranks = true;
  context.mapping.emplace();
  context.options.overflow_check = true;
  for (const bool comparing : {false, true}) {
    for (const msvis::Compat compat : {msvis::Compat::standard, msvis::Compat::reference}) {
      context.options.golden = comparing ? "golden" : "";
      context.options.compat = compat;
      context.options.fuzzy_match = size % 3 == 1;
      context.options.layer_mapping = size % 3 == 2;
      context.options.links = size % 2 == 0 ? msvis::LinkMode::standard : msvis::LinkMode::extended;
      msvis::WorkItem item;
      item.target = target.path();
      item.golden = golden.path();
      const msvis::ItemResult result =
          msvis::run_item(item, context, [](msvis::RowBatch&& batch) { (void)msvis::unpack_row_batch(msvis::pack(batch)); });
      if (result.record.status != "done" && result.record.error.find(".json") == std::string::npos) {
        std::abort();  // an error must name its file
      }
      (void)msvis::merge_batch_links(msvis::pair_records(result.links));
    }
  }
  return 0;
}
