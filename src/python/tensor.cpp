#include "python/tensor.h"

#include <ATen/ops/empty_strided.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

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

PyObject* mpsx_empty_strided(const int64_t* size, const int64_t* stride, size_t dimensions, PyObject* dtype) {
  HANDLE_TH_ERRORS
  if (!THPDtype_Check(dtype)) return PyErr_Format(PyExc_TypeError, "empty_strided: expected a torch.dtype");
  const auto type = reinterpret_cast<THPDtype*>(dtype)->scalar_type;
  return THPVariable_Wrap(at::empty_strided(at::IntArrayRef(size, dimensions), at::IntArrayRef(stride, dimensions),
                                            at::TensorOptions(at::kPrivateUse1).dtype(type)));
  END_HANDLE_TH_ERRORS
}
