#!/usr/bin/env python3
"""Static checks. `python tools/lint.py` runs all of them; `python tools/lint.py layers names` runs only these two.

Each check is a function that yields errors as `path:line: message`. The exit status is 1 if there are any errors."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {}
TOP_LEVEL = {"pyproject.toml", "CMakeLists.txt", "src", "metal", "python", "tests", "tools", "README.md", "LICENSE",
             "CONTRIBUTING.md", "CHANGELOG.md"}
SOURCE = {".cpp", ".h", ".mm", ".m", ".metal", ".def", ".py", ".pyx", ".cmake"}
TEXT = SOURCE | {".md", ".txt", ".toml", ".yml", ".js", ".css"}
LONGEST = 400

# Maps a folder of src/ to patterns for the paths that its files may #include. Subfolders may also include files from
# the same folder.
LAYERS = {
    "src/driver": (r"driver/\w+\.h", r"metal_stdlib/(kernel|profile)_abi\.h"),
    "src/runtime": (r"runtime/", r"driver/(driver|graph|reflection|tensor_argument)\.h", r"lib/types\.h"),
    "src/backend": (r"backend/", r"runtime/", r"driver/(kernel_profile|tensor_argument)\.h", r"c_api\.h"),
    "src/vendor": (r"backend/", r"runtime/"),
    "src/python": (r"python/",),
    "src/ops": (r"ops/\w+\.h", r"vendor/", r"backend/", r"runtime/", r"lib/\w+\.h"),
}
# Paths that a family of operators may include, besides its kernels' parameters and the elementwise launchers.
FAMILY_EDGES = {
    "attention": (r"ops/matmul/", r"ops/random/"),
    "conv": (r"ops/matmul/",),
    "index": (r"sort/",),
    "linalg": (r"ops/matmul/",),
    "pool": (r"ops/resample/",),
}
# Families without kernels. They may use the operators of all families.
COMPOSED = ("explicit", "sparse")
FAMILY_HEADER = r"\w+/\w*(params\.h|\.def)"

# Top-level folders of generated files that .gitignore lists.
BUILD_OUTPUTS = ("build", "dist")


# The only files that may call simd_* functions and barriers.
COLLECTIVES = ("metal/lib/threadgroup.h", "metal/lib/collective.h")

# Code that is not Metal, and conditions that depend on the driver. Metal does support noinline. Directly after * or &,
# an attribute would apply to the type instead of the parameter.
FOREIGN = re.compile(r"MPSX_VECTOR_BYTES|\b__builtin_\w+|\bext_vector_type\b|\bvector_size\b"
                     r"|\b__attribute__(?!\(\(noinline\)\))|[*&]\s*\[\[|^\s*#\s*(?:el)?if.*\bMPSX_(?:HOST|SIMT|CUDA|GENERAL)\b")


def check(function):
    CHECKS[function.__name__] = function
    return function


def files(*suffixes, under=""):
    """Return all tracked and new files. Without git (in an sdist), return all files except build outputs."""
    git = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], check=False, cwd=ROOT,
                         capture_output=True, text=True)
    if git.returncode == 0:
        names = git.stdout.splitlines()
    else:
        found = (p.relative_to(ROOT) for p in ROOT.rglob("*") if p.is_file())
        names = [p.as_posix() for p in found if p.parts[0] not in BUILD_OUTPUTS]
    wanted = (n for n in sorted(set(names)) if n.startswith(under) and (ROOT / n).is_file())
    return [ROOT / n for n in wanted if not suffixes or Path(n).suffix in suffixes]


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def without_comments(text):
    """Blank out comments and strings without changing line numbers."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def strict_findings(paths):
    """Yield the errors reported by the strict Metal check. Checks two files at a time."""
    from msl.check import check as check_metal
    from msl.compiler import find_compiler
    compiler, seen = find_compiler(), set()
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda p: check_metal(str(p), [str(ROOT / "metal")], compiler=compiler), paths):
            for d in found:
                if d not in seen:   # several files may include the same header
                    seen.add(d)
                    yield f"{name_of(Path(d.file).resolve())}:{d.line}:{d.column}: {d.message}"


