"""Train a classifier of handwritten digits with Lightning, which selects mpsx automatically."""

from __future__ import annotations

from collections.abc import Sequence

import lightning
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from .digits import digits
from .options import parse


class Classifier(lightning.LightningModule):
    """A small convolutional network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(1, width, 3, padding=1), torch.nn.BatchNorm2d(width), torch.nn.SiLU(),
            torch.nn.Conv2d(width, 2 * width, 3, 2, 1), torch.nn.BatchNorm2d(2 * width), torch.nn.SiLU(),
            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(2 * width, 10),
        )  # fmt: skip
        self.losses: list[float] = []

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        """Return the loss of a batch."""
        images, labels = batch
        loss = F.cross_entropy(self.net(images), labels)
        self.losses.append(loss.item())
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW."""
        return torch.optim.AdamW(self.parameters(), 1e-2)


def main(argv: Sequence[str] | None = None) -> tuple[float, float]:
    """Return the first and the last loss."""
    options = parse(__doc__, argv)
    model = Classifier(64 if options.real else 8)
    data = DataLoader(TensorDataset(*digits(32 if options.real else 8)), 64, shuffle=True)
    trainer = lightning.Trainer(
        max_steps=options.steps or (1000 if options.real else 56), logger=False, enable_checkpointing=False,
        enable_progress_bar=options.real, enable_model_summary=False,
        accelerator="cpu" if options.device == "cpu" else "auto",
    )  # fmt: skip
    trainer.fit(model, data)
    print(f"trained on {trainer.strategy.root_device}: loss {model.losses[0]:.4f} to {model.losses[-1]:.4f}")
    return model.losses[0], model.losses[-1]


if __name__ == "__main__":
    main()
