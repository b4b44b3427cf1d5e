"""Cases for MLX's GEMM and attention kernels over Metal 4's tensor operations ("nax")."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F

from .checkout import Case, Checkout, Run, packed, poison, tiles

NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
GEMM = "steel/gemm/kernels/steel_gemm_"
FUSED_TILES = ("bm64_bn128_bk256_wm2_wn4", "bm128_bn128_bk512_wm4_wn4")  # MLX's choices for large and small GPUs
ALL_FUSED_TILES = (*FUSED_TILES, "bm64_bn64_bk256_wm2_wn2", "bm64_bn128_bk64_wm2_wn4", "bm128_bn128_bk64_wm4_wn4",
                   "bm128_bn128_bk256_wm4_wn4")  # fmt: skip
SPLIT_K_TILES = ("bm64_bn64_bk256_wm2_wn2", "bm128_bn128_bk512_wm4_wn4")
GATHER_TILES = ("bm16_bn128_bk128_wm1_wn4", "bm32_bn128_bk128_wm1_wn4", "bm64_bn128_bk128_wm2_wn4")
SEGMENT_TILES = ("bm64_bn64_bk256_wm2_wn2", "bm64_bn64_bk128_wm2_wn2", "bm64_bn64_bk64_wm2_wn2")
LAYOUTS = ("nn", "nt", "tn", "tt")


def sizes(tile: str) -> list[int]:
    """Return BM, BN, BK, WM, and WN of a tile's name."""
    return [int(size) for size in re.findall(r"\d+", tile)]


def product(a: torch.Tensor, b: torch.Tensor, layout: str) -> torch.Tensor:
    """Multiply matrices stored in the given layout."""
    return (a.T if layout[0] == "t" else a) @ (b.T if layout[1] == "t" else b)


