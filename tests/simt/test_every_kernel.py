"""Run every kernel on the simt driver, and compare with wide mode and with PyTorch's CPU results.

Runs the cases in tests/simt/kernel_cases with threadgroups of 1024 threads, and those of one dtype with 32 threads. The
sweep runs all cases with 32, 64 and 256 threads, too. The driver checks every access.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from kernel_cases import OUT_OF_REACH
from kernel_outcomes import difference, excess
from msl.codegen.simt import CallGraph
from msl.compiler import find_compiler, is_tensor_source
from msl.translate import load
from simt_library import ROOT, build_once
from tables import TAGS

HERE = Path(__file__).resolve().parent
TENSOR_TIER = "tensor tier"  # its cases have names that begin with this
TENSOR_KERNEL = re.compile(r"(gemv|matmul|attention|conv)\w*_tensor_|dequantize_int4_")
# The largest threadgroup. The sweep adds the smaller ones.
SIZES = (*(pytest.param(size, marks=pytest.mark.sweep) for size in (32, 64, 256)), 1024)
DTYPE = re.compile(rf"_({'|'.join(TAGS.values())})(?=_|$)")  # in a kernel's name

pytestmark = pytest.mark.usefixtures("simt_library")


def run_cases(path: Path, *arguments: str, **variables: str) -> dict:
    """Run tests/simt/run_cases.py with the given environment variables, and return the results."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MPSX_SIMT_")} | variables
    environment["MPSX_VENDOR"] = "off"  # makes both drivers run kernels
    command = [sys.executable, str(HERE / "run_cases.py"), str(path), *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stderr[-4000:]
    return torch.load(path)


@pytest.fixture(scope="session")
def wide(shared_folder: Path) -> dict:
    """Return the results of wide mode and of the CPU."""
    folder = shared_folder / "every-kernel"
    return torch.load(build_once(folder, "wide.pt", lambda: run_cases(folder / "wide.pt", "--cpu", MPSX_DRIVER="host")))


def mismatches(found: dict, wide: dict) -> dict[str, str]:
    """Describe the cases whose results differ from wide mode or from the CPU."""
    wrong = {}
    for name, result in found["results"].items():
        if isinstance(result, str):
            wrong[name] = result
        elif isinstance(wide["results"][name], str):
            wrong[name] = f"wide mode: {wide['results'][name]}"
        elif bounds := wide["bounds"].get(name):
            for mode, tensors in (("simt", result), ("wide mode", wide["results"][name])):
                if text := excess(tensors, wide["expected"][name], bounds):
                    wrong[name] = f"{mode}: {text}"
        elif text := difference(result, wide["results"][name]):
            wrong[name] = f"against wide mode: {text}"
        elif name in wide["expected"] and (text := difference(result, wide["expected"][name])):
            wrong[name] = f"against the CPU: {text}"
    return wrong


def test_cpu_only_kernels(wide: dict, tmp_path: Path) -> None:
    """Some case launches each kernel that exists only in the host driver's library."""
    found = run_cases(tmp_path / "simt.pt", "--only", "no case at all", MPSX_DRIVER="simt")
    missing = wide["names"] - found["names"] - wide["launched"]
    assert not missing, f"no case launches {sorted(missing)}: add one to tests/simt/kernel_cases"


def overlaid(path: Path) -> set[str]:
    """Return a file's kernels that use code replaced by a host overlay (python/mpsx/msl/overlay.py)."""
    src, module, _ = load(str(path), [str(ROOT / "metal")], [],
                          find_compiler().preprocessor(), overlays=True)  # fmt: skip
    replaced = {src.texts[d.name] for d in module.unit.all if d.name >= 0
                and Path(src.position(src.starts[d.begin])[0]).parent.name == "host"}  # fmt: skip
    if not replaced:
        return set()
    calls, found = CallGraph(module.unit), set()
    for instance in module.instances:
        named = set(re.findall(r"\w+", instance.expression))
        used = named | set(calls.reachable_words(instance.kernel.name, instance.kernel.body))
        for body in (body for name in named for body in calls.bodies.get(name, ())):
            used |= set(calls.reachable_words("", body))
        if used & replaced:
            found.add(instance.host_name)
    return found


def test_every_overlay(wide: dict) -> None:
    """In wide mode, the cases launch every kernel that an overlay changes.

    test_every_kernel compares these results with simt, which runs the original Metal code.
    """
    with ThreadPoolExecutor(2) as pool:
        files = sorted(path for path in ROOT.glob("metal/*/*.metal") if not is_tensor_source(path.name))
        kernels = set().union(*pool.map(overlaid, files))
    # With one thread, choose_split_k() does not split K, and should_sort_index() does not sort the indices of integer
    # sums.
    missing = {name for name in kernels - wide["launched"]
               if "_split_k_reduce_" not in name and not name.startswith("segment_sum_")}
    assert not missing, f"no case launches {sorted(missing)} on host: add one to tests/simt/kernel_cases"


def check_launches(found: dict, wide: dict, expected: set[str]) -> None:
    """Check the results, and check that the cases launch each expected kernel."""
    wrong = mismatches(found, wide)
    assert not wrong, f"{len(wrong)} cases:\n" + "\n".join(f"{k}: {v}" for k, v in list(wrong.items())[:20])
    missing = expected - found["launched"]
    assert missing == set(OUT_OF_REACH) & expected, (
        f"no case launches {sorted(missing - set(OUT_OF_REACH))}: add one to tests/simt/kernel_cases; "
        f"launched, or no kernels, though out of reach: {sorted(set(OUT_OF_REACH) - missing)}"
    )


def check_launches_of_one_type(found: dict, wide: dict, expected: set[str]) -> None:
    """Check the results of `--one-type`, and that the cases launch each expected kernel in one of its dtypes."""
    launched, expected = ({DTYPE.sub("", name) for name in names} for names in (found["launched"], expected))
    check_launches(found | {"launched": launched}, wide, expected)


def run_with(threads: int, tmp_path: Path, *arguments: str) -> dict:
    """Run the cases of all kernels but those of the tensor tier, with threadgroups of this size."""
    size = {"MPSX_DRIVER": "simt", "MPSX_SIMT_THREADS": str(threads)}
    found = run_cases(tmp_path / "simt.pt", "--without", TENSOR_TIER, *arguments, **size)
    # GEMMs use 128 x 128 tiles only if these fill the device, so make simt report two cores.
    few_cores = run_cases(tmp_path / "few.pt", "--only", "128 x 128 tiles", *arguments, MPSX_SIMT_CORES="2", **size)
    for part in ("results", "launched"):
        found[part] |= few_cores[part]
    return found


@pytest.mark.parametrize("threads", SIZES)
def test_every_kernel(threads: int, wide: dict, tmp_path: Path) -> None:
    found = run_with(threads, tmp_path)
    check_launches(found, wide, {name for name in found["names"] if not TENSOR_KERNEL.match(name)})


def test_small_threadgroups(wide: dict, tmp_path: Path) -> None:
    """Run every kernel with 32 threads in one of its dtypes. Kernels of different dtypes are generated from one
    function."""
    found = run_with(32, tmp_path, "--one-type")
    check_launches_of_one_type(found, wide, {name for name in found["names"] if not TENSOR_KERNEL.match(name)})


def tensor_cases(path: Path, *arguments: str, **variables: str) -> dict:
    """Run cases of the tensor tier. With one core, the tile depends only on the shape."""
    tensor = {"MPSX_DRIVER": "simt", "MPSX_TIER": "tensor", "MPSX_SIMT_CORES": "1"} | variables
    return run_cases(path, *arguments, **tensor)


@pytest.mark.parametrize("all_types", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_tensor_tier(all_types: bool, wide: dict, tmp_path: Path) -> None:
    """Kernels of the tensor tier have fixed thread counts. By default, run every kernel in one of its dtypes."""
    clusters, types = f"{TENSOR_TIER}, clusters", [] if all_types else ["--one-type"]
    found = tensor_cases(tmp_path / "tensor.pt", "--only", TENSOR_TIER, "--without", clusters, *types)
    # Small tiles change neither attention nor what eight cores run.
    small = tensor_cases(tmp_path / "small.pt", "--only", TENSOR_TIER, "--without", "clusters|attention", *types,
                         MPSX_SIMT_LARGE_TILES="0")  # fmt: skip
    on_eight_cores = tensor_cases(tmp_path / "clusters.pt", "--only", clusters, *types, MPSX_SIMT_CORES="8")
    for more in (small, on_eight_cores):
        wrong = mismatches(more, wide)
        assert not wrong, wrong
        found["launched"] |= more["launched"]
    check = check_launches if all_types else check_launches_of_one_type
    check(found, wide, {name for name in found["names"] if TENSOR_KERNEL.match(name)})


@pytest.mark.sweep
@pytest.mark.parametrize("large_tiles", ["0", "1"])
def test_whole_tensor_tier(large_tiles: str, wide: dict, tmp_path: Path) -> None:
    """Run all cases of the tensor tier on one core."""
    found = tensor_cases(tmp_path / "tensor.pt", "--only", TENSOR_TIER, MPSX_SIMT_LARGE_TILES=large_tiles)
    wrong = mismatches(found, wide)
    assert not wrong, wrong
