#include "mpi/mpi_transport.h"

#include <mpi.h>

#include <algorithm>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>

namespace msvis {
namespace {

// A message longer than this travels in pieces, so that no count comes near 2^31. Pieces of one sender arrive in order.
constexpr std::size_t piece_bytes = std::size_t{256} << 20;
constexpr int tag_last_piece = 1;
constexpr int tag_more_follows = 2;
// Receives that may be under way at once; further messages wait at their senders.
constexpr std::size_t most_receives = 64;
constexpr std::chrono::microseconds longest_wait{5000};

void check(int code, std::string_view hint) {
  if (code == MPI_SUCCESS) {
    return;
  }
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<std::size_t>(std::max(length, 0)));
  throw Error(ErrorCategory::internal, "MPI failed while " + std::string(hint) + ": " + text);
}

// Settings that make many processes on few cores, and containers, behave. Whatever the user has set stays.
void set_gentle_defaults() {
  constexpr int keep = 0;
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", keep);
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", keep);
}

// The checker does not see that wait() and progress_sends() complete the requests.
// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker)
class MpiTransport final : public Transport {
 public:
  MpiTransport(int& argc, char**& argv)
      : environment_((set_gentle_defaults(), argc), argv, boost::mpi::threading::funneled),
        world_(MPI_COMM_WORLD, boost::mpi::comm_duplicate) {
    MPI_Comm_set_errhandler(comm(), MPI_ERRORS_RETURN);
    find_nodes();
  }

  [[nodiscard]] int process() const override { return world_.rank(); }
  [[nodiscard]] int processes() const override { return world_.size(); }
  [[nodiscard]] int node_of(int process) const override { return nodes_[static_cast<std::size_t>(process)]; }

  void send(int to, std::string bytes, std::string_view hint) override {
    if (to == process()) {
      inbox_.push_back({to, std::move(bytes)});
      return;
    }
    auto kept = std::make_shared<const std::string>(std::move(bytes));
    std::size_t sent = 0;
    do {
      const std::size_t size = std::min(piece_bytes, kept->size() - sent);
      const bool last = sent + size == kept->size();
      Sending piece{kept, MPI_REQUEST_NULL};
      check(MPI_Isend(kept->data() + sent, static_cast<int>(size), MPI_BYTE, to, last ? tag_last_piece : tag_more_follows, comm(),
                      &piece.request),
            hint);
      sends_.push_back(std::move(piece));
      sent += size;
    } while (sent < kept->size());
  }

  std::optional<Message> poll(std::string_view hint) override {
    progress_sends(hint);
    start_receives(hint);
    complete_receives(hint);
    if (inbox_.empty()) {
      return std::nullopt;
    }
    Message message = std::move(inbox_.front());
    inbox_.pop_front();
    return message;
  }

  [[nodiscard]] bool busy() const override { return !sends_.empty() || !receives_.empty() || !inbox_.empty(); }

  void finish_sends(std::string_view hint) override {
    Backoff backoff(std::chrono::microseconds(500));
    for (progress_sends(hint); !sends_.empty(); progress_sends(hint)) {
      check_idle();
      backoff.sleep();
    }
  }

  void broadcast(std::string& bytes, std::string_view hint) override {
    std::uint64_t size = bytes.size();
    broadcast_piece(&size, sizeof size, hint);
    bytes.resize(size);
    for (std::size_t done = 0; done < size; done += piece_bytes) {
      broadcast_piece(bytes.data() + done, std::min<std::size_t>(piece_bytes, size - done), hint);
    }
  }

  std::int64_t maximum(std::int64_t value, std::string_view hint) override {
    std::int64_t largest = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(&value, &largest, 1, MPI_INT64_T, MPI_MAX, comm(), &request), hint);
    wait(request, hint);
    return largest;
  }

