"""Dynamic metadata for scikit-build-core: require the minor version of torch that the wheel is built against."""

from __future__ import annotations

from installed_torch import find

DEFAULT = "2.13"  # used if torch is not installed, for example when a tool reads an sdist's metadata


def dynamic_metadata(field: str, settings: dict[str, object] | None = None, *_: object) -> list[str]:
    """Return the value of the field `dependencies`. scikit-build-core calls this."""
    if field != "dependencies":
        raise ValueError(f"torch_requirement: expected the field 'dependencies', got {field!r}")
    version = (find() or (DEFAULT,))[0]
    major, minor = (int(part) for part in version.split(".")[:2])
    return [f"torch>={major}.{minor},<{major}.{minor + 1}"]
