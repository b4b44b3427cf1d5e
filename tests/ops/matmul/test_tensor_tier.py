"""Matmuls on the tensor tier (MPSX_TIER=tensor), using simt or a GPU driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import run_in_subprocess
from tensor_tier import DRIVER, SEEDS, run_script


@pytest.mark.parametrize("seed", SEEDS)
def test_random_operands(seed: int) -> None:
    """For random sizes, layouts, dtypes, batches and epilogues, the results are as accurate as the CPU's."""
    run_script(Path(__file__).with_name("random_gemms.py"), seed)


def test_wrong_tier() -> None:
    done = run_in_subprocess("import mpsx; x = torch.ones(4, 4, device='mpsx'); x @ x", MPSX_TIER="nax")
    assert 'MPSX_TIER: expected simdgroup or tensor, got "nax"' in done.stderr


def test_driver_without_tensors() -> None:
    code = "import mpsx; x = torch.ones(4, 4, device='mpsx'); x @ x"
    done = run_in_subprocess(code, MPSX_TIER="tensor", MPSX_DRIVER="host", MPSX_VENDOR="off")
    assert "MPSX_TIER=tensor: expected a driver with Metal 4's tensors" in done.stderr


@pytest.mark.skipif(DRIVER != "cuda", reason="counts the kernels in the CUDA driver's cache")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_compiles_only_the_chosen_kernel(tmp_path: Path, dtype: str) -> None:
    """Choosing between tile sizes does not compile the kernels of the others."""
    done = run_in_subprocess(f"""if True:
        import mpsx
        a, b = (torch.empty(512, n, dtype=torch.{dtype}, device="mpsx") for n in (1024, 768))
        with mpsx.profiler.launch_log() as log:
            a.t() @ b
        print(len(set(log)))
    """, MPSX_CACHE_DIR=str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len([file for file in tmp_path.glob("cuda/*/*") if file.is_file()]) == int(done.stdout)
