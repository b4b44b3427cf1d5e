"""Dynamic metadata for scikit-build-core: the wheel requires the torch minor version that it was built against."""

from __future__ import annotations

from installed_torch import find

DEFAULT = "2.13"  # where no torch is installed yet, as when an sdist's metadata is read


def dynamic_metadata(field: str, settings: dict[str, object] | None = None, *_: object) -> list[str]:
    """Returns the value of `dependencies`; called by the build backend."""
    if field != "dependencies":
        raise ValueError(f"torch_requirement: expected the field 'dependencies', got {field!r}")
    version = (find() or (DEFAULT,))[0]
    major, minor = (int(part) for part in version.split(".")[:2])
    return [f"torch>={major}.{minor},<{major}.{minor + 1}"]
