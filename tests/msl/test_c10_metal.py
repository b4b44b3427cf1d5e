"""c10/metal/special_math.h, as torch ships it, against scipy."""

import numpy as np
import pytest
import torch

import mpsx

special = pytest.importorskip("scipy.special")
FUNCTIONS = {
    "erf": special.erf, "erfinv": special.erfinv, "digamma": special.digamma, "i0": special.i0, "i1": special.i1,
    "i0e": special.i0e, "i1e": special.i1e, "log_gamma": special.gammaln, "bessel_j0_forward": special.j0,
    "bessel_j1_forward": special.j1, "bessel_y0_forward": special.y0, "modified_bessel_k0_forward": special.k0,
    "spherical_bessel_j0": lambda x: special.spherical_jn(0, x), "sinc": np.sinc, "entr": special.entr,
    "log1p": np.log1p,
}


@pytest.fixture(scope="module")
def library():
    kernels = "".join(f"kernel void k_{name}(device float* out, device const float* x, "
                      f"uint i [[thread_position_in_grid]]) {{ out[i] = c10::metal::{name}(x[i]); }}\n"
                      for name in FUNCTIONS)
    return mpsx.compile_shader(f"#include <c10/metal/special_math.h>\n#include <c10/metal/utils.h>\n{kernels}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_math(library, name):
    x = torch.linspace(0.05, 0.95, 37)
    out = torch.empty(37, device="mpsx")
    getattr(library, f"k_{name}")(out, x.to("mpsx"))
    np.testing.assert_allclose(out.cpu().numpy(), FUNCTIONS[name](x.numpy().astype(np.float64)), rtol=5e-6, atol=1e-6)
