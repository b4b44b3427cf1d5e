"""The package on the versions of macOS whose Metal differs, as the emulation provides them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

ALWAYS = ":0:1000000"
SYSTEMS = {
    "14": ("macos_14", "no_residency_sets", "no_metal_4"),
    "15": ("macos_15", "no_metal_4"),
    "26": ("macos_26",),
}


def as_system(version: str) -> dict[str, str]:
    """Return the environment in which the emulation acts as a version of macOS."""
    return {"MPSX_EMULATION_FAIL": ",".join(what + ALWAYS for what in SYSTEMS[version])}


@pytest.mark.parametrize("version", SYSTEMS)
def test_system(run: Callable[..., str], version: str) -> None:
    """Training gives the CPU's losses, and shaders are compiled in the newest language."""
    run(f"""
        from ctypes import c_char_p
        torch.testing.assert_close(train("mpsx"), train("cpu"), rtol=5e-7, atol=0)
        emulation.mpsx_emulation_compiled.restype = c_char_p
        shader = mpsx.compile_shader(
            "kernel void f(device float* y, uint i [[thread_position_in_grid]]) {{ y[i] = i; }}")
        x = torch.zeros(9, device="mpsx")
        shader.f(x)
        assert x.tolist() == list(range(9))
        options = emulation.mpsx_emulation_compiled().decode().split("\\n")[0]
        assert options == {{"14": "3.1 safe precise", "15": "3.2 safe precise", "26": "4.0 safe precise"}}["{version}"]
    """, **as_system(version))  # fmt: skip


@pytest.mark.parametrize("variables", [{}, {"MPSX_EMULATION_FAIL": "m5" + ALWAYS, "MPSX_TIER": "tensor"}],
                         ids=["simdgroup", "tensor"])  # fmt: skip
def test_a_training_step_compiles_only_what_it_uses(run: Callable[..., str], variables: dict[str, str]) -> None:
    """The first step of a ResNet builds a pipeline for each kernel that it launches, out of thousands."""
    said = run("""
        import sys
        from mpsx import _runtime
        emulation.mpsx_emulation_pipelines.restype = ctypes.c_ulong
        emulation.mpsx_emulation_fail(b"execution", 0, 1 << 30)  # count the work, without doing it
        sys.path.insert(0, "tools")
        from bench.zoo import ZOO
        model = ZOO["resnet50"]
        network = model.build(True).to("mpsx")
        batch = {key: x.to("mpsx") for key, x in model.batch(True).items()}
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
        model.loss(network, batch).backward()
        optimizer.step()
        torch.mpsx.synchronize()
        used = [row.name for row in mpsx.profiler.rows() if row.route == "native"]
        print(len(_runtime.kernel_names()), len(used), emulation.mpsx_emulation_pipelines())
    """, MPSX_METAL_ARCHIVE="0", **variables)  # fmt: skip
    kernels, used, pipelines = map(int, said.split())
    assert kernels > 2000
    assert used == pipelines < 100
