"""Generate launch arguments for PyTorch's kernels, based on their names. No launch accesses memory out of bounds."""

from __future__ import annotations

import re
import struct

import referee
import torch

TYPES = {name: dtype for name, dtype in referee.DTYPES.items() if name not in ("uint", "ulong")}
CODES = {"uchar": 0, "char": 1, "short": 2, "int": 3, "long": 4, "half": 5, "float": 6, "bool": 11, "bfloat": 15}
COUNT = 203  # elements in an elementwise launch; not a multiple of the four elements per thread
INNER, OUTER = 20, 10  # sizes of the two dimensions in a strided launch
Launch = tuple[list, tuple, tuple]


def integers(kind: str, *values: int) -> torch.Tensor:
    """Return numbers as a tensor of bytes. `kind` is the struct module's format character for each number."""
    return torch.frombuffer(bytearray(struct.pack(f"<{len(values)}{kind}", *values)), dtype=torch.uint8).clone()


def vector(*values: int) -> torch.Tensor:
    """Return an int or uint vector. Three components are padded to four, as in Metal."""
    return integers("i", *values, *([0] * ({1: 1, 2: 2, 3: 4, 4: 4}[len(values)] - len(values))))


def launches(family: str, kernel: str, description: dict) -> list[Launch]:
    """Return two launches of a kernel: one with ordinary values, and one that also has special values."""
    for pattern, launch in PATTERNS.get(family, OTHERS).items():
        if found := re.fullmatch(pattern, kernel):
            return [launch(found, torch.Generator().manual_seed(seed), seed > 0) for seed in range(2)]
    raise ValueError(f"expected a known kernel, got {kernel}")


def numbers(name: str, count: int, generator: torch.Generator, special: bool = False) -> torch.Tensor:
    return referee.numbers(TYPES[name], count, generator, special)


