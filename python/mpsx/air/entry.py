"""A kernel's entry point, and the table in which drivers look it up (metal_stdlib/kernel_abi.h), as LLVM IR."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from ..msl.attributes import POSITIONS
from ..msl.compiler import INCLUDE
from .ir import AirError
from .kernel import Argument, Kernel
from .lower import Lowered, size_of

UNIT_THREADS, UNIT_SIMT = 0, 2
THREADGROUP_BASE = 31  # args[31 + n] is [[threadgroup(n)]] memory


@functools.cache
def abi_version() -> int:
    """Return MPSX_KERNEL_ABI_VERSION, as defined in the runtime's header."""
    header = (Path(INCLUDE) / "metal_stdlib" / "kernel_abi.h").read_text()
    return int(re.search(r"^#define MPSX_KERNEL_ABI_VERSION (\d+)$", header, re.M)[1])


def runs_as_loop(kernel: Kernel, lowered: Lowered, mode: str) -> bool:
    """Return whether the threads do not depend on their threadgroup, so that a loop can run them."""
    shared = lowered.threadgroup_types or any(a.space == "threadgroup" for a in kernel.arguments)
    return mode == "auto" and kernel.reads_only_grid and not shared and not lowered.synchronizes


def entry_point(kernel: Kernel, lowered: Lowered, mode: str, compiler: str, isa: str) -> str:
    """Return the entry point and table of a library with one kernel, and the attribute groups."""
    loop = runs_as_loop(kernel, lowered, mode)
    lines = [f"call void @{name}()" for name in lowered.initializers]
    values = []
    for i, (argument, (kind, _)) in enumerate(zip(kernel.arguments, lowered.kernel.parameters, strict=True)):
        if argument.position:
            values.append(f"{kind} {_position(lines, argument, kind, i, loop)}")
        else:
            base = THREADGROUP_BASE if argument.space == "threadgroup" else 0
            function = "mpsx_air_optional_argument" if argument.constant else "mpsx_air_argument"
            lines.append(f"%p{i} = call ptr @{function}(ptr %args, i32 {base + argument.index})")
            values.append(f"ptr %p{i}")
    lines += [f"call void @{lowered.kernel.name}({', '.join(values)})", "ret void"]
    head = ("define void @mpsx_air_thread(ptr %args, ptr %launch, i32 %x, i32 %y, i32 %z) #0" if loop else
            "define internal void @mpsx.entry(ptr %args, ptr %launch, ptr %thread) #5")  # fmt: skip
    body = "\n  ".join(lines)
    return (f"{head} {{\n  {body}\n}}\n{_declarations()}{_table(kernel, lowered, loop, compiler, isa)}"
            f"{_attributes(mode, loop)}")  # fmt: skip


def _position(lines: list[str], argument: Argument, kind: str, number: int, loop: bool) -> str:
    """Append the instructions that compute a position. Return the name of the result."""
    vector = kind.startswith("<")
    count, scalar = (int(kind[1 : kind.index(" ")]), kind.split(" x ")[1][:-1]) if vector else (1, kind)
    if scalar not in ("i16", "i32"):
        raise AirError(f"argument '{argument.name}' of type {argument.type} for {argument.position}")
    whole = "poison"
    for d in range(count):
        name = f"%p{number}.{d}"
        if loop and argument.position == "thread_position_in_grid":
            value = ("%x", "%y", "%z")[d]
        elif loop:
            value = "0"
            if POSITIONS[argument.position].field == "threads_per_grid":
                lines.append(f"{name} = call i32 @mpsx_air_grid_size_of(ptr %launch, i32 {d})")
                value = name
        else:
            lines.append(f"{name} = call i32 @mpsx_air_{argument.position}(ptr %launch, ptr %thread, i32 {d})")
            value = name
        if scalar == "i16":
            lines.append(f"{name}.short = trunc i32 {value} to i16")
            value = f"{name}.short"
        if vector:
            lines.append(f"{name}.vector = insertelement {kind} {whole}, {scalar} {value}, i32 {d}")
            whole = f"{name}.vector"
        else:
            whole = value
    return whole


