"""Generate random cases from a seed, in groups that each test one operator."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ..opinfo.common import RANDOM, TIES, UNINITIALISED, forward_dtypes, op_id, samples
from . import layers  # noqa: F401  (adds its calls)
from .calls import CALLS
from .compare import BY_ID, Case, run
from .tensor_spec import DTYPES, Rng, TensorSpec, change, of

PER_GROUP = 40
# Operators that are slow or composite, or whose results are random, uninitialized or not unique.
LEFT_OUT = RANDOM | UNINITIALISED | set(TIES) | {
    "new_empty", "empty_strided", "linalg.lstsq", "linalg.lstsq.grad_oriented", "svd", "linalg.svd", "linalg.eig",
    "linalg.eigh", "linalg.eigvals", "linalg.eigvalsh",
    "geqrf", "linalg.qr", "qr", "lobpcg", "ormqr", "linalg.householder_product", "linalg.ldl_factor",
    "linalg.ldl_factor_ex", "linalg.ldl_solve", "to_sparse", "sparse.sampled_addmm", "sparse.mm.reduce",
    "masked.normalize", "stft", "istft", "nn.functional.gaussian_nll_loss", "linalg.pinv", "linalg.pinv.singular",
    "linalg.pinv.hermitian", "pinverse", "linalg.matrix_rank", "linalg.cond", "linalg.norm", "linalg.matrix_norm.nuc",
    "nn.functional.ctc_loss", "unique", "unique_consecutive", "argmax.out", "nn.functional.linear_cross_entropy",
}  # fmt: skip


@functools.cache
def names(pattern: str) -> list[str]:
    """Return the names of all operators that match `pattern`."""
    opinfo = [f"opinfo:{name}" for name in sorted(BY_ID) if name not in LEFT_OUT]
    return [name for name in sorted(CALLS) + opinfo if re.search(pattern, name)]


@functools.lru_cache(maxsize=8)
def some_samples(name: str, dtype: torch.dtype) -> list[tuple[tuple, dict]]:
    """Return the arguments of an operator's OpInfo samples, with every tensor replaced by its spec."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples(BY_ID[name], dtype, 40):
            tree = ((sample.input, *sample.args), sample.kwargs)
            tensors = [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]
            if all(type(t) is torch.Tensor and t.layout == torch.strided and not t.is_nested and t.numel() < 50000
                   and not t.is_quantized for t in tensors):  # fmt: skip
                found.append(tree_map(to_spec, tree))
    return found


def to_spec(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return of(value)
    return torch.device("cpu") if value == "cpu" else value


def mutated(r: Rng, tree: object, every: bool) -> object:
    """Randomly change the layouts, dtypes and values of the tensors in `tree`."""
    retype, special = r.random() < 0.12, r.random() < 0.2
    index = [False]

    def change_one(g: TensorSpec) -> TensorSpec:
        t = g.base.as_strided(g.size, g.stride, g.offset)
        if special and t.numel() and (t.is_floating_point() or every):
            chosen = torch.rand(t.shape, generator=torch.Generator().manual_seed(r.getrandbits(30))) < 0.15
            r.special = 1.0
            if t.is_floating_point():
                t = torch.where(chosen, r.values(t.numel(), t.dtype).view(t.shape), t)
            r.special = 0.0
        if retype and not index[0] and r.random() < 0.5:
            index[0] = True
            t = t.to(r.choice(DTYPES))
        return r.laid_out(t) if r.random() < 0.5 else of(t)

    return change(tree, change_one)


def with_out(r: Rng, case: Case) -> Case | None:
    """Add an out= argument. Its shape, dtype or layout may differ from the result's."""
    try:
        results = run(replace(case, form="call"), "cpu")
    except Exception:
        return None
    if not results or not all(isinstance(t, torch.Tensor) and t.layout == torch.strided for t in results):
        return None
    inputs = [g for g in tree_leaves((case.args, case.kwargs)) if isinstance(g, TensorSpec)]
    outs = []
    for t in results:
        dtype = t.dtype if r.random() < 0.8 else r.choice(DTYPES)
        same = [g for g in inputs if g.size == tuple(t.shape) and g.dtype == dtype and 0 not in g.stride]
        if same and r.random() < 0.15:
            outs.append(r.choice(same))  # pass one of the inputs as out=
            continue
        shape = tuple(t.shape) if r.random() < 0.7 else r.choice(((0,), (1,), (*t.shape, 2)))
        outs.append(r.laid_out(r.values(torch.Size(shape).numel(), dtype).view(shape), shares=False))
    kwargs = case.kwargs | {"out": outs[0] if len(outs) == 1 else tuple(outs)}
    return replace(case, form="out", kwargs=kwargs)


def in_place(r: Rng, case: Case) -> Case | None:
    """Turn the case into an in-place call that overwrites the first argument."""
    if not isinstance(case.args[0], TensorSpec):
        return None
    if case.name.startswith("opinfo:"):
        if BY_ID[case.name[7:]].inplace_variant is None:
            return None
        case = replace(case, form="in_place")
    else:
        stem, _, variant = case.name.partition("#")
        name = f"torch.Tensor.{stem.rpartition('.')[2]}_"
        case = replace(case, name=name + (f"#{variant}" if variant else ""), form="in_place")
        if not case.exists():
            return None
    first = case.args[0]
    t = first.base.as_strided(first.size, first.stride, first.offset)
    return replace(case, args=(r.laid_out(t, shares=False), *case.args[1:]))


def with_grad(case: Case) -> Case | None:
    found = [False]

    def mark(g: TensorSpec) -> TensorSpec:
        if not (g.dtype.is_floating_point or g.dtype.is_complex):
            return g
        found[0] = True
        return replace(g, grad=True)

    args, kwargs = change((case.args, case.kwargs), mark)
    return replace(case, form="grad", args=args, kwargs=kwargs) if found[0] else None


def cases(seed: int, group: int, pattern: str) -> Iterator[Case]:
    r = Rng(f"{seed}:{group}")
    name = r.choice(names(pattern))
    opinfo_samples: list[tuple[tuple, dict]] = []
    if name.startswith("opinfo:"):
        op = BY_ID[name[7:]]
        dtype = r.choice(sorted(forward_dtypes(op) & set(DTYPES) or {torch.float32}, key=str))
        opinfo_samples = some_samples(name[7:], dtype)
        if not opinfo_samples:
            return
    for number in range(PER_GROUP):
        r = Rng(f"{seed}:{group}:{number}")
        if opinfo_samples:
            args, kwargs = mutated(r, r.choice(opinfo_samples), op_id(op).startswith("nan"))
        else:
            r.special = 0.1 if r.random() < 0.25 else 0.0
            args, kwargs = CALLS[name](r)
            r.special = 0.0
        case: Case | None = Case(f"{seed}:{group}:{number}", name, "call", args, kwargs)
        kind = r.random()
        if kind < 0.15:
            case = with_out(r, case)
        elif kind < 0.3:
            case = in_place(r, case)
        elif kind < 0.45:
            case = with_grad(case)
        if case is not None:
            yield case
