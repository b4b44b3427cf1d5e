"""Pass torch tensors to Metal 4 tensor parameters, which receive the sizes and strides."""

import sys

import pytest
import torch

import mpsx

METAL = mpsx.driver()["name"] == "metal"
HEADER = """
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
"""
DTYPES = {"half": torch.float16, "bfloat": torch.bfloat16, "float": torch.float32, "char": torch.int8,
          "uchar": torch.uint8, "short": torch.int16, "ushort": torch.uint16, "int": torch.int32,
          "uint": torch.uint32}  # fmt: skip
if not METAL:  # Metal's tensors do not support these types
    DTYPES |= {"long": torch.int64, "bool": torch.bool}
on_metal = pytest.mark.skipif(METAL, reason="the Metal driver compares arguments itself: cases_tensors.cpp")
PROBE = HEADER + """
template <class T, int R>
kernel void probe(tensor<device T, dextents<int32_t, R>> t [[buffer(0)]], device long* out [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  if (i < R) {
    out[i] = t.get_extent(i);
    out[R + i] = t.get_stride(i);
  }
}
"""
COPY = HEADER + """
// A loop on the host driver: the kernel reads only its position in the grid.
kernel void copy(tensor<device float, dextents<int, 2>> to, tensor<device const float, dextents<int, 2>> from,
                 uint2 i [[thread_position_in_grid]]) {
  to[i.x, i.y] = from[i.x, i.y];
}
kernel void reverse(tensor<constant float, dextents<int, 1>> from [[buffer(3)]],
                    tensor<device float, extents<int, dynamic_extent>> to [[buffer(1)]],
                    constant float& scale [[buffer(0)]], device int* size [[buffer(2)]],
                    uint lane [[thread_index_in_threadgroup]]) {
  threadgroup float staged[64];
  const int n = from.get_extent(0);
  if (int(lane) < n) staged[lane] = from[lane];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (int(lane) < n) to[lane] = scale * staged[n - 1 - lane];
  if (lane == 0) *size = n;
}
"""
MATMUL = HEADER + """
using matrix_t = tensor<device half, dextents<int32_t, 2>>;
kernel void matmul(matrix_t A [[buffer(0)]], matrix_t B [[buffer(1)]],
                   tensor<device float, dextents<int32_t, 2>, tensor_handle> C [[buffer(2)]],
                   uint2 group [[threadgroup_position_in_grid]]) {
  constexpr auto descriptor = matmul2d_descriptor(32, 32, static_cast<int>(dynamic_extent));
  matmul2d<descriptor, execution_simdgroups<4>> op;
  auto a = A.slice(0, int(group.y) * 32);
  auto b = B.slice(int(group.x) * 32, 0);
  auto c = C.slice(int(group.x) * 32, int(group.y) * 32);
  op.run(a, b, c);
}
"""


@pytest.fixture(scope="module")
def copies():
    return mpsx.compile_shader(COPY)


@pytest.fixture(scope="module")
def probes():
    lines = [f'template [[host_name("{t}{r}")]] kernel decltype(probe<{t}, {r}>) probe<{t}, {r}>;\n'
             for t, r in [("float", r) for r in range(1, 9)] + [(t, 2) for t in DTYPES if t != "float"]]  # fmt: skip
    return mpsx.compile_shader(PROBE + "".join(lines))


@pytest.mark.parametrize("rank", range(1, 9))
def test_ranks(probes, rank):
    t = torch.zeros([2, 3, 1, 2, 4, 2, 3, 2][:rank]).to("mpsx")
    views = [t, t[..., :1], t[1:]]
    if not METAL:
        views += [t.transpose(0, -1), t.expand(5, *t.shape) if rank < 8 else t.expand_as(t)]
    for x in views:
        out = torch.zeros(2 * x.dim(), dtype=torch.int64).to("mpsx")
        getattr(probes, f"float{x.dim()}")(x, out, threads=8)
        sizes, strides = list(reversed(x.shape)), list(reversed(x.stride()))
        if METAL:  # which gets packed strides in dimensions of size 1, where PyTorch allows any stride
            for d, size in enumerate(sizes):
                if size == 1:
                    strides[d] = strides[d - 1] * sizes[d - 1] if d else 1
        assert out.tolist() == [*sizes, *strides]


@pytest.mark.parametrize("element", DTYPES)
def test_element_types(probes, element):
    x = torch.zeros(3, 5, dtype=DTYPES[element]).to("mpsx")
    out = torch.zeros(4, dtype=torch.int64).to("mpsx")
    getattr(probes, f"{element}2")(x, out, threads=2)
    assert out.tolist() == [5, 3, 1, 5]


