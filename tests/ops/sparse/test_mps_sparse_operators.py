"""Overloads that have a sparse COO kernel in PyTorch's MPS backend do not fall back to the CPU."""

from __future__ import annotations

import pytest
import torch
from mps_operators import overload
from mps_sparse_calls import call_of, read_list
from sparse_tensors import check

import mpsx


@pytest.mark.parametrize("name", read_list())
def test_no_fallback(name: str) -> None:
    """Compare the result with the CPU's. Fallbacks raise an error."""
    if overload(name) is None:
        pytest.skip(f"PyTorch {torch.__version__} has no such overload")
    call = call_of(name)
    want = call("cpu")
    with mpsx.fallback.using_mode("error"):
        got = call("mpsx")
    check(got, want)
