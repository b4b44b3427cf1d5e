/* The C interface of the Python bindings (Cython). Operators are not part of it.
 *
 * Functions that can fail return NULL or an error message, which is valid until the thread's next call. They never
 * throw. */
#ifndef MPSX_C_API_H
#define MPSX_C_API_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#  define MPSX_API __attribute__((visibility("default")))
#else
#  define MPSX_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of errors. mpsx_error_kind() returns the kind of the calling thread's last error. */
enum {
  MPSX_ERROR = 0,
  MPSX_INDEX_ERROR = 1,
  MPSX_OUT_OF_MEMORY = 2,
  MPSX_SYNTAX_ERROR = 3,
  MPSX_ACCELERATOR_ERROR = 4
};
MPSX_API int mpsx_error_kind(void);

/* Finds the folder of kernel libraries and builds them if necessary. On error, returns 0 and sets `*found` to an error
 * message. */
typedef int (*mpsx_find_libraries)(const char** found);
/* Registers the device with PyTorch. The driver calls `find` when it starts. */
MPSX_API const char* mpsx_initialize(mpsx_find_libraries find);

/* Starts the driver and returns its properties. The strings stay valid until the process exits. */
typedef struct {
  const char *name, *device, *compiler, *isa, *gpu_family;
  uint64_t total_memory, free_memory;
  uint32_t simd_width, cores;
  int asynchronous, uses_process_memory;
} mpsx_driver_info;
MPSX_API const char* mpsx_driver(mpsx_driver_info* out);
MPSX_API int mpsx_driver_started(void);
/* Returns whether kernels run on the thread that launches them. Returns 0 if the driver has not started. */
MPSX_API int mpsx_kernels_run_on_caller(void);
/* Returns the reason why the cuda driver is not available, or an empty string if it is. */
MPSX_API const char* mpsx_cuda_unavailable_reason(void);

/* Makes "mps" an alias of the device, so that programs written for PyTorch's own mps device use this one. */
MPSX_API const char* mpsx_set_mps_alias(int on);
MPSX_API int mpsx_has_mps_alias(void);

/* Returns whether `index` is a valid device index. 0 is valid. If processes share the device in torch.distributed, the
 * index of each process is also valid. */
MPSX_API int mpsx_is_device_index(int index);
/* Returns the number of valid device indices on this machine. */
MPSX_API int mpsx_device_count(void);

MPSX_API const char* mpsx_synchronize(void);
MPSX_API const char* mpsx_check_not_forked(void);

/* Memory statistics, in bytes except for the counts of events. */
typedef struct {
  uint64_t allocated, allocated_peak, reserved, reserved_peak, allocated_total, freed_total;
  uint64_t allocations, frees, active_blocks, active_blocks_peak, segments, segments_peak, retries, out_of_memory;
} mpsx_memory_statistics;
MPSX_API const char* mpsx_memory(mpsx_memory_statistics* out);
MPSX_API const char* mpsx_empty_cache(void);
MPSX_API const char* mpsx_reset_peak_memory(void);
MPSX_API const char* mpsx_reset_accumulated_memory(void);
MPSX_API const char* mpsx_set_memory_limit(uint64_t bytes);
MPSX_API const char* mpsx_memory_limit(uint64_t* bytes);

/* The fallback mode is 0 (warn), 1 (silent) or 2 (error). The callback raises a Python warning. It returns 1 on success
 * and 0 if it could not warn. If a warning filter turned the warning into an exception, it returns -1 and an error
 * message, which is valid until the next callback. */
typedef int (*mpsx_warn_callback)(const char* message, const char** error);
MPSX_API void mpsx_set_fallback_mode(int mode);
MPSX_API int mpsx_fallback_mode(void);
MPSX_API void mpsx_set_warn_callback(mpsx_warn_callback callback);
MPSX_API void mpsx_reset_fallback(void);

/* A list is a snapshot, which the caller must free. `route` is 0 (native), 1 (vendor) or 2 (fallback). */
typedef struct mpsx_list mpsx_list;
typedef struct {
  const char *name, *library;
  int route;
  uint64_t calls, nanoseconds, bytes;
} mpsx_row;
MPSX_API const char* mpsx_fallback_list(mpsx_list** out);
MPSX_API const char* mpsx_profile_list(mpsx_list** out);
MPSX_API const char* mpsx_kernel_list(mpsx_list** out);
MPSX_API const char* mpsx_close_launch_log(mpsx_list** out);
/* Between these calls, the thread's launches are only listed (runtime/launch_plan.h). */
MPSX_API void mpsx_open_plan(void);
MPSX_API const char* mpsx_close_plan(mpsx_list** out);
/* Loads one kernel. On a GPU, this builds its pipeline. */
typedef struct {
  uint32_t max_threads, simd_width, static_threadgroup_bytes;
} mpsx_kernel_info;
MPSX_API const char* mpsx_load_kernel(const char* name, mpsx_kernel_info* out);
MPSX_API size_t mpsx_list_length(const mpsx_list*);
MPSX_API mpsx_row mpsx_list_row(const mpsx_list*, size_t index);
MPSX_API void mpsx_list_free(mpsx_list*);

