"""Run a case on mpsx and on the CPU, and compare the results."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ..opinfo.common import CPU_ARGUMENTS, OPS, error, op_id
from .tensor_spec import TensorSpec, literal, make

BY_ID = {op_id(op): op for op in OPS}
# CPU errors that mpsx may leave out, because it supports more than the CPU does.
UNSUPPORTED = re.compile(r"not implemented|not supported|[Uu]nsupported|does not support|only support|must be|"
                         r"expected scalar type|should have the same|same dtype|not available")  # fmt: skip
# Operators that may return any one of several equal elements. Values: the position of the argument `dim`.
TIES = {"topk": 2, "kthvalue": 2, "mode": 1, "median": 1, "nanmedian": 1}
WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128, torch.float16: torch.float64,
        torch.bfloat16: torch.float64}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One call of an operator."""

    where: str  # seed:group:number
    name: str  # "torch.add", "torch.index_reduce#prod", "opinfo:sort"
    form: str  # call, out, in_place or grad
    args: tuple
    kwargs: dict = field(default_factory=dict)

    def function(self) -> object:
        if self.name.startswith("opinfo:"):
            op = BY_ID[self.name[7:]]
            return op.inplace_variant if self.form == "in_place" else op.op
        found = torch
        for part in self.name.partition("#")[0].split(".")[1:]:
            found = getattr(found, part)
        return found

    def text(self) -> str:
        """Format the call as one line of Python. Gradient cases end in " -> grad"."""
        names, made = {}, []
        for leaf in tree_leaves((self.args, self.kwargs)):
            if isinstance(leaf, TensorSpec) and id(leaf.base) not in names:
                names[id(leaf.base)] = f"b{len(names)}"
                made.append(f"{names[id(leaf.base)]} = {literal(leaf.base)}; ")

        def shown(value: object) -> str:
            if isinstance(value, TensorSpec):
                return value.text(names)
            if isinstance(value, list | tuple):
                inner = ", ".join(map(shown, value)) + ("," if isinstance(value, tuple) and len(value) == 1 else "")
                return f"[{inner}]" if isinstance(value, list) else f"({inner})"
            return "d" if isinstance(value, torch.device) else repr(value)

        arguments = [*map(shown, self.args), *(f"{k}={shown(v)}" for k, v in self.kwargs.items())]
        name = self.name.partition("#")[0]
        if name.startswith("opinfo:"):
            attribute = "inplace_variant" if self.form == "in_place" else "op"
            name = f"BY_ID[{name[7:]!r}].{attribute}"
            for guess in (f"torch.{self.name[7:]}", f"torch.Tensor.{self.name[7:]}"):
                if replace(self, name=guess).exists() and replace(self, name=guess).function() is self.function():
                    name = guess
        return "".join(made) + f"{name}({', '.join(arguments)})" + (" -> grad" if self.form == "grad" else "")

    def exists(self) -> bool:
        try:
            self.function()
        except AttributeError:
            return False
        return True


@dataclass(frozen=True)
class Finding:
    """A difference between mpsx and the CPU."""

    kind: str
    detail: str


def run(case: Case, device: str, widen: bool = False) -> list[torch.Tensor | object]:
    """Return the results and the storages that the call may write to. If `form` is "grad", return the gradients."""
    args, kwargs = case.args, case.kwargs
    if widen:
        args, kwargs = tree_map(widened, (args, kwargs))
    on_host = case.name.startswith("opinfo:") and BY_ID[case.name[7:]].name in CPU_ARGUMENTS
    if on_host:
        args = (make(args[0], device), *make(args[1:], "cpu"))
        kwargs = make(kwargs, "cpu")
    else:
        args, kwargs = make((args, kwargs), device)
    torch.manual_seed(1)
    result = case.function()(*args, **kwargs)
    if case.form == "grad":
        inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
        outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
        if not outputs:
            return []
        weights = [torch.linspace(0.5, 1.5, t.numel()).to(t.dtype).view(t.shape).to(device) for t in outputs]
        grads = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
        return [g.to_dense() if isinstance(g, torch.Tensor) and g.layout != torch.strided else g for g in grads]
    leaves = tree_leaves(result)
    if case.form == "call" and not case.name.endswith("_"):
        return leaves
    return leaves + storages((args, kwargs))


