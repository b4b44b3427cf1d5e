"""In-place operators whose operand is larger than self. The shape of self must not change."""

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
def test_larger_operand_raises(name: str, dtype: torch.dtype) -> None:
    for device in ("cpu", "mpsx"):
        x, y = torch.ones(1, dtype=dtype, device=device), torch.ones(3, dtype=dtype, device=device)
        with pytest.raises(RuntimeError, match=r"shape|size"):
            CALLS[name](x, y)
        assert x.shape == (1,)


METHODS = """eq ne lt le gt ge greater less not_equal logical_and logical_or logical_xor add sub mul div pow fmod
    remainder floor_divide true_divide divide multiply subtract atan2 arctan2 bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift bitwise_right_shift copysign hypot nextafter gcd lcm heaviside ldexp clamp clamp_min clamp_max
    xlogy igamma igammac float_power""".split()


@pytest.mark.usefixtures("silent_fallback")
@pytest.mark.parametrize("name", [*(f"{name}_" for name in METHODS), "__iand__", "__ior__", "__ixor__", "__iadd__"])
def test_memory_around_self_is_unchanged(name: str) -> None:
    """mpsx and the CPU raise errors for the same calls, and leave the same values in the memory around self."""
    for dtype, other in ((torch.float32, torch.float32), (torch.float16, torch.float32), (torch.int32, torch.int64),
                         (torch.float32, torch.float64), (torch.bool, torch.bool),
                         (torch.bool, torch.float32), (torch.bool, torch.int64)):  # fmt: skip
        found = []
        for device in ("cpu", "mpsx"):
            base = torch.arange(1, 5, device=device).to(dtype)
            try:
                getattr(base[1:2], name)(torch.ones(3, dtype=other, device=device))
                raised = False
            except (RuntimeError, NotImplementedError, TypeError):
                raised = True
            found.append((raised, base.cpu().tolist()))
        assert found[0] == found[1], f"{dtype} and {other}"


def test_larger_operand_of_another_dtype_raises() -> None:
    x = torch.ones(1, dtype=torch.float16, device="mpsx")
    for name in ("add_", "mul_", "lt_", "addcmul_"):
        with pytest.raises(RuntimeError, match=r"output with shape \[1\] doesn't match the broadcast shape \[3\]"):
            CALLS[name](x, torch.ones(3, device="mpsx"))
        assert x.shape == (1,)
