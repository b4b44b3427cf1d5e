// Matrix products of floats by oneDNN where torch's CPU would ask MKL.
#pragma once

#include <ATen/core/stack.h>

#include <string_view>

namespace mpsx::backend {

// Takes a call whose arguments are CPU tensors: replaces them on the stack by the result, or returns false and leaves
// them for torch's own kernel.
using LibraryKernel = bool (*)(torch::jit::Stack& stack);

// oneDNN's kernel for "aten::mm.out" and its like, null where there is none or where MKL is as fast: MPSX_GEMM is
// "onednn" or "mkl", by default onednn on CPUs with AVX-512 that are not Intel's. There MKL runs kernels of 256 bits
// and takes twice as long (seen on AMD EPYC with torch 2.13). Throws on another value.
LibraryKernel matmul_kernel(std::string_view op);

}  // namespace mpsx::backend
