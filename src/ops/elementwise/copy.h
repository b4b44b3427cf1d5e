// Copying and casting between tensors of this device.
#pragma once

#include "ops/op.h"

namespace mpsx::ops {

// Copies `source` into `target` (broadcasting it, casting, any strides). False when no kernel does it: a type without
// one (complex to real, float64 casts), another device, a lazy conjugation.
bool copy_on_device(const Tensor& target, const Tensor& source);

}  // namespace mpsx::ops
