"""Which kernels the Metal driver selects for matmul and attention, by GPU family, macOS version and MPSX_TIER."""

from __future__ import annotations

from collections.abc import Callable

import pytest

M5 = {"MPSX_EMULATION_FAIL": "m5:0:1000000"}
TIERS = """
    a, b = torch.randn(1024, 2), torch.randn(2, 810)
    for rows in (1024, 40):
        got = (a[:rows].to("mpsx") @ b.to("mpsx")).cpu()
        torch.testing.assert_close(got, a[:rows] @ b)
    q = torch.randn(1, 2, 20, 40, dtype=torch.half)
    on_cpu, on_gpu = (torch.nn.functional.scaled_dot_product_attention(x, x, x) for x in (q, q.to("mpsx")))
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=2e-3, atol=2e-3)  # two roundings
    names = [row.name for row in mpsx.profiler.rows() if row.route == "native"]
    print(*sorted(name for name in names if name.startswith(("matmul_", "attention_"))))
"""


@pytest.mark.parametrize(("variables", "kernels"), [
    # Small matmuls use the simdgroup tier.
    (M5, "attention_tensor_64_f16 matmul_f32 matmul_tensor_64x64_nn_f32"),
    (M5 | {"MPSX_TIER": "simdgroup"}, "attention_64_f16 matmul_f32"),
    (M5 | {"MPSX_TIER": "tensor"}, "attention_tensor_64_f16 matmul_tensor_64x64_nn_f32"),
    ({}, "attention_64_f16 matmul_f32"),
], ids=["M5", "simdgroup", "tensor", "M3"])  # fmt: skip
def test_tiers(run: Callable[..., str], variables: dict[str, str], kernels: str) -> None:
    """Apple10 GPUs use the tensor tier from macOS 26.2 on. MPSX_TIER overrides this choice."""
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
