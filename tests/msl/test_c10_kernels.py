"""Compare kernels that use torch's c10/metal/*.h with torch operators.

Covers the kernels that the headers' macros register, atomics of every type, and reductions across threadgroups and SIMD
groups.
"""

import pytest
import torch
from c10_headers import WORDS, has

import mpsx

DTYPES = {"float": torch.float32, "half": torch.float16, "bfloat": torch.bfloat16, "int": torch.int32,
          "long": torch.int64, "short": torch.int16, "char": torch.int8, "uchar": torch.uint8}  # fmt: skip
# Since torch 2.13, each erf_dense thread computes four elements, erf_strided has a 2-D grid and strides in bytes, and
# simd_prod of float2 multiplies complex numbers.
FOURS, STORES_ANY_TYPE = has("unary_dense_scalar"), has("store_at_offs")
PRODUCT_OF_I = (1, 0) if has("float2 simd_prod(float2 val)") else (0, 1)  # i**32 as a complex or elementwise product
# The kernels receive dtypes as ScalarType values from c10/metal/common.h: 4 is int64, 5 is float16, 6 is float32, and
# 15 is bfloat16.
SOURCE = """
#include <c10/metal/atomic.h>
#include <c10/metal/indexing.h>
#include <c10/metal/reduction_utils.h>
#include <c10/metal/special_math.h>
#include <metal_stdlib>
using namespace metal;
using namespace c10::metal;
using c10::metal::erf;

DEFINE_UNARY_FLOATING_FUNCTOR(erf);
#define FUNCTOR(NAME) struct NAME##_functor { template <typename T> inline T operator()
FUNCTOR(add)(const T a, const T b) { return static_cast<T>(a + b); } };
FUNCTOR(scale)(const T a, const T s) { return T(a * s); } };
FUNCTOR(axpy)(const T a, const T b, const T s) { return T(a + s * b); } };
#ifdef DEFINE_BINARY_COMPARISON_FUNCTOR
DEFINE_BINARY_COMPARISON_FUNCTOR(lt, <);
#else
struct lt_functor { template <typename T> inline bool operator()(const T a, const T b) { return a < b; } };
#endif
FUNCTOR(fma)(const T a, const T b, const T c) { return T(a * b + c); } };
REGISTER_UNARY_OP(erf, float, float);
REGISTER_UNARY_OP(erf, half, half);
REGISTER_UNARY_OP(erf, int, float);
REGISTER_UNARY_ALPHA_OP(scale, float, float, float);
REGISTER_BINARY_OP(add, float, float);
REGISTER_BINARY_OP(add, long, long);
REGISTER_OPMATH_BINARY_OP(add, half, half);
REGISTER_BINARY_OP(lt, float, bool);
#ifdef REGISTER_BINARY_CASTOUT_OP
REGISTER_BINARY_CASTOUT_OP(lt, float, bool);
#endif
REGISTER_BINARY_ALPHA_OP(axpy, bfloat, bfloat, bfloat);
REGISTER_TERNARY_OP(fma, float, float);
REGISTER_OPMATH_TERNARY_OP(fma, bfloat, bfloat);

template <typename T> inline T larger(T a, T b) { return a > b ? a : b; }
template <typename T>
kernel void atomics(device AtomicType_t<T>* sums, device AtomicType_t<T>* largest, device const T* x,
                    device const int* slot, uint i [[thread_position_in_grid]]) {
  AtomicType<T>::atomic_add(sums, slot[i], x[i]);
#ifdef HAS_ATOMIC_BINARY_OP
  AtomicType<T>::atomic_binary_op(largest, slot[i], x[i], larger<T>);
#endif
}
#define ATOMICS(T) template [[host_name("atomics_" #T)]] kernel decltype(atomics<T>) atomics<T>;
ATOMICS(float) ATOMICS(int) ATOMICS(half) ATOMICS(bfloat) ATOMICS(short) ATOMICS(char) ATOMICS(uchar)
kernel void atomics_wide(device AtomicType_t<long>* n, device AtomicType_t<float2>* z, device AtomicType_t<bool>* b,
                         device const int* slot, uint i [[thread_position_in_grid]]) {
  AtomicType<long>::atomic_add(n, slot[i], (1l << 33) + i);
  AtomicType<float2>::atomic_add(z, slot[i], float2(1, i));
  AtomicType<bool>::atomic_add(b, slot[i], slot[i] == 2);
}

template <typename T>
kernel void groups(device float* out, device const T* x, uint t [[thread_position_in_threadgroup]],
                   uint size [[threads_per_threadgroup]]) {
  threadgroup opmath_t<T> s[simdgroup_size], s2[simdgroup_size];
  threadgroup T m[simdgroup_size], m2[simdgroup_size];
  threadgroup int at[simdgroup_size], at2[simdgroup_size];
  threadgroup float whole[1024];
  threadgroup float3 parts[simdgroup_size], many[1024];
  const float sum = threadgroup_sum(s, x[t], t, size);
  threadgroup_barrier(mem_flags::mem_threadgroup);
#ifdef HAS_THREADGROUP_SUM2
  const auto both = threadgroup_sum2(s, s2, x[t], T(x[t] * x[t]), t, size);
#else
  float both[2] = {threadgroup_sum(s, x[t], t, size)};
  threadgroup_barrier(mem_flags::mem_threadgroup);
  both[1] = threadgroup_sum(s2, T(x[t] * x[t]), t, size);
#endif
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float product = threadgroup_prod(s, T(x[t] > T(1.5f) ? 2 : 1), t, size);
  const float top = threadgroup_max(m, x[t], t, size), bottom = threadgroup_min(m2, x[t], t, size);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const int first = threadgroup_argmax(m, at, x[t], int(t), t, size);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const int last = threadgroup_argmin(m, at2, x[t], int(t), t, size);
  whole[t] = x[t];
  if (t < 4) parts[t] = float3(x[t], 0, 1);
#ifdef HAS_THREADGROUP_WELFORD_REDUCE
  const float3 welford = threadgroup_welford_reduce(whole, size);
  const float3 combined = threadgroup_welford_combine(parts, 4);
#else
  many[t] = float3(x[t], 0, 1);
  const float3 welford = threadgroup_welford_combine(many, t, size);
  const float3 combined = threadgroup_welford_combine(parts, t, 4);
#endif
  if (t == 0) {
    out[0] = sum, out[1] = both[0], out[2] = both[1], out[3] = product, out[4] = top, out[5] = bottom;
    out[6] = first, out[7] = last, out[8] = welford.x, out[9] = welford.y / (welford.z - 1);
    out[10] = combined.x, out[11] = combined.y;
  }
}
#define GROUPS(T) template [[host_name("groups_" #T)]] kernel decltype(groups<T>) groups<T>;
GROUPS(float) GROUPS(half) GROUPS(bfloat)
kernel void simd_of_long(device long* out, device const long* x, uint t [[thread_index_in_simdgroup]]) {
  const long sum = c10::metal::simd_sum(x[t]), product = c10::metal::simd_prod(x[t] | 1);
  const long top = c10::metal::simd_max(x[t]), bottom = c10::metal::simd_min(x[t]);
  const auto best = c10::metal::simd_argmax(x[t]), worst = c10::metal::simd_argmin(x[t]);
  const long fifth = c10::metal::simd_broadcast(x[t], 5);
  const float2 z = c10::metal::simd_sum(float2(x[t] & 7, 1)) + c10::metal::simd_prod(float2(0, 1));
  if (t == 0) {
    out[0] = sum, out[1] = product, out[2] = top, out[3] = bottom, out[4] = best.second, out[5] = worst.second;
    out[6] = fifth, out[7] = long(z.x), out[8] = long(z.y), out[9] = best.first - worst.first;
#ifdef HAS_MAXOP
    out[10] = MaxOp<long>::identity() < MinOp<long>::identity();
    out[11] = MaxOp<float>::replace(NAN, 1.0f) + 2 * MinOp<float>::replace(0.0f, NAN) + 4 * MinOp<int>::replace(1, 2);
#endif
  }
}
"""


