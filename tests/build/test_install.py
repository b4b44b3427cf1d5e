"""The installed package: metadata, files, version check, environment variables, and documentation links."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch
from processes import run_in_subprocess

import mpsx
from mpsx import _build_info
from mpsx.cli import info
from mpsx.msl.compiler import LEVELS
from mpsx.shader import kernel_library

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(mpsx.__file__).parent
MINOR = ".".join(torch.__version__.split(".")[:2])


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new Python process. An environment variable set to an empty string is removed."""
    merged = {key: value for key, value in {**os.environ, **environment}.items() if value}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=merged, timeout=120)


def load_tool(name: str) -> object:
    """Load a module from tools/build, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / "build" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def installed() -> importlib.metadata.Distribution:
    """Return the metadata of the installed mpsx. Skip the test in a development build."""
    distribution = importlib.metadata.distribution("mpsx")
    if distribution.version == "0":
        pytest.skip("a development build (tools/dev.py) has no metadata")
    return distribution


def test_metadata_requires_the_torch_it_was_built_for() -> None:
    requirements = [r for r in installed().requires or () if re.match(r"torch\b", r) and "extra" not in r]
    assert len(requirements) == 1
    major, minor = (int(part) for part in _build_info.TORCH_VERSION.split(".")[:2])
    assert set(re.findall(r"[<>=]+[\d.]+", requirements[0])) == {f">={major}.{minor}", f"<{major}.{minor + 1}"}


def test_metadata() -> None:
    metadata = installed().metadata
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert {"demo", "test"} <= set(metadata.get_all("Provides-Extra"))
    assert "python -m mpsx demo" in metadata.get_payload()  # from the README


def test_installed_files() -> None:
    files = [str(file) for file in installed().files or ()]
    assert any(re.fullmatch(r"mpsx/_runtime\.[^/]+\.so", file) for file in files)
    assert any(re.fullmatch(r"mpsx/lib/libmpsx\.(so|dylib)", file) for file in files)
    assert not [file for file in files if file.endswith((".pyx", ".c", ".cpp", ".a", ".o"))]
    assert not [file for file in files if not file.startswith(("mpsx/", "mpsx-"))]
    if sys.platform == "linux":
        kernels = {file for file in files if "libmpsx_kernels_" in file}
        assert kernels  # a portable wheel contains all kernel libraries, other wheels contain one
        assert kernels <= {f"mpsx/lib/{kernel_library.file_name(isa)}" for isa in ("baseline", *LEVELS)}
    assert {"mpsx/metal/norm/softmax.metal", "mpsx/metal/lib/types.h", "mpsx/metal/elementwise/unary.def"} <= set(files)
    assert {"mpsx/msl/translate.py", "mpsx/msl/check/declarations.h", "mpsx/metal_stdlib/msl.h",
            "mpsx/metal_stdlib/profile_abi.h", "mpsx/metal_stdlib/cuda/entry.h"} <= set(files)


def test_version_matches_pyproject() -> None:
    assert f'version = "{mpsx.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_entry_point() -> None:
    found = [e for e in importlib.metadata.entry_points(group="torch.backends") if e.name == "mpsx"]
    assert len(found) == 1
    assert found[0].value == "mpsx:_autoload"


@pytest.mark.parametrize(("running", "accepted"), [(f"{MINOR}.9+cpu", True), ("2.10.0", False), ("3.0.0", False)])
def test_mismatched_torch_version_raises(running: str, accepted: bool) -> None:
    if accepted:
        mpsx._check_torch_version(running)
        return
    message = rf"built for torch {MINOR}, and this is torch {re.escape(running)}.*install torch {MINOR}"
    with pytest.raises(ImportError, match=message):
        mpsx._check_torch_version(running)


def test_error_names_another_backend() -> None:
    code = "import torch; torch.utils.rename_privateuse1_backend('npu'); import mpsx"
    done = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 1
    assert "ImportError: the backend npu already uses PrivateUse1" in done.stderr and "AUTOLOAD=0" in done.stderr


def test_import_torch_loads_mpsx() -> None:
    code = "import torch, sys; assert 'mpsx' in sys.modules; print(torch.ones(2, device='mpsx').sum().item())"
    done = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="", MPSX_FALLBACK="silent")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2.0\n", "")


def test_autoload_can_be_disabled() -> None:
    code = "import torch, sys; assert 'mpsx' not in sys.modules; import mpsx; print(torch.ones(1).to('mpsx').device)"
    done = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "mpsx:0\n", "")


def test_package_does_not_import_the_demo() -> None:
    names = ("mpsx.cli", "matplotlib", "sklearn")
    code = f"import torch, sys; print(sorted(name for name in sys.modules if name.startswith({names})))"
    done = python(code)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("MPSX_DRIVER", "vulkan", 'MPSX_DRIVER: expected "host", "simt", "metal" or "cuda", got "vulkan"'),
        ("MPSX_ISA", "sparc", "MPSX_ISA=sparc: this CPU runs"),
        ("MPSX_FALLBACK", "maybe", "MPSX_FALLBACK: expected one of warn, silent, error, got 'maybe'"),
    ],
)
def test_invalid_variables_are_named(variable: str, value: str, message: str) -> None:
    done = run_in_subprocess("import mpsx; print(mpsx.driver())", **{variable: value})
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("isa", sorted(p.stem.removeprefix("libmpsx_kernels_") for p in PACKAGE.glob("lib/libmpsx_k*")))
def test_kernel_libraries_for_this_cpu(isa: str) -> None:
    code = "import mpsx; x = torch.arange(7.0); y = x.to('mpsx').exp().cpu(); print(y.allclose(x.exp()))"
    done = run_in_subprocess(code + "; print(mpsx.driver()['isa'])", MPSX_ISA=isa)
    if "this CPU runs" in done.stderr:
        pytest.skip(f"this CPU cannot run {isa}")
    assert done.stdout == f"True\n{isa}\n", done.stderr


def test_info_lists_every_variable() -> None:
    sources = [*ROOT.glob("src/**/*.cpp"), *ROOT.glob("src/**/*.mm"), *ROOT.glob("python/mpsx/**/*.py")]
    pattern = re.compile(r"(?:getenv\(|environ(?:ment)?(?:\.get\(|\[))\s*\"((?:MPSX|PYTORCH|TORCH)_\w+)\"")
    read = {name for file in sources for name in pattern.findall(file.read_text())}
    assert read, "the pattern matches nothing"
    assert read <= set(info.VARIABLES)


def test_documentation_lists_every_variable() -> None:
    text = (ROOT / "python" / "mpsx" / "docs" / "environment.md").read_text()
    assert [name for name in info.VARIABLES if f"`{name}`" not in text] == []


DOCS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("python/mpsx/docs/**/*.md"))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", *DOCS])
def test_links_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    targets = [target for target in targets if not target.startswith("http")]
    assert targets or document.startswith("python")
    assert [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()] == []


def test_dynamic_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools" / "build")
    tool = load_tool("torch_requirement")
    requirement = tool.dynamic_metadata("dependencies")
    major, minor = (int(part) for part in MINOR.split("."))
    assert requirement == [f"torch>={major}.{minor},<{major}.{minor + 1}"]
    with pytest.raises(ValueError, match="expected the field 'dependencies', got 'version'"):
        tool.dynamic_metadata("version")


@pytest.mark.skipif(not Path(torch.__file__).is_relative_to(sysconfig.get_path("purelib")),
                    reason="torch is not in this interpreter's own environment")  # fmt: skip
def test_isolated_build_finds_the_installed_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = str(ROOT / "tools" / "build" / "installed_torch.py")
    found = python("import runpy, sys; sys.path = [p for p in sys.path if not p.endswith('site-packages')]; "
                   f"runpy.run_path({tool!r}, run_name='__main__')").stdout  # fmt: skip
    assert found == f"{torch.__version__.partition('+')[0]};{Path(torch.__file__).parent}"
    monkeypatch.syspath_prepend(ROOT / "tools" / "build")
    backend = load_tool("build_backend")
    assert not [r for r in backend.get_requires_for_build_wheel() if r.startswith("torch")]
    monkeypatch.setattr(backend, "find", lambda: None)
    assert backend.TORCH in backend.get_requires_for_build_wheel()


def test_isa_all_selects_the_best_one() -> None:
    found = [python("import mpsx; print(mpsx.driver()['isa'])", MPSX_ISA=isa) for isa in ("", "all")]
    assert found[0].stdout == found[1].stdout != "", found[1].stderr


def test_exit_handler_imports_nothing_large():
    """The exit handler waits for autograd's threads. It must not import anything beyond torch, because sympy alone
    takes half a second."""
    code = "import atexit, sys; atexit.register(lambda: print('sympy' in sys.modules)); import torch; "
    done = python(code + "torch.ones(2, device='mpsx', requires_grad=True).sum().backward()")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False\n"
