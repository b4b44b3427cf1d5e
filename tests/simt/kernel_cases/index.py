"""Indexing: gathers, scatters, and operators that return indices."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from tables import DTYPES, FLOAT, INT, TAGS

from kernel_cases import Case, case, gapped, integers, values

OF_SIZE = (torch.int8, torch.int16, torch.int32, torch.int64)


def index(*shape: int, below: int, seed: int = 5, distinct: bool = False) -> torch.Tensor:
    """Return random indices in [0, below)."""
    generator = torch.Generator().manual_seed(seed)
    if distinct:
        return torch.randperm(below, generator=generator)[: shape[0]]
    return torch.randint(0, below, shape, generator=generator)


def reading() -> Iterator[Case]:
    for dtype in OF_SIZE:
        tag, x = TAGS[dtype], values(13, 37, dtype=dtype, low=-100, high=100)
        rows, elements = index(29, below=13), index(13, 37, below=37)
        yield case(f"index_select {tag}", lambda t, i: (t.index_select(0, i), t.t().contiguous().index_select(1, i)), x,
                   rows, reference="same")  # fmt: skip
        yield case(f"index_select of elements {tag}", lambda t, i: t.view(-1).index_select(0, i.view(-1)), x, elements,
                   reference="same")  # fmt: skip
        yield case(f"gather {tag}", lambda t, i: (t.gather(1, i), t.take(i)), x, elements, reference="same")
        yield case(f"index {tag}", lambda t, i: (t[i], t[i, i]), x, rows, reference="same")
        yield case(f"masked_scatter {tag}", lambda t, s: (
            t.masked_scatter(t > 0, s), t[:, :6].contiguous().masked_scatter(t[:, :6] > 0, s[:9, :9])), x, x.flip(0),
            reference="same")  # fmt: skip
        yield case(f"masked_select {tag}", lambda t: t[t > 0], x, reference="same")
    yield case("embedding", torch.embedding, values(13, 37), index(5, 6, below=13))


def segments() -> Iterator[Case]:
    lengths = torch.tensor([3, 0, 30, 4])
    for dtype in FLOAT:
        x = values(37, 13, dtype=dtype, low=0.5, high=1.5)
        for name in ("sum", "mean", "max", "min", "prod"):
            yield case(f"segment_reduce {name} {TAGS[dtype]}", lambda x, n, name=name: (
                torch.segment_reduce(x, name, lengths=n, initial=1),
                torch.segment_reduce(x[:, 0], name, lengths=n, unsafe=True)), x, lengths)  # fmt: skip


def writing() -> Iterator[Case]:
    for dtype in OF_SIZE:
        tag, x = TAGS[dtype], values(13, 37, dtype=dtype, low=-100, high=100)
        rows, elements = index(7, below=13, distinct=True), index(37, below=37, distinct=True).expand(13, 37)
        source = values(13, 37, dtype=dtype, low=-100, high=100, seed=1)
        yield case(f"index_put {tag}", lambda t, i, s: t.index_put_((i,), s[:7]), x, rows, source, reference="same")
        yield case(f"scatter {tag}", lambda t, i, s: (t.scatter(1, i, s), t.scatter(1, i[:, :20], 3)), x, elements,
                   source, reference="same")  # fmt: skip
        yield case(f"index_copy {tag}", lambda t, i, s: (t.index_copy(0, i, s[:7]), t.index_fill(0, i, 3)), x, rows,
                   source, reference="same")  # fmt: skip
    for dtype in (*FLOAT, *INT):
        x, source = integers(13, 37, dtype=dtype), integers(13, 80, dtype=dtype, low=0, high=2, seed=1)
        where = index(13, 80, below=37)
        for reduce in ("sum", "prod", "amax", "amin"):
            yield case(f"scatter {reduce} {TAGS[dtype]}", lambda t, i, s, r=reduce: t.scatter_reduce(1, i, s, r), x,
                       where, source, reference="same")  # fmt: skip
        if dtype == torch.float32:  # float rows have a separate kernel
            yield case("scatter sum of columns", lambda t, i, s: t.scatter_add(0, i, s), x.t().contiguous(),
                       where.t().contiguous(), source.t().contiguous(), reference="same")  # fmt: skip
    flags, more = values(13, 37, dtype=torch.bool), values(13, 80, dtype=torch.bool, seed=1)
    yield case("scatter sum bool", lambda t, i, s: t.scatter_add(1, i, s), flags, index(13, 80, below=37), more,
               reference="same")  # fmt: skip


def adding_rows() -> Iterator[Case]:
    for dtype in DTYPES["ALL"]:
        x, source = integers(13, 37, dtype=dtype), integers(300, 37, dtype=dtype, low=0, high=1, seed=1)
        yield case(f"index_add {TAGS[dtype]}", lambda t, i, s: t.index_add(0, i, s), x, index(300, below=13), source,
                   reference="exact" if dtype in FLOAT else "same")  # fmt: skip
    for dtype in FLOAT:
        g = values(20, 16, 37, dtype=dtype)
        yield case(f"embedding backward {TAGS[dtype]}",
                   lambda t, i: torch.ops.aten.embedding_dense_backward(t, i, 300, -1, False), g,
                   index(20, 16, below=300))  # fmt: skip


def bags() -> Iterator[Case]:
    for dtype in FLOAT:
        table, weights = values(20, 70, dtype=dtype), values(40, dtype=dtype, seed=1)
        offsets = torch.tensor([0, 3, 3, 17])
        for mode in ("sum", "mean", "max"):
            def bag(*tensors: torch.Tensor, mode: str = mode) -> torch.Tensor:
                t, i, o, w = tensors
                return F.embedding_bag(i, t, o, mode=mode, per_sample_weights=w if mode == "sum" else None)

            yield case(f"embedding_bag {mode} {TAGS[dtype]}", bag, table, index(40, below=20), offsets, weights)


def finding() -> Iterator[Case]:
    for dtype in DTYPES["ALL"]:
        x = integers(41, 67, dtype=dtype)
        yield case(f"nonzero {TAGS[dtype]}", torch.nonzero, x, reference="same")


def pairs() -> Iterator[Case]:
    """Generate calls that interleave two tensors."""
    for dtype in (torch.int8, torch.float16, torch.float32, torch.int64):
        x, y = values(5, 131, dtype=dtype), values(5, 131, dtype=dtype, seed=1)
        yield case(f"stack of two {TAGS[dtype]}", lambda a, b: torch.stack([a, b], -1), x, y, reference="same")


def sums_of_halves() -> Iterator[Case]:
    """Generate calls that add dense and strided rows at a few distinct indices."""
    for dtype in (torch.float16, torch.bfloat16):
        x, indices = integers(13, 37, dtype=dtype), index(13, 37, below=13)
        for name in ("sum", "prod"):
            for dim, source in ((0, x), (1, x), (0, gapped(x))):
                def scatter(t: torch.Tensor, i: torch.Tensor, s: torch.Tensor, dim: int = dim,
                            name: str = name) -> torch.Tensor:  # fmt: skip
                    return t.scatter_reduce(dim, i, s, name)

                yield case(f"scatter_reduce of few {name} {dim} {source.stride()} {TAGS[dtype]}", scatter,
                           x.clamp(-1, 1), indices, source.clamp(-1, 1))  # fmt: skip


def counting() -> Iterator[Case]:
    """Generate calls that count values with many occurrences."""
    yield case("bincount", torch.bincount, index(3000, below=37), reference="same")
    for dtype in FLOAT:  # the CPU's histc does not support half precision
        yield case(f"histc {TAGS[dtype]}", torch.histc, integers(41, 67, dtype=dtype, low=-9, high=9), 7, -5, 5,
                   reference="same" if dtype == torch.float32 else "none")  # fmt: skip


def runs() -> Iterator[Case]:
    """Generate calls that find runs of equal elements, in sorted and unsorted tensors that are longer than a chunk."""
    for dtype in DTYPES["ALL"]:
        x = integers(41, 67, dtype=dtype)
        yield case(f"unique {TAGS[dtype]}", torch.unique, x, True, True, True, reference="same")
        yield case(f"unique_consecutive {TAGS[dtype]}", torch.unique_consecutive, x, True, True, reference="same")


def cases() -> Iterator[Case]:
    yield from counting()
    yield from sums_of_halves()
    yield from pairs()
    yield from runs()
    yield from reading()
    yield from segments()
    yield from writing()
    yield from adding_rows()
    yield from bags()
    yield from finding()
