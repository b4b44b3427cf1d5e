// Copying and casting between tensors of this device.
#pragma once

#include "ops/op.h"
#include "ops/strided.h"

namespace mpsx::ops {

// Copies `source` into `target` (broadcasting it, casting, any strides). False when no kernel does it: a type without
// one (complex to real, float64 casts), another device, a lazy conjugation.
bool copy_on_device(const Tensor& target, const Tensor& source);

// Copies elements of `bytes` bytes (1, 2, 4 or 8) between places of the device's memory; operand 0 is the target.
void copy_strided(void* to, const void* from, int64_t bytes, const Strided<2>& loops);

// Whether that moves tiles: contiguous along y in the source, and along x in the target.
bool is_transposition(const Strided<2>& loops);

}  // namespace mpsx::ops
