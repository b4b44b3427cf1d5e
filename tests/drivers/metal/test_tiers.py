"""Which kernels the Metal driver selects for matmul and attention, by GPU family, macOS version and MPSX_TIER."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

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


@pytest.mark.parametrize("seconds", [2, pytest.param(10, marks=pytest.mark.sweep)])
@pytest.mark.parametrize(("variables", "family"), [({}, "apple9"), (M5, "apple10")], ids=["M3", "M5"])
def test_tune(run: Callable[..., str], tmp_path: Path, variables: dict[str, str], family: str, seconds: int) -> None:
    """`python -m mpsx tune` finds no wrong kernel, and writes a file."""
    said = run(f"""
        from mpsx import __main__ as command, _runtime
        from mpsx.cli.tune import measure
        measure.BUSY_ELEMENTS = 1 << 12  # the emulated GPU is slow
        print(_runtime.driver()["gpu_family"])
        assert command.main(["tune", "--size", "tiny", "--seconds", "{seconds}"]) == 0
        assert command.main(["tune", "--size", "tiny", "--verify"]) == 0
    """, MPSX_VENDOR="off", MPSX_CACHE_DIR=str(tmp_path), MPSX_TUNING="1", **variables)  # fmt: skip
    assert said.startswith(family + "\n") and "WRONG" not in said, said
    (file,) = tmp_path.glob("tuning-metal-*.json")
    assert json.loads(file.read_text())["driver"] == "metal"


def test_a_tuning_file_selects_the_tier(run: Callable[..., str], tmp_path: Path) -> None:
    """A file can move the tensor tier's crossover point on an M5, or turn the tier off."""
    for numbers, kernels in [
        ({"matmul_tensor_outputs": 30000}, "attention_tensor_64_f16 matmul_tensor_64x64_nn_f32"),
        ({"tensor_tier": 0}, "attention_64_f16 matmul_f32"),
    ]:
        variables = M5 | {"MPSX_VENDOR": "off", "MPSX_CACHE_DIR": str(tmp_path), "MPSX_TUNING": "1"}
        run(f"from mpsx import tuning; tuning.write({numbers})", **variables)
        said = run(TIERS, **variables)
        assert said.split() == kernels.split()
