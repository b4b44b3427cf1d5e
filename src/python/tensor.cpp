#include "python/tensor.h"

#include <ATen/ops/empty_strided.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <iterator>

namespace {

// Returns Metal's name for a dtype, or null.
const char* metal_element(at::ScalarType type) {
  switch (type) {
    case at::kHalf: return "half";
    case at::kBFloat16: return "bfloat";
    case at::kFloat: return "float";
    case at::kBool: return "bool";
    case at::kChar: return "char";
    case at::kShort: return "short";
    case at::kInt: return "int";
    case at::kLong: return "long";
    case at::kByte: return "uchar";
    case at::kUInt16: return "ushort";
    case at::kUInt32: return "uint";
    case at::kUInt64: return "ulong";
    default: return nullptr;
  }
}

}  // namespace

int mpsx_device_tensor(PyObject* object, const void** data, int* dtype) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.is_privateuseone()) return 0;
  try {
    *data = tensor.data_ptr();
  } catch (const std::exception&) {  // the caller then calls Python, which raises this error
    return 0;
  }
  *dtype = int(tensor.scalar_type());
  return 1;
}

int mpsx_describe_tensor(PyObject* object, mpsx_shader_tensor* out) {
  if (!THPVariable_Check(object)) return 0;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const int64_t rank = tensor.dim();
  *out = {};
  out->element = metal_element(tensor.scalar_type());
  if (!tensor.is_privateuseone() || !out->element || rank < 1 || rank > int64_t(std::size(out->sizes))) return 0;
  try {
    out->data = tensor.data_ptr();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return -1;
  }
  out->rank = uint32_t(rank);
  for (int64_t d = 0; d < rank; ++d) {  // dimension 0 varies fastest in Metal
    out->sizes[d] = tensor.size(rank - 1 - d);
    out->strides[d] = tensor.stride(rank - 1 - d);
  }
  return 1;
}

PyObject* mpsx_empty_strided(const int64_t* size, const int64_t* stride, size_t dimensions, PyObject* dtype) {
  HANDLE_TH_ERRORS
  if (!THPDtype_Check(dtype)) return PyErr_Format(PyExc_TypeError, "empty_strided: expected a torch.dtype");
  const auto type = reinterpret_cast<THPDtype*>(dtype)->scalar_type;
  return THPVariable_Wrap(at::empty_strided(at::IntArrayRef(size, dimensions), at::IntArrayRef(stride, dimensions),
                                            at::TensorOptions(at::kPrivateUse1).dtype(type)));
  END_HANDLE_TH_ERRORS
}

int mpsx_has_layout(PyObject* object, const int64_t* size, const int64_t* stride, size_t dimensions) {
  if (!THPVariable_Check(object)) return 0;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  try {
    const at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
    if (sizes.size() != dimensions) return 0;
    for (size_t d = 0; d < dimensions; ++d)
      if (sizes[d] != size[d] || (strides[d] != stride[d] && size[d] > 1)) return 0;
    return 1;
  } catch (const std::exception&) {  // a subclass without strides, or with symbolic ones
    return 0;
  }
}
