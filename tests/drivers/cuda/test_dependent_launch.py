"""Where kernels for sm_90 wait for the previous kernel (msl/dependent_launch.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsx.msl.dependent_launch import WAIT, place_wait
from mpsx.msl.ptx import pack, unpack

MARK = "mpsx.wait_for_previous_kernel;"
HEAD = ".visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n"


def placed(*lines: str) -> list[str]:
    """Return the body of a kernel with its wait."""
    text = place_wait(HEAD + "".join(f"\t{line}\n" if line[-1] != ":" else f"{line}\n" for line in lines) + "}\n")
    assert text.startswith(HEAD) and MARK not in text
    return [line.strip() for line in text.removeprefix(HEAD).splitlines()[:-1]]


wait = WAIT.strip()


def test_waits_at_the_start_without_a_mark() -> None:
    assert placed("mov.u32 %r1, %tid.x;", "ret;") == [wait, "mov.u32 %r1, %tid.x;", "ret;"]


@pytest.mark.parametrize("preparation", [
    "ld.param.b64 %rd1, [k_param_0];",
    "st.shared.u32 [%r1], 0;",
    "@%p1 ld.local.b32 %r1, [%rd1+4];",
    "mbarrier.init.shared::cta.b64 [%r1], %r2;",
    "atom.acquire.gpu.global.or.b32 %r1, [%rd1], %r2;",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 128;",
    "// ld.global.b32 %r1, [%rd1];",
])  # fmt: skip
def test_waits_after_the_preparation(preparation: str) -> None:
    access = "ld.global.b32 %r1, [%rd1];"
    assert placed(preparation, MARK, access, "ret;") == [preparation, wait, access, wait, "ret;"]


@pytest.mark.parametrize("access", [
    "ld.global.b32 %r1, [%rd1];",
    "ld.b32 %r1, [%rd1];",
    "@!%p1 st.global.v4.b32 [%rd1], {0, 0, 0, 0};",
    "atom.global.or.b32 %r1, [%rd1], 1;",
    "red.global.add.f32 [%rd1], %f1;",
    "cp.async.cg.shared.global [%r1], [%rd1], 16;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
    "prefetch.global.L2 [%rd1];",
    "call.uni f, ();",
    "brx.idx %r1, targets;",
    "mov.u32 %r1, 0; ld.global.b32 %r1, [%rd1];",
    "{ ld.global.b32 %r1, [%rd1]; }",
    ".reg .b32 r; ld.global.b32 r, [%rd1];",
])  # fmt: skip
def test_waits_at_the_start_if_device_memory_may_be_accessed(access: str) -> None:
    assert placed(access, MARK, "ret;") == [wait, access, "ret;"]


def test_follows_branches() -> None:
    """An access before the mark in the text may come after it, and the other way round."""
    skipped = ["@%p1 bra $L2;", MARK, "$L1:", "st.global.b32 [%rd1], 0;", "ret;", "$L2:", MARK, "bra.uni $L1;"]
    assert placed(*skipped) == [line if line != MARK else wait for line in skipped[:4]] + [wait, "ret;", "$L2:", wait,
                                                                                           "bra.uni $L1;"]  # fmt: skip
    missing = [*skipped[:6], "bra.uni $L1;"]
    assert placed(*missing) == [wait, *(line for line in missing if line != MARK)]
    behind = ["bra.uni $L2;", "$L1:", MARK, "ret;", "$L2:", "ld.global.b32 %r1, [%rd1];", "bra.uni $L1;"]
    assert placed(*behind) == [wait, *(line for line in behind if line != MARK)]


def test_follows_loops() -> None:
    lines = ["$L1:", "add.s32 %r1, %r1, 1;", "@%p1 bra $L1;", MARK, "ret;"]
    assert placed(*lines) == [*lines[:3], wait, "ret;"]


def test_does_not_follow_ambiguous_labels() -> None:
    lines = ["{", "@%p1 bra WAIT;", "WAIT:", "}", "WAIT:", MARK, "ret;"]
    assert placed(*lines) == [wait, *(line for line in lines if line != MARK)]


def test_waits_before_every_return() -> None:
    lines = ["@%p1 bra $L1;", MARK, "@%p2 ret;", "$L1:", "ret;"]
    assert placed(*lines) == ["@%p1 bra $L1;", wait, "@%p2 ret;", "$L1:", wait, "ret;"]


def test_waits_at_the_start_if_the_mark_is_in_a_function(tmp_path: Path) -> None:
    function = f".func f()\n{{\n\t{MARK}\n\tret;\n}}\n"
    entry = ".visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n\tcall.uni f, ();\n\tret;\n}\n"
    description = {"kernels": [{"name": "k", "symbol": "k", "buffers": [], "threadgroups": []}]}
    library = tmp_path / "library"
    library.write_bytes(pack([(description, f".version 8.3\n.target sm_90a\n.address_size 64\n{function}{entry}")], ""))
    ((_, text),) = unpack(library)
    assert MARK not in text and text.count(wait) == 1 and f"{{\n\t{wait}\n\tcall.uni" in text
