"""Cython bindings for the C API (src/c_api.h). Errors are raised as the same exception types as in PyTorch."""

import sys
import warnings

from libc.stdint cimport uint32_t, uint64_t


cdef extern from "c_api.h" nogil:
    int MPSX_INDEX_ERROR, MPSX_OUT_OF_MEMORY, MPSX_ACCELERATOR_ERROR
    int mpsx_error_kind()

    ctypedef int (*mpsx_find_libraries)(const char** found)
    const char* mpsx_initialize(mpsx_find_libraries find)

    ctypedef struct mpsx_driver_info:
        const char *name, *device, *compiler, *isa, *gpu_family
        uint64_t total_memory
        uint64_t free_memory
        uint32_t simd_width
        uint32_t cores
        int asynchronous
        int uses_process_memory
    const char* mpsx_driver(mpsx_driver_info* out)
    int mpsx_driver_started()
    int mpsx_kernels_run_on_caller()
    const char* mpsx_cuda_unavailable_reason()
    const char* mpsx_set_mps_alias(int on)
    int mpsx_has_mps_alias()
    int mpsx_is_device_index(int index)
    int mpsx_device_count()
    const char* mpsx_synchronize()
    const char* mpsx_check_not_forked()

    ctypedef struct mpsx_memory_statistics:
        uint64_t allocated, allocated_peak, reserved, reserved_peak, allocated_total, freed_total
        uint64_t allocations, frees, active_blocks, active_blocks_peak, segments, segments_peak
        uint64_t retries, out_of_memory
    const char* mpsx_memory(mpsx_memory_statistics* out)
    const char* mpsx_empty_cache()
    const char* mpsx_reset_peak_memory()
    const char* mpsx_reset_accumulated_memory()
    const char* mpsx_set_memory_limit(uint64_t size)
    const char* mpsx_memory_limit(uint64_t* size)

    ctypedef int (*mpsx_warn_callback)(const char* message, const char** error)
    void mpsx_set_fallback_mode(int mode)
    int mpsx_fallback_mode()
    void mpsx_set_warn_callback(mpsx_warn_callback callback)
    void mpsx_reset_fallback()

    ctypedef struct mpsx_list:
        pass
    ctypedef struct mpsx_row:
        const char *name
        const char *library
        int route
        uint64_t calls, nanoseconds, bytes
    const char* mpsx_fallback_list(mpsx_list** out)
    const char* mpsx_profile_list(mpsx_list** out)
    const char* mpsx_kernel_list(mpsx_list** out)
    const char* mpsx_close_launch_log(mpsx_list** out)
    ctypedef struct mpsx_kernel_info:
        uint32_t max_threads, simd_width, static_threadgroup_bytes
    const char* mpsx_load_kernel(const char* name, mpsx_kernel_info* out)
    size_t mpsx_list_length(const mpsx_list* list)
    mpsx_row mpsx_list_row(const mpsx_list* list, size_t index)
    void mpsx_list_free(mpsx_list* list)

    const char* mpsx_begin_label(const char* name)
    const char* mpsx_end_label()
    const char* mpsx_start_capture(const char* path)
    const char* mpsx_stop_capture()

    ctypedef int (*mpsx_find_profiled)(const char* library, const char* kernel, const char** found)
    const char* mpsx_set_kernel_profile(mpsx_find_profiled find)
    const char* mpsx_take_profiled_launches(mpsx_list** out)

    void mpsx_set_profiling(int on)
    int mpsx_profiling()
    void mpsx_reset_profile()
    void mpsx_open_launch_log()


_ROUTES = ("native", "vendor", "fallback")
_error_text = b""  # owns the message that _warn returned


cdef int check(const char* message) except -1:
    if message != NULL:
        kind = mpsx_error_kind()
        if kind == MPSX_INDEX_ERROR:
            raise IndexError(message.decode())
        if kind in (MPSX_OUT_OF_MEMORY, MPSX_ACCELERATOR_ERROR):
            import torch

            raise (torch.OutOfMemoryError if kind == MPSX_OUT_OF_MEMORY else torch.AcceleratorError)(message.decode())
        raise RuntimeError(message.decode())
    return 0


