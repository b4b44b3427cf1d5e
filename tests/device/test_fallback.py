"""CPU fallback: warnings, modes, counts, user-registered fallbacks, and zero-copy calls."""

from __future__ import annotations

import time
import timeit
import warnings

import pytest
import torch
from processes import run_in_subprocess

import mpsx
import vendor

aten = torch.ops.aten


def RARE(x: torch.Tensor, **out: torch.Tensor) -> torch.Tensor:
    """Call an operator that PyTorch implements only for the CPU, and that is unlikely to get a Metal kernel."""
    return aten._add_relu.out(x, x, **out) if out else aten._add_relu.Tensor(x, x)


def calls(name: str) -> int:
    return sum(entry.calls for entry in mpsx.fallback.entries() if entry.name == name)


def test_warns_once_per_operator(loud_fallback: None) -> None:
    x = torch.ones(3, device="mpsx")
    with pytest.warns(UserWarning, match=r"aten::hash_tensor\.out: no mpsx kernel") as caught:
        torch.hash_tensor(x)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.hash_tensor(x)
    mpsx.fallback.reset()
    with pytest.warns(UserWarning, match="hash_tensor"):
        torch.hash_tensor(x)


def test_cpu_scalar_input_and_cpu_out() -> None:
    """CPU scalars are valid inputs, but a CPU tensor is not a valid out= argument."""
    x = torch.ones(3, device="mpsx")
    assert torch.hypot(x, torch.tensor(2.0)).device.type == "mpsx"
    for out in (torch.empty(0, dtype=torch.long), torch.empty((), dtype=torch.long)):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.nonzero(x, out=out)


def test_warns_callers_of_torch_ops(loud_fallback: None) -> None:
    with pytest.warns(UserWarning, match="_add_relu") as caught:
        RARE(torch.ones(3, device="mpsx"))
    assert caught[0].filename == __file__


def test_warns_from_backward(loud_fallback: None) -> None:
    x = torch.rand(3, 3, dtype=torch.float64, device="mpsx", requires_grad=True)  # float64 has no Metal kernel
    loss = x.softmax(1).max()
    mpsx.fallback.reset()
    with pytest.warns(UserWarning, match="_softmax_backward_data"):
        loss.backward()


def test_warning_can_be_an_error(loud_fallback: None) -> None:
    x = torch.ones(3, device="mpsx")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="hash_tensor"):
            torch.hash_tensor(x)
    mpsx.fallback.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="_add_relu"):
            aten._add_relu.Tensor(x, x)


def test_silent(loud_fallback: None) -> None:
    with mpsx.fallback.using_mode("silent"), warnings.catch_warnings():
        warnings.simplefilter("error")
        RARE(torch.ones(3, device="mpsx"))
    assert mpsx.fallback.mode() == "warn"


def test_error() -> None:
    x = torch.ones(3, device="mpsx")
    with mpsx.fallback.using_mode("error"), pytest.raises(NotImplementedError, match=r"aten::_add_relu\.Tensor"):
        RARE(x)


def test_unknown_mode() -> None:
    with pytest.raises(ValueError, match="expected one of warn, silent, error, got 'loud'"):
        mpsx.fallback.set_mode("loud")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "warn"),
        ({"MPSX_FALLBACK": "silent"}, "silent"),
        ({"MPSX_FALLBACK": "error"}, "error"),
        ({"PYTORCH_ENABLE_MPS_FALLBACK": "0"}, "error"),
        ({"PYTORCH_ENABLE_MPS_FALLBACK": "1"}, "warn"),
        ({"MPSX_FALLBACK": "silent", "PYTORCH_ENABLE_MPS_FALLBACK": "0"}, "silent"),
    ],
)
def test_environment(environment: dict[str, str], expected: str) -> None:
    with mpsx.fallback.using_mode("warn"):
        mpsx.fallback.configure(environment)
        assert mpsx.fallback.mode() == expected


def test_environment_reaches_a_new_process() -> None:
    done = run_in_subprocess("import mpsx; print(mpsx.fallback.mode())", MPSX_FALLBACK="error")
    assert done.stdout.strip() == "error", done.stderr


def test_unknown_mode_in_the_environment_fails_to_load() -> None:
    done = run_in_subprocess("torch.ones(1, device='mpsx')", MPSX_FALLBACK="bogus")
    assert "MPSX_FALLBACK: expected one of warn, silent, error, got 'bogus'" in done.stderr
    assert done.returncode != 0


