"""Helpers for the corpus cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

DEVICE = "mpsx"


def device(array: np.ndarray) -> torch.Tensor:
    """Copy an array to the device. Structs are copied as bytes."""
    array = np.ascontiguousarray(array)
    if array.dtype.fields or array.dtype.kind == "V":
        array = array.view(np.uint8)
    return torch.from_numpy(array.copy()).to(DEVICE)


def structure(layout: str, *values: float) -> np.ndarray:
    """Pack values into a struct. `layout` lists a numpy type for each value, and x4 for four bytes of padding."""
    out, left = b"", list(values)
    for word in layout.split():
        out += bytes(int(word[1:])) if word[0] == "x" else np.array(left.pop(0)).astype(word).tobytes()
    assert not left, "more values than the struct has members"
    return np.frombuffer(out, np.uint8).copy()


class Run:
    """Calls the kernels of one library and compares their results."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.rng = np.random.default_rng(0)

    def __call__(self, kernel: Any, *arguments: Any, outputs: list[int], **options: Any) -> list[np.ndarray]:
        """Run a kernel on copies of the arrays. Return the arguments whose indices are in `outputs`."""
        sent = [device(a) if isinstance(a, np.ndarray) else a for a in arguments]
        kernel(*sent, **options)
        return [sent[i].cpu().numpy().view(arguments[i].dtype).reshape(arguments[i].shape) for i in outputs]

    @staticmethod
    def close(got: np.ndarray, want: np.ndarray, rtol: float = 1e-5, atol: float = 1e-6) -> None:
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=rtol, atol=atol)