def storages(tree: object) -> list[torch.Tensor]:
    """Return the whole storage of each tensor, to detect writes outside the views."""
    bases: dict[int, torch.Tensor] = {}
    for t in tree_leaves(tree):
        if isinstance(t, torch.Tensor):
            bases.setdefault(t.untyped_storage()._cdata, t)
    return [torch.empty(0, dtype=t.dtype, device=t.device).set_(t.untyped_storage()) for t in bases.values()]


def widened(value: object) -> object:
    """Convert floating-point tensors and dtypes to double precision."""
    if isinstance(value, TensorSpec):
        return replace(value, base=wide_base(value.base))
    return WIDE.get(value, value) if isinstance(value, torch.dtype) else value


_wide: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}


def wide_base(base: torch.Tensor) -> torch.Tensor:
    """Convert a base to double precision. Specs with the same base share the converted base."""
    if len(_wide) > 64:
        _wide.clear()
    if id(base) not in _wide:
        _wide[id(base)] = base, base.to(WIDE.get(base.dtype, base.dtype))
    return _wide[id(base)][1]


def values_differ(have: torch.Tensor, want: torch.Tensor, exact: torch.Tensor | None) -> str | None:
    """Describe a difference that exceeds rounding error, or return None."""
    floating = want.is_floating_point() or want.is_complex()
    if want.is_complex():  # the real and imaginary parts of non-finite results are unspecified
        finite = torch.isfinite(want)
        have, want = have[finite], want[finite]
        exact = exact[finite] if exact is not None and exact.shape == finite.shape else None
    try:
        torch.testing.assert_close(have, want, equal_nan=True)
    except AssertionError as difference:
        message = str(difference).replace("\n", " ")[:160]
        if not floating or exact is None or exact.shape != want.shape:
            return message
        right = exact.to(torch.complex128 if want.is_complex() else torch.double)
        finite = right[right.isfinite()].abs()
        largest = finite.max().item() if finite.numel() else 0
        allowed = 8 * error(want.to(right.dtype), right) + 8 * torch.finfo(want.dtype).eps * largest
        return None if error(have.to(right.dtype), right) <= allowed else message
    return None


def tied(case: Case) -> tuple[torch.Tensor, int] | None:
    """Return the input and the dimension if the operator may choose among equal elements, otherwise None."""
    at = TIES.get(re.split(r"[.:#]", case.name)[-1])
    if at is None or not isinstance(case.args[0], TensorSpec):
        return None
    x = make(case.args[0], "cpu").detach()
    dim = case.kwargs.get("dim", case.args[at] if len(case.args) > at else -1)
    return (x, dim) if x.dim() else (x.view(1), -1)


def repeats(x: torch.Tensor, dim: int) -> bool:
    """Return whether x may contain equal elements along `dim`."""
    if x.is_complex():
        return True
    ordered = x.sort(dim).values
    return bool((ordered.diff(dim=dim) == 0).any() or ordered.isnan().any())