def _declarations() -> str:
    positions = "".join(f"declare i32 @mpsx_air_{name}(ptr, ptr, i32)\n" for name in POSITIONS)
    return (f"{positions}declare ptr @mpsx_air_argument(ptr, i32)\ndeclare ptr @mpsx_air_optional_argument(ptr, i32)\n"
            "declare ptr @mpsx_air_threadgroup_variable(i32, i32, ptr)\ndeclare i32 @mpsx_air_grid_size_of(ptr, i32)\n"
            "declare void @mpsx_air_loop(ptr, ptr, i64, i64)\n")  # fmt: skip


def _text(name: str, value: str) -> str:
    data = value.encode()
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data)
    return f'@{name} = private constant [{len(data) + 1} x i8] c"{escaped}\\00"\n'


def _table(kernel: Kernel, lowered: Lowered, loop: bool, compiler: str, isa: str) -> str:
    """Return mpsx_kernel_table with the kernel's record. air_kernel.h checks that this layout is up to date."""
    text = _text("mpsx.kernel", kernel.name) + _text("mpsx.compiler", compiler) + _text("mpsx.isa", isa)
    rows = []
    for i, c in enumerate(kernel.constants):
        text += _text(f"mpsx.constant.{i}", c.name) + _text(f"mpsx.scalar.{i}", c.scalar)
        rows.append(f"{{ptr, i32, ptr, i32}} {{ptr @mpsx.constant.{i}, i32 {c.index}, ptr @mpsx.scalar.{i}, "
                    f"i32 {c.components}}}")  # fmt: skip
    constants = "ptr null"
    if rows:
        text += f"@mpsx.constants = private constant [{len(rows)} x {{ptr, i32, ptr, i32}}] [{', '.join(rows)}]\n"
        constants = "ptr @mpsx.constants"
    entries = "ptr @mpsx_air_loop, ptr null" if loop else "ptr null, ptr @mpsx.entry"
    size = "0"
    for kind in lowered.threadgroup_types:
        size = f"add (i32 {size}, i32 {size_of(kind)})"
    buffers = max((a.index + 1 for a in kernel.arguments if a.space in ("device", "constant")), default=0)
    record = "{ptr, i32, ptr, ptr, i32, i32, i32, i32, ptr, i32}"
    text += (f"@mpsx.record = private constant {record} {{ptr @mpsx.kernel, i32 {UNIT_THREADS if loop else UNIT_SIMT}, "
             f"{entries}, i32 {int(lowered.synchronizes)}, i32 {buffers}, i32 {size}, i32 {kernel.max_threads}, "
             f"{constants}, i32 {len(rows)}}}\n")  # fmt: skip
    return text + (
        "@mpsx.records = private constant [1 x ptr] [ptr @mpsx.record]\n@mpsx_simt = external hidden global ptr\n"
        f"@mpsx_kernel_table = constant {{i32, i32, ptr, ptr, ptr, ptr}} {{i32 {abi_version()}, i32 1, "
        "ptr @mpsx.records, ptr @mpsx_simt, ptr @mpsx.compiler, ptr @mpsx.isa}\n"
    )


def _attributes(mode: str, loop: bool) -> str:
    """Return the attribute groups: 0 inlined functions, 1 the kernel, 2 functions that wait, 3 others, 4 others of a
    large kernel, 5 the entry."""
    checks = " sanitize_thread" if mode == "simt" else ""
    convergent = "" if loop else " convergent"
    inline = "alwaysinline " if loop else ""
    return (f"attributes #0 = {{ alwaysinline nounwind{convergent}{checks} }}\n"
            f"attributes #1 = {{ {inline or 'noinline '}nounwind{convergent}{checks} }}\n"
            f"attributes #2 = {{ alwaysinline nounwind{convergent}{checks} }}\n"
            f"attributes #3 = {{ {inline}nounwind{convergent}{checks} }}\n"
            f"attributes #4 = {{ nounwind{convergent}{checks} }}\n"
            "attributes #5 = { nounwind convergent }\n")  # fmt: skip
