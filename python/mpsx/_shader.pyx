"""Kernels compiled at run time: loading a compiled shader, and calling its kernels."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

import torch

cdef object Tensor = torch.Tensor
cdef object Parameter = torch.nn.Parameter
cdef object AcceleratorError = getattr(torch, "AcceleratorError", RuntimeError)

cdef extern from "c_api.h" nogil:
    ctypedef struct mpsx_list:
        pass
    ctypedef struct mpsx_row:
        const char *name
    size_t mpsx_list_length(const mpsx_list* list)
    mpsx_row mpsx_list_row(const mpsx_list* list, size_t index)
    void mpsx_list_free(mpsx_list* list)

    ctypedef struct mpsx_shader:
        pass
    ctypedef struct mpsx_shader_kernel:
        pass
    ctypedef struct mpsx_shader_kernel_info:
        uint32_t max_threads, simd_width, static_threadgroup_bytes
    ctypedef struct mpsx_shader_argument:
        const void* data
        size_t bytes
    ctypedef struct mpsx_shader_call:
        const mpsx_shader_argument* arguments
        size_t count
        uint64_t threads[3]
        uint64_t group[3]
        int error_buffer
    const char* mpsx_shader_load(const char* name, const char* path, const char* text, mpsx_shader** out)
    const char* mpsx_shader_kernels(mpsx_shader* shader, mpsx_list** out)
    const char* mpsx_shader_find(mpsx_shader* shader, const char* name, mpsx_shader_kernel** out,
                                 mpsx_shader_kernel_info* info)
    const char* mpsx_shader_run(mpsx_shader_kernel* kernel, const mpsx_shader_call* call, int* reported)


DEF MAX_BUFFERS = 31      # Metal's limit
DEF MAX_VALUE = 4096      # bytes of a value passed by setBytes, Metal's limit
DEF SLOT = 16             # a scalar's bytes; what a kernel reads beyond it is zero

cdef dict _TYPES = {
    "fp32": ("f", 4), "fp16": ("h", 2), "bf16": ("b", 2),
    "int64": ("i", 8), "int32": ("i", 4), "int16": ("i", 2), "int8": ("i", 1),
    "uint64": ("i", 8), "uint32": ("i", 4), "uint16": ("i", 2), "uint8": ("i", 1),
}


cdef int check(const char* message) except -1:
    if message != NULL:
        raise RuntimeError(message.decode())
    return 0


cdef uint16_t half_bits(float value) noexcept:
    """Rounded to nearest even; below 2^-14 the float adder rounds at the right bit when 0.5 is added."""
    cdef uint32_t u, sign, a
    cdef float small
    memcpy(&u, &value, 4)
    sign, a = (u >> 16) & 0x8000u, u & 0x7fffffffu
    if a > 0x7f800000u:
        return <uint16_t>(sign | 0x7e00u)
    if a >= 0x477ff000u:
        return <uint16_t>(sign | 0x7c00u)
    if a >= 0x38800000u:
        return <uint16_t>(sign | ((a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13))
    memcpy(&small, &a, 4)
    small += 0.5
    memcpy(&u, &small, 4)
    return <uint16_t>(sign | (u - 0x3f000000u))


cdef uint16_t bfloat_bits(float value) noexcept:
    cdef uint32_t u
    memcpy(&u, &value, 4)
    if (u & 0x7fffffffu) > 0x7f800000u:
        return <uint16_t>((u >> 16) | 0x40u)
    return <uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)


cdef class Kernel:
    """A kernel of a shader library. Call it with tensors on mpsx, numbers and lists of numbers, in buffer order.

    `threads`: the grid in threads, a number or up to three of them (default: as many as the first tensor has elements).
    `group_size`: threads per threadgroup, with as many numbers as `threads` (default: chosen).
    `arg_casts`: the type a number is passed as: one name for all, or a dict from argument index to name; "fp32",
    "fp16", "bf16", "int64", "int32", "int16", "int8" and the unsigned ones. Without it a float is a `float`, an int a
    `long`. `error_buf_idx`: the index of the buffer that TORCH_REPORT_ERROR (c10/metal/error.h) writes to; what a
    kernel reported is raised when it is done.
    """

    cdef mpsx_shader_kernel* handle
    cdef readonly str name
    cdef readonly unsigned max_threads_per_threadgroup
    cdef readonly unsigned thread_execution_width
    cdef readonly unsigned static_thread_group_memory_length

    def __init__(self):
        raise TypeError("kernels come from mpsx.compile_shader")

    def __repr__(self):
        return f"<mpsx kernel {self.name}>"

    def __call__(self, *args, threads=None, group_size=None, arg_casts=None, error_buf_idx=None):
        cdef mpsx_shader_argument arguments[MAX_BUFFERS]
        cdef char values[MAX_BUFFERS * SLOT]
        cdef mpsx_shader_call call
        cdef const char* message
        cdef int reported = 0, i = 0
        cdef list kept = None
        cdef object first = None, arg
        if len(args) > MAX_BUFFERS:
            raise RuntimeError(f"{self.name}: expected at most {MAX_BUFFERS} arguments, got {len(args)}")
        if arg_casts is not None and not isinstance(arg_casts, (str, dict)):
            raise RuntimeError(f"{self.name}: arg_casts: expected a type's name or a dict from argument index to name, "
                               f"got {type(arg_casts).__name__}")
        for arg in args:
            if type(arg) is Tensor or isinstance(arg, Tensor):
                if arg.device.type != "mpsx":
                    raise RuntimeError(
                        f"{self.name}: argument {i}: expected a tensor on mpsx, got one on {arg.device}; move it with "
                        "tensor.to('mpsx')" + (", or pass mpsx.device_view(tensor), which shares its memory"
                                               if arg.device.type == "cpu" else ""))
                arguments[i].data = <const void*><uintptr_t>arg.data_ptr()
                arguments[i].bytes = 0
                if first is None:
                    first = arg
            elif arg_casts is None and type(arg) is float:
                memset(values + i * SLOT, 0, SLOT)
                (<float*>(values + i * SLOT))[0] = <float><double>arg
                arguments[i].data = values + i * SLOT
                arguments[i].bytes = 4
            else:
                if kept is None:
                    kept = []
                self.add_value(&arguments[i], i, arg, arg_casts, kept)
            i += 1
        call.arguments = arguments
        call.count = i
        call.error_buffer = -1
        if error_buf_idx is not None:
            call.error_buffer = error_buf_idx
            if call.error_buffer < 0:
                raise ValueError(f"{self.name}: error_buf_idx: expected a buffer index, got {error_buf_idx}")
        if threads is None:
            if first is None:
                raise RuntimeError(f"{self.name}: threads: expected a number of threads where no argument is a tensor")
            call.threads[0], call.threads[1], call.threads[2] = first.numel(), 1, 1
            axes = 1
        else:
            axes = self.size("threads", threads, call.threads, 1)
        if group_size is None:
            call.group[0], call.group[1], call.group[2] = 0, 0, 0
        else:
            found = self.size("group_size", group_size, call.group, 1)
            if found != axes:
                raise RuntimeError(f"{self.name}: group_size: expected as many numbers as threads has ({axes}), "
                                   f"got {found}")
            limit = self.max_threads_per_threadgroup
            count = call.group[0] * call.group[1] * call.group[2]
            if count == 0 or count > limit or max(call.group[0], call.group[1], call.group[2]) > limit:
                raise ValueError(f"{self.name}: group_size: expected 1 to {limit} threads, got {group_size}")
        with nogil:
            message = mpsx_shader_run(self.handle, &call, &reported)
        if message != NULL:
            raise (AcceleratorError if reported else RuntimeError)(message.decode())

    cdef int size(self, str what, object value, uint64_t* out, uint64_t rest) except -1:
        """Fills three numbers; the count that were given."""
        cdef int n
        numbers = value if isinstance(value, (tuple, list, torch.Size)) else (value,)
        n = len(numbers)
        if not 1 <= n <= 3:
            raise RuntimeError(f"{self.name}: {what}: expected a number or up to three, got {value!r}")
        out[0], out[1], out[2] = rest, rest, rest
        for i in range(n):
            try:
                number = numbers[i].__index__()
            except AttributeError:
                number = -1
            if number < 0 or number > 0xffffffff:
                raise RuntimeError(f"{self.name}: {what}: expected whole numbers from 0 to 2^32-1, got {value!r}")
            out[i] = number
        return n

    cdef int add_value(self, mpsx_shader_argument* argument, int i, object arg, object casts, list kept) except -1:
        """A number or a list of numbers, as bytes that `kept` keeps alive."""
        cast = casts.get(i) if type(casts) is dict else casts
        if cast is not None and cast not in _TYPES:
            raise RuntimeError(f"{self.name}: argument {i}: arg_casts: expected one of {', '.join(_TYPES)}, got {cast!r}")
        if isinstance(arg, (list, tuple)):
            if not arg:
                raise RuntimeError(f"{self.name}: argument {i}: expected at least one number, got an empty list")
            many = arg
        else:
            many = (arg,)
        if isinstance(many[0], float):
            natural = "fp32"
        elif hasattr(many[0], "__index__"):
            natural = "int64"
        elif hasattr(many[0], "__float__"):
            natural = "fp32"
        else:
            raise RuntimeError(f"{self.name}: argument {i}: expected a tensor on mpsx, a number or a list of numbers, "
                               f"got {type(many[0]).__name__}" + (" in a list" if many is arg else ""))
        kind, size = _TYPES[cast or natural]
        if len(many) * size > MAX_VALUE:
            raise RuntimeError(f"{self.name}: argument {i}: a list may have at most {MAX_VALUE} bytes, got "
                               f"{len(many)} numbers of {size}; pass a tensor")
        cdef bytes data = bytes((len(many) * size + SLOT - 1) // SLOT * SLOT)
        cdef char* to = PyBytes_AS_STRING(data)
        cdef float f
        cdef uint64_t n
        cdef uint16_t h
        for number in many:
            try:
                if kind == "i":
                    whole = int(number) if isinstance(number, float) else number.__index__()
                    if not -(1 << 63) <= whole < 1 << 64:
                        raise OverflowError(f"{whole} needs more than 64 bits")
                    n = <uint64_t>(whole & 0xffffffffffffffff)
                    memcpy(to, &n, size)
                else:
                    f = <float><double>float(number)
                    if kind == "f":
                        memcpy(to, &f, 4)
                    else:
                        h = half_bits(f) if kind == "h" else bfloat_bits(f)
                        memcpy(to, &h, 2)
            except (AttributeError, TypeError, ValueError, OverflowError) as error:
                raise RuntimeError(f"{self.name}: argument {i}: cannot pass {number!r} as {cast or natural}: {error}"
                                   ) from None
            to += <int>size
        kept.append(data)
        argument.data = PyBytes_AS_STRING(data)
        argument.bytes = len(many) * size
        return 0


cdef class Shader:
    """A loaded shader."""

    cdef mpsx_shader* handle

    def __init__(self, str name, str path=None, str text=None):
        """`path`: a compiled kernel library (host driver), or `text`: Metal source."""
        cdef bytes name_bytes = name.encode()
        cdef bytes path_bytes = path.encode() if path is not None else None
        cdef bytes text_bytes = text.encode() if text is not None else None
        check(mpsx_shader_load(name_bytes, NULL if path is None else PyBytes_AS_STRING(path_bytes),
                               NULL if text is None else PyBytes_AS_STRING(text_bytes), &self.handle))

    def names(self):
        """The kernels, sorted."""
        cdef mpsx_list* listing = NULL
        check(mpsx_shader_kernels(self.handle, &listing))
        try:
            return [mpsx_list_row(listing, i).name.decode() for i in range(mpsx_list_length(listing))]
        finally:
            mpsx_list_free(listing)

    def kernel(self, str name):
        """The kernel of that name, or None."""
        cdef mpsx_shader_kernel* handle = NULL
        cdef mpsx_shader_kernel_info info
        cdef bytes encoded = name.encode()
        cdef Kernel kernel
        check(mpsx_shader_find(self.handle, encoded, &handle, &info))
        if handle == NULL:
            return None
        kernel = Kernel.__new__(Kernel)
        kernel.handle = handle
        kernel.name = name
        kernel.max_threads_per_threadgroup = info.max_threads
        kernel.thread_execution_width = info.simd_width
        kernel.static_thread_group_memory_length = info.static_threadgroup_bytes
        return kernel
