"""CMake's branch for macOS, on any machine: configured for that target; a stub of xcrun notes its arguments."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cross import ROOT, Cross, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"a cross build needs {missing()}")
KERNELS = sorted((ROOT / "metal").glob("*/*.metal"))
DRIVER = [path for path in (ROOT / "src" / "driver" / "metal").iterdir() if path.suffix in (".mm", ".cpp")]


def torch_for_macos(folder: Path) -> Path:
    """As much of an installed torch as configuring looks at."""
    (folder / "torch" / "lib").mkdir(parents=True)
    (folder / "torch" / "__init__.py").touch()
    (folder / "torch-2.13.0.dist-info").mkdir()
    (folder / "torch-2.13.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n")
    return folder


@pytest.fixture(scope="module", params=[True, False], ids=["metal", "no-metal"])
def cross(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cross:
    """A configured build with its kernels built; with Apple's Metal compiler and without."""
    folder = tmp_path_factory.mktemp("cross")
    found = Cross(folder, torch_for_macos(folder / "torch"), metal=request.param)
    # Nothing of it runs: the optimiser has nothing to say.
    found.said = found.configure("-DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG", "-DCMAKE_OBJCXX_FLAGS_RELEASE=-DNDEBUG")
    found.make("mpsx_metal_library")
    return found


def asked(cross: Cross) -> list[list[str]]:
    """The command lines of xcrun that are about Metal."""
    rows = [json.loads(line) for line in cross.xcrun_log.read_text().splitlines()]
    return [row for row in rows if {"metal", "metallib"} & set(row)]


def test_the_metal_compiler_is_asked_for_by_running_it(cross: Cross) -> None:
    assert asked(cross)[0] == ["-sdk", "macosx", "metal", "--version"]
    compiler = "Apple metal version 0.0 (stub)" if cross.metal else "no Metal compiler (xcrun metal)"
    assert compiler in cross.said


def test_every_kernel_file_is_compiled(cross: Cross) -> None:
    compiled = [row for row in asked(cross) if "-c" in row]
    if not cross.metal:
        assert compiled == []
        return
    assert sorted(row[row.index("-c") + 1] for row in compiled) == [str(path) for path in KERNELS]
    for row in compiled:
        assert row[:3] == ["-sdk", "macosx", "metal"]
        assert "-std=metal3.1" in row
        assert "-fno-fast-math" in row
        assert "-ffp-contract=off" in row
        assert "-mmacosx-version-min=14.0" in row
        assert row[row.index("-I") + 1] == str(ROOT / "metal")
    outputs = [row[row.index("-o") + 1] for row in compiled]
    assert len(set(outputs)) == len(KERNELS)
    (link,) = [row for row in asked(cross) if row[2] == "metallib"]
    assert link[3:] == [*outputs_in_order(outputs, link), "-o", str(cross.build / "lib" / "mpsx.metallib")]


def outputs_in_order(outputs: list[str], link: list[str]) -> list[str]:
    """All compiled kernels, as the link names them."""
    assert sorted(outputs) == sorted(link[3:-2])
    return link[3:-2]


def test_libraries_of_kernels(cross: Cross) -> None:
    found = {path.name for path in (cross.build / "lib").iterdir()}
    assert "mpsx.metal" in found
    assert ("mpsx.metallib" in found) == cross.metal
    text = (cross.build / "lib" / "mpsx.metal").read_text()
    units = re.findall(r"^//mpsx:unit (.*)$", text, re.M)
    assert units == [path.relative_to(ROOT).as_posix() for path in KERNELS]
    assert str(ROOT) not in text


