"""Strict mode rejects OpInfos with the dtypes that PyTorch's MPS backend lacks, and accepts those that it
implements."""

from __future__ import annotations

import pytest
import torch
from opmatrix import strict

from mpsx.strict import lists

pytestmark = pytest.mark.skipif(not torch.__version__.startswith(lists.VERSION),
                                reason=f"the lists describe torch {lists.VERSION}")  # fmt: skip
PARTS = 32  # number of parts of the sweep; each must stay well below the test timeout


def test_sample() -> None:
    keys = list(strict.expected())
    lacking = [key for key in keys if strict.expected()[key]]
    assert len(lacking) > 400
    assert strict.compare([*lacking[::16], *keys[::60]], count=1) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_all(part: int) -> None:
    assert strict.compare(list(strict.expected())[part::PARTS], count=None) == {}


def test_reasons_are_used() -> None:
    assert all(any(strict.reason(key) for key in strict.expected() if key[0] == name)
               for name in strict.UNLIKE_THE_LISTS)  # fmt: skip
