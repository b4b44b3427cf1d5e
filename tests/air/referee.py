"""Compare kernels compiled by Apple's compiler with kernels that our front end compiles from the same source.

Both kernels run on the same random arguments. Buffers contain random numbers and some special values. Sizes and strides
are small."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch

ELEMENTS = (1 << 14) + 256  # size of each buffer; accesses with random strides and sizes stay within it
DTYPES = {
    "bool": torch.bool, "char": torch.int8, "uchar": torch.uint8, "short": torch.int16, "ushort": torch.uint16,
    "int": torch.int32, "uint": torch.uint32, "long": torch.int64, "ulong": torch.uint64, "half": torch.float16,
    "bfloat": torch.bfloat16, "float": torch.float32,
}  # fmt: skip
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.5, 65504.0, 1e-5, 3e38]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a comparison: equal, close, different, or a fault in one or both of the kernels."""

    kind: str
    detail: str = ""


def numbers(dtype: torch.dtype, count: int, generator: torch.Generator, special: bool) -> torch.Tensor:
    """Return random numbers. If `special` is set, replace some of them by special values."""
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator, dtype=torch.bool)
    if dtype.is_floating_point:
        values = torch.randn(count, generator=generator) * 2
        if special:
            at = torch.randint(0, count, (count // 16,), generator=generator)
            chosen = torch.randint(0, len(SPECIAL), at.shape, generator=generator)
            values[at] = torch.tensor(SPECIAL)[chosen]
        return values.to(dtype)
    low = 0 if dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64) else -100
    return torch.randint(low, 100, (count,), generator=generator).to(dtype)


def arguments(description: dict, seed: int, special: bool) -> list:
    """Return random CPU arguments for a kernel, based on the description of its buffers."""
    generator = torch.Generator().manual_seed(seed)
    buffers = {b["index"]: (b, e) for b, e in zip(description["buffers"], description["elements"], strict=True)
               if b["space"] != "threadgroup"}  # fmt: skip
    values = []
    for index in range(max(buffers, default=-1) + 1):
        buffer, element = buffers[index]
        scalar, _, components = element.removeprefix("atomic ").partition(" ")
        dtype, count = DTYPES.get(scalar, torch.int32), int(components or 1)
        is_value = "&" in buffer["text"]
        if not buffer["text"] or buffer["text"] == "unused":
            values.append(None)
        elif is_value and dtype.is_floating_point:
            values.append(torch.rand(max(count, 16), generator=generator).to(dtype))
        elif is_value or (buffer["space"] == "constant" and scalar in ("int", "uint", "long", "ulong")):
            choices = torch.tensor([1, 2, 4, 32, 64, 128] if is_value else [1, 2, 4, 8])
            values.append(choices[torch.randint(0, len(choices), (128,), generator=generator)].to(dtype))
        else:
            values.append(numbers(dtype, ELEMENTS * count, generator, special))
    return values


def copied(values: list, device: str) -> list:
    """Copy arguments to a device. An argument is a tensor, None, or a list of tensors, which may contain duplicates."""
    copies = {id(v): v.to(device) for v in flattened(values) if v is not None}
    return [[copies[id(t)] for t in v] if isinstance(v, list) else copies.get(id(v)) for v in values]


def flattened(values: list) -> list:
    """Return arguments with lists of tensors replaced by their tensors."""
    return [t for v in values for t in (v if isinstance(v, list) else [v])]


def run(kernel: object, values: list, threads: tuple, group: tuple, memory: dict | None) -> list | str:
    """Run a kernel on copies of the arguments. Return the contents of all buffers or the error message."""
    on = copied(values, "mpsx")
    try:
        kernel(*on, threads=threads, group_size=group, threadgroup_memory=memory)
        torch.accelerator.synchronize()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return flattened(copied(on, "cpu"))


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest difference in ULPs. Two NaNs are equal. The distance between different integers is
    infinite."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    if torch.equal(a.view(bits), b.view(bits)):
        return 0.0
    if not a.dtype.is_floating_point:
        return math.inf
    if not torch.equal(a.isnan(), b.isnan()):
        return math.inf
    x, y = (torch.where(v.isnan(), torch.zeros_like(v), v) for v in (a, b))
    x, y = (v.view(bits).long() for v in (x, y))
    lowest = torch.iinfo(bits).min
    x, y = (torch.where(v < 0, lowest - v, v) for v in (x, y))
    return float((x - y).abs().max())


def same_fault(a: str, b: str) -> bool:
    """Return whether two error messages describe the same kind of fault."""
    def kind(text: str) -> str:
        return re.sub(r"0x[0-9a-f]+|\d+|'[^']*'|\S+\.(?:metal|metallib)\S*", "", text.split("\n", maxsplit=1)[0])[:60]

    return kind(a) == kind(b)


def threadgroup_memory(description: dict) -> dict[int, int] | None:
    """Return sizes for a kernel's [[threadgroup(n)]] arguments."""
    return {b["index"]: 12288 for b in description["buffers"] if b["space"] == "threadgroup"} or None


def compare(apple: object, ours: object, description: dict, values: list, threads: tuple, group: tuple) -> Outcome:
    shared = threadgroup_memory(description)
    first, second = (run(k, values, threads, group, shared) for k in (apple, ours))
    if isinstance(first, str) or isinstance(second, str):
        if isinstance(first, str) and isinstance(second, str):
            return Outcome("both fault" if same_fault(first, second) else "different faults", f"{first} | {second}")
        return Outcome("one faults", f"apple: {first if isinstance(first, str) else 'ran'} | "
                       f"ours: {second if isinstance(second, str) else 'ran'}")  # fmt: skip
    changed = any(v is not None and not torch.equal(v.view(torch.uint8), f.view(torch.uint8))
                  for v, f in zip(flattened(values), first, strict=True))  # fmt: skip
    far = max((distance(a, b) for a, b in zip(first, second, strict=True) if a is not None), default=0.0)
    if far == 0:
        return Outcome("equal" if changed else "equal, nothing written")
    return Outcome("close" if far <= 4 else "differs", f"{far:g} ulps")


def disagreements(apple: object, ours: object, kernels: list[str], launches: Callable,
                  constants: Callable | None = None) -> list[str]:  # fmt: skip
    """Compare kernels compiled by Apple with ours on the same arguments. They must produce the same bits or the same
    fault in the simt driver. Return one line per difference."""
    shader, different = apple.__dict__["__shader"], []
    for kernel in kernels:
        first, second, description = getattr(apple, kernel), getattr(ours, kernel), shader.describe(kernel)
        if found := description["constants"]:
            first = first.with_constants(constants(kernel, found))
        if found := ours.__dict__["__kernels"][kernel]["constants"]:  # may include some that Apple's compiler removed
            second = second.with_constants(constants(kernel, found))
        for values, threads, group in launches(kernel, description):
            outcome = compare(first, second, description, values, threads, group)
            if outcome.kind not in ("equal", "both fault"):
                different.append(f"{kernel} {threads} {group}: {outcome.kind} {outcome.detail}")
    return different
