// The functions that pickles of PyTorch tensors call, as data: storages, dense tensors, numpy arrays.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/byte_source.h"
#include "tensor/pickle.h"

namespace msvis {

/// An element type as a file names it. Without dtype: one that is not read.
struct NamedType {
  std::optional<DType> dtype;
  std::uint64_t size = 0;  ///< bytes of an element; 0 if not known
  std::string name;        ///< for messages
};

struct TorchStorage {
  NamedType type;
  bool untyped = false;                     ///< bytes; the tensor says what they are
  std::string_view key;                     ///< record `data/<key>`, or key in the list of a legacy file
  std::uint64_t count = 0;                  ///< elements
  std::uint64_t view_first = 0;             ///< legacy views: first element within the storage
  std::optional<std::uint64_t> view_count;  ///< legacy views: number of elements
};

struct NumpyArray {
  bool complete = false;  ///< its state was set
  NamedType type;
  bool big_endian = false;
  bool fortran = false;
  std::vector<std::uint64_t> shape;
  std::string_view content;
  bool latin1 = false;  ///< content is text of which each character is a byte
};

struct TorchTensor {
  std::optional<std::uint64_t> storage;  ///< index in storages
  std::optional<std::uint64_t> array;    ///< or in arrays
  NamedType stored;                      ///< type in the storage
  std::uint64_t first = 0;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;
  bool conjugate = false;
  bool negate = false;
  std::optional<NamedType> cast;  ///< the tensor is to have this type
};

class TorchPickle : public PickleHandler {
 public:
  /// strict: a foreign global is refused where it is named, not where it is used.
  explicit TorchPickle(bool strict) : strict_(strict) {}

  void name_global(PickleMachine& machine, const PickleGlobal& global) override;
  PickleValue call(PickleMachine& machine, const PickleGlobal& callable, const PickleValue& arguments) override;
  PickleValue load_persistent(PickleMachine& machine, const PickleValue& id) override;
  void set_state(PickleMachine& machine, const PickleValue& object, const PickleValue& state) override;

  /// The tensor that a pickle's value is. Throws TensorError (not_a_tensor, refused) that says what the value is.
  const TorchTensor& tensor(const PickleMachine& machine, const PickleValue& value) const;

  [[nodiscard]] const std::vector<TorchStorage>& storages() const { return storages_; }
  [[nodiscard]] const std::vector<NumpyArray>& arrays() const { return arrays_; }

 private:
  struct NumpyType {
    NamedType type;
    bool big_endian = false;
  };

  PickleValue call_known(PickleMachine& machine, const PickleGlobal& callable, const PickleValue& argument_tuple, int depth);
  PickleValue rebuild_dense(PickleMachine& machine, const std::vector<PickleValue>& arguments, int version);
  PickleValue rebuild_from_numpy(PickleMachine& machine, const std::vector<PickleValue>& arguments);
  PickleValue rebuild_from_cpu_tensor(PickleMachine& machine, const std::vector<PickleValue>& arguments);
  PickleValue rebuild_from_type(PickleMachine& machine, const std::vector<PickleValue>& arguments, int depth);
  PickleValue wrapped_tensor(const PickleMachine& machine, const std::vector<PickleValue>& arguments) const;
  PickleValue make_numpy_type(PickleMachine& machine, const std::vector<PickleValue>& arguments);
  PickleValue make_numpy_array(PickleMachine& machine);
  PickleValue encode_bytes(const PickleMachine& machine, const std::vector<PickleValue>& arguments) const;
  PickleValue add_tensor(TorchTensor tensor);
  void set_array_state(PickleMachine& machine, NumpyArray& array, const std::vector<PickleValue>& state);
  [[nodiscard]] std::vector<std::uint64_t> sizes(const PickleMachine& machine, const PickleValue& value) const;
  [[nodiscard]] std::uint64_t number(const PickleMachine& machine, const PickleValue& value) const;
  [[nodiscard]] const PickleValue& argument(const PickleMachine& machine, const std::vector<PickleValue>& arguments,
                                            std::size_t index) const;
  [[nodiscard]] TorchStorage& storage_argument(const PickleMachine& machine, const PickleValue& value);
  [[nodiscard]] TorchTensor& tensor_argument(const PickleMachine& machine, const PickleValue& value);
  [[nodiscard]] static NamedType torch_type(const PickleMachine& machine, const PickleValue& value);

  bool strict_;
  std::vector<TorchStorage> storages_;
  std::vector<TorchTensor> tensors_;
  std::vector<NumpyArray> arrays_;
  std::vector<NumpyType> numpy_types_;
};

}  // namespace msvis
