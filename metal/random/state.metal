// Stores the state of the random number generator in device memory, for kernels that draw the same numbers in several
// passes.
#include "random/params.h"

kernel void random_state(device ulong* seed [[buffer(0)]], device ulong* offset [[buffer(1)]],
                         constant RandomParams& p [[buffer(2)]]) {
  *seed = p.seed;
  *offset = p.offset;
}
