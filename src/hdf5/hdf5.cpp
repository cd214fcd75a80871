#include "hdf5/hdf5.h"

#include <cstdlib>
#include <string>

#include "msvis/error.h"

namespace msvis::hdf5 {
namespace {

// HDF5 1.10.7 and later have H5Pset_file_locking; all from 1.10.0 on read this variable when a file is opened.
constexpr const char* locking_variable = "HDF5_USE_FILE_LOCKING";

Handle access_list(const std::filesystem::path& file) {
  Handle list(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "preparing access", file);
  check(H5Pset_fclose_degree(list.id(), H5F_CLOSE_STRONG), "preparing access", file);
#if H5_VERSION_GE(1, 10, 7)
  check(H5Pset_file_locking(list.id(), false, true), "preparing access", file);
#endif
  return list;
}

}  // namespace

std::unique_lock<std::mutex> lock() {
  static std::mutex mutex;
  std::unique_lock guard(mutex);
  static const bool prepared = [] {
    ::setenv(locking_variable, "FALSE", 1);
    return H5open() >= 0 && H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  }();
  static_cast<void>(prepared);
  return guard;
}

void fail(std::string_view doing, const std::filesystem::path& file) {
  std::string text;
  // The innermost entry of the stack says most: "unable to open file: errno = 2, ...".
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* entry, void* out) -> herr_t {
        if (depth == 0 && entry->desc != nullptr) {
          *static_cast<std::string*>(out) = entry->desc;
        }
        return 0;
      },
      &text);
  H5Eclear2(H5E_DEFAULT);
  throw Error(ErrorCategory::io, "HDF5 failed in " + std::string(doing) + (text.empty() ? std::string() : ": " + text), file);
}

Handle create_file(const std::filesystem::path& file, hsize_t user_block) {
  const Handle access = access_list(file);
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "preparing the file", file);
  if (user_block != 0) {
    check(H5Pset_userblock(creation.id(), user_block), "setting the user block", file);
  }
  return {H5Fcreate(file.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose, "creating the file", file};
}

Handle open_file(const std::filesystem::path& file) {
  const Handle access = access_list(file);
  return {H5Fopen(file.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose, "opening the file", file};
}

}  // namespace msvis::hdf5
