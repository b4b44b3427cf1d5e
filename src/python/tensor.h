/* Access to PyTorch's tensors from Cython without calling Python. */
#ifndef MPSX_PYTHON_TENSOR_H
#define MPSX_PYTHON_TENSOR_H

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 1, the address, and the dtype (c10::ScalarType) of a torch.Tensor on mpsx with memory, and 0 for others. */
int mpsx_device_tensor(PyObject* tensor, const void** data, int* dtype);

/* Returns a new tensor on mpsx, or NULL with a Python exception. Faster than torch.empty_strided, whose argument parser
 * takes longer than the allocation. */
PyObject* mpsx_empty_strided(const int64_t* size, const int64_t* stride, size_t dimensions, PyObject* dtype);

#ifdef __cplusplus
}
#endif
#endif
