"""Copies, casts, fills, sequences, and operators that only move elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from tables import DTYPES, FLOAT, TAGS

from kernel_cases import Case, case, gapped, values

OF_SIZE = (torch.int8, torch.int16, torch.int32, torch.int64)


def copy_cases() -> Iterator[Case]:
    for dtype in OF_SIZE:
        x = values(37, 41, dtype=dtype, low=-100, high=100)
        for name, y in {
            "dense": x,
            "rows": x[:, 1:-2],
            "repeated": x[:, :1].expand(37, 41),
            "step": x[:, ::2],
            "transposed": x.t(),
        }.items():
            yield case(f"copy {name} {TAGS[dtype]}", lambda t: t.contiguous().clone(), y, reference="same")
            yield case(f"clone {name} {TAGS[dtype]}", lambda t: torch.empty(t.shape, dtype=t.dtype, device=t.device)
                       .copy_(t), y, reference="same")  # fmt: skip
        yield case(f"copy to gaps {TAGS[dtype]}", lambda t, s: t.copy_(s), gapped(x), x, reference="same")
        for row in (16, 32, 64, 128):  # row size in bytes
            x = values(11, 5, 3 * row // dtype.itemsize, dtype=dtype, low=-100, high=100)[..., : row // dtype.itemsize]
            yield case(f"copy rows of {row} {TAGS[dtype]}", lambda t: t.transpose(0, 1).contiguous(), x,
                       reference="same")  # fmt: skip
        x = values(11, 5, 3, dtype=dtype, low=-100, high=100)
        for name, y in {"brief rows": x, "brief rows of one": x[..., :1].expand(11, 5, 3)}.items():
            yield case(f"copy {name} {TAGS[dtype]}", lambda t: t.transpose(0, 1).contiguous(), y, reference="same")
        yield case(f"fill {TAGS[dtype]}", lambda t: t.fill_(7), x, reference="same")
        yield case(f"fill gapped {TAGS[dtype]}", lambda t: t.fill_(7), gapped(x), reference="same")


def cast_cases() -> Iterator[Case]:
    for source, target in itertools.product(DTYPES["ALL"], DTYPES["ALL"]):
        if source == target:
            continue
        x = values(9, 35, dtype=source, low=0, high=100)
        name = f"{TAGS[source]} to {TAGS[target]}"
        yield case(f"cast {name}", lambda t, to=target: t.to(to), x, reference="same")
        yield case(f"cast gapped {name}", lambda t, to=target: t.to(to), gapped(x), reference="same")


def sequence_cases() -> Iterator[Case]:
    for dtype in DTYPES["REAL"]:
        yield case(f"arange {TAGS[dtype]}", lambda t: torch.arange(3, 103, 1, dtype=t.dtype, device=t.device),
                   values(1, dtype=dtype), reference="same")  # fmt: skip
    for dtype in DTYPES["INT"]:
        yield case(f"linspace of integers {TAGS[dtype]}",
                   lambda t: torch.linspace(90, 5, 1100, dtype=t.dtype, device=t.device),
                   values(1, dtype=dtype), reference="same")  # fmt: skip
    for dtype in FLOAT:
        yield case(f"linspace {TAGS[dtype]}", lambda t: torch.linspace(-3, 5, 101, dtype=t.dtype, device=t.device),
                   values(1, dtype=dtype))  # fmt: skip


def moving_cases() -> Iterator[Case]:
    for dtype in OF_SIZE:
        tag, x = TAGS[dtype], values(5, 7, 19, dtype=dtype, low=-100, high=100)
        yield case(f"flip {tag}", lambda t: torch.flip(t, (1,)), x, reference="same")
        yield case(f"flip rows {tag}", lambda t: torch.flip(t, (0, 2)), x, reference="same")
        yield case(f"flip rows of gapped {tag}", lambda t: torch.flip(t[..., ::2], (0,)), x, reference="same")
        yield case(f"roll {tag}", lambda t: torch.roll(t, (3, 2), (2, 0)), x, reference="same")
        yield case(f"tril {tag}", lambda t: (torch.tril(t), torch.triu(t, 1)), x, reference="same")
        yield case(f"cat {tag}", lambda t: (torch.cat([t, t[:, :3]], 1), torch.cat([t[..., ::2], t], 2)), x,
                   reference="same")  # fmt: skip
        yield case(f"cat of five {tag}", lambda t: (torch.cat([t, t[:2], t, t, t]), torch.cat([t, t], 1)), x,
                   reference="same")  # fmt: skip
        # Some tiles are inside the input. Other tiles include padding.
        rows = values(5, 7, 40, dtype=dtype, low=-100, high=100)
        yield case(f"pad {tag}", lambda t: F.pad(t, (2, 3), mode="reflect"), rows, reference="same")
        yield case(f"pad planes {tag}", lambda t: F.pad(t, (-1, 2, 1, 0), mode="replicate"), rows, reference="same")
        yield case(f"stack {tag}", lambda t: torch.stack([t, t, t], -1), x, reference="same")


def cases() -> Iterator[Case]:
    yield from copy_cases()
    yield from cast_cases()
    yield from sequence_cases()
    yield from moving_cases()
