"""Data for the demo that needs no download: handwritten digits, and the source code of Python's standard library."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

# Modules of the standard library that exist in every supported Python version.
MODULES = (
    "argparse.py ast.py bisect.py calendar.py collections/__init__.py configparser.py contextlib.py copy.py csv.py "
    "dataclasses.py datetime.py difflib.py enum.py fnmatch.py fractions.py functools.py glob.py gzip.py heapq.py "
    "inspect.py json/decoder.py json/encoder.py logging/__init__.py pathlib.py pprint.py queue.py random.py "
    "shutil.py socket.py statistics.py string.py subprocess.py tempfile.py textwrap.py threading.py tokenize.py "
    "traceback.py typing.py unittest/case.py weakref.py zipfile.py"
).split()

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Digits:
    """Normalized 8 x 8 images and their labels."""

    train: Batch
    test: Batch

    def batches(self, size: int, seed: int) -> Iterator[Batch]:
        """Yield shuffled batches forever. The seed determines their order."""
        images, labels = self.train
        generator = torch.Generator().manual_seed(seed)
        while True:
            order = torch.randperm(len(labels), generator=generator)
            for start in range(0, len(order) - size + 1, size):
                chosen = order[start : start + size]
                yield images[chosen], labels[chosen]


def digits(seed: int) -> Digits:
    """Load scikit-learn's 1,797 digits, and hold out a fifth as the test set."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    found = load_digits()
    split = train_test_split(found.images, found.target, test_size=0.2, random_state=seed, stratify=found.target)
    train_x, test_x, train_y, test_y = (torch.from_numpy(part) for part in split)
    mean, deviation = train_x.mean(), train_x.std()

    def images(raw: torch.Tensor) -> torch.Tensor:
        return ((raw - mean) / deviation).float().unsqueeze(1).contiguous()

    return Digits((images(train_x), train_y.long()), (images(test_x), test_y.long()))


@dataclass(frozen=True)
class Text:
    """A text encoded as indices into its alphabet."""

    alphabet: str
    train: torch.Tensor
    test: torch.Tensor

    def encode(self, text: str) -> torch.Tensor:
        """Convert characters to indices."""
        return torch.tensor([self.alphabet.index(character) for character in text])

    def decode(self, indices: torch.Tensor) -> str:
        """Convert indices to characters."""
        return "".join(self.alphabet[index] for index in indices.tolist())

    def batches(self, size: int, length: int, seed: int) -> Iterator[Batch]:
        """Yield random windows of the text forever. The targets are the inputs shifted by one character."""
        generator = torch.Generator().manual_seed(seed)
        while True:
            starts = torch.randint(len(self.train) - length, (size,), generator=generator)
            yield self._windows(self.train, starts, length)

    def test_batch(self, size: int, length: int) -> Batch:
        """Return windows that are spread evenly over the test set."""
        return self._windows(self.test, torch.linspace(0, len(self.test) - length - 1, size).long(), length)

    @staticmethod
    def _windows(text: torch.Tensor, starts: torch.Tensor, length: int) -> Batch:
        index = starts.unsqueeze(1) + torch.arange(length + 1)
        windows = text[index]
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def standard_library() -> Text:
    """Load the source code of MODULES, and hold out the last tenth as the test set."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = [folder / name for name in MODULES if (folder / name).is_file()]
    if len(files) < len(MODULES) // 2:
        raise FileNotFoundError(
            f"demo: expected the source files of Python's library in {folder}, found {len(files)} of {len(MODULES)}"
        )
    text = "\n".join(file.read_text("utf-8") for file in files).encode("ascii", "replace").decode()
    alphabet = "".join(sorted(set(text)))
    lookup = torch.zeros(128, dtype=torch.long)
    lookup[torch.tensor([ord(character) for character in alphabet])] = torch.arange(len(alphabet))
    indices = lookup[torch.frombuffer(bytearray(text, "ascii"), dtype=torch.uint8).long()]
    cut = len(indices) * 9 // 10
    return Text(alphabet, indices[:cut], indices[cut:])
