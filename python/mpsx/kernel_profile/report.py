"""Format profiled launches as text, as JSON, and as annotated source."""

from __future__ import annotations

from pathlib import Path

from .launch import SECTOR, Accesses, Launch, Line, Traffic

UNITS = ("B", "KiB", "MiB", "GiB")


def size(n: float) -> str:
    """Format a number of bytes."""
    unit = 0
    while n >= 10240 and unit < len(UNITS) - 1:
        n, unit = n / 1024, unit + 1
    return f"{n:.0f} {UNITS[unit]}" if unit == 0 else f"{n:.1f} {UNITS[unit]}"


def short(file: str) -> str:
    """Shorten the name of a kernel file."""
    return file.removeprefix("metal/")


def percent(part: float) -> str:
    """Format a fraction as a percentage."""
    return f"{part * 100:.1f}%"


def _direction(name: str, traffic: Traffic) -> str:
    more = f", {size(traffic.shared)} without repeats by other threadgroups" if traffic.shared < traffic.moved else ""
    asked, distinct, moved = map(size, (traffic.asked, traffic.distinct, traffic.moved))
    return f"    {name:<8} requested {asked}, distinct {distinct}, moved {moved}{more}"


def summary(launch: Launch) -> str:
    """Format the totals of a launch."""
    grid = "x".join(str(n) for n in launch.groups if n > 1) or "1"
    group = "x".join(str(n) for n in launch.group if n > 1) or "1"
    device, local = launch.device, launch.threadgroup
    lines = [
        f"{launch.kernel}: threadgroups {grid}, {group} threads each; {launch.simdgroups} SIMD groups",
        f"  device memory: traffic {launch.traffic:.2f} times distinct bytes, transactions {launch.transactions:.2f} "
        f"times the minimum, {device.bytes_per_lane:.1f} bytes per lane and access",
        _direction("read", launch.read),
        _direction("written", launch.written),
    ]
    if local.requests:
        lines.append(f"  threadgroup memory: {size(launch.threadgroup_bytes)} per threadgroup, {local.requests} "
                     f"accesses, {local.transactions} passes ({local.conflicts} due to bank conflicts)")  # fmt: skip
    work = f"{launch.all_flops} floating-point operations, {launch.intensity:.2f} per distinct byte"
    if launch.products:
        work += f", {launch.products} simdgroup_matrix multiplications"
    calls = ", ".join(f"{n} {name}" for name, n in sorted(launch.calls.items(), key=lambda call: -call[1]))
    lines += [f"  work: {work}", f"  lanes active: {percent(launch.active)}"]
    return "\n".join([*lines, f"  calls: {calls}"] if calls else lines)


COLUMNS = "  {:<38} {:<17} {:>9} {:>5} {:>5} {:>12} {:>6} {:>7} {:>8}"
HEADER = COLUMNS.format("line", "access", "requests", "lanes", "bytes", "transactions", "least", "again", "of moved")


def _row(line: Line, kind: tuple[str, str], accesses: Accesses, moved: int) -> str:
    where = f"{short(line.position[0])}:{line.position[1]}"
    if line.inside != line.position and line.inside[0]:
        where += f" < {Path(line.inside[0]).name}:{line.inside[1]}"
    part = percent(accesses.transactions / moved) if kind[0] == "device" and moved else ""
    return COLUMNS.format(
        where, f"{kind[1]} {kind[0]}", accesses.requests, f"{accesses.lanes / accesses.requests:.1f}",
        f"{accesses.bytes_per_lane:.1f}", accesses.transactions, f"{accesses.ratio:.2f}x", accesses.again, part,
    ).rstrip()  # fmt: skip


def table(launch: Launch) -> str:
    """Format the source lines that access memory, in descending order of transactions."""
    rows = [(kind, accesses, line) for line in launch.lines for kind, accesses in line.accesses.items()
            if kind[0] != "constant"]  # fmt: skip
    rows.sort(key=lambda row: (row[0][0], -row[1].transactions))
    return "\n".join([HEADER, *(_row(line, kind, accesses, launch.device.transactions)
                                for kind, accesses, line in rows)])  # fmt: skip


def text(launch: Launch) -> str:
    """Format the totals and the table."""
    return f"{summary(launch)}\n{table(launch)}"


def as_dict(launch: Launch) -> dict:
    """Convert a launch to a dict for JSON."""

    def named(accesses: dict[tuple[str, str], Accesses]) -> dict:
        return {f"{space} {kind}": vars(found) for (space, kind), found in accesses.items()}

    return {
        "kernel": launch.kernel, "threads": launch.threads, "groups": launch.groups, "group": launch.group,
        "simdgroups": launch.simdgroups, "threadgroup_bytes": launch.threadgroup_bytes,
        "traffic": launch.traffic, "transactions": launch.transactions,
        "read": vars(launch.read), "written": vars(launch.written), "accesses": named(launch.accesses),
        "calls": launch.calls, "products": launch.products, "flops": launch.all_flops,
        "intensity": launch.intensity, "active": launch.active,
        "lines": [{"file": line.position[0], "line": line.position[1], "inside": list(line.inside),
                   "accesses": named(line.accesses), "instructions": line.instructions, "steps": line.steps,
                   "flops": line.flops, "calls": line.calls} for line in launch.lines],
    }  # fmt: skip


def annotated(launch: Launch, file: str, source: str) -> str:
    """Annotate each source line with its counts: bytes moved, transactions divided by the minimum, passes due to bank
    conflicts, active lanes, and floating-point operations. The counts of inlined code are also added to the line into
    which it was inlined."""
    out = [f"{'moved':>10} {'least':>6} {'conflicts':>9} {'active':>7} {'flops':>10}"]
    for number, line in enumerate(source.split("\n"), 1):
        here = [found for found in launch.lines if (file, number) in (found.position, found.inside)]
        device, local = Accesses(), Accesses()
        for found in here:
            for (space, _), accesses in found.accesses.items():
                if space != "constant":
                    (device if space == "device" else local).add(accesses)
        steps = sum(found.steps for found in here)
        flops = sum(found.flops for found in here)
        moved = size(device.transactions * SECTOR) if device.requests else ""
        ratio = f"{device.ratio:.2f}x" if device.requests else ""
        conflicts = str(local.conflicts) if local.requests else ""
        active = percent(sum(found.instructions for found in here) / steps / 32) if steps else ""
        out.append(f"{moved:>10} {ratio:>6} {conflicts:>9} {active:>7} {flops or '':>10} | {line}".rstrip())
    return "\n".join(out)
