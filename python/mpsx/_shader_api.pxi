# The limits, the parts of src/c_api.h and src/python/tensor.h, and the conversions that _shader.pyx uses.
DEF MAX_BUFFERS = 31      # Metal's limit
DEF MAX_VALUE = 4096      # Metal's limit for setBytes
DEF SLOT = 16  # bytes per scalar argument, zero-padded in case a kernel reads a wider type
DEF MAX_THREADS = 1024    # per threadgroup
DEF MAX_SHARED = 32768    # bytes of threadgroup memory on Apple GPUs since family 4 (Metal feature set tables)
DEF MAX_ARGUMENTS = 62
DEF MAX_DIMENSIONS = 64

cdef dict _TYPES = {
    "fp32": ("f", 4), "fp16": (torch.float16, 2), "bf16": (torch.bfloat16, 2),
    "int64": ("i", 8), "int32": ("i", 4), "int16": ("i", 2), "int8": ("i", 1),
    "uint64": ("i", 8), "uint32": ("i", 4), "uint16": ("i", 2), "uint8": ("i", 1),
}

cdef extern from "c_api.h" nogil:
    int MPSX_SYNTAX_ERROR, MPSX_ACCELERATOR_ERROR
    int mpsx_error_kind()
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
        uint32_t max_threads, simd_width, static_threadgroup_bytes, bindings_known, buffers, threadgroups, tensors
    ctypedef struct mpsx_shader_tensor:
        const void* data
        int64_t sizes[8]
        int64_t strides[8]
        uint32_t rank
        const char* element
        const void* handle
        size_t offset
    ctypedef struct mpsx_shader_argument:
        const void* data
        size_t bytes
        int threadgroup
        int tensor
        size_t pointers
    ctypedef struct mpsx_shader_call:
        const mpsx_shader_argument* arguments
        size_t count
        uint64_t threads[3]
        uint64_t group[3]
        int error_buffer
    const char* mpsx_shader_load(const char* name, const char* path, const char* text, mpsx_shader** out)
    void mpsx_shader_free(mpsx_shader* shader)
    const char* mpsx_shader_kernels(mpsx_shader* shader, mpsx_list** out)
    const char* mpsx_shader_find(mpsx_shader* shader, const char* name, mpsx_shader_kernel** out,
                                 mpsx_shader_kernel_info* info)
    const char* mpsx_shader_run(mpsx_shader_kernel* kernel, const mpsx_shader_call* call)

cdef extern from "python/tensor.h":
    int mpsx_device_tensor(object tensor, const void** data, int* dtype)
    int mpsx_describe_tensor(object tensor, mpsx_shader_tensor* out) except -1
    object mpsx_empty_strided(const int64_t* size, const int64_t* stride, size_t dimensions, object dtype)
    int mpsx_has_layout(object tensor, const int64_t* size, const int64_t* stride, size_t dimensions)

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow)


cdef int check(const char* message) except -1:
    if message != NULL:
        raise (SyntaxError if mpsx_error_kind() == MPSX_SYNTAX_ERROR else RuntimeError)(message.decode())


cdef class TensorParameter:
    """The Metal 4 tensors that a kernel's parameter accepts."""

    cdef dict buffer  # the parameter (see msl/library.py), or None if the driver checks its rank and type
    cdef bytes element
    cdef int64_t largest  # limit of sizes and strides
    cdef uint32_t rank
    cdef int64_t extents[8]

    def __init__(self, dict buffer):
        cdef int d = 0
        self.buffer = buffer
        self.element, self.largest, extents = rule(buffer)
        self.rank = len(extents)
        for extent in extents:
            self.extents[d] = extent
            d += 1

    cdef int describe(self, str kernel, int i, object arg, mpsx_shader_tensor* out) except -1:
        """Describe argument `i` of a kernel in `out`. Raise RuntimeError if the parameter does not accept it."""
        if not mpsx_describe_tensor(arg, out) or not self.accepts(out):
            reject_tensor(kernel, i, self.buffer, arg)
        return 0

    cdef bint accepts(self, const mpsx_shader_tensor* tensor):
        cdef uint32_t d
        if self.rank and tensor.rank != self.rank or self.element and strcmp(self.element, tensor.element):
            return False
        for d in range(tensor.rank):
            if self.rank and self.extents[d] != ANY and self.extents[d] != tensor.sizes[d]:
                return False
            if tensor.sizes[d] > self.largest or tensor.strides[d] > self.largest:
                return False
        return True


