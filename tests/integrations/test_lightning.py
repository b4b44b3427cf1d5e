"""Lightning's unmodified Trainer and Fabric."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mpsx

lightning = pytest.importorskip("lightning", reason="lightning is not installed")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = pytest.mark.filterwarnings("ignore")


class Model(lightning.LightningModule):
    """A classifier with dropout that records its losses and the device and dtype of its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2))
        self.losses: list[float] = []
        self.seen: set[tuple[str, torch.dtype]] = set()

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        x, y = batch
        out = self.net(x)
        self.seen.add((out.device.type, out.dtype))
        loss = nn.functional.cross_entropy(out, y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-2)


def data() -> torch.utils.data.DataLoader:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 8, generator=generator)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long()), batch_size=8)


def fit(path: Path, **options: Any) -> Model:
    torch.manual_seed(0)
    model = Model()
    settings = {"max_epochs": 2, "logger": False, "enable_progress_bar": False, "enable_model_summary": False,
                "enable_checkpointing": False, "default_root_dir": path} | options  # fmt: skip
    lightning.Trainer(**settings).fit(model, data())
    return model


@pytest.mark.parametrize("accelerator", [None, "auto", "gpu", "mpsx"])
def test_accelerator(tmp_path: Path, accelerator: str | None) -> None:
    model = fit(tmp_path, **({} if accelerator is None else {"accelerator": accelerator}))
    assert model.seen == {("mpsx", torch.float32)}
    assert model.losses[-1] < model.losses[0] * 1.2


def test_cpu_on_request(tmp_path: Path) -> None:
    assert fit(tmp_path, accelerator="cpu").seen == {("cpu", torch.float32)}


class LoggingModel(Model):
    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss, prog_bar=True)
        self.log_dict({"twice": 2 * loss, "index": float(index)})
        return loss


def test_compiled_module_that_logs(tmp_path: Path) -> None:
    torch._dynamo.reset()
    found = []
    for prepare in (lambda model: model, torch.compile):
        torch.manual_seed(0)
        model = LoggingModel()
        model.net[2].p = 0.0
        trainer = lightning.Trainer(max_epochs=2, logger=False, enable_progress_bar=False, enable_model_summary=False,
                                    enable_checkpointing=False, default_root_dir=tmp_path)  # fmt: skip
        trainer.fit(prepare(model), data())
        found.append({name: value.item() for name, value in trainer.callback_metrics.items()})
    assert found[0].keys() == {"loss", "twice", "index"}
    assert found[1] == pytest.approx(found[0], rel=1e-5)


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed", "bf16-true"])
def test_precision(tmp_path: Path, precision: str) -> None:
    model = fit(tmp_path, precision=precision)
    assert model.seen == {("mpsx", torch.float16 if precision.startswith("16") else torch.bfloat16)}


def test_as_mps(tmp_path: Path) -> None:
    with mpsx.as_mps():
        assert fit(tmp_path, accelerator="mps").seen == {("mps", torch.float32)}
        assert fit(tmp_path, accelerator="mps", precision="bf16-mixed").seen == {("mps", torch.bfloat16)}


