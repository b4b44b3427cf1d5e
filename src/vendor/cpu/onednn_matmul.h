// Matrix products of floats by oneDNN where torch's CPU would ask MKL.
#pragma once

#include <string_view>

#include "backend/fallback.h"

namespace mpsx::vendor {

// oneDNN's kernel for "mm.out" and its like, null where there is none. It declines where MKL is as fast: MPSX_GEMM is
// "onednn" or "mkl", by default onednn on CPUs with AVX-512 that are not Intel's. There MKL runs kernels of 256 bits
// and takes 1.1 (Zen 4) to 2 times (Zen 5) as long with torch 2.13.
backend::CpuKernel* onednn_matmul(std::string_view op);

}  // namespace mpsx::vendor