def test_counts(silent_fallback: None) -> None:
    mpsx.fallback.reset()
    assert mpsx.fallback.report() == "No operator fell back to the CPU."
    x = torch.ones(1000, device="mpsx")
    for _ in range(3):
        RARE(x)
    (entry,) = [e for e in mpsx.fallback.entries() if e.name == "aten::_add_relu.Tensor"]
    assert entry.calls == 3
    assert entry.seconds > 0
    assert entry.bytes == 3 * 4000  # the size of the input
    *rows, total = mpsx.fallback.report().splitlines()
    assert any(row.startswith("aten::_add_relu.Tensor") for row in rows)
    assert total.split()[:2] == ["total", str(sum(e.calls for e in mpsx.fallback.entries()))]


def test_nothing_is_copied(silent_fallback: None) -> None:
    """Operators that overwrite an argument, or return it or a view of it, use the original memory without copies."""
    x = torch.ones(4, 4, device="mpsx")
    before = x.data_ptr()
    assert RARE(x, out=x) is x
    assert x.data_ptr() == before
    big = torch.ones(1 << 20, device="mpsx")
    peak = torch.mpsx.memory_allocated()
    torch.mpsx.reset_peak_memory_stats()
    RARE(big, out=big)
    assert torch.mpsx.max_memory_allocated() - peak < 1 << 16


@pytest.mark.sweep  # measures time, so it needs an idle machine
def test_fallback_overhead_is_below_a_microsecond(silent_fallback: None) -> None:
    """Compare the time with the plain CPU call. The minimum over many runs is reliable even on a busy machine."""

    def microseconds(device: str) -> float:
        x, out = torch.ones(10, device=device), torch.empty(10, device=device)
        timer = timeit.Timer(lambda: RARE(x, out=out), timer=time.thread_time)
        return min(timer.repeat(repeat=30, number=2000)) / 2000 * 1e6

    assert microseconds("mpsx") - microseconds("cpu") < 1


def test_out_is_resized(silent_fallback: None) -> None:
    x = torch.rand(6, 2, device="mpsx")
    out = torch.empty(0, device="mpsx")
    storage = out.untyped_storage()._cdata
    RARE(x, out=out)
    assert out.shape == (6, 2)
    assert out.untyped_storage()._cdata == storage
    torch.testing.assert_close(out.cpu(), RARE(x.cpu()))
    sliced = torch.zeros(6, 4, device="mpsx")
    RARE(x, out=sliced[:, ::2])
    torch.testing.assert_close(sliced.cpu()[:, ::2], RARE(x.cpu()))
    assert sliced[:, 1::2].sum().item() == 0


def test_long_tensor_lists(silent_fallback: None) -> None:
    """Pass lists of hundreds of tensors. Some tensors occur twice, and some share a storage."""
    base = torch.zeros(300, 2, device="mpsx")
    rows = [base[i] for i in range(300)]
    with torch.library._scoped_library("mpsx_test", "DEF") as library:
        library.define("number(Tensor(a!)[] tensors) -> Tensor[]")
        library.impl("number", lambda tensors: [t.add_(i) for i, t in enumerate(tensors)][:2], "CPU")
        returned = torch.ops.mpsx_test.number([*rows, rows[7]])
    assert base[:, 0].tolist() == [i + (300 if i == 7 else 0) for i in range(300)]
    assert [t.data_ptr() for t in returned] == [rows[0].data_ptr(), rows[1].data_ptr()]


def test_sparse(silent_fallback: None) -> None:
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]], device="mpsx")
    coo = dense.to_sparse()
    assert coo.device.type == "mpsx"
    assert coo.layout == torch.sparse_coo
    assert torch.equal((coo + coo).to_dense().cpu(), 2 * dense.cpu())
    assert torch.equal(torch.sparse.mm(coo, dense).cpu(), dense.cpu() @ dense.cpu())
    assert torch.equal(torch.ones(2, 2).to_sparse().to("mpsx").to_dense().cpu(), torch.ones(2, 2))
    csr = dense.to_sparse_csr()
    assert csr.layout == torch.sparse_csr
    assert torch.equal((csr @ dense).cpu(), dense.cpu() @ dense.cpu())
    assert torch.equal(csr.to_dense().cpu(), dense.cpu())
    assert "device='mpsx:0'" in repr(coo)


