#include "mpi/transport.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

#include "base/bytes.h"
#include "mpi/mpi_transport.h"

namespace msvis {
namespace {

class SoloTransport final : public Transport {
 public:
  [[nodiscard]] int process() const override { return 0; }
  [[nodiscard]] int processes() const override { return 1; }
  [[nodiscard]] int node_of(int /*process*/) const override { return 0; }
  void send(int /*to*/, std::string bytes, std::string_view /*hint*/) override { inbox_.push_back({0, std::move(bytes)}); }
  std::optional<Message> poll(std::string_view /*hint*/) override {
    if (inbox_.empty()) {
      return std::nullopt;
    }
    Message message = std::move(inbox_.front());
    inbox_.pop_front();
    return message;
  }
  [[nodiscard]] bool busy() const override { return !inbox_.empty(); }
  void finish_sends(std::string_view /*hint*/) override {}
  void broadcast(std::string& /*bytes*/, std::string_view /*hint*/) override { check_idle(); }
  std::int64_t maximum(std::int64_t value, std::string_view /*hint*/) override {
    check_idle();
    return value;
  }
  std::vector<std::uint64_t> sum(std::vector<std::uint64_t> values, std::string_view /*hint*/) override {
    check_idle();
    return values;
  }
  std::vector<std::string> gather_all(std::string_view bytes, std::string_view /*hint*/) override {
    check_idle();
    return {std::string(bytes)};
  }
  std::vector<std::string> all_to_all(std::vector<std::string> outgoing, std::size_t /*round_bytes*/, std::string_view /*hint*/) override {
    check_idle();
    return outgoing;
  }

 private:
  void abort_all(int /*exit_code*/) override {}

  std::deque<Message> inbox_;
};

}  // namespace

std::unique_ptr<Transport> make_solo_transport() {
  return std::make_unique<SoloTransport>();
}

bool started_by_launcher() {
  static constexpr std::array variables = {
      "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",   "PMI_RANK",    "PMI_SIZE",    "PMI_ID",        "MPI_LOCALNRANKS", "PMI_FD",
      "MV2_COMM_WORLD_SIZE",  "MPIRUN_RANK", "ALPS_APP_PE", "PALS_RANKID", "FLUX_TASK_RANK"};
  for (const char* variable : variables) {
    if (std::getenv(variable) != nullptr) {
      return true;
    }
  }
  return false;
}

std::unique_ptr<Transport> make_transport(int& argc, char**& argv) {
  return started_by_launcher() ? make_mpi_transport(argc, argv) : make_solo_transport();
}

void agree(Transport& transport, const std::optional<Fault>& fault, std::string_view hint) {
  // The lowest process with a fault has the largest value.
  const std::int64_t own = fault ? transport.processes() - transport.process() : 0;
  const std::int64_t worst = transport.maximum(own, hint);
  if (worst == 0) {
    return;
  }
  // Only faulty runs come here, so a gather of short texts is cheap enough.
  std::string text;
  if (fault && own == worst) {
    ByteWriter out;
    out.put(fault->category);
    out.put(fault->text);
    text = out.take();
  }
  const auto all = transport.gather_all(text, hint);
  const auto& told = all[static_cast<std::size_t>(transport.processes() - worst)];
  ByteReader in(told);
  const auto category = in.get<ErrorCategory>();
  throw AgreedError(category, in.get_string());
}

std::optional<Fault> capture_fault(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const AgreedError&) {
    throw;
  } catch (const Error& error) {
    return Fault{error.category(), error.what()};
  } catch (const std::exception& error) {
    return Fault{ErrorCategory::internal, error.what()};
  }
}

void Backoff::sleep() {
  std::this_thread::sleep_for(next());
}

void require_one_copy(const Transport& transport) {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  const char* process = std::getenv("SLURM_PROCID");
  if (started_by_launcher() || transport.processes() > 1 || tasks == nullptr || process == nullptr || std::strcmp(tasks, "1") == 0) {
    return;
  }
  throw Error(ErrorCategory::usage, std::string("srun started ") + tasks +
                                        " processes that do not know of each other; add --mpi=pmix (srun --mpi=list shows what there is)");
}

}  // namespace msvis