@check
def kernels():
    """Reject code that Apple's compiler would reject (python/mpsx/msl/check) or that assumes a SIMD width."""
    yield from strict_findings(files(".metal", under="metal/"))
    for path in files(".metal", ".h", ".def", under="metal/"):
        name = name_of(path)
        if path.parent.name == "host":
            continue
        raw = path.read_text().split("\n")
        lines = without_comments(path.read_text()).split("\n")
        for i, line in enumerate(lines):
            call = re.search(r"\b(simd_\w+|quad_\w+|threadgroup_barrier|simdgroup_barrier)\s*\(", line)
            if call and name not in COLLECTIVES:
                yield f"{name}:{i + 1}: {call[1]} belongs in {' or '.join(COLLECTIVES)}"
            near = " ".join(lines[max(0, i - 2):i + 3])
            if (re.search(r"(?<![\w.\[])(31|32)u?\b(?!\.)", line) and re.search(r"simd|shuffle|\blane\b", near)
                    and "lint: width" not in raw[i]):
                yield f"{name}:{i + 1}: a literal {line.strip()!r} near SIMD code: use threads_per_simdgroup"


@check
def overlays():
    """Check that metal/ is plain Metal outside of host/, and that every file in host/ is used."""
    for path in files(".metal", ".h", ".def", under="metal/"):
        name = name_of(path)
        if path.parent.name == "host":
            beside = path.parent.parent / path.name
            others = (p for p in path.parent.glob("*.h") if p != path)
            if not (beside.exists() or beside.with_suffix(".metal").exists()
                    or any(f'host/{path.name}"' in p.read_text() or f'"{path.name}"' in p.read_text() for p in others)):
                yield f"{name}:1: neither the overlay of a file in {path.parent.parent.name}/, nor included by one"
            continue
        for number, line in enumerate(without_comments(path.read_text()).split("\n"), 1):
            if found := FOREIGN.search(line):
                yield f"{name}:{number}: {found[0].strip()} is not Metal; move it to {path.parent.name}/host/"


@check
def translate():
    """Check that kernel files translate, that host names are unique, and that only the tensor tier needs Metal 4."""
    from msl.compiler import find_compiler, is_tensor_source
    from msl.metal31 import later_features
    from msl.source import MslError
    from msl.translate import load
    preprocessor, owner = find_compiler().preprocessor(), {}
    for path in files(".metal", under="metal/"):
        try:
            src, module, _ = load(str(path), [str(ROOT / "metal")], [], preprocessor)
        except MslError as e:
            yield str(e)
            continue
        later = () if is_tensor_source(path.name) else later_features(src)
        yield from (f"{name_of(Path(d.file).resolve())}:{d.line}:{d.column}: {d.message}" for d in later)
        for instance in module.instances:
            first = owner.setdefault(instance.host_name, name_of(path))
            if first != name_of(path):
                yield f"{name_of(path)}:1: {first} also defines kernel {instance.host_name}"


def allowed_includes(name):
    """Return patterns for the paths that a file may include, or () if the file does not belong to a layer."""
    folders = name.split("/")[:-1]
    if folders[0] == "metal":
        return (r"lib/", rf"{folders[1]}/") if folders[1:] else ()
    layer = "/".join(folders[:2])
    if layer not in LAYERS:
        return ()
    allowed = (*LAYERS[layer], *(f"{folders[1]}/{inner}/" for inner in folders[2:3]))
    if layer != "src/ops":
        return allowed
    if not folders[2:]:
        return (*allowed, FAMILY_HEADER)
    family = folders[2]
    if family in COMPOSED:
        return (*allowed, r"ops/", FAMILY_HEADER)
    return (*allowed, r"ops/elementwise/", rf"{family}/", *FAMILY_EDGES.get(family, ()))


@check
def layers():
    """Check that includes only point down the layers (ops, vendor, backend, runtime, driver) and do not cross
    families."""
    for path in files(".cpp", ".h", ".mm", ".metal", ".def"):
        name = name_of(path)
        allowed = allowed_includes(name)
        for number, line in enumerate(path.read_text().split("\n") if allowed else (), 1):
            include = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not include or "/" not in include[1] or (path.parent / include[1]).is_file():
                continue  # included from the same folder or from a subfolder
            if not re.match("|".join(allowed), include[1]):
                yield f"{name}:{number}: {'/'.join(name.split('/')[:3])} must not include {include[1]}"


