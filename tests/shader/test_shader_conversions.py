"""On every driver, conversions from floats to integers saturate, and NaN becomes 0."""

import math

import pytest
import torch

import mpsx
from mpsx.msl.compiler import find_compiler

pytestmark = [
    pytest.mark.skipif("clang" not in find_compiler().description, reason="only clang defines these conversions"),
    pytest.mark.skipif(mpsx.driver()["name"] == "metal", reason="Apple's compiler converts"),
]
TYPES = {"char": torch.int8, "uchar": torch.uint8, "short": torch.int16, "ushort": torch.uint16, "int": torch.int32,
         "uint": torch.uint32, "long": torch.int64, "ulong": torch.uint64}  # fmt: skip
FLOATS = {"float": torch.float32, "half": torch.float16, "bfloat": torch.bfloat16}
KERNELS = [f"{t}_{f}" for t in TYPES for f in (FLOATS if t in ("uchar", "int") else ["float"])]
INSTANCES = "\n".join(
    'template [[host_name("{0}_{1}")]] kernel decltype(convert<{0}, {1}>) convert<{0}, {1}>;'.format(*k.split("_"))
    for k in KERNELS
)
SOURCE = f"""
#include <metal_stdlib>
using namespace metal;
template <typename T, typename F>
kernel void convert(device T* y, constant F* x, uint i [[thread_position_in_grid]]) {{
  y[i] = static_cast<T>(x[i]);
}}
{INSTANCES}
kernel void vectors(device char4* y, device uint4* z, constant float4* x, uint i [[thread_position_in_grid]]) {{
  y[i] = char4(x[i]);
  z[i] = uint4(x[i]);
}}
"""
VALUES = [0.5, -0.5, 1.9, -1.9, 127.9, 128.0, -128.9, -129.0, 255.9, 256.0, 300.0, -300.0, 3e9, -3e9, 2.0**31,
          -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e20, -1e20, 3e38, math.inf, -math.inf, math.nan, -0.0,
          7.0]  # fmt: skip


@pytest.fixture(scope="module")
def lib():
    return mpsx.compile_shader(SOURCE)


def expected(x: torch.Tensor, dtype: torch.dtype) -> list[int]:
    """Return the values rounded toward zero and clamped to the range of the integer type."""
    limits = torch.iinfo(dtype)

    def integer(v: float) -> int:
        if math.isnan(v):
            return 0
        return limits.max if v >= limits.max else limits.min if v <= limits.min else int(v)

    return [integer(v) for v in x.double().tolist()]


@pytest.mark.parametrize("kernel", KERNELS)
def test_scalars(lib, kernel):
    name, source = kernel.split("_")
    x = torch.tensor(VALUES).to(FLOATS[source])
    y = torch.zeros(len(x), dtype=TYPES[name], device="mpsx")
    getattr(lib, kernel)(y, x.to("mpsx"))
    assert y.cpu().tolist() == expected(x, TYPES[name])


def test_vectors(lib):
    x = torch.tensor(VALUES)
    y, z = (torch.zeros(len(x), dtype=dtype, device="mpsx") for dtype in (torch.int8, torch.uint32))
    lib.vectors(y, z, x.to("mpsx"), threads=len(x) // 4)
    assert y.cpu().tolist() == expected(x, torch.int8)
    assert z.cpu().tolist() == expected(x, torch.uint32)
