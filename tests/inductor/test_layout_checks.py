"""Generated code checks layouts with a faster function than PyTorch's, which accepts and rejects the same tensors."""

from __future__ import annotations

import random

import pytest
import torch
from torch._C._dynamo.guards import assert_size_stride as expected
from torch._inductor.utils import run_and_get_code

from mpsx._shader import assert_size_stride


def outcome(check: object, *arguments: object) -> str | None:
    """Return the error that a check raises, or None."""
    try:
        check(*arguments)
        return None
    except (AssertionError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def changed(values: tuple[int, ...], source: random.Random) -> tuple[int, ...]:
    """Return other values: one of them changed, or a different number of them, or the same."""
    kind = source.randrange(4)
    if kind == 0 and values:
        at = source.randrange(len(values))
        return (*values[:at], values[at] + 1, *values[at + 1 :])
    return {1: (*values, 1), 2: values[1:]}.get(kind, values)


def test_random_layouts() -> None:
    """Correct and wrong sizes and strides of random tensors, with and without an operator's name."""
    source = random.Random(0)
    errors = 0
    for _ in range(2000):
        size = tuple(source.choice([0, 1, 1, 2, 5]) for _ in range(source.randrange(5)))
        stride = tuple(source.randrange(1, 9) for _ in size)
        x = torch.empty_strided(size, stride, device=source.choice(["mpsx", "cpu"]))
        arguments = (x, changed(size, source), changed(stride, source), *source.choice([(), ("aten.mm",)]))
        want = outcome(expected, *arguments)
        assert outcome(assert_size_stride, *arguments) == want, arguments
        errors += want is not None
    assert 400 < errors < 1600


@pytest.mark.parametrize("x", [3, None, torch.eye(2).to_sparse()])
def test_other_objects(x: object) -> None:
    """Objects that are no strided tensors."""
    error = outcome(expected, x, (2, 2), (2, 1))
    assert error is not None
    assert outcome(assert_size_stride, x, (2, 2), (2, 1)) == error


def test_nested_tensors() -> None:
    """PyTorch's function would abort the process."""
    with pytest.raises(RuntimeError, match="strides"):
        assert_size_stride(torch.nested.nested_tensor([torch.ones(2)]), (1, 2), (2, 1))


def test_generated_code() -> None:
    """The function replaces PyTorch's in generated code, and finds a wrong layout there."""
    _, (code, *_) = run_and_get_code(torch.compile(lambda x: x + 1), torch.ones(2, 3, device="mpsx"))
    module: dict[str, object] = {}
    exec(code[: code.index("async_compile.wait")], module)
    assert module["assert_size_stride"] is assert_size_stride
    with pytest.raises(AssertionError, match="expected size 2==2, stride 1==3 at dim=0"):
        assert_size_stride(torch.ones(3, 2, device="mpsx").t(), (2, 3), (3, 1))
