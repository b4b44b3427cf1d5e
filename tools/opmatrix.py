#!/usr/bin/env python3
"""Measure the op-support matrix: how each operator in PyTorch's OpInfo database runs, by dtype and direction.

    python tools/opmatrix.py                         all operators on the host driver; resume an interrupted run
    python tools/opmatrix.py --only softmax          some operators
    python tools/opmatrix.py --drivers host simt     other drivers, if they are built
    python tools/opmatrix.py --check                 fail if an operator lost its kernel or the summary is stale
    python tools/opmatrix.py --update                rewrite the summary (tools/opmatrix/status) and README.md's totals

Each case runs a test from tests/opinfo, which compares results with the CPU. It reads the launch log of the forward
pass, or of the backward pass for the direction "backward". A case has the status of its worst sample:

    fails      differs from the CPU, raises, or crashes
    fallback   an operator without a kernel ran on the CPU
    vendor     no fallback; a CPU library computed something
    native     only Metal kernels ran
    view       no kernel ran: a view, or a query of shape or dtype
    untested   the CPU rejects every sample, or the operator has no comparable result

Results are written to build/opmatrix: index.html, matrix.json, matrix.csv, and <driver>.jsonl, which an interrupted run
resumes from. Results from a different build or different tests are measured again unless --keep is given. "mps" is the
result that PyTorch's tests expect from its MPS backend: passes, fails, skipped, or not tested.
"""

import sys

from opmatrix.cli import main

if __name__ == "__main__":
    sys.exit(main())
