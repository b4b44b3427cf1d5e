"""The device: creation, copies, views, scalars, printing, modules and threads."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import mpsx

pytestmark = pytest.mark.usefixtures("silent_fallback")

DTYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.complex128,
)  # fmt: skip


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def test_name_and_index() -> None:
    tensor = torch.empty(2, device="mpsx")
    assert str(tensor.device) == "mpsx:0"
    assert tensor.is_mpsx
    assert tensor.device == torch.device("mpsx", 0) == torch.device("mpsx:0")
    with pytest.raises(RuntimeError, match="mpsx:0"):
        torch.empty(2, device="mpsx:1")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype: torch.dtype) -> None:
    cpu = torch.arange(24).reshape(2, 3, 4).to(dtype)
    on_mpsx = cpu.to("mpsx")
    assert on_mpsx.device.type == "mpsx"
    assert on_mpsx.stride() == cpu.stride()
    assert torch.equal(on_mpsx.cpu(), cpu)
    assert torch.equal(on_mpsx.transpose(0, 2).cpu(), cpu.transpose(0, 2))


def test_device_and_cpu_copies_are_independent() -> None:
    cpu = torch.zeros(4)
    on_mpsx = cpu.to("mpsx")
    back = on_mpsx.cpu()
    cpu += 1
    on_mpsx += 2
    assert cpu.tolist() == [1] * 4
    assert on_mpsx.tolist() == [2] * 4
    assert back.tolist() == [0] * 4
    assert on_mpsx.to("mpsx") is on_mpsx


def test_factories() -> None:
    assert torch.zeros(2, 3, device="mpsx").tolist() == [[0] * 3] * 2
    assert torch.ones_like(torch.empty(2, device="mpsx")).device.type == "mpsx"
    assert torch.arange(5, device="mpsx").tolist() == [0, 1, 2, 3, 4]
    assert torch.tensor([[1, 2], [3, 4]], device="mpsx").tolist() == [[1, 2], [3, 4]]
    assert torch.empty_strided((2, 3), (1, 2), device="mpsx").stride() == (1, 2)
    assert torch.empty(2, 3, 4, 5, device="mpsx", memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    with torch.device("mpsx"):
        assert torch.rand(3).device.type == "mpsx"
    assert torch.zeros(3, device="mpsx").cpu().new_zeros(2, device="mpsx").device.type == "mpsx"


def test_empty_and_zero_dim() -> None:
    nothing = torch.empty(0, 3, device="mpsx")
    assert nothing.numel() == 0
    assert nothing.sum().item() == 0
    assert torch.tensor(3.5, device="mpsx").item() == 3.5
    assert int(torch.tensor(7, device="mpsx")) == 7
    assert bool(torch.tensor(True, device="mpsx"))
    assert [10, 20, 30][torch.tensor(1, device="mpsx")] == 20


def test_views_share_storage() -> None:
    base = torch.zeros(4, 6, device="mpsx")
    for view in (base.view(24), base[1], base.t(), base.unfold(1, 2, 2), base[:, ::2], base.as_strided((2,), (1,))):
        assert storage(view) == storage(base)
        assert view._base is base
    base.view(24)[::5] = 1
    assert base.sum().item() == 5
    complex_view = torch.view_as_complex(torch.ones(3, 2, device="mpsx"))
    assert complex_view.tolist() == [1 + 1j] * 3
    assert storage(torch.view_as_real(complex_view)) == storage(complex_view)


def test_conj_and_neg_views() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j], device="mpsx")
    assert z.conj().is_conj()
    assert z.conj().cpu().tolist() == [1 - 2j, 3 + 4j]
    assert z.conj().imag.tolist() == [-2.0, 4.0]
    target = torch.zeros(2, dtype=torch.complex64, device="mpsx")
    target.copy_(z.conj())
    assert target.tolist() == [1 - 2j, 3 + 4j]
    target.conj().copy_(z)
    assert target.tolist() == [1 - 2j, 3 + 4j]


def test_resize_and_set() -> None:
    tensor = torch.ones(2, device="mpsx")
    before = storage(tensor)
    tensor.resize_(100)
    assert (tensor.numel(), storage(tensor)) == (100, before)
    assert tensor[:2].tolist() == [1, 1]
    other = torch.arange(6.0, device="mpsx")
    tensor.set_(other)
    assert storage(tensor) == storage(other)
    tensor.set_(other.untyped_storage(), 2, (2, 2), (2, 1))
    assert tensor.tolist() == [[2, 3], [4, 5]]
    tensor.set_()
    assert tensor.numel() == 0
    assert other.is_set_to(other.view(6))
    with pytest.raises(RuntimeError, match="device"):
        tensor.set_(torch.ones(2).untyped_storage())


def test_storage_resize_frees_memory() -> None:
    tensor = torch.ones(1 << 20, device="mpsx")
    before = torch.mpsx.memory_allocated()
    tensor.untyped_storage().resize_(0)
    assert torch.mpsx.memory_allocated() <= before - (4 << 20)
    tensor.untyped_storage().resize_(4 << 20)
    assert tensor.fill_(2)[-1].item() == 2


def test_cpu_view_shares_memory() -> None:
    on_mpsx = torch.zeros(4, device="mpsx")
    on_cpu = mpsx.cpu_view(on_mpsx)
    assert on_cpu.device.type == "cpu"
    on_cpu += 3
    assert on_mpsx.tolist() == [3] * 4
    mpsx.numpy_view(on_mpsx)[1] = 9
    assert on_mpsx[1].item() == 9
    assert mpsx.cpu_view(on_mpsx).data_ptr() == on_mpsx.data_ptr()
    back = mpsx.device_view(torch.arange(3.0))
    assert back.tolist() == [0, 1, 2]
    del on_mpsx
    gc.collect()
    assert on_cpu.tolist() == [3, 9, 3, 3]


def test_numpy_raises() -> None:
    with pytest.raises(TypeError, match="cpu"):
        torch.ones(2, device="mpsx").numpy()


def test_modules_move() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).mpsx()
    assert all(p.device.type == "mpsx" for p in [*model.parameters(), *model.buffers()])
    x = torch.randn(5, 4)
    reference = copy.deepcopy(model).cpu()
    torch.testing.assert_close(model(x.to("mpsx")).cpu(), reference(x))
    assert copy.deepcopy(model)[0].weight.device.type == "mpsx"


def test_autograd_matches_the_cpu() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    twin = copy.deepcopy(model).to("mpsx")
    x, target = torch.randn(2, 3, 6, 6), torch.tensor([1, 4])
    nn.functional.cross_entropy(model(x), target).backward()
    nn.functional.cross_entropy(twin(x.to("mpsx")), target.to("mpsx")).backward()
    for cpu, on_mpsx in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(on_mpsx.grad.cpu(), cpu.grad)


@pytest.mark.parametrize("cell", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_layers(cell: type[nn.RNNBase], bias: bool) -> None:
    torch.manual_seed(0)
    layer = cell(3, 5, num_layers=2, bias=bias, bidirectional=True)
    twin = copy.deepcopy(layer).to("mpsx")
    x = torch.randn(7, 2, 3)
    x_there = x.to("mpsx").requires_grad_()
    x.requires_grad_()
    out, _ = layer(x)
    out.square().sum().backward()
    with mpsx.fallback.using_mode("error"), mpsx.profiler.launch_log() as log:
        out_there, _ = twin(x_there)
        out_there.square().sum().backward()
    # Matmuls may run in a vendor library. Every other operator must run a kernel.
    assert not [name for name in log if not name.startswith("kernel:") and "mm" not in name]
    torch.testing.assert_close(out_there.cpu(), out)
    torch.testing.assert_close(x_there.grad.cpu(), x.grad)
    for cpu, on_mpsx in zip(layer.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(on_mpsx.grad.cpu(), cpu.grad)


def test_printing_shows_values() -> None:
    text = repr(torch.tensor([[1.5, -2.0], [0.25, 1e-8]], device="mpsx"))
    assert "1.5" in text
    assert "device='mpsx:0'" in text
    assert "tensor(True, device='mpsx:0')" in repr(torch.tensor(True, device="mpsx"))
    assert repr(torch.empty(0, device="mpsx")) == "tensor([], device='mpsx:0')"


def test_printing_launches_no_kernel(silent_fallback: None) -> None:
    torch.manual_seed(0)
    grad = torch.rand(2, 2).to("mpsx").requires_grad_()
    values = [
        torch.randn(3, 3) * 1e5, torch.arange(5), torch.tensor([1 + 2j]).conj(), torch.ones(3000), torch.tensor(3.5),
        torch.tensor([1.0, float("nan"), float("inf")]), torch.ones(2, dtype=torch.bfloat16), torch.empty(0, 4),
        torch.rand(3, dtype=torch.float64), torch.eye(3).to_sparse(), torch.randn(4, 4)[::2].t(),
    ]  # fmt: skip
    expected = [repr(value) for value in values]
    on_mpsx = [value.to("mpsx") for value in values]
    with mpsx.fallback.using_mode("error"), mpsx.profiler.launch_log() as log:
        printed = [repr(value) for value in on_mpsx]
        assert "requires_grad=True" in repr(grad)
    assert log == []
    for want, got in zip(expected, printed, strict=True):
        assert "".join(got.split()).replace(",device='mpsx:0'", "") == "".join(want.split())


def test_mixed_devices_raise() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="mpsx") + torch.ones(2)
    with pytest.raises(RuntimeError, match="same device"):
        torch.mm(torch.ones(2, 2, device="mpsx"), torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="same device"):
        torch.logaddexp(torch.ones(2), torch.ones(2, device="mpsx"))


def test_cpu_scalars_and_indices_are_accepted() -> None:
    on_mpsx = torch.arange(4.0, device="mpsx")
    assert (on_mpsx + torch.tensor(1.0)).tolist() == [1, 2, 3, 4]
    assert on_mpsx[torch.tensor([0, 3])].tolist() == [0, 3]
    on_mpsx[torch.tensor([1])] = torch.tensor(9.0)
    assert on_mpsx.tolist() == [0, 9, 2, 3]


def test_threads_share_the_device() -> None:
    weight = torch.randn(16, 16, device="mpsx", requires_grad=True)
    expected = torch.autograd.grad((weight @ weight).sum(), weight)[0].cpu()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                grad = torch.autograd.grad((weight @ weight).sum(), weight)[0]
                torch.testing.assert_close(grad.cpu(), expected)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_device_module_surface() -> None:
    assert torch.mpsx.is_available()
    assert torch.mpsx.device_count() == 1
    assert torch.mpsx.current_device() == 0
    assert torch.mpsx.get_device_name()
    assert torch.mpsx.get_device_properties().total_memory > 1 << 20
    assert torch.mpsx.is_bf16_supported()
    torch.mpsx.synchronize()
    with torch.mpsx.device(0), torch.mpsx.device_of(torch.ones(1, device="mpsx")):
        pass
    with pytest.raises(ValueError, match="index 0"):
        torch.mpsx.set_device(3)
    assert torch.accelerator.current_accelerator().type == "mpsx"
    assert torch.accelerator.device_count() == 1
    assert torch.get_device_module("mpsx") is torch.mpsx


def run_python(source: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", source], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


def test_autoload() -> None:
    assert run_python("import torch; torch.empty(1, device='mpsx')").returncode == 0
    off = run_python("import torch; torch.empty(1, device='mpsx')", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert off.returncode != 0
    by_name = "import mpsx, torch; torch.empty(1, device='mpsx')"
    assert run_python(by_name).returncode == 0
    assert run_python(by_name, TORCH_DEVICE_BACKEND_AUTOLOAD="0").returncode == 0


WRONG_TORCH = """
import sys, types
build = types.ModuleType("mpsx._build_info")
build.TORCH_VERSION, build.VERSION = "2.1.0", "9.9"
sys.modules["mpsx._build_info"] = build
import torch
print(torch.ones(2).sum().item())
import mpsx
"""


def test_mismatched_torch_version_gives_advice() -> None:
    explicit = run_python(WRONG_TORCH, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert explicit.returncode != 0
    assert "was built for torch 2.1" in explicit.stderr
    assert "pip install" in explicit.stderr
    automatic = run_python(WRONG_TORCH.replace("import mpsx\n", ""))
    assert automatic.returncode == 0, automatic.stderr
    assert automatic.stdout.strip() == "2.0"
    assert "The device mpsx is not available" in automatic.stderr


@pytest.mark.sweep  # measures time, so it needs an idle machine
def test_import_is_cheap() -> None:
    program = "import time, torch; t = time.process_time(); import mpsx; print(time.process_time() - t)"
    seconds = min(
        float(run_python(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout) for _ in range(2)
    )
    assert seconds < 0.06
