"""A kernel's arguments, positions, and function constants, read from its module's metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..msl.attributes import GRID, POSITIONS
from .ir import AirError, Module, node, number, string

SPACES = {1: "device", 2: "constant", 3: "threadgroup"}
BUFFERS = ("air.buffer", "air.indirect_buffer")
# Unsupported kinds of arguments, with their names in Metal.
UNSUPPORTED = {
    "air.texture": "texture", "air.sampler": "sampler", "air.visible_function_table": "visible_function_table",
    "air.intersection_function_table": "intersection_function_table", "air.imageblock": "imageblock",
    "air.instance_acceleration_structure": "instance_acceleration_structure", "air.tensor": "tensor",
    "air.primitive_acceleration_structure": "primitive_acceleration_structure", "air.payload": "payload",
    "air.command_buffer": "command_buffer", "air.compute_pipeline_state": "compute_pipeline_state",
}  # fmt: skip
SCALARS = ("bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float")
VECTOR = re.compile(r"^(?:packed_)?([a-z]+)([234])$")
ATOMIC = re.compile(r"^(?:metal::)?(?:atomic_([a-z]+)|_?atomic<([a-z]+).*>)$")


@dataclass(frozen=True)
class Argument:
    """A parameter of a kernel: a buffer, threadgroup memory, or a position."""

    name: str
    type: str  # Metal's name for the type, without pointers
    space: str = ""  # "device", "constant", or "threadgroup"; "" for a position
    index: int = -1  # index of the buffer or the threadgroup memory
    position: str = ""  # "thread_position_in_grid", …
    is_reference: bool = False
    constant: str = ""  # name of the function constant that enables the argument

    @property
    def text(self) -> str:
        """The parameter in Metal's syntax."""
        if self.position:
            return f"{self.type} {self.name} [[{self.position}]]"
        return f"{self.space} {self.type}{'&' if self.is_reference else '*'} {self.name}"

    @property
    def element(self) -> str:
        """The element type as written by msl/element_types.py, or "" if it is a struct."""
        if atomic := ATOMIC.match(self.type):
            return f"atomic {atomic[1] or atomic[2]}"
        if vector := VECTOR.match(self.type):
            return f"{vector[1]} {vector[2]}" if vector[1] in SCALARS else ""
        return self.type if self.type in SCALARS else ""


@dataclass(frozen=True)
class Constant:
    """A function constant."""

    name: str
    type: str
    index: int
    symbol: str  # the global variable that holds its value
    required: bool

    @property
    def scalar(self) -> str:
        """The scalar type of its components."""
        found = VECTOR.match(self.type)
        return found[1] if found else self.type

    @property
    def components(self) -> int:
        """The number of components."""
        found = VECTOR.match(self.type)
        return int(found[2]) if found else 1


@dataclass
class Kernel:
    """A kernel. `unsupported` says why it cannot run here, or is "" if it can."""

    name: str
    symbol: str
    arguments: list[Argument] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    max_threads: int = 1024
    options: list[str] = field(default_factory=list)  # "denorms_disable", "fast_math_disable", …

    @property
    def reads_only_grid(self) -> bool:
        """Whether all position arguments are thread positions in the grid, which do not depend on threadgroups."""
        return all(POSITIONS[a.position].level == GRID for a in self.arguments if a.position)

    def describe(self, location: str) -> dict:
        """Return the kernel's description for the Python bindings, in the format of msl/library.py."""
        buffers = [a for a in self.arguments if a.index >= 0]
        used = {a.index for a in buffers if a.space != "threadgroup"}
        unused = [i for i in range(max(used, default=0)) if i not in used]  # calls may pass None for these
        return {
            "name": self.name,
            "location": location,
            "buffers": [{"index": a.index, "space": a.space, "name": a.name, "text": a.text,
                         "optional": bool(a.constant), "constant": a.constant} for a in buffers]
                       + [{"index": i, "space": "", "name": "", "text": "unused", "optional": True, "constant": ""}
                          for i in unused],
            "elements": [a.element for a in buffers] + [""] * len(unused),
            "constants": [{"name": c.name, "index": c.index, "type": c.type, "required": c.required}
                          for c in self.constants],
        }  # fmt: skip


def read(module: Module, name: str) -> Kernel:
    """Return the module's kernel. Raise AirError with the reason if it cannot run here."""
    try:
        return _kernel(module, name)
    except AirError:
        raise
    except (LookupError, ValueError) as error:
        raise AirError(f"expected a kernel's metadata, got {error!r}") from None


def _kernel(module: Module, name: str) -> Kernel:
    kernels = module.metadata.get("air.kernel")
    if not kernels:
        raise AirError("expected a kernel, got a function without the metadata air.kernel")
    items = node(module, kernels[0])
    kernel = Kernel(name, items[0].split("@", 1)[1])
    kernel.arguments = [_argument(module, item) for item in node(module, items[2])]
    for item in items[3:]:
        attribute = node(module, item)
        if attribute and string(attribute[0]) == "air.max_work_group_size":
            kernel.max_threads = number(attribute[1])
    kernel.constants = [_constant(node(module, item)) for item in module.metadata.get("air.function_constants", ())]
    options = (node(module, item) for item in module.metadata.get("air.compile_options", ()))
    kernel.options = [string(o[0]).removeprefix("air.compile.") for o in options]
    return kernel


def _argument(module: Module, item: str) -> Argument:
    items = node(module, item)
    words = [string(i) for i in items]
    values = dict(zip(words, [*items[1:], ""], strict=True))  # the item after each string
    name, type_name = (string(values.get(f"air.arg_{key}", "")) for key in ("name", "type_name"))
    kind = next((w for w in words if w.startswith("air.") and w != "air.function_constant"), "")
    constant = ""
    if "air.function_constant" in values:
        constant = string(node(module, values["air.function_constant"])[-1])
    if kind in BUFFERS:
        space = SPACES.get(number(values["air.address_space"]), "")
        if not space:
            raise AirError(f"argument '{name}' in address space {values['air.address_space']}")
        return Argument(name, type_name, space, number(values["air.location_index"]), "", "air.buffer_size" in values,
                        constant)  # fmt: skip
    position = kind.removeprefix("air.")
    if position in POSITIONS:
        return Argument(name, type_name, position=position)
    raise AirError(f"argument '{name}' of kind {UNSUPPORTED.get(kind, position)}")


def _constant(items: list[str]) -> Constant:
    return Constant(string(items[2]), string(items[1]), number(items[3]), items[0].split("@", 1)[1],
                    len(items) < 5 or items[4] == "i1 true")  # fmt: skip
