"""Pack the PTX that clang writes for each file into a library: compressed entry points and an index.

The GPU's driver compiles PTX when a kernel is first used, one kernel at a time. It compiles the entry point together
with the file's common part (variables, and functions that are not inlined).

A library consists of lines of text, followed by the code: of each unit the common part, and then its kernels. Each is
compressed separately, because a unit can have 50 MB, and a kernel 0.2. src/driver/cuda/ptx_library.h reads it.

    mpsx-ptx 5
    compiler <description>
    unit <compressed bytes of the common part> <bytes> <target, such as sm_80>
    kernel <compressed bytes> <bytes> <limit on threads, or 0> <symbol> <parameters> <name> <staging> <threads>
    end

Two units with different targets may contain the same kernel. The field "staging" is the dynamic shared memory that
tensor operations use: bytes per threadgroup, bytes per SIMD group, and the bytes that the kernel can use if no second
threadgroup runs on the multiprocessor, such as `99328:0:198656`, or 0. A kernel needs the larger sum of the first two.
The field "threads" is the number of threads that the driver adds to each threadgroup, for kernels with clusters.

A parameter is `p3`, the address of buffer 3; `v3:40:8`, the 40 bytes of buffer 3, aligned to 8; or `t1`, the offset of
[[threadgroup(1)]]. `-` means no parameters. Tabs separate the fields."""

import importlib.util
import json
import re
import shutil
import zlib
from pathlib import Path

from .codegen.cuda import DESCRIPTION
from .dependent_launch import place_wait, without_marks
from .source import MslError
from .tensor_cores import lower_matmuls

ENTRY = re.compile(r"^(?:\.visible |\.weak )?\.entry (\w+)\(", re.M)
PARAMETER = re.compile(r"\.param \.(?:align (\d+) \.b8|[bu]64|[bu]32)[^\[\],\n]*?(\w+_param_\d+)(?:\[(\d+)\])?")
LIMIT = re.compile(r"^\.visible \.global \.align 4 \.u32 mpsx_limit_(\w+) = (\d+);\n", re.M)
TARGET = re.compile(r"^\.target (sm_\w+)", re.M)
# Pseudo-instructions emitted by metal_stdlib/cuda/tensor/scope.h and ptx.h.
STAGING = re.compile(r"\tmpsx\.staging (\d+), (\d+), (\d+);\n")
STAGING_SIZE = re.compile(r"mpsx\.staging_size (%\w+);")
CLUSTER = re.compile(r"\tmpsx\.cluster (\d+), (\d+);\n")
SIMDGROUP_STAGING = re.compile(r"mpsx\.simdgroup_staging (%\w+), (\d+);")
HALF_MEMORY = 113 * 1024  # half the shared memory of a multiprocessor (metal_stdlib/cuda/tensor/warpgroup_multiply.h)
# The largest operand that register_multiply.h copies. The pipelines of the other operations need more.
SMALL_STAGING = 96 * 1024
# A variable in shared memory, and the padding that aligns the staging memory after it (scope.h).
SHARED_VARIABLE = re.compile(r"^(?!\.extern).*\.shared ", re.M)
STAGING_ALIGNMENT = 1024


def nvidia_program(name):
    """Return the path of ptxas or nvdisasm in NVIDIA's Python packages or in a CUDA toolkit, or None."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec and spec.submodule_search_locations) or ():
        if found := next(Path(folder).glob(f"cu*/bin/{name}"), None):
            return str(found)
    return shutil.which(name)


def split_entries(text):
    """Return the common part of a PTX file, and its entry points by symbol."""
    common, entries, at = [], {}, 0
    for m in ENTRY.finditer(text):
        if m.start() < at:
            continue
        end = text.index("\n}\n", m.end()) + 3
        common.append(text[at:m.start()])
        entries[m[1]] = text[m.start():end]
        at = end
    common.append(text[at:])
    # Remove clang's comments about the entry points.
    common = re.sub(r"^\s*//.*\n", "", "".join(common), flags=re.M)
    return common, entries


def parameters(kernel, entry):
    """Return the index field that describes a kernel's parameters, except for the grid."""
    head = entry[:entry.index("\n{")]
    found = PARAMETER.findall(head)
    wanted = [("b", b) for b in kernel["buffers"]] + [("t", t) for t in kernel["threadgroups"]]
    if len(found) != len(wanted) + 1:
        raise MslError(f"{kernel['name']}: expected {len(wanted) + 1} parameters in PTX, got {len(found)}")
    words = []
    for (kind, index), (alignment, _, size) in zip(wanted, found, strict=False):
        words.append(f"t{index}" if kind == "t" else f"v{index}:{size}:{alignment}" if size else f"p{index}")
    return " ".join(words) or "-"


def with_limit(entry, threads, staging=0, cluster=0):
    """Return the entry point with the kernel's thread limit, which determines how many registers a thread may use, and
    the number of threadgroups in a cluster. If the staging memory of two threadgroups fits in a multiprocessor, also
    let the two threadgroups share its registers."""
    if not threads:
        return entry
    brace = entry.index("\n{")
    groups = "\n.minnctapersm 2" if SMALL_STAGING < staging <= HALF_MEMORY else ""
    groups += f"\n.reqnctapercluster {cluster}, 1, 1" if cluster else ""
    return f"{entry[:brace]}\n.maxntid {threads}, 1, 1{groups}{entry[brace:]}"


