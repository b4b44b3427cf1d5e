"""Random tensors, stored as specs. A spec can be created on any device, simplified, and printed on one line."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch.utils._pytree import tree_map

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DTYPES = (*FLOATS, *INTEGERS, torch.bool, torch.complex64)
SPECIAL = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e-45, 1e-39, 1.0, -1.0, 0.5)
SIZES = (0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 127, 128, 129)


@dataclass(frozen=True)
class TensorSpec:
    """Describes a tensor as a view of the 1-D tensor `base`. Several specs may share a base."""

    base: torch.Tensor
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0
    grad: bool = False

    @property
    def dtype(self) -> torch.dtype:
        return self.base.dtype

    def text(self, names: dict[int, str]) -> str:
        """Format as a Python expression. `names` maps the id of each base to its variable name."""
        dense = torch.empty(self.size, device="meta").stride() == self.stride
        if dense and self.offset == 0 and self.base.numel() == torch.Size(self.size).numel():
            shape = ", ".join(map(str, self.size))
            text = names[id(self.base)] + (f".view({shape})" if len(self.size) != 1 else "")
            text = text.replace(".view()", ".view(())")
        else:
            text = f"{names[id(self.base)]}.as_strided({self.size}, {self.stride}, {self.offset})"
        return text + (".requires_grad_()" if self.grad else "")


def of(t: torch.Tensor, grad: bool = False) -> TensorSpec:
    """Return the spec that describes a tensor, including its strides."""
    if t.numel() == 0:
        return TensorSpec(torch.empty(0, dtype=t.dtype), tuple(t.shape), tuple(t.stride()), 0, grad)
    span = sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True)) + 1
    base = t.detach().resolve_conj().resolve_neg()
    if base is not t.detach() and base.stride() != t.stride():
        base = base.contiguous()
    return TensorSpec(base.as_strided((span,), (1,)).clone(), tuple(t.shape), tuple(base.stride()), 0, grad)


def make(tree: object, device: str) -> object:
    """Create the tensors in `tree` on a device. Tensors share memory if their specs have the same base."""
    bases: dict[int, torch.Tensor] = {}

    def build(value: object) -> object:
        if value is torch.device or isinstance(value, torch.device):
            return torch.device(device)
        if not isinstance(value, TensorSpec):
            return value
        base = bases.setdefault(id(value.base), value.base.clone().to(device))
        t = base.as_strided(value.size, value.stride, value.offset)
        return t.requires_grad_() if value.grad else t

    return tree_map(build, tree)


def literal(t: torch.Tensor) -> str:
    """Format a base as a Python expression in which `d` is the device."""
    kind = f"dtype={t.dtype}, device=d"
    if t.numel() > 64:
        if torch.equal(t, t[:1].expand(t.numel())):
            return f"torch.full(({t.numel()},), {t[0].item()!r}, {kind})"
        return f"({t.numel()} elements{contents(t)}: see --case)"
    values = str(t.tolist()).replace("nan", "NAN").replace("inf", "INF")
    return f"torch.tensor({values}, {kind})"


def contents(t: torch.Tensor) -> str:
    """Summarize the values of a tensor that is too large to print. reasons.py matches this text."""
    if t.dtype.is_floating_point or t.dtype.is_complex:
        largest = t[t.isfinite()].abs().float().amax().item() if t.isfinite().any() else 0.0
        extent = f" up to {largest:.0e}" * (largest >= 1e4)
        return " with NAN" * bool(t.isnan().any()) + " with INF" * bool(t.isinf().any()) + extent
    return "" if t.dtype == torch.bool else f" from {t.min().item()} to {t.max().item()}"


class Rng(random.Random):
    """Generates random arguments."""

    special = 0.0  # probability that an element is a special value

    def size(self) -> int:
        return self.choice(SIZES)

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        rank = self.randint(least, most)
        if rank and self.random() < 0.05:  # make one or two dimensions large
            sizes = [1] * rank
            sizes[self.randrange(rank)] = self.randint(200, 9000)
            sizes[self.randrange(rank)] *= self.randint(1, 3)
            return tuple(sizes)
        while True:
            sizes = tuple(self.size() for _ in range(rank))
            if torch.Size(sizes).numel() <= 20000:
                return sizes

    def full_shape(self, least: int = 1, most: int = 4) -> tuple[int, ...]:
        """Return a random shape that is rarely empty."""
        return tuple(max(n, 1) if self.random() < 0.97 else n for n in self.shape(least, most))

    def broadcast(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return a random shape that broadcasts to `shape`."""
        kept = shape[self.randint(0, len(shape)) if self.random() < 0.2 else 0 :]
        return tuple(1 if self.random() < 0.15 else n for n in kept)

    def dim(self, shape: Sequence[int]) -> int:
        rank = max(len(shape), 1)
        return self.randrange(-rank, rank)

    def dims(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.sample(range(len(shape)), self.randint(1, len(shape)))) if shape else ()

    def number(self, dtype: torch.dtype) -> object:
        if dtype.is_floating_point or dtype.is_complex:
            return self.choice((0.5, 2, -1.5, 0, 1, 3.25, True))
        return self.choice((0, 1, 2, -1, 3, 100, True))

    def values(self, n: int, dtype: torch.dtype) -> torch.Tensor:
        g = torch.Generator().manual_seed(self.getrandbits(40))
        if dtype == torch.bool:
            return torch.rand(n, generator=g) < 0.5
        if not (dtype.is_floating_point or dtype.is_complex):
            t = torch.randint(0 if dtype == torch.uint8 else -9, 10, (n,), generator=g).to(dtype)
            if self.special and n:
                limits = torch.iinfo(dtype)
                t[torch.rand(n, generator=g) < self.special] = self.choice((limits.max, limits.min, 0))
            return t
        kind = self.random()
        t = torch.randn(n, generator=g) if kind < 0.6 else torch.randint(-3, 4, (n,), generator=g).float()
        if kind > 0.9:
            t = t * 10 ** self.uniform(-6, 6)
        if self.special and n:
            chosen = torch.tensor(SPECIAL)[torch.randint(len(SPECIAL), (n,), generator=g)]
            t = torch.where(torch.rand(n, generator=g) < self.special, chosen, t)
        if dtype.is_complex:
            t = torch.complex(t, torch.randn(n, generator=g))
        return t.to(dtype)

    def tensor(
        self, shape: Sequence[int] | None = None, dtype: torch.dtype | Sequence[torch.dtype] = DTYPES
    ) -> TensorSpec:
        """Generate a tensor with a random layout."""
        shape = tuple(self.shape() if shape is None else shape)
        dtype = dtype if isinstance(dtype, torch.dtype) else self.choice(dtype)
        return self.laid_out(self.values(torch.Size(shape).numel(), dtype).view(shape))

    def laid_out(self, t: torch.Tensor, shares: bool = True) -> TensorSpec:
        """Apply a random layout. If `shares` is set, the layout may be expanded, which changes the values."""
        layout = self.choice(("dense",) * 5 + ("transposed", "sliced", "gaps", "channels_last", "expanded", "offset"))
        if t.numel() == 0 or (t.dim() == 0 and layout != "offset") or t.layout != torch.strided:
            layout = "dense"
        if layout == "transposed":
            order = self.sample(range(t.dim()), t.dim())
            return of(t.permute(order).contiguous().permute([order.index(d) for d in range(t.dim())]))
        if layout == "channels_last" and t.dim() in (4, 5):
            last = torch.channels_last if t.dim() == 4 else torch.channels_last_3d
            return of(t.contiguous(memory_format=last))
        if layout == "expanded" and shares:
            d = self.randrange(t.dim())
            return of(t.narrow(d, 0, 1).expand(t.shape))
        if layout in ("sliced", "gaps", "offset"):
            step = self.randint(2, 3) if layout == "gaps" else 1
            lead, extra = self.randint(0, 3), self.randint(1, 2) if layout == "sliced" else 0
            stride, n = [], step
            for size in reversed(t.shape):
                stride.insert(0, n)
                n *= size + extra
            offset = lead + (layout == "offset")
            base = self.values(offset + n + 3, t.dtype)
            base.as_strided(t.shape, stride, offset).copy_(t)
            return TensorSpec(base, tuple(t.shape), tuple(stride), offset)
        return of(t.contiguous())

    def index(self, shape: Sequence[int], size: int, dtype: torch.dtype = torch.int64) -> TensorSpec:
        """Generate random indices below `size`. About 3% of calls may also generate `size`, which is out of range."""
        g = torch.Generator().manual_seed(self.getrandbits(40))
        high = max(size, 1) + (self.random() < 0.03)
        return self.laid_out(torch.randint(high, tuple(shape), generator=g).to(dtype))


def change(tree: object, change_one: Callable[[TensorSpec], TensorSpec]) -> object:
    """Apply `change_one` to every TensorSpec in `tree`."""
    return tree_map(lambda v: change_one(v) if isinstance(v, TensorSpec) else v, tree,
                    is_leaf=lambda v: isinstance(v, TensorSpec))  # fmt: skip


def with_base(g: TensorSpec, base: torch.Tensor) -> TensorSpec:
    return replace(g, base=base)
