"""Let kernels that use tensor operations prepare while the previous kernel finishes (programmatic dependent launch).

Every kernel waits for the previous one with `griddepcontrol.wait` (src/driver/cuda/dependent_launch.h). A tensor
operation first initializes barriers and writes tensor maps, which needs no memory of the previous kernel. Where it is
done, metal_stdlib/cuda/tensor/ptx.h emits the pseudo-instruction `mpsx.wait_for_previous_kernel`. It becomes the
kernel's wait if no instruction before it can access device memory. Otherwise, the kernel waits at its start, and so it
does if the operation is in a function that is not inlined."""

import re

MARK = "mpsx.wait_for_previous_kernel"
WAIT = "\tgriddepcontrol.wait;\n"
MARK_LINE = re.compile(rf"\t{re.escape(MARK)};\n")
RETURN = re.compile(r"^(\t(?:@!?%\w+\s+)?(?:ret|exit);)", re.M)
LABEL = re.compile(r"^(\$?\w+):$")
DIRECTIVE = re.compile(r"^\.[^;]*;?$")
INSTRUCTION = re.compile(r"^(?:@(?P<negated>!?)%\w+\s+)?(?P<name>[\w.:]+)\s*(?P<operands>[^;]*);$")
# State spaces that no other kernel can access, or that no kernel writes.
PRIVATE = re.compile(r"(?!.*\.global\b).*\.(?:param|shared|local|const)\b")
ACCESS = re.compile(r"(?:ld|ldu|st|atom|red|cp|prefetch|prefetchu|tex|tld4|suld|sust|sured|wmma|tensormap\.cp)[._]")
# A threadgroup claims a slot of device memory for its tensor maps and writes to it (metal_stdlib/cuda/tensor/tma.h).
# This needs no wait, because no other running threadgroup uses the slot. Nothing else emits these instructions: Metal's
# atomics are relaxed.
SLOT_ACCESS = ("atom.acquire.gpu.global.or.b32", "tensormap.cp_fenceproxy.")


def place_wait(entry):
    """Return the PTX of an entry point for sm_90 or later, with an instruction that waits for the previous kernel."""
    without = without_marks(entry)
    body = entry.index("\n{\n") + 3
    if without == entry or accesses_memory_before_mark(entry[body:]):
        return without[:body] + WAIT + without[body:]
    # A thread that returns early must wait too.
    return RETURN.sub(WAIT + r"\1", MARK_LINE.sub(lambda _: WAIT, entry)).replace(WAIT + WAIT, WAIT)


def without_marks(text):
    return MARK_LINE.sub("", text)


def accesses_memory_before_mark(body):
    """Return whether an instruction before the mark may access device memory, along any path of the control flow."""
    lines = [line.split("//")[0].strip() for line in body.splitlines()]
    labels = {}
    for i, line in enumerate(lines):
        if m := LABEL.match(line):
            labels[m[1]] = None if m[1] in labels else i  # inline assembly may repeat a label in braces
    pending, seen = [0], set()
    while pending:
        at = pending.pop()
        while at < len(lines) and at not in seen:
            seen.add(at)
            line, at = lines[at], at + 1
            if line in ("", "{", "}") or LABEL.match(line) or DIRECTIVE.match(line):
                continue
            m = INSTRUCTION.match(line)
            name = m["name"] if m else ""
            if not m or name.startswith(("call", "brx")):
                return True  # not followed, or several instructions in a line
            if ACCESS.match(name) and not PRIVATE.match(name) and not name.startswith(SLOT_ACCESS):
                return True
            if name.startswith("bra"):
                if labels.get(m["operands"]) is None:
                    return True
                pending.append(labels[m["operands"]])
            conditional = m["negated"] is not None
            if not conditional and (name == MARK or name.startswith("bra") or name in ("ret", "exit", "trap")):
                break
    return False