class Staging:
    """The shared memory used by the tensor operations of one PTX file."""

    def __init__(self, text):
        self.per_simdgroup = max((int(m[2]) for m in SIMDGROUP_STAGING.finditer(text)), default=0)

    def lower(self, text, is_last=False):
        """Return the text with its pseudo-instructions replaced by PTX. `is_last` says that nothing follows the staging
        memory, so its size is that of dynamic shared memory."""
        text = STAGING_SIZE.sub(rf"mov.u32 \1, {'%dynamic_smem_size' if is_last else 0};", text)
        return STAGING.sub("", SIMDGROUP_STAGING.sub(rf"mov.u32 \1, {self.per_simdgroup};", text))

    def of_kernel(self, common, entry):
        """Return the kernel's staging bytes per threadgroup and per SIMD group, the bytes that it can use (0 if no more
        than it needs), and its number of threads (0 if that may vary)."""
        found = [[int(n) for n in m.groups()] for text in (common, entry) for m in STAGING.finditer(text)]
        uses_simdgroups = any(SIMDGROUP_STAGING.search(text) for text in (common, entry))
        size, most, threads = (max(column) for column in zip(*found, strict=True)) if found else (0, 0, 0)
        most = most + STAGING_ALIGNMENT if most > size else 0
        if size and any(SHARED_VARIABLE.search(text) for text in (common, entry)):
            size += STAGING_ALIGNMENT
        return size, self.per_simdgroup * uses_simdgroups, most, threads


def unit(description, text, level=9):
    """Return the index lines and the code of one PTX file, compressed with zlib at `level`."""
    limits = {m[1]: int(m[2]) for m in LIMIT.finditer(text)}
    common, entries = split_entries(LIMIT.sub("", text))
    staging = Staging(text)
    common_code = lower_matmuls(without_marks(staging.lower(common))).encode()
    parts, is_hopper = [zlib.compress(common_code, level)], target_of(text) == "sm_90a"
    lines = [f"unit\t{len(parts[0])}\t{len(common_code)}\t{target_of(text)}"]
    for kernel in description["kernels"]:
        symbol = kernel["symbol"]
        group, simdgroup, most, threads = staging.of_kernel(common, entries[symbol])
        limit = limits.get(symbol, 0) or threads
        # A kernel that declares its number of threads thereby chooses its number of registers.
        lowered = lower_matmuls(staging.lower(entries[symbol], not kernel["threadgroups"]))
        found = CLUSTER.search(lowered)
        cluster, additional = map(int, found.groups()) if found else (0, 0)
        shared = 0 if symbol in limits else group
        entry = with_limit(CLUSTER.sub("", lowered), limit and limit + additional, shared, cluster)
        if is_hopper:
            entry = place_wait(entry)
        code = entry.encode()
        parts.append(zlib.compress(code, level))
        lines.append("\t".join(["kernel", str(len(parts[-1])), str(len(code)), str(limit), symbol,
                                parameters(kernel, entry), kernel["name"], f"{group}:{simdgroup}:{most}",
                                str(additional)]))  # fmt: skip
    return lines, b"".join(parts)


def target_of(text):
    """Return the GPU architecture of a PTX file."""
    return TARGET.search(text)[1]


def pack(described, compiler, level=9):
    """Return the bytes of a library. `described` contains pairs of a description (CudaEmitter.description) and PTX."""
    lines, units, owner = ["mpsx-ptx 5", f"compiler\t{compiler}"], [], set()
    for description, text in described:
        for kernel in description["kernels"]:
            key = kernel["name"], target_of(text)
            if key in owner:
                raise MslError(f"kernel '{kernel['name']}' is defined twice")
            owner.add(key)
        if description["kernels"]:
            more, packed = unit(description, text, level)
            lines += more
            units.append(packed)
    return "\n".join([*lines, "end\n"]).encode() + b"".join(units)


def read_description(path):
    """Return the description in a C++ file written by `translate`."""
    with open(path) as f:
        for line in f:
            if line.startswith(DESCRIPTION):
                return json.loads(line[len(DESCRIPTION):])
    raise MslError(f"{path}: not a file that `translate --mode cuda` wrote")


def pack_files(out, sources, texts, compiler, level=9):
    """Write the library for translated C++ files and their PTX."""
    described = []
    for path, text in zip(sources, texts, strict=True):
        with open(text) as f:
            described.append((read_description(path), f.read()))
    with open(out, "wb") as f:
        f.write(pack(described, compiler, level))


def unpack(path):
    """Yield the name of each kernel, and the PTX that the loader would compile for it. For tests and tools."""
    with open(path, "rb") as f:
        data = f.read()
    head = data.index(b"\nend\n") + 5
    at, common = head, b""
    for line in data[:head].decode().splitlines():
        words = line.split("\t")
        if words[0] not in ("unit", "kernel"):
            continue
        code = zlib.decompress(data[at : at + int(words[1])])
        at += int(words[1])
        if words[0] == "unit":
            common = code
        else:
            yield words[6], (common + code).decode()
