"""Compiled operators return the same results as in eager mode (support/compiled_cases.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from compiled_cases import selected
from opinfo.common import op_id

GROUP = 8  # number of OpInfos compiled into one graph
SAMPLE = (
    "float32:special.log_ndtr,special.erfcx,log1p,cos,digamma,nn.functional.softplus,nn.functional.mish,hypot,fmod,"
    "pow,nn.functional.gelu,nn.functional.softshrink,softmax,cumsum,sort,index_add,scatter_add,var,argmax,"
    "var_mean.unbiased,native_batch_norm,_native_batch_norm_legit,special.chebyshev_polynomial_t,"
    "special.hermite_polynomial_h,special.laguerre_polynomial_l,special.legendre_polynomial_p",
    "float16:exp,nextafter,nn.functional.silu,mul,add,remainder,clamp,sum,index_add,scatter_add,native_batch_norm,"
    "nn.functional.conv_transpose1d,_batch_norm_with_update,native_layer_norm,nn.functional.soft_margin_loss,"
    "linalg.cross,ldexp,addcdiv",
    "bfloat16:sigmoid,div.floor_rounding,nn.functional.elu,nn.functional.softsign,int,nn.functional.conv_transpose2d,"
    "native_layer_norm,linalg.cross,ldexp,mvlgamma.mvlgamma_p_1",
    "int64:sign,floor_divide,bitwise_left_shift,gcd,remainder,pow,amax",
    "bool:logical_xor,bitwise_not,add,float_power",
    "complex64:mul,exp,as_strided_scatter,linalg.pinv",
)
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool, torch.complex64)


def differences(*groups: str) -> str:
    """Compare the groups in a child process and return its output."""
    found = subprocess.run([sys.executable, "-m", "compiled_cases", *groups], cwd=Path(__file__).parents[1],
                           env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True,
                           check=False)  # fmt: skip
    assert found.returncode == 0, f"exit status {found.returncode}\n{found.stderr[-3000:]}"
    return found.stdout


def test_sample() -> None:
    assert differences(*SAMPLE) == ""


def groups(dtype: torch.dtype) -> list[str]:
    """Split all OpInfos that support the dtype into groups."""
    names = [op_id(op) for op in selected(dtype)]
    return [f"{str(dtype)[6:]}:{','.join(names[i : i + GROUP])}" for i in range(0, len(names), GROUP)]


@pytest.mark.sweep
@pytest.mark.parametrize("group", [group for dtype in DTYPES for group in groups(dtype)])
def test_sweep(group: str) -> None:
    assert differences(group) == ""