def unary(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    _, kind, out, name = found.groups()
    x = numbers(name, COUNT, generator, special)
    out = out or ("int", "half")[special] if "castout" in kind else out
    y = numbers(out, COUNT, generator)
    size, code = y.element_size(), CODES[out]
    if kind.startswith("strided"):
        strides = [(x.element_size() * OUTER, x.element_size()), (size, size * INNER)]
        dims = vector(2, code) if "castout" in kind else vector(2)
        values = [y, x, integers("q", INNER, OUTER), *(integers("q", *s) for s in strides), dims]
        return values, (INNER, OUTER, 1), (4, 2, 1)
    last = {"dense": [vector(COUNT)], "dense_scalar": [], "dense_castout": [vector(size, code)],
            "dense_castout_ilp": [vector(size, code, COUNT)]}[kind]  # fmt: skip
    threads = -(-COUNT // 4) if kind in ("dense", "dense_castout_ilp") else COUNT
    return [y, x, *last], (threads, 1, 1), (32, 1, 1)


def binary(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    operator, kind, out, name, scale = found.groups()
    cast = "cast" in kind.split("_")
    swap, special = special, special and "polynomial" not in operator  # polynomials of NaN return garbage
    other = ("float", "int")[swap] if cast else name
    first, second = (name, other) if swap else (other, name)
    a, b = numbers(first, COUNT, generator, special), numbers(second, COUNT, generator, special)
    y = numbers(out, COUNT, generator)
    sizes, codes = (a.element_size(), b.element_size()), (CODES[first], CODES[second])
    weight = [] if scale is None else [numbers(scale, 1, generator)]
    if kind.startswith("strided"):
        strides = [(y.element_size(), y.element_size() * INNER), (sizes[0] * OUTER, sizes[0]), (sizes[1], 0)]
        dims = vector(2, *codes, CODES[out]) if cast else vector(2, *codes)
        values = [y, a, b, *weight, integers("q", INNER, OUTER), *(integers("q", *s) for s in strides), dims]
        return values, (INNER * OUTER, 1, 1), (32, 1, 1)
    broadcast = [integers("q", 7)] if "broadcast" in kind else []
    last = [vector(*sizes, *codes)] if cast else []
    if "ilp4" in kind:
        return [y, a, b, vector(COUNT)], (-(-COUNT // 4), 1, 1), (32, 1, 1)
    return [y, a, b, *broadcast, *weight, *last], (COUNT, 1, 1), (32, 1, 1)


def sort_block(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    several, key, name, threads, short, _ = found.groups()
    threads, blocks, rows = int(threads), 2 if several else 1, 2
    size = threads * 4 * blocks - 5
    x = numbers(name, size * rows, generator, special)
    result = TYPES[{"float": "int", "half": "short", "bfloat": "short"}[name]] if key == "_fkey" else x.dtype
    index = torch.int64 if not several else torch.int16 if short else torch.int32
    values = [x, torch.zeros(size * rows, dtype=result), torch.zeros(size * rows, dtype=index), vector(size),
              integers("q", 1, size), integers("?", special)]  # fmt: skip
    values += [vector(3, 10)] if key == "_topk" else []
    return values, (threads * blocks, rows, 1), (threads, 1, 1)


def merge(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Merge two sorted runs in each row."""
    final, top, key, name, threads, short = found.groups()
    threads, rows, descending = int(threads), 2, special and not key
    block, index = int(threads) * 4, torch.int16 if short else torch.int32
    size = block * 2 - 5
    kind = {"float": "int", "half": "short"}[name] if key else name
    keys = numbers(kind, size * rows, generator, special).reshape(rows, size)
    if key:
        keys = keys.abs()
    runs = [run.float() if run.dtype in (torch.float16, torch.bfloat16) else run for run in keys.split(block, 1)]
    runs = [torch.sort(run, 1, descending)[0].to(keys.dtype) for run in runs]
    keys = torch.cat(runs, 1).reshape(-1).contiguous()
    values = [keys, torch.arange(size).repeat(rows).to(index), torch.zeros(size * rows, dtype=TYPES[name]),
              torch.zeros(size * rows, dtype=torch.int64 if final else index), vector(size, 2, 0),
              integers("?", special)]  # fmt: skip
    values += [vector(3, 10)] if top else []
    return values, (threads * 2, rows, 1), (threads, 1, 1)


def radix_sizes(name: str) -> tuple[int, int, int]:
    """Return the threads per threadgroup, the elements per threadgroup, and the number of digits."""
    threads = 1024 if name in ("half", "bfloat", "short", "ushort") else 512
    narrow = name in ("char", "uchar", "bool")
    return threads, threads * (8 if narrow else 4), 16 if narrow else 256


def radix_count(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    scan, name = found.groups()
    threads, block, digits = radix_sizes(name)
    size, blocks = block + 100, 2
    values = [numbers(name, size, generator, special), torch.zeros(digits * blocks, dtype=torch.int32),
              vector(size, blocks, 4), integers("?", special)]  # fmt: skip
    return values, (threads if scan else threads * blocks, 1, 1), (threads, 1, 1)


def radix_scan(_found: re.Match, generator: torch.Generator, _special: bool) -> Launch:
    counts = torch.randint(0, 9, (4000,), generator=generator, dtype=torch.int32)
    return [counts, vector(2000)], (1024, 2, 1), (1024, 1, 1)


def radix_scatter(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Reserve room for all elements under each digit, so that no two elements are written to the same index."""
    fused, final, top, name, short = found.groups()
    threads, block, digits = radix_sizes(name)
    size, index = block - 100, torch.int16 if short else torch.int32
    offsets = torch.full((digits,), block) if fused else torch.arange(digits) * block
    values = [numbers(name, size, generator, special), torch.arange(size).to(index),
              torch.zeros(digits * block, dtype=TYPES[name]),
              torch.zeros(digits * block, dtype=torch.int64 if final or top else index), offsets.to(torch.int32),
              vector(size, 1, 4), integers("?", special, False)]  # fmt: skip
    values += [vector(0, digits * block)] if top else []
    return values, (threads, 1, 1), (threads, 1, 1)


def sdpa(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Attention with 2 heads, 3 queries, and 40 keys."""
    first_pass, name, d, mask = found.group(1, 2, 3, 4)
    d, heads, queries, keys = int(d), 2, 3, 40
    mask = {"none": "float", "none_causal": "float"}.get(mask, mask)
    q, k, v = (numbers(name, heads * n * d, generator) for n in (queries, keys, keys))
    blocks = 32 if first_pass else 1
    out = [torch.zeros(heads * queries * d * blocks, dtype=TYPES[name])]
    out += [torch.zeros(heads * queries * blocks) for _ in range(2)] if first_pass else []
    head_strides = vector(queries * d, keys * d, keys * d)
    values = [q, k, v, *out, vector(1), vector(keys), head_strides, vector(d, d, d), torch.tensor([0.125]),
              numbers(mask, heads * queries * keys, generator), vector(1, keys, queries * keys, 0),
              vector(0, 0, 0, heads)]  # fmt: skip
    if first_pass:
        return values, (256 * heads, queries, 32), (256, 1, 1)
    return values, (1024 * heads, queries, 1), (1024, 1, 1)


def sdpa_second_pass(found: re.Match, generator: torch.Generator, _special: bool) -> Launch:
    name, d, heads, queries = found[1], int(found[2]), 2, 3
    count = heads * queries * 32
    values = [numbers(name, count * d, generator), numbers("float", count, generator).abs(),
              numbers("float", count, generator), torch.zeros(heads * queries * d, dtype=TYPES[name])]  # fmt: skip
    return values, (1024 * heads, queries, 1), (1024, 1, 1)


def prefill(found: re.Match, generator: torch.Generator, special: bool) -> Launch:
    """Attention with 2 heads, 40 queries, and 72 keys."""
    words = {"float32": "float", "float16": "half", "bfloat16": "bfloat", "bool_": "bool"}
    name, d, mask = words[found[1]], int(found[2]), words[found[3]]
    heads, queries, keys = 2, 40, 72
    q, k, v = (numbers(name, heads * n * d, generator) for n in (queries, keys, keys))
    params = struct.pack("<6i2f12i", 1, heads, d, queries, keys, 1, 0.125, 1.0, *(
        x for n in (queries, keys, keys, queries) for x in (heads * n * d, n * d, d)))  # fmt: skip
    values = [q, k, v, torch.zeros_like(q), torch.frombuffer(bytearray(params), dtype=torch.int32).clone(),
              vector(0, queries * keys, keys, 1), numbers(mask, heads * queries * keys, generator)]  # fmt: skip
    return values, (128 * 2, heads, 1), (128, 1, 1)


_T = "(float|half|bfloat|int|long|short|char|uchar|bool)"
UNARY = {
    rf"(\w+?)_(dense|dense_scalar|strided)_{_T}_{_T}": unary,
    rf"(\w+?)_(dense_castout|dense_castout_ilp|strided_castout)(x)?_{_T}": unary,
}
KIND = "(?:dense|strided)(?:_ilp4|_broadcast|_broadcast_rhs|_scalar|_scalar_lhs)?(?:_cast)?"
BINARY = {rf"(\w+?)_({KIND})_{_T}_{_T}(?:_{_T})?": binary}
OTHERS = {
    rf"(mb_)?sort_block(_topk|_fkey)?_{_T}_tptg(\d+)(_u16)?(_stable)?": sort_block,
    rf"mb_merge(_final)?(_topk)?(_fkey)?_{_T}_tptg(\d+)(_u16)?": merge,
    rf"radix_count(_scan)?_{_T}_\dbit(?:_mb4)?": radix_count,
    r"radix_scan": radix_scan,
    rf"radix_scatter(_fused)?(_final)?(_topk)?_{_T}_\dbit(_u16)?": radix_scatter,
    rf"sdpa_vector(_2pass_1)?_{_T}_(\d+)_\d+_mask(\w+)": sdpa,
    rf"sdpa_vector_2pass_2_{_T}_(\d+)": sdpa_second_pass,
    r"prefill_attention_(\w+?)_bq\d+_bk\d+_bd(\d+)_wm4_wn1_hm\d_dc\d_mask(\w+)": prefill,
}
PATTERNS = {"unary": UNARY, "binary": BINARY, "alpha": BINARY}
