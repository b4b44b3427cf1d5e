"""The simt driver finds races in device memory in kernels of mpsx.compile_shader."""

import os
import re
import subprocess
import sys
from pathlib import Path

import torch

import mpsx
from mpsx.shader import kernel_library

SOURCE = Path(__file__).parents[1] / "simt" / "faults" / "device_races.metal"
FAULTS = {  # the number of buffers of each kernel
    "sum_into_one_element": 2, "conflicting_stores": 2, "neighbor_in_place": 1, "device_histogram": 2,
    "exchange_without_barrier": 1, "exchange_with_the_wrong_barrier": 1, "exchange_between_groups": 1,
}  # fmt: skip
THREAD = r"thread \(\d+, 0, 0\)"
GROUP = r"threadgroup \([01], 0, 0\)"


def run_kernels():
    """Check the message of every fault. A correct kernel must run without one."""
    text = SOURCE.read_text()
    library = mpsx.compile_shader(text)
    for name, buffers in FAULTS.items():
        lines = [str(i) for i, line in enumerate(text.splitlines(), 1) if re.search(rf"// fault: {name}\b", line)]
        where = rf"program_source:({'|'.join(lines)})"
        wanted = (rf"{name}: race: (read|write) of 4 bytes at byte \d+ of buffer 0 \(element \d+\), which {THREAD} of "
                  rf"{GROUP} (read|wrote) at program_source:\d+[; ].*, at {where}, {GROUP}, {THREAD}, seed \d+")
        arguments = torch.zeros(128).to("mpsx"), torch.arange(128.0).to("mpsx")
        try:
            getattr(library, name)(*arguments[:buffers], threads=128, group_size=64)
            torch.mpsx.synchronize()
            message = "no fault"
        except RuntimeError as error:
            message = str(error)
        assert re.search(wanted, message), message
    x = torch.arange(128.0).to("mpsx")
    count, done, data, halves = (torch.zeros(128, dtype=t).to("mpsx")
                                 for t in (torch.int32, torch.int32, torch.uint8, torch.half))
    library.no_device_race(x, count, done, data, halves, threads=128, group_size=64)
    i = torch.arange(128) ^ 1
    assert torch.equal(x.cpu(), (i + (i ^ 33)).float())


def test_faults():
    run = subprocess.run([sys.executable, __file__], env=os.environ | {"MPSX_DRIVER": "simt"}, check=False,
                         capture_output=True, text=True, timeout=300)  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]


if __name__ == "__main__":
    kernel_library.shaders_only = True
    run_kernels()
