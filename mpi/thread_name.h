// What `top -H` and debuggers call the threads of the program.
#pragma once

#include <pthread.h>

namespace msvis {

/// Names the calling thread; at most 15 characters.
inline void name_thread(const char* name) {
  static_cast<void>(pthread_setname_np(pthread_self(), name));
}

}  // namespace msvis