def operands(m: int, n: int, k: int, layout: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return random matrices stored in the given layout."""
    shapes = (k, m) if layout[0] == "t" else (m, k), (n, k) if layout[1] == "t" else (k, n)
    return [torch.randn(shape, dtype=dtype, device="mpsx") for shape in shapes]


def fused(mlx: Checkout, a: torch.Tensor, b: torch.Tensor, layout: str, shape: tuple[int, int, int],
          names: Iterable[str]) -> Iterator[tuple[str, Run]]:  # fmt: skip
    """Yield a GEMM for each tile size."""
    (m, n, k), name = shape, NAMES[a.dtype]
    out = torch.empty(m, n, dtype=a.dtype, device="mpsx")
    for tile in names:
        bm, bn, bk, wm, wn = sizes(tile)
        kernel = mlx.kernel(f"{GEMM}fused_nax", f"steel_gemm_fused_nax_{layout}_{name}_{name}_{tile}", has_batch=False,
                            use_out_source=False, do_axpby=False, align_M=m % bm == 0, align_N=n % bn == 0,
                            align_K=k % bk == 0)  # fmt: skip
        swizzle = 2 if bm == 64 else 0 if tiles(m, bm) <= 3 else 1
        p = packed("8i3q3i4x", m, n, k, a.shape[1], b.shape[1], n, tiles(n, bn), tiles(m, bm), 0, 0, 0, swizzle,
                   k // bk, 1)  # fmt: skip
        threads = ((tiles(n, bn) << swizzle) * 32, tiles(tiles(m, bm), 1 << swizzle) * wn, wm)

        def run(kernel=kernel, p=p, threads=threads, group=(32, wn, wm)) -> torch.Tensor:
            poison(out)
            kernel(a, b, None, out, p, None, None, None, threads=threads, group_size=group)
            return out

        yield tile, run


def split_k(mlx: Checkout, a: torch.Tensor, b: torch.Tensor, layout: str, shape: tuple[int, int, int],
            names: Iterable[str]) -> Iterator[tuple[str, Run]]:  # fmt: skip
    """Yield a GEMM that splits K, with the sum over its parts, for each tile size."""
    (m, n, k), name = shape, NAMES[a.dtype]
    part = k // 2 if k <= 1024 else 1024 if k <= 2048 else 2048 if k <= 4096 else 4096
    for tile in names:
        bm, bn, bk, wm, wn = sizes(tile)
        size = max(part // bk, 1) * bk
        parts = tiles(k, size)
        partial = torch.empty(parts, m, n, device="mpsx")
        out = torch.empty(m, n, dtype=a.dtype, device="mpsx")
        kernel = mlx.kernel(f"{GEMM}splitk_nax", f"steel_gemm_splitk_nax_{layout}_{name}_float32_{tile}",
                            align_M=m % bm == 0, align_N=n % bn == 0)  # fmt: skip
        add = mlx.kernel(f"{GEMM}splitk", f"steel_gemm_splitk_accum_{name}_float32")
        swizzle = 0 if tiles(m, bm) <= 3 else 1
        p = packed("13i", m, n, k, a.shape[1], b.shape[1], n, tiles(n, bn), tiles(m, bm), parts, m * n, size, swizzle,
                   size // bk)  # fmt: skip
        groups = (tiles(n, bn) << swizzle) * tiles(tiles(m, bm), 1 << swizzle) * parts

        def run(kernel=kernel, add=add, p=p, threads=(groups * 32, wn, wm), group=(32, wn, wm), partial=partial,
                out=out) -> torch.Tensor:  # fmt: skip
            poison(partial)
            kernel(a, b, partial, p, threads=threads, group_size=group)
            add(partial, out, len(partial), m * n, n, arg_casts={2: "int32", 3: "int32", 4: "int32"}, threads=(n, m))
            return out

        yield tile, run


def gather(mlx: Checkout, a: torch.Tensor, b: torch.Tensor, experts: torch.Tensor, layout: str,
           names: Iterable[str]) -> Iterator[tuple[str, Run]]:  # fmt: skip
    """Yield the products of a's rows with the matrices of b that `experts` selects."""
    (m, k), name = a.shape, NAMES[a.dtype]
    n = b.shape[1] if layout == "nt" else b.shape[2]
    out = torch.empty(m, n, dtype=a.dtype, device="mpsx")
    for tile in names:
        bm, bn, bk, wm, wn = sizes(tile)
        kernel = mlx.kernel(f"{GEMM}gather_nax", f"steel_gather_mm_rhs_nax_{layout}_{name}_{name}_{tile}",
                            align_M=m % bm == 0, align_N=n % bn == 0, align_K=k % bk == 0)  # fmt: skip
        p = packed("8i3q3i4x", m, n, k, k, b.shape[2], n, tiles(n, bn), tiles(m, bm), 0, b[0].numel(), 0, 0, k // bk,
                   0)  # fmt: skip
        threads = (tiles(n, bn) * 32, tiles(m, bm) * wn, wm)

        def run(kernel=kernel, p=p, threads=threads, group=(32, wn, wm)) -> torch.Tensor:
            poison(out)
            kernel(a, b, experts, out, p, threads=threads, group_size=group)
            return out

        yield tile, run


def segmented(mlx: Checkout, a: torch.Tensor, b: torch.Tensor, bounds: list[int], layout: str,
              shape: tuple[int, int], names: Iterable[str]) -> Iterator[tuple[str, Run]]:  # fmt: skip
    """Yield one product per segment of K. `bounds` are the segments' ends, beginning with 0."""
    (m, n), name, count = shape, NAMES[a.dtype], len(bounds) - 1
    segments = torch.tensor(list(itertools.pairwise(bounds)), dtype=torch.int32, device="mpsx")
    out = torch.empty(count, m, n, dtype=a.dtype, device="mpsx")
    for tile in names:
        bm, bn, bk, wm, wn = sizes(tile)
        kernel = mlx.kernel(f"{GEMM}segmented_nax", f"steel_segmented_mm_nax_{layout}_{name}_{name}_{tile}",
                            segments_contiguous=True, align_M=m % bm == 0, align_N=n % bn == 0)  # fmt: skip
        p = packed("8i3q3i4x", m, n, bounds[-1], a.shape[1], b.shape[1], n, tiles(n, bn), tiles(m, bm), 0, 0, m * n, 0,
                   0, 0)  # fmt: skip
        grid = [tiles(n, bn), tiles(m, bm), count]
        grid = grid if bk > 64 else [grid[2], *grid[:2]]

        def run(kernel=kernel, p=p, threads=(grid[0] * 32, grid[1] * wn, grid[2] * wm),
                group=(32, wn, wm)) -> torch.Tensor:  # fmt: skip
            poison(out)
            kernel(a, b, segments, out, p, threads=threads, group_size=group)
            return out

        yield tile, run


def attention(mlx: Checkout, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None,
              causal: bool = False, bks: Iterable[int] = (32, 64)) -> Iterator[tuple[str, Run]]:  # fmt: skip
    """Yield attention for each size of the tiles of keys. q is [batch, heads, queries, head_dim]."""
    batch, heads, length, width = q.shape
    keys, name, out = k.shape[2], NAMES[q.dtype], torch.empty_like(q)
    split = "dsplit_" if width == 256 else ""
    wn = 2 if split else 1
    mask_name = "bool_" if mask is not None and mask.dtype == torch.bool else name
    for bk in bks if width in (64, 128) else (32,):
        kernel = mlx.kernel("steel/attn/kernels/steel_attention_nax",
                            f"steel_attention_{split}{name}_bq64_bk{bk}_bd{width}_wm4_wn{wn}_mask{mask_name}",
                            align_Q=length % 64 == 0, align_K=keys % bk == 0, has_mask=mask is not None,
                            do_causal=causal, has_sinks=False)  # fmt: skip
        strides = [s for x in (q, k, v, out) for s in x.stride()[:3]]
        p = packed("6if7i12q", batch, heads, width, length, keys, heads // k.shape[1], 1 / math.sqrt(width),
                   tiles(length, 64), tiles(keys, bk), length // 64, keys // bk, length % 64, keys % bk, keys - length,
                   *strides)  # fmt: skip
        mask_p = None if mask is None else packed("3q", *mask.expand(batch, heads, length, keys).stride()[:3])
        threads = (tiles(length, 64) * 32, heads * 4, batch * wn)

        def run(kernel=kernel, p=p, mask_p=mask_p, threads=threads) -> torch.Tensor:
            poison(out)
            kernel(q, k, v, out, p, mask_p, mask, None, threads=threads, group_size=(32, 4, wn))
            return out

        yield f"bq64_bk{bk}", run


def attention_case(name: str, tensors: list[torch.Tensor], theirs: Iterable[tuple[str, Run]],
                   causal: bool = False) -> Case:  # fmt: skip
    """Return a case of attention for [q, k, v] or [q, k, v, mask]. If `causal`, the last query attends to all keys."""
    q, k = tensors[:2]
    length, keys, gqa = q.shape[2], k.shape[2], k.shape[1] != q.shape[1]

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if causal and keys != length:
            mask = torch.ones(length, keys, dtype=torch.bool, device=q.device).tril(keys - length)
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal and keys == length, enable_gqa=gqa)

    work = 4.0 * q.numel() * keys * (0.5 if causal else 1)
    # Rounding errors of scores grow with the head size, and enter the result through exp().
    return Case(name, work, function, tensors, theirs, lambda q, k, v, *mask: function(q, k, v.abs(), *mask), 2)


