// Small wrappers around the C API of HDF5: handles that close themselves, errors as msvis::Error, the lock that the library needs.
//
// HDF5 as it is packaged is not thread-safe: whoever calls it holds hdf5::lock(), also while a Handle dies. Files are opened serially and
// without file locks (they hang or fail on several parallel file systems).
#pragma once

#include <hdf5.h>

#include <filesystem>
#include <mutex>
#include <string_view>
#include <utility>

namespace msvis::hdf5 {

/// The lock of the whole process around the library. Not recursive. The first call prepares the library: it prints nothing by itself.
[[nodiscard]] std::unique_lock<std::mutex> lock();

/// Throws Error (io) naming `file`: what was being done ("creating the dataset x") and the reason that the library gives.
[[noreturn]] void fail(std::string_view doing, const std::filesystem::path& file);

/// What a call of the library returned, if that is no error; else fail().
template <typename Result>
Result check(Result result, std::string_view doing, const std::filesystem::path& file) {
  if (result < 0) {
    fail(doing, file);
  }
  return result;
}

/// An identifier of the library with the function that closes it. Movable; empty by default.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  /// Takes over `id`; throws as check() does if it is no identifier.
  Handle(hid_t id, Close closer, std::string_view doing, const std::filesystem::path& file)
      : id_(check(id, doing, file)), closer_(closer) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), closer_(other.closer_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(closer_, other.closer_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) {
      closer_(id_);
    }
  }

  [[nodiscard]] hid_t id() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  /// Closes now, so that an error is seen (a file: the last of its data is written).
  void close(std::string_view doing, const std::filesystem::path& file) {
    check(closer_(std::exchange(id_, H5I_INVALID_HID)), doing, file);
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close closer_ = nullptr;
};

/// Creates a file, or empties it, under the serial driver. `user_block`: bytes before the HDF5 content (0, or a power of two from 512 on).
Handle create_file(const std::filesystem::path& file, hsize_t user_block = 0);
/// Opens a file for reading, without locking it.
Handle open_file(const std::filesystem::path& file);

}  // namespace msvis::hdf5
