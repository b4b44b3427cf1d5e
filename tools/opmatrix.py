#!/usr/bin/env python3
"""The op-support matrix: for every operator of PyTorch's OpInfo database, type and direction, what ran on the device.

    python tools/opmatrix.py                         everything on the driver host; resumes where it was ended
    python tools/opmatrix.py --only softmax          some operators
    python tools/opmatrix.py --drivers host simt     other drivers (those that are built)
    python tools/opmatrix.py --check                 fails if an operator lost its kernel, or the summary is stale
    python tools/opmatrix.py --update                rewrites the summary (tools/opmatrix/status) and README.md's totals

Each case runs the test of tests/opinfo, which compares with the CPU. What ran is read from the launch log, open only
while the device computes (of the backward: only in the backward pass). A case is as good as its worst sample:

    fails      differs from the CPU, raises, or ends the process
    fallback   an operator ran on the CPU for want of a kernel, whatever else ran
    vendor     no fallback; a library of the CPU's computed something, whatever Metal kernels ran beside it
    native     Metal kernels ran, and nothing else
    view       nothing ran: a view, or a question about shape or type
    untested   the CPU refuses every sample, or there is nothing to compare with

Results go to build/opmatrix: index.html for people, matrix.json and matrix.csv for programs, <driver>.jsonl to resume
from. What was measured with another build, or other tests, is measured again (--keep: is taken as it is). "mps" is what
PyTorch's own tests expect of its MPS backend: passes, fails, skipped, or not tested.
"""

import sys

from opmatrix.cli import main

if __name__ == "__main__":
    sys.exit(main())
