"""Derive routes and statuses from launch logs."""

from __future__ import annotations

from collections import Counter

from .tags import STATUSES


def route(log: list[str]) -> str:
    """Return the route of a sample, given its launch log."""
    prefixes = {name.partition(":")[0] for name in log}
    if "fallback" in prefixes:
        return "fallback"
    if "vendor" in prefixes:
        return "vendor"
    return "native" if "kernel" in prefixes else "view"


def worst(shares: Counter[str]) -> str:
    """Return the status of a case, given the number of samples for each route."""
    return next(status for status in STATUSES if shares[status])


def names(logs: list[list[str]], prefix: str) -> list[str]:
    """Return the distinct names in the logs that begin with `prefix`, with the prefix removed."""
    return sorted({name.removeprefix(prefix) for log in logs for name in log if name.startswith(prefix)})
