#!/usr/bin/env python3
"""Compare the memory accesses that the simt driver predicts with Nsight Compute's counts on an NVIDIA GPU.

    python tools/bench/ncu.py predict build/ncu --cores 132    anywhere: profile launches on the simt driver
    python tools/bench/ncu.py measure build/ncu                on the machine with the GPU; needs `ncu`
    python tools/bench/ncu.py compare build/ncu [--tsv FILE]   anywhere: print the table
    python tools/bench/ncu.py all build/ncu [--tsv FILE]       all steps, on the machine with the GPU

The cases are in tests/simt/traffic_cases.py. tools/opmatrix/status/cuda.md summarizes the results on an H100. `--cores`
is the GPU's number of multiprocessors, which determines how launchers split work. The predicted run and the measured
run must launch the same kernels.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "simt" / "traffic_cases.py"
BAR = 0.05
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
# Counts to compare, as (metrics to sum, kind of access to predict, predicted field).
COLUMNS = {
    "load requests": ([GLOBAL.format("requests", "ld")], "device load", "requests"),
    "load sectors": ([GLOBAL.format("sectors", "ld")], "device load", "transactions"),
    "store requests": ([GLOBAL.format("requests", "st")], "device store", "requests"),
    "store sectors": ([GLOBAL.format("sectors", "st")], "device store", "transactions"),
    "atomic sectors": ([GLOBAL.format("sectors", op) for op in ("atom", "red")], "device atomic", "transactions"),
    "shared load wavefronts": ([SHARED.format("ld")], "threadgroup load", "transactions"),
    "shared store wavefronts": ([SHARED.format("st")], "threadgroup store", "transactions"),
}
# Additional metrics for investigating differences.
MORE = ["dram__bytes_read.sum", "dram__bytes_write.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        "smsp__thread_inst_executed_per_inst_executed.ratio"]  # fmt: skip


def predict(folder: Path, cores: int) -> None:
    """Predict counts in one process per category, and write them to predicted.json."""
    environment = os.environ | {"MPSX_DRIVER": "simt", "MPSX_SIMT_CORES": str(cores), "MPSX_SIMT_PROFILE": os.devnull}
    found = {}
    categories = ("dense", "strided", "rows", "gather", "matmul")
    parts = {category: folder / f"predicted-{category}.json" for category in categories}
    running = [subprocess.Popen([sys.executable, str(CASES), str(part), category], env=environment)
               for category, part in parts.items()]  # fmt: skip
    if any([process.wait() for process in running]):
        raise SystemExit("a prediction failed")
    for part in parts.values():
        found |= json.loads(part.read_text())
    (folder / "predicted.json").write_text(json.dumps(found))


def measure(folder: Path) -> None:
    """Run the cases under ncu. Write measured.csv and run.json."""
    needed = [metric for metrics, _, _ in COLUMNS.values() for metric in metrics]
    for metrics in (needed + MORE, needed):  # an older ncu may lack some metrics in MORE
        command = ["ncu", "--profile-from-start", "off", "--csv", "--page", "raw", "--print-units", "base", "--metrics",
                   ",".join(metrics), "--log-file", str(folder / "measured.csv"), sys.executable, __file__, "run",
                   str(folder)]  # fmt: skip
        done = subprocess.run(command, env=os.environ | {"MPSX_DRIVER": "cuda"}, check=False)
        if done.returncode == 0 and '"ID"' in (folder / "measured.csv").read_text():
            return
    raise SystemExit((folder / "measured.csv").read_text())


def run(folder: Path) -> None:
    """Run each case once under ncu. Write the names of its kernels to run.json."""
    import ctypes

    sys.path.insert(0, str(CASES.parent))
    import torch
    from traffic_cases import cases, on_device

    import mpsx

    mpsx.fallback.set_mode("error")
    cuda, launched = ctypes.CDLL("libcuda.so.1"), {}
    for case in cases():
        case.function(*on_device(case.inputs))  # compiles the kernels before profiling starts
        inputs = on_device(case.inputs)
        torch.accelerator.synchronize()
        with mpsx.profiler.launch_log() as log:
            cuda.cuProfilerStart()
            case.function(*inputs)
            torch.accelerator.synchronize()
            cuda.cuProfilerStop()
        launched[case.name] = [name.removeprefix("kernel:") for name in log if name.startswith("kernel:")]
    (folder / "run.json").write_text(json.dumps(launched))


def measured_rows(folder: Path) -> list[dict[str, str]]:
    """Return the launches that ncu measured, in launch order."""
    lines = (folder / "measured.csv").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    return list(csv.DictReader(lines[first:]))[1:]  # skip the row that lists units


def number(text: str) -> float:
    """Parse a count. Return NaN if ncu did not measure it."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return float("nan")


