"""Compare random GEMMs on the tensor tier with float64: `python random_gemms.py SEED [COUNT]`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import torch
from accuracy import assert_as_accurate
from layouts import on_device
from tensor_tier import main
from torch.nn import functional as F

import mpsx

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Enough matrices, and a matrix with enough rows, to have more tiles than threadgroups that run at the same time.
MANY, ROWS = (300, 9000) if mpsx.driver()["name"] == "cuda" else (6, 260)


def layouts(shape: tuple[int, ...], dtype: torch.dtype, choice: random.Random) -> torch.Tensor:
    """Return random numbers in a random layout: contiguous, transposed, sliced, with gaps, or broadcast."""
    *batch, rows, columns = shape
    kind = choice.choice(["contiguous", "transposed", "sliced", "gapped", "repeated"])
    if kind == "transposed":
        return torch.randn(*batch, columns, rows).to(dtype).transpose(-1, -2)
    if kind == "sliced":
        top, left = choice.randrange(3), choice.randrange(9)
        return torch.randn(*batch, rows + top, columns + left).to(dtype)[..., top:, left:]
    if kind == "gapped":
        return torch.randn(*batch, rows, columns, 2).to(dtype)[..., 0]
    if kind == "repeated" and batch:
        return torch.randn(rows, columns).to(dtype).expand(shape)
    return torch.randn(shape).to(dtype)


def compare(choice: random.Random) -> str:
    """Check one random call, and return a description of it."""
    dtype = choice.choice(DTYPES)
    m, n, k = (choice.choice([1, 2, 16, 33, 64, 100, 130]) for _ in range(3))
    if choice.random() < 0.15:
        m, n, k = choice.choice([16, 40]), choice.choice([8, 48]), choice.choice([1100, 2050])  # split-K
    batch = choice.choice([(), (), (1,), (3,)])
    if choice.random() < 0.15:
        batch, m, n, k = (MANY,), choice.choice([64, 100]), choice.choice([100, 200]), choice.choice([64, 72, 200])
    if choice.random() < 0.1:
        batch, m, n, k = choice.choice([(), (2,)]), ROWS, choice.choice([264, 300]), choice.choice([72, 130, 200])
    a, b = layouts((*batch, m, k), dtype, choice), layouts((*batch, k, n), dtype, choice)
    name = choice.choice(["mm", "addmm", "bias", "out", "act", *ACTIVATIONS])
    alpha, beta = choice.choice([(1, 1), (1, 0), (-0.5, 2), (2, 1)])
    c = layouts((*batch, m, n), dtype, choice)
    text = f"{name} {dtype} {tuple(a.shape)} {a.stride()} @ {tuple(b.shape)} {b.stride()}, alpha {alpha}, beta {beta}"

    def call(device: str, wide: bool) -> torch.Tensor:
        x, y, z = (t.double() if wide else on_device(t, device) for t in (a, b, c))
        add = torch.baddbmm if batch else torch.addmm
        if name == "mm":
            return torch.matmul(x, y)
        if name == "out":  # the output is transposed
            out = torch.empty((*batch, n, m), dtype=x.dtype, device=device).transpose(-1, -2)
            return torch.matmul(x, y, out=out)
        if name == "bias":
            return add(z[..., :1, :].expand(z.shape), x, y, beta=beta, alpha=alpha)
        if name == "act" and not batch:
            return torch._addmm_activation(z[0], x, y, beta=beta, alpha=alpha, use_gelu=True)
        if name in ACTIVATIONS and not batch:
            if device == "mpsx":
                return torch.ops.mpsx.addmm_activation(z, x, y, name)
            return ACTIVATIONS[name](torch.addmm(z, x, y))
        return add(z, x, y, beta=beta, alpha=alpha)

    try:
        assert_as_accurate(call("mpsx", False), call("cpu", False), call("cpu", True))
    except Exception as error:
        raise AssertionError(text) from error
    return text


if __name__ == "__main__":
    main(compare, ["matmul_tensor_"], 60)
