"""Compare compiled elementwise functions with eager mode for random shapes, dtypes, and layouts.

    MPSX_DRIVER=simt python tests/support/compiled_vectors.py 6 7      6 cases per graph, seed 7

Prints one line per difference, then the vector sizes of all generated kernels, marked if the first element of a vector
loads it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool)
FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "add": lambda a, b, c: a + b,
    "select": lambda a, b, c: torch.where(c, a, b),
    "relu": lambda a, b, c: torch.relu(a.float()) * 2 + b,
    "compare": lambda a, b, c: (a < b) & c,
    "position": lambda a, b, c: a + torch.arange(a.shape[-1], device=a.device),
    "in place": lambda a, b, c: a.clone().copy_(b).logical_xor_(c),
    "concatenate": lambda a, b, c: torch.cat([a, b[..., :4], b], -1),
    "heads": lambda a, b, c: torch.cat([x.movedim(0, -2).flatten(-2) for x in (a, b)], -1),
    "pad": lambda a, b, c: torch.nn.functional.pad(a, (8, 16)) + b[..., :1],
    "pad by one": lambda a, b, c: torch.nn.functional.pad(a, (1, 0, 2, 1)),
    "gather rows": lambda a, b, c: a[c[..., 0].flatten().long()] + b[:1],
}


def random_tensor(shape: list[int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Return small integers, which every dtype represents and whose sums are exact."""
    low = -8 if dtype.is_signed else 0
    return torch.randint(low, 2 if dtype == torch.bool else 9, shape, generator=generator).to(dtype)


def with_layout(x: torch.Tensor, layout: str) -> torch.Tensor:
    """Return a tensor on mpsx with the values of `x`, or with some of them broadcast."""
    if layout == "offset":  # an address that is not a multiple of 16
        return torch.cat([x.flatten()[:1], x.flatten()]).to("mpsx")[1:].view(x.shape)
    if layout == "rows":  # rows that are longer than the tensor's
        return torch.nn.functional.pad(x.to(torch.int64), (0, 8)).to(x.dtype).to("mpsx")[..., : x.shape[-1]]
    if layout == "row":
        return x.to("mpsx")[:1].expand(x.shape)
    if layout == "column":
        return x.to("mpsx")[..., :1]
    if layout == "transposed":
        return x.transpose(0, -1).contiguous().to("mpsx").transpose(0, -1)
    return x.to("mpsx")


LAYOUTS = ("contiguous",) * 4 + ("offset", "rows", "row", "column", "transposed")


def cases(count: int, seed: int) -> Iterator[tuple[str, Callable[..., torch.Tensor], list[torch.Tensor]]]:
    """Yield (name, function, arguments). The first argument has the full shape."""
    chosen, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    for i in range(count):
        name = list(FUNCTIONS)[i % len(FUNCTIONS)]
        shape = [chosen.choice((2, 3, 5)) for _ in range(chosen.randrange(1, 3))] + [chosen.choice((6, 8, 32, 33, 64))]
        kinds = (FLOATS[1:], INTEGERS, FLOATS[:1], FLOATS + INTEGERS)[i % 4]
        dtypes = [chosen.choice(kinds), chosen.choice(kinds), torch.bool]
        layouts = [chosen.choice(LAYOUTS[:6]), *(chosen.choice(LAYOUTS) for _ in range(2))]
        values = [random_tensor(shape, dtype, generator) for dtype in dtypes]
        text = f"{name} {shape} {[*zip([str(d)[6:] for d in dtypes], layouts, strict=True)]}"
        yield text, FUNCTIONS[name], [*map(with_layout, values, layouts)]


def main(count: int, seed: int) -> None:
    """Compare static and dynamic shapes."""
    from mpsx.inductor.codegen import Kernels

    sizes, add = [], Kernels.add

    def record(kernels: Kernels, name: str, *source: object) -> object:
        sizes.append(f"{source[-1]}late" if "if (lane == 0)" in source[0] else source[-1])
        return add(kernels, name, *source)

    Kernels.add = record
    for dynamic in (False, True):
        names, functions, arguments = zip(*cases(count, seed), strict=True)
        torch._dynamo.reset()
        wanted = [f(*a) for f, a in zip(functions, arguments, strict=True)]
        compiled = torch.compile(lambda given, f=functions: [g(*a) for g, a in zip(f, given, strict=True)],
                                 dynamic=dynamic)  # fmt: skip
        for name, found, want in zip(names, compiled(arguments), wanted, strict=True):
            if found.dtype != want.dtype or not torch.equal(found.cpu(), want.cpu()):
                print(f"{name} {'dynamic' if dynamic else ''}: {(found.cpu() != want.cpu()).sum()} differ")
    print("vector sizes:", *sizes)


if __name__ == "__main__":
    with torch._inductor.config.patch(force_disable_caches=True, emulate_precision_casts=True):
        main(*map(int, sys.argv[1:]))
