"""Generate launch arguments for MLX's kernels, based on the kernels' names. No launch accesses memory out of bounds."""

from __future__ import annotations

import re
import struct

import referee
import torch

TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "int32": torch.int32,
         "int64": torch.int64, "uint8": torch.uint8, "float": torch.float32, "float16_t": torch.float16,
         "bfloat16_t": torch.bfloat16}  # fmt: skip
RADIX_CONSTANTS = {13: 4, 11: 5, 8: 6, 7: 7, 6: 8, 5: 9, 4: 10, 3: 11, 2: 12}  # radix -> constant index
Launch = tuple[list, tuple, tuple]


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def int64(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def gemm_launch(kernel: str, seed: int) -> Launch:
    """Return the arguments, threads, and threads per threadgroup for multiplying a 72x80 matrix by an 80x56 matrix."""
    pattern = r"steel_gemm_fused_.._(\w+?)_.*_bm(\d+)_bn(\d+)_bk\d+_wm(\d+)_wn(\d+)"
    name, bm, bn, wm, wn = re.match(pattern, kernel).groups()
    bm, bn, wm, wn, m, n, k = int(bm), int(bn), int(wm), int(wn), 72, 56, 80
    transposed_b = kernel.removeprefix("steel_gemm_fused_")[1] == "t"
    dtype = TYPES[name]
    generator = torch.Generator().manual_seed(seed)
    a, b, d = (referee.numbers(dtype, count, generator, seed > 0) for count in (m * k, k * n, m * n))
    tiles_n, tiles_m, bk = -(-n // bn), -(-m // bm), int(re.search(r"_bk(\d+)", kernel)[1])
    ldb = k if transposed_b else n
    packed = struct.pack("<8i3q3i4x", m, n, k, k, ldb, n, tiles_n, tiles_m, 0, 0, 0, 0, k // bk, 0)
    params = torch.frombuffer(bytearray(packed), dtype=torch.int32).clone()
    return [a, b, None, d, params], (32 * tiles_n, wn * tiles_m, wm), (32, wn, wm)


def attention_launch(kernel: str, seed: int) -> Launch:
    """Return the arguments, threads, and threads per threadgroup for attention with 2 heads, 3 queries, and 40 keys."""
    dtype = torch.float16 if "float16" in kernel else torch.float32
    heads, queries, keys, d = 2, 3, 40, 64
    generator = torch.Generator().manual_seed(seed)
    q, k, v, out = (referee.numbers(dtype, heads * n * d, generator, False) for n in (queries, keys, keys, queries))
    strides = [int64(x) for x in (keys * d, d, keys * d, d)]
    values = [q, k, v, out, int32(1), int32(keys), *strides, torch.tensor([0.125])]
    return values, (1024 * heads, queries, 1), (1024, 1, 1)


def steel_attention_launch(kernel: str, seed: int) -> Launch:
    """Return the arguments, threads, and threads per threadgroup for attention with 2 heads, 40 queries, and 72 keys.
    """
    name, bk, d, mask = re.match(r"steel_attention_(\w+)_bq32_bk(\d+)_bd(\d+)_wm4_wn1_mask(\w+)", kernel).groups()
    bk, d, heads, queries, keys = int(bk), int(d), 2, 40, 72
    generator = torch.Generator().manual_seed(seed)
    lengths = (queries, keys, keys, queries)
    q, k, v, out = (referee.numbers(TYPES[name], heads * n * d, generator, False) for n in lengths)
    masks = referee.numbers(TYPES.get(mask, torch.bool), heads * queries * keys, generator, False)
    sinks = referee.numbers(TYPES[name], heads, generator, False)
    strides = [x for n in lengths for x in (heads * n * d, n * d, d)]
    packed = struct.pack("<6if7i12q", 1, heads, d, queries, keys, 1, 0.125, 2, -(-keys // bk), 1, keys // bk, 8, 8,
                         keys - queries, *strides)  # fmt: skip
    params = torch.frombuffer(bytearray(packed), dtype=torch.int32).clone()
    mask_strides = int64(heads * queries * keys, queries * keys, keys)
    return [q, k, v, out, params, mask_strides, masks, sinks], (32 * 2, 4 * heads, 1), (32, 4, 1)


def reduce_launch(kernel: str, seed: int) -> Launch:
    """Return the arguments, threads, and threads per threadgroup for reducing 16 rows of 100 elements."""
    name = re.search(r"(?:sum|prod|max|min)(\w+)$", kernel)[1]
    generator = torch.Generator().manual_seed(seed)
    x, y = (referee.numbers(TYPES[name], 1600, generator, seed > 0) for _ in range(2))
    if kernel.startswith("all_reduce"):
        return [x, y, int64(1600), int64(800)], (64, 2, 1), (64, 1, 1)
    if kernel.startswith("row_reduce"):
        return [x, y, int64(100), int64(14)], (256, 1, 1), (64, 1, 1)
    one = [int32(1), int64(0), int32(1)]
    return [x, y, int64(16), int64(100), *one, int32(16), int64(100), int32(1), int64(1)], (1024, 1, 1), (256, 1, 1)


def scan_launch(kernel: str, seed: int) -> Launch:
    """Return the arguments, threads, and threads per threadgroup for two scans of 3000 elements each.

    Uses 32 SIMD groups: with fewer, the kernel would read uninitialized threadgroup memory.
    """
    dtype, generator = TYPES[kernel.rsplit("_", 1)[1]], torch.Generator().manual_seed(seed)
    x, y = (referee.numbers(dtype, 6000, generator, seed > 0) for _ in range(2))
    return [x, y, int64(3000)], (1024, 2, 1), (1024, 1, 1)


def sort_launch(kernel: str, seed: int) -> Launch:
    """Return the arguments, threads, and threads per threadgroup for sorting 3 rows of 400 elements."""
    name, out = re.match(r"c(?:arg)?_block_sort_([a-z]+\d+)_([a-z]+\d+)_bn128_tn4", kernel).groups()
    x = referee.numbers(TYPES[name], 1200, torch.Generator().manual_seed(seed), seed > 0)
    y = torch.zeros(1200, dtype=TYPES.get(out, torch.int32))
    return [x, y, *(int32(n) for n in (400, 1, 1, 400, 400))], (128, 3, 1), (128, 1, 1)


def softmax_launch(kernel: str, seed: int) -> Launch:
    """Return the arguments, threads, and threads per threadgroup for the softmax of 3 rows of 3000 elements.

    Uses 32 SIMD groups: with fewer, looped kernels would read uninitialized threadgroup memory.
    """
    dtype, generator = TYPES[kernel.rsplit("_", 1)[1]], torch.Generator().manual_seed(seed)
    x, y = (referee.numbers(dtype, 9000, generator, False) for _ in range(2))
    return [x, y, int32(3000)], (1024 * 3, 1, 1), (1024, 1, 1)


def quantized_launch(kernel: str, seed: int) -> Launch:
    """Return the arguments, threads, and threads per threadgroup for a quantized matmul with K = 512."""
    name, t, size, bits = re.match(r"affine_(\w+?)_(float|float16_t|bfloat16_t)_gs_(\d+)_b_(\d)", kernel).groups()
    size, bits, k, n = int(size), int(bits), 512, 128
    m = 3 if "mv" in name or "vm" in name else 40
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randint(0, 256, (k * n * bits // 8,), generator=generator).to(torch.uint8)
    scales, biases = (referee.numbers(TYPES[t], k * n // size, generator, False) for _ in range(2))
    dense = referee.numbers(TYPES[t], k * n, generator, False)
    if name == "quantize":
        return [dense, torch.zeros_like(weights), scales, biases], (k * n * 32 // size, 1, 1), (32, 1, 1)
    if name == "dequantize":
        return [weights, scales, biases, dense], (k * n // {3: 8, 5: 8, 6: 4}.get(bits, 8 // bits), 1, 1), (32, 1, 1)
    x, y = (referee.numbers(TYPES[t], m * count, generator, False) for count in (k, n))
    batch = [int32(0), int32(m, k), int64(0, 0), int32(0), int32(n, k), int64(0, 0), int64(0, 0), int64(0, 0)]
    sizes = [int32(k), int32(n), *([int32(m)] if "qmm" in name else [])]
    threads = {"qmv_fast": (32 * m, 2 * n // 8, 1), "qmv": (32 * m, 2 * n // 8, 1), "qvm": (32 * m, 2 * n // 64, 1)}
    group = (32, 2, 2) if "qmm" in name else (32, 2, 1)
    return [weights, scales, biases, x, y, *sizes, *batch], threads.get(name, (32 * n // 32, 2 * 2, 2)), group


def fft_plan(kernel: str) -> tuple[int, int]:
    """Return the radix of the kernel's transform, which takes two steps, and the number of transforms per
    threadgroup."""
    memory = int(re.search(r"mem_(\d+)", kernel)[1])
    return {256: (8, 4), 512: (7, 8), 1024: (13, 4)}[memory]


def fft_launch(kernel: str, seed: int) -> Launch:
    """Return the arguments, threads, and threads per threadgroup for transforms of radix * radix points."""
    radix, at_once = fft_plan(kernel)
    n, batch = radix * radix, 2 * at_once
    generator = torch.Generator().manual_seed(seed)
    real = "float_float2" in kernel or kernel.endswith("float2_float")
    x, y = (referee.numbers(torch.float32, 2 * n * batch, generator, False) for _ in range(2))
    return [x, y, int32(n), int32(batch)], (1 if real else 2, at_once, radix), (1, at_once, radix)


def constants(kernel: str, found: list[dict]) -> dict[int, int]:
    """Return the values to set for a kernel's function constants."""
    if kernel.startswith("fft"):
        radix, _ = fft_plan(kernel)
        values = {1: radix == 8, 2: radix, RADIX_CONSTANTS[radix]: 2}
        return {c["index"]: values.get(c["index"], 0) for c in found}
    if kernel.startswith("steel_attention"):
        values = {300: True, 301: "bool" in kernel, 302: True}  # has_mask, do_causal, has_sinks
        return {c["index"]: values.get(c["index"], False) for c in found}
    return {c["index"]: 0 if c["type"] == "bool" else 4 for c in found}


LAUNCHES = {"gemm": gemm_launch, "attention": attention_launch, "reduce": reduce_launch, "scan": scan_launch,
            "softmax": softmax_launch, "sort": sort_launch, "quantized": quantized_launch,
            "fft": fft_launch, "steel_attention": steel_attention_launch}  # fmt: skip


def launches(family: str, kernel: str, description: dict) -> list[Launch]:
    """Return the kernel's launches, each as (arguments, threads, threads per threadgroup)."""
    if family in LAUNCHES:
        return [LAUNCHES[family](kernel, seed) for seed in range(2)]
    sizes = [((256, 1, 1), (128, 1, 1)), ((256, 2, 1), (64, 1, 1))]
    return [(referee.arguments(description, seed, seed > 0), *sizes[seed]) for seed in range(2)]
