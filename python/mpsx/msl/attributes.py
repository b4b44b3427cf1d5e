"""The attributes of a compute kernel's parameters, in one table that code generation and the checks share.

See the MSL specification 3.2, sections 5.2.3.6 (kernel function input attributes) and 5.2.1 (resources)."""

from dataclasses import dataclass

# The scope of a value: the whole grid, or the thread's threadgroup, SIMD group or quad group.
GRID, GROUP, SIMD, QUAD = "grid", "group", "simd", "quad"
# The kind of value: the index of a thread or threadgroup (from 0), or the number of threads or threadgroups (at least
# 1).
INDEX, COUNT = "index", "count"
SCALARS = ("ushort", "uint")
VECTORS = ("ushort2", "ushort3", "uint2", "uint3")


@dataclass(frozen=True)
class Attribute:
    """A position attribute. The launch supplies its value."""
    name: str
    level: str  # GRID, GROUP, SIMD or QUAD; all except GRID mean that the kernel uses threadgroups
    kind: str       # INDEX or COUNT
    vector: bool  # whether the value has x, y, and z; a parameter with fewer components receives the first ones
    field: str  # name of the value in code generation; synonyms share it

    @property
    def types(self):
        """The types that the parameter may have."""
        return SCALARS + VECTORS if self.vector else SCALARS


def _rows():
    three, one = True, False
    yield "thread_position_in_grid", GRID, INDEX, three, "thread_position_in_grid"
    yield "threads_per_grid", GRID, COUNT, three, "threads_per_grid"
    # grid_origin and grid_size depend on per-thread stage-in data. Without such data, they describe the whole grid.
    yield "grid_origin", GRID, INDEX, three, "grid_origin"
    yield "grid_size", GRID, COUNT, three, "threads_per_grid"
    yield "threadgroup_position_in_grid", GROUP, INDEX, three, "threadgroup_position_in_grid"
    yield "threadgroups_per_grid", GROUP, COUNT, three, "threadgroups_per_grid"
    yield "thread_position_in_threadgroup", GROUP, INDEX, three, "thread_position_in_threadgroup"
    yield "thread_index_in_threadgroup", GROUP, INDEX, one, "thread_index_in_threadgroup"
    # If the group size does not divide the grid, threads_per_threadgroup is smaller in the last threadgroups, while
    # dispatch_threads_per_threadgroup is always the requested size. SIMD-group and quad-group attributes behave the
    # same way.
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

# Maps each resource attribute to the exclusive upper bound of its index.
RESOURCES = {"buffer": 31, "threadgroup": 31}
# Metal attributes that mpsx does not support.
UNSUPPORTED = ("texture", "sampler", "stage_in", "payload", "visible_function_table", "imageblock", "intersection")
# Attributes that may accompany a resource. For example, `device float* x [[buffer(3), function_constant(has_x)]]` is an
# argument only if has_x is true.
MODIFIERS = ("function_constant", "raster_order_group", "maybe_unused", "noalias")
# Attributes of a kernel itself (section 5.1.3).
KERNEL = ("kernel", "host_name", "max_total_threads_per_threadgroup", "required_threads_per_threadgroup",
          "max_total_threadgroups_per_mesh_grid", "user_annotation", "visible", "maybe_unused", "always_inline",
          "noinline", "nodiscard")