@pytest.fixture(scope="module")
def library():
    names = [name for name in ("atomic_binary_op", "MaxOp", "threadgroup_sum2") if has(name)]
    if "threadgroup_welford_reduce" in WORDS:  # PyTorch 2.14 removed it
        names.append("threadgroup_welford_reduce")
    return mpsx.compile_shader("".join(f"#define HAS_{name.upper()}\n" for name in names) + SOURCE)


def there(x):
    return torch.as_tensor(x).to("mpsx")


def layout(*tensors, in_bytes=True):
    """Return the sizes and strides in the order that the kernels expect: innermost dimension first."""
    strides = [[s * (t.element_size() if in_bytes else 1) for s in reversed(t.stride())] for t in tensors]
    return [there(list(reversed(tensors[0].shape)) or [1]), *map(there, strides)]


def strided(*shape, dtype=torch.float32):
    """Return a non-contiguous tensor on the device and a copy of it on the CPU."""
    x = torch.randn(shape).to(dtype)
    y = torch.empty(shape[::-1], dtype=dtype, device="mpsx").permute(*reversed(range(len(shape))))
    y.copy_(x)
    return x, y


@pytest.mark.parametrize(("dtype", "to"), [("float", "float"), ("half", "half"), ("int", "float")])
def test_unary(library, dtype, to):
    x = (torch.randn(1001) * 2).to(DTYPES[dtype])
    want = torch.erf(x)
    out = torch.empty(1001, dtype=DTYPES[to], device="mpsx")
    one_each = "erf_dense_scalar" if FOURS else "erf_dense"
    getattr(library, f"{one_each}_{to}_{dtype}")(out, there(x))
    torch.testing.assert_close(out.cpu(), want)
    if FOURS:
        getattr(library, f"erf_dense_{to}_{dtype}")(out.zero_(), there(x), 1001, arg_casts={2: "uint32"}, threads=251)
        torch.testing.assert_close(out.cpu(), want)
    if not STORES_ANY_TYPE:
        return
    bf16 = torch.empty(1001, dtype=torch.bfloat16, device="mpsx")
    getattr(library, f"erf_dense_castout_{dtype}")(bf16, there(x), [2, 15], arg_casts={2: "uint32"})
    torch.testing.assert_close(bf16.cpu(), want.bfloat16())
    numbers = torch.empty(1001, dtype=torch.int64, device="mpsx")
    getattr(library, f"erf_dense_castout_ilp_{dtype}")(numbers, there(x), [8, 4, 1001], arg_casts={2: "uint32"},
                                                       threads=251)  # fmt: skip
    assert torch.equal(numbers.cpu(), out.cpu().long())


