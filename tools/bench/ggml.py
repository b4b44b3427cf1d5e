#!/usr/bin/env python3
"""Compare matmul with the kernels of ggml that use Metal 4's tensor operations, on the same driver and GPU.

    MPSX_DRIVER=cuda python tools/bench/ggml.py ~/llama.cpp --cuda --csv ggml.csv
    python tools/bench/ggml.py ~/llama.cpp --small --dtypes q4_K          # on any driver: only check the results

~/llama.cpp is a checkout of ggml-org/llama.cpp or ggml-org/ggml. Its kernels multiply activations by weights in one of
ggml's formats. mpsx multiplies matrices of halves with the same values (or of the format, for f32 and bf16). Results
are compared with float64. Times are medians over several rounds.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

import mpsx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.checkout import TAGS, Case, Checkout, Run, add_arguments, compare, packed, poison, tiles
from bench.ggml_blocks import FORMATS, random_blocks

DEFINES = "#define GGML_METAL_HAS_TENSOR 1\n#define GGML_METAL_HAS_BF16 1\n"


@dataclass
class Weights:
    """Matrices [count, rows, columns] in one of ggml's formats."""

    format: str
    stored: torch.Tensor  # rows as ggml stores them, [count, rows, bytes]
    dense: torch.Tensor  # the values as a float type
    magnitude: torch.Tensor

    @staticmethod
    def random(form: str, *shape: int) -> Weights:
        if form in TAGS:
            dense = torch.randn(*shape).to(TAGS[form])
            return Weights(form, dense.to("mpsx").view(torch.uint8), dense.to("mpsx"), dense.double().abs())
        stored, values, magnitude = random_blocks(form, *shape)
        return Weights(form, stored.to("mpsx"), values.to(torch.float16).to("mpsx"), magnitude)


@dataclass
class Tile:
    """The part of the result that a threadgroup computes, from the constants in ggml-metal-impl.h."""

    rows: int  # of the weights
    columns: int  # rows of the activations
    simdgroups: int
    shared: int  # bytes

    @staticmethod
    def of(header: str) -> Tile:
        defines = re.findall(r"#define (SZ_SIMDGROUP|N_MM_\w+) (\d+)$", header, re.M)
        found = {name: int(value) for name, value in defines}
        if "N_MM_SIMD_GROUP_X" not in found:  # before the kernel had its own tile
            return Tile(64, 32, 4, 8192)
        size, x, y = found["SZ_SIMDGROUP"], found["N_MM_SIMD_GROUP_X"], found["N_MM_SIMD_GROUP_Y"]
        rows = size * found["N_MM_BLOCK_Y"] * y
        return Tile(rows, size * found["N_MM_BLOCK_X"] * x, x * y, 2 * rows * size * found["N_MM_NK"])


