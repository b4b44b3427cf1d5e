"""The eager kernels that a graph calls are loaded while Inductor lowers it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from processes import run_compiled

from mpsx import _runtime
from mpsx.inductor.preloading import Layout, is_known

SCRIPT = """
import mpsx
from mpsx import _runtime
from mpsx.inductor import preloading
from torch.nn import functional as F

preloaded, real_load = [], preloading.load

def load(*args):
    launches = real_load(*args)
    preloaded.append({launch.split()[0] for launch in launches})
    return launches

preloading.load = load
torch.manual_seed(0)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.linear = torch.nn.Embedding(11, 12), torch.nn.Linear(12, 36)
        self.conv, self.out = torch.nn.Conv1d(8, 8, 3), torch.nn.Linear(10, 5, bias=False)

    def forward(self, x):
        x = self.embed(x)
        q, k, v = self.linear(x).view(2, 8, 3, 2, 6).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5).transpose(1, 2).reshape(2, 8, 12)
        x = self.conv(x + torch.bmm(x, x.mT @ x))
        return self.out(x).sort(-1).values.square().sum()

model, x = Model().to("mpsx"), torch.randint(11, (2, 8), device="mpsx")
start, compiled, states = torch.mpsx.get_rng_state(), torch.compile(model), []
for repeat in range(2):
    torch.mpsx.set_rng_state(start)
    model.zero_grad(set_to_none=True)
    _runtime.open_launch_log()
    compiled(x).backward()
    launched = {name.removeprefix("kernel:") for name in _runtime.close_launch_log()}
    if repeat == 0:
        preloading.pool().shutdown()
    states.append(torch.mpsx.get_rng_state())

eager = {name for name in launched if "generated" not in name}
assert eager == set().union(*preloaded), (eager, preloaded)
assert any("attention_backward" in name for name in eager), eager
assert all(len(names) > 0 for names in preloaded), preloaded
assert states[0].equal(states[1]) and not states[0].equal(start)  # preloading draws no random numbers

a = torch.randn(4, 6, device="mpsx")
torch.testing.assert_close(torch.compile(lambda a: a @ a.T, dynamic=True)(a), a @ a.T)  # preloads nothing
"""


def test_training_step(tmp_path: Path) -> None:
    """Exactly the eager kernels that a training step launches are preloaded."""
    done = run_compiled(SCRIPT, MPSX_DRIVER="simt", TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("x", [torch.randn(3, 4, 5).mT[:, 1:], torch.randn(4).expand(3, 4), torch.zeros(0, 2),
                               torch.tensor(1, dtype=torch.int64)])  # fmt: skip
def test_layout(x: torch.Tensor) -> None:
    found = Layout.of(x).tensor()
    assert (found.shape, found.stride(), found.dtype) == (x.shape, x.stride(), x.dtype)
    assert found.storage_offset() == x.storage_offset()


def test_sparse_arguments_are_not_known() -> None:
    assert is_known(torch.ones(2, 2)) and is_known(3) and is_known(None)
    assert not is_known(torch.eye(2).to_sparse())


def test_plan_draws_no_random_numbers() -> None:
    state = torch.mpsx.get_rng_state()
    _runtime.plan(lambda: torch.rand(4, device="mpsx"))
    assert torch.mpsx.get_rng_state().equal(state)


def test_plan_rejects_the_cpu() -> None:
    x = torch.zeros(4, 4, device="mpsx")
    with pytest.raises(RuntimeError, match="a plan of launches cannot include a computation on the CPU"):
        _runtime.plan(lambda: torch.linalg.eigh(x))


def test_plan_reads_zeros() -> None:
    """A number that a kernel would compute must not decide how much memory is allocated."""
    x, found = torch.ones(4, device="mpsx"), []
    launches = _runtime.plan(lambda: found.extend([x.sum().item(), len(x.nonzero()), len(x.unique())]))
    assert launches
    assert found == [0, 0, 0]


def test_plan_uses_no_memory() -> None:
    """A plan of more memory than the device has succeeds."""
    small, sizes, side = torch.ones(1, 1, device="mpsx"), [], 2**20
    before = torch.mpsx.max_memory_allocated()
    launches = _runtime.plan(lambda: sizes.append((small.expand(side, side) + 1).mT.contiguous().shape))
    assert launches
    assert sizes == [(side, side)]
    assert torch.mpsx.max_memory_allocated() == before