def test_strided(library):
    x, y = strided(3, 5, 7)
    out = torch.empty(3, 5, 7, device="mpsx")
    sizes, x_strides, out_strides = layout(y, out, in_bytes=FOURS)
    options = {"threads": (7, 15), "group_size": (7, 1)} if FOURS else {"threads": 105}
    library.erf_strided_float_float(out, y, sizes, x_strides, out_strides, 3, arg_casts={5: "uint32"}, **options)
    torch.testing.assert_close(out.cpu(), x.erf())
    if STORES_ANY_TYPE:
        half = torch.empty(3, 5, 7, dtype=torch.float16, device="mpsx")
        library.erf_strided_castout_float(half, y, sizes, x_strides, layout(y, half)[2], [3, 5],
                                          arg_casts={5: "uint32"}, **options)  # fmt: skip
        torch.testing.assert_close(half.cpu(), x.erf().half())
    library.scale_strided_float_float_float(out, y, sizes, x_strides, out_strides, 3, 2.5, arg_casts={5: "uint32"},
                                            **options)  # fmt: skip
    torch.testing.assert_close(out.cpu(), x * 2.5)
    library.scale_dense_float_float_float(out, there(x), -1.5)
    torch.testing.assert_close(out.cpu(), x * -1.5)


def test_binary(library):
    x, y = torch.randn(2, 1001)
    out = torch.empty(1001, device="mpsx")
    n = there(torch.tensor([7]))
    library.add_dense_float_float(out, there(x), there(y))
    torch.testing.assert_close(out.cpu(), x + y)
    if has("binary_dense_ilp"):
        library.add_dense_ilp4_float_float(out.zero_(), there(x), there(y), 1001, arg_casts={3: "uint32"}, threads=251)
        torch.testing.assert_close(out.cpu(), x + y)
    small = x.half(), y.bfloat16()
    cast = getattr(library, "add_dense_cast_float_float" if FOURS else "add_dense_cast_float")
    cast(out, *map(there, small), [2, 2, 5, 15], arg_casts={3: "uint32"})
    torch.testing.assert_close(out.cpu(), small[0].float() + small[1].float())
    library.add_dense_broadcast_float_float(out, there(x), there(y[:7]), n)
    torch.testing.assert_close(out.cpu(), x + y[:7].repeat(143))
    library.add_dense_scalar_float_float(out, there(x), there(y[:1]))
    torch.testing.assert_close(out.cpu(), x + y[0])
    h = torch.empty(1001, dtype=torch.float16, device="mpsx")
    library.add_dense_half_half(h, there(x.half()), there(y.half()))
    torch.testing.assert_close(h.cpu(), x.half() + y.half())
    b = torch.empty(1001, dtype=torch.bool, device="mpsx")
    library.lt_dense_bool_float(b, there(x), there(y))
    assert torch.equal(b.cpu(), x < y)
    bf = torch.empty(1001, dtype=torch.bfloat16, device="mpsx")
    library.axpy_dense_bfloat_bfloat_bfloat(bf, there(x.bfloat16()), there(y.bfloat16()), 0.5, arg_casts={3: "bf16"})
    want = x.bfloat16().float() + 0.5 * y.bfloat16().float()
    torch.testing.assert_close(bf.cpu(), want.bfloat16(), atol=0.02, rtol=0)


