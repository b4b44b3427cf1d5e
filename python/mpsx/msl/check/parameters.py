"""Parameters of kernels and their attributes: Metal Shading Language Specification, section 5.2."""

import functools
from difflib import get_close_matches

from ..attributes import KERNEL, MODIFIERS, POSITIONS, RESOURCES, UNSUPPORTED
from ..parser import attributes
from .kernels import kernels
from .rules import rule
from .types import BUILTIN, declarator

HANDLES = tuple(
    """texture depth sampler imageblock visible_function_table intersection_function_table
    acceleration_structure instance_acceleration_structure primitive_acceleration_structure tensor mesh render_grid
    command_buffer compute_pipeline_state render_pipeline_state patch_control""".split()
)
# Attributes of functions, members and statements. Attributes with a namespace are not checked.
GENERAL = set(
    """maybe_unused nodiscard fallthrough likely unlikely deprecated noreturn visible stitchable id
    function_constant unroll always_inline noinline user noalias""".split()
)
GRAPHICS = set(
    """vertex_id instance_id base_vertex base_instance amplification_id amplification_count position
    front_facing point_coord sample_id sample_mask barycentric_coord primitive_id render_target_array_index
    viewport_array_index color depth stencil patch_id position_in_patch clip_distance point_size attribute flat
    center_perspective center_no_perspective centroid_perspective centroid_no_perspective sample_perspective
    sample_no_perspective shared invariant early_fragment_tests patch mesh object intersection raster_order_group
    payload stage_in texture sampler threads_per_mesh""".split()
)
KNOWN = GENERAL | GRAPHICS | set(POSITIONS) | set(RESOURCES) | set(UNSUPPORTED) | set(MODIFIERS) | set(KERNEL)


NOT_SUPPORTED = "is not supported: kernels take buffers, threadgroup memory and positions"


def parameters_of(unit, function):
    return [declarator(unit.src, begin, end) for begin, end in function.parameters]


def parameters(unit):
    return [(f, p) for f in kernels(unit) for p in parameters_of(unit, f)]


def parameter_attributes(unit, names):
    """Yield (kernel, parameter, attribute) for all attributes with one of these names."""
    return [(f, p, a) for f, p in parameters(unit) for a in p.attributes if a.name in names]


@rule
def unknown_attributes(unit):
    """Metal's compiler only warns about unknown attributes and ignores them. Here, a misspelled attribute is an error,
    because the kernel would run without it."""
    src = unit.src
    for i in unit.index.get("[", ()):
        stop = src.attribute_end(i)
        for a in attributes(src, i, stop + 1)[0] if stop is not None else ():
            if a.name in KNOWN or src.kinds[a.token] != "word":
                continue
            if meant := misspelled(a.name):
                yield a.token, f"unknown attribute '{a.name}'; did you mean '{meant}'?"
            else:
                yield a.token, f"unknown attribute '{a.name}' ignored", "warning"


@functools.cache
def misspelled(name):
    """Return the known attribute that `name` misspells, or None."""
    limit = 0 if len(name) < 4 else min(3, 1 + len(name) // 8)
    near = ((edit_distance(name, known), known) for known in KNOWN if abs(len(known) - len(name)) <= limit)
    distance, known = min(near, default=(limit + 1, ""))
    return known if distance <= limit else None


def edit_distance(a, b):
    """Return how many insertions, deletions, replacements, or swaps of adjacent letters turn `a` into `b`."""
    before, last = [], list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y)))
            if i > 1 and j > 1 and (a[i - 2], x) == (y, b[j - 2]):
                row[j] = min(row[j], before[j - 2] + 1)
        before, last = last, row
    return last[-1]


@rule
def attributes_of_other_stages(unit):
    """5.2.3: a kernel accepts only the input attributes in section 5.2.3.6."""
    for _, _, a in parameter_attributes(unit, GRAPHICS - set(UNSUPPORTED) - set(MODIFIERS)):
        yield a.token, f"invalid '{a.name}' attribute for input declaration in a kernel function (section 5.2.3.6)"


@rule
def textures_and_samplers(unit):
    """2.9, 2.10: textures, samplers, and other opaque handles are valid Metal, but mpsx does not support them."""
    for f, p in parameters(unit):
        word = p.base.split(" <")[0].split(" ")[-1]
        if word.startswith(HANDLES) and word not in ("tensor", *unit.tree.classes):
            yield p.begin, f"parameter '{p.label}' of kernel '{unit.name(f)}': {word} {NOT_SUPPORTED}"
        for a in p.attributes:
            if a.name in UNSUPPORTED and not word.startswith(HANDLES):
                yield a.token, f"[[{a.name}]] {NOT_SUPPORTED}"


@rule
def ray_tracing(unit):
    """2.17, 6.18: mpsx does not support ray tracing."""
    texts = unit.src.texts
    for i in unit.index.get("raytracing", ()):
        if texts[i + 1 : i + 2] == ["::"] or texts[i - 1] in ("::", "namespace", "using"):
            yield i, f"ray tracing {NOT_SUPPORTED}"


def is_handle(p):
    words = p.base.replace("::", " ").split()
    return any(w.startswith(HANDLES) for w in words) or any(a.name in UNSUPPORTED for a in p.attributes)


def is_tensor(unit, p):
    """Return whether a parameter is a Metal 4 tensor. Tensors are bound to buffer indices (section 2.21)."""
    return not p.shape and unit.tensor_types.arguments(p.base.split()) is not None


