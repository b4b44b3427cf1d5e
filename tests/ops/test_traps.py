"""Mistakes that are common in out-of-tree backends. mpsx once made each of them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time

import pytest
import torch

import mpsx
import vendor

pytestmark = pytest.mark.usefixtures("silent_fallback")


def fell_back(function: object) -> set[str]:
    """Return the names of operators that fall back while `function` runs."""
    with mpsx.profiler.launch_log() as log:
        function()
    return {name.removeprefix("fallback:") for name in log if name.startswith("fallback:")}


def test_01_copying_a_conjugate_view_does_not_recurse() -> None:
    """torch's copy_ resolves the conjugate bit with clone(), which calls copy_ again."""
    z = torch.randn(3, dtype=torch.complex64).to("mpsx")
    assert torch.equal(z.conj().clone().cpu(), z.cpu().conj().resolve_conj())
    assert torch.equal(z.conj().cpu(), z.cpu().conj())
    assert torch.equal((z.conj().imag + 0).cpu(), z.cpu().conj().imag + 0)


def has_kernel(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def test_02_operators_with_a_cpu_kernel_do_not_decompose() -> None:
    """If PyTorch does not know the device, it decomposes operators that have both a CPU kernel and a composite
    kernel."""
    composite = {"CompositeExplicitAutograd", "CompositeImplicitAutograd"}
    both = [
        name
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("CPU")
        if any(has_kernel(name, key) for key in composite)
    ]
    assert "aten::native_layer_norm" in both
    assert [name for name in both if not has_kernel(name, "PrivateUse1")] == []


@pytest.mark.parametrize("layout", ["Sparse", "SparseCsr", "NestedTensor", "Quantized"])
def test_03_operators_of_other_layouts_do_not_decompose(layout: str) -> None:
    names = torch._C._dispatch_get_registrations_for_dispatch_key(f"{layout}CPU")
    assert len(names) > 90
    # Ignore the quantized operators that importing torchvision registers.
    own = [name for name in names if not name.startswith("torchvision::")]
    assert [name for name in own if not has_kernel(name, f"{layout}PrivateUse1")] == []


def test_04_kernels_see_requires_grad() -> None:
    """_sparse_mm_reduce_impl prepares for the backward pass only if an input requires grad."""
    csr = torch.tensor([[0.0, 2.0], [3.0, 1.0]], device="mpsx").to_sparse_csr().requires_grad_()
    dense = torch.rand(2, 3, device="mpsx", requires_grad=True)
    torch.sparse.mm(csr, dense, "amax").sum().backward()
    assert dense.grad.count_nonzero().item() > 0


def test_05_conj_bits_of_outputs_are_copied_back() -> None:
    """linalg.lu_solve changes the conjugate bit of its output."""
    torch.manual_seed(0)
    a, b = torch.randn(3, 3, dtype=torch.complex64), torch.randn(3, 2, dtype=torch.complex64)
    factors, pivots = torch.linalg.lu_factor(a)
    expected = torch.linalg.lu_solve(factors, pivots, b)
    out = torch.empty(0, dtype=torch.complex64, device="mpsx")
    got = torch.linalg.lu_solve(factors.to("mpsx"), pivots.to("mpsx"), b.to("mpsx"), out=out)
    torch.testing.assert_close(out.cpu(), expected)
    torch.testing.assert_close(got.cpu(), expected)
    adjoint = torch.linalg.lu_solve(factors.mH.to("mpsx"), pivots.to("mpsx"), b.to("mpsx"), adjoint=True)
    torch.testing.assert_close(adjoint.cpu(), torch.linalg.lu_solve(factors.mH, pivots, b, adjoint=True))


@pytest.mark.parametrize(
    "call",
    [
        torch.logaddexp,
        lambda x, y: torch.logaddexp(y, x),
        torch.igamma,
        lambda x, y: torch.igamma(y, x),
        torch.ops.aten._add_relu.Tensor,  # has no kernel, so it falls back
        lambda x, y: torch.ops.aten._add_relu.Tensor(y, x),
        torch.linalg.solve,
        torch.mm,
        lambda x, y: torch.nn.functional.conv2d(x[None, None], y[None, None]),
        lambda x, y: torch.logaddexp(x, x, out=y),
        lambda x, y: torch.ops.aten._add_relu.out(x, x, out=y),
        torch.cdist,
    ],
)
def test_06_tensors_on_two_devices_raise(call: object) -> None:
    """The CPU kernel cannot detect mixed devices, because the fallback passes only CPU tensors."""
    with pytest.raises(RuntimeError, match=r"(?i)device"):
        call(torch.eye(3, device="mpsx"), torch.eye(3))


def test_06_cpu_tensors_that_torch_accepts() -> None:
    x = torch.arange(4.0, device="mpsx")
    assert x[torch.tensor([True, False, False, True])].tolist() == [0, 3]
    assert torch.logaddexp(x, torch.tensor(0.0)).device.type == "mpsx"
    assert torch.igamma(x, torch.tensor(0.5)).device.type == "mpsx"
    assert torch.ops.aten._add_relu.Tensor(x, torch.tensor(0.5)).device.type == "mpsx"
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(4, 2, 3, device="mpsx"), torch.tensor([4, 2]))
    assert packed.data.device.type == "mpsx"
    torch._foreach_addcdiv_([x], [x], [x + 1], torch.tensor([2.0]))


