#!/usr/bin/env python3
"""Compare matmul, convolution, and attention with MLX's Metal kernels on the same driver and GPU.

    MPSX_DRIVER=cuda python tools/bench/mlx.py ~/mlx --csv mlx.csv
    python tools/bench/mlx.py ~/mlx --small          # on any driver: compare only the results

~/mlx is a checkout of ml-explore/mlx. Of MLX's tile sizes for large GPUs, only the fastest is reported. Times are
medians over several rounds.
"""

from __future__ import annotations

import argparse
import math
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F

import mpsx
from mpsx.shader import library

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.worker import write_csv

NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
TAGS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
GEMM_TILES = ("bm64_bn64_bk16_wm2_wn2", "bm64_bn64_bk16_wm1_wn2", "bm64_bn32_bk32_wm2_wn2")
CONVOLUTIONS = [(64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 128, 1, 1), (128, 28, 128, 3, 1),
                (256, 14, 256, 3, 1), (1024, 14, 2048, 1, 2), (512, 7, 512, 3, 1)]  # fmt: skip
Run = Callable[[], torch.Tensor]


def packed(form: str, *values: float) -> torch.Tensor:
    """Pack values into a struct in device memory."""
    return torch.frombuffer(bytearray(struct.pack(form, *values)), dtype=torch.uint8).to("mpsx")


