"""Regression tests for PyTorch issues in which the MPS backend silently returned wrong results.

These calls must return correct results here or raise an error. The issue numbers are in the names of the tests.
"""

from __future__ import annotations

import gc

import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_as_accurate
from tables import FLOAT

pytestmark = pytest.mark.usefixtures("silent_fallback")

DEVICE = "mpsx"
dtypes = pytest.mark.parametrize("dtype", FLOAT, ids=str)


def on_device(x: torch.Tensor) -> torch.Tensor:
    """Copy to the device with the same strides. The storage around and between the elements contains NaN."""
    if not x.is_floating_point():
        return x.to(DEVICE)
    needed = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) + 1
    base = torch.full((needed + 64,), torch.nan, dtype=x.dtype, device=DEVICE)
    once = x[tuple(slice(1 if stride == 0 else None) for stride in x.stride())]
    base.as_strided(once.shape, x.stride(), 32).copy_(once)
    return base.as_strided(x.shape, x.stride(), 32)


# Issues 192212, 150967 and 118115: non-contiguous inputs.


@dtypes
def test_192212_convolution_with_sliced_weights(dtype: torch.dtype) -> None:
    weights = torch.randn(3, 16, 3, 3, 3).to(dtype)
    x = torch.randn(2, 16, 12, 10).to(dtype)
    for k in range(3):
        got = F.conv2d(x.to(DEVICE), weights.to(DEVICE)[:, :, k])
        torch.testing.assert_close(got.cpu(), F.conv2d(x, weights[:, :, k]))


@dtypes
@pytest.mark.parametrize("name", ["addcdiv_", "addcmul_"])
def test_118115_in_place_on_transposed(dtype: torch.dtype, name: str) -> None:
    x, y = torch.rand(5, 7).t().to(dtype), torch.rand(5, 7).t().to(dtype)
    for z in (torch.rand_like(x) + 0.5, torch.rand(7, 5).to(dtype) + 0.5):
        dx, dy, dz = on_device(x), on_device(y), on_device(z)
        assert dx.stride() == x.stride()
        got = getattr(dx, name)(dy, dz, value=0.5)
        torch.testing.assert_close(got.cpu(), getattr(x.clone(), name)(y, z, value=0.5))


