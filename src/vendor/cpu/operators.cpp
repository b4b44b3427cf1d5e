// Operators that CPU libraries have and our kernels have not.
#include "vendor/cpu/vendor.h"

namespace mpsx::vendor {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Library(m, "MKL/PocketFFT through ATen")
      .impl("_fft_r2c")
      .impl("_fft_r2c.out")
      .impl("_fft_c2r")
      .impl("_fft_c2r.out")
      .impl("_fft_c2c")
      .impl("_fft_c2c.out");
  Library(m, kGemm).impl("_scaled_mm").impl("_scaled_mm.out");
  Library(m, kAten)
      .impl("_weight_int4pack_mm_for_cpu")
      .impl("_convert_weight_to_int4pack_for_cpu")
      .impl("_dyn_quant_pack_4bit_weight")
      .impl("_dyn_quant_matmul_4bit");
}

}  // namespace mpsx::vendor
