"""torch.compile uses every operator in the tables of metal/elementwise, and every Inductor operation has an
implementation."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._inductor import decomposition
from torch._inductor.ops_handler import OP_NAMES
from torch.nn import functional as F

from mpsx.inductor import decompositions, lowerings, overrides, signatures, tables

# Operations that Inductor's kernel class or scheduler implements, or that it builds from other operations.
STRUCTURAL = {
    "ceil_to_int", "check_bounds", "device_assert_async", "floor_to_int", "identity", "index_expr",
    "indirect_indexing", "load", "masked", "output", "placeholder", "rand", "randint64", "randn", "reduction",
    "round_to_int", "store", "store_reduction", "trunc_to_int", "value_expr",
}  # fmt: skip
# Operations that Inductor never emits for this device, with reasons.
UNUSED_OPERATIONS = {
    "bucketize": "BackendFeature.BUCKETIZE",
    "dot": "only Triton has matmuls in pointwise kernels",
    "fmaximum": "only Triton's two-pass softmax reduces with fmax",
    "inline_asm_elementwise": "PTX",
    "load_seed": "the base class implements it",
    "partial_accumulate": "mixed-order reductions of Triton",
    "rand_eager": "reproduces CUDA's random numbers",
    "scan": "BackendFeature.SCAN",
    "sort": "BackendFeature.SORT",
}
# Table rows that Inductor does not use, because composing other rows gives the same result.
COMPOSED = {
    "clamp": "maximum and minimum",
    "clamp_numbers": "maximum and minimum",
    "glu": "sigmoid and mul",
    "glu_gate_backward": "decompositions.py",
    "mish_backward": "decompositions.py",
    "silu_backward": "decompositions.py",
}


def strings(module: object) -> set[str]:
    tree = ast.parse(inspect.getsource(module))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_row_is_reached() -> None:
    generated = {row.name for row in overrides.DEFINED.values()}
    tabular = {op._schema.name.partition("::")[2] for op in lowerings.signatures()}
    tabular |= {name.removeprefix("_") for name in tabular if name.startswith("_foreach")}
    used = generated | tabular | strings(signatures) | {"gelu_none", "gelu_tanh"}
    used |= {f"{name}_backward" for name in ("gelu_none", "gelu_tanh")} | {"frexp_mantissa", "frexp_exponent"}
    assert set(tables.rows()) - used - set(COMPOSED) == set()
    assert set(COMPOSED) <= set(tables.rows())


def test_every_row_of_the_tables_is_parsed() -> None:
    for table in ("elementwise/unary", "elementwise/binary", "elementwise/compare", "elementwise/activation",
                  "elementwise/special", "optim/foreach"):  # fmt: skip
        text = (tables.SOURCES / f"{table}.def").read_text()
        names = re.findall(r"^MPSX_\w+\((\w+)", text, re.M)
        assert len(names) > 5
        assert {"foreach_" * (table == "optim/foreach") + name for name in names} <= set(tables.rows())


def test_a_new_row_is_lowered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Add a table row for an operator that has none. The operator must get a signature and generated code."""
    folder = tmp_path / "elementwise"
    folder.mkdir()
    for path in (tables.SOURCES / "elementwise").glob("*.def"):
        text = path.read_text()
        folder.joinpath(path.name).write_text(text + "MPSX_UNARY(deg2rad, FLOAT, SAME, x * (3.0f / 180.0f))\n" *
                                              (path.name == "unary.def"))  # fmt: skip
    shutil.copytree(tables.SOURCES / "optim", tmp_path / "optim")
    monkeypatch.setattr(tables, "SOURCES", tmp_path)
    tables.rows.cache_clear()
    lowerings.signatures.cache_clear()
    try:
        signature = lowerings.signatures()[torch.ops.aten.deg2rad.default]
        assert signature("x") == ("deg2rad", ("x",), ())
        assert "x * (3.0f / 180.0f)" in tables.source([("deg2rad", "float", "float")])
    finally:
        tables.rows.cache_clear()
        lowerings.signatures.cache_clear()


def test_every_operation_has_code() -> None:
    defined = set(overrides.DEFINED) | set(vars(overrides.Overrides))
    assert OP_NAMES - defined - STRUCTURAL - set(UNUSED_OPERATIONS) == set()


def test_decompositions_of_other_devices_are_unchanged() -> None:
    table = decomposition.select_decomp_table()
    x = torch.randn(3)
    torch.testing.assert_close(table[torch.ops.aten.softplus.default](x), F.softplus(x))
    assert table[torch.ops.aten.softplus.default](x.to("mpsx")) is NotImplemented
    assert set(decompositions.DECOMPOSITIONS) <= set(table)


def run_child(code: str) -> str:
    """Run code in a new process and return its output."""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[1],
                           env=os.environ | {"MPSX_FALLBACK": "silent"}, check=False)  # fmt: skip
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout


FIRST_GRAPH = """
import torch
x = torch.tensor([-0.1, 1e-8, -17.0], device="mpsx")
f = lambda x: (torch.nn.functional.softshrink(x), torch.nn.functional.softplus(x))
for found, expected in zip(torch.compile(f)(x), f(x)):
    assert torch.equal(found.cpu().view(torch.int32), expected.cpu().view(torch.int32)), (found, expected)
"""


def test_first_graph_of_a_process_uses_the_rows() -> None:
    """Inductor imports mpsx.inductor during compilation. It must not decompose the first graph before this import."""
    run_child(FIRST_GRAPH)