OPERATORS = {
    "linear": F.linear,
    "matmul": lambda x, y: x @ y.t(),
    "bmm": lambda x, y: x[None].bmm(y.t()[None]),
    "add": torch.add,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "silu": lambda x, y: F.silu(x),
    "gelu": lambda x, y: F.gelu(x),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "isfinite": lambda x, y: x.isfinite(),
    "softmax": lambda x, y: x.softmax(0),
    "layer_norm": lambda x, y: F.layer_norm(x, x.shape[1:]),
    "sum": lambda x, y: x.sum(0),
    "amax": lambda x, y: x.amax(1),
    "cumsum": lambda x, y: x.cumsum(0),
    "sort": lambda x, y: x.sort(1)[0],
    "cat": lambda x, y: torch.cat((x, y), 1),
    "flip": lambda x, y: x.flip(0),
    "index_select": lambda x, y: x.index_select(1, torch.tensor([2, 0, 3], device=x.device)),
    "mse_loss": F.mse_loss,
    "max_pool": lambda x, y: F.max_pool2d(x[None], 2),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_150967_operators_read_strides(name: str) -> None:
    base = torch.randn(9, 14)
    for view in (base.t(), base[:, ::2], base[::2, 3:8], base[3].expand(5, 14), base.flip(0)[1:]):
        got = OPERATORS[name](on_device(view), on_device(view * 0.5 - 0.1))
        torch.testing.assert_close(got.cpu(), OPERATORS[name](view, view * 0.5 - 0.1))


@pytest.mark.parametrize("name", ["normal_", "uniform_", "exponential_", "bernoulli_", "random_", "fill_", "zero_"])
def test_150967_in_place_operators_write_strided(name: str) -> None:
    base = torch.full((8, 6), -7.0, device=DEVICE)
    view = base.t()[1:5, ::2]
    getattr(view, name)(*([3.0] if name == "fill_" else []))
    written = torch.zeros(8, 6, dtype=torch.bool)
    written.t()[1:5, ::2] = True
    assert torch.equal(base.cpu() != -7.0, written)


# Issues 177116, 197636 and 188756: sizes.


@dtypes
@pytest.mark.parametrize("inner", [32769, 40001])
def test_177116_long_inner_dimensions(dtype: torch.dtype, inner: int) -> None:
    """The memory after the operands contains NaN, which must not contribute to the sum."""
    a, b = torch.randn(17, inner).to(dtype), torch.randn(inner, 19).to(dtype)
    exact = a.double() @ b.double()
    results = (
        on_device(a) @ on_device(b),
        on_device(a.t().contiguous()).t() @ on_device(b),
        torch.bmm(on_device(a)[None], on_device(b)[None])[0],
        F.linear(on_device(a), on_device(b.t())),
    )
    for result in results:
        wrong = (result.cpu().double() - exact).abs().max().item()
        assert wrong <= max(2 * ((a @ b).double() - exact).abs().max().item(), 1e-2)


ROWS = 2**31 // 64 + 8  # with 64 columns, more elements than 31 bits can index


@pytest.fixture(scope="module")
def long_table() -> torch.Tensor:
    """Reserve 4 GiB of address space. Only pages that are written use memory."""
    table = torch.empty(ROWS, 64, dtype=torch.float16, device=DEVICE)
    rows = torch.randn(16, 64, dtype=torch.float16)
    table[:8], table[-8:] = rows[:8].to(DEVICE), rows[8:].to(DEVICE)
    assert torch.equal(table[-8:].cpu(), rows[8:])
    return table


LOOKUPS = {
    "embedding": lambda table, i: F.embedding(i, table),
    "index_select": lambda table, i: table.index_select(0, i),
    "index": lambda table, i: table[i],
    "index in two dimensions": lambda table, i: table[i[:, None], torch.arange(64, device=i.device)],
    "gather": lambda table, i: table.gather(0, i[:, None].expand(-1, 64)),
    "take": lambda table, i: table.take(i[:, None] * 64 + torch.arange(64, device=i.device)),
    "slices": lambda table, i: torch.stack([table[int(j)] * 1 for j in i]),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_188756_lookups_past_31_bits(long_table: torch.Tensor, name: str) -> None:
    ends = torch.cat((long_table[:8], long_table[-8:])).cpu()
    at = torch.tensor([0, 3, 8, 11, 15])
    far = torch.where(at < 8, at, at - 16 + ROWS).to(DEVICE)
    got = LOOKUPS[name](long_table, far)
    assert torch.equal(got.cpu(), ends[at])


def test_188756_writes_past_31_bits(long_table: torch.Tensor) -> None:
    flat = long_table.view(-1)
    before = flat[:64].cpu()
    row = torch.tensor([ROWS - 2], device=DEVICE)
    values = torch.arange(64.0, device=DEVICE).half()[None]
    writes = (
        lambda: long_table.index_copy_(0, row, values), lambda: long_table.index_add_(0, row, values),
        lambda: long_table.index_put_((row,), values, accumulate=True), lambda: long_table[-2].mul_(0.5),
        lambda: long_table.scatter_(0, row[:, None].expand(1, 64), values), lambda: long_table.index_fill_(0, row, 3.0),
    )  # fmt: skip
    expected = (values, values * 2, values * 3, values * 1.5, values, torch.full_like(values, 3.0))
    for write, want in zip(writes, expected, strict=True):
        write()
        assert torch.equal(long_table[-2:-1].cpu(), want.cpu())
    assert torch.equal(flat[:64].cpu(), before)


@pytest.mark.parametrize("stride", [2**31 + 3, 2**32 + 5])
def test_197636_strides_past_31_and_32_bits(stride: int) -> None:
    """Use a view whose rows are far apart."""
    size = 2 * stride + 1024
    if size > torch.mpsx.recommended_max_memory():
        pytest.skip("a buffer of that size exceeds the device's recommended memory")
    base = torch.empty(size, dtype=torch.uint8, device=DEVICE)
    view = base.as_strided((3, 1000), (stride, 1), 7)
    x = torch.randint(1, 50, (3, 1000), dtype=torch.uint8)
    view.copy_(x.to(DEVICE))
    assert torch.equal(view.cpu(), x)
    assert torch.equal((view + view).cpu(), x + x)
    assert torch.equal(view.t().contiguous().cpu(), x.t())
    assert torch.equal(view.sum(0).cpu(), x.sum(0))
    assert torch.equal(view.sum(1).cpu(), x.sum(1))
    assert torch.equal(view.amax(1).cpu(), x.amax(1))
    assert torch.equal(torch.cat((view, view), 1).cpu(), torch.cat((x, x), 1))
    assert torch.equal(view.float().softmax(1).cpu(), x.to(DEVICE).float().softmax(1).cpu())
    view.mul_(2)
    assert torch.equal(view.cpu(), x * 2)


@pytest.mark.sweep
def test_197636_results_past_32_bits() -> None:
    """Write and read every element of a 4 GiB tensor."""
    count = 2**32 + 77
    x = torch.ones(count, dtype=torch.uint8, device=DEVICE)
    assert x.sum(dtype=torch.int64).item() == count
    x.add_(1)
    assert x.sum(dtype=torch.int64).item() == 2 * count
    x[-3:] = 9
    assert x.argmax().item() == count - 3
    assert x[2**32 :].sum().item() == 77 * 2 + 3 * 7


@pytest.mark.sweep
def test_197636_bmm_results_past_32_bits() -> None:
    """Call bmm with a transposed view and an 8 GiB result, as in the issue."""
    batch, length = 65536 + 16, 256
    q = torch.randn(batch, length, 1, device=DEVICE).half()
    k = torch.randn(batch, length, 1, device=DEVICE).half()
    out = torch.bmm(q, k.transpose(1, 2))
    for i in (0, batch // 2, batch - 1):
        torch.testing.assert_close(out[i].cpu(), q[i].cpu() @ k[i].cpu().t())
    del out
    gc.collect()


# Issue 183825: gradients.


@dtypes
@pytest.mark.parametrize("of_input", [True, False])
def test_183825_layer_norm_without_input_gradient(dtype: torch.dtype, of_input: bool) -> None:
    x = torch.randn(6, 4, 33).to(dtype)
    weights = torch.randn(2, 33).to(dtype)
    upstream = torch.randn(6, 4, 33).to(dtype)

    def run(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
        leaf = x.detach().to(device, dtype).requires_grad_(of_input)
        weight, bias = (w.detach().to(device, dtype).requires_grad_() for w in weights)
        leaves = [weight, bias] + ([leaf] if of_input else [])
        found = torch.autograd.grad(F.layer_norm(leaf, (33,), weight, bias), leaves, upstream.to(device, dtype))
        return [g.cpu() for g in found]

    first = run(DEVICE, dtype)
    # Compare with float64, because the CPU accumulates in half precision.
    for got, exact in zip(first, run("cpu", torch.float64), strict=True):
        scale = exact.abs().max().item()
        torch.testing.assert_close(got.double(), exact, rtol=0, atol=scale * torch.finfo(dtype).eps * 4)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(first, run(DEVICE, dtype), strict=True))


# Issue 195910: attention.


@dtypes
@pytest.mark.parametrize(("queries", "keys", "size"), [(64, 64, 64), (37, 37, 33), (5, 9, 16), (9, 5, 16), (1, 7, 8)])
def test_195910_causal_attention_ignores_the_future(dtype: torch.dtype, queries: int, keys: int, size: int) -> None:
    q = torch.randn(2, 4, queries, size).to(dtype)
    k, v = (torch.randn(2, 4, keys, size).to(dtype) for _ in range(2))

    def attention(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q.to(DEVICE), k.to(DEVICE), v.to(DEVICE), is_causal=True).cpu()

    got = attention(k, v)
    cpu = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    assert_as_accurate(got, cpu, exact)
    for seen in {1, 2, 3, 4, 5, 6, 7, 31, 33} & set(range(1, min(queries, keys))):
        later_k, later_v = k.clone(), v.clone()
        later_k[:, :, seen:], later_v[:, :, seen:] = 99.0, -99.0
        assert torch.equal(attention(later_k, later_v)[:, :, :seen], got[:, :, :seen])


# Issue 190064: adaptive pooling.


ODD_SIZES = [((5, 5), (3, 3)), ((2, 2), (4, 4)), ((4, 10), (8, 5)), ((7, 3), (2, 3)), ((1, 9), (1, 4))]


@pytest.mark.parametrize(("size", "to"), ODD_SIZES)
@pytest.mark.parametrize("channels_last", [False, True])
def test_190064_adaptive_pooling_of_odd_sizes(size: tuple[int, int], to: tuple[int, int], channels_last: bool) -> None:
    x = torch.randn(2, 3, *size)
    x = x.to(memory_format=torch.channels_last) if channels_last else x
    for pool in (
        lambda x: F.adaptive_max_pool2d(x, to, return_indices=True), lambda x: (F.adaptive_avg_pool2d(x, to),),
        lambda x: F.adaptive_max_pool1d(x[:, :, 0], to[1], return_indices=True),
    ):  # fmt: skip
        c, d = x.detach().requires_grad_(), x.detach().to(DEVICE).requires_grad_()
        want, got = pool(c), pool(d)
        torch.testing.assert_close([t.cpu() for t in got], list(want))
        upstream = torch.randn(want[0].shape)
        (wanted,), (gotten,) = (
            torch.autograd.grad(y[0], leaf, upstream.to(leaf.device)) for y, leaf in ((want, c), (got, d))
        )
        torch.testing.assert_close(gotten.cpu(), wanted)


# Issues 144824 and 154235: out-of-range indices.

BAD_INDICES = {
    "embedding": lambda w, i: F.embedding(i, w),
    "embedding_bag": lambda w, i: F.embedding_bag(i[None], w),
    "index": lambda w, i: w[i],
    "index of columns": lambda w, i: w[:, i],
    "index_put_": lambda w, i: w.index_put_((i,), torch.zeros(1, device=w.device)),
    "index_select": lambda w, i: w.index_select(0, i),
    "index_add_": lambda w, i: w.index_add_(0, i, torch.zeros(len(i), 4, device=w.device)),
    "index_copy_": lambda w, i: w.index_copy_(0, i, torch.zeros(len(i), 4, device=w.device)),
    "index_fill_": lambda w, i: w.index_fill_(0, i, 1.0),
    "gather": lambda w, i: w.gather(0, i[:, None]),
    "scatter_": lambda w, i: w.scatter_(0, i[:, None], 1.0),
    "scatter_add_": lambda w, i: w.scatter_add_(0, i[:, None], torch.ones(len(i), 1, device=w.device)),
    "take": lambda w, i: w.take(i * 4),
    "put_": lambda w, i: w.put_(i * 4, torch.zeros(len(i), device=w.device)),
    "nll_loss": lambda w, i: F.nll_loss(w[: len(i)], i),
    "one_hot": lambda w, i: F.one_hot(i, 4),
}


@pytest.mark.parametrize("bad", [4, 5, 2**33, -5, -(2**33)])
@pytest.mark.parametrize("name", BAD_INDICES)
def test_144824_154235_indices_out_of_range(name: str, bad: int) -> None:
    """The call raises an error, as on the CPU. Later calls return correct results."""
    weight = torch.arange(16.0).reshape(4, 4)
    for values in ([bad], [0, bad], [bad, 1, 2]):
        index = torch.tensor(values)
        with pytest.raises((IndexError, RuntimeError)):
            BAD_INDICES[name](weight.clone(), index)
        with pytest.raises((IndexError, RuntimeError)):
            BAD_INDICES[name](weight.to(DEVICE), index.to(DEVICE))
            torch.mpsx.synchronize()
    assert torch.equal(F.embedding(torch.tensor([3, 0], device=DEVICE), weight.to(DEVICE)).cpu(), weight[[3, 0]])


# Issue 189690: non-blocking copies.


def test_189690_non_blocking_copies_keep_their_source() -> None:
    def numbers(seed: int) -> torch.Tensor:
        return torch.randn(4097, generator=torch.Generator().manual_seed(seed))

    copies = []
    for seed in range(8):
        source = numbers(seed)
        copies.append(source.to(DEVICE, non_blocking=True))
        source.fill_(torch.nan) if seed % 2 else None
        del source  # the next source may reuse this memory
    for seed, copy in enumerate(copies):
        want = numbers(seed)
        assert seed % 2 or torch.equal(copy.cpu(), want)
        # As on CUDA, overwriting the source before synchronize() may change the copy, but a copy must never read freed
        # memory.
        assert torch.equal(copy.cpu(), want) or copy.isnan().all()
    back = [copy.to("cpu", non_blocking=True) for copy in copies]
    torch.mpsx.synchronize()
    assert all(torch.equal(a, b.cpu()) or a.isnan().all() for a, b in zip(back, copies, strict=True))


# Issue 97574: determinism.


def test_97574_duplicate_indices_are_deterministic() -> None:
    index = torch.randint(3, (4000,))
    values = torch.arange(4000)
    # If indices repeat, the last value is stored, as on the CPU with one thread (with several threads, the CPU is not
    # deterministic). GPUs run threadgroups in any order, so they guarantee this only in deterministic mode.
    in_order = torch.mpsx.get_device_properties().driver not in ("cuda", "metal")
    expected = torch.stack([(index == i).nonzero().max() for i in range(3)])
    floats = torch.randn(4000)
    added = None
    for threads in (1, 2, 3, 2):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            for deterministic in (False, True) if in_order else (True,):
                torch.use_deterministic_algorithms(deterministic)
                got = torch.zeros(3, dtype=torch.long, device=DEVICE)
                got[index.to(DEVICE)] = values.to(DEVICE)
                assert torch.equal(got.cpu(), expected)
            total = torch.zeros(3, device=DEVICE).index_put_((index.to(DEVICE),), floats.to(DEVICE), accumulate=True)
        finally:
            torch.set_num_threads(before)
            torch.use_deterministic_algorithms(False)
        assert added is None or torch.equal(total.cpu(), added)
        added = total.cpu()
