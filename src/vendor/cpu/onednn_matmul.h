// float32 matmul with oneDNN, for CPUs on which MKL is slower.
#pragma once

#include <string_view>

#include "backend/fallback.h"

namespace mpsx::vendor {

// Returns oneDNN's kernel for an operator such as "mm.out", or null. The kernel returns false for shapes for which MKL
// is just as fast. MPSX_GEMM selects "onednn" or "mkl". The default is onednn on non-Intel AVX-512 CPUs, where MKL uses
// 256-bit kernels. With PyTorch 2.13, they take 1.1 times (Zen 4) to 2 times (Zen 5) as long.
backend::CpuKernel* onednn_matmul(std::string_view op);

}  // namespace mpsx::vendor
