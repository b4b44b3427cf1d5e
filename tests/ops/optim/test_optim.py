"""Compare every optimizer in torch.optim with the CPU, using each of its implementations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tables import FLOAT

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

STEPS = 20


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one CPU thread. PyTorch's fused steps parallelize tensors of any size, which makes small tensors slow."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


SHAPES = [(3, 4), (1,), (), (100, 90), (5,), (2, 3, 4, 5), (17,), (8192,), (9000,)]


def parameters(device: str, dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype).to(device)) for shape in SHAPES]


def train(
    optimizer: type[torch.optim.Optimizer],
    device: str,
    dtype: torch.dtype = torch.float32,
    stored: torch.dtype | None = None,
    **options: object,
) -> tuple[list[torch.Tensor], torch.optim.Optimizer]:
    """Return the parameters after STEPS steps with fixed gradients. Before each step, all values are rounded to the
    dtype `stored`."""
    params = parameters(device, dtype)
    optim = optimizer(params, **options)
    generator = torch.Generator().manual_seed(2)
    stored = stored or dtype
    for _ in range(STEPS):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(stored).to(dtype).to(device)
            p.data = p.data.to(stored).to(dtype)
            for name, value in optim.state[p].items():
                if isinstance(value, torch.Tensor) and name != "step":
                    optim.state[p][name] = value.to(stored).to(dtype)
        optim.step()
    return [p.detach().cpu() for p in params], optim


OPTIMIZERS = [
    (torch.optim.AdamW, {"lr": 1e-2}),
    (torch.optim.AdamW, {"lr": 1e-2, "amsgrad": True, "weight_decay": 0.3, "betas": (0.8, 0.95)}),
    (torch.optim.AdamW, {"lr": 1e-2, "maximize": True, "eps": 1e-3}),
    (torch.optim.Adam, {"lr": 1e-2}),
    (torch.optim.Adam, {"lr": 1e-2, "amsgrad": True, "weight_decay": 0.1}),
    (torch.optim.Adam, {"lr": 1e-2, "maximize": True, "weight_decay": 0.1}),
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (torch.optim.RMSprop, {"lr": 1e-2}),
    (torch.optim.RMSprop, {"lr": 1e-2, "centered": True, "momentum": 0.5, "weight_decay": 0.1}),
    (torch.optim.Adagrad, {"lr": 1e-2, "weight_decay": 0.1}),
    (torch.optim.Adadelta, {"lr": 1.0, "weight_decay": 0.1}),
    (torch.optim.Adamax, {"lr": 1e-2}),
    (torch.optim.NAdam, {"lr": 1e-2}),
    (torch.optim.RAdam, {"lr": 1e-2}),
    (torch.optim.ASGD, {"lr": 1e-2}),
    (torch.optim.Rprop, {"lr": 1e-2}),
]
FUSED = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)


@pytest.mark.parametrize("implementation", ["default", "foreach", "fused", "single"])
@pytest.mark.parametrize(("optimizer", "options"), OPTIMIZERS)
def test_against_cpu(optimizer: type[torch.optim.Optimizer], options: dict[str, object], implementation: str) -> None:
    if implementation == "fused" and optimizer not in FUSED:
        implementation = "foreach"  # the class's fastest implementation
    flags = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}, "single": {"foreach": False}}
    silent = optimizer in (torch.optim.ASGD, torch.optim.Rprop) or implementation == "single"
    with mpsx.fallback.using_mode("silent" if silent else "error"):
        got, _ = train(optimizer, "mpsx", **options, **flags[implementation])
    wanted, _ = train(optimizer, "cpu", **options, foreach=False)
    for g, w in zip(got, wanted, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("optimizer", "options"), [row for row in OPTIMIZERS if row[0] in FUSED])
def test_fused_accuracy(optimizer: type[torch.optim.Optimizer], options: dict[str, object]) -> None:
    """The error relative to a float64 step is at most 1.5 times that of PyTorch's fused step."""
    exact, _ = train(optimizer, "cpu", torch.float64, torch.float32, **options)
    ours, _ = train(optimizer, "mpsx", **options, fused=True)
    theirs, _ = train(optimizer, "cpu", **options, fused=True)
    error = max((o - e).abs().max().item() for o, e in zip(ours, exact, strict=True))
    reference = max((t - e).abs().max().item() for t, e in zip(theirs, exact, strict=True))
    assert error <= max(1.5 * reference, 1e-6)


