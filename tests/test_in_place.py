"""In-place operators whose other operand is larger: self keeps its shape."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

InPlace = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
CALLS: dict[str, InPlace] = {
    "add_": lambda x, y: x.add_(y),
    "mul_": lambda x, y: x.mul_(y),
    "lt_": lambda x, y: x.lt_(y),
    "pow_": lambda x, y: x.pow_(y),
    "remainder_": lambda x, y: x.remainder_(y),
    "clamp_": lambda x, y: x.clamp_(min=y),
    "addcmul_": lambda x, y: x.addcmul_(y, y),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 0, 1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("name", CALLS)
def test_a_larger_operand_is_an_error(name: str, dtype: torch.dtype) -> None:
    for device in ("cpu", "mpsx"):
        x, y = torch.ones(1, dtype=dtype, device=device), torch.ones(3, dtype=dtype, device=device)
        with pytest.raises(RuntimeError, match=r"shape|size"):
            CALLS[name](x, y)
        assert x.shape == (1,)


def test_a_larger_operand_of_another_type_is_an_error() -> None:
    x = torch.ones(1, dtype=torch.float16, device="mpsx")
    for name in ("add_", "mul_", "lt_", "addcmul_"):
        with pytest.raises(RuntimeError, match=r"output with shape \[1\] doesn't match the broadcast shape \[3\]"):
            CALLS[name](x, torch.ones(3, device="mpsx"))
        assert x.shape == (1,)
