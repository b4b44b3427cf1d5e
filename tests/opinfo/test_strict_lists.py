"""Strict mode rejects the OpInfos and dtypes that PyTorch's MPS does not implement, and accepts those that pass."""

from __future__ import annotations

import pytest
import torch
from opmatrix import strict

from mpsx.strict import lists

pytestmark = pytest.mark.skipif(not torch.__version__.startswith(lists.VERSION),
                                reason=f"the lists describe torch {lists.VERSION}")  # fmt: skip


def test_sample() -> None:
    keys = list(strict.expected())
    lacking = [key for key in keys if strict.expected()[key]]
    assert len(lacking) > 400
    assert strict.compare([*lacking[::16], *keys[::60]], count=1) == {}


@pytest.mark.sweep
def test_all() -> None:
    assert strict.compare(strict.expected(), count=None) == {}


def test_reasons_are_used() -> None:
    assert all(any(strict.reason(key) for key in strict.expected() if key[0] == name)
               for name in strict.UNLIKE_THE_LISTS)  # fmt: skip
