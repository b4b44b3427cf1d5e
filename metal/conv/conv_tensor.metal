// The tensor tier of conv.metal for 16-bit elements: convolution as implicit GEMM, using Metal 4's matmul2d.
#include "conv/conv_kernels.h"
#include "lib/tensor_fragments.h"

MPSX_CONV_TILED("_tensor", half, f16, TensorTile64)
MPSX_CONV_TILED("_tensor", bfloat, bf16, TensorTile64)
