"""Configure the CMake files for macOS. This works on any machine. A stub of xcrun logs its arguments."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cross import ROOT, Cross, missing_tools

pytestmark = pytest.mark.skipif(bool(missing_tools()), reason=f"a cross build needs {missing_tools()}")
KERNELS = sorted((ROOT / "metal").glob("*/*.metal"))
DRIVER = [path for path in (ROOT / "src" / "driver" / "metal").iterdir() if path.suffix in (".mm", ".cpp")]


def torch_for_macos(folder: Path) -> Path:
    """Create those files of an installed torch that CMake needs to configure the build."""
    (folder / "torch" / "lib").mkdir(parents=True)
    (folder / "torch" / "__init__.py").touch()
    (folder / "torch-2.13.0.dist-info").mkdir()
    (folder / "torch-2.13.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n")
    return folder


@pytest.fixture(scope="module", params=[True, False], ids=["metal", "no-metal"])
def cross(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cross:
    """Configure a build with and without Apple's Metal compiler, and build the kernel library."""
    folder = tmp_path_factory.mktemp("cross")
    found = Cross(folder, torch_for_macos(folder / "torch"), metal=request.param)
    # Disable optimization, because nothing is executed.
    found.output = found.configure("-DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG", "-DCMAKE_OBJCXX_FLAGS_RELEASE=-DNDEBUG")
    found.make("mpsx_metal_library", "mpsx_tensor_library")
    return found


def metal_commands(cross: Cross) -> list[list[str]]:
    """Return the xcrun commands that run Metal's tools."""
    rows = [json.loads(line) for line in cross.xcrun_log.read_text().splitlines()]
    return [row for row in rows if {"metal", "metallib"} & set(row)]


def test_configure_runs_the_metal_compiler(cross: Cross) -> None:
    checks = [["-sdk", "macosx", "metal", f"-std={standard}", "--version"] for standard in ("metal3.1", "metal4.0")]
    assert metal_commands(cross)[:2] == checks
    compiler = "Apple metal version 0.0 (stub)" if cross.metal else "no compiler for metal3.1 (xcrun metal)"
    assert compiler in cross.output


def test_every_kernel_file_is_compiled(cross: Cross) -> None:
    compiled = [row for row in metal_commands(cross) if "-c" in row]
    if not cross.metal:
        assert compiled == []
        return
    assert sorted(row[row.index("-c") + 1] for row in compiled) == [str(path) for path in KERNELS]
    for row in compiled:
        assert row[:3] == ["-sdk", "macosx", "metal"]
        tensor = row[row.index("-c") + 1].endswith("_tensor.metal")
        assert ("-std=metal4.0" if tensor else "-std=metal3.1") in row
        assert "-fno-fast-math" in row
        assert "-ffp-contract=off" in row
        assert "-mmacosx-version-min=14.0" in row
        assert row[row.index("-I") + 1] == str(ROOT / "metal")
    outputs = [row[row.index("-o") + 1] for row in compiled]
    assert len(set(outputs)) == len(KERNELS)
    links = sorted(row[3:] for row in metal_commands(cross) if row[2] == "metallib")
    assert sorted(path for link in links for path in link[:-2]) == sorted(outputs)
    targets = [str(cross.build / "lib" / f"{stem}.metallib") for stem in ("mpsx", "mpsx_tensor")]
    assert sorted(link[-2:] for link in links) == [["-o", target] for target in targets]
    tensor = next(link for link in links if link[-1] == targets[1])
    assert all("_tensor_metal" in path for path in tensor[:-2])


def test_kernel_libraries(cross: Cross) -> None:
    found = {path.name for path in (cross.build / "lib").iterdir()}
    units = {}
    for stem in ("mpsx", "mpsx_tensor"):
        assert f"{stem}.metal" in found
        assert (f"{stem}.metallib" in found) == cross.metal
        text = (cross.build / "lib" / f"{stem}.metal").read_text()
        units[stem] = re.findall(r"^//mpsx:unit (.*)$", text, re.M)
        assert str(ROOT) not in text
    names = [path.relative_to(ROOT).as_posix() for path in KERNELS]
    tensor = [name for name in names if name.endswith("_tensor.metal")]
    assert units == {"mpsx": [name for name in names if name not in tensor], "mpsx_tensor": tensor}


