"""Cython bindings for runtime shaders: load a compiled library, and call its kernels."""

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset, strcmp

import warnings

import torch

from mpsx.shader.constants import constant_texts
from mpsx.shader.tensors import ANY, reject_tensor, rule

cdef object Tensor = torch.Tensor
cdef object Parameter = torch.nn.Parameter
cdef object AcceleratorError = torch.AcceleratorError

include "_shader_api.pxi"

cdef class Shader


cdef class Kernel:
    """A kernel of a shader library. Call it with mpsx tensors, numbers and lists of numbers in buffer order. Pass None
    for a buffer that a function constant disables. A parameter that is a Metal 4 tensor accepts a tensor of its rank
    and type with any strides. The last dimension of the tensor is extent 0.

    `threads`: the grid size in threads, one to three numbers (default: the first tensor's number of elements).
    `group_size`: the number of threads per threadgroup, with as many numbers as `threads` (default: automatic).
    `arg_casts`: the types to pass numbers as: one name for all, or a dict from argument index to name ("fp32", "fp16",
    "bf16", "int64", "int32", "int16", "int8", "uint64", …). The default is `float` for a float and `long` for an int.
    `error_buf_idx`: the index of the buffer for TORCH_REPORT_ERROR (c10/metal/error.h). On host and simt, this call
    raises reported errors. On cuda and metal, a later synchronization does.
    `threadgroup_memory`: the size of each [[threadgroup(n)]] argument in bytes: a number for index 0, a list for
    indices 0, 1, …, or a dict from index to size.
    """

    cdef mpsx_shader_kernel* handle
    cdef Shader shader
    cdef readonly str name
    cdef dict constants  # function constants set so far
    cdef dict description  # parsed from the source (Built.kernels in shader/build.py), if known
    cdef tuple shared  # indices of [[threadgroup(n)]] arguments, or None if unknown
    cdef object optional  # indices of buffers that a function constant may disable (all indices if unknown)
    cdef dict tensors  # TensorParameter by buffer index, or None if there are none
    cdef bint checks_types  # warn about tensors whose dtypes do not match the parameters
    cdef int seen[MAX_BUFFERS]  # dtype last checked, for each argument
    cdef public uint32_t vector_size  # number of adjacent elements per thread; threads[0] is divided by it
    cdef public bint takes_alignment  # whether the last buffer is a uint: the bitwise OR of all tensors' addresses
    cdef dict resized  # this kernel for larger threadgroups, by their number of threads; None where impossible
    cdef str unusable  # why the kernel cannot be called yet
    cdef mpsx_shader_kernel_info info

    def __init__(self):
        raise TypeError("kernels come from mpsx.compile_shader")

    def __repr__(self):
        values = ", ".join(f"{name}={value}" for name, value in self.constants.items())
        return f"<mpsx kernel {self.name}{f' with {values}' if values else ''}>"

    @property
    def max_threads_per_threadgroup(self):
        self.check_usable()
        return self.info.max_threads

    @property
    def thread_execution_width(self):
        self.check_usable()
        return self.info.simd_width

    @property
    def static_thread_group_memory_length(self):
        self.check_usable()
        return self.info.static_threadgroup_bytes

    def with_constants(self, constants=None, /, **named):
        """Return the kernel specialized for function constants given by name or index: `(has_bias=True, tile=[8, 4])`
        or `({"has_bias": True, 3: 2.0})`. Values set earlier remain unless overridden. Every constant that the kernel
        uses needs a value, unless the source tests it with `is_function_constant_defined`."""
        given = constant_texts(self.name, {**(constants or {}), **named})
        return self.shader.kernel(self.name, self.description, self.constants | given)

    cdef Kernel with_threads(self, uint32_t count):
        """Return this kernel with few enough registers for threadgroups of `count` threads, or None."""
        cdef uint32_t threads = (count + 255) // 256 * 256
        cdef Kernel kernel = self.resized.get(threads)
        if kernel is None and threads not in self.resized and not self.shader.addresses_differ:
            kernel = Shader.kernel(self.shader, self.name, self.description, self.constants, threads)
            if kernel is not None:
                kernel.vector_size, kernel.takes_alignment = self.vector_size, self.takes_alignment
            self.resized[threads] = kernel
        return kernel if kernel is not None and kernel.info.max_threads >= count else None

    cdef int check_usable(self) except -1:
        if self.handle == NULL:
            raise RuntimeError(self.unusable)
        return 0

    cdef size_t add_threadgroup_memory(self, mpsx_shader_argument* arguments, object given) except? 0:
        """Append the sizes of the [[threadgroup(n)]] arguments, and return how many there are."""
        cdef size_t i, count = 0
        if given is None:
            given = {}
        elif isinstance(given, (list, tuple)):
            given = dict(enumerate(given))
        elif not isinstance(given, dict):
            given = {0: given}
        total = self.info.static_threadgroup_bytes
        for index, size in given.items():
            if not hasattr(size, "__index__") or not 0 < size.__index__() <= MAX_SHARED:
                raise RuntimeError(f"{self.name}: threadgroup_memory: expected 1 to {MAX_SHARED} bytes for "
                                   f"[[threadgroup({index})]], got {size!r}")
            if not hasattr(index, "__index__") or not 0 <= index < MAX_BUFFERS or (
                    self.shared is not None and index not in self.shared):
                raise RuntimeError(f"{self.name}: threadgroup_memory: the kernel has no [[threadgroup({index})]] argument")
            count = max(count, <size_t>index.__index__() + 1)
            total += size.__index__()
        if self.shared is not None:
            for index in self.shared:
                if index not in given:
                    raise RuntimeError(f"{self.name}: threadgroup_memory: expected a size for [[threadgroup({index})]]")
        if total > MAX_SHARED:
            raise RuntimeError(f"{self.name}: threadgroup_memory: expected at most {MAX_SHARED} bytes together with the "
                               f"kernel's own {self.info.static_threadgroup_bytes}, got {total}")
        for i in range(count):
            arguments[i].data, arguments[i].threadgroup = NULL, 1
            arguments[i].tensor, arguments[i].pointers = 0, 0
            arguments[i].bytes = given.get(i, 0)
        return count

    def __call__(self, *args, threads=None, group_size=None, arg_casts=None, error_buf_idx=None,
                 threadgroup_memory=None):
        """Run the kernel on tensors and numbers in the order of its buffers. help(type(kernel)) lists the options."""
        cdef mpsx_shader_argument arguments[MAX_ARGUMENTS]
        cdef char values[MAX_BUFFERS * SLOT]
        cdef mpsx_shader_tensor tensors[MAX_BUFFERS]
        cdef TensorParameter parameter
        cdef mpsx_shader_call call
        cdef const char* message
        cdef uint32_t alignment = 0
        cdef int i = 0, dtype
        cdef bint mismatch = False
        cdef list kept = None
        cdef object first = None, arg
        if self.handle == NULL:
            raise RuntimeError(self.unusable)
        if len(args) > MAX_BUFFERS:
            raise RuntimeError(f"{self.name}: expected at most {MAX_BUFFERS} arguments, got {len(args)}")
        if arg_casts is not None and not isinstance(arg_casts, (str, dict)):
            raise RuntimeError(f"{self.name}: arg_casts: expected a type's name or a dict from argument index to name, "
                               f"got {type(arg_casts).__name__}")
        for arg in args:
            arguments[i].threadgroup, arguments[i].tensor, arguments[i].pointers = 0, 0, 0
            if self.tensors is not None and i in self.tensors and (arg is not None or i not in self.optional):
                parameter = self.tensors[i]
                parameter.describe(self.name, i, arg, &tensors[i])
                arguments[i].data, arguments[i].bytes = &tensors[i], sizeof(tensors[i])
                arguments[i].tensor, arguments[i].pointers = 1, 1
                if first is None:
                    first = arg
            elif (type(arg) is Tensor or type(arg) is Parameter) and mpsx_device_tensor(
                    arg, &arguments[i].data, &dtype):
                arguments[i].bytes = 0
                alignment |= <uint32_t><uintptr_t>arguments[i].data
                if first is None:
                    first = arg
                if dtype != self.seen[i]:
                    self.seen[i] = dtype
                    mismatch = self.checks_types
            elif isinstance(arg, Tensor):
                on_device = arg.is_mpsx
                # Like PyTorch's mps, accept CPU scalars.
                value = not on_device and arg.dim() == 0 and arg.is_cpu and arg.dtype != torch.float64
                if not on_device and not value:
                    raise RuntimeError(
                        f"{self.name}: argument {i}: expected a tensor on mpsx, got one on {arg.device}; move it with "
                        "tensor.to('mpsx')" + (", or pass mpsx.device_view(tensor), which shares its memory"
                                               if arg.is_cpu else ""))
                arguments[i].data = <const void*><uintptr_t>arg.data_ptr()
                arguments[i].bytes = arg.itemsize if value else 0
                alignment |= <uint32_t><uintptr_t>arguments[i].data
                if first is None and not value:
                    first = arg
                mismatch = self.checks_types
            elif arg_casts is None and type(arg) is float:
                memset(values + i * SLOT, 0, SLOT)
                (<float*>(values + i * SLOT))[0] = <float><double>arg
                arguments[i].data = values + i * SLOT
                arguments[i].bytes = 4
            elif arg_casts is None and type(arg) is int and fits_int64(arg, <int64_t*>(values + i * SLOT)):
                (<int64_t*>(values + i * SLOT))[1] = 0
                arguments[i].data, arguments[i].bytes = values + i * SLOT, 8
            elif arg is None and i in self.optional:
                arguments[i].data, arguments[i].bytes = NULL, 0
            else:
                if kept is None:
                    kept = []
                self.add_value(&arguments[i], i, arg, arg_casts, kept)
            i += 1
        if self.takes_alignment and error_buf_idx == i:  # the error buffer precedes the alignment
            memset(&arguments[i], 0, sizeof(arguments[i]))
            i += 1
        if self.takes_alignment:
            arguments[i].threadgroup, arguments[i].tensor, arguments[i].pointers = 0, 0, 0
            arguments[i].data, arguments[i].bytes = &alignment, sizeof(alignment)
            i += 1
        while i < MAX_BUFFERS and self.description is not None and i in self.optional:
            arguments[i].data, arguments[i].bytes, arguments[i].threadgroup = NULL, 0, 0
            arguments[i].tensor, arguments[i].pointers = 0, 0
            i += 1
        if mismatch:
            self.check_types(args)
        call.arguments = arguments
        call.count = i
        call.error_buffer = -1 if error_buf_idx is None else error_buf_idx
        if error_buf_idx is not None:
            if call.error_buffer < 0:
                raise ValueError(f"{self.name}: error_buf_idx: expected a buffer index, got {error_buf_idx}")
        if threads is None:
            if first is None:
                raise RuntimeError(f"{self.name}: threads: expected a grid size, because no argument is a tensor")
            call.threads[0], call.threads[1], call.threads[2] = first.numel(), 1, 1
            axes = 1
        else:
            axes = self.size("threads", threads, call.threads, 1)
        if self.vector_size != 1:
            call.threads[0] = (call.threads[0] + self.vector_size - 1) // self.vector_size
        if group_size is None:
            call.group[0], call.group[1], call.group[2] = 0, 0, 0
        else:
            found = self.size("group_size", group_size, call.group, 1)
            if found != axes:
                raise RuntimeError(f"{self.name}: group_size: expected as many numbers as threads has ({axes}), "
                                   f"got {found}")
            limit = self.info.max_threads
            count = call.group[0] * call.group[1] * call.group[2]
            if count == 0 or count > limit or max(call.group[0], call.group[1], call.group[2]) > limit:
                smaller = self.with_threads(count) if limit < count <= MAX_THREADS else None
                if smaller is not None:
                    return smaller(*args, threads=threads, group_size=group_size, arg_casts=arg_casts,
                                   error_buf_idx=error_buf_idx, threadgroup_memory=threadgroup_memory)
                raise ValueError(f"{self.name}: group_size: expected 1 to {limit} threads, got {group_size}")
        if threadgroup_memory is not None or self.shared:
            call.count += self.add_threadgroup_memory(arguments + i, threadgroup_memory)
        with nogil:
            message = mpsx_shader_run(self.handle, &call)
        if message != NULL:
            PyErr_CheckSignals()  # Ctrl-C may have interrupted the kernel
            raise (AcceleratorError if mpsx_error_kind() == MPSX_ACCELERATOR_ERROR else RuntimeError)(message.decode())

    cdef int check_types(self, tuple args) except -1:
        """Warn once per kernel about tensors whose dtypes do not match its parameters."""
        from .shader.types import mismatches

        if self.name not in self.shader.warned:
            found = mismatches(self.description, args)
            if found:
                self.shader.warned.add(self.name)
                warnings.warn(f"{self.name}: {'; '.join(found)}. The kernel reads the raw bytes; pass a tensor of the "
                              "parameter's type, or change the parameter", UserWarning, stacklevel=1)
        return 0

    cdef int size(self, str what, object value, uint64_t* out, uint64_t rest) except -1:
        """Parse one to three sizes into `out`. Return how many there are."""
        cdef int n = 0, overflow
        cdef long long integer
        numbers = value if isinstance(value, (list, tuple)) else (value,)
        if not 1 <= len(numbers) <= 3:
            raise RuntimeError(f"{self.name}: {what}: expected one to three numbers, got {value!r}")
        out[0], out[1], out[2] = rest, rest, rest
        for number in numbers:
            if type(number) is not int:
                number = number.__index__() if hasattr(number, "__index__") else -1
            integer = PyLong_AsLongLongAndOverflow(number, &overflow)
            if overflow or integer < 0 or integer > 0xffffffff:
                raise RuntimeError(f"{self.name}: {what}: expected integers from 0 to 2^32-1, got {value!r}")
            out[n] = integer
            n += 1
        return n

    cdef int add_value(self, mpsx_shader_argument* argument, int i, object arg, object casts, list kept) except -1:
        """Convert a number, or a list of numbers or tensors, to bytes, which `kept` owns."""
        cast = casts.get(i) if type(casts) is dict else casts
        if cast is not None and cast not in _TYPES:
            raise RuntimeError(f"{self.name}: argument {i}: arg_casts: expected one of {', '.join(_TYPES)}, got {cast!r}")
        if isinstance(arg, (list, tuple)):
            if not arg:
                raise RuntimeError(f"{self.name}: argument {i}: expected at least one number, got an empty list")
            many, tensors = arg, [item for item in arg if isinstance(item, Tensor)]
            if tensors:
                if len(tensors) < len(arg) or not all([item.is_mpsx for item in tensors]):
                    raise RuntimeError(f"{self.name}: argument {i}: expected a list of numbers, or a list of tensors on mpsx")
                if self.shader.addresses_differ:
                    raise RuntimeError(f"{self.name}: argument {i}: a list of tensors is not supported on metal")
                many, cast = [item.data_ptr() for item in arg], "uint64"  # pass an array of pointers
                argument.pointers = len(many)
                kept.append(arg)
        else:
            many = (arg,)
        if hasattr(many[0], "__index__"):
            natural = "int64"
        elif hasattr(many[0], "__float__"):
            natural = "fp32"
        else:
            raise RuntimeError(f"{self.name}: argument {i}: expected a tensor on mpsx, a number or a list of numbers, "
                               f"got {type(many[0]).__name__}" + (" in a list" if many is arg else ""))
        size = _TYPES[cast or natural][1]
        if len(many) * size > MAX_VALUE:
            raise RuntimeError(f"{self.name}: argument {i}: expected a list of at most {MAX_VALUE} bytes, got "
                               f"{len(many)} numbers of {size}; pass a tensor")
        cdef bytes data = packed(self.name, i, many, cast or natural)
        kept.append(data)
        argument.data = PyBytes_AS_STRING(data)
        argument.bytes = len(many) * size
        return 0


