// Signals that end a run in an orderly way.
#pragma once

namespace msvis {

/// SIGINT, SIGTERM, SIGHUP and SIGUSR1 are only noted from now on; SIGPIPE and SIGXFSZ are ignored, so that a write fails with an error
/// instead.
void note_signals();

/// The signal that was noted first, or 0.
int noted_signal();

/// Forgets it, so that a second signal can be told from it.
void forget_noted_signal();

/// Exit code of a run that a signal ended and that can't be continued: 130 from the keyboard, else 1.
int exit_code_of_signal(int signal_number);

}  // namespace msvis
