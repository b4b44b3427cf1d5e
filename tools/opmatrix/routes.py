"""From a launch log to a status."""

from __future__ import annotations

from collections import Counter

from .tags import STATUSES


def route(log: list[str]) -> str:
    """The route that one sample took, by its log."""
    prefixes = {name.partition(":")[0] for name in log}
    if "fallback" in prefixes:
        return "fallback"
    if "vendor" in prefixes:
        return "vendor"
    return "native" if "kernel" in prefixes else "view"


def worst(shares: Counter[str]) -> str:
    """The status of a case whose samples went these ways."""
    return next(status for status in STATUSES if shares[status])


def names(logs: list[list[str]], prefix: str) -> list[str]:
    """The names that the logs have under a prefix, once each."""
    return sorted({name.removeprefix(prefix) for log in logs for name in log if name.startswith(prefix)})
