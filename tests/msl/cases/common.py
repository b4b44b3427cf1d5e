"""Shared by the cases of the corpus."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

DEVICE = "mpsx"


def device(array: np.ndarray) -> torch.Tensor:
    """The bytes of an array on the device; types that torch lacks go as integers of their size."""
    array = np.ascontiguousarray(array)
    if array.dtype.fields or array.dtype.kind == "V":
        array = array.view(np.uint8)
    return torch.from_numpy(array.copy()).to(DEVICE)


def structure(layout: str, *values: float) -> np.ndarray:
    """A struct's bytes: words of a type of numpy each take a value, x4 is four bytes of padding."""
    out, left = b"", list(values)
    for word in layout.split():
        out += bytes(int(word[1:])) if word[0] == "x" else np.array(left.pop(0)).astype(word).tobytes()
    assert not left, "more values than the struct has members"
    return np.frombuffer(out, np.uint8).copy()


class Run:
    """Calls kernels of one library and compares what they leave."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.rng = np.random.default_rng(0)

    def __call__(self, kernel: Any, *arguments: Any, outputs: list[int], **options: Any) -> list[np.ndarray]:
        """Runs `kernel`; arrays are copied to the device. Returns the arguments of the indices `outputs`."""
        sent = [device(a) if isinstance(a, np.ndarray) else a for a in arguments]
        kernel(*sent, **options)
        return [sent[i].cpu().numpy().view(arguments[i].dtype).reshape(arguments[i].shape) for i in outputs]

    @staticmethod
    def close(got: np.ndarray, want: np.ndarray, rtol: float = 1e-5, atol: float = 1e-6) -> None:
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=rtol, atol=atol)
