"""Prints `version;folder` of the installed torch without importing it (an import takes seconds)."""

import importlib.metadata
import importlib.util
import sys

spec = importlib.util.find_spec("torch")
if spec is None:
    sys.exit("torch is not installed")
version = importlib.metadata.version("torch").split("+")[0]
print(f"{version};{spec.submodule_search_locations[0]}", end="")
