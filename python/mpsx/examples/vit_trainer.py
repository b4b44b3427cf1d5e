"""Fine-tune a vision transformer on handwritten digits with Hugging Face's Trainer.

The Trainer selects mpsx automatically. The model starts from random weights, because the examples download nothing. To
use a real model, replace `ViTForImageClassification(...)` with `ViTForImageClassification.from_pretrained(...)`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from torch.utils.data import Dataset, Subset
from transformers import EvalPrediction, Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

from .digits import digits
from .options import parse


class Images(Dataset):
    """Images in the format that the Trainer expects."""

    def __init__(self, size: int) -> None:
        images, self.labels = digits(size)
        self.images = images.expand(-1, 3, -1, -1)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, object]:
        return {"pixel_values": self.images[index], "labels": self.labels[index]}


def accuracy(predicted: EvalPrediction) -> dict[str, float]:
    """Return the share of images whose label has the largest logit."""
    return {"accuracy": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


def main(argv: Sequence[str] | None = None) -> tuple[float, float]:
    """Return the first and the last loss."""
    options = parse(__doc__, argv)
    size, patch = (224, 16) if options.real else (16, 4)
    small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
             "initializer_range": 0.2}  # fmt: skip
    config = ViTConfig(image_size=size, patch_size=patch, num_labels=10, **({} if options.real else small))
    model = ViTForImageClassification(config)
    steps = options.steps or (500 if options.real else 180)
    images = Images(size)
    train, test = Subset(images, range(1437)), Subset(images, range(1437, 1797))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=32, report_to=[], disable_tqdm=True,
            learning_rate=3e-4 if options.real else 2e-3, logging_steps=max(1, steps // 10), save_strategy="no",
            seed=options.seed, bf16=options.real, use_cpu=options.device == "cpu",
        )  # fmt: skip
        trainer = Trainer(model, arguments, train_dataset=train, eval_dataset=test, compute_metrics=accuracy)
        print(f"training on {trainer.args.device}")
        trainer.train()
        print(f"accuracy on {len(test)} other images: {trainer.evaluate()['eval_accuracy']:.1%}")
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses[0], losses[-1]


if __name__ == "__main__":
    main()
