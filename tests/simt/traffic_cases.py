"""Operator calls whose memory traffic is limited by tests/simt/test_traffic.py and measured on a GPU by bench/ncu.py.

Run as a script, this module profiles the cases in the given categories and writes their traffic as JSON:

    MPSX_DRIVER=simt python tests/simt/traffic_cases.py out.json dense rows
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

aten = torch.ops.aten
TAGS = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
# Limits per category: (traffic relative to moving each byte of the inputs and results once, transactions relative to
# the minimum for a SIMD group's accesses). The limits assume matmul tiles of 64x64 and attention blocks of 32 queries,
# as in MLX.
LIMITS = {"dense": (1.02, 1.0), "strided": (1.1, 1.1), "rows": (1.05, 1.05), "gather": (1.2, 1.2),
          "matmul": (1.0, 1.05)}  # fmt: skip
TILE, QUERIES = 64, 32
ROWS = ((2048, 64), (128, 1024), (4, 32768))


@dataclass(frozen=True)
class Case:
    """A call of `function` with `inputs`. `bytes` is the minimum traffic. If it is 0, the minimum is the total size of
    inputs and results."""

    name: str
    category: str
    function: Callable[..., Any]
    inputs: tuple
    bytes: int = 0

    @property
    def quick(self) -> bool:
        """Return whether the default tests include this case."""
        tag = self.name.rpartition(" ")[2]
        return tag == "f16" or (tag != "bf16" and (self.category != "rows" or "128x1024" in self.name))

    def minimum_bytes(self, inputs: tuple, result: Any) -> int:
        """Return the minimum traffic: `bytes`, or the total size of inputs and results."""
        seen = {}
        for t in torch.utils._pytree.tree_leaves((inputs, result)):
            if isinstance(t, torch.Tensor):
                seen[t.data_ptr()] = max(seen.get(t.data_ptr(), 0), t.numel() * t.element_size())
        return self.bytes or sum(seen.values())


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return random numbers generated with a fixed seed."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def dense() -> Iterator[tuple]:
    """Generate elementwise operators with one to three inputs of equal shape."""
    n = 1 << 17
    for dtype, tag in TAGS.items():
        x, y, z = (values(n, dtype=dtype) for _ in range(3))
        yield f"add {tag}", torch.add, x, y
        yield f"gelu {tag}", F.gelu, x
        yield f"gelu_backward {tag}", aten.gelu_backward, x, y
        yield f"copy {tag}", torch.clone, x
        yield f"addcmul {tag}", torch.addcmul, x, y, z
    x, half = values(n), values(n, dtype=torch.float16)
    yield "exp f32", torch.exp, x
    yield "relu_backward f32", aten.threshold_backward, x, x.clone(), 0
    yield "silu f16", F.silu, half
    yield "clamp f32", torch.clamp, x, 0.2, 0.7
    yield "lt f32", torch.lt, x, x.clone()
    yield "where f32", torch.where, x > 0.5, x, x.clone()
    yield "add i64", torch.add, torch.arange(n), torch.arange(n)
    yield "add_ f32", torch.Tensor.add_, x, x.clone(), {"bytes": 3 * 4 * n}
    yield "to f32 f16", torch.Tensor.to, x, torch.float16
    yield "to f16 f32", torch.Tensor.to, half, torch.float32
    yield "to f32 bf16", torch.Tensor.to, x, torch.bfloat16
    yield "to bool f32", torch.Tensor.to, x > 0.5, torch.float32
    yield "fill f32", torch.Tensor.fill_, x, 1.0


def strided() -> Iterator[tuple]:
    """Generate elementwise operators with transposed and broadcast inputs."""
    for dtype, tag in TAGS.items():
        x = values(256, 512, dtype=dtype)
        yield f"add row {tag}", torch.add, x, values(512, dtype=dtype)
        yield f"add column {tag}", torch.add, x, values(256, 1, dtype=dtype)
        yield f"add transposed {tag}", torch.add, x, values(512, 256, dtype=dtype).t()
        yield f"transpose {tag}", torch.Tensor.contiguous, x.t()
        yield f"add rows of more {tag}", torch.add, values(256, 640, dtype=dtype)[:, :512], x
    x = values(8, 64, 16, 16)
    yield "to channels_last f32", lambda t: t.contiguous(memory_format=torch.channels_last), x
    yield "permute 0213 f16", torch.Tensor.contiguous, values(8, 64, 8, 64, dtype=torch.float16).permute(0, 2, 1, 3)
    yield "add channels f32", torch.add, x, values(64, 1, 1)


def norm_inputs(rows: int, size: int, dtype: torch.dtype) -> tuple:
    x, weight = values(rows, size, dtype=dtype), values(size, dtype=dtype)
    _, mean, rstd = aten.native_layer_norm(x, [size], weight, weight, 1e-5)
    return x.clone(), x, [size], mean, rstd, weight, weight.clone(), [True, True, True]


def rows() -> Iterator[tuple]:
    """Generate reductions and norms."""
    for dtype, tag in list(TAGS.items())[:2]:
        for shape in ROWS:
            x, name = values(*shape, dtype=dtype), f"{shape[0]}x{shape[1]} {tag}"
            weight = values(shape[1], dtype=dtype)
            yield f"sum rows {name}", torch.sum, x, 1
            yield f"softmax {name}", torch.softmax, x, -1
            yield f"softmax_backward {name}", aten._softmax_backward_data, x, x.clone(), -1, dtype
            yield f"layer_norm {name}", F.layer_norm, x, [shape[1]], weight, weight.clone()
            yield f"rms_norm {name}", F.rms_norm, x, [shape[1]], weight
        x, name = values(*ROWS[1], dtype=dtype), f"128x1024 {tag}"
        yield f"log_softmax {name}", torch.log_softmax, x, -1
        yield f"amax rows {name}", torch.amax, x, 1
        yield f"argmax rows {name}", torch.argmax, x, 1
        yield f"var rows {name}", torch.var, x, 1
        yield f"sum columns 2048x256 {tag}", torch.sum, values(2048, 256, dtype=dtype), 0
        yield f"sum columns 8192x32 {tag}", torch.sum, values(8192, 32, dtype=dtype), 0
        yield f"sum all {tag}", torch.sum, values(1 << 17, dtype=dtype)
    yield "layer_norm_backward 128x1024 f32", aten.native_layer_norm_backward, *norm_inputs(*ROWS[1], torch.float32)
    x = values(8, 32, 16, 16)
    yield "group_norm f32", F.group_norm, x, 8, values(32), values(32)
    yield "batch_norm train f32", aten.native_batch_norm, x, values(32), values(32), None, None, True, 0.1, 1e-5, {
        "bytes": 3 * 4 * x.numel()}  # training reads the input twice
    yield "batch_norm eval f32", F.batch_norm, x, values(32), values(32)
    yield "cross_entropy f32", F.cross_entropy, values(128, 1024), torch.arange(128) * 7 % 1024, {
        "bytes": 128 * (1024 * 4 + 8)}  # fmt: skip


def gather() -> Iterator[tuple]:
    """Generate indexing, dropout, cat, and optimizer steps."""
    for dtype, tag in list(TAGS.items())[:2]:
        size = dtype.itemsize
        table, index = values(1024, 256, dtype=dtype), torch.arange(512) * 37 % 1024
        moved = {"bytes": 2 * 512 * 256 * size + 512 * 8}
        yield f"embedding {tag}", aten.embedding, table, index, moved
        yield f"index_select {tag}", torch.index_select, table, 0, index, moved
        yield f"gather {tag}", torch.gather, table, 1, torch.arange(256).expand(1024, 256).contiguous()
        yield f"cat {tag}", torch.cat, [table, table.clone()], 1
        yield f"dropout {tag}", lambda t: aten.native_dropout(t, 0.5, True), values(1 << 17, dtype=dtype)
        yield f"scatter_add {tag}", torch.Tensor.scatter_add_, table, 0, index[:, None].expand(512, 256).contiguous(), (
            values(512, 256, dtype=dtype)), {"bytes": 512 * 256 * (3 * size + 8)}  # fmt: skip
        yield f"scatter_add rows {tag}", torch.Tensor.scatter_add_, table, 1, (
            torch.arange(256) * 37 % 256).expand(512, 256).contiguous(), values(512, 256, dtype=dtype), {
            "bytes": 512 * 256 * (3 * size + 8)}  # fmt: skip
        yield f"index_put add {tag}", partial(aten.index_put_, accumulate=True), table, (index,), (
            values(512, 256, dtype=dtype)), {"bytes": 512 * 256 * 3 * size + 512 * 8}  # fmt: skip
    parameters, gradients, first, second = ([values(1 << 15), values(1 << 12)] for _ in range(4))
    yield "fused_adamw f32", fused_adamw, parameters, gradients, first, second, [torch.tensor(1.0)] * 2, {
        "bytes": 7 * 4 * sum(p.numel() for p in parameters)}  # fmt: skip


def fused_adamw(parameters: list, gradients: list, first: list, second: list, steps: list) -> None:
    aten._fused_adamw_(parameters, gradients, first, second, [], steps, lr=1e-3, beta1=0.9, beta2=0.999,
                       weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False)  # fmt: skip


def matmuls() -> Iterator[tuple]:
    """Generate matmuls and attention."""
    m, n, k, rows, width = 256, 256, 256, 256, 64
    for dtype, tag in list(TAGS.items())[:2]:
        size = dtype.itemsize
        a, b = values(m, k, dtype=dtype), values(k, n, dtype=dtype)
        moved = {"bytes": size * (m * k * n // TILE + k * n * m // TILE + m * n)}
        yield f"mm {tag}", torch.mm, a, b, moved
        yield f"mm transposed {tag}", torch.mm, a, b.t(), moved
        q = values(1, 2, rows, width, dtype=dtype)
        yield f"attention {tag}", F.scaled_dot_product_attention, q, q.clone(), q.clone(), {
            "bytes": size * 2 * rows * width * (2 + 2 * rows // QUERIES)}  # fmt: skip


def cases(*categories: str) -> Iterator[Case]:
    """Generate the cases in the given categories, or in all categories."""
    for category, found in (("dense", dense), ("strided", strided), ("rows", rows), ("gather", gather),
                            ("matmul", matmuls)):  # fmt: skip
        for name, function, *inputs in found() if not categories or category in categories else ():
            facts = inputs.pop() if isinstance(inputs[-1], dict) else {}
            yield Case(name, category, function, tuple(inputs), **facts)


def on_device(inputs: tuple) -> tuple:
    """Move the inputs to the device, and keep their layouts."""

    def move(t: Any) -> Any:
        if not isinstance(t, torch.Tensor):
            return t
        storage = t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0)
        return storage.to("mpsx").as_strided(t.size(), t.stride(), t.storage_offset())

    return torch.utils._pytree.tree_map(move, inputs)


def main(path: str, arguments: list[str]) -> None:
    """Profile cases. With --quick, profile only the cases that the default tests include."""
    import mpsx
    from mpsx.kernel_profile.report import as_dict

    mpsx.fallback.set_mode("error")
    found = {}
    for case in cases(*(argument for argument in arguments if argument != "--quick")):
        if "--quick" in arguments and not case.quick:
            continue
        inputs, results = on_device(case.inputs), []
        try:
            profile = mpsx.profiler.profile_kernel(lambda c=case, i=inputs, r=results: r.append(c.function(*i)))
        except RuntimeError as error:
            found[case.name] = {"error": str(error)}
            continue
        launches, device = profile.launches, [launch.device for launch in profile.launches]
        reused = case.category == "matmul"  # several threadgroups read the same inputs, and the limits allow for this
        moved = sum(d.moved if reused else d.shared for launch in launches for d in (launch.read, launch.written))
        found[case.name] = {
            "category": case.category,
            "traffic": moved / case.minimum_bytes(inputs, results),
            "transactions": sum(d.transactions for d in device) / max(sum(d.least for d in device), 1),
            "launches": [as_dict(launch) for launch in launches],
        }
    Path(path).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
