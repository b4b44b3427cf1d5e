"""Compiled graphs apply activations in the epilogues of GEMMs, on drivers with SIMD groups."""

from __future__ import annotations

import json

from processes import run_compiled

SCRIPT = """
import json
from torch.nn import functional as F
import mpsx

mpsx.fallback.set_mode("error")
torch.manual_seed(0)

def launches(function, *inputs):
    with mpsx.profiler.launch_log() as log:
        result = function(*inputs)
    return result, [name.removeprefix("kernel:").removesuffix("_f32").removesuffix("_bf16") for name in log]

def of(*shape, dtype=torch.float32):
    return torch.randn(shape).to("mpsx", dtype)

def report(name, function, *inputs, **options):
    torch._dynamo.reset()
    with torch.no_grad():
        eager = function(*inputs)
        compiled = torch.compile(function, fullgraph=True, **options)
        compiled(*inputs)
        got, log = launches(compiled, *inputs)
    print(json.dumps([name, log, (got.float() - eager.float()).abs().max().item()]))
"""
CASES = """
w, b, v = of(40, 32), of(40), of(24, 40)
x, x3 = of(70, 32), of(3, 5, 32)
gelu_tanh = lambda x: F.gelu(x, approximate="tanh")
for name, f in {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": gelu_tanh, "silu": F.silu}.items():
    report(name, lambda x, w, b, v: F.linear(f(F.linear(x, w, b)), v), x, w, b, v)
    report(f"{name} in 3 dimensions", lambda x, w, v: f(F.linear(x, w)) @ v.t(), x3, w, v)
report("dynamic sizes", lambda x, w, b: F.gelu(F.linear(x, w, b)), x, w, b, dynamic=True)
report("a view", lambda x, w, v: F.relu(x @ w.t()).view(-1, 40) @ v.t(), x, w, v)
report("matrix added", lambda x, w, c: F.relu(x @ w.t() + c), x, w, of(70, 40))
half = [t.bfloat16() for t in (x, w, b)]
report("bfloat16", lambda x, w, b: F.gelu(F.linear(x, w, b)), *half)
"""
OTHERS = """
w, b = of(40, 32), of(40)
x = of(70, 32)
report("used by an addition", lambda x, w, b: F.gelu(F.linear(x, w, b)) + 1, x, w, b)
report("used by a reduction", lambda x, w, b: F.gelu(F.linear(x, w, b)).sum(-1), x, w, b)
report("scaled", lambda x, w, b: F.relu(torch.addmm(b, x, w.t(), alpha=2)), x, w, b)
report("used twice", lambda x, w, b: torch.cat([(y := F.linear(x, w, b)), F.gelu(y)]), x, w, b)
report("integers", lambda x, w: F.relu(x @ w.t()), x.int(), w.int())
report("another activation", lambda x, w, b: torch.tanh(F.linear(x, w, b)), x, w, b)
half = [t.bfloat16() for t in (x, w, b)]
report("rounded", lambda x, w, b: F.gelu(F.linear(x, w, b)), *half, options={"emulate_precision_casts": True})
"""


def run(code: str, driver: str = "simt") -> dict[str, tuple[list[str], float]]:
    """Return the launches and the largest difference from eager mode of each case."""
    done = run_compiled(SCRIPT + code, MPSX_DRIVER=driver)
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: (log, error) for name, log, error in map(json.loads, done.stdout.splitlines())}


def test_activations_are_fused(simt_library: object) -> None:
    found = run(CASES)
    assert len(found) == 12
    for name, (log, error) in found.items():
        gemms = [kernel for kernel in log if kernel.startswith("matmul")]
        assert log == gemms and len(log) == 1 + (name.split()[0] in ("relu", "gelu", "gelu_tanh", "silu", "a")), name
        # In float32, only silu may be rounded differently. In bfloat16, the output of the layer is not rounded.
        assert error <= (0.1 if name == "bfloat16" else 1e-5 if name.startswith("silu") else 0.0), name


def test_other_calls_are_not_fused(simt_library: object) -> None:
    found = run(OTHERS)
    assert len(found) == 7
    for name, (log, error) in found.items():
        assert any(kernel.startswith("generated_kernel") for kernel in log), name
        assert error == 0 or (name == "used by a reduction" and error < 1e-4), name


def test_host_calls_its_library() -> None:
    """On the host driver, a CPU library multiplies, and a generated kernel applies the activation."""
    ((log, _),) = run("report('host', lambda x, w: F.gelu(x @ w), of(70, 32), of(32, 40))", "host").values()
    assert any(kernel.startswith("generated_kernel") for kernel in log)


TRAINING = """
model = torch.nn.Sequential(torch.nn.Linear(32, 40), torch.nn.ReLU(), torch.nn.Linear(40, 24), torch.nn.GELU(),
                            torch.nn.Linear(24, 1)).to("mpsx")
x, compiled, gradients = of(70, 32), torch.compile(model, fullgraph=True), []
for function in (model, compiled):
    model.zero_grad()
    function(x).square().sum().backward()
    gradients.append([p.grad.cpu() for p in model.parameters()])
torch.testing.assert_close(gradients[1], gradients[0])
_, log = launches(compiled, x)
print(json.dumps(["training", log, 0]))
"""


def test_training(simt_library: object) -> None:
    """The backward pass needs the input of GELU, so only ReLU is fused."""
    ((log, _),) = run(TRAINING).values()
    assert len([kernel for kernel in log if kernel.startswith("generated_kernel")]) == 1


def test_preloads_the_fused_kernel(simt_library: object) -> None:
    """The kernel of a fused activation is loaded while Inductor lowers the graph."""
    found = run("""if True:
        from mpsx.inductor import preloading
        calls = []
        real = preloading.start
        preloading.start = lambda op, *args: (calls.append(str(op)), real(op, *args))
        torch._inductor.config.force_disable_caches = True  # otherwise, Inductor may not lower the graph
        report("preloaded", lambda x, w: F.gelu(x @ w), of(70, 32), of(32, 40))
        assert calls == ["mpsx.addmm_activation.default"], calls
    """)  # fmt: skip
    assert list(found) == ["preloaded"]