def test_commands_know_macos(cross: Cross) -> None:
    """Frameworks, names, run paths, suffixes: of the commands that would link the libraries."""
    module = next(name for name in cross.targets() if re.fullmatch(r"python/_runtime\..*\.so", name))
    assert module.endswith("-darwin.so")
    library = cross.run("ninja", "-C", cross.build, "-t", "commands", "-s", "lib/libmpsx.dylib")
    for words in ("-dynamiclib", "-install_name @rpath/libmpsx.dylib", "-rpath,@loader_path/../../torch/lib",
                  "-framework Metal", "-framework Foundation", "-ltorch_cpu", "-lc10"):  # fmt: skip
        assert words in library
    linked = cross.run("ninja", "-C", cross.build, "-t", "commands", "-s", module)
    assert "-rpath,@loader_path/lib" in linked
    assert "-undefined" in linked  # Python's functions come from the program that loads the module
    kernels = cross.run("ninja", "-C", cross.build, "-t", "commands", "-s", "lib/libmpsx_kernels_baseline.dylib")
    for words in ("-dynamiclib", "-mmacosx-version-min=14.0", "-install_name @rpath/libmpsx_kernels_baseline.dylib"):
        assert words in kernels
    for command in (library, kernels):
        for words in ("--gc-sections", "-z,", "$ORIGIN", "-Wl,--", "-lgcc", "-fopenmp", "-march="):
            assert words not in command
    objects = cross.run("ninja", "-C", cross.build, "-t", "commands", "mpsx")
    sources = {path.name for path in DRIVER if path.suffix == ".mm"}
    assert set(re.findall(r"([\w]+\.mm)\.o -c", objects)) == sources
    assert objects.count("-fno-objc-arc") >= len(sources)


def test_what_is_installed(cross: Cross) -> None:
    """The layout of the wheel, empty files standing for what only the whole build makes."""
    names = [name for name in cross.targets() if re.fullmatch(r"(lib/lib\w+|python/_\w+)[\w.-]*\.(dylib|so)", name)]
    assert {"lib/libmpsx.dylib", "lib/libmpsx_kernels_baseline.dylib"} <= set(names)
    made = [cross.build / name for name in names if not (cross.build / name).exists()]
    try:
        for path in made:
            path.parent.mkdir(exist_ok=True)
            path.touch()
        found = cross.install(cross.folder / "installed")
    finally:
        for path in made:
            path.unlink()
    modules = [name for name in found if re.fullmatch(r"mpsx/_(runtime|shader)\.cpython-\w+-darwin\.so", name)]
    assert len(modules) == 2
    kernels = {"libmpsx.dylib", "libmpsx_kernels_baseline.dylib", "mpsx.metal"}
    assert {name for name in found if name.startswith("mpsx/lib/")} == {
        f"mpsx/lib/{name}" for name in kernels | ({"mpsx.metallib"} if cross.metal else set())
    }
    assert "mpsx/_build_info.py" in found
    assert not [name for name in found if name.endswith((".o", ".a", ".air", ".c", ".cpp", ".tbd"))]
    facts = (cross.folder / "installed" / "mpsx" / "_build_info.py").read_text()
    assert re.search(r"(?i)metal_driver\W+True", facts), facts


def test_the_metal_driver_and_the_bindings_compile_for_macos(cross: Cross) -> None:
    """A sample of test_cross_build.py's, of what needs no torch."""
    if not cross.metal:
        pytest.skip("the same objects with and without the Metal compiler")
    driver = [name for name in cross.targets() if re.search(r"/src/driver/metal/.*\.o$", name)]
    assert len(driver) == len(DRIVER)
    cross.make(*driver, timeout=600)
    modules = [name for name in cross.targets() if re.fullmatch(r"CMakeFiles/_\w+\.dir/_\w+\.c\.o", name)]
    assert modules
    for name in modules:
        # Ninja would link the library first; the bindings need its header alone.
        for target in (f"{Path(name).stem.removesuffix('.c')}.c", name):
            command = cross.run("ninja", "-C", cross.build, "-t", "commands", "-s", target).strip().splitlines()[-1]
            cross.run("sh", "-c", f"cd {cross.build} && {command}")
