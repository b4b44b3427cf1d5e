"""`python -m mpsx shader file.metallib`: list a metallib's kernels, or run one of them."""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .. import _runtime


def is_metallib(path: Path) -> bool:
    """Return whether a file is a metallib, according to its contents or to its name."""
    from ..air import metallib

    with open(path, "rb") as file:
        return metallib.is_metallib(file.read(4)) or path.suffix == ".metallib"


def load(arguments: argparse.Namespace) -> object:
    """Load the metallib named on the command line."""
    from ..air.library import load_metallib

    if arguments.include or arguments.profile:
        raise ValueError(f"{'-I' if arguments.include else '--profile'}: expected Metal source, got a metallib")
    return load_metallib(arguments.file)


def print_listing(arguments: argparse.Namespace, library: object, listing: Callable[[list[dict]], str]) -> None:
    """Print the kernels that match --match, with their arguments and function constants. Also print the kernels that
    are not supported."""
    from ..air.ir import AirError

    shader = library.__dict__["__shader"]
    names = fnmatch.filter(dir(library), arguments.match)

    def describe(name: str) -> dict | str:
        try:
            return shader.describe(name)
        except AirError as error:
            return str(error)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(describe, names))
    print(listing([f for f in found if isinstance(f, dict)]))
    unsupported = {name: why for name, why in zip(names, found, strict=True) if isinstance(why, str)}
    for name, why in unsupported.items():
        print(f"{name}    not supported: {why}")
    driver = _runtime.driver()["name"]
    print(f"{arguments.file}: {len(names) - len(unsupported)} of {len(names)} kernels run on {driver}")
    for why, count in Counter(unsupported.values()).most_common():
        print(f"    {count} not supported: {why}")
