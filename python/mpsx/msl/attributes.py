"""The attributes of a compute kernel's parameters: one table, read by every emitter and by the strict check.

MSL specification 3.2, section 5.2.3.6 (kernel function input attributes) and 5.2.1 (resources)."""

from dataclasses import dataclass

# The unit that a value counts in: the whole grid, or a thread's threadgroup, SIMD group or quad group.
GRID, GROUP, SIMD, QUAD = "grid", "group", "simd", "quad"
# The value: the position of a thread or threadgroup (from 0), or how many there are (at least 1).
INDEX, COUNT = "index", "count"
SCALARS = ("ushort", "uint")
VECTORS = ("ushort2", "ushort3", "uint2", "uint3")


@dataclass(frozen=True)
class Attribute:
    """A parameter that the launch fills in."""
    name: str
    level: str      # GRID, GROUP, SIMD or QUAD; all but GRID make the kernel one of threadgroups
    kind: str       # INDEX or COUNT
    vector: bool    # whether it has an x, y and z, of which the parameter takes the first ones
    field: str      # the member of the thread's record that it reads; in wide mode "position" and "extent" are loops

    @property
    def types(self):
        """The types that the parameter may have."""
        return SCALARS + VECTORS if self.vector else SCALARS


def _rows():
    three, one = True, False
    yield "thread_position_in_grid", GRID, INDEX, three, "thread_position_in_grid"
    yield "threads_per_grid", GRID, COUNT, three, "threads_per_grid"
    # Of kernels with per-thread stage-in data; without it the whole grid, from its beginning.
    yield "grid_origin", GRID, INDEX, three, "grid_origin"
    yield "grid_size", GRID, COUNT, three, "threads_per_grid"
    yield "threadgroup_position_in_grid", GROUP, INDEX, three, "threadgroup_position_in_grid"
    yield "threadgroups_per_grid", GROUP, COUNT, three, "threadgroups_per_grid"
    yield "thread_position_in_threadgroup", GROUP, INDEX, three, "thread_position_in_threadgroup"
    yield "thread_index_in_threadgroup", GROUP, INDEX, one, "thread_index_in_threadgroup"
    # threads_per_threadgroup is smaller in the last threadgroups of a grid that the group does not divide;
    # dispatch_threads_per_threadgroup is what was asked for. The same goes for SIMD groups and quad groups.
    yield "threads_per_threadgroup", GROUP, COUNT, three, "threads_per_threadgroup"
    yield "dispatch_threads_per_threadgroup", GROUP, COUNT, three, "dispatch_threads_per_threadgroup"
    yield "thread_index_in_simdgroup", SIMD, INDEX, one, "thread_index_in_simdgroup"
    yield "simdgroup_index_in_threadgroup", SIMD, INDEX, one, "simdgroup_index_in_threadgroup"
    yield "simdgroups_per_threadgroup", SIMD, COUNT, one, "simdgroups_per_threadgroup"
    yield "dispatch_simdgroups_per_threadgroup", SIMD, COUNT, one, "dispatch_simdgroups_per_threadgroup"
    yield "threads_per_simdgroup", SIMD, COUNT, one, "threads_per_simdgroup"
    yield "thread_execution_width", SIMD, COUNT, one, "threads_per_simdgroup"
    yield "thread_index_in_quadgroup", QUAD, INDEX, one, "thread_index_in_quadgroup"
    yield "quadgroup_index_in_threadgroup", QUAD, INDEX, one, "quadgroup_index_in_threadgroup"
    yield "quadgroups_per_threadgroup", QUAD, COUNT, one, "quadgroups_per_threadgroup"
    yield "dispatch_quadgroups_per_threadgroup", QUAD, COUNT, one, "dispatch_quadgroups_per_threadgroup"


POSITIONS = {row[0]: Attribute(*row) for row in _rows()}

# Attributes of parameters that name a resource; the argument is its index, and the limit is the first index too large.
RESOURCES = {"buffer": 31, "threadgroup": 31}
# Those that exist, and that compute kernels here may not use.
UNSUPPORTED = ("texture", "sampler", "stage_in", "payload", "visible_function_table", "imageblock", "intersection")
# Beside a resource: `device float* x [[buffer(3), function_constant(has_x)]]` is an argument only if has_x.
MODIFIERS = ("function_constant", "raster_order_group", "maybe_unused", "noalias")
# Attributes of a kernel itself (section 5.1.3).
KERNEL = ("kernel", "host_name", "max_total_threads_per_threadgroup", "required_threads_per_threadgroup",
          "max_total_threadgroups_per_mesh_grid", "user_annotation", "visible", "maybe_unused", "always_inline",
          "noinline", "nodiscard")
