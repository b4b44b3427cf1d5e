"""Strict mode rejects OpInfos with the dtypes that PyTorch's MPS backend lacks, and accepts those that it
implements."""

from __future__ import annotations

import pytest
import torch
from opmatrix import strict

from mpsx.strict import lists

pytestmark = pytest.mark.skipif(not torch.__version__.startswith(lists.VERSION),
                                reason=f"the lists describe torch {lists.VERSION}")  # fmt: skip


def test_all() -> None:
    assert sum(strict.expected().values()) > 400
    assert strict.compare(strict.expected()) == {}


def test_reasons_are_used() -> None:
    assert all(any(strict.reason(key) for key in strict.expected() if key[0] == name)
               for name in strict.UNLIKE_THE_LISTS)  # fmt: skip