/* Kernels compiled at run time. `path` is a compiled library (host driver) or NULL, and `text` is Metal source or NULL.
 * A shader owns its kernels. */
typedef struct mpsx_shader mpsx_shader;
typedef struct mpsx_shader_kernel mpsx_shader_kernel;
typedef struct {
  uint32_t max_threads, simd_width, static_threadgroup_bytes;
  uint32_t bindings_known;        /* 0 if the bit masks below are unknown */
  uint32_t buffers, threadgroups; /* bit masks of the kernel's argument indices */
  uint32_t tensors;               /* bit mask of the buffers that are tensors */
} mpsx_shader_kernel_info;
/* A Metal 4 tensor. Dimension 0 varies fastest (driver/tensor_argument.h). */
typedef struct {
  const void* data;
  int64_t sizes[8], strides[8]; /* in elements */
  uint32_t rank;
  const char* element; /* the element type in Metal */
  const void* handle;  /* unused here */
  size_t offset;       /* unused here */
} mpsx_shader_tensor;
typedef struct {
  const void* data;
  size_t bytes;    /* 0 if `data` is device memory; otherwise `data` is a value of this size */
  int threadgroup; /* if 1, allocates `bytes` of threadgroup memory and ignores `data` */
  int tensor;      /* if 1, `data` is an mpsx_shader_tensor */
  size_t pointers; /* number of device pointers at the start of a value */
} mpsx_shader_argument;
typedef struct {
  const mpsx_shader_argument* arguments;
  size_t count;
  uint64_t threads[3];
  uint64_t group[3]; /* if all are 0, the runtime chooses */
  int error_buffer;  /* buffer index of the kernel's ErrorMessages; -1 if it has none */
} mpsx_shader_call;
MPSX_API const char* mpsx_shader_load(const char* name, const char* path, const char* text, mpsx_shader** out);
MPSX_API void mpsx_shader_free(mpsx_shader*);
MPSX_API const char* mpsx_shader_kernels(mpsx_shader*, mpsx_list** out);
/* `name` may end with function constants (see driver.h). Sets `out` to NULL if there is no such kernel. */
MPSX_API const char* mpsx_shader_find(mpsx_shader*, const char* name, mpsx_shader_kernel** out,
                                      mpsx_shader_kernel_info* info);
/* Errors that the kernel reports (TORCH_REPORT_ERROR) are of kind MPSX_ACCELERATOR_ERROR. On an asynchronous driver,
 * they are reported at a later synchronization. */
MPSX_API const char* mpsx_shader_run(mpsx_shader_kernel*, const mpsx_shader_call*);

/* The numbers that launchers choose kernels by (runtime/tuning.h). `value` is the one in use, and `table` the one of a
 * GPU family in runtime/tuning.def, or of this GPU's family if the name of the family is NULL. */
typedef struct {
  const char* name;
  double value, table, low, high;
} mpsx_tunable;
MPSX_API const char* mpsx_tuning(const char* gpu_family, mpsx_tunable* out, size_t* count);
/* Changes the numbers for the following launches: the table's values, except for lines of "name value". */
MPSX_API const char* mpsx_set_tuning(const char* lines);
/* The callback reads the tuning file when the driver starts, and returns such lines, which may be empty. */
typedef const char* (*mpsx_read_tuning)(void);
MPSX_API void mpsx_set_tuning_reader(mpsx_read_tuning read);

/* Label sections of the calling thread's work, and capture GPU work to a file. */
MPSX_API const char* mpsx_begin_label(const char* name);
MPSX_API const char* mpsx_end_label(void);
MPSX_API const char* mpsx_start_capture(const char* path);
MPSX_API const char* mpsx_stop_capture(void);

/* Profiles launches on the simt driver (driver/kernel_profile.h). The callback receives the names of the library and
 * the kernel, and sets `*found` to the path of the library compiled for profiling. On error, it returns 0 and sets
 * `*found` to a message. If the callback is NULL, profiling stops. */
typedef int (*mpsx_find_profiled)(const char* library, const char* kernel, const char** found);
MPSX_API const char* mpsx_set_kernel_profile(mpsx_find_profiled find);
/* In each row, `name` is the kernel, and `library` contains its counts as JSON. */
MPSX_API const char* mpsx_take_profiled_launches(mpsx_list** out);

/* Profiling, which records the kernels and operators that have run. */
MPSX_API void mpsx_set_profiling(int on);
MPSX_API int mpsx_profiling(void);
MPSX_API void mpsx_reset_profile(void);
MPSX_API void mpsx_open_launch_log(void);

#ifdef __cplusplus
}
#endif
#endif
