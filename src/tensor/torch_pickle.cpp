#include "tensor/torch_pickle.h"

#include <algorithm>
#include <array>
#include <utility>

namespace msvis {
namespace {

using Kind = PickleValue::Kind;

enum Tag : std::uint32_t { tag_storage, tag_tensor, tag_array, tag_numpy_type, tag_opaque };

enum class Function : std::uint8_t {
  rebuild_tensor,
  rebuild_tensor_v2,
  rebuild_tensor_v3,
  rebuild_parameter,
  rebuild_from_type,
  rebuild_from_numpy,
  rebuild_from_cpu_tensor,
  sparse,
  quantised,
  meta,
  nested,
  ordered_dict,
  size,
  opaque,  // its value is never looked at
  numpy_array,
  numpy_type,
  encode,
  bytes,
  symbol,  // a class or constant that may be named but is not called
};

struct KnownGlobal {
  std::string_view module;
  std::string_view name;
  Function function;
};

// The whole list of what a pickle may call. Storage classes and dtypes are recognised by torch_type and storage_type.
constexpr std::array<KnownGlobal, 37> known_globals = {{
    {"torch._utils", "_rebuild_tensor_v2", Function::rebuild_tensor_v2},
    {"collections", "OrderedDict", Function::ordered_dict},
    {"torch._utils", "_rebuild_parameter", Function::rebuild_parameter},
    {"torch._utils", "_rebuild_parameter_with_state", Function::rebuild_parameter},
    {"torch._utils", "_rebuild_tensor_v3", Function::rebuild_tensor_v3},
    {"torch._utils", "_rebuild_tensor", Function::rebuild_tensor},
    {"torch._tensor", "_rebuild_from_type_v2", Function::rebuild_from_type},
    {"torch._tensor", "_rebuild_from_type", Function::rebuild_from_type},
    {"torch.tensor", "_rebuild_from_type", Function::rebuild_from_type},
    {"torch_npu.utils.storage", "_rebuild_npu_tensor", Function::rebuild_tensor_v2},
    {"torch._utils", "_rebuild_device_tensor_from_numpy", Function::rebuild_from_numpy},
    {"torch._utils", "_rebuild_xla_tensor", Function::rebuild_from_numpy},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor", Function::rebuild_from_cpu_tensor},
    {"torch._utils", "_rebuild_sparse_tensor", Function::sparse},
    {"torch._utils", "_rebuild_sparse_csr_tensor", Function::sparse},
    {"torch._utils", "_rebuild_qtensor", Function::quantised},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", Function::meta},
    {"torch._utils", "_rebuild_nested_tensor", Function::nested},
    {"torch", "Size", Function::size},
    {"torch", "device", Function::opaque},
    {"torch.serialization", "_get_layout", Function::opaque},
    {"torch", "Tensor", Function::symbol},
    {"torch._tensor", "Tensor", Function::symbol},
    {"torch.nn.parameter", "Parameter", Function::symbol},
    {"torch.nn.parameter", "Buffer", Function::symbol},
    {"numpy.core.multiarray", "_reconstruct", Function::numpy_array},
    {"numpy._core.multiarray", "_reconstruct", Function::numpy_array},
    {"numpy", "ndarray", Function::symbol},
    {"numpy", "dtype", Function::numpy_type},
    {"_codecs", "encode", Function::encode},
    {"__builtin__", "bytes", Function::bytes},
    {"builtins", "bytes", Function::bytes},
    {"torch", "strided", Function::symbol},
    {"torch", "per_tensor_affine", Function::symbol},
    {"torch", "per_channel_affine", Function::symbol},
    {"torch", "contiguous_format", Function::symbol},
    {"torch", "preserve_format", Function::symbol},
}};

struct StorageClass {
  std::string_view name;
  std::optional<DType> dtype;
  std::uint8_t size;
};

constexpr std::array<StorageClass, 18> storage_classes = {{
    {"FloatStorage", DType::float32, 4},
    {"BFloat16Storage", DType::bfloat16, 2},
    {"HalfStorage", DType::float16, 2},
    {"DoubleStorage", DType::float64, 8},
    {"LongStorage", DType::int64, 8},
    {"IntStorage", DType::int32, 4},
    {"ShortStorage", DType::int16, 2},
    {"CharStorage", DType::int8, 1},
    {"ByteStorage", DType::uint8, 1},
    {"BoolStorage", DType::boolean, 1},
    {"ComplexFloatStorage", DType::complex64, 8},
    {"ComplexDoubleStorage", DType::complex128, 16},
    {"UntypedStorage", std::nullopt, 1},
    {"QInt8Storage", std::nullopt, 1},
    {"QUInt8Storage", std::nullopt, 1},
    {"QInt32Storage", std::nullopt, 4},
    {"QUInt4x2Storage", std::nullopt, 1},
    {"QUInt2x4Storage", std::nullopt, 1},
}};

// Types of PyTorch that are known and not read.
constexpr std::array<std::string_view, 23> other_types = {"float8_e8m0fnu",
                                                          "float4_e2m1fn_x2",
                                                          "complex32",
                                                          "chalf",
                                                          "hifloat8",
                                                          "bits8",
                                                          "bits16",
                                                          "bits1x8",
                                                          "bits2x4",
                                                          "bits4x2",
                                                          "qint8",
                                                          "quint8",
                                                          "qint32",
                                                          "quint4x2",
                                                          "quint2x4",
                                                          "uint1",
                                                          "uint2",
                                                          "uint3",
                                                          "uint4",
                                                          "uint5",
                                                          "uint6",
                                                          "uint7",
                                                          "int4"};

std::optional<Function> known_function(const PickleGlobal& global) {
  for (const KnownGlobal& known : known_globals) {
    if (known.name == global.name && known.module == global.module) {
      return known.function;
    }
  }
  return std::nullopt;
}

bool is_torch_module(std::string_view module) {
  for (const std::string_view package : {std::string_view("torch"), std::string_view("torch_npu")}) {
    if (module.starts_with(package) && (module.size() == package.size() || module[package.size()] == '.')) {
      return true;
    }
  }
  return false;
}

const StorageClass* storage_class(const PickleGlobal& global) {
  if (!is_torch_module(global.module)) {
    return nullptr;
  }
  for (const StorageClass& known : storage_classes) {
    if (known.name == global.name) {
      return &known;
    }
  }
  return nullptr;
}

/// The type that a global such as `torch float32` names; nothing if it is none.
std::optional<NamedType> type_of_global(const PickleGlobal& global) {
  if (!is_torch_module(global.module)) {
    return std::nullopt;
  }
  const std::string name = "torch." + std::string(global.name);
  if (const std::optional<DType> dtype = dtype_from_name(name)) {
    return NamedType{dtype, dtype_size(*dtype), name};
  }
  if (std::find(other_types.begin(), other_types.end(), global.name) != other_types.end()) {
    return NamedType{std::nullopt, 0, name};
  }
  return std::nullopt;
}

std::string global_text(const PickleGlobal& global) {
  return one_line(global.module) + "." + one_line(global.name);
}

[[noreturn]] void refuse_global(const PickleMachine& machine, const PickleGlobal& global) {
  machine.fail(TensorFault::refused, "global " + global_text(global) + " is not allowed");
}

}  // namespace

void TorchPickle::name_global(PickleMachine& machine, const PickleGlobal& global) {
  if (strict_ && !known_function(global) && storage_class(global) == nullptr && !type_of_global(global)) {
    refuse_global(machine, global);
  }
}

const PickleValue& TorchPickle::argument(const PickleMachine& machine, const std::vector<PickleValue>& arguments, std::size_t index) const {
  if (index >= arguments.size()) {
    machine.fail(TensorFault::damaged, "its pickle calls a function with too few arguments");
  }
  return arguments[index];
}

std::uint64_t TorchPickle::number(const PickleMachine& machine, const PickleValue& value) const {
  if (!value.is(Kind::integer) || value.integer < 0) {
    machine.fail(TensorFault::damaged, value.is(Kind::integer) ? "its pickle has a negative size, stride or offset"
                                                               : "its pickle has " + std::string(pickle_kind_text(value.kind)) +
                                                                     " in the place of a size, stride or offset");
  }
  return static_cast<std::uint64_t>(value.integer);
}

std::vector<std::uint64_t> TorchPickle::sizes(const PickleMachine& machine, const PickleValue& value) const {
  if (!value.is(Kind::tuple) && !value.is(Kind::list)) {
    machine.fail(TensorFault::damaged,
                 "its pickle has " + std::string(pickle_kind_text(value.kind)) + " in the place of a shape or strides");
  }
  const std::span<const PickleValue> items = machine.items(value);
  if (items.size() > TensorLimits::max_dimensions) {
    machine.fail(TensorFault::too_large,
                 "has " + std::to_string(items.size()) + " dimensions; the limit is " + std::to_string(TensorLimits::max_dimensions));
  }
  std::vector<std::uint64_t> result;
  result.reserve(items.size());
  for (const PickleValue& item : items) {
    result.push_back(number(machine, item));
  }
  return result;
}

TorchStorage& TorchPickle::storage_argument(const PickleMachine& machine, const PickleValue& value) {
  if (!value.is(Kind::object) || value.tag != tag_storage) {
    machine.fail(TensorFault::damaged, "its pickle has " + std::string(pickle_kind_text(value.kind)) + " in the place of a storage");
  }
  return storages_[value.index];
}

TorchTensor& TorchPickle::tensor_argument(const PickleMachine& machine, const PickleValue& value) {
  if (!value.is(Kind::object) || value.tag != tag_tensor) {
    machine.fail(TensorFault::damaged, "its pickle has " + std::string(pickle_kind_text(value.kind)) + " in the place of a tensor");
  }
  return tensors_[value.index];
}

NamedType TorchPickle::torch_type(const PickleMachine& machine, const PickleValue& value) {
  if (!value.is(Kind::global)) {
    machine.fail(TensorFault::damaged, "its pickle has " + std::string(pickle_kind_text(value.kind)) + " in the place of a dtype");
  }
  const PickleGlobal& global = machine.global(value);
  if (std::optional<NamedType> type = type_of_global(global)) {
    return *std::move(type);
  }
  if (global.module == "torch") {  // a type of a later version
    return {std::nullopt, 0, global_text(global)};
  }
  refuse_global(machine, global);
}

PickleValue TorchPickle::add_tensor(TorchTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return PickleMachine::make_object(tag_tensor, tensors_.size() - 1);
}

PickleValue TorchPickle::call(PickleMachine& machine, const PickleGlobal& callable, const PickleValue& arguments) {
  return call_known(machine, callable, arguments, 0);
}

PickleValue TorchPickle::call_known(PickleMachine& machine, const PickleGlobal& callable, const PickleValue& argument_tuple, int depth) {
  const std::optional<Function> function = known_function(callable);
  if (!function) {
    refuse_global(machine, callable);
  }
  const std::span<const PickleValue> items = machine.items(argument_tuple);
  const std::vector<PickleValue> arguments(items.begin(), items.end());  // the machine's own array may move
  switch (*function) {
    case Function::rebuild_tensor:
      return rebuild_dense(machine, arguments, 1);
    case Function::rebuild_tensor_v2:
      return rebuild_dense(machine, arguments, 2);
    case Function::rebuild_tensor_v3:
      return rebuild_dense(machine, arguments, 3);
    case Function::rebuild_parameter:
      return wrapped_tensor(machine, arguments);
    case Function::rebuild_from_type:
      return rebuild_from_type(machine, arguments, depth);
    case Function::rebuild_from_numpy:
      return rebuild_from_numpy(machine, arguments);
    case Function::rebuild_from_cpu_tensor:
      return rebuild_from_cpu_tensor(machine, arguments);
    case Function::sparse:
      machine.fail(TensorFault::not_a_tensor, "holds a sparse tensor; only dense tensors are compared");
    case Function::quantised:
      machine.fail(TensorFault::not_a_tensor, "holds a quantised tensor; only plain tensors are compared");
    case Function::meta:
      machine.fail(TensorFault::not_a_tensor, "holds a meta tensor, which has no data");
    case Function::nested:
      machine.fail(TensorFault::not_a_tensor, "holds a nested tensor; only dense tensors are compared");
    case Function::ordered_dict:
      return machine.make_dict();
    case Function::size: {
      const PickleValue& size = argument(machine, arguments, 0);
      if (!size.is(Kind::tuple) && !size.is(Kind::list)) {
        machine.fail(TensorFault::damaged, "its pickle makes a torch.Size of " + std::string(pickle_kind_text(size.kind)));
      }
      return size;
    }
    case Function::opaque:
      return PickleMachine::make_object(tag_opaque, 0);
    case Function::numpy_array:
      return make_numpy_array(machine);
    case Function::numpy_type:
      return make_numpy_type(machine, arguments);
    case Function::encode:
      return encode_bytes(machine, arguments);
    case Function::bytes: {
      if (!arguments.empty()) {
        machine.fail(TensorFault::refused, "its pickle makes bytes in a way that no tensor file needs");
      }
      PickleValue empty;
      empty.kind = Kind::bytes;
      empty.chars = "";
      return empty;
    }
    case Function::symbol:
      break;
  }
  machine.fail(TensorFault::refused, "its pickle calls " + global_text(callable) + ", which no tensor file needs");
}

PickleValue TorchPickle::load_persistent(PickleMachine& machine, const PickleValue& id) {
  // ('storage', class, key, location, number of elements [, view]); the view only in legacy files.
  if (!id.is(Kind::tuple)) {
    machine.fail(TensorFault::refused, "its pickle refers to " + std::string(pickle_kind_text(id.kind)) + " outside of itself");
  }
  const std::span<const PickleValue> items = machine.items(id);
  if (items.size() < 5 || items.size() > 6 || !items[0].is_text("storage") || !items[1].is(Kind::global) || !items[2].is(Kind::text)) {
    machine.fail(TensorFault::refused, "its pickle refers to something outside of itself that is no storage");
  }
  const PickleGlobal global = machine.global(items[1]);
  const StorageClass* known = storage_class(global);
  if (known == nullptr) {
    refuse_global(machine, global);
  }
  TorchStorage storage;
  storage.type = {known->dtype, known->size, global_text(global)};
  storage.untyped = known->name == "UntypedStorage";
  storage.key = items[2].view();
  storage.count = number(machine, items[4]);
  if (items.size() == 6 && !items[5].is(Kind::none)) {
    const std::span<const PickleValue> view = machine.items(items[5]);
    if (!items[5].is(Kind::tuple) || view.size() != 3) {
      machine.fail(TensorFault::damaged, "its pickle has a view of a storage that is no triple");
    }
    storage.view_first = number(machine, view[1]);
    storage.view_count = number(machine, view[2]);
  }
  storages_.push_back(std::move(storage));
  return PickleMachine::make_object(tag_storage, storages_.size() - 1);
}

PickleValue TorchPickle::rebuild_dense(PickleMachine& machine, const std::vector<PickleValue>& arguments, int version) {
  // v1: storage, offset, size, stride; v2: + requires_grad, hooks [, metadata]; v3: + requires_grad, hooks, dtype [, metadata]
  const PickleValue& storage_value = argument(machine, arguments, 0);
  const TorchStorage& storage = storage_argument(machine, storage_value);
  TorchTensor tensor;
  tensor.storage = storage_value.index;
  tensor.first = number(machine, argument(machine, arguments, 1));
  tensor.shape = sizes(machine, argument(machine, arguments, 2));
  tensor.strides = sizes(machine, argument(machine, arguments, 3));
  if (tensor.shape.size() != tensor.strides.size()) {
    machine.fail(TensorFault::damaged, "its tensor has " + std::to_string(tensor.shape.size()) + " dimensions, but " +
                                           std::to_string(tensor.strides.size()) + " strides");
  }
  tensor.stored = storage.type;
  std::size_t metadata = 6;
  if (version == 3) {
    tensor.stored = torch_type(machine, argument(machine, arguments, 6));
    metadata = 7;
    if (!storage.untyped && tensor.stored.size != 0 && storage.type.size != tensor.stored.size) {
      machine.fail(TensorFault::damaged,
                   "its tensor of type " + tensor.stored.name + " has a storage of another type, " + storage.type.name);
    }
  } else if (storage.untyped) {
    machine.fail(TensorFault::damaged, "its tensor has an untyped storage and no dtype");
  }
  if (version >= 2 && metadata < arguments.size()) {
    const PickleValue& flags = arguments[metadata];
    const std::optional<PickleValue> conjugate = machine.find(flags, "conj");
    const std::optional<PickleValue> negate = machine.find(flags, "neg");
    tensor.conjugate = conjugate && conjugate->is_true();
    tensor.negate = negate && negate->is_true();
  }
  return add_tensor(std::move(tensor));
}

PickleValue TorchPickle::wrapped_tensor(const PickleMachine& machine, const std::vector<PickleValue>& arguments) const {
  const PickleValue& value = argument(machine, arguments, 0);
  if (!value.is(Kind::object) || value.tag != tag_tensor) {
    machine.fail(TensorFault::not_a_tensor, "holds a parameter of " + std::string(pickle_kind_text(value.kind)));
  }
  return value;
}

PickleValue TorchPickle::rebuild_from_type(PickleMachine& machine, const std::vector<PickleValue>& arguments, int depth) {
  constexpr int max_depth = 8;
  const PickleValue& function = argument(machine, arguments, 0);
  const PickleValue& inner = argument(machine, arguments, 2);  // 1 is the class, which does not change the data
  if (!function.is(Kind::global) || !inner.is(Kind::tuple) || depth >= max_depth) {
    machine.fail(TensorFault::refused, "its pickle rebuilds a tensor in a way that is not known");
  }
  const PickleGlobal global = machine.global(function);
  return call_known(machine, global, inner, depth + 1);
}

PickleValue TorchPickle::rebuild_from_numpy(PickleMachine& machine, const std::vector<PickleValue>& arguments) {
  const PickleValue& array_value = argument(machine, arguments, 0);
  if (!array_value.is(Kind::object) || array_value.tag != tag_array || !arrays_[array_value.index].complete) {
    machine.fail(TensorFault::damaged, "its pickle has no numpy array where one is needed");
  }
  const NumpyArray& array = arrays_[array_value.index];
  TorchTensor tensor;
  tensor.array = array_value.index;
  tensor.stored = array.type;
  tensor.shape = array.shape;
  tensor.cast = torch_type(machine, argument(machine, arguments, 1));
  return add_tensor(std::move(tensor));
}

PickleValue TorchPickle::rebuild_from_cpu_tensor(PickleMachine& machine, const std::vector<PickleValue>& arguments) {
  TorchTensor tensor = tensor_argument(machine, argument(machine, arguments, 0));
  tensor.cast = torch_type(machine, argument(machine, arguments, 1));
  return add_tensor(std::move(tensor));
}

PickleValue TorchPickle::make_numpy_array(PickleMachine&) {
  arrays_.emplace_back();
  return PickleMachine::make_object(tag_array, arrays_.size() - 1);
}

PickleValue TorchPickle::make_numpy_type(PickleMachine& machine, const std::vector<PickleValue>& arguments) {
  const PickleValue& code = argument(machine, arguments, 0);
  if (!code.is(Kind::text)) {
    machine.fail(TensorFault::damaged, "its pickle has a numpy dtype without a code");
  }
  const std::optional<DType> dtype = dtype_from_numpy(code.view());
  numpy_types_.push_back({{dtype, dtype ? dtype_size(*dtype) : 0, "numpy " + one_line(code.view())}, false});
  return PickleMachine::make_object(tag_numpy_type, numpy_types_.size() - 1);
}

PickleValue TorchPickle::encode_bytes(const PickleMachine& machine, const std::vector<PickleValue>& arguments) const {
  const PickleValue& text = argument(machine, arguments, 0);
  const PickleValue& encoding = argument(machine, arguments, 1);
  if (!text.is(Kind::text) || !(encoding.is_text("latin1") || encoding.is_text("latin-1"))) {
    machine.fail(TensorFault::refused, "its pickle encodes text in a way that no tensor file needs");
  }
  PickleValue bytes = text;
  bytes.kind = Kind::latin1_bytes;
  return bytes;
}

void TorchPickle::set_state(PickleMachine& machine, const PickleValue& object, const PickleValue& state) {
  const std::span<const PickleValue> items = machine.items(state);
  if (object.tag == tag_array && state.is(Kind::tuple)) {
    set_array_state(machine, arrays_[object.index], {items.begin(), items.end()});
  } else if (object.tag == tag_numpy_type && state.is(Kind::tuple) && items.size() >= 2 && items[1].is(Kind::text)) {
    numpy_types_[object.index].big_endian = items[1].view() == ">";
  } else if (object.tag != tag_tensor) {  // attributes of a tensor do not change its data
    machine.fail(TensorFault::refused, "its pickle sets a state that no tensor file needs");
  }
}

void TorchPickle::set_array_state(PickleMachine& machine, NumpyArray& array, const std::vector<PickleValue>& state) {
  // ([version,] shape, dtype, Fortran order, bytes)
  const std::size_t first = state.size() == 5 ? 1 : 0;
  if (state.size() - first != 4) {
    machine.fail(TensorFault::damaged, "its pickle has a numpy array of unknown form");
  }
  const PickleValue& type = state[first + 1];
  const PickleValue& content = state[first + 3];
  if (!type.is(Kind::object) || type.tag != tag_numpy_type) {
    machine.fail(TensorFault::damaged, "its pickle has a numpy array without a dtype");
  }
  if (!content.is(Kind::bytes) && !content.is(Kind::latin1_bytes)) {
    machine.fail(TensorFault::not_a_tensor, "holds a numpy array of Python objects");
  }
  array.shape = sizes(machine, state[first]);
  array.type = numpy_types_[type.index].type;
  array.big_endian = numpy_types_[type.index].big_endian;
  array.fortran = state[first + 2].is_true();
  array.content = content.view();
  array.latin1 = content.is(Kind::latin1_bytes);
  array.complete = true;
}

const TorchTensor& TorchPickle::tensor(const PickleMachine& machine, const PickleValue& value) const {
  if (value.is(Kind::global)) {
    const PickleGlobal& global = machine.global(value);
    if (!known_function(global)) {
      refuse_global(machine, global);
    }
  }
  if (value.is(Kind::object) && value.tag == tag_tensor) {
    return tensors_[value.index];
  }
  std::string what(pickle_kind_text(value.kind));
  if (value.is(Kind::object)) {
    constexpr std::array<std::string_view, 5> names = {"a bare storage", "a tensor", "a numpy array", "a numpy dtype", "an object"};
    what = names[value.tag];
  }
  machine.fail(TensorFault::not_a_tensor, "holds " + what + ", not a tensor");
}

}  // namespace msvis