def lines_of(*suffixes, under):
    """Yield the location and text of every line, with comments and strings removed."""
    for path in files(*suffixes, under=under):
        for number, line in enumerate(without_comments(path.read_text()).split("\n"), 1):
            yield f"{name_of(path)}:{number}", line


@check
def launchers():
    """Check that launchers do not depend on the driver in use. Launch uses the driver's traits to split the work."""
    for location, line in lines_of(".cpp", ".h", under="src/ops/"):
        found = re.search(r"driver\(\)\.info\(\)|traits\(\)\.(?!uses_process_memory|memory\b)\w+|MPSX_DRIVER", line)
        if found:
            yield f"{location}: a launcher must not depend on {found[0]}"


@check
def families():
    """Check that src/ops/<family> mirrors metal/<family>, except for families without kernels."""
    known = {p.parent.name for p in files(".metal", under="metal/")} | set(COMPOSED)
    for path in files(".cpp", ".h", under="src/ops/"):
        family = name_of(path).split("/")[2]
        if path.parent.name != "ops" and family not in known:
            yield f"{name_of(path)}:1: metal/{family} has no kernels"


@check
def comments():
    """Reject comments that begin with 'What', and lines of more than 120 columns."""
    for path in files(*SOURCE):
        if path.name in ("lint.py", "page.css"):
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if re.match(r"\s*(//|#|\"\"\")\s?What\s(?!.*\?)", line):
                yield f"{name_of(path)}:{number}: a comment that begins with 'What': {line.strip()}"
            if len(line) > 120 and not re.search("://|_Pragma|#define|noqa|raise ", line) and "msl" not in path.parts:
                yield f"{name_of(path)}:{number}: {len(line)} columns; at most 120"


@check
def vocabulary():
    """Reject retired identifiers and phrases (tools/vocabulary.py)."""
    from vocabulary import ALLOWED, findings
    used = set()
    for path in files():
        if path.suffix in TEXT or path.parent.name == ".ci":
            yield from findings(name_of(path), path.read_text(), used) if path.name != "vocabulary.py" else ()
    for file, pattern, _ in (entry for entry in ALLOWED if entry not in used):
        yield f"tools/vocabulary.py:1: {file} no longer contains {pattern!r}: remove the entry from ALLOWED"


@check
def names():
    """Check top-level entries, file lengths, and leftover TODOs."""
    everything = files()
    for entry in sorted({name_of(p).split("/")[0] for p in everything}):
        if entry not in TOP_LEVEL and not entry.startswith("."):
            yield f"{entry}:1: not among the top-level entries ({', '.join(sorted(TOP_LEVEL))})"
    for path in everything:
        if path.suffix not in SOURCE and path.name != "CMakeLists.txt":
            continue
        text = path.read_text()
        count = text.count("\n")
        if count > LONGEST:
            yield f"{name_of(path)}:{LONGEST}: {count} lines; a file has one job and at most {LONGEST} lines"
        for number, line in enumerate(text.split("\n"), 1):
            if re.search(r"\b(TODO|FIXME|XXX)\b", line) and path != Path(__file__).resolve():
                yield f"{name_of(path)}:{number}: leftover: {line.strip()}"


@check
def ruff():
    """Check the Python code with ruff if it is installed."""
    try:
        run = subprocess.run([sys.executable, "-m", "ruff", "check", "--output-format=concise", "--quiet", str(ROOT)],
                             check=False, capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return
    if "No module named ruff" in run.stderr:
        return
    yield from (line for line in (run.stdout + run.stderr).splitlines() if line.strip())


def main(wanted):
    unknown = [w for w in wanted if w not in CHECKS]
    if unknown:
        print(f"no check named {', '.join(unknown)}; expected some of {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    bad = 0
    for name in wanted or CHECKS:
        findings = list(CHECKS[name]())
        bad += len(findings)
        for finding in findings:
            print(f"{finding} [{name}]")
    print(f"{bad} findings" if bad else "clean")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
