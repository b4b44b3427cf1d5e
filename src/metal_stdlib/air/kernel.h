// Arguments and positions for kernels from metallibs. A kernel's entry point is LLVM IR that calls these functions.
#pragma once

// python/mpsx/air/entry.py repeats this layout, because the entry point builds the kernel record in LLVM IR.
static_assert(sizeof(mpsx_kernel_record) == 64 && __builtin_offsetof(mpsx_kernel_record, constant_count) == 56,
              "change air/entry.py along with mpsx_kernel_record");
static_assert(sizeof(mpsx_kernel_table_t) == 40 && __builtin_offsetof(mpsx_kernel_table_t, isa) == 32,
              "change air/entry.py along with mpsx_kernel_table_t");
static_assert(sizeof(mpsx_function_constant) == 32 && __builtin_offsetof(mpsx_function_constant, components) == 24,
              "change air/entry.py along with mpsx_function_constant");

MPSX_AIR void* mpsx_air_argument(void* const* args, unsigned index) {
  return ((void* const MPSX_UNCHECKED_SPACE*)args)[index];
}
// Returns the argument for a parameter that a function constant may disable.
MPSX_AIR void* mpsx_air_optional_argument(void* const* args, unsigned index) {
  return mpsx::address_or_zero<char*>(mpsx_air_argument(args, index));
}
MPSX_AIR void* mpsx_air_threadgroup_variable(unsigned key, unsigned bytes, const char* name) {
  return mpsx_simt_threadgroup_variable(key, bytes, name);
}

#define MPSX_AIR_POSITION(NAME, EXPRESSION)                                                                           \
  MPSX_AIR unsigned mpsx_air_##NAME(const mpsx_launch* plain_launch, const mpsx_thread* plain_thread, unsigned d) {   \
    const auto* const launch = (const MPSX_UNCHECKED_SPACE mpsx_launch*)plain_launch;                                 \
    const auto* const thread = (const MPSX_UNCHECKED_SPACE mpsx_thread*)plain_thread;                                 \
    const auto* const group = (const MPSX_UNCHECKED_SPACE mpsx_threadgroup*)thread->group;                            \
    (void)launch, (void)group, (void)d;                                                                               \
    return EXPRESSION;                                                                                                \
  }
#define MPSX_AIR_DISPATCHED (launch->group[0] * launch->group[1] * launch->group[2])
MPSX_AIR_POSITION(thread_position_in_grid, group->origin[d] + thread->local[d])
MPSX_AIR_POSITION(threads_per_grid, launch->threads[d])
MPSX_AIR_POSITION(grid_origin, 0)
MPSX_AIR_POSITION(grid_size, launch->threads[d])
MPSX_AIR_POSITION(threadgroup_position_in_grid, group->position[d])
MPSX_AIR_POSITION(threadgroups_per_grid, launch->groups[d])
MPSX_AIR_POSITION(thread_position_in_threadgroup, thread->local[d])
MPSX_AIR_POSITION(thread_index_in_threadgroup, thread->index)
MPSX_AIR_POSITION(threads_per_threadgroup, group->size[d])
MPSX_AIR_POSITION(dispatch_threads_per_threadgroup, launch->group[d])
MPSX_AIR_POSITION(thread_index_in_simdgroup, thread->lane)
MPSX_AIR_POSITION(simdgroup_index_in_threadgroup, thread->simdgroup)
MPSX_AIR_POSITION(simdgroups_per_threadgroup, group->simdgroups)
MPSX_AIR_POSITION(dispatch_simdgroups_per_threadgroup, (MPSX_AIR_DISPATCHED + MPSX_SIMD_WIDTH - 1) / MPSX_SIMD_WIDTH)
MPSX_AIR_POSITION(threads_per_simdgroup, MPSX_SIMD_WIDTH)
MPSX_AIR_POSITION(thread_execution_width, MPSX_SIMD_WIDTH)
MPSX_AIR_POSITION(thread_index_in_quadgroup, thread->lane % 4)
MPSX_AIR_POSITION(quadgroup_index_in_threadgroup, thread->index / 4)
MPSX_AIR_POSITION(quadgroups_per_threadgroup, (group->threads + 3) / 4)
MPSX_AIR_POSITION(dispatch_quadgroups_per_threadgroup, (MPSX_AIR_DISPATCHED + 3) / 4)
#undef MPSX_AIR_DISPATCHED
#undef MPSX_AIR_POSITION

// A kernel that reads only its position in the grid runs in a loop over threads. The kernel's module defines
// mpsx_air_thread.
MPSX_AIR unsigned mpsx_air_grid_size_of(const mpsx_launch* launch, unsigned d) { return launch->threads[d]; }
extern "C" void mpsx_air_thread(void* const* args, const mpsx_launch* launch, unsigned x, unsigned y, unsigned z);
MPSX_AIR void mpsx_air_loop(void* const* args, const mpsx_launch* launch, unsigned long long begin,
                            unsigned long long end) {
  mpsx::runs runs(launch->threads, begin, end);
  while (runs.next()) {
    const unsigned x0 = runs.x0, x1 = runs.x1, y = runs.y, z = runs.z;
    MPSX_VECTORIZE_LOOP
    for (unsigned x = x0; x < x1; ++x) mpsx_air_thread(args, launch, x, y, z);
  }
}
