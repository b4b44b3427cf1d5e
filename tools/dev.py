#!/usr/bin/env python3
"""Build incrementally, and run commands against the build without installing it.

    python tools/dev.py build                 configure and build into build/dev
    python tools/dev.py run -- python -m pytest tests/ops/norm/test_softmax.py
    python tools/dev.py build --isas all      build all kernel libraries, not only this machine's
    python tools/dev.py run --metal -- …      use MPSX_DRIVER=metal on an emulated Metal (Linux)

build/dev/site contains links to the package's sources, plus the metadata that `import torch` needs to find the package.
With MPSX_DRIVER=simt, kernels are compiled on first use.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools" / "build"))

import emulated_metal  # noqa: E402
import environment  # noqa: E402
from msl.compiler import LEVELS  # noqa: E402

BUILD = ROOT / "build" / "dev"
SITE = BUILD / "site"


def run(*command: str, env: dict[str, str] | None = None) -> None:
    """Run a command, and exit with its status if it fails."""
    status = subprocess.call(command, cwd=ROOT, env=env)
    if status:
        sys.exit(status)


def link(target: Path, at: Path) -> None:
    """Create the symbolic link `at` to `target`, or replace it."""
    at.parent.mkdir(parents=True, exist_ok=True)
    if at.is_symlink() or at.exists():
        if at.is_symlink() and Path(os.readlink(at)) == target:
            return
        at.unlink()
    at.symlink_to(target)


def link_site() -> None:
    """Link the Python sources and native libraries into a folder for sys.path, and write the entry point's metadata."""
    package = SITE / "mpsx"
    package.mkdir(parents=True, exist_ok=True)
    wanted = {path.name: path for path in (ROOT / "python" / "mpsx").iterdir() if path.suffix != ".pyx"}
    wanted |= {path.name: path for path in (BUILD / "python").iterdir()}
    wanted |= {"lib": BUILD / "lib", "metal": ROOT / "metal", "metal_stdlib": ROOT / "src" / "metal_stdlib"}
    wanted.pop("__pycache__", None)
    for stale in package.iterdir():
        if stale.name not in wanted and stale.is_symlink():
            stale.unlink()
    for name, path in wanted.items():
        link(path, package / name)
    info = SITE / "mpsx-0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mpsx\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nmpsx = mpsx:_autoload\n")


def build(isas: str, jobs: int) -> None:
    """Configure if necessary, then build."""
    BUILD.mkdir(parents=True, exist_ok=True)
    env = dict(os.environ, CCACHE_NOHASHDIR="1", CCACHE_BASEDIR=str(ROOT))
    stamp = BUILD / "isas.txt"
    chosen = ";".join([*LEVELS, "baseline"]) if isas == "all" else isas
    if not (BUILD / "build.ninja").exists() or not stamp.exists() or stamp.read_text() != chosen:
        run("cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", f"-DMPSX_ISAS={chosen}",
            f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Release", "-DMPSX_PRECOMPILE=OFF",
            "-DMPSX_UNITY=OFF", env=env)  # fmt: skip
        stamp.write_text(chosen)
    run("cmake", "--build", str(BUILD), "-j", str(jobs), env=env)
    link_site()


def main() -> None:
    """Run the command-line interface."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build", help="configure and build")
    builder.add_argument("--isas", default="", help="'all', or instruction sets separated by ';'")
    builder.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 2)
    runner = commands.add_parser("run", help="run a command against the build")
    runner.add_argument("--metal", action="store_true", help="use the metal driver on an emulated Metal")
    runner.add_argument("command_line", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    environment.prefer_own_programs()
    if arguments.command == "build":
        build(arguments.isas, arguments.jobs)
        return
    link_site()
    command = arguments.command_line
    command = command[1:] if command[:1] == ["--"] else command
    path = os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH")]))
    env = dict(os.environ, PYTHONPATH=path)
    if arguments.metal:
        os.environ["PYTHONPATH"] = path
        env = emulated_metal.environment(SITE / "mpsx")
    os.execvpe(command[0], command, env)


if __name__ == "__main__":
    main()
