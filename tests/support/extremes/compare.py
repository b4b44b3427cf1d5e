"""Whether a result of the device is right where the type's range ends.

A result may be PyTorch's on the CPU, or float64's rounded to the type. Anything else is wrong: not finite where both
are finite, finite where both are not, or further away than rounding explains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .values import FLOATS, picked

Place = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Case:
    """A call and its operands.

    eps: the allowed relative error, in units of the type's. reduces: elements of the result depend on many of the
    input, so that the largest of them bounds the error of all.
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
    """The same values in float64."""
    return t.to(torch.complex128 if t.is_complex() else torch.float64)


def on(t: torch.Tensor, device: str) -> torch.Tensor:
    """The same values and strides on a device."""
    storage = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    return storage.clone().to(device).as_strided(t.shape, t.stride(), t.storage_offset())


def cotangents(outputs: list[torch.Tensor], dtype: torch.dtype, seed: int, place: Place) -> list[torch.Tensor]:
    """Gradients of the outputs: mostly ordinary values."""
    g, real = torch.Generator().manual_seed(seed), dtype if dtype in FLOATS else torch.float32
    made = [picked(real, tuple(t.shape), g, 0.7) for t in outputs]
    made = [torch.complex(w, torch.randn(w.shape, generator=g)) if t.is_complex() else w
            for t, w in zip(outputs, made, strict=True)]  # fmt: skip
    return [place(w).to(t.dtype) for t, w in zip(outputs, made, strict=True)]


def results(case: Case, place: Place, place_gradient: Place | None = None) -> list[torch.Tensor]:
    """Outputs, then the gradients of the inputs."""
    inputs = [place(t.detach()) for t in case.inputs]
    if case.gradient:
        inputs = [t.requires_grad_() for t in inputs]
    made = case.function(*inputs)
    outputs = list(made) if isinstance(made, list | tuple) else [made]
    gradients: list[torch.Tensor] = []
    roots = [t for t in outputs if t.requires_grad]
    if roots:
        given = cotangents(roots, case.dtype, case.seed, place_gradient or place)
        found = torch.autograd.grad(roots, inputs, given, allow_unused=True)
        gradients = [torch.zeros_like(t) if d is None else d for t, d in zip(inputs, found, strict=True)]
    return [t.detach().cpu() for t in outputs + gradients]


def conditions(case: Case, exact: list[torch.Tensor]) -> list[torch.Tensor]:
    """How far float64's results move when each incoming gradient moves by about the type's epsilon: where large ones
    cancel, a sum of them has no more digits."""
    g = torch.Generator().manual_seed(case.seed)
    eps = torch.finfo(case.dtype).eps

    def moved(t: torch.Tensor) -> torch.Tensor:
        return wide(t) * (1 + eps * torch.randn(t.shape, generator=g, dtype=torch.float64))

    trials = [results(case, wide, moved) for _ in range(3)]
    return [torch.stack([(parts(t) - parts(e)).abs().nan_to_num(0, 0, 0) for t in several]).amax(0)
            for e, *several in zip(exact, *trials, strict=True)]  # fmt: skip


def parts(t: torch.Tensor) -> torch.Tensor:
    """Real and imaginary parts of complex numbers, as float64."""
    return torch.view_as_real(t.resolve_conj()).double() if t.is_complex() else t.double()


def wrong(case: Case, have: torch.Tensor, cpu: torch.Tensor | None, exact: torch.Tensor,
          condition: torch.Tensor | float = 0.0) -> torch.Tensor:  # fmt: skip
    """A mask of the elements (or parts of them) that are neither the CPU's nor float64's. condition: of conditions."""
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
    edge, slack = torch.full_like(h, False, dtype=torch.bool), 64 * case.eps * f.eps  # infinite by a rounding, or not
    if slack < 0.5:
        edge = (e.abs() >= f.max * (1 - slack)) & (e.abs() <= f.max * (1 + slack))
        edge &= (h.abs() >= f.max * (1 - 2 * slack)) & (h.signbit() == e.signbit())
    good = edge
    for want in (c, rounded):
        good = good | (h == want) | (h.isnan() & want.isnan())
        good = good | (h.isfinite() & want.isfinite() & ((h - want).abs() <= allowed))
    return ~good


def check(case: Case, device: str = "mpsx") -> list[str]:
    """A line for each output that is wrong."""
    try:
        cpu: list[torch.Tensor] | None = results(case, lambda t: on(t, "cpu"))
    except (NotImplementedError, RuntimeError) as refusal:
        if "not implemented for" not in str(refusal):
            raise
        cpu = None
    try:
        exact, have = results(case, wide), results(case, lambda t: on(t, device))
    except NotImplementedError:
        if cpu is None:  # nobody has it for this type
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
    """The first wrong element, and what it is made of."""
    at = tuple(mask.nonzero()[0].tolist())
    h, c, e = (parts(t) for t in (have, cpu, exact))
    operands = [str(t[at[: t.dim()]].item()) if t.shape == have.shape else str(t.flatten()[:6].tolist())
                for t in case.inputs]  # fmt: skip
    agree = (c == parts(exact.to(have.dtype))) | (c.isnan() & e.isnan())
    values = f"{h[at].item()} for {c[at].item()} (float64: {e[at].item()}) of {'; '.join(operands)}"
    counts = f"{int(mask.sum())} of {mask.numel()}, {int((mask & agree).sum())} here alone"
    return f"{case.name} {case.dtype} output {i} at {at}: {values}; {counts}"