class Ggml:
    """Launches ggml's kernels."""

    def __init__(self, checkout: Path) -> None:
        source = next(path for path in (checkout / "ggml/src", checkout / "src") if path.is_dir())
        folder = source / "ggml-metal"
        self.tile = Tile.of((folder / "ggml-metal-impl.h").read_text())
        self.kernels = Checkout(folder, [source, folder], DEFINES)

    def mul_mm(self, x: torch.Tensor, w: Weights, names: tuple[str, ...]) -> Iterator[tuple[str, Run]]:
        """Yield x @ w.T for activations [batch, rows, K], as each of the float types `names`. Each matrix of w serves
        several elements of the batch."""
        batch, n, k = x.shape
        count, m, row = w.stored.shape
        repeats = batch // count
        out = torch.empty(batch, n, m, device="mpsx")
        tile = self.tile
        edges = {"FC_mul_mm_bc_inp": k % 32 != 0, "FC_mul_mm_bc_out": m % tile.rows != 0 or n % tile.columns != 0,
                 "FC_mul_mm_ne12": batch, "FC_mul_mm_ne13": 1, "FC_mul_mm_r2": repeats, "FC_mul_mm_r3": 1}  # fmt: skip
        for name in names:
            kernel = self.kernels.kernel("ggml-metal", f"kernel_mul_mm_{w.format}_{name}", **edges)
            y = x.to(TAGS[name])
            b = y.element_size()
            p = packed("2i3Qi4x4Q2i2h4x", k, count, row, m * row, count * m * row, batch, b, k * b, n * k * b,
                       batch * n * k * b, m, n, repeats, 1)  # fmt: skip
            threads = (tiles(n, tile.columns) * 32, tiles(m, tile.rows) * tile.simdgroups, batch)

            def run(kernel=kernel, p=p, y=y, threads=threads) -> torch.Tensor:
                poison(out)
                kernel(p, w.stored, y, out, threads=threads, group_size=(32, tile.simdgroups, 1),
                       threadgroup_memory=tile.shared)  # fmt: skip
                return out

            yield f"src1_{name}", run

    def mul_mm_id(self, x: torch.Tensor, w: Weights, experts: torch.Tensor) -> Iterator[tuple[str, Run]]:
        """Yield x[t] @ w[experts[t, i]].T for all tokens t and their experts i."""
        tokens, k = x.shape
        used = experts.shape[1]
        count, m, row = w.stored.shape
        out = torch.empty(tokens, used, m, device="mpsx")
        totals = torch.empty(count, dtype=torch.int32, device="mpsx")
        ids = torch.empty(count, tokens, dtype=torch.int32, device="mpsx")
        sort = self.kernels.kernel("ggml-metal", f"kernel_mul_mm_id_map0_ne20_{used}")
        kernel = self.kernels.kernel("ggml-metal", f"kernel_mul_mm_id_{w.format}_f32", FC_mul_mm_bc_inp=k % 32 != 0)
        y = x.float()
        p = packed("3i4x2Q2iQ", count, k, 1, 4 * k, 4 * k, tokens, used, 4 * used)
        q = packed("2i3Qi4x4Q4i2h4x", k, count, row, m * row, count * m * row, 1, 4, 4 * k, 4 * k, 4 * tokens * k, used,
                   tokens, m, used, 1, 1)  # fmt: skip

        def run() -> torch.Tensor:
            poison(out)
            sort(p, experts, totals, ids, threads=count, group_size=count, threadgroup_memory=2 * count * used)
            kernel(q, w.stored, y, totals, ids, out, threads=(tiles(tokens, 32) * 128, tiles(m, 64), count),
                   group_size=(128, 1, 1), threadgroup_memory=8192)  # fmt: skip
            return out

        yield "src1_f32", run


def activation_types(form: str) -> tuple[str, ...]:
    """Return the types of activations for which ggml has kernels."""
    return ("f32",) if form == "bf16" else ("f32", "f16")


def by_batch(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w.repeat_interleave(len(x) // len(w), 0).mT


def cases(ggml: Ggml, formats: list[str], small: bool) -> Iterator[tuple[str, Case]]:
    """Yield the cases with the formats of their weights."""
    for form in formats:
        odd = 75 if form in TAGS else 256  # ggml pads K to whole blocks
        for count, batch, n, m, k in ((1, 1, 150, 100, 256), (2, 4, 40, 70, odd)) if small else ((1, 1, *[4096] * 3),):
            w = Weights.random(form, count, m, k)
            x = torch.randn(batch, n, k, dtype=w.dense.dtype, device="mpsx")
            yield form, Case(f"mul_mm {batch}x{n}x{m}x{k}", 2.0 * batch * n * m * k, by_batch, [x, w.dense],
                             ggml.mul_mm(x, w, activation_types(form)),
                             lambda x, dense, w=w: by_batch(x.abs(), w.magnitude.to(x.device)), 2)  # fmt: skip
        # m is a multiple of 4, because the kernel writes float4s.
        tokens, used, count, m, k = (50, 2, 4, 76, 256) if small else (2048, 2, 8, 2048, 2048)
        w = Weights.random(form, count, m, k)
        x = torch.randn(tokens, k, dtype=w.dense.dtype, device="mpsx")
        experts = torch.rand(tokens, count).topk(used, 1).indices.to(torch.int32)

        def by_expert(x: torch.Tensor, w: torch.Tensor, experts=experts) -> torch.Tensor:
            out = x.new_empty(*experts.shape, w.shape[1])
            for e, matrix in enumerate(w):
                rows, slots = (experts == e).nonzero(as_tuple=True)
                out[rows.to(x.device), slots.to(x.device)] = F.linear(x[rows.to(x.device)], matrix)
            return out

        yield form, Case(f"mul_mm_id {count}x{tokens}x{used}x{m}x{k}", 2.0 * tokens * used * m * k, by_expert,
                         [x, w.dense], ggml.mul_mm_id(x, w, experts.to("mpsx")),
                         lambda x, dense, w=w, f=by_expert: f(x.abs(), w.magnitude.to(x.device)), 2)  # fmt: skip


def main() -> None:
    """Run the command-line interface."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, [*TAGS, *FORMATS])
    options = parser.parse_args()
    torch.manual_seed(0)
    ggml = Ggml(options.checkout)
    compare(ggml.kernels, list(cases(ggml, options.dtypes, options.small)), options, "ggml")


if __name__ == "__main__":
    mpsx.fallback.set_mode("error")
    main()
