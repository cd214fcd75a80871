#include "mpi/signals.h"

#include <atomic>
#include <csignal>

namespace msvis {
namespace {

std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

extern "C" void note_signal(int signal_number) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal_number);
}

}  // namespace

void note_signals() {
  struct sigaction note {};
  note.sa_handler = note_signal;
  note.sa_flags = SA_RESTART;
  sigemptyset(&note.sa_mask);
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    struct sigaction before {};
    sigaction(signal_number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) {  // nohup, jobs in the background
      sigaction(signal_number, &note, nullptr);
    }
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigemptyset(&ignore.sa_mask);
  for (const int signal_number : {SIGPIPE, SIGXFSZ}) {
    sigaction(signal_number, &ignore, nullptr);
  }
}

int noted_signal() {
  return first_signal.load();
}

void forget_noted_signal() {
  first_signal = 0;
}

int exit_code_of_signal(int signal_number) {
  return signal_number == SIGINT ? 130 : 1;
}

}  // namespace msvis