def test_sparse_embedding_gradient(silent_fallback: None) -> None:
    layer = torch.nn.Embedding(5, 3, sparse=True, device="mpsx")
    layer(torch.tensor([1, 1, 4], device="mpsx")).sum().backward()
    assert layer.weight.grad.is_sparse
    assert layer.weight.grad.to_dense().sum(1).tolist() == [0, 6, 0, 0, 3]
    torch.optim.SparseAdam(layer.parameters()).step()


def test_nested(silent_fallback: None) -> None:
    parts = [torch.ones(2, 3, device="mpsx"), torch.ones(4, 3, device="mpsx")]
    nested = torch.nested.nested_tensor(parts)
    assert nested.device.type == "mpsx"
    assert [t.shape[0] for t in (nested * 2).unbind()] == [2, 4]
    assert torch.nested.to_padded_tensor(nested, 0.0).sum().item() == 18


def test_quantized(silent_fallback: None) -> None:
    x = torch.linspace(-1, 1, 9, device="mpsx")
    quantized = torch.quantize_per_tensor(x, 0.1, 3, torch.qint8)
    assert quantized.device.type == "mpsx"
    cpu = torch.quantize_per_tensor(x.cpu(), 0.1, 3, torch.qint8)
    assert torch.equal(quantized.dequantize().cpu(), cpu.dequantize())
    assert torch.equal(quantized.int_repr().cpu(), cpu.int_repr())


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_dtypes_without_metal_support(silent_fallback: None, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 5, dtype=dtype)
    on_mpsx = x.to("mpsx")
    assert on_mpsx.dtype == dtype
    torch.testing.assert_close((on_mpsx @ on_mpsx + on_mpsx.exp()).cpu(), x @ x + x.exp())
    torch.testing.assert_close(torch.linalg.inv(on_mpsx).cpu(), torch.linalg.inv(x))


def test_linear_algebra(silent_fallback: None) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 6)
    x = x @ x.t() + torch.eye(6)
    on_mpsx = x.to("mpsx").requires_grad_()
    torch.testing.assert_close(torch.linalg.cholesky(on_mpsx).cpu(), torch.linalg.cholesky(x))
    torch.testing.assert_close(torch.linalg.eigvalsh(on_mpsx).cpu(), torch.linalg.eigvalsh(x))
    torch.linalg.slogdet(on_mpsx)[1].backward()
    torch.testing.assert_close(on_mpsx.grad.cpu(), torch.linalg.inv(x).t())


def test_registering_a_fallback(silent_fallback: None) -> None:
    x = torch.ones(3, device="mpsx")
    seen = []

    def following(self: torch.Tensor, other: torch.Tensor, *, alpha: float = 1) -> torch.Tensor:
        seen.append(self.device.type)
        return mpsx.fallback.on_cpu(aten._add_relu.Tensor, self, other, alpha=alpha) + 1

    expected = RARE(x).cpu()
    with mpsx.fallback.register("aten::_add_relu.Tensor", following):
        torch.testing.assert_close(RARE(x).cpu(), expected + 1)
    assert seen == ["mpsx"]
    torch.testing.assert_close(RARE(x).cpu(), expected)
    with pytest.raises(ValueError, match="aten::foo"):
        mpsx.fallback.register("foo", following)


def test_custom_operators_fall_back(silent_fallback: None) -> None:
    with torch.library._scoped_library("mpsx_test", "DEF") as library:
        library.define("twice(Tensor self, Device? device=None) -> Tensor")
        library.impl("twice", lambda self, device=None: self * 2, "CPU")
        result = torch.ops.mpsx_test.twice(torch.ones(2, device="mpsx"))
        assert result.device.type == "mpsx"
        assert result.tolist() == [2, 2]


def test_no_kernel_anywhere(silent_fallback: None) -> None:
    with torch.library._scoped_library("mpsx_test", "DEF") as library:
        library.define("nowhere(Tensor self) -> Tensor")
        with pytest.raises(NotImplementedError, match="mpsx_test::nowhere: no kernel for mpsx, and none for CPU"):
            torch.ops.mpsx_test.nowhere(torch.ones(2, device="mpsx"))


