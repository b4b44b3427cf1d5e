// Copies and casts between tensors on this device.
#pragma once

#include "ops/op.h"
#include "ops/strided.h"

namespace mpsx::ops {

// Copies `source` to `target`, broadcasting and casting if necessary. Returns false if there is no kernel for the
// dtypes (complex to real, float64), if a tensor is on a different device, or if one is lazily conjugated.
bool copy_on_device(const Tensor& target, const Tensor& source);

// Copies elements of 1, 2, 4 or 8 bytes within device memory. The target is operand 0.
void copy_strided(void* to, const void* from, int64_t bytes, const Strided<2>& loops);

// Returns whether the copy is a transpose: the source is contiguous along y, and the target along x.
bool is_transposition(const Strided<2>& loops);

}  // namespace mpsx::ops