def test_strides(copies):
    base = torch.randn(7, 9)
    x = base.to("mpsx")
    views = [lambda t: t, lambda t: t[1:, 2:5], lambda t: t[::3]]
    if not METAL:  # Metal requires a stride of 1 in the last dimension
        views += [lambda t: t.t(), lambda t: t[1:, ::2], lambda t: t[3:4].expand(4, 9), lambda t: t[:0]]
    for view in views:
        shape = view(base).shape
        got = torch.zeros(shape if METAL else shape[::-1]).to("mpsx")
        copies.copy(got if METAL else got.t(), view(x), threads=shape[::-1])
        assert (got.cpu() if METAL else got.cpu().t()).equal(view(base))


def test_indices_and_other_arguments(copies):
    """Mix tensors with pointers and numbers, with explicit buffer indices in any order. The kernel's threads exchange
    data."""
    x = torch.arange(40.0).to("mpsx")
    to, step = torch.zeros(80).to("mpsx"), 1 if METAL else 2
    size = torch.zeros(1, dtype=torch.int32).to("mpsx")
    copies.reverse(2.0, to[:: step][:40], size, x, threads=64, group_size=64)
    assert to.cpu()[:: step][:40].equal(2 * torch.arange(40.0).flip(0)) and size.item() == 40


def test_default_threads(copies):
    x = torch.randn(1, 12)
    to = torch.zeros(1, 12).to("mpsx")
    copies.copy(to, x.to("mpsx"))
    assert to.cpu().equal(x)


@pytest.mark.parametrize("call", [
    lambda lib, to, x: lib.copy(to, x, threads=(4, 4)),
    lambda lib, to, x: lib.fill(x, [3, 7], 2.5, arg_casts={1: "int32", 2: "fp32"}, threads=16),
])  # fmt: skip
def test_launches_run_no_python(call):
    """A launch must cost microseconds. Checking one tensor in Python costs as much as the rest of the launch."""
    lib = mpsx.compile_shader(COPY + """
    struct Options { int first, second; };
    kernel void fill(device float* x, constant Options& o, constant float& scale, uint i [[thread_position_in_grid]]) {
      x[i] = scale * (o.first + o.second);
    }""")
    to, x = torch.zeros(4, 4).to("mpsx"), torch.ones(4, 4).to("mpsx")
    call(lib, to, x)
    functions = []
    sys.setprofile(lambda frame, event, _: functions.append(frame.f_code.co_name) if event == "call" else None)
    try:
        call(lib, to, x)
    finally:
        sys.setprofile(None)
    assert functions == ["<lambda>"]
    assert to.cpu().eq(1).all() or x.cpu().eq(25).all()


def test_recorded_launches(copies):
    """A recording repeats launches with tensor parameters."""
    to, x = torch.zeros(4, 4).to("mpsx"), torch.ones(4, 4).to("mpsx")
    copies.copy(to, x, threads=(4, 4))
    recording = torch.classes.mpsx.Recording()
    recording.begin(True)
    copies.copy(to, x, threads=(4, 4))
    recording.end()
    assert recording.finish([], [], []) == ""
    x.fill_(2)
    assert recording.replay()
    assert to.cpu().eq(2).all()


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_matmul(transpose_a, transpose_b):
    if METAL and (transpose_a or transpose_b):
        pytest.skip("Metal needs stride 1 in the last dimension")
    lib = mpsx.compile_shader(MATMUL)
    m, n, k = 70, 45, 33
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    c = torch.full((m, n + 3), 7.0).to("mpsx")
    left = a.t().contiguous().to("mpsx").t() if transpose_a else a.to("mpsx")
    right = b.t().contiguous().to("mpsx").t() if transpose_b else b.to("mpsx")
    lib.matmul(left, right, c[:, :n], threads=(2 * 128, 3), group_size=(128, 1))
    got = c.cpu()
    assert (got[:, :n].double() - a.double() @ b.double()).abs().max() < 1e-4
    assert got[:, n:].eq(7).all()


def test_types_through_aliases_and_templates():
    lib = mpsx.compile_shader(HEADER + """
    namespace shapes { template <class T> using rows_t = tensor<device T, extents<int, 4, dynamic_extent>>; }
    typedef tensor<device int, dextents<uint, 1>, tensor_handle> line_t;
    constant constexpr int kRank = 2;
    template <class T>
    kernel void sum(shapes::rows_t<T> x, line_t out, const metal::tensor<device T, dextents<long, kRank + 1>> y,
                    uint i [[thread_position_in_grid]]) {
      out[i] = int(x[0, i] + x[3, i] + y[0, i, 0]);
    }
    template [[host_name("sum_half")]] kernel decltype(sum<half>) sum<half>;
    """)
    x, y = torch.arange(12.0).reshape(3, 4).half(), torch.ones(1, 3, 2).half()
    out = torch.zeros(3, dtype=torch.int32).to("mpsx")
    lib.sum_half(x.to("mpsx"), out, y.to("mpsx"), threads=3)
    assert out.tolist() == [4, 12, 20]
    if METAL:
        return
    with pytest.raises(RuntimeError, match=r"'x' \(buffer 0\): expected .* rank 2 .*shape \(any, 4\), got .*\(4, 3\)"):
        lib.sum_half(x.to("mpsx").t(), out, y.to("mpsx"), threads=3)
    with pytest.raises(RuntimeError, match=r"'out' \(buffer 1\): expected .*1 and torch.int32.*1 and torch.int64"):
        lib.sum_half(x.to("mpsx"), out.cpu().long().to("mpsx"), y.to("mpsx"), threads=3)
    with pytest.raises(RuntimeError, match=r"'y' \(buffer 2\): expected .*rank 3 and torch.float16.*rank 2"):
        lib.sum_half(x.to("mpsx"), out, y[0].to("mpsx"), threads=3)


