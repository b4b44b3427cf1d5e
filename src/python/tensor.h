/* Gives Cython access to PyTorch's tensors without calling Python. */
#ifndef MPSX_PYTHON_TENSOR_H
#define MPSX_PYTHON_TENSOR_H

#include <Python.h>

#include "c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For a torch.Tensor on mpsx that has memory, returns 1, the address and the dtype (c10::ScalarType). For all other
 * objects, returns 0. */
int mpsx_device_tensor(PyObject* tensor, const void** data, int* dtype);

/* Describes a torch.Tensor on mpsx of rank 1 to 8 whose dtype Metal's tensors support, and returns 1. For all other
 * objects, returns 0. Returns -1 with a Python exception if the tensor has no memory. */
int mpsx_describe_tensor(PyObject* tensor, mpsx_shader_tensor* out);

/* Returns a new tensor on mpsx, or NULL with a Python exception. This is faster than torch.empty_strided, whose
 * argument parser takes longer than the allocation. */
PyObject* mpsx_empty_strided(const int64_t* size, const int64_t* stride, size_t dimensions, PyObject* dtype);

/* Returns 1 if the object is a torch.Tensor of this size whose strides are these, and 0 otherwise. Strides of
 * dimensions with one element do not matter. */
int mpsx_has_layout(PyObject* tensor, const int64_t* size, const int64_t* stride, size_t dimensions);

#ifdef __cplusplus
}
#endif
#endif
