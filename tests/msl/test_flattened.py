"""mpsx.metal, the flattened kernel sources. Macs without Apple's offline compiler compile them at run time.

Each unit must equal its kernel file with the project's headers inlined. A test compiles and runs one unit.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msl.compiler import find_compiler, is_x86
from msl.flatten import NO_CONTRACTION, units
from msl.preprocess import preprocess
from msl.translate import translate, write_index

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "metal").glob("*/*.metal"))


@pytest.fixture(scope="module")
def flattened(tmp_path_factory, msl):
    """Flatten all kernel files as the build does. Return the units by name."""
    out = tmp_path_factory.mktemp("flat") / "mpsx.metal"
    command = [sys.executable, "tools/msl.py", "flatten", *FILES, "-I", "metal", "-o", str(out), "--preprocessor",
               find_compiler().preprocessor()]
    subprocess.run(command, check=True, cwd=ROOT)
    return {name: (kernels, source) for name, kernels, source in units(out.read_text())}


def test_units_stand_alone(flattened):
    assert list(flattened) == FILES
    names = [name for kernels, _ in flattened.values() for name in kernels]
    assert len(names) == len(set(names)) > 1000
    for _, source in flattened.values():
        includes = set(re.findall(r"^[ \t]*#[ \t]*include[ \t]*(.*)$", source, re.M))
        apple = re.compile(r"<(metal_\w+|MetalPerformancePrimitives/\w+\.h)>")
        assert all(apple.match(target) for target in includes), includes
        assert "__METAL__" not in source
        assert source.startswith(NO_CONTRACTION + "\n")


def plain(text):
    """Remove line markers and line breaks from preprocessed text."""
    return " ".join(re.sub(r"^#.*$", "", text, flags=re.M).split())


def test_units_match_the_kernel_files(flattened, tmp_path):
    preprocessor, different = find_compiler().preprocessor(), []
    for name, (_, source) in flattened.items():
        path = tmp_path / "unit.metal"
        path.write_text(source)
        alone, _ = preprocess(str(path), [], [], preprocessor)
        original, _ = preprocess(str(ROOT / name), [str(ROOT / "metal")], [], preprocessor)
        if plain(alone) != plain(original):
            different.append(name)
    assert different == []


def test_unit_compiles_and_runs(flattened, tmp_path, msl):
    kernels, source = flattened["metal/norm/softmax.metal"]
    assert "softmax_rows_f32" in kernels
    (tmp_path / "unit.metal").write_text(source)
    compiler = find_compiler()
    paths, _ = translate(str(tmp_path / "unit.metal"), str(tmp_path / "unit.cpp"), [], [],
                         compiler.preprocessor())
    write_index(str(tmp_path / "index.cpp"), paths)
    facts = ['-DMPSX_KERNEL_ISA="test"', '-DMPSX_KERNEL_COMPILER="test"']
    flags = ["-O1" if flag == "-O3" else flag for flag in compiler.flags()]
    libgcc = [] if "clang" in compiler.description else ["-lgcc"]
    library = tmp_path / "library.so"
    subprocess.run([*compiler.command, *flags, *facts, "-shared", "-nostdlib", *paths, str(tmp_path / "index.cpp"),
                    "-o", str(library), *libgcc], check=True)
    loaded = type(msl("kernel void f(device int* x [[buffer(0)]]) { x[0] = 1; }"))(library)
    x = np.random.default_rng(0).standard_normal((5, 300)).astype(np.float32)
    out, parameters = np.zeros_like(x), np.array([5, 300, 1, 0, 0], np.uint32)  # RowShape
    loaded("softmax_rows_f32", out, x, parameters, grid=(5,))
    expected = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, expected / expected.sum(1, keepdims=True), rtol=2e-6)


@pytest.mark.skipif(not is_x86() or "clang" not in find_compiler().description,
                    reason="counts instructions of x86 that clang makes")
def test_pragma_disables_fp_contraction(flattened, tmp_path):
    """The pragma prevents fused multiply-adds, even in templates and macros."""
    _, source = flattened["metal/elementwise/swiglu.metal"]
    (tmp_path / "unit.metal").write_text(source)
    compiler = find_compiler()
    (path,), _ = translate(str(tmp_path / "unit.metal"), str(tmp_path / "unit.cpp"), [], [],
                           compiler.preprocessor())
    code = Path(path).read_text()
    flags = ["-O1" if flag == "-O3" else flag for flag in compiler.flags("x86-64-v3")]
    assert flags.count("-ffp-contract=off") == 1
    fuses = [flag.replace("-ffp-contract=off", "-ffp-contract=fast-honor-pragmas") for flag in flags]

    def fused(flags, first=""):
        out = tmp_path / "unit.s"
        (tmp_path / "again.cpp").write_text(first + code)
        subprocess.run([*compiler.command, *flags, "-S",
                        str(tmp_path / "again.cpp"), "-o", str(out)], check=True)
        return len(re.findall(r"\tvfn?m", out.read_text()))

    pragma = NO_CONTRACTION.replace("METAL", "clang") + "\n"
    assert fused(fuses, pragma) == fused(flags) < fused(fuses)