def test_a_tensor_that_a_function_constant_disables():
    lib = mpsx.compile_shader(HEADER + """
    constant bool has_bias [[function_constant(0)]];
    kernel void scale(tensor<device float, dextents<int, 1>> x,
                      tensor<device float, dextents<int, 1>> bias [[buffer(1), function_constant(has_bias)]],
                      uint i [[thread_position_in_grid]]) { x[i] = 2 * x[i] + (has_bias ? bias[i] : 0); }
    """)
    x, bias = torch.ones(5).to("mpsx"), torch.full((5,), 3.0).to("mpsx")
    lib.scale.with_constants(has_bias=True)(x, bias)
    lib.scale.with_constants(has_bias=False)(x)
    lib.scale.with_constants(has_bias=False)(x, None)
    assert x.tolist() == [20.0] * 5


@on_metal
@pytest.mark.parametrize(("make", "says"), [
    (lambda: torch.zeros(4, 4, 4).to("mpsx"), "got one of rank 3 and torch.float32 on mpsx:0"),
    (lambda: torch.zeros(()).to("mpsx"), "got one of rank 0"),
    (lambda: torch.zeros(4, 4, dtype=torch.float16).to("mpsx"), "got one of rank 2 and torch.float16"),
    (lambda: torch.zeros(4, 4, dtype=torch.complex64).to("mpsx"), "got one of rank 2 and torch.complex64"),
    (lambda: torch.zeros(4, 4), "got one of rank 2 and torch.float32 on cpu"),
    (lambda: 3.0, "got float"),
    (lambda: [1, 2], "got list"),
    (lambda: None, "got NoneType"),
])  # fmt: skip
def test_wrong_arguments(copies, make, says):
    expected = r"copy: parameter 'from' \(buffer 1\): expected a tensor of rank 2 and torch.float32 on mpsx, "
    with pytest.raises(RuntimeError, match=expected + says):
        copies.copy(torch.zeros(4, 4).to("mpsx"), make(), threads=(4, 4))


@on_metal
def test_sizes_beyond_the_index_type():
    lib = mpsx.compile_shader(HEADER + """
    kernel void f(tensor<device char, dextents<short, 1>> x, uint i [[thread_position_in_grid]]) { x[i] = 1; }
    """)
    with pytest.raises(RuntimeError, match=r"expected sizes and strides below 32768, which .* with short"):
        lib.f(torch.zeros(40000, dtype=torch.int8).to("mpsx"), threads=1)


@on_metal
@pytest.mark.parametrize(("parameter", "says"), [
    ("tensor<device float, dextents<int, 1>, tensor_inline> x", "expected a tensor_handle, which the host binds, got"),
    ("tensor<threadgroup float, dextents<int, 1>> x", "expected elements in device or constant memory, got thread"),
    ("tensor<float, dextents<int, 1>> x", "expected elements in device or constant memory, got no address space"),
    ("tensor<device float, dextents<int, 1>> x [[buffer(1)]], device int* y [[buffer(1)]]", "index 1"),
])  # fmt: skip
def test_wrong_parameters(parameter, says):
    with pytest.raises(SyntaxError, match=says):
        mpsx.compile_shader(HEADER + f"kernel void f({parameter}) {{}}")


def test_streams_and_freed_tensors(copies):
    to = torch.zeros(64, 64).to("mpsx")
    stream = torch.Stream(device="mpsx")
    for i in range(20):
        with stream:
            copies.copy(to, torch.full((64, 64), float(i)).to("mpsx"), threads=(64, 64))
            torch.full((64, 64), -1.0).to("mpsx")
    stream.synchronize()
    assert to.cpu().eq(19).all()


@pytest.mark.skipif(mpsx.driver()["name"] != "simt", reason="only the simt driver checks accesses")
def test_accesses_beyond_a_tensor_are_faults(copies):
    """Memory checks also cover the pointer inside a tensor parameter."""
    x = torch.zeros(4, 4).to("mpsx")
    with pytest.raises(RuntimeError, match=r"out-of-bounds (read|write) of 4 bytes"):
        copies.copy(x, torch.zeros(4, 4).to("mpsx"), threads=(4, 100))