cdef list rows(mpsx_list* listing):
    cdef mpsx_row row
    result = []
    try:
        for i in range(mpsx_list_length(listing)):
            row = mpsx_list_row(listing, i)
            result.append({
                "name": row.name.decode(), "library": row.library.decode(), "route": _ROUTES[row.route],
                "calls": row.calls, "nanoseconds": row.nanoseconds, "bytes": row.bytes,
            })
    finally:
        mpsx_list_free(listing)
    return result


def _caller_depth():
    """Return the stacklevel of the innermost frame outside torch and mpsx."""
    depth, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("torch", "mpsx"):
        depth, frame = depth + 1, frame.f_back
    return depth


cdef int _warn(const char* message, const char** error) noexcept with gil:
    global _error_text
    cdef bytes text
    try:
        try:
            level = _caller_depth()
        except ValueError:  # this thread has no Python frames
            return 0
        warnings.warn(message.decode(), UserWarning, stacklevel=level)
        return 1
    except BaseException as failure:
        text = str(failure).encode()
        _error_text = text
        error[0] = text
        return -1


_libraries = None
_found = b""  # owns the text that _find_libraries returned


cdef int _find_libraries(const char** found) noexcept with gil:
    global _found
    cdef bytes text
    cdef int success = 0
    try:
        text = _libraries().encode()
        success = 1
    except BaseException as failure:
        text = str(failure).encode()
    _found = text
    found[0] = text
    return success


def initialize(libraries):
    """Register the device with PyTorch. `libraries()` returns the folder of kernel libraries when the driver starts."""
    global _libraries
    _libraries = libraries
    check(mpsx_initialize(_find_libraries))
    mpsx_set_warn_callback(_warn)


def driver():
    """Describe the driver in use."""
    cdef mpsx_driver_info info
    check(mpsx_driver(&info))
    return {
        "name": info.name.decode(), "device": info.device.decode(), "compiler": info.compiler.decode(),
        "isa": info.isa.decode(), "gpu_family": info.gpu_family.decode(), "total_memory": info.total_memory,
        "free_memory": info.free_memory,
        "simd_width": info.simd_width, "cores": info.cores, "asynchronous": bool(info.asynchronous),
        "adopts_memory": bool(info.uses_process_memory),
    }


def cuda_unavailable_reason():
    """Return why the cuda driver is not available, or "" if it is."""
    return mpsx_cuda_unavailable_reason().decode()


def driver_started():
    """Return whether the driver has started."""
    return bool(mpsx_driver_started())


def kernels_run_on_caller():
    """Return whether kernels run on the thread that launches them, as on the host and simt drivers."""
    return bool(mpsx_kernels_run_on_caller())


def set_mps_alias(bint on):
    """Rename the device to "mps", or back to "mpsx"."""
    check(mpsx_set_mps_alias(on))


def device_type():
    """Return the device's current name: "mpsx", or "mps" while it has that alias."""
    return "mps" if mpsx_has_mps_alias() else "mpsx"


def is_device_index(int index):
    """Return whether an index is valid for the device."""
    return bool(mpsx_is_device_index(index))


def device_count():
    """Return the number of processes that share the device."""
    return mpsx_device_count()


def synchronize():
    """Wait for all submitted work."""
    cdef const char* message
    with nogil:
        message = mpsx_synchronize()
    check(message)


def restart_check():
    """Raise in a forked process whose parent used an asynchronous driver."""
    check(mpsx_check_not_forked())


def memory():
    """Return the caching allocator's statistics."""
    cdef mpsx_memory_statistics s
    check(mpsx_memory(&s))
    return {
        "allocated": s.allocated, "allocated_peak": s.allocated_peak,
        "reserved": s.reserved, "reserved_peak": s.reserved_peak,
        "allocated_total": s.allocated_total, "freed_total": s.freed_total,
        "allocations": s.allocations, "frees": s.frees,
        "active_blocks": s.active_blocks, "active_blocks_peak": s.active_blocks_peak,
        "segments": s.segments, "segments_peak": s.segments_peak,
        "retries": s.retries, "out_of_memory": s.out_of_memory,
    }


