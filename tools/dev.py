#!/usr/bin/env python3
"""An incremental build for developers, and a way to run against it without installing.

    python tools/dev.py build                 configure and build into build/dev
    python tools/dev.py run -- python -m pytest tests/ops/norm/test_softmax.py
    python tools/dev.py build --isas all      every kernel library, not this machine's best alone
    python tools/dev.py run --metal -- …      with MPSX_DRIVER=metal on an emulated Metal (Linux)

The package lies in build/dev/site (sources linked, not copied), with the metadata that lets `import torch` find it.
MPSX_DRIVER=simt compiles its kernels when it is first used.
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
    """Runs a command; ends the program with its status if it fails."""
    status = subprocess.call(command, cwd=ROOT, env=env)
    if status:
        sys.exit(status)


def link(target: Path, at: Path) -> None:
    """Makes `at` a symbolic link to `target`, replacing what was there."""
    at.parent.mkdir(parents=True, exist_ok=True)
    if at.is_symlink() or at.exists():
        if at.is_symlink() and Path(os.readlink(at)) == target:
            return
        at.unlink()
    at.symlink_to(target)


def lay_out_site() -> None:
    """A folder for sys.path: the Python sources and native libraries linked, plus the entry point's metadata."""
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
    """Configures (once, or when the choice of kernel libraries changed) and builds."""
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
    lay_out_site()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build", help="configure and build")
    builder.add_argument("--isas", default="", help="'all', or kernel libraries separated by ';'")
    builder.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 2)
    runner = commands.add_parser("run", help="run a command against the build")
    runner.add_argument("--metal", action="store_true", help="the Metal driver, on an emulated Metal")
    runner.add_argument("words", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    environment.prefer_own_programs()
    if arguments.command == "build":
        build(arguments.isas, arguments.jobs)
        return
    lay_out_site()
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    path = os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH")]))
    env = dict(os.environ, PYTHONPATH=path)
    if arguments.metal:
        os.environ["PYTHONPATH"] = path
        env = emulated_metal.environment(SITE / "mpsx")
    os.execvpe(words[0], words, env)


if __name__ == "__main__":
    main()