@pytest.mark.parametrize(("optimizer", "options"), [row for row in OPTIMIZERS if row[0] in FUSED])
def test_fused_steps_with_strided_tensors(optimizer: type[torch.optim.Optimizer], options: dict[str, object]) -> None:
    """Parameters have gaps, transposed strides and offsets. Unlike the CPU's fused step, mpsx leaves the gaps
    unchanged."""
    found = []
    for device, fused in (("cpu", False), ("mpsx", True)):
        base = torch.linspace(-1, 1, 240).to(device)
        views = [base[:40].view(4, 10)[:, ::3], base[41:81].view(8, 5).t(), base[100:200].view(10, 10)[2:7, 1:4]]
        params = [torch.nn.Parameter(view) for view in views]
        step = optimizer(params, **options, fused=fused, foreach=False)
        for number in range(3):
            for p in params:
                grad = torch.linspace(-number, 2, 2 * p.numel()).to(device)[::2]
                p.grad = grad.view(p.shape[::-1]).t() if number else grad.view(p.shape)
            step.step()
        found.append(base.cpu())
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("optimizer", "options"), [row for row in OPTIMIZERS if row[0] in FUSED])
def test_fused_in_half(optimizer: type[torch.optim.Optimizer], options: dict[str, object], dtype: torch.dtype) -> None:
    if dtype == torch.float16:  # half must be able to represent eps, which is added to squared gradients
        options = {**options, "eps": 1e-3} if optimizer is not torch.optim.SGD else options
    ours, _ = train(optimizer, "mpsx", dtype, **options, fused=True)
    exact, _ = train(optimizer, "cpu", torch.float64, dtype, **options)
    for o, e in zip(ours, exact, strict=True):
        torch.testing.assert_close(o.double(), e, rtol=torch.finfo(dtype).eps * 4, atol=torch.finfo(dtype).eps * 4)


@pytest.mark.parametrize(("optimizer", "options"), [(torch.optim.AdamW, {}), (torch.optim.Adam, {}),
                                                    (torch.optim.SGD, {"momentum": 0.9})])  # fmt: skip
def test_tensor_learning_rate(optimizer: type[torch.optim.Optimizer], options: dict[str, object]) -> None:
    wanted, _ = train(optimizer, "cpu", lr=0.01, **options, fused=True)
    for device in ("cpu", "mpsx"):
        got, _ = train(optimizer, "mpsx", lr=torch.tensor(0.01).to(device), **options, fused=True)
        for g, w in zip(got, wanted, strict=True):
            torch.testing.assert_close(g, w)


@pytest.mark.parametrize("optimizer", FUSED)
@pytest.mark.parametrize("found", [0.0, 1.0])
def test_grad_scale_and_found_inf(optimizer: type[torch.optim.Optimizer], found: float) -> None:
    def step(device: str) -> list[torch.Tensor]:
        params = parameters(device)
        options = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
        optim = optimizer(params, lr=0.1, fused=True, **options)
        for p in params:
            p.grad = torch.full(p.shape, 8.0).to(device)
        optim.grad_scale = torch.tensor(4.0).to(device)
        optim.found_inf = torch.tensor(found).to(device)
        optim.step()
        state = [value for p in params for value in optim.state[p].values() if isinstance(value, torch.Tensor)]
        # If the first step is skipped, SGD's momentum buffer remains uninitialized.
        skip_state = found == 1.0 and optimizer is torch.optim.SGD
        return [t.detach().cpu() for t in params + [p.grad for p in params] + ([] if skip_state else state)]

    for got, wanted in zip(step("mpsx"), step("cpu"), strict=True):
        torch.testing.assert_close(got, wanted)