@rule
def parameters_have_a_source(unit):
    """5.2.3.6: a parameter passed by value needs a position attribute."""
    for _, p in parameters(unit):
        names = [a.name for a in p.attributes]
        known = any(n in POSITIONS or n in RESOURCES or n in GRAPHICS or misspelled(n) for n in names)
        if not p.shape and not is_handle(p) and not is_tensor(unit, p) and not known:
            near = next((n for name in names for n in get_close_matches(name, POSITIONS, 1, 0.75)), None)
            yield p.begin, (f"invalid type '{p.type_text}' for input declaration in a kernel function: parameter "
                            f"'{p.label}' is neither a buffer nor has a position attribute (section 5.2.3.6)"
                            + (f"; did you mean '{near}'?" if near else ""))


@rule
def types_of_positions(unit):
    """5.2.3.6, table 5.8: position parameters must be uint, ushort, or vectors of these, passed by value."""
    tree = unit.tree
    for f, p, a in parameter_attributes(unit, POSITIONS):
        allowed, base = POSITIONS[a.name].types, p.plain_type
        is_known = (base in BUILTIN or base in tree.classes) and base not in f.template and base not in tree.aliases
        if p.shape or (base not in allowed and is_known):
            reason = "it is passed by value" if p.shape else f"expected {', '.join(allowed)}"
            yield p.begin, f"type '{p.type_text}' is not valid for attribute '{a.name}': {reason}"


@rule
def types_of_the_grid_agree(unit):
    """5.2.3.6: the position in the grid and the size of the grid must have the same type."""
    for f in kernels(unit):
        found = [(a.name, p) for p in parameters_of(unit, f) for a in p.attributes
                 if a.name in ("thread_position_in_grid", "threads_per_grid")]
        types = [p.plain_type for _, p in found]
        if len(found) == 2 and types[0] != types[1] and set(types) <= {*POSITIONS[found[0][0]].types}:
            yield found[1][1].begin, (f"'{found[1][0]}' of type '{types[1]}' and '{found[0][0]}' of type '{types[0]}' "
                                      "must have the same type (section 5.2.3.6)")


@rule
def resource_indices(unit):
    """5.2.1: indices must range from 0 to 30, and no two parameters may share an index."""
    seen = {}
    for f, p, a in parameter_attributes(unit, RESOURCES):
        limit, argument = RESOURCES[a.name], (a.argument or "").replace(" ", "")
        if not argument:
            yield a.token, f"'{a.name}' attribute takes one argument"
        elif argument.lstrip("-").isdigit():
            key = f.name, a.name, int(argument)
            if not 0 <= int(argument) < limit:
                message = f"'{a.name}' attribute parameter is out of bounds: must be between 0 and {limit - 1}"
                yield a.token, message
            elif key in seen and not any(b.name == "function_constant" for b in p.attributes):
                yield a.token, f"cannot reserve '{a.name}' location at index {int(argument)}: '{seen[key]}' uses it"
            seen[key] = p.label


@rule
def repeated_attributes(unit):
    """5.2: each attribute may appear once per declaration, and each position attribute once per kernel."""
    for f in kernels(unit):
        positions = set()
        for p in parameters_of(unit, f):
            here = set()
            for a in p.attributes:
                if a.name in here or (a.name in POSITIONS and a.name in positions):
                    yield a.token, f"declaration with attribute '{a.name}' already specified"
                here.add(a.name)
            positions |= here
            sources = [a for a in p.attributes if a.name in POSITIONS or a.name in RESOURCES]
            if len({a.name for a in sources}) > 1:
                message = f"attributes '{sources[0].name}' and '{sources[1].name}' cannot both apply to one parameter"
                yield sources[1].token, message


@rule
def pointers_to_shared_memory(unit):
    """4, 5.2.1: a kernel's pointers and references must point to device, constant or threadgroup memory."""
    for _, p in parameters(unit):
        if p.pointers and {w for _, w in p.spaces} == {"thread"}:
            yield p.begin, (f"invalid address space qualification for kernel parameter '{p.type_text}': "
                            "expected device, constant or threadgroup (section 4)")


@rule
def resources_are_pointers(unit):
    """5.2.1: [[buffer]] requires a pointer or reference to device or constant memory. [[threadgroup]] requires one to
    threadgroup memory."""
    for f, p, a in parameter_attributes(unit, RESOURCES):
        words = {w for _, w in p.spaces}
        if is_tensor(unit, p) and a.name != "buffer":
            yield p.begin, f"type '{p.type_text}' is not valid for attribute '{a.name}': a tensor is a buffer"
        if is_handle(p) or is_tensor(unit, p) or len(RESOURCES.keys() & {b.name for b in p.attributes}) > 1:
            continue
        invalid = f"type '{p.type_text}' is not valid for attribute '{a.name}'"
        if not p.shape and p.base not in f.template and p.base not in unit.tree.aliases:
            yield p.begin, f"{invalid}: expected a pointer"
        elif a.name == "buffer" and "threadgroup" in words:
            yield p.begin, (f"invalid address space qualification for buffer pointee type '{p.type_text}': "
                            "expected device or constant (section 5.2.1)")
        elif a.name == "threadgroup" and words and "threadgroup" not in words:
            yield p.begin, f"{invalid}: expected threadgroup memory"