def gemm_cases(mlx: Checkout, dtype: torch.dtype, small: bool) -> Iterator[Case]:
    """Yield the cases of matmul with and without a split of K."""
    for m, n, k in ((100, 130, 300), (256, 128, 512)) if small else ((4096,) * 3, (4096, 3072, 768), (4096, 768, 3072)):
        for layout in LAYOUTS if small else LAYOUTS[:2]:
            a, b = operands(m, n, k, layout, dtype)
            names = ALL_FUSED_TILES if small and layout == "nt" else FUSED_TILES
            yield Case(f"nax matmul_{layout} {m}x{n}x{k}", 2.0 * m * n * k,
                       lambda a, b, layout=layout: product(a, b, layout), [a, b],
                       fused(mlx, a, b, layout, (m, n, k), names))  # fmt: skip
    for m, n, k in ((70, 90, 1500), (128, 256, 1024)) if small else ((512, 512, 16384), (768, 768, 4096)):
        for layout in LAYOUTS if small else LAYOUTS[:2]:
            a, b = operands(m, n, k, layout, dtype)
            yield Case(f"nax split_k_{layout} {m}x{n}x{k}", 2.0 * m * n * k,
                       lambda a, b, layout=layout: product(a, b, layout), [a, b],
                       split_k(mlx, a, b, layout, (m, n, k), SPLIT_K_TILES))  # fmt: skip