def test_launches() -> None:
    """A fused step launches one kernel per five tensors and one kernel per thirty step counters."""
    params = [torch.nn.Parameter(torch.ones(10).to("mpsx")) for _ in range(25)]
    for p in params:
        p.grad = torch.ones(10).to("mpsx")
    optim = torch.optim.AdamW(params, fused=True)
    optim.step()
    with mpsx.profiler.launch_log() as log:
        optim.step()
    assert list(log) == ["kernel:foreach_add_scalar_f32"] + ["kernel:fused_adamw_f32"] * 5
    with mpsx.profiler.launch_log() as log:
        torch.optim.AdamW(params).step()  # on mpsx, the default implementation is foreach
    assert {entry.split(":")[1].split("_")[0] for entry in log} <= {"foreach", "fill"}


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_layouts(optimizer: type[torch.optim.Optimizer]) -> None:
    def step(device: str) -> list[torch.Tensor]:
        weight = torch.nn.Parameter(
            torch.arange(96.0).reshape(2, 4, 3, 4).to(device).to(memory_format=torch.channels_last)
        )
        transposed = torch.nn.Parameter(torch.arange(12.0).reshape(3, 4).to(device).t())
        # On the CPU, PyTorch's fused step ignores differences in layout, so it cannot be the reference.
        optim = optimizer([weight, transposed], lr=0.1, fused=device == "mpsx")
        for _ in range(3):
            grad = torch.ones(2, 4, 3, 4).to(device) * torch.arange(4.0).to(device)
            weight.grad = grad  # the gradient is contiguous, but the weight is not
            transposed.grad = torch.arange(12.0).reshape(4, 3).to(device)
            optim.step()
        return [weight.detach().cpu(), transposed.detach().cpu()]

    for got, wanted in zip(step("mpsx"), step("cpu"), strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("dtype", FLOAT)
def test_state_dict(dtype: torch.dtype) -> None:
    _, optim = train(torch.optim.AdamW, "mpsx", dtype, fused=True, eps=1e-3)
    params = parameters("mpsx", dtype)
    fresh = torch.optim.AdamW(params, fused=True)
    fresh.load_state_dict(optim.state_dict())
    for p in params:
        assert fresh.state[p]["exp_avg"].device.type == "mpsx"
        assert fresh.state[p]["exp_avg"].dtype == dtype
        assert fresh.state[p]["step"].item() == STEPS
        p.grad = torch.ones_like(p)
    fresh.step()
    assert fresh.state[params[0]]["step"].item() == STEPS + 1


def test_bias_correction_at_many_steps() -> None:
    """In float32, 1 - beta^t loses digits for small t, and is 1 for large t."""
    for t in (1.0, 2.0, 10.0, 1000.0, 100_000.0):

        def step(device: str, dtype: torch.dtype, t: float = t) -> torch.Tensor:
            p, grad, avg, square = (torch.full((4,), v, dtype=dtype, device=device) for v in (1.0, 0.5, 0.1, 0.2))
            steps = [torch.tensor(t, device=device)]
            torch._fused_adamw_([p], [grad], [avg], [square], [], steps, lr=0.1, beta1=0.9, beta2=0.999,
                                weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)  # fmt: skip
            return p.cpu()

        torch.testing.assert_close(
            step("mpsx", torch.float32).double(), step("cpu", torch.float64), rtol=2.5e-7, atol=0
        )


def test_errors() -> None:
    one = [torch.ones(2).to("mpsx")]
    with pytest.raises(RuntimeError, match="_fused_sgd_: expected lists of equal length, got 1 and 2"):
        torch._fused_sgd_(one, one * 2, [], weight_decay=0.0, momentum=0.0, lr=0.1, dampening=0.0, nesterov=False,
                          maximize=False, is_first_step=False)  # fmt: skip