def grid_size(text: str) -> int:
    """Return the product of a tuple like "(16, 1, 1)"."""
    return math.prod(int(size) for size in text.strip("()").split(","))


def compare(folder: Path, tsv: Path | None) -> int:
    """Print predicted and measured counts. Return the number of launches that differ by more than BAR."""
    predicted = json.loads((folder / "predicted.json").read_text())
    rows, at, out, wrong, total = measured_rows(folder), 0, [], 0, 0
    for name, kernels in json.loads((folder / "run.json").read_text()).items():
        mine, at = rows[at:at + len(kernels)], at + len(kernels)
        theirs = predicted.get(name, {}).get("launches", [])
        if [launch["kernel"] for launch in theirs] != kernels:
            out.append([name, "", "", "predicted", " ".join(launch["kernel"] for launch in theirs) or "nothing",
                        " ".join(kernels), ""])  # fmt: skip
            wrong, total = wrong + 1, total + 1
            continue
        for launch, row in zip(theirs, mine, strict=True):
            total += 1
            blocks, groups = grid_size(row["Grid Size"]), math.prod(launch["groups"])
            if blocks != groups:
                out.append([name, launch["kernel"], "", "threadgroups", groups, blocks, ""])
                wrong += 1
                continue
            good = True
            for column, (metrics, accesses, field) in COLUMNS.items():
                expected = launch["accesses"].get(accesses, {}).get(field, 0)
                found = sum(number(row[metric]) for metric in metrics)
                ratio = expected / found if found else 1.0 if not expected else float("inf")
                good &= abs(ratio - 1) <= BAR
                if expected or found:
                    out.append([name, launch["kernel"], "" if abs(ratio - 1) <= BAR else "!", column, expected,
                                f"{found:.0f}", f"{ratio:.3f}"])  # fmt: skip
            wrong += not good
    head = ["case", "kernel", "", "count", "predicted", "measured", "ratio"]
    for row in [head, *out]:
        print("{:<32} {:<36} {:<1} {:<24} {:>14} {:>14} {:>7}".format(*map(str, row)))
    kernels = {row[1] for row in out if row[1]}
    print(f"{total - wrong} of {total} launches agree within {BAR:.0%} in every count; {len(kernels)} kernels")
    if tsv:
        tsv.write_text("".join("\t".join(map(str, row)) + "\n" for row in [head, *out]))
    return wrong


def main() -> int:
    """Run the command-line interface."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("predict", "measure", "run", "compare", "all"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cores", type=int, default=132, help="multiprocessors of the GPU (default: an H100's 132)")
    parser.add_argument("--tsv", type=Path, help="write the table there too")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.command == "run":
        run(arguments.folder)
    if arguments.command in ("predict", "all"):
        predict(arguments.folder, arguments.cores)
    if arguments.command in ("measure", "all"):
        measure(arguments.folder)
    return min(compare(arguments.folder, arguments.tsv), 1) if arguments.command in ("compare", "all") else 0


if __name__ == "__main__":
    sys.exit(main())
