"""The fixture `msl` of tests/kernels: a Metal source compiled and called through the kernel ABI."""

import importlib.util
from pathlib import Path

_path = Path(__file__).parents[1] / "kernels" / "conftest.py"
_spec = importlib.util.spec_from_file_location("kernels_conftest", _path)
_kernels = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_kernels)
msl = _kernels.msl
