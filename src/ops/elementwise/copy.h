// Copies and casts between tensors of this device.
#pragma once

#include "ops/op.h"
#include "ops/strided.h"

namespace mpsx::ops {

// Copies `source` to `target` with any strides, broadcasting and casting. Returns false for dtypes without a kernel
// (complex to real, float64), tensors on another device, and lazy conjugation.
bool copy_on_device(const Tensor& target, const Tensor& source);

// Copies elements of 1, 2, 4 or 8 bytes within device memory. Operand 0 is the target.
void copy_strided(void* to, const void* from, int64_t bytes, const Strided<2>& loops);

// Returns whether the copy is a transpose: contiguous along y in the source and along x in the target.
bool is_transposition(const Strided<2>& loops);

}  // namespace mpsx::ops
