"""Check results at the limits of a dtype's range.

Accept a result that equals the CPU's result or the float64 result rounded to the dtype. Reject a result that is
non-finite where both are finite, finite where both are non-finite, or farther from them than rounding explains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .values import FLOATS, picked

Convert = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Case:
    """A call and its operands.

    eps: the allowed relative error, in units of the dtype's epsilon.
    reduces: whether each output element depends on many input elements. The largest one determines the error bound.
    """

    name: str
    function: Callable[..., object]
    inputs: Sequence[torch.Tensor]
    gradient: bool = False
    eps: float = 16.0
    reduces: bool = False
    seed: int = 0

    @property
    def dtype(self) -> torch.dtype:
        return self.inputs[0].dtype


def wide(t: torch.Tensor) -> torch.Tensor:
    """Convert to double precision."""
    return t.to(torch.complex128 if t.is_complex() else torch.float64)


def on(t: torch.Tensor, device: str) -> torch.Tensor:
    """Copy a tensor to a device, and keep its strides."""
    storage = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    return storage.clone().to(device).as_strided(t.shape, t.stride(), t.storage_offset())


def cotangents(outputs: list[torch.Tensor], dtype: torch.dtype, seed: int, convert: Convert) -> list[torch.Tensor]:
    """Return random gradients of the outputs. Most of their values are ordinary."""
    g, real = torch.Generator().manual_seed(seed), dtype if dtype in FLOATS else torch.float32
    made = [picked(real, tuple(t.shape), g, 0.7) for t in outputs]
    made = [torch.complex(w, torch.randn(w.shape, generator=g)) if t.is_complex() else w
            for t, w in zip(outputs, made, strict=True)]  # fmt: skip
    return [convert(w).to(t.dtype) for t, w in zip(outputs, made, strict=True)]


def results(case: Case, convert: Convert, convert_gradient: Convert | None = None) -> list[torch.Tensor]:
    """Return the outputs, followed by the gradients of the inputs."""
    inputs = [convert(t.detach()) for t in case.inputs]
    if case.gradient:
        inputs = [t.requires_grad_() for t in inputs]
    made = case.function(*inputs)
    outputs = list(made) if isinstance(made, list | tuple) else [made]
    gradients: list[torch.Tensor] = []
    roots = [t for t in outputs if t.requires_grad]
    if roots:
        grad_outputs = cotangents(roots, case.dtype, case.seed, convert_gradient or convert)
        found = torch.autograd.grad(roots, inputs, grad_outputs, allow_unused=True)
        gradients = [torch.zeros_like(t) if d is None else d for t, d in zip(inputs, found, strict=True)]
    return [t.detach().cpu() for t in outputs + gradients]


def conditions(case: Case, exact: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return by how much the float64 results change if each incoming gradient changes by about the dtype's epsilon.

    Where large gradients cancel, no implementation can be more accurate than this.
    """
    g = torch.Generator().manual_seed(case.seed)
    eps = torch.finfo(case.dtype).eps

    def moved(t: torch.Tensor) -> torch.Tensor:
        return wide(t) * (1 + eps * torch.randn(t.shape, generator=g, dtype=torch.float64))

    trials = [results(case, wide, moved) for _ in range(3)]
    return [torch.stack([(parts(t) - parts(e)).abs().nan_to_num(0, 0, 0) for t in several]).amax(0)
            for e, *several in zip(exact, *trials, strict=True)]  # fmt: skip


def parts(t: torch.Tensor) -> torch.Tensor:
    """Convert complex numbers to pairs of float64 numbers, and other numbers to float64."""
    return torch.view_as_real(t.resolve_conj()).double() if t.is_complex() else t.double()


def wrong(case: Case, have: torch.Tensor, cpu: torch.Tensor | None, exact: torch.Tensor,
          condition: torch.Tensor | float = 0.0) -> torch.Tensor:  # fmt: skip
    """Return a mask of the elements that match neither the CPU nor float64. `condition` comes from conditions()."""
    if not (have.is_floating_point() or have.is_complex()):
        return (have != cpu) & (have != exact)
    f = torch.finfo(have.dtype)
    h, e = parts(have), parts(exact)
    rounded = parts(exact.to(have.dtype))
    c = rounded if cpu is None else parts(cpu)
    size = torch.maximum(c.abs().nan_to_num(0, 0, 0), rounded.abs().nan_to_num(0, 0, 0))
    if have.is_complex():
        size = size.amax(-1, keepdim=True).expand_as(size)
    allowed = case.eps * f.eps * size + (1e-5 if case.gradient or case.reduces else f.tiny)
    allowed = allowed + 16 * (c - rounded).abs().nan_to_num(0, 0, 0) + 4 * condition
    if case.reduces and size.numel():
        allowed = allowed + 16 * f.eps * size.max()
    # The result may be infinite if it is within rounding error of the largest finite number.
    edge, slack = torch.full_like(h, False, dtype=torch.bool), 64 * case.eps * f.eps
    if slack < 0.5:
        edge = (e.abs() >= f.max * (1 - slack)) & (e.abs() <= f.max * (1 + slack))
        edge &= (h.abs() >= f.max * (1 - 2 * slack)) & (h.signbit() == e.signbit())
    good = edge
    for want in (c, rounded):
        good = good | (h == want) | (h.isnan() & want.isnan())
        good = good | (h.isfinite() & want.isfinite() & ((h - want).abs() <= allowed))
    return ~good


def check(case: Case, device: str = "mpsx") -> list[str]:
    """Return one line per wrong output."""
    try:
        cpu: list[torch.Tensor] | None = results(case, lambda t: on(t, "cpu"))
    except (NotImplementedError, RuntimeError) as error:
        if "not implemented for" not in str(error):
            raise
        cpu = None
    try:
        exact, have = results(case, wide), results(case, lambda t: on(t, device))
    except NotImplementedError:
        if cpu is None:  # the CPU does not support this dtype either
            return []
        raise
    lines = []
    for i, (h, e) in enumerate(zip(have, exact, strict=True)):
        c = None if cpu is None else cpu[i]
        assert c is None or (h.dtype, h.shape) == (c.dtype, c.shape), f"{case.name}: {h.dtype} {h.shape}"
        mask = wrong(case, h, c, e)
        if mask.any() and case.gradient and case.reduces:
            mask = wrong(case, h, c, e, conditions(case, exact)[i])
        if mask.any():
            lines.append(line(case, i, mask, h, h if c is None else c, e))
    return lines


def line(case: Case, i: int, mask: torch.Tensor, have: torch.Tensor, cpu: torch.Tensor, exact: torch.Tensor) -> str:
    """Describe the first wrong element and its operands."""
    at = tuple(mask.nonzero()[0].tolist())
    h, c, e = (parts(t) for t in (have, cpu, exact))
    operands = [str(t[at[: t.dim()]].item()) if t.shape == have.shape else str(t.flatten()[:6].tolist())
                for t in case.inputs]  # fmt: skip
    agree = (c == parts(exact.to(have.dtype))) | (c.isnan() & e.isnan())
    values = f"{h[at].item()} for {c[at].item()} (float64: {e[at].item()}) of {'; '.join(operands)}"
    counts = f"{int(mask.sum())} of {mask.numel()}, {int((mask & agree).sum())} on mpsx only"
    return f"{case.name} {case.dtype} output {i} at {at}: {values}; {counts}"