cdef bint fits_int64(object number, int64_t* out):
    """Store an int, and return whether it has at most 64 bits including its sign."""
    cdef int overflow
    out[0] = PyLong_AsLongLongAndOverflow(number, &overflow)
    return not overflow


cdef bytes packed(str kernel, int i, object numbers, str cast):
    """Return argument `i`, numbers of a type in _TYPES, as bytes padded with zeros."""
    kind, size = _TYPES[cast]
    cdef size_t bytes_each = size
    cdef bint is_integer = kind == "i"
    cdef bytes data = bytes((len(numbers) * size + SLOT - 1) // SLOT * SLOT)
    cdef char* to = PyBytes_AS_STRING(data)
    cdef float f
    cdef uint64_t n
    for number in numbers:
        if is_integer and type(number) is int and fits_int64(number, <int64_t*>&n):
            memcpy(to, &n, bytes_each)
            to += bytes_each
            continue
        try:
            if is_integer:
                integer = int(number) if isinstance(number, float) else number.__index__()
                if not -(1 << 63) <= integer < 1 << 64:
                    raise OverflowError(f"{integer} needs more than 64 bits")
                n = <uint64_t>(integer & 0xffffffffffffffff)
                memcpy(to, &n, bytes_each)
            else:
                f = <float><double>float(number)
                if kind == "f":
                    memcpy(to, &f, 4)
                else:
                    n = torch.tensor(f, dtype=kind).view(torch.int16).item() & 0xffff
                    memcpy(to, &n, 2)
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise RuntimeError(f"{kernel}: argument {i}: cannot pass {number!r} as {cast}: {error}") from None
        to += bytes_each
    return data


cdef struct Layout:
    int64_t size[MAX_DIMENSIONS]
    int64_t stride[MAX_DIMENSIONS]
    Py_ssize_t dimensions


cdef bint read_layout(tuple size, tuple stride, Layout* to) except -1:
    """Read sizes and strides. Return False if there are too many dimensions, or not as many sizes as strides."""
    cdef Py_ssize_t i
    to.dimensions = len(size)
    if to.dimensions > MAX_DIMENSIONS or len(stride) != to.dimensions:
        return False
    for i in range(to.dimensions):
        to.size[i], to.stride[i] = size[i], stride[i]
    return True


def empty_strided_mpsx(tuple size not None, tuple stride not None, object dtype not None):
    """Return a new tensor. The code that Inductor generates calls this."""
    cdef Layout layout
    if not read_layout(size, stride, &layout):
        return torch.empty_strided(size, stride, dtype=dtype, device="mpsx")
    return mpsx_empty_strided(layout.size, layout.stride, layout.dimensions, dtype)


def assert_size_stride(object tensor, tuple size not None, tuple stride not None, *op_name):
    """Raise PyTorch's AssertionError unless a tensor has this layout. The code that Inductor generates calls this for
    the graph's inputs and for results of operators, hundreds of times per step of a model. PyTorch's function takes
    nine times as long."""
    cdef Layout layout
    if not (read_layout(size, stride, &layout) and mpsx_has_layout(tensor, layout.size, layout.stride,
                                                                   layout.dimensions)):
        if isinstance(tensor, torch.Tensor):
            tensor.stride()   # raises for a tensor without strides, for which PyTorch's function aborts the process
        torch._C._dynamo.guards.assert_size_stride(tensor, size, stride, *op_name)