cdef class Shader:
    """A loaded shader."""

    cdef mpsx_shader* handle
    cdef public object source  # kept alive with the shader
    cdef public set warned  # names of kernels whose dtype mismatches were reported
    cdef bint addresses_differ  # whether kernels see buffers at different addresses than this process

    def __init__(self, str name, str path=None, str text=None):
        """Load a compiled kernel library from `path` (on the host driver) or Metal source from `text`. Without either,
        `kernel` returns kernels that cannot be called before their function constants have values."""
        self.warned = set()
        self.addresses_differ = text is not None
        if path is None and text is None:
            return
        cdef bytes name_bytes = name.encode()
        cdef bytes path_bytes = path.encode() if path is not None else None
        cdef bytes text_bytes = text.encode() if text is not None else None
        cdef const char* c_path = NULL if path is None else PyBytes_AS_STRING(path_bytes)
        cdef const char* c_text = NULL if text is None else PyBytes_AS_STRING(text_bytes)
        cdef const char* c_name = name_bytes
        cdef const char* message
        with nogil: message = mpsx_shader_load(c_name, c_path, c_text, &self.handle)
        check(message)

    def __dealloc__(self):
        if self.handle != NULL:
            with nogil: mpsx_shader_free(self.handle)

    def names(self):
        """Return the sorted names of all kernels."""
        cdef mpsx_list* listing = NULL
        check(mpsx_shader_kernels(self.handle, &listing))
        try:
            return [mpsx_list_row(listing, i).name.decode() for i in range(mpsx_list_length(listing))]
        finally:
            mpsx_list_free(listing)

    def kernel(self, str name, dict description=None, dict constants=None, uint32_t threads=0):
        """Return the kernel named `name`, or None. `description` is parsed from the source, and `constants` holds the
        values of function constants as text. `threads`: see src/driver/cuda/kernels.h."""
        cdef Kernel kernel = Kernel.__new__(Kernel)
        kernel.shader, kernel.name, kernel.description, kernel.constants = self, name, description, constants or {}
        key = name + "".join([f"|{constant}={value}" for constant, value in
                              sorted(kernel.constants.items(), key=lambda item: str(item[0]))])
        key += f"|[threads]={threads}" if threads else ""
        kernel.optional, kernel.vector_size, kernel.takes_alignment, kernel.resized = range(MAX_BUFFERS), 1, False, {}
        memset(kernel.seen, -1, sizeof(kernel.seen))
        if description is not None:
            kernel.optional = frozenset([b["index"] for b in description["buffers"] if b["optional"]])
            kernel.shared = tuple([b["index"] for b in description["buffers"] if b["space"] == "threadgroup"])
            tensors = {b["index"]: TensorParameter(b) for b in description["buffers"] if "tensor" in b}
            kernel.tensors = tensors or None
            kernel.checks_types = any(description.get("elements", ()))
            missing = [f"{c['type']} {c['name']} (index {c['index']})" for c in description["constants"]
                       if c["required"] and c["name"] not in kernel.constants and c["index"] not in kernel.constants]
            if missing:
                kernel.unusable = (f"{name}: expected values for the function constants {', '.join(missing)}; "
                                  f"set them with {name}.with_constants(…)")
        if self.handle == NULL:
            return kernel
        cdef bytes encoded = key.encode()
        cdef const char* c_key = encoded
        cdef const char* message
        with nogil: message = mpsx_shader_find(self.handle, c_key, &kernel.handle, &kernel.info)
        if message != NULL:
            if kernel.constants and not threads:
                raise RuntimeError(message.decode())
            kernel.unusable = message.decode()  # on Metal: the function constants have no values yet
        elif kernel.handle == NULL:
            return None
        elif kernel.info.static_threadgroup_bytes > MAX_SHARED:
            raise RuntimeError(f"Failed to create pipeline state object for {name}: expected at most {MAX_SHARED} bytes of "
                               f"threadgroup memory, got {kernel.info.static_threadgroup_bytes}")
        elif kernel.info.bindings_known:
            kernel.optional = frozenset([i for i in range(MAX_BUFFERS) if not kernel.info.buffers >> i & 1])
            kernel.shared = tuple([i for i in range(MAX_BUFFERS) if kernel.info.threadgroups >> i & 1])
            if kernel.info.tensors:
                kernel.tensors = {i: TensorParameter(None) for i in range(MAX_BUFFERS) if kernel.info.tensors >> i & 1}
        if kernel.unusable is not None:
            kernel.handle = NULL
        return kernel