def same_choice(x: torch.Tensor, dim: int, ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Return whether both index tensors select the same values and `ours` has no duplicates."""
    indices = [p if p.dim() == x.dim() else p.view(1) if p.dim() == 0 and x.dim() == 1 else p.unsqueeze(dim)
               for p in (ours.cpu(), theirs)]  # fmt: skip
    if indices[0].lt(0).any() or indices[0].ge(x.size(dim)).any():
        return False
    if indices[0].sort(dim).values.diff(dim=dim).eq(0).any():
        return False
    mine, right = (x.gather(dim, p) for p in indices)
    return torch.equal(mine.nan_to_num(7.0), right.nan_to_num(7.0)) and torch.equal(mine.isnan(), right.isnan())


def significant(t: torch.Tensor) -> list[int]:
    """Return the strides of dimensions larger than 1."""
    return [stride for size, stride in zip(t.shape, t.stride(), strict=True) if size > 1]


def compare(case: Case, note: object = lambda phase: None) -> Finding | None:
    """Run a case on both devices and return the first difference. Calls `note` with the name of each phase."""
    choice = tied(case)
    if choice and case.form == "grad" and repeats(*choice):
        return None
    note("cpu")
    try:
        want = run(case, "cpu")
    except Exception as error:
        want = error
    if case.form == "out" and isinstance(want, TypeError):
        return None
    note("mpsx")
    try:
        have = run(case, "mpsx")
        torch.mpsx.synchronize()
    except Exception as error:
        have = error
    note("compare")
    if isinstance(want, Exception):
        if isinstance(have, Exception) or UNSUPPORTED.search(str(want)):
            return None
        return Finding("accepts", f"the CPU raises {type(want).__name__}: {str(want)[:160]}")
    if isinstance(have, Exception):
        return Finding("rejects", f"{type(have).__name__}: {str(have)[:200]}")
    if len(have) != len(want):
        return Finding("structure", f"{len(have)} results instead of {len(want)}")
    exact: list[object] | None = None
    for i, (ours, theirs) in enumerate(zip(have, want, strict=True)):
        if not isinstance(theirs, torch.Tensor) or not isinstance(ours, torch.Tensor):
            if type(ours) is not type(theirs) or (isinstance(theirs, int | bool) and ours != theirs):
                return Finding("structure", f"{ours} instead of {theirs}")
            continue
        facts = [(t.dtype, tuple(t.shape)) for t in (ours, theirs)]
        if facts[0] != facts[1]:
            return Finding("type", f"{facts[0]} instead of {facts[1]}")
        if theirs.numel() and significant(ours) != significant(theirs) and case.form != "grad":
            return Finding("strides", f"{ours.stride()} instead of {theirs.stride()} of {tuple(theirs.shape)}")
        if choice and i == 1 and ours.dtype == torch.int64 and same_choice(*choice, ours, theirs):
            ours.copy_(theirs)  # also updates the storage of an out= tensor
        mine, right = ours.detach().cpu(), theirs.detach()
        if case.form == "grad":  # for non-finite values, equivalent gradient formulas may differ
            finite = torch.isfinite(mine) & torch.isfinite(right)
            mine, right = mine.where(finite, 0), right.where(finite, 0)
        if values_differ(mine, right, None) is None:
            continue
        if exact is None:
            note("cpu")
            try:
                exact = run(case, "cpu", widen=True)
            except Exception:
                exact = []
            note("compare")
        one = exact[i] if i < len(exact) and isinstance(exact[i], torch.Tensor) else None
        if message := values_differ(mine, right, None if one is None else one.detach()):
            return Finding("out" if case.form == "out" and as_without_out(case, have) else "values", message)
    return None


def as_without_out(case: Case, have: list) -> bool:
    """Return whether the out= tensors equal the CPU's results without out=, and nothing else was overwritten."""
    plain = replace(case, form="call", kwargs={key: v for key, v in case.kwargs.items() if key != "out"})
    results = run(plain, "cpu")
    args, kwargs = make((case.args, case.kwargs), "cpu")
    outs = tree_leaves(kwargs["out"])
    for out, result in zip(outs, results, strict=True):
        if out.shape != result.shape:
            out.resize_(result.shape)
        out.copy_(result)
    want = outs + storages((args, kwargs))
    return len(have) == len(want) and all(
        ours.shape == right.shape and values_differ(ours.detach().cpu(), right.detach(), None) is None
        for ours, right in zip(have, want, strict=True)
    )
