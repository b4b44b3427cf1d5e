"""Every kernel of the library with real threadgroups of 32, 64, 256 and 1024 threads, every access checked, against
wide mode and PyTorch's CPU: the calls of tests/simt/kernel_cases, in a process for each size."""

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
from msl.compiler import find_compiler
from msl.translate import load
from simt_library import ROOT, build_once

HERE = Path(__file__).resolve().parent
# One SIMD group, and as many as there can be; the sweep has those between.
SIZES = (32, *(pytest.param(size, marks=pytest.mark.sweep) for size in (64, 256)), 1024)

pytestmark = pytest.mark.usefixtures("simt_library")


def run_cases(path: Path, *arguments: str, **variables: str) -> dict:
    """The results of tests/simt/run_cases.py under these environment variables."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MPSX_SIMT_")} | variables
    environment["MPSX_VENDOR"] = "off"  # on either driver
    command = [sys.executable, str(HERE / "run_cases.py"), str(path), *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stderr[-4000:]
    return torch.load(path)


@pytest.fixture(scope="session")
def wide(shared_folder: Path) -> dict:
    """Results of wide mode and of the CPU."""
    folder = shared_folder / "every-kernel"
    return torch.load(build_once(folder, "wide.pt", lambda: run_cases(folder / "wide.pt", "--cpu", MPSX_DRIVER="host")))


def mismatches(found: dict, wide: dict) -> dict[str, str]:
    """The cases whose outcome is not that of wide mode and of the CPU."""
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


def test_kernels_of_cpus_alone(wide: dict, tmp_path: Path) -> None:
    """Those that a GPU's library does not have are launched by some case, too."""
    found = run_cases(tmp_path / "simt.pt", "--only", "no case at all", MPSX_DRIVER="simt")
    missing = wide["names"] - found["names"] - wide["launched"]
    assert not missing, f"no case launches {sorted(missing)}: add one to tests/simt/kernel_cases"


def overlaid(path: Path) -> set[str]:
    """The kernels of a file with code that an overlay of the host driver replaces (python/mpsx/msl/overlay.py)."""
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
    """Wide mode launches each kernel that an overlay changes, so that test_every_kernel compares it with Metal's own
    body, which simt runs."""
    with ThreadPoolExecutor(2) as pool:
        kernels = set().union(*pool.map(overlaid, sorted(ROOT.glob("metal/*/*.metal"))))
    # One thread is too few for split-K (choose_split_k) and for sorting the index of integer sums (should_sort_index).
    missing = {name for name in kernels - wide["launched"]
               if "_split_k_reduce_" not in name and not name.startswith("segment_sum_")}
    assert not missing, f"no case launches {sorted(missing)} on host: add one to tests/simt/kernel_cases"


@pytest.mark.parametrize("threads", SIZES)
def test_every_kernel(threads: int, wide: dict, tmp_path: Path) -> None:
    size = {"MPSX_DRIVER": "simt", "MPSX_SIMT_THREADS": str(threads)}
    found = run_cases(tmp_path / "simt.pt", **size)
    # 128 x 128 tiles are for GEMMs that fill the device, and simt has many cores.
    few_cores = run_cases(tmp_path / "few.pt", "--only", "128 x 128 tiles", MPSX_SIMT_CORES="2", **size)
    found["launched"] |= few_cores["launched"]
    wrong = mismatches(found, wide) | mismatches(few_cores, wide)
    assert not wrong, f"{len(wrong)} cases:\n" + "\n".join(f"{k}: {v}" for k, v in list(wrong.items())[:20])
    missing = found["names"] - found["launched"]
    assert missing == set(OUT_OF_REACH), (
        f"no case launches {sorted(missing - set(OUT_OF_REACH))}: add one to tests/simt/kernel_cases; "
        f"launched, or no kernels, though out of reach: {sorted(set(OUT_OF_REACH) - missing)}"
    )
