#!/usr/bin/env python3
"""Compare matmul, convolution, and attention with MLX's Metal kernels on the same driver and GPU.

    MPSX_DRIVER=cuda python tools/bench/mlx.py ~/mlx --cuda --csv mlx.csv
    python tools/bench/mlx.py ~/mlx --small          # on any driver: only check the results
    python tools/bench/mlx.py ~/mlx --small --families attention --only causal --dtypes f16

~/mlx is a checkout of ml-explore/mlx. All families but "simdgroup" run its kernels over Metal 4's tensor operations,
whose names contain "nax". The results are compared with float64. Of MLX's tile sizes for a case, only the fastest is
reported. Times are medians over several rounds.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F

import mpsx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench import mlx_nax, mlx_quantized
from bench.checkout import TAGS, Case, Checkout, Run, add_arguments, compare, packed, tiles

NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
GEMM_TILES = ("bm64_bn64_bk16_wm2_wn2", "bm64_bn64_bk16_wm1_wn2", "bm64_bn32_bk32_wm2_wn2")
CONVOLUTIONS = [(64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 128, 1, 1), (128, 28, 128, 3, 1),
                (256, 14, 256, 3, 1), (1024, 14, 2048, 1, 2), (512, 7, 512, 3, 1)]  # fmt: skip


def matmuls(mlx: Checkout, a: torch.Tensor, b: torch.Tensor, transposed: bool) -> Iterator[tuple[str, Run]]:
    """Yield a @ b (or a @ b.T) for each of MLX's tile sizes. The matrices are square, and their size is a multiple of
    64."""
    n, out, name = len(a), torch.empty_like(a), NAMES[a.dtype]
    for tile in GEMM_TILES:
        bn, bk = (int(word[2:]) for word in tile.split("_")[1:3])
        wm, wn = (int(word[2:]) for word in tile.split("_")[3:])
        kernel = mlx.kernel("steel/gemm/kernels/steel_gemm_fused",
                            f"steel_gemm_fused_{'nt' if transposed else 'nn'}_{name}_{name}_{tile}", has_batch=False,
                            use_out_source=False, do_axpby=False, align_M=True, align_N=True, align_K=True)  # fmt: skip
        p = packed("8i3q3i4x", n, n, n, n, n, n, n // bn, n // 64, 0, 0, 0, 0, n // bk, 1)
        threads = (n // bn * 32, n // 64 * wn, wm)

        def run(kernel=kernel, p=p, threads=threads, group=(32, wn, wm)) -> torch.Tensor:
            kernel(a, b, None, out, p, None, None, None, threads=threads, group_size=group)
            return out

        yield tile, run


def attention(mlx: Checkout, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Iterator[tuple[str, Run]]:
    """Yield attention for [batch, heads, length, head_dim]. The length must be a multiple of 32."""
    batch, heads, length, width = q.shape
    out, bk = torch.empty_like(q), 32 if width < 128 else 16
    name = f"steel_attention_{NAMES[q.dtype]}_bq32_bk{bk}_bd{width}_wm4_wn1_mask{NAMES[q.dtype]}"
    kernel = mlx.kernel("steel/attn/kernels/steel_attention", name, align_Q=True, align_K=True, has_mask=False,
                        do_causal=False, has_sinks=False)  # fmt: skip
    blocks = (length // 32, length // bk)
    strides = (heads * length * width, length * width, width) * 4
    p = packed("6if7i12q", batch, heads, width, length, length, 1, 1 / math.sqrt(width), *blocks, *blocks, 0, 0, 0,
               *strides)  # fmt: skip

    def run() -> torch.Tensor:
        kernel(q, k, v, out, p, None, None, None, threads=(length, heads * 4, batch), group_size=(32, 4, 1))
        return out

    yield f"bq32_bk{bk}", run


def convolutions(mlx: Checkout, x: torch.Tensor, w: torch.Tensor, stride: int) -> Iterator[tuple[str, Run]]:
    """Yield an implicit-GEMM convolution. x is [images, side, side, channels], and w is
    [outputs, taps, taps, channels]."""
    images, side, _, channels = x.shape
    outputs, taps, padding = len(w), w.shape[1], w.shape[1] // 2
    to = (side + 2 * padding - taps) // stride + 1
    out = torch.empty(images, to, to, outputs, dtype=x.dtype, device="mpsx")
    name = f"implicit_gemm_conv_2d_{NAMES[x.dtype]}_bm64_bn64_bk16_wm2_wn2_channel_l_filter_s"
    kernel = mlx.kernel("steel/conv/kernels/steel_conv", name)
    rows, row_stride = images * to * to, side * channels
    p = packed("3i14i4x12qi?3x", images, channels, outputs, side, side, taps, taps, to, to, stride, stride, padding,
               padding, 1, 1, 1, 1, *x.stride(), *w.stride(), *out.stride(), 1, False)  # fmt: skip
    jump = 16 - (taps - 1) * row_stride - (taps - 1) * channels
    grid = (tiles(outputs, 64), tiles(rows, 64))
    q = packed("10i", rows, outputs, taps * taps * channels, taps * taps * tiles(channels, 16), channels,
               row_stride - (taps - 1) * channels, jump, *grid, 0)  # fmt: skip

    def run() -> torch.Tensor:
        kernel(x, w, out, p, q, threads=(grid[0] * 32, grid[1] * 2, 2), group_size=(32, 2, 2))
        return out.permute(0, 3, 1, 2)

    yield "bm64_bn64_bk16", run


def simdgroup_cases(mlx: Checkout, dtype: torch.dtype, small: bool) -> Iterator[Case]:
    """Yield the cases for MLX's kernels over simdgroup_matrix."""
    n = 256 if small else 4096
    a, b = (torch.randn(n, n, dtype=dtype, device="mpsx") for _ in range(2))
    yield Case(f"matmul {n}", 2.0 * n**3, torch.matmul, [a, b], matmuls(mlx, a, b, False))
    yield Case(f"matmul_nt {n}", 2.0 * n**3, F.linear, [a, b], matmuls(mlx, a, b, True))
    length, heads = (64, 2) if small else (2048, 16)
    for width in (64, 128):
        q, k, v = (torch.randn(heads // 4 or 1, heads, length, width, dtype=dtype, device="mpsx") for _ in range(3))
        yield mlx_nax.attention_case(f"attention {length}x{width}", [q, k, v], attention(mlx, q, k, v))
    for channels, side, outputs, taps, stride in CONVOLUTIONS[:1] if small else CONVOLUTIONS:
        images = 1 if small else 64
        x, w = (torch.randn(*shape, dtype=dtype, device="mpsx").contiguous(memory_format=torch.channels_last)
                for shape in ((images, channels, side, side), (outputs, channels, taps, taps)))  # fmt: skip

        def conv2d(x: torch.Tensor, w: torch.Tensor, stride=stride, taps=taps) -> torch.Tensor:
            return F.conv2d(x, w, None, stride, taps // 2)

        theirs = convolutions(mlx, x.permute(0, 2, 3, 1), w.permute(0, 2, 3, 1), stride)
        work = 2.0 * images * (side // stride) ** 2 * outputs * channels * taps**2
        yield Case(f"conv2d {channels}x{side}x{outputs}x{taps}x{stride}", work, conv2d, [x, w], theirs)


FAMILIES = {"gemm": mlx_nax.gemm_cases, "experts": mlx_nax.expert_cases, "attention": mlx_nax.attention_cases,
            "quantized": mlx_quantized.batch_cases, "quantized_experts": mlx_quantized.gather_cases,
            "simdgroup": simdgroup_cases}  # fmt: skip
FAULTS = {"gather_fault": mlx_nax.fault_cases, "quantized_fault": mlx_quantized.fault_cases}  # rejected by simt


def main() -> None:
    """Run the command-line interface."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--families", nargs="+", choices=[*FAMILIES, *FAULTS], default=list(FAMILIES))
    options = parser.parse_args()
    torch.manual_seed(0)
    mlx = Checkout(options.checkout / "mlx/backend/metal/kernels", [options.checkout])
    cases = [(tag, case) for tag in options.dtypes for family in options.families
             for case in (FAMILIES | FAULTS)[family](mlx, TAGS[tag], options.small)]  # fmt: skip
    compare(mlx, cases, options, "mlx")


if __name__ == "__main__":
    mpsx.fallback.set_mode("error")
    main()
