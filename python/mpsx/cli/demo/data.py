"""The demos' data: handwritten digits, and the source text of Python's standard library. Nothing is downloaded."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

# Plain modules that every supported Python has, from different corners of the library.
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
    """8 x 8 images with values around 0, and what they show."""

    train: Batch
    test: Batch

    def batches(self, size: int, seed: int) -> Iterator[Batch]:
        """Shuffled batches without end; the same for the same seed."""
        images, labels = self.train
        generator = torch.Generator().manual_seed(seed)
        while True:
            order = torch.randperm(len(labels), generator=generator)
            for start in range(0, len(order) - size + 1, size):
                chosen = order[start : start + size]
                yield images[chosen], labels[chosen]


def digits(seed: int) -> Digits:
    """The 1,797 digits of scikit-learn, a fifth of them kept for the test."""
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
    """A text as numbers of its characters."""

    alphabet: str
    train: torch.Tensor
    test: torch.Tensor

    def encode(self, text: str) -> torch.Tensor:
        """The characters' numbers."""
        return torch.tensor([self.alphabet.index(character) for character in text])

    def decode(self, numbers: torch.Tensor) -> str:
        """The text again."""
        return "".join(self.alphabet[number] for number in numbers.tolist())

    def batches(self, size: int, length: int, seed: int) -> Iterator[Batch]:
        """Random windows of the text without end, each with the same window moved by one character."""
        generator = torch.Generator().manual_seed(seed)
        while True:
            starts = torch.randint(len(self.train) - length, (size,), generator=generator)
            yield self._windows(self.train, starts, length)

    def test_batch(self, size: int, length: int) -> Batch:
        """Windows spread evenly over the part that is not trained on."""
        return self._windows(self.test, torch.linspace(0, len(self.test) - length - 1, size).long(), length)

    @staticmethod
    def _windows(text: torch.Tensor, starts: torch.Tensor, length: int) -> Batch:
        index = starts.unsqueeze(1) + torch.arange(length + 1)
        windows = text[index]
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def standard_library() -> Text:
    """The source of a fixed list of modules; the last tenth of it for the test."""
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
    numbers = lookup[torch.frombuffer(bytearray(text, "ascii"), dtype=torch.uint8).long()]
    cut = len(numbers) * 9 // 10
    return Text(alphabet, numbers[:cut], numbers[cut:])
