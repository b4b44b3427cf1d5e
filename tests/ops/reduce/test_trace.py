"""torch.trace: dtypes and layouts."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")


def test_trace() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64):
        wide = torch.randn(70, 90) * 9
        for x in (wide, wide.t()[:, :3], wide[:0], wide[:1, :1], wide[:, ::2]):
            given = x.to(dtype)
            # In torch 2.11, the CPU's trace does not support half precision.
            expected = given.float().trace().to(dtype) if dtype.is_floating_point else given.trace()
            result = x.to("mpsx").to(dtype).trace()
            assert result.dtype == expected.dtype and result.shape == expected.shape
            torch.testing.assert_close(result.cpu(), expected)
    assert torch.eye(5, dtype=torch.bool, device="mpsx").trace().item() == 5