def gather_case(mlx: Checkout, dtype: torch.dtype, rows: list[int], n: int, k: int, layout: str,
                names: Iterable[str]) -> Case:  # fmt: skip
    """Return the case with one n x k matrix per expert. `rows` are the numbers of rows of the experts."""
    bounds = [0, *itertools.accumulate(rows)]
    experts = torch.tensor([e for e, count in enumerate(rows) for _ in range(count)], device="mpsx",
                           dtype=torch.int32)  # fmt: skip
    a = torch.randn(bounds[-1], k, dtype=dtype, device="mpsx")
    b = torch.randn(len(rows), *((n, k) if layout == "nt" else (k, n)), dtype=dtype, device="mpsx")

    def grouped(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ranges = enumerate(itertools.pairwise(bounds))
        return torch.cat([product(a[start:end], b[e], layout) for e, (start, end) in ranges])

    return Case(f"nax gather_{layout} {len(rows)}x{bounds[-1]}x{n}x{k}", 2.0 * bounds[-1] * n * k, grouped, [a, b],
                gather(mlx, a, b, experts, layout, names))  # fmt: skip


def expert_cases(mlx: Checkout, dtype: torch.dtype, small: bool) -> Iterator[Case]:
    """Yield the cases with one matrix per expert, and with segments of K."""
    large = (([512] * 8, 2048, 2048), ([64] * 64, 2048, 2048))
    for rows, n, k in (([37, 0, 64, 9], 150, 200), ([64, 0, 128], 128, 256)) if small else large:
        for layout in ("nn", "nt"):
            names = GATHER_TILES if all(count % 64 == 0 for count in rows) else GATHER_TILES[:2]
            yield gather_case(mlx, dtype, rows, n, k, layout, names)
    m, n, bounds = (100, 90, [0, 300, 300, 333, 845]) if small else (2048, 2048, [512 * i for i in range(9)])
    for layout in LAYOUTS if small else LAYOUTS[:2]:
        a, b = operands(m, n, bounds[-1], layout, dtype)

        def segments(a: torch.Tensor, b: torch.Tensor, bounds=bounds, layout=layout) -> torch.Tensor:
            x, y = a.T if layout[0] == "t" else a, b.T if layout[1] == "t" else b
            return torch.stack([x[:, start:end] @ y[start:end] for start, end in itertools.pairwise(bounds)])

        yield Case(f"nax segmented_{layout} {len(bounds) - 1}x{m}x{n}", 2.0 * m * n * bounds[-1], segments, [a, b],
                   segmented(mlx, a, b, bounds, layout, (m, n), SEGMENT_TILES))  # fmt: skip


def fault_cases(mlx: Checkout, dtype: torch.dtype, _: bool) -> Iterator[Case]:
    """Yield a case that simt rejects: experts change within a tile of 64 rows."""
    yield gather_case(mlx, dtype, [37, 0, 64, 9], 150, 200, "nt", GATHER_TILES[2:])


def attention_cases(mlx: Checkout, dtype: torch.dtype, small: bool) -> Iterator[Case]:
    """Yield the cases of attention."""
    batch, heads, queries, keys = (2, 4, 100, 150) if small else (4, 16, 2048, 2048)
    for width in (64, 96, 128, 256) if small else (64, 128):
        q = torch.randn(batch, heads, queries, width, dtype=dtype, device="mpsx")
        k, v = (torch.randn(batch, heads // (2 if small else 1), keys, width, dtype=dtype, device="mpsx")
                for _ in range(2))  # fmt: skip
        for causal in (False, True):
            name = f"nax attention{'_causal' if causal else ''} {queries}x{keys}x{width}"
            yield attention_case(name, [q, k, v], attention(mlx, q, k, v, causal=causal), causal)
        if small:
            for mask in (torch.rand(batch, 1, queries, keys, device="mpsx") < 0.7,
                         torch.randn(heads, queries, keys, dtype=dtype, device="mpsx")):  # fmt: skip
                yield attention_case(f"nax attention_mask {queries}x{keys}x{width}", [q, k, v, mask],
                                     attention(mlx, q, k, v, mask))  # fmt: skip
