"""Run Metal code that tinygrad, SPIRV-Cross, Slang and TVM generate.

A test is skipped if its tool is not installed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import mpsx

pytestmark = pytest.mark.sweep
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="module")
def tensor():
    """Return tinygrad's Tensor class with METAL as the default device."""
    os.environ["PARALLEL"] = "0"  # worker processes would load Apple's Metal library
    pytest.importorskip("tinygrad", reason="tinygrad is not installed (pip install tinygrad)")
    import tinygrad_metal

    tinygrad_metal.install()
    import tinygrad

    def tensor(x: np.ndarray | torch.Tensor) -> tinygrad.Tensor:
        x = x.numpy() if isinstance(x, torch.Tensor) else x
        return tinygrad.Tensor(np.ascontiguousarray(x), device="METAL")

    return tensor


def close(got: object, want: torch.Tensor, rtol: float = 1e-4, atol: float = 1e-4) -> None:
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=rtol, atol=atol)


UNARY = """exp log sqrt sin cos tanh sigmoid relu gelu silu abs neg square reciprocal floor ceil round trunc sign
    erf""".split()
DTYPES = [torch.float32, torch.float16, torch.int32, torch.int8, torch.uint8, torch.int64, torch.int16]


@pytest.mark.parametrize("name", UNARY)
def test_tinygrad_unary(tensor, name: str) -> None:
    x = torch.rand(7, 33) * 3 + 0.1
    want = getattr(torch, name, None) or getattr(F, name)
    want = want(x, approximate="tanh") if name == "gelu" else want(x)
    close(getattr(tensor(x), name)(), want, atol=1e-3 if name == "erf" else 1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tinygrad_arithmetic(tensor, dtype: torch.dtype) -> None:
    x, y = (torch.randint(1, 9, (5, 17)).to(dtype) for _ in range(2))
    a, b = tensor(x), tensor(y)
    for got, want in [(a + b, x + y), (a - b, x - y), (a * b, x * y), (a.maximum(b), torch.maximum(x, y)),
                      (a < b, x < y), ((a == b).where(a, b), torch.where(x == y, x, y)), (a.sum(1), x.sum(1)),
                      (a.max(0), x.amax(0)), (a.cast("float").mean(), x.float().mean()),
                      (a.argmax(1), x.argmax(1)), (a.cumsum(1).cast("float"), x.cumsum(1).float())]:  # fmt: skip
        close(got, want, rtol=1e-2 if dtype.is_floating_point else 0)
    if not dtype.is_floating_point and dtype != torch.uint8:
        close(a ^ b, x ^ y)
        close(a & b, x & y)
        close(a // b, torch.div(x, y, rounding_mode="floor"))
        close(a % b, x % y)


def test_tinygrad_integers_wrap(tensor) -> None:
    for dtype in (np.int32, np.int64):
        info = np.iinfo(dtype)
        x = np.array([info.max, info.min, -1, 0, info.max // 2 + 1], dtype)
        with np.errstate(over="ignore"):
            for got, want in [(tensor(x) + 1, x + dtype(1)), (tensor(x) * 31, x * dtype(31)), (-tensor(x), -x)]:
                np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(64, 64, 64), (33, 17, 9), (128, 256, 64), (1, 300, 50)], ids=str)
def test_tinygrad_matmul(tensor, shape: tuple, dtype: torch.dtype) -> None:
    m, k, n = shape
    a, b = (torch.randn(m, k) / k**0.5).to(dtype), torch.randn(k, n).to(dtype)
    close(tensor(a) @ tensor(b), (a.float() @ b.float()), 2e-2 if dtype == torch.float16 else 1e-4, 1e-2)


def test_tinygrad_networks(tensor) -> None:
    x, w, bias = torch.randn(2, 3, 16, 16), torch.randn(8, 3, 3, 3), torch.randn(8)
    t, tw, tb = tensor(x), tensor(w), tensor(bias)
    for stride in (1, 2):
        close(t.conv2d(tw, tb, stride=stride, padding=1), F.conv2d(x, w, bias, stride=stride, padding=1), atol=1e-3)
    close(t.max_pool2d(2), F.max_pool2d(x, 2))
    close(t.avg_pool2d(3), F.avg_pool2d(x, 3))
    close(t.softmax(-1), x.softmax(-1))
    close(t.log_softmax(1), x.log_softmax(1))
    close(t.layernorm(), F.layer_norm(x, x.shape[-1:]), atol=1e-3)
    q, k, v = (torch.randn(2, 4, 32, 16) for _ in range(3))
    close(tensor(q).scaled_dot_product_attention(tensor(k), tensor(v)), F.scaled_dot_product_attention(q, k, v))
    table, index = torch.randn(50, 8), torch.randint(0, 50, (4, 5))
    close(tensor(table)[tensor(index)], table[index])
    moved = tensor(x).permute(3, 1, 0, 2).flip(1)
    close(moved.pad(((1, 2), (0, 0), (0, 1), (0, 0)))[1:-2, :, :2], x.permute(3, 1, 0, 2).flip(1))
    values, order = tensor(table[:, 0].contiguous()).sort()
    close(values, table[:, 0].sort().values)
    close(order.cast("int"), table[:, 0].argsort().int())
    one = tensor(torch.zeros(3)).full_like(2.5) + tensor(torch.arange(3.0))
    assert one.tolist() == [2.5, 3.5, 4.5]


def test_tinygrad_gradients(tensor) -> None:
    x, y = torch.randn(32, 10), torch.randint(0, 4, (32,))
    weights = [torch.randn(10, 16) / 3, torch.randn(16, 4) / 4]
    ours, theirs = [tensor(w) for w in weights], [w.clone().requires_grad_() for w in weights]
    loss = (tensor(x) @ ours[0]).relu().dot(ours[1]).sparse_categorical_crossentropy(tensor(y.int()))
    F.cross_entropy((x @ theirs[0]).relu() @ theirs[1], y).backward()
    for a, b in zip(loss.gradient(*ours), theirs, strict=True):
        close(a, b.grad, atol=1e-3)


def test_tinygrad_generated_kernels(tensor) -> None:
    """Check the log: the tests above must have compiled their kernels with compile_shader."""
    import tinygrad_metal

    assert len(tinygrad_metal.sources) > 100


GLSL = """#version 450
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Y { vec4 y[]; };
layout(std430, binding = 2) buffer Z { uint z[]; };
layout(push_constant) uniform P { uint n; float scale; ivec2 shape; mat3 m; } p;
shared float s[32];
struct Item { vec3 a; int k; };
Item make(uint i) { Item r; r.a = p.m * vec3(i, 1, 2); r.k = int(i) % p.shape.x; return r; }
uint hash(uint v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
void main() {
  uint i = gl_GlobalInvocationID.x, l = gl_LocalInvocationID.x;
  s[l] = i < p.n ? x[i] * p.scale : 0.0;
  barrier();
  for (uint d = 16u; d > 0u; d >>= 1) { if (l < d) s[l] += s[l + d]; barrier(); }
  if (i >= p.n) return;
  Item item = make(i);
  float total = dot(item.a, vec3(1.0)) + float(item.k);
  switch (i % 3u) {
    case 0u: total += y[i].x; break;
    case 1u: total += y[i].zw.y; break;
    default: total -= length(y[i].xyz);
  }
  x[i] = total + s[0];
  atomicAdd(z[0], 1u);
  z[1u + i] = hash(i) + bitfieldExtract(hash(i), 3, 5) + uint(findMSB(i + 1u));
}
"""


def hashed(v: int) -> int:
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        v = (v ^ v >> shift) * factor & 0xFFFFFFFF
    return v ^ v >> 16


def run_glsl(source: str) -> None:
    lib = mpsx.compile_shader(source)
    n, scale = 40, 0.5
    x, y = torch.rand(64), torch.rand(64, 4)
    m = np.arange(9, dtype=np.float32).reshape(3, 3)  # columns
    push = np.zeros(1, [("n", "u4"), ("scale", "f4"), ("shape", "i4", 2), ("m", "f4", (3, 4))])
    push["n"], push["scale"], push["shape"] = n, scale, (7, 1)
    push["m"][0, :, :3] = m
    on, z = x.to("mpsx"), torch.zeros(65, dtype=torch.int32).to("mpsx")
    (name,) = dir(lib)
    buffers = {"X": on, "Y": y.to("mpsx"), "Z": z, "P": torch.from_numpy(push.view(np.uint8).copy()).to("mpsx")}
    order = sorted((source.index(f"{kind}& "), kind) for kind in buffers)
    getattr(lib, name)(*(buffers[kind] for _, kind in order), threads=64, group_size=32)
    sums = [(x[:32] * scale).sum(), (x[32:n] * scale).sum()]
    for i in range(n):
        want = (m.T @ np.array([i, 1, 2], np.float32)).sum() + i % 7 + float(sums[i // 32])
        want += float(y[i, 0] if i % 3 == 0 else y[i, 3] if i % 3 == 1 else -y[i, :3].norm())
        assert on[i].item() == pytest.approx(want, rel=1e-5)
        h = hashed(i)
        assert z[1 + i].item() & 0xFFFFFFFF == (h + (h >> 3 & 31) + (i + 1).bit_length() - 1) & 0xFFFFFFFF
    assert z[0].item() == n


@pytest.mark.parametrize("version", ["20000", "20300", "30000"])
def test_spirv_cross(tmp_path: Path, version: str) -> None:
    for tool in ("glslangValidator", "spirv-cross"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed (Debian: glslang-tools, spirv-cross)")
    (tmp_path / "a.comp").write_text(GLSL)
    subprocess.run(["glslangValidator", "-V", "-o", "a.spv", "a.comp"], cwd=tmp_path, check=True, capture_output=True)
    metal = subprocess.run(["spirv-cross", "--msl", "--msl-version", version, "a.spv"], cwd=tmp_path, check=True,
                           capture_output=True, text=True).stdout  # fmt: skip
    run_glsl(metal)


SLANG = """
struct Item { float3 a; int k; };
struct Params { uint n; float scale; int2 shape; }
RWStructuredBuffer<float> x;
StructuredBuffer<float4> y;
RWStructuredBuffer<uint> z;
ConstantBuffer<Params> p;
groupshared float s[32];
interface IOp { float apply(float v); }
struct Twice : IOp { float apply(float v) { return v * 2; } }
float generic<T : IOp>(T op, float v) { return op.apply(v); }
uint hashed(uint v) { v ^= v >> 16; v *= 0x7feb352du; v ^= v >> 15; v *= 0x846ca68bu; return v ^ (v >> 16); }
[shader("compute")] [numthreads(32, 1, 1)]
void run(uint3 id : SV_DispatchThreadID, uint l : SV_GroupIndex) {
  uint i = id.x;
  s[l] = i < p.n ? x[i] * p.scale : 0;
  GroupMemoryBarrierWithGroupSync();
  for (uint d = 16; d > 0; d >>= 1) { if (l < d) s[l] += s[l + d]; GroupMemoryBarrierWithGroupSync(); }
  float lanes = WaveActiveSum(1.0);
  if (i >= p.n) return;
  Item item = { float3(i, 1, 2), int(i) % p.shape.x };
  x[i] = dot(item.a, float3(1, 1, 1)) + item.k + generic(Twice(), y[i].x) + s[0] + lanes;
  InterlockedAdd(z[0], 1);
  z[1 + i] = hashed(i) + uint(firstbithigh(i + 1));
}
"""


def slang_compiler() -> str | None:
    """Return the path of slangc, from PATH or from the packages slangtorch and slangpy."""
    for package in ("slangtorch", "slangpy"):
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            if found := next(Path(folder).rglob("slangc"), None):
                return str(found)
    return shutil.which("slangc")


def test_slang(tmp_path: Path) -> None:
    slangc = slang_compiler()
    if slangc is None:
        pytest.skip("slangc is not installed (pip install --no-deps slangtorch)")
    (tmp_path / "a.slang").write_text(SLANG)
    command = [slangc, "a.slang", "-target", "metal", "-entry", "run", "-stage", "compute", "-o", "a.metal"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    lib = mpsx.compile_shader((tmp_path / "a.metal").read_text())
    n, x, y = 40, torch.rand(64), torch.rand(64, 4)
    push = np.zeros(1, [("n", "u4"), ("scale", "f4"), ("shape", "i4", 2)])
    push["n"], push["scale"], push["shape"] = n, 0.5, (7, 1)
    on, z = x.to("mpsx"), torch.zeros(65, dtype=torch.int32).to("mpsx")
    parameters = torch.from_numpy(push.view(np.uint8).copy()).to("mpsx")
    getattr(lib, dir(lib)[0])(on, y.to("mpsx"), z, parameters, threads=64, group_size=32)
    sums = [x[:32].sum() / 2, x[32:n].sum() / 2]
    index = torch.arange(n)
    want = index + 3 + index % 7 + 2 * y[:n, 0] + torch.stack([sums[i // 32] for i in range(n)]) + 32
    torch.testing.assert_close(on.cpu()[:n], want)
    assert z[0].item() == n
    got = z.cpu().numpy().view(np.uint32)[1 : n + 1].tolist()
    assert got == [(hashed(i) + (i + 1).bit_length() - 1) & 0xFFFFFFFF for i in range(n)]


def tvm_kernel(tvm: object, tensors: list, block: str, split: int, shared: str = "") -> str:
    """Return the Metal code that TVM generates, with one thread per element or with threadgroups of `split` threads."""
    from tvm import te

    schedule = tvm.s_tir.Schedule(te.create_prim_func(tensors))
    stage = schedule.get_sblock(block)
    loops = schedule.get_loops(stage)
    outer, inner = schedule.split(loops[0], [None, split])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    if shared:  # stage the operand in threadgroup memory, row by row
        copy = schedule.cache_read(stage, 1, "shared")
        schedule.compute_at(copy, outer)
        own = schedule.get_loops(copy)
        _, lane = schedule.split(schedule.fuse(*own[1:]), [None, split])
        schedule.bind(lane, "threadIdx.x")
    built = tvm.tirx.build(schedule.mod, target=tvm.target.Target({"kind": "metal"}, host="llvm"))
    return built.imports[0].inspect_source()


def test_tvm() -> None:
    tvm = pytest.importorskip("tvm", reason="TVM is not installed (pip install --no-deps apache-tvm apache-tvm-ffi)")
    from tvm import te

    a, h = te.placeholder((1024,), name="A"), te.placeholder((1024,), "float16", name="H")
    i32 = te.placeholder((1024,), "int32", name="I")
    tanh = te.compute((1024,), lambda i: te.tanh(a[i]) * 2 + te.if_then_else(a[i] > 0.5, a[i], te.exp(a[i])), name="B")
    half = te.compute((1024,), lambda i: (h[i] * h[i] + te.max(h[i], a[i].astype("float16"))), name="B")
    integers = te.compute((1024,), lambda i: (i32[i] * 31 + i) % 7 + te.floordiv(i32[i], 3), name="B")
    x, w, k = te.placeholder((64, 48), name="A"), te.placeholder((48, 64), name="W"), te.reduce_axis((0, 48), name="k")
    product = te.compute((64, 64), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="B")
    va, vh, vi = torch.rand(1024), torch.rand(1024).half(), torch.randint(0, 1000, (1024,), dtype=torch.int32)
    vx, vw = torch.randn(64, 48), torch.randn(48, 64)
    cases = [
        ([a, tanh], [va], va.tanh() * 2 + torch.where(va > 0.5, va, va.exp()), ""),
        ([h, a, half], [vh, va], vh * vh + torch.maximum(vh, va.half()), ""),
        ([i32, integers], [vi], (vi * 31 + torch.arange(1024, dtype=torch.int32)) % 7 + vi // 3, ""),
        ([x, w, product], [vx, vw], vx @ vw, ""),
        ([x, w, product], [vx, vw], vx @ vw, "W"),
    ]
    for tensors, values, want, shared in cases:
        source = tvm_kernel(tvm, tensors, "B", 32, shared)
        lib = mpsx.compile_shader(source)
        out = torch.zeros_like(want).to("mpsx")
        arguments = {t.op.name: v.to("mpsx") for t, v in zip(tensors, [*values, out], strict=True)}
        order = sorted((source.index(f"* {name}_ptr"), name) for name in arguments)
        getattr(lib, dir(lib)[0])(*(arguments[name] for _, name in order), threads=len(want), group_size=32)
        torch.testing.assert_close(out.cpu(), want, rtol=1e-2 if want.dtype == torch.float16 else 1e-4, atol=1e-4)
