"""Build backend: scikit-build-core, plus a build requirement on torch if torch is not installed.

If the requirement were unconditional, isolated builds would download torch again (on Linux, with CUDA).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from installed_torch import find
from scikit_build_core.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from scikit_build_core.build import get_requires_for_build_editable as editable_requires
from scikit_build_core.build import get_requires_for_build_wheel as wheel_requires

__all__ = ["build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable",
           "get_requires_for_build_sdist", "get_requires_for_build_wheel", "prepare_metadata_for_build_editable",
           "prepare_metadata_for_build_wheel"]  # fmt: skip

TORCH = "torch>=2.13,<2.14"  # used if torch is not installed
Settings = Mapping[str, Any] | None


def with_torch(requires: list[str]) -> list[str]:
    """Add torch to the build requirements if it is not installed."""
    return requires if find() else [*requires, TORCH]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return the requirements of a wheel build (PEP 517)."""
    return with_torch(wheel_requires(config_settings))


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Return the requirements of an editable build (PEP 660)."""
    return with_torch(editable_requires(config_settings))