def test_errors_of_the_cpu_kernel_propagate(silent_fallback: None) -> None:
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(torch.zeros(2, 2, device="mpsx"))
    assert RARE(torch.ones(2, device="mpsx")).device.type == "mpsx"


@vendor.preferred
def test_vendor_operators_do_not_warn(loud_fallback: None) -> None:
    a, b = torch.ones(20, 20).to("mpsx"), torch.ones(20, 20).to("mpsx")
    image, kernel = torch.ones(1, 2, 6, 6).to("mpsx"), torch.ones(3, 2, 3, 3).to("mpsx")
    mpsx._runtime.reset_profile()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.mm(a, b)
        torch.addmm(a, a, b)
        torch.bmm(a[None], b[None])
        torch.nn.functional.linear(a, b)
        torch.nn.functional.conv2d(image, kernel)
        torch.nn.functional.scaled_dot_product_attention(a[None, None], a[None, None], a[None, None])
        torch.mv(a, a[0])
        torch.dot(a[0], a[0])
    rows = {row["name"]: row for row in mpsx._runtime.profile_rows() if row["route"] == "vendor"}
    assert {"aten::mm.out", "aten::addmm.out", "aten::bmm.out", "aten::convolution"} <= rows.keys()
    assert rows["aten::mm.out"]["library"] == "oneDNN/MKL through ATen"
    assert calls("aten::mm.out") == 0


# Operators without an mpsx kernel. The host driver calls a vendor library for them. Other drivers fall back.
LIBRARY_ONLY = {
    "aten::convolution": lambda: torch.conv1d(*(torch.ones(1, 1, 8, dtype=torch.double).to("mpsx") for _ in range(2))),
}


@pytest.mark.parametrize("op", LIBRARY_ONLY)
def test_vendor_libraries_serve_only_the_host_driver(op: str, loud_fallback: None) -> None:
    with warnings.catch_warnings(record=True) as caught, mpsx.profiler.launch_log() as log:
        warnings.simplefilter("always")
        LIBRARY_ONLY[op]()
        LIBRARY_ONLY[op]()
    if vendor.is_preferred():
        assert f"vendor:{op}" in log
        assert not caught
        assert calls(op) == 0
    else:
        assert f"fallback:{op}" in log
        assert [str(w.message).startswith(f"{op}: no mpsx kernel") for w in caught] == [True]
        assert calls(op) == 2
        with mpsx.fallback.using_mode("error"), pytest.raises(NotImplementedError, match=op):
            LIBRARY_ONLY[op]()


def test_small_matmuls_use_kernels_on_every_driver(silent_fallback: None) -> None:
    """Small matmuls run in kernels on every driver, because a library call would be dominated by its overhead."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32):
        a, b, v = (torch.randint(-3, 4, size).to(dtype) for size in ((2, 5, 7), (2, 7, 6), (7,)))
        for function, tensors in ((torch.mm, (a[0], b[0])), (torch.bmm, (a, b)), (torch.bmm, (a[:0], b[:0])),
                                  (torch.mv, (a[0], v)), (torch.mv, (b[0].t(), v)), (torch.dot, (v, v)),
                                  (torch.addmv, (v[:5], a[0], v)), (torch.addmv, (v[0], a[0], v))):  # fmt: skip
            with mpsx.profiler.launch_log() as log:
                result = function(*(t.to("mpsx") for t in tensors))
            assert all(entry.startswith("kernel:") for entry in log), (function, log)
            assert torch.equal(result.cpu(), function(*tensors))


@vendor.preferred
def test_vendor_calls_are_timed_while_profiling(silent_fallback: None) -> None:
    a = torch.ones(64, 64).to("mpsx")
    with mpsx.profiler.profile() as profile:
        torch.mm(a, a)
        torch.nn.functional.conv2d(a[None, None], a[None, None, :3, :3])
    timed = {row.name: row.seconds for row in profile.rows if row.route == "vendor"}
    assert timed["aten::mm.out"] > 0
    assert timed["aten::convolution"] > 0


def test_launch_log_names_routes(silent_fallback: None) -> None:
    a = torch.ones(20, 20).to("mpsx")
    with mpsx.profiler.launch_log() as log:
        torch.mm(a, a)
        RARE(a)
    assert ("vendor:aten::mm.out" if vendor.is_preferred() else "kernel:matmul_f32") in log
    assert "fallback:aten::_add_relu.Tensor" in log
