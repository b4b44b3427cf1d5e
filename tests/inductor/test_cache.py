"""PyTorch's caches of compiled graphs work for mpsx: a second process lowers nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from processes import run_compiled

from mpsx import _runtime
from mpsx.inductor import choices, codegen

# Compiles a training step and an optimizer step. Prints the cache counters and the exact results.
SCRIPT = """
import torch
import mpsx
from torch._dynamo.utils import counters

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Dropout(0.5),
                            torch.nn.Linear(16, 4)).to("mpsx")
optimizer = torch.optim.AdamW(model.parameters(), 1e-2, capturable=True)
compiled, step = torch.compile(model), torch.compile(optimizer.step)
x, y = torch.randn(6, 8, device="mpsx"), torch.randint(4, (6,), device="mpsx")
losses = []
for _ in range(2):
    with torch.autocast("mpsx", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(compiled(x).float(), y)
    loss.backward()
    step()
    losses.append(loss.item().hex())
print([losses, *(p.tolist() for p in model.parameters())])
print({name: count for group in ("aot_autograd", "inductor") for name, count in counters[group].items()
       if "cache" in name})
"""


def test_second_process_uses_the_caches(tmp_path: Path) -> None:
    """The second process finds every graph in the caches of AOTAutograd and Inductor, and computes the same numbers."""
    variables = {"MPSX_CACHE_DIR": str(tmp_path / "mpsx"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    first, second = (run_compiled(SCRIPT, **variables) for _ in range(2))
    assert first.returncode == 0, first.stderr[-3000:]
    assert second.returncode == 0, second.stderr[-3000:]
    (values, cold), (values_again, warm) = (process.stdout.splitlines()[-2:] for process in (first, second))
    assert values_again == values
    graphs = {"autograd_cache_miss": 2, "autograd_cache_saved": 2, "fxgraph_cache_miss": 3}
    assert ast.literal_eval(cold) == graphs, "forward and backward, and the optimizer's step"
    assert ast.literal_eval(warm) == {"autograd_cache_hit": 2, "fxgraph_cache_hit": 3}


def test_cache_key_depends_on_version_driver_and_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph compiled by another version, or for another driver or GPU, is not found in the caches."""
    info = _runtime.driver()
    find_key = codegen._CacheKey().uuid
    keys = {find_key()}
    assert find_key() in keys
    with monkeypatch.context() as patch:
        patch.setattr(codegen, "VERSION", "another")
        keys.add(find_key())
    with monkeypatch.context() as patch:
        patch.setattr(choices, "processors", lambda: 1000)
        keys.add(find_key())
    with monkeypatch.context() as patch:
        patch.setattr(_runtime, "driver", lambda: {**info, "name": "another"})
        keys.add(find_key())
    assert len(keys) == 4
