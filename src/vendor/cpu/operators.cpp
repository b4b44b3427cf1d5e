// Operators that CPU libraries implement and for which we have no kernels.
#include "vendor/cpu/vendor.h"

namespace mpsx::vendor {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Library(m, kGemm).impl("_scaled_mm").impl("_scaled_mm.out");
  Library(m, kAten)
      .impl("_weight_int4pack_mm_for_cpu")
      .impl("_convert_weight_to_int4pack_for_cpu")
      .impl("_dyn_quant_pack_4bit_weight")
      .impl("_dyn_quant_matmul_4bit")
      .impl("_validate_compressed_sparse_indices");
}

}  // namespace mpsx::vendor
