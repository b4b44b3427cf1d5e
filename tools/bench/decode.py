#!/usr/bin/env python3
"""Compare products of a few activations with large weights, as in decoding, with a copy of the weights.

    MPSX_DRIVER=cuda python tools/bench/decode.py
    MPSX_DRIVER=cuda python tools/bench/decode.py --types int4 --outputs 4096 --rows 1 4 8 16 --dtype bf16
    python tools/bench/decode.py --check    # on any driver: only compare small products with float64

A time is that of one call among many in a CUDA graph, and the median of interleaved rounds. PyTorch's CUDA backend
copies the weights, and both sides record a graph. A speed above 1 means that mpsx is faster than the copy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.tensor_gemm import DTYPES, ROUNDS, cuda_graph, medians, recorded

CALLS = 40  # per graph
Call = Callable[[], torch.Tensor]
Product = tuple[Call, Call, int]  # the call, its weights, and their bytes


def dense(x: torch.Tensor, outputs: int, dtype: torch.dtype, _: int) -> Product:
    weight = torch.randn(outputs, x.shape[1]).to(dtype)
    on_mpsx, activations = weight.to("mpsx"), x.to("mpsx")
    return lambda: torch.nn.functional.linear(activations, on_mpsx), lambda: weight, weight.nbytes


def int8(x: torch.Tensor, outputs: int, dtype: torch.dtype, _: int) -> Product:
    weight, scales = torch.randint(-128, 128, (outputs, x.shape[1]), dtype=torch.int8), torch.rand(outputs).to(dtype)
    on_mpsx = [t.to("mpsx") for t in (x, weight, scales)]
    return lambda: torch._weight_int8pack_mm(*on_mpsx), lambda: weight * scales.double()[:, None], weight.nbytes


def int4(x: torch.Tensor, outputs: int, dtype: torch.dtype, group: int) -> Product:
    weight = torch.randint(0, 256, (outputs, x.shape[1] // 2), dtype=torch.uint8)
    scales = (torch.rand(x.shape[1] // group, outputs, 2) - 0.3).to(dtype)

    def exact() -> torch.Tensor:
        integers = torch.stack([weight >> 4, weight & 15], -1).flatten(1) - 8.0
        scale, zero = (s.double().t().repeat_interleave(group, 1) for s in scales.unbind(-1))
        return integers * scale + zero

    packed = torch._convert_weight_to_int4pack(weight.to("mpsx"), 2)
    on_mpsx = x.to("mpsx"), packed, group, scales.to("mpsx")
    return lambda: torch._weight_int4pack_mm(*on_mpsx), exact, weight.nbytes


TYPES = {"dense": dense, "int8": int8, "int4": int4}


def check(name: str, rows: int, group: int, dtype: torch.dtype) -> None:
    """Compare small products with float64."""
    x = torch.randn(rows, 1024).to(dtype)
    call, weights, _ = TYPES[name](x, 264, dtype, group)
    weight = weights().double()
    exact, scale = x.double() @ weight.t(), x.double().abs() @ weight.abs().t()
    error, limit = ((call().cpu().double() - exact).abs() / scale).max().item(), 4 * torch.finfo(dtype).eps
    if not error <= limit:
        sys.exit(f"{name} {rows} rows: error {error:.1e} above {limit:.1e}")
    print(f"{name} {rows} rows agree with float64")


def main() -> None:
    """Measure or check the products that the options select."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument("--dtype", choices=DTYPES, default="f16")
    parser.add_argument("--inputs", type=int, default=4096)
    parser.add_argument("--outputs", nargs="+", type=int, default=[4096, 11008, 50256])
    parser.add_argument("--rows", nargs="+", type=int, default=[1])
    parser.add_argument("--group", type=int, choices=(32, 64, 128, 256), default=128, help="quantization group of int4")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    dtype = DTYPES[options.dtype]
    for name in options.types:
        for outputs in options.outputs if not options.check else ():
            for rows in options.rows:
                call, _, size = TYPES[name](torch.randn(rows, options.inputs).to(dtype), outputs, dtype, options.group)
                weights, copy = (torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(2))
                timers = [cuda_graph(lambda: copy.copy_(weights), CALLS), recorded(call, CALLS)]  # noqa: B023
                theirs, ours = (1e6 * t for t in medians(timers, ROUNDS))
                label = f"{options.dtype} x {options.dtype if name == 'dense' else name}"
                print(f"{label:12} {rows}x{outputs}x{options.inputs:<8} copy {theirs:7.1f} us  mpsx {ours:7.1f} us  "
                      f"speed {theirs / ours:.2f}", flush=True)  # fmt: skip
        for rows in options.rows if options.check else ():
            check(name, rows, options.group, dtype)


if __name__ == "__main__":
    main()