EXIT = """
import torch
x = torch.randn(8, 8, device="mpsx", requires_grad=True)
torch.autograd.grad((x @ x).sum(), x)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs to pin a process to one core")
@pytest.mark.parametrize("program", [EXIT, EXIT.replace("torch.autograd.grad((x @ x).sum(), x)", "x + 1")])
def test_07_processes_exit_without_abort(program: str) -> None:
    """Autograd's thread may release Python objects while the interpreter exits (PyTorch issue 190489)."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120, check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.sweep  # measures time, so it needs an idle machine
def test_08_long_lists_take_linear_time() -> None:
    """For each tensor, searching for aliases must take less than linear time."""

    def seconds(count: int) -> float:
        tensors = [torch.empty(2, device="mpsx") for _ in range(count)]
        start = time.thread_time()
        torch.ops.mpsx_test.touch(tensors)
        return time.thread_time() - start

    with torch.library._scoped_library("mpsx_test", "DEF") as library:
        library.define("touch(Tensor(a!)[] tensors) -> ()")
        library.impl("touch", lambda tensors: None, "CPU")
        seconds(100)
        short = min(seconds(500) for _ in range(5))
        long = min(seconds(16000) for _ in range(3))
    assert long < 200 * short  # a quadratic algorithm would take 1024 times as long


def test_09_file_locations_are_not_mistaken_for_mps() -> None:
    buffer = io.BytesIO()
    torch.save(torch.ones(2, device="mpsx"), buffer)
    buffer.seek(0)
    assert torch.load(buffer).device.type == "mpsx"
    priorities = {f.__module__: p for p, tag, f in torch.serialization._package_registry}
    assert priorities["mpsx.device.serialization"] < 21


def test_10_autocast_leaves_unlisted_operators_alone() -> None:
    x = torch.rand(4, 4, device="mpsx")
    with torch.autocast("mpsx", dtype=torch.bfloat16):
        assert (x + x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
        assert torch.linalg.inv(x + torch.eye(4, device="mpsx")).dtype == torch.float32


def test_11_numpy_view_shares_memory() -> None:
    """PyTorch rejects .numpy() for this device. numpy_view() replaces it."""
    x = torch.arange(3.0, device="mpsx")
    array = mpsx.numpy_view(x)
    array[0] = 5
    assert x.tolist() == [5, 1, 2]


def test_12_one_warning_per_operator(loud_fallback: None) -> None:
    x = torch.rand(4, device="mpsx")
    with pytest.warns(UserWarning) as caught:
        for _ in range(3):
            torch.hash_tensor(x)
            torch.linalg.eigvalsh(x.view(2, 2))
    assert len([w for w in caught if "hash_tensor" in str(w.message)]) == 1
    assert len([w for w in caught if "_linalg_eigh" in str(w.message)]) == 1


def test_13_one_registration_serves_all_variants() -> None:
    """A structured operator only needs a registration for its out= variant. Likewise, the fallback is called only for
    this variant."""
    x, values = torch.rand(4, device="mpsx"), torch.empty(0, dtype=torch.uint64, device="mpsx")
    assert fell_back(lambda: torch.hash_tensor(x)) == {"aten::hash_tensor.out"}
    assert fell_back(lambda: torch.hash_tensor(x, out=values)) == {"aten::hash_tensor.out"}


def test_fused_attention_is_used() -> None:
    """Unless a device opts in, scaled_dot_product_attention silently uses the unfused path."""
    q = torch.randn(1, 2, 8, 16, device="mpsx", requires_grad=True)
    with mpsx.profiler.launch_log() as log:
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    both = {"vendor:aten::scaled_dot_product_attention", "vendor:aten::scaled_dot_product_attention_backward"}
    kernels = {"kernel:attention_64_f32", "kernel:attention_backward_dq_64_f32"}
    assert {name for name in log if "attention" in name} >= (both if vendor.is_preferred() else kernels)