  std::vector<std::uint64_t> sum(std::vector<std::uint64_t> values, std::string_view hint) override {
    std::vector<std::uint64_t> sums(values.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(values.data(), sums.data(), static_cast<int>(values.size()), MPI_UINT64_T, MPI_SUM, comm(), &request), hint);
    wait(request, hint);
    return sums;
  }

  std::vector<std::string> gather_all(std::string_view bytes, std::string_view hint) override {
    const auto count = static_cast<std::size_t>(processes());
    std::vector<int> sizes(count);
    if (bytes.size() > piece_bytes / count) {
      bytes = bytes.substr(0, piece_bytes / count);
    }
    const int size = static_cast<int>(bytes.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, comm(), &request), hint);
    wait(request, hint);
    std::vector<int> offsets(count);
    int total = 0;
    for (std::size_t p = 0; p < count; ++p) {
      offsets[p] = total;
      total += sizes[p];
    }
    std::string all(static_cast<std::size_t>(total), '\0');
    check(MPI_Iallgatherv(bytes.data(), size, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE, comm(), &request), hint);
    wait(request, hint);
    std::vector<std::string> texts;
    texts.reserve(count);
    for (std::size_t p = 0; p < count; ++p) {
      texts.push_back(all.substr(static_cast<std::size_t>(offsets[p]), static_cast<std::size_t>(sizes[p])));
    }
    return texts;
  }

  std::vector<std::string> all_to_all(std::vector<std::string> outgoing, std::size_t round_bytes, std::string_view hint) override {
    const auto count = static_cast<std::size_t>(processes());
    outgoing.resize(count);
    // The same share for every pair bounds what a process sends and what it receives.
    const std::size_t share = std::max<std::size_t>(1, std::min(round_bytes, piece_bytes) / count);
    std::size_t longest = 0;
    for (const auto& bytes : outgoing) {
      longest = std::max(longest, bytes.size());
    }
    const auto rounds = static_cast<std::size_t>(maximum(static_cast<std::int64_t>((longest + share - 1) / share), hint));

    std::vector<std::string> incoming(count);
    std::vector<int> send_sizes(count);
    std::vector<int> send_offsets(count);
    std::vector<int> receive_sizes(count);
    std::vector<int> receive_offsets(count);
    std::string send_buffer;
    std::string receive_buffer;
    for (std::size_t round = 0; round < rounds; ++round) {
      send_buffer.clear();
      for (std::size_t p = 0; p < count; ++p) {
        const std::size_t begin = std::min(outgoing[p].size(), round * share);
        const std::size_t size = std::min(outgoing[p].size() - begin, share);
        send_offsets[p] = static_cast<int>(send_buffer.size());
        send_sizes[p] = static_cast<int>(size);
        send_buffer.append(outgoing[p], begin, size);
        if (begin + size == outgoing[p].size()) {
          std::string().swap(outgoing[p]);
        }
      }
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Ialltoall(send_sizes.data(), 1, MPI_INT, receive_sizes.data(), 1, MPI_INT, comm(), &request), hint);
      wait(request, hint);
      int total = 0;
      for (std::size_t p = 0; p < count; ++p) {
        receive_offsets[p] = total;
        total += receive_sizes[p];
      }
      receive_buffer.resize(static_cast<std::size_t>(total));
      check(MPI_Ialltoallv(send_buffer.data(), send_sizes.data(), send_offsets.data(), MPI_BYTE, receive_buffer.data(),
                           receive_sizes.data(), receive_offsets.data(), MPI_BYTE, comm(), &request),
            hint);
      wait(request, hint);
      for (std::size_t p = 0; p < count; ++p) {
        incoming[p].append(receive_buffer, static_cast<std::size_t>(receive_offsets[p]), static_cast<std::size_t>(receive_sizes[p]));
      }
    }
    return incoming;
  }

 private:
  void abort_all(int exit_code) override { MPI_Abort(comm(), exit_code); }

  struct Sending {
    std::shared_ptr<const std::string> bytes;
    MPI_Request request;
  };
  struct Receiving {
    int from = 0;
    bool last = true;
    std::string bytes;
    MPI_Request request = MPI_REQUEST_NULL;
    bool complete = false;
  };

  [[nodiscard]] MPI_Comm comm() const { return world_; }

  // Tests a request until it is complete, sleeping in between.
  void wait(MPI_Request& request, std::string_view hint) {
    Backoff backoff(longest_wait);
    int complete = 0;
    for (;;) {
      check(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), hint);
      if (complete != 0) {
        return;
      }
      check_idle();
      backoff.sleep();
    }
  }

  void broadcast_piece(void* bytes, std::size_t size, std::string_view hint) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(bytes, static_cast<int>(size), MPI_BYTE, 0, comm(), &request), hint);
    wait(request, hint);
  }

  void progress_sends(std::string_view hint) {
    for (auto piece = sends_.begin(); piece != sends_.end();) {
      int complete = 0;
      check(MPI_Test(&piece->request, &complete, MPI_STATUS_IGNORE), hint);
      piece = complete != 0 ? sends_.erase(piece) : std::next(piece);
    }
  }

  void start_receives(std::string_view hint) {
    while (receives_.size() < most_receives) {
      int found = 0;
      MPI_Message handle = MPI_MESSAGE_NULL;
      MPI_Status status;
      check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm(), &found, &handle, &status), hint);
      if (found == 0) {
        return;
      }
      int size = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &size), hint);
      auto& piece = receives_.emplace_back();
      piece.from = status.MPI_SOURCE;
      piece.last = status.MPI_TAG == tag_last_piece;
      piece.bytes.resize(static_cast<std::size_t>(size));
      check(MPI_Imrecv(piece.bytes.data(), size, MPI_BYTE, &handle, &piece.request), hint);
    }
  }

  // A later message of a sender must not pass an earlier one whose receive is still under way.
  void complete_receives(std::string_view hint) {
    std::vector<bool> waiting(static_cast<std::size_t>(processes()), false);
    for (auto piece = receives_.begin(); piece != receives_.end();) {
      const auto from = static_cast<std::size_t>(piece->from);
      if (!piece->complete) {
        int complete = 0;
        check(MPI_Test(&piece->request, &complete, MPI_STATUS_IGNORE), hint);
        piece->complete = complete != 0;
      }
      if (!piece->complete || waiting[from]) {
        waiting[from] = true;
        ++piece;
        continue;
      }
      auto begun = begun_.find(piece->from);
      if (begun != begun_.end()) {
        begun->second += piece->bytes;
      } else {
        begun = begun_.emplace(piece->from, std::move(piece->bytes)).first;
      }
      if (piece->last) {
        inbox_.push_back({piece->from, std::move(begun->second)});
        begun_.erase(begun);
      }
      piece = receives_.erase(piece);
    }
  }

  void find_nodes() {
    MPI_Comm node = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm(), MPI_COMM_TYPE_SHARED, process(), MPI_INFO_NULL, &node), "finding the processes of a node");
    int leader = process();
    check(MPI_Bcast(&leader, 1, MPI_INT, 0, node), "finding the processes of a node");
    MPI_Comm_free(&node);
    std::vector<int> leaders(static_cast<std::size_t>(processes()));
    check(MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, comm()), "finding the processes of a node");
    std::map<int, int> numbers;
    for (const int node_leader : leaders) {
      nodes_.push_back(numbers.emplace(node_leader, static_cast<int>(numbers.size())).first->second);
    }
  }

  boost::mpi::environment environment_;
  boost::mpi::communicator world_;
  std::vector<int> nodes_;
  std::deque<Message> inbox_;
  std::list<Sending> sends_;
  std::list<Receiving> receives_;
  std::map<int, std::string> begun_;  // messages of which pieces have arrived, by sender
};
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(int& argc, char**& argv) {
  return std::make_unique<MpiTransport>(argc, argv);
}

}  // namespace msvis
