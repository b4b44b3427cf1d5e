"""Generate launch arguments for the kernels of PyTorch 2.6, based on their names. No launch accesses memory out of
bounds."""

from __future__ import annotations

import re

import referee
import torch
from torch_launches import Launch, integers

TYPES = {"int32_t": torch.int32, "int64_t": torch.int64, **referee.DTYPES}
FLOATS = "float|half|bfloat"
ONE = (1, 1, 1)


def numbers(name: str, count: int, generator: torch.Generator, special: bool = False) -> torch.Tensor:
    return referee.numbers(TYPES[name], count, generator, special)


def offsets(count: int, *sizes: int) -> torch.Tensor:
    """Return byte offsets of elements in up to four buffers, given the size of an element in each buffer."""
    table = torch.zeros(count, 4, dtype=torch.int32)
    for column, size in enumerate(sizes):
        table[:, column] = torch.arange(count) * size
    return table


def binary(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Pass three buffers, and the byte offsets of each thread's elements in them."""
    operator, name = found.groups()
    inputs = 2 if operator == "complex_mul" else 1  # elements per thread
    outputs = 2 if operator in ("complex_mul", "complex_kernel", "polar") else 1
    out = "float" if operator == "copysign" and name not in FLOATS.split("|") else name
    a, b = (numbers(name, 100 * inputs, generator, special) for _ in range(2))
    y = numbers(out, 100 * outputs, generator)
    step = a.element_size() * inputs
    return [a, b, y, offsets(100, y.element_size() * outputs, step, step)], (100, 1, 1), (32, 1, 1)


def cross(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    a, b, y = (numbers(found[1], 150, generator, special) for _ in range(3))
    size = a.element_size()
    step, stride = (size, 50) if special else (size * 3, 1)  # vectors in columns or in rows
    strides = [integers("q", stride) for _ in range(3)]
    return [a, b, y, offsets(50, step, step, step), *strides], (50, 1, 1), (32, 1, 1)


def bessel(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    x, y = numbers(found[1], 100, generator, special), numbers(found[2], 100, generator)
    return [x * 4 if x.is_floating_point() else x, y], (100, 1, 1), (32, 1, 1)


def searchsorted(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Search two rows of boundaries. Without an array that sorts them, the boundaries are sorted."""
    name, out, sorter = found.groups()
    x, boundaries = numbers(name, 100, generator, special), numbers(name, 74, generator).reshape(2, 37)
    wide = boundaries.float() if boundaries.is_floating_point() else boundaries
    order = torch.argsort(wide, 1)
    values = [x, boundaries if sorter else boundaries.gather(1, order), numbers(out, 100, generator)]
    values += [integers("q", n) for n in (50, 37, 100, special, 0)]
    return [*values, *([order] if sorter else [])], (64, 1, 1), (64, 1, 1)


def optimizer(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Update two tensors, one per threadgroup. Argument buffers have room for 32 tensors each."""
    kind, name, steps = found.groups()
    sgd = kind.startswith("sgd")
    lists = {"sgd": 2, "sgd_momentum": 3}.get(kind, 5 if "amsgrad" in kind else 4)
    sizes, arguments = (300, 100), []
    for number in range(lists):
        pair = [numbers(name, size, generator) for size in sizes]
        pair = [t.abs() for t in pair] if number > 2 else pair  # averages of squares
        arguments += pair * 16
    if steps:
        arguments += [torch.full((1,), 3, dtype=TYPES[steps])] * 32
    metadata = integers("I", *(sizes * 16), *([0, 1] * 16), *([0] * 32))
    scalars = {"sgd": (0.1, 0.02), "sgd_momentum": (0.1, 0.9, 0.02, 0.3)}.get(kind, (0.02, 0.9, 0.99, 0.1, 1e-6))
    flags = [special, not special, special][: 3 if kind == "sgd_momentum" else 1]
    values = [torch.tensor([0.0 if special and v == 0.1 and sgd else v]) for v in scalars]
    return [arguments, metadata, *values, *(integers("B", f) for f in flags)], (128, 1, 1), (64, 1, 1)


def histogram(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Sort 50 points of two dimensions into 4 x 6 bins."""
    name, edges = found[1], [torch.linspace(-2, 2, n) for n in (5, 7)]
    x, weight = numbers(name, 100, generator, special), numbers(name, 50, generator)
    low, high = (torch.full((2,), v, dtype=TYPES[name]) for v in (-2, 2))
    values = [x, weight, torch.zeros(50 * 24, dtype=TYPES[name]), torch.arange(100, dtype=torch.int32),
              integers("q", 2), torch.cat(edges).to(TYPES[name]), integers("q", 5, 7), low, high,
              integers("q", 24, 6, 1), integers("B", 2 - special), integers("B", special)]  # fmt: skip
    return values, (50, 1, 1), (32, 1, 1)


def index_offset(_found: re.Match, generator: torch.Generator, _special: bool) -> Launch:
    values = [integers("I", 7, 31), numbers("int", 24, generator), integers("I", 4, 6), integers("I", 2)]
    return values, (24, 1, 1), (32, 1, 1)


def index_offsets(found: re.Match, generator: torch.Generator, _special: bool) -> Launch:
    out = torch.zeros(24 * 4, dtype=torch.int32 if found[1] == "32" else torch.int64)
    values = [integers("I", 7, 31, 3, 5, 1, 2), out, integers("I", 4, 6), integers("I", 2)]
    return values, (24, 1, 1), (32, 1, 1)


def im2col(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Gather the patches of a 3x2 window, dilated by 1x2, from two images of 3 channels and 9x7 pixels."""
    parts = 2 if found[2] else 1
    x = numbers(found[1], 2 * 3 * 7 * 9 * parts, generator, special)
    y = numbers(found[1], 2 * 18 * 35 * parts, generator)
    values = [x, y, integers("I", 3, 2, 1, 2), integers("i", 1, 1, 2, 1), integers("q", 1, 9, 63, 189),
              integers("q", 1, 35, 18 * 35, 5), integers("q", 9, 7, 3, 2)]  # fmt: skip
    return values, (35, 3, 2), (32, 1, 1)


def index(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Read or write 40 different elements of a 10x12 matrix."""
    kind, bits, name, offset = found.groups()
    dtype = {"8": torch.int8, "16": torch.int16, "32": torch.int32, "64": torch.int64}[bits]
    matrix, line = (torch.randint(-100, 100, (n,), generator=generator).to(dtype) for n in (120, 40))
    if name == "float":  # sums of these are exact in any order
        matrix, line = matrix.float(), line.float()
    chosen, size = torch.randperm(120, generator=generator)[:40], matrix.element_size()
    rows, columns = chosen // 12, chosen % 12
    columns = torch.where(columns % 2 == 0, columns, columns - 12) if special else columns
    table = torch.zeros(40, 4, dtype=torch.int32 if offset == "32" else torch.int64)
    table[:, 0 if kind == "select" else 1] = torch.arange(40) * size
    table[:, 2] = torch.arange(40) * 8
    values = [[rows, columns], integers("q", 10, 12), integers("q", 12 * size, size), table,
              *((matrix, line) if kind == "select" else (line, matrix)), integers("I", 2)]  # fmt: skip
    if kind == "put_serial":
        return [*values, integers("I", 40)], ONE, ONE
    return values, (40, 1, 1), (32, 1, 1)


def matmul(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Multiply an 11x24 matrix by a 24x9 matrix, one of which is transposed."""
    m, k, n = 11, 24, 9
    a, b, y = (numbers(found[1], count, generator, special) for count in (m * k, k * n, m * n))
    strides = (1, m, n, 1, n, 1) if special else (k, 1, 1, k, n, 1)
    return [a, b, y, integers("q", *strides), integers("I", m, k, n, 0)], (m * n, 1, 1), (32, 1, 1)


def quantized(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Multiply by a matrix of 4-bit or 8-bit weights."""
    kind, size, name = found.groups()
    k, n, m = 512, 24, 2
    if kind == "large_m_int8pack_mm":
        k, n, m = 64, 128, 40  # the kernel reads 64 scales at a time
    bits = 4 if kind == "int4pack_mm" else 8
    scales = n if bits == 8 else k // int(size) * n * 2
    weights = torch.randint(0, 256, (k * n * bits // 8,), generator=generator).to(torch.uint8)
    values = [numbers(name, m * k, generator), weights, numbers(name, scales, generator),
              numbers(name, m * n, generator), integers("I", m, k, n, 0)]  # fmt: skip
    if bits == 4:
        return values, (n // 4 * 32, 1, m), (32, 1, 1)
    if kind == "int8pack_mv":
        return values, (n // 8 * 64, m, 1), (64, 1, 1)
    return values, (-(-m // 32) * 128, -(-n // 64), 1), (128, 1, 1)


def pack(_found: re.Match, generator: torch.Generator, _special: bool) -> Launch:
    words = torch.randint(-(1 << 31), 1 << 31, (60,), generator=generator).to(torch.int32)
    return [words, torch.zeros(240, dtype=torch.uint8), integers("I", 12, 5)], (12, 5, 1), (4, 5, 1)


def renorm(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    x, y = (numbers(found[1], 100, generator, special) for _ in range(2))
    return [x, y, torch.tensor([0.7])], (100, 1, 1), (32, 1, 1)


def repeat(found: re.Match, generator: torch.Generator, _special: bool) -> Launch:
    counts = torch.randint(0, 5, (50,), generator=generator)
    total = int(counts.sum())
    values = [counts.to(TYPES[found[1]]), counts.cumsum(0), torch.zeros(total, dtype=TYPES[found[1]])]
    return values, (50, 1, 1), (32, 1, 1)


def triangle(found: re.Match, generator: torch.Generator, _special: bool) -> Launch:
    """List the 25 indices of a triangle of 5 columns, and of the rectangle of 2 rows that precedes or follows it."""
    kind, name = found.groups()
    first, area = (1, 15) if kind == "tril" else (5, 10)
    y = torch.zeros(50, dtype=TYPES[name])
    return [y, *(integers("q", v) for v in (0, first, 5, area, 25))], (25, 1, 1), (32, 1, 1)


def unfold(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Add the gradients of 6 windows of 4 elements, 3 elements apart, in each of 3 rows."""
    x, y = (numbers(found[1], count, generator, special) for count in (3 * 6 * 4, 60))
    values = [x, y, integers("q", 24, 4, 1), integers("q", 3, 20), integers("q", 20, 1), integers("I", 1, 4, 3, 2)]
    return values, (60, 1, 1), (32, 1, 1)


def upsample(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Scale two images of 3 channels from 6x5 to 12x10 pixels. Atomic additions of gradients are exact in any order."""
    backward, name = found.groups()
    exact, scale = bool(backward), 1.0 if backward and name != "float" else 0.5
    w, h = (6, 5) if scale == 1 else (12, 10)
    x, y = (numbers(name, 6 * count, generator, special and not exact) for count in (30, w * h))
    x, y = (v.float().round().to(v.dtype) if exact else v for v in (x, y))
    values = [x, y, *(integers("q", 1, r, r * c, 3 * r * c) for r, c in ((6, 5), (w, h))),
              *(integers("q", r, c, 3, 2) for r, c in ((6, 5), (w, h))), torch.tensor([scale, scale]),
              integers("?", special and not exact)]  # fmt: skip
    return values, (w * h, 1, 1), (32, 1, 1)


T = r"(float|half|bfloat|int|long|short|char|uchar|bool)"
PATTERNS = {
    rf"(fmax|fmin|copysign|polar|complex_mul|complex_kernel|nextafter_kernel)_{T}": binary,
    rf"cross_{T}": cross,
    rf"i[01]_{T}_{T}": bessel,
    rf"searchsorted_{T}_(int|long)(_sorter)?": searchsorted,
    rf"fused_(adamw?(?:_amsgrad)?|sgd(?:_momentum)?)_({FLOATS})(?:_({FLOATS}))?": optimizer,
    rf"histogramdd_({FLOATS})": histogram,
    r"kernel_index_offset": index_offset,
    r"kernel_index_offsets_(32|64)": index_offsets,
    rf"im2col_{T}(2)?": im2col,
    r"index_(select|put|put_serial|put_accumulate)_(\d+)bit_(?:(float|int)_)?idx(32|64)": index,
    rf"naive_matmul_({FLOATS})": matmul,
    rf"(int4pack_mm|int8pack_mv|large_m_int8pack_mm)_(?:(\d+)_)?({FLOATS})": quantized,
    r"weight_to_int4pack": pack,
    rf"renorm_({FLOATS})": renorm,
    r"repeat_interleave_(int32_t|int64_t)": repeat,
    r"(tril|triu)_indices_(int|long)": triangle,
    rf"unfold_backward_({FLOATS})": unfold,
    rf"upsample_bicubic2d(_backward)?_({FLOATS})": upsample,
}


def launches(kernel: str) -> list[Launch]:
    """Return two launches of a kernel: one with ordinary values, and one that also has special values."""
    for pattern, launch in PATTERNS.items():
        if found := re.fullmatch(pattern, kernel):
            return [launch(found, torch.Generator().manual_seed(seed), seed > 0) for seed in range(2)]
    raise ValueError(f"expected a known kernel, got {kernel}")
