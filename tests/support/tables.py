"""Read the operator tables (metal/**/*.def), so that tests cover new entries automatically."""

from __future__ import annotations

import re
from pathlib import Path

import torch

METAL = Path(__file__).resolve().parents[2] / "metal"

FLOAT = (torch.float32, torch.float16, torch.bfloat16)
INT = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DTYPES = {
    "FLOAT": FLOAT,
    "INT": INT,
    "REAL": FLOAT + INT,
    "BITS": (*INT, torch.bool),
    "ALL": (*FLOAT, *INT, torch.bool),
}
TAGS = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}


def rows(table: str, macro: str, fields: int) -> list[list[str]]:
    """Return the first `fields` arguments of every `macro(…)` line in metal/<table>."""
    text = (METAL / table).read_text()
    found = re.findall(rf"^{macro}\((.*)\)$", text, re.MULTILINE)
    return [[part.strip() for part in line.split(",")[:fields]] for line in found]
