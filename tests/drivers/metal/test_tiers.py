"""Which kernels of matrix multiplication the Metal driver uses, by GPU family, macOS version and MPSX_TIER."""

from __future__ import annotations

from collections.abc import Callable

import pytest

M5 = {"MPSX_EMULATION_FAIL": "m5:0:1000000"}
TIERS = """
    a, b = torch.randn(400, 16), torch.randn(16, 410)
    for rows in (400, 40):
        got = (a[:rows].to("mpsx") @ b.to("mpsx")).cpu()
        torch.testing.assert_close(got, a[:rows] @ b)
    names = [row.name for row in mpsx.profiler.rows() if row.route == "native"]
    print(*sorted(name for name in names if name.startswith("matmul_")))
"""


@pytest.mark.parametrize(("variables", "kernels"), [
    (M5, "matmul_f32 matmul_tensor_64x64_nn_f32"),  # fewer than 400 rows stay on the simdgroup tier
    (M5 | {"MPSX_TIER": "simdgroup"}, "matmul_f32"),
    (M5 | {"MPSX_TIER": "tensor"}, "matmul_tensor_64x64_nn_f32"),
    ({}, "matmul_f32"),
], ids=["M5", "simdgroup", "tensor", "M3"])  # fmt: skip
def test_tiers(run: Callable[..., str], variables: dict[str, str], kernels: str) -> None:
    """A GPU of the family Apple10 uses the tensor tier from macOS 26.2 on, and MPSX_TIER forces a tier."""
    assert run(TIERS, MPSX_VENDOR="off", **variables).split() == kernels.split()


def test_tensor_tier_needs_an_m5(run: Callable[..., str]) -> None:
    run("""
        x = torch.ones(4, 4, device="mpsx")
        try:
            x @ x
        except RuntimeError as e:
            assert "MPSX_TIER=tensor: expected a driver with Metal 4's tensors" in str(e), e
        else:
            raise AssertionError("no error")
    """, MPSX_TIER="tensor")
