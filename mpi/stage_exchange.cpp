#include "mpi/stage_exchange.h"

#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "mpi/run_plan.h"

namespace msvis {
namespace {

// From and to one process at once.
constexpr std::size_t round_bytes = std::size_t{16} << 20U;

// Shared with the workers, one of which may be left behind.
struct Folding {
  std::vector<StageToFold> tasks;
  std::shared_ptr<const RunContext> context;
  std::mutex mutex;
  std::map<std::size_t, std::string> stages;  // by task

  void fold(std::size_t number) {
    const StageToFold& task = tasks.at(number);
    try {
      std::string stage = run_stage(task.item, task.stage, *context);
      const std::lock_guard lock(mutex);
      stages[number] = std::move(stage);
    } catch (const Error&) {
      return;
    } catch (const std::bad_alloc&) {
      return;
    }
  }
};

void put_task(ByteWriter& out, const StageToFold& task) {
  out.put(pack(task.item));
  out.put(task.stage.replica);
  out.put(task.stage.stage);
  out.put_all(task.owners);
}

StageToFold get_task(ByteReader& in) {
  StageToFold task;
  task.item = unpack_work_item(in.get_view());
  task.stage.replica = in.get<std::uint32_t>();
  task.stage.stage = in.get<std::int64_t>();
  task.owners = in.get_all([](ByteReader& reader) { return reader.get<int>(); });
  return task;
}

}  // namespace

std::shared_ptr<StageStore> exchange_stages(Transport& transport, std::vector<StageToFold> stages,
                                            std::shared_ptr<const RunContext> context, unsigned threads, ScheduleHooks hooks,
                                            const ScheduleLimits& limits) {
  ByteWriter out;
  out.put_all(stages, put_task);
  std::string bytes = out.take();
  transport.broadcast(bytes, "telling which stages there are");
  const auto folding = std::make_shared<Folding>();
  folding->tasks = ByteReader(bytes).get_all(get_task);
  folding->context = std::move(context);
  if (folding->tasks.empty()) {
    return nullptr;
  }
  std::vector<ScheduledItem> scheduled;
  for (std::size_t task = 0; transport.process() == 0 && task < folding->tasks.size(); ++task) {
    ByteWriter number;
    number.put(static_cast<std::uint64_t>(task));
    const std::uint64_t held = folding->tasks[task].item.held_json_bytes();
    scheduled.push_back({number.take(), held, memory_for(held), -1});
  }
  hooks.run = [folding](std::size_t, std::string_view number, const BatchSink&) {
    folding->fold(static_cast<std::size_t>(ByteReader(number).get<std::uint64_t>()));
    return std::string();
  };
  hooks.store = [](std::size_t, std::string_view) {};
  run_schedule(transport, std::move(scheduled), threads, hooks, limits);

  std::vector<std::string> outgoing(static_cast<std::size_t>(transport.processes()));
  for (auto& [task, stage] : folding->stages) {
    ByteWriter message;
    message.put(static_cast<std::uint64_t>(task));
    message.put(stage);
    stage = std::string();
    for (const int owner : folding->tasks.at(task).owners) {
      outgoing.at(static_cast<std::size_t>(owner)) += message.bytes();
    }
  }
  const auto incoming = transport.all_to_all(std::move(outgoing), round_bytes, "sending stages to the processes that join them");
  auto store = std::make_shared<StageStore>();
  for (const std::string& from : incoming) {
    for (ByteReader in(from); !in.at_end();) {
      const StageToFold& task = folding->tasks.at(static_cast<std::size_t>(in.get<std::uint64_t>()));
      store->add(task.item, task.stage, in.get_string());
    }
  }
  return store;
}

}  // namespace msvis