def test_checkpoint(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Model()
    trainer = lightning.Trainer(max_epochs=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
                                enable_checkpointing=False)  # fmt: skip
    trainer.fit(model, data())
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    resumed = Model()
    again = lightning.Trainer(max_epochs=2, logger=False, enable_progress_bar=False, enable_model_summary=False,
                              enable_checkpointing=False)  # fmt: skip
    again.fit(resumed, data(), ckpt_path=tmp_path / "one.ckpt")
    assert again.current_epoch == 2 and len(resumed.losses) == 4
    assert {device for device, _ in resumed.seen} == {"mpsx"}


def test_checkpoint_keeps_the_device(tmp_path: Path) -> None:
    fit(tmp_path, enable_checkpointing=True, callbacks=[lightning.pytorch.callbacks.ModelCheckpoint(tmp_path)])
    path = next(tmp_path.glob("*.ckpt"))
    assert Model.load_from_checkpoint(path).device.type == "mpsx"
    assert Model.load_from_checkpoint(path, map_location="cpu").device.type == "cpu"


def test_device_statistics(tmp_path: Path) -> None:
    seen = {}

    class Logger(lightning.pytorch.loggers.CSVLogger):
        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            seen.update(metrics)

    fit(tmp_path, logger=Logger(tmp_path), callbacks=[lightning.pytorch.callbacks.DeviceStatsMonitor()],
        log_every_n_steps=1)  # fmt: skip
    assert any("allocated_bytes" in name for name in seen)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_fabric(precision: str) -> None:
    fabric = lightning.Fabric(precision=precision)
    assert fabric.device.type == "mpsx"
    model, optimizer = fabric.setup(net := nn.Linear(8, 2), torch.optim.SGD(net.parameters(), 0.1))
    types = set()
    net.register_forward_hook(lambda module, args, out: types.add(out.dtype))
    for x, y in fabric.setup_dataloaders(data()):
        optimizer.zero_grad()
        fabric.backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
    assert types == {{"32-true": torch.float32, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}[precision]}


def test_number_of_devices() -> None:
    with pytest.raises(ValueError, match="mpsx: expected devices to be a number"):
        lightning.Trainer(accelerator="mpsx", devices=[1])
    assert lightning.Trainer(accelerator="mpsx", devices="auto", logger=False).num_devices == 1


def test_batch_size_finder(tmp_path: Path) -> None:
    class Data(lightning.LightningDataModule):
        batch_size = 4

        def train_dataloader(self) -> torch.utils.data.DataLoader:
            return torch.utils.data.DataLoader(data().dataset, batch_size=self.batch_size)

        val_dataloader = train_dataloader

    class Large(Model):
        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            if len(batch[0]) > 8:
                torch.empty(1 << 50, device="mpsx")
            return super().training_step(batch, index)

    trainer = lightning.Trainer(max_epochs=1, logger=False, enable_progress_bar=False, default_root_dir=tmp_path)
    tuner, found = lightning.pytorch.tuner.tuning.Tuner(trainer), Data()
    tuner.scale_batch_size(Large(), datamodule=found, steps_per_trial=1)
    assert found.batch_size == 8


@pytest.mark.skipif(torch.__version__ < "2.13", reason="before torch 2.13, PrivateUse1 devices have no track")
def test_profiler(tmp_path: Path) -> None:
    profiler = lightning.pytorch.profilers.PyTorchProfiler(dirpath=tmp_path, filename="times")
    fit(tmp_path, profiler=profiler)
    kinds = {event.device_type for event in profiler.function_events}
    assert torch.autograd.DeviceType.PrivateUse1 in kinds


TWO = """
import torch, lightning, sys
from torch import nn
class Model(lightning.LightningModule):
    def __init__(self): super().__init__(); self.net = nn.Linear(8, 2)
    def training_step(self, batch, index): return nn.functional.cross_entropy(self.net(batch[0]), batch[1])
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)
    # on_fit_end would be too late: by then, Lightning has moved the model to the CPU.
    def on_train_end(self):
        rows = self.all_gather(self.net.weight.detach())
        print("device", rows[0].device.type, torch.equal(rows[0].cpu(), rows[1].cpu()), "\\n")
if __name__ == "__main__":
    x = torch.randn(32, 8)
    data = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
    lightning.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, devices=2,
        accelerator="gpu", strategy=sys.argv[1]).fit(Model(), torch.utils.data.DataLoader(data, batch_size=8))
"""
FABRIC = """
import lightning, torch
fabric = lightning.Fabric()
model = fabric.setup_module(torch.nn.Linear(8, 2))
optimizer = fabric.setup_optimizers(torch.optim.SGD(model.parameters(), 0.1))
fabric.backward(model(torch.randn(4, 8, device=fabric.device)).sum())
optimizer.step()
rows = fabric.all_gather(torch.cat([p.detach().flatten() for p in model.parameters()]))
print("device", fabric.device.type, torch.equal(rows[0].cpu(), rows[1].cpu()), "\\n")
"""


def two_processes(*arguments: str) -> None:
    run = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("device") == run.stdout.count("mpsx") == run.stdout.count("True") == 2, run.stdout


def test_two_processes(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO)
    two_processes(str(tmp_path / "two.py"), "ddp")


@pytest.mark.sweep
@pytest.mark.parametrize("strategy", ["ddp_spawn", "ddp_find_unused_parameters_true"])
def test_more_strategies(tmp_path: Path, strategy: str) -> None:
    (tmp_path / "two.py").write_text(TWO)
    two_processes(str(tmp_path / "two.py"), strategy)


@pytest.mark.sweep
def test_fsdp(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO.replace("rows =", "return print('device', self.device.type, True, '\\n')\n#"))
    two_processes(str(tmp_path / "two.py"), "fsdp")


@pytest.mark.sweep
@pytest.mark.parametrize("accelerator", ["auto", "gpu", "mpsx"])
def test_command_line(tmp_path: Path, accelerator: str) -> None:
    pytest.importorskip("click", reason="Fabric's command line needs click")
    (tmp_path / "two.py").write_text(FABRIC)
    two_processes("-c", "from lightning.fabric.cli import _main; _main()", "run", f"--accelerator={accelerator}",
                  "--devices=2", "--strategy=ddp", str(tmp_path / "two.py"))  # fmt: skip


def test_random_state() -> None:
    from lightning.pytorch.utilities.seed import isolate_rng

    torch.mpsx.manual_seed(1)
    with isolate_rng():
        torch.rand(3, device="mpsx")
    inside = torch.rand(3, device="mpsx")
    torch.mpsx.manual_seed(1)
    assert torch.equal(torch.rand(3, device="mpsx"), inside)