def test_link_commands(cross: Cross) -> None:
    """The link commands contain macOS frameworks, install names, run paths and file suffixes."""
    module = next(name for name in cross.targets() if re.fullmatch(r"python/_runtime\..*\.so", name))
    assert module.endswith("-darwin.so")
    library = cross.run("ninja", "-C", cross.build, "-t", "commands", "-s", "lib/libmpsx.dylib")
    for flag in ("-dynamiclib", "-install_name @rpath/libmpsx.dylib", "-rpath,@loader_path/../../torch/lib",
                  "-framework Metal", "-framework Foundation", "-ltorch_cpu", "-lc10"):  # fmt: skip
        assert flag in library
    linked = cross.run("ninja", "-C", cross.build, "-t", "commands", "-s", module)
    assert "-rpath,@loader_path/lib" in linked
    assert "-undefined" in linked  # Python's functions are resolved at load time
    kernels = cross.run("ninja", "-C", cross.build, "-t", "commands", "-s", "lib/libmpsx_kernels_baseline.dylib")
    for flag in ("-dynamiclib", "-mmacosx-version-min=14.0", "-install_name @rpath/libmpsx_kernels_baseline.dylib"):
        assert flag in kernels
    for command in (library, kernels):
        for flag in ("--gc-sections", "-z,", "$ORIGIN", "-Wl,--", "-lgcc", "-fopenmp", "-march="):
            assert flag not in command
    objects = cross.run("ninja", "-C", cross.build, "-t", "commands", "mpsx")
    sources = {path.name for path in DRIVER if path.suffix == ".mm"}
    assert set(re.findall(r"([\w]+\.mm)\.o -c", objects)) == sources
    assert objects.count("-fno-objc-arc") >= len(sources)


def test_installed_files(cross: Cross) -> None:
    """Check the files in the wheel. Empty files stand in for the libraries, which only a full build creates."""
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
    kernels = {"libmpsx.dylib", "libmpsx_kernels_baseline.dylib", "mpsx.metal", "mpsx_tensor.metal"}
    assert {name for name in found if name.startswith("mpsx/lib/")} == {
        f"mpsx/lib/{name}" for name in kernels | ({"mpsx.metallib", "mpsx_tensor.metallib"} if cross.metal else set())
    }
    assert "mpsx/_build_info.py" in found
    assert not [name for name in found if name.endswith((".o", ".a", ".air", ".c", ".cpp", ".tbd"))]
    facts = (cross.folder / "installed" / "mpsx" / "_build_info.py").read_text()
    assert re.search(r"(?i)metal_driver\W+True", facts), facts


def test_metal_driver_and_bindings_compile_for_macos(cross: Cross) -> None:
    """Compile the files that do not need torch. test_cross_build.py compiles all files."""
    if not cross.metal:
        pytest.skip("the object files do not depend on the Metal compiler")
    driver = [name for name in cross.targets() if re.search(r"/src/driver/metal/.*\.o$", name)]
    assert len(driver) == len(DRIVER)
    cross.make(*driver, timeout=600)
    modules = [name for name in cross.targets() if re.fullmatch(r"CMakeFiles/_\w+\.dir/_\w+\.c\.o", name)]
    assert modules
    for name in modules:
        # The bindings depend on the library, but they only need its header. Run their commands directly, because ninja
        # would link the library first.
        for target in (f"{Path(name).stem.removesuffix('.c')}.c", name):
            command = cross.run("ninja", "-C", cross.build, "-t", "commands", "-s", target).strip().splitlines()[-1]
            cross.run("sh", "-c", f"cd {cross.build} && {command}")
