# The part of src/c_api.h that _shader.pyx uses.
cdef extern from "c_api.h" nogil:
    int MPSX_SYNTAX_ERROR
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
    const char* mpsx_shader_run(mpsx_shader_kernel* kernel, const mpsx_shader_call* call, int* reported)


cdef int check(const char* message) except -1:
    if message != NULL:
        raise (SyntaxError if mpsx_error_kind() == MPSX_SYNTAX_ERROR else RuntimeError)(message.decode())