def test_binary_strided(library):
    (a, x), (b, y) = strided(4, 3, 6), strided(4, 3, 6)
    out = torch.empty(4, 3, 6, device="mpsx")
    library.add_strided_float_float(out, x, y, *layout(out, x, y), [3, 0, 0], arg_casts={7: "uint32"}, threads=72)
    torch.testing.assert_close(out.cpu(), a + b)
    number, z = strided(4, 3, 6, dtype=torch.float16)
    cast = getattr(library, "add_strided_cast_float_float" if FOURS else "add_strided_cast_float")
    cast(out, x, z, *layout(out, x, z), [3, 6, 5, 0], arg_casts={7: "uint32"}, threads=72)
    torch.testing.assert_close(out.cpu(), a + number)
    if has("REGISTER_BINARY_CASTOUT_OP"):
        flags = torch.empty(4, 3, 6, dtype=torch.uint8, device="mpsx")
        library.lt_strided_castout_bool_float(flags, x, y, *layout(flags, x, y), [3, 6, 6, 0],
                                              arg_casts={7: "uint32"}, threads=72)  # fmt: skip
        assert torch.equal(flags.cpu(), (a < b).byte())
    c = torch.randn(4, 3, 6)
    library.fma_strided_float_float(out, x, y, there(c), *layout(out, x, y, there(c)), 3, arg_casts={9: "uint32"},
                                    threads=72)  # fmt: skip
    torch.testing.assert_close(out.cpu(), a * b + c)
    bf = torch.empty(72, dtype=torch.bfloat16, device="mpsx")
    flat = [t.bfloat16().flatten() for t in (a, b, c)]
    library.fma_dense_bfloat_bfloat(bf, *map(there, flat))
    torch.testing.assert_close(bf.cpu(), (flat[0].float() * flat[1].float() + flat[2].float()).bfloat16())


@pytest.mark.parametrize("dtype", ["float", "int", "half", "bfloat", "short", "char", "uchar"])
def test_atomics(library, dtype):
    x = torch.randint(0, 4, (200,)).to(DTYPES[dtype])
    slot = torch.randint(0, 8, (200,), dtype=torch.int32)
    sums, largest = torch.zeros(2, 8, dtype=DTYPES[dtype], device="mpsx")
    getattr(library, f"atomics_{dtype}")(sums, largest, there(x), there(slot), threads=200)
    want = torch.zeros(8).scatter_add_(0, slot.long(), x.float())
    assert torch.equal(sums.cpu().float(), want)
    if has("atomic_binary_op"):
        assert torch.equal(largest.cpu().float(), torch.zeros(8).scatter_reduce_(0, slot.long(), x.float(), "amax"))


def test_wide_atomics(library):
    slot = torch.randint(0, 4, (100,), dtype=torch.int32)
    n = torch.full((4,), (1 << 32) - 1, device="mpsx")
    z, b = torch.zeros(4, 2, device="mpsx"), torch.zeros(4, dtype=torch.bool, device="mpsx")
    library.atomics_wide(n, z, b, there(slot), threads=100)
    count = torch.bincount(slot, minlength=4)
    index = torch.zeros(4, dtype=torch.int64).scatter_add_(0, slot.long(), torch.arange(100))
    assert torch.equal(n.cpu(), (1 << 32) - 1 + (count << 33) + index)
    assert torch.equal(z.cpu(), torch.stack([count, index], 1).float())
    assert b.tolist() == [False, False, True, False]


@pytest.mark.parametrize("size", [32, 96, 1024])
@pytest.mark.parametrize("dtype", ["float", "half", "bfloat"])
def test_groups(library, dtype, size):
    x = (torch.randn(size) * 0.5).to(DTYPES[dtype])
    out = torch.zeros(12, device="mpsx")
    getattr(library, f"groups_{dtype}")(out, there(x), threads=size, group_size=size)
    f = x.float()
    want = torch.stack([f.sum(), f.sum(), (x * x).float().sum(), 2.0 ** (f > 1.5).sum(), f.max(), f.min(),
                        out[6].cpu(), out[7].cpu(), f.mean(), f.var(), f[:4].mean(), f[:4].var() * 3])  # fmt: skip
    torch.testing.assert_close(out.cpu(), want, atol=1e-4, rtol=1e-4)
    assert f[int(out[6])] == f.max()
    assert f[int(out[7])] == f.min()


def test_simd_of_long(library):
    x = torch.randint(-(1 << 40), 1 << 40, (32,))
    out = torch.zeros(12, dtype=torch.int64, device="mpsx")
    library.simd_of_long(out, there(x), threads=32, group_size=32)
    z = (x & 7).sum() + PRODUCT_OF_I[0], 32 + PRODUCT_OF_I[1]
    assert out.tolist() == [x.sum(), (x | 1).prod(), x.max(), x.min(), x.argmax(), x.argmin(), x[5], *z,
                            x.max() - x.min(), *([1, 1 + 4] if has("MaxOp") else [0, 0])]  # fmt: skip
