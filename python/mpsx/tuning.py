"""The tuning file: numbers that launchers choose kernels by, as `python -m mpsx tune` measured them on this GPU.

It replaces some numbers of the table (src/runtime/tuning.def) when the driver starts, if it was written for the same
driver, device, and version of mpsx. Otherwise, mpsx warns once and uses the table. It is JSON:

    {"mpsx": "0.1.0", "driver": "cuda", "device": "NVIDIA H100", "date": "2026-01-31",
     "numbers": {"matmul_128x128_16bit": 0.7}, ...}
"""

from __future__ import annotations

import functools
import json
import os
import re
import tempfile
import warnings
from pathlib import Path

from . import _runtime
from ._build_info import VERSION


def identity() -> dict[str, str]:
    """Return what a file must match to be used."""
    info = _runtime.driver()
    return {"mpsx": VERSION, "driver": info["name"], "device": info["device"]}


def path() -> Path:
    """Return the path of this device's file."""
    from .shader.cache import current_cache

    found = identity()
    name = re.sub(r"[^a-z0-9]+", "-", f"{found['driver']} {found['device']}".lower()).strip("-")
    return current_cache().path(f"tuning-{name}.json")


def problem(record: object) -> str:
    """Return why a file cannot be used, or "" if it can."""
    if not isinstance(record, dict) or not isinstance(record.get("numbers"), dict):
        return "it is not a tuning file"
    for key, expected in identity().items():
        if record.get(key) != expected:
            return f"it was written for {key} {record.get(key)!r}, and this is {expected!r}"
    known = _runtime.tuning("")
    for name, value in record["numbers"].items():
        if name not in known:
            return f"it has an unknown number {name!r}"
        low, high = known[name]["low"], known[name]["high"]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            return f"it has {name} = {value!r}, and expected is a number from {low:g} to {high:g}"
    return ""


@functools.cache
def load() -> tuple[dict[str, float], str]:
    """Return the numbers of this device's file, and a description of it. Warn if the file cannot be used."""
    if os.environ.get("MPSX_TUNING") == "0":
        return {}, "the defaults, because of MPSX_TUNING=0"
    if _runtime.driver()["name"] == "simt":
        return {}, "the defaults"
    file = path()
    try:
        record = json.loads(file.read_text())
    except FileNotFoundError:
        return {}, "the defaults; python -m mpsx tune measures this device"
    except (OSError, ValueError) as error:
        why = f"it cannot be read: {error}"
    else:
        if not (why := problem(record)):
            os.utime(file)  # the cache deletes the files that have not been used for the longest time
            return record["numbers"], f"{len(record['numbers'])} numbers measured on {record.get('date')}, in {file}"
    warnings.warn(f"mpsx: ignoring {file}: {why}. python -m mpsx tune replaces it.", stacklevel=2)
    return {}, f"the defaults, because {file} was ignored: {why}"


def numbers() -> dict[str, float]:
    """Return the numbers of this device's file. The driver calls this when it starts."""
    return load()[0]


def description() -> str:
    """Describe the tuning in use."""
    family = _runtime.driver()["gpu_family"]
    return load()[1] + (f" (GPU family {family})" if family else "")


def write(values: dict[str, float], **more: object) -> Path:
    """Write this device's file and return its path. New processes use it."""
    file = path()
    handle, temporary = tempfile.mkstemp(prefix="tmp-", dir=file.parent)
    with os.fdopen(handle, "w") as out:
        json.dump({**identity(), **more, "numbers": values}, out, indent=1)
        out.write("\n")
    os.replace(temporary, file)
    return file
