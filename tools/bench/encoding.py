#!/usr/bin/env python3
"""Count the instructions with which the Metal driver encodes a training step, on emulated Metal under valgrind.

    apt install valgrind
    python tools/dev.py run -- python tools/bench/encoding.py [resnet50 gpt2 …] [--optimizer foreach] [--driver FOLDER]

Prints instructions per dispatch of the driver with concurrent and with serial encoders. They include what the driver
calls in the C and C++ libraries and the lookup of Objective-C methods, but no method of the emulated Metal. Messages
are calls of Metal's and Foundation's methods. `--driver` measures another copy of src/driver/metal.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

import mpsx

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "build")]

import emulated_metal  # noqa: E402

from bench.zoo import ZOO  # noqa: E402

STREAM = "mpsx::driver::metal::CommandStream::"
# The functions that callers of the stream use while they encode. They do not call each other.
ENTRIES = ("dispatch(*", "synchronize()", "add(*", "release(*", "is_complete(*", "wait_until_nothrow(*")
FLAGS = ("-O2", "-g0")  # the optimization of a release build; valgrind cannot read the newest debug information


def step(name: str, optimizer_kind: str) -> None:
    """Train a small model for two steps, and count the second one. Prints the number of its dispatches."""
    emulation = ctypes.CDLL(None)
    emulation.mpsx_emulation_dispatches.restype = ctypes.c_ulong
    emulation.mpsx_emulation_fail(b"execution", 0, 1 << 30)
    torch.autograd.set_multithreading_enabled(False)
    network = ZOO[name].build(True).to("mpsx")
    batch = {key: x.to("mpsx") for key, x in ZOO[name].batch(True).items()}
    optimizer = None
    if optimizer_kind != "none":
        optimizer = torch.optim.AdamW(network.parameters(), **{optimizer_kind: True})
    for count in (False, True):
        network.zero_grad()
        torch.mpsx.synchronize()
        if count:
            own = {"PATH": os.environ["PATH"]}  # without the emulation
            subprocess.run(["callgrind_control", "-i", "on", str(os.getpid())], env=own, check=True)
            emulation.mpsx_emulation_delay(300000)  # keep the GPU busy, so that batches are full
        before = emulation.mpsx_emulation_dispatches()
        ZOO[name].loss(network, batch).backward()
        if optimizer:
            optimizer.step()
        emulation.mpsx_emulation_delay(0)
        torch.mpsx.synchronize()
    print("dispatches:", emulation.mpsx_emulation_dispatches() - before)


def is_driver(function: str) -> bool:
    """Return whether a function belongs to the driver."""
    return "mpsx::driver::" in function and "emulation" not in function and not function.startswith("__wrap")


def read(profile: Path) -> tuple[int, int, Counter[str]]:
    """Return a profile's instructions of the driver, those of its library calls, and its calls by function."""
    names: dict[str, str] = {}

    def name(text: str) -> str:
        number, _, given = text.partition(" ")
        return names.setdefault(number, given)

    own, libraries, calls = 0, 0, Counter[str]()
    function = callee = ""
    times = 0  # of the call that the next line describes
    for line in profile.read_text().splitlines():
        if line.startswith("fn="):
            function = name(line[3:])
        elif line.startswith("cfn="):
            callee = name(line[4:])
        elif line.startswith("calls="):
            times = int(line[6:].split()[0])
        elif re.match(r"[-+*\d]", line) and is_driver(function):
            cost = int(line.split()[1])
            if not times:
                own += cost
            elif not is_driver(callee):
                calls[callee] += times
                if not re.match(r"_[ic]_|__wrap|objc_autorelease", callee):
                    libraries += cost
        if not line.startswith("calls="):
            times = 0
    return own, libraries, calls


def measure(model: str, optimizer: str, driver: Path, serial: bool) -> str:
    """Return a row of the table."""
    package = Path(mpsx.__file__).parent
    library = emulated_metal.build_library(driver, FLAGS)
    emulated_metal.link_package(package, emulated_metal.OUTPUT / "site")
    environment = emulated_metal.variables(emulated_metal.OUTPUT / "site", [library]) | {
        "MPSX_METAL_EXACT_BUFFERS": "0", "MPSX_EMULATION_GUARD": "0", "MPSX_EMULATION_DELAY": "0",
        "MPSX_METAL_SERIAL": str(int(serial)), "PYTHONMALLOC": "malloc", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no",
                   f"--callgrind-out-file={profile}", *(f"--toggle-collect={STREAM}{entry}" for entry in ENTRIES),
                   sys.executable, __file__, model, "--optimizer", optimizer, "--step"]  # fmt: skip
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        dispatches = int(re.findall(r"dispatches: (\d+)", done.stdout)[-1])
        own, libraries, calls = read(profile)
    messages = sum(times for callee, times in calls.items() if callee.startswith(("_i_", "_c_")))
    kind = "serial" if serial else "concurrent"
    row = f"{own / dispatches:>8.0f}{libraries / dispatches:>11.0f}{(own + libraries) / dispatches:>8.0f}"
    return f"{model:<10}{optimizer:<9}{kind:<11}{dispatches:>10}{row}{messages / dispatches:>10.1f}"


def main() -> None:
    """Run the command-line interface."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["resnet50", "gpt2"], help=", ".join(ZOO))
    parser.add_argument("--optimizer", choices=("none", "foreach", "fused"), default="none")
    parser.add_argument("--driver", type=Path, default=emulated_metal.DRIVER)
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)  # runs under valgrind
    options = parser.parse_args()
    if options.step:
        return step(options.models[0], options.optimizer)
    print(f"{'':<30}{'dispatches':>10}{'driver':>8}{'libraries':>11}{'total':>8}{'messages':>10}")
    for model in options.models:
        for serial in (False, True):
            print(measure(model, options.optimizer, options.driver, serial), flush=True)


if __name__ == "__main__":
    main()