def empty_cache():
    """Release cached memory to the driver."""
    check(mpsx_empty_cache())


def reset_peak_memory():
    """Reset the peaks to the current values."""
    check(mpsx_reset_peak_memory())


def reset_accumulated_memory():
    """Reset the accumulated statistics to zero."""
    check(mpsx_reset_accumulated_memory())


def set_memory_limit(uint64_t size):
    """Limit reserved memory to `size` bytes."""
    check(mpsx_set_memory_limit(size))


def memory_limit():
    """Return the limit of reserved memory in bytes."""
    cdef uint64_t size = 0
    check(mpsx_memory_limit(&size))
    return size


def set_fallback_mode(int mode):
    """Set the fallback mode, an index into fallback.MODES."""
    mpsx_set_fallback_mode(mode)


def fallback_mode():
    """Return the fallback mode, an index into fallback.MODES."""
    return mpsx_fallback_mode()


def reset_fallback():
    """Clear the fallback counts, and the set of operators that have issued a warning."""
    mpsx_reset_fallback()


def fallback_rows():
    """Return one row for each operator that fell back."""
    cdef mpsx_list* listing = NULL
    check(mpsx_fallback_list(&listing))
    return rows(listing)


def profile_rows():
    """Return one row for each kernel or operator that ran."""
    cdef mpsx_list* listing = NULL
    check(mpsx_profile_list(&listing))
    return rows(listing)


def kernel_names():
    """Return the names of all kernels in the library in use."""
    cdef mpsx_list* listing = NULL
    check(mpsx_kernel_list(&listing))
    return [row["name"] for row in rows(listing)]


def load_kernel(str name):
    """Load a kernel and return its limits."""
    cdef mpsx_kernel_info facts
    check(mpsx_load_kernel(name.encode(), &facts))
    return {"max_threads": facts.max_threads, "simd_width": facts.simd_width,
            "static_threadgroup_bytes": facts.static_threadgroup_bytes}


def open_launch_log():
    """Start recording the names of kernels and operators that run."""
    mpsx_open_launch_log()


def close_launch_log():
    """Stop recording and return the names."""
    cdef mpsx_list* listing = NULL
    check(mpsx_close_launch_log(&listing))
    return [row["name"] for row in rows(listing)]


def set_profiling(bint on):
    """Switch timing of kernels and vendor calls on or off."""
    mpsx_set_profiling(on)


def profiling():
    """Return whether kernels are timed."""
    return bool(mpsx_profiling())


def reset_profile():
    """Reset the counts and times."""
    mpsx_reset_profile()


def begin_label(str name):
    """Label this thread's launches until `end_label`. Labels nest."""
    check(mpsx_begin_label(name.encode()))


def end_label():
    """End this thread's innermost label."""
    check(mpsx_end_label())


def start_capture(str path):
    """Start a Metal capture to a file."""
    check(mpsx_start_capture(path.encode()))


def stop_capture():
    """Stop the capture."""
    check(mpsx_stop_capture())


_profiled = None
_profiled_text = b""  # owns the text that _find_profiled returned


cdef int _find_profiled(const char* library, const char* kernel, const char** found) noexcept with gil:
    global _profiled_text
    try:
        text = _profiled(library.decode(), kernel.decode()).encode()
        succeeded = 1
    except BaseException as failure:
        text = str(failure).encode()
        succeeded = 0
    _profiled_text = text  # keeps the bytes alive
    found[0] = text
    return succeeded


def set_kernel_profile(find):
    """Profile launches on the simt driver. `find(library, kernel)` compiles an instrumented kernel. None stops
    profiling."""
    global _profiled
    cdef const char* error
    cdef mpsx_find_profiled callback = NULL
    if find is not None:
        _profiled = find
        callback = _find_profiled
    with nogil:  # another thread's launch may need the GIL to compile its kernel
        error = mpsx_set_kernel_profile(callback)
    check(error)


def take_profiled_launches():
    """Return (name, counts as JSON) for each kernel profiled since the previous call."""
    cdef mpsx_list* listing = NULL
    check(mpsx_take_profiled_launches(&listing))
    return [(row["name"], row["library"]) for row in rows(listing)]


include "_tuning.pxi"