class Mlx:
    """Creates calls of MLX's kernels, which are compiled on first use."""

    def __init__(self, checkout: Path) -> None:
        self.checkout, self.files = checkout, {}

    def kernel(self, file: str, name: str, **constants: bool):
        """Return the kernel `name` from the MLX source `file`."""
        if file not in self.files:
            path = self.checkout / "mlx" / "backend" / "metal" / "kernels" / f"{file}.metal"
            self.files[file] = library.load(path.read_text(), str(path), [str(self.checkout), str(path.parent)])
        found = getattr(self.files[file], name)
        return found.with_constants(**constants) if constants else found

    def matmuls(self, a: torch.Tensor, b: torch.Tensor, transposed: bool) -> Iterator[tuple[str, Run]]:
        """Yield a @ b (or a @ b.T) for each of MLX's tile sizes. The matrices are square, and their size is a multiple
        of 64."""
        n, out = len(a), torch.empty_like(a)
        for tile in GEMM_TILES:
            bn, bk = (int(word[2:]) for word in tile.split("_")[1:3])
            wm, wn = (int(word[2:]) for word in tile.split("_")[3:])
            name = f"steel_gemm_fused_{'nt' if transposed else 'nn'}_{NAMES[a.dtype]}_{NAMES[a.dtype]}_{tile}"
            kernel = self.kernel("steel/gemm/kernels/steel_gemm_fused", name,
                                 has_batch=False, use_out_source=False, do_axpby=False, align_M=True, align_N=True,
                                 align_K=True)  # fmt: skip
            p = packed("8i3q3i4x", n, n, n, n, n, n, n // bn, n // 64, 0, 0, 0, 0, n // bk, 1)
            threads = (n // bn * 32, n // 64 * wn, wm)

            def run(kernel=kernel, p=p, threads=threads, group=(32, wn, wm)) -> torch.Tensor:
                kernel(a, b, None, out, p, None, None, None, threads=threads, group_size=group)
                return out

            yield tile, run

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Iterator[tuple[str, Run]]:
        """Yield attention for [batch, heads, length, head_dim]. The length must be a multiple of 32."""
        batch, heads, length, width = q.shape
        out, bk = torch.empty_like(q), 32 if width < 128 else 16
        name = f"steel_attention_{NAMES[q.dtype]}_bq32_bk{bk}_bd{width}_wm4_wn1_mask{NAMES[q.dtype]}"
        kernel = self.kernel("steel/attn/kernels/steel_attention", name, align_Q=True, align_K=True, has_mask=False,
                             do_causal=False, has_sinks=False)  # fmt: skip
        blocks = (length // 32, length // bk)
        strides = (heads * length * width, length * width, width) * 4
        p = packed("6if7i12q", batch, heads, width, length, length, 1, 1 / math.sqrt(width), *blocks, *blocks, 0, 0, 0,
                   *strides)  # fmt: skip

        def run() -> torch.Tensor:
            kernel(q, k, v, out, p, None, None, None, threads=(length, heads * 4, batch), group_size=(32, 4, 1))
            return out

        yield f"bq32_bk{bk}", run

    def convolutions(self, x: torch.Tensor, w: torch.Tensor, stride: int) -> Iterator[tuple[str, Run]]:
        """Yield an implicit-GEMM convolution for each tile size. x is [images, side, side, channels], and w is
        [outputs, taps, taps, channels]."""
        images, side, _, channels = x.shape
        outputs, taps, padding = len(w), w.shape[1], w.shape[1] // 2
        to = (side + 2 * padding - taps) // stride + 1
        out = torch.empty(images, to, to, outputs, dtype=x.dtype, device="mpsx")
        name = f"implicit_gemm_conv_2d_{NAMES[x.dtype]}_bm64_bn64_bk16_wm2_wn2_channel_l_filter_s"
        kernel = self.kernel("steel/conv/kernels/steel_conv", name)
        rows, row_stride = images * to * to, side * channels
        p = packed("3i14i4x12qi?3x", images, channels, outputs, side, side, taps, taps, to, to, stride, stride, padding,
                   padding, 1, 1, 1, 1, *x.stride(), *w.stride(), *out.stride(), 1, False)  # fmt: skip
        jump = 16 - (taps - 1) * row_stride - (taps - 1) * channels
        tiles = ((outputs + 63) // 64, (rows + 63) // 64)
        q = packed("10i", rows, outputs, taps * taps * channels, taps * taps * ((channels + 15) // 16), channels,
                   row_stride - (taps - 1) * channels, jump, *tiles, 0)  # fmt: skip

        def run() -> torch.Tensor:
            kernel(x, w, out, p, q, threads=(tiles[0] * 32, tiles[1] * 2, 2), group_size=(32, 2, 2))
            return out

        yield "bm64_bn64_bk16", run


def cases(mlx: Mlx, dtype: torch.dtype, small: bool) -> Iterator[tuple[str, float, Run, list[tuple[str, Run]]]]:
    """Yield (name, number of operations, mpsx's call, MLX's calls) for each case."""
    n = 256 if small else 4096
    a, b = (torch.randn(n, n, dtype=dtype, device="mpsx") for _ in range(2))
    yield f"matmul {n}", 2.0 * n**3, lambda: a @ b, list(mlx.matmuls(a, b, False))
    yield f"matmul_nt {n}", 2.0 * n**3, lambda: a @ b.T, list(mlx.matmuls(a, b, True))
    length, heads = (64, 2) if small else (2048, 16)
    for width in (64, 128):
        q, k, v = (torch.randn(heads // 4 or 1, heads, length, width, dtype=dtype, device="mpsx") for _ in range(3))
        work = 4.0 * q.numel() * length
        yield f"attention {length}x{width}", work, lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v), list(
            mlx.attention(q, k, v))  # fmt: skip
    for channels, side, outputs, taps, stride in CONVOLUTIONS[:1] if small else CONVOLUTIONS:
        images = 1 if small else 64
        x = torch.randn(images, channels, side, side, dtype=dtype, device="mpsx").contiguous(
            memory_format=torch.channels_last)  # fmt: skip
        w = torch.randn(outputs, channels, taps, taps, dtype=dtype, device="mpsx").contiguous(
            memory_format=torch.channels_last)  # fmt: skip
        theirs = mlx.convolutions(x.permute(0, 2, 3, 1), w.permute(0, 2, 3, 1), stride)
        work = 2.0 * images * (side // stride) ** 2 * outputs * channels * taps**2

        def run(x=x, w=w, stride=stride, taps=taps) -> torch.Tensor:
            return F.conv2d(x, w, None, stride, taps // 2).permute(0, 2, 3, 1)

        yield f"conv2d {channels}x{side}x{outputs}x{taps}x{stride}", work, run, list(theirs)


def seconds(run: Run, calls: int) -> float:
    """Return the seconds per call, averaged over `calls` calls."""
    torch.mpsx.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    torch.mpsx.synchronize()
    return (time.perf_counter() - start) / calls


def main() -> None:
    """Run the command-line interface."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--dtypes", nargs="+", default=list(TAGS), choices=list(TAGS))
    parser.add_argument("--small", action="store_true", help="compare results at small sizes, without timing")
    parser.add_argument("--csv")
    options = parser.parse_args()
    mlx, rows = Mlx(options.checkout), []
    for tag in options.dtypes:
        for name, work, ours, theirs in cases(mlx, TAGS[tag], options.small):
            expected = ours().float()
            for tile, run in theirs:
                error = (run().float() - expected).abs().max() / expected.abs().max()
                if not error < (2e-2 if tag == "bf16" else 4e-3):
                    raise SystemExit(f"{name} {tag}: MLX's {tile} differs by {error.item():.2g}")
            if options.small:
                print(f"{name} {tag}: agree")
                continue
            runs = [ours, *(run for _, run in theirs)]
            calls = [max(1, int(0.01 / seconds(run, 2))) for run in runs]
            turns = [[seconds(run, n) for run, n in zip(runs, calls, strict=True)] for _ in range(5)]
            mine, *others = (statistics.median(column) for column in zip(*turns, strict=True))
            least = min(others)
            rows.append({"operator": name, "dtype": tag, "mpsx_us": f"{mine * 1e6:.1f}", "mlx_us": f"{least * 1e6:.1f}",
                         "ratio": f"{mine / least:.2f}", "mpsx_tflops": f"{work / mine / 1e12:.1f}",
                         "mlx_tflops": f"{work / least / 1e12:.1f}",
                         "mlx_tile": theirs[others.index(least)][0]})  # fmt: skip
            print(*rows[-1].values(), sep="\t", flush=True)
    write_csv(options.csv, rows)


if __name__ == "__main__":
    mpsx.fallback.set_mode("error")
    main()
