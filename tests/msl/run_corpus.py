"""Run the cases in cases/*.py on the kernels in corpus/*.metal. test_corpus.py starts this script for one driver.

The driver is $MPSX_DRIVER. Prints the failures as JSON: {"file case": traceback}.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cases.common import Run  # noqa: E402

import mpsx  # noqa: E402


def failures(file: str) -> dict[str, str]:
    """Run the cases for one file. Return the failures as {"file case": traceback}."""
    cases = importlib.import_module(f"cases.{file}").CASES
    try:
        lib = mpsx.compile_shader((HERE / "corpus" / f"{file}.metal").read_text())
    except SyntaxError as e:
        return {file: str(e)}
    failed = {}
    with mpsx.profiler.launch_log() as log:
        for case in cases:
            try:
                case(Run(lib))
            except Exception:
                failed[f"{file} {case.__name__}"] = traceback.format_exc()
    called = {name.removeprefix("kernel:").partition("|")[0] for name in log}
    if never := [name for name in dir(lib) if name not in called]:
        failed[file] = f"never called: {', '.join(never)}"
    return failed


if __name__ == "__main__":
    print(json.dumps({name: text for file in sys.argv[1:] for name, text in failures(file).items()}))
