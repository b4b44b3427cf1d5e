// prod and cumprod of complex numbers. Each thread processes one row or column.
#include "elementwise/complex.h"
#include "elementwise/complex_params.h"
#include "lib/instantiate.h"

// gid = (row or column, plane). If RUNNING, stores every prefix product (cumprod).
template <bool RUNNING>
kernel void complex_products(device float2* out [[buffer(0)]], device const float2* x [[buffer(1)]],
                             constant ComplexProductParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  const ulong line = gid.y * p.plane + ulong(gid.x) * p.pitch;
  float2 product = float2(1.0f, 0.0f);
  for (uint k = 0; k < p.size; ++k) {
    const ulong i = line + ulong(k) * p.step;
    product = complex_product(product, x[i]);
    if (RUNNING) out[i] = product;
  }
  if (!RUNNING) out[gid.y * ulong(p.lines) + gid.x] = product;
}
MPSX_KERNEL("complex_prod", complex_products<false>)
MPSX_KERNEL("complex_cumprod", complex_products<true>)
