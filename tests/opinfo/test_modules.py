"""Compare every module in module_db with the CPU: outputs, gradients of inputs and parameters, and state."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from torch.testing._internal.common_utils import set_rng_seed
from torch.utils._pytree import tree_map

from .checks import cotangents
from .common import DEVICE, assert_close, tensors

pytestmark = [pytest.mark.usefixtures("silent_fallback"), pytest.mark.filterwarnings("ignore")]

# Random values differ by design (see RANDOM in common.py), so compare only shapes and dtypes.
RANDOM = {"nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d", "nn.RReLU"}

FEW, SOME = 3, None


def name_of(info: ModuleInfo) -> str:
    return info.name


def inputs(info: ModuleInfo, dtype: torch.dtype, training: bool, count: int | None) -> Iterator[ModuleInput]:
    """Generate arguments for the constructor and the call. They are the same in every process."""
    set_rng_seed(0)
    options = {"device": "cpu", "dtype": dtype, "requires_grad": True, "training": training}
    yield from list(info.module_inputs_func(info, **options))[:count]


def is_random(info: ModuleInfo, module: torch.nn.Module) -> bool:
    drops = any(getattr(m, "dropout", 0) for m in module.modules() if isinstance(getattr(m, "dropout", 0), float))
    dropout = any(isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.p > 0 for m in module.modules())
    return info.name in RANDOM or (module.training and (drops or dropout))


def moved(value: object, convert: Callable[[torch.Tensor], torch.Tensor]) -> object:
    """Convert all tensors in `value`. Leaf tensors stay leaves, and a tensor that occurs twice is converted once."""
    twins: dict[int, torch.Tensor] = {}

    def move(t: object) -> object:
        if not isinstance(t, torch.Tensor):
            return t
        return twins.setdefault(id(t), convert(t.detach()).requires_grad_(t.requires_grad))

    return tree_map(move, value)


def results(module: torch.nn.Module, args: object, kwargs: object) -> tuple[list, list, list]:
    """Run the module. Return the outputs, the gradients, and the module's state after the call."""
    torch.manual_seed(1)
    outputs = tensors(module(*args, **kwargs))
    differentiable = [t for t in outputs if t.requires_grad]
    leaves = [t for t in tensors((args, kwargs)) if t.requires_grad] + list(module.parameters())
    grads = []
    if differentiable and leaves:
        grads = torch.autograd.grad(differentiable, leaves, cotangents(differentiable, 2), allow_unused=True)
    return outputs, list(grads), list(module.state_dict().values())


def check(info: ModuleInfo, dtype: torch.dtype, training: bool, count: int | None) -> None:
    """Compare the first `count` inputs, or all if `count` is None."""
    for one in inputs(info, dtype, training, count):
        module = info.module_cls(*one.constructor_input.args, **one.constructor_input.kwargs).to(dtype).train(training)
        if one.forward_input is None:
            continue
        args, kwargs = one.forward_input.args, one.forward_input.kwargs
        if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin):
            module(*args, **kwargs)  # initializes the parameters
        twin, precise = copy.deepcopy(module).to(DEVICE), copy.deepcopy(module).double()
        device_args, device_kwargs = moved((args, kwargs), lambda t: t.to(DEVICE))
        double_args, double_kwargs = moved((args, kwargs), lambda t: t.double() if t.is_floating_point() else t.clone())
        try:
            expected = results(module, args, kwargs)
        except (RuntimeError, NotImplementedError) as error:
            if "not implemented for" in str(error):  # the CPU does not support this dtype
                continue
            raise
        got = results(twin, device_args, device_kwargs)
        compare_values = not is_random(info, module)
        in_double = functools.cache(lambda m=precise, a=double_args, k=double_kwargs: results(m, a, k))
        for i, (want, have) in enumerate(zip(expected, got, strict=True)):
            assert [t is None for t in want] == [t is None for t in have]
            for j, (w, h) in enumerate(zip(want, have, strict=True)):
                if w is None or not isinstance(w, torch.Tensor):
                    continue
                assert (h.device.type, h.dtype, h.shape) == (DEVICE, w.dtype, w.shape)
                if compare_values:
                    assert_close(
                        h.detach().cpu(), w.detach(), lambda r=in_double, i=i, j=j: r()[i][j], derivative=i == 1
                    )


both_modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


@both_modes
@pytest.mark.parametrize("info", module_db, ids=name_of)
def test_module(info: ModuleInfo, training: bool) -> None:
    check(info, torch.float32, training, FEW)


@pytest.mark.sweep
@both_modes
@pytest.mark.parametrize("info", module_db, ids=name_of)
def test_module_all_inputs(info: ModuleInfo, training: bool) -> None:
    for dtype in (torch.float32, torch.float64):
        if dtype in info.dtypes:
            check(info, dtype, training, None)
