// float32 matmul with oneDNN, for CPUs where MKL is slower.
#pragma once

#include <string_view>

#include "backend/fallback.h"

namespace mpsx::vendor {

// Returns oneDNN's kernel for an operator such as "mm.out", or null. The kernel declines shapes for which MKL is just
// as fast. MPSX_GEMM selects "onednn" or "mkl". The default is onednn on non-Intel AVX-512 CPUs, where MKL uses 256-bit
// kernels that take 1.1 times (Zen 4) to 2 times (Zen 5) as long with torch 2.13.
backend::CpuKernel* onednn_matmul(std::string_view op);

}  // namespace mpsx::vendor
