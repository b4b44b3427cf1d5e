/* The interface to Python beside operators, in plain C for Cython.
 *
 * Functions that can fail return a message, which stays valid until the thread's next call, or NULL. Nothing throws. */
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

/* Which exception the thread's last message stands for. */
enum { MPSX_ERROR = 0, MPSX_INDEX_ERROR = 1, MPSX_OUT_OF_MEMORY = 2, MPSX_SYNTAX_ERROR = 3 };
MPSX_API int mpsx_error_kind(void);

/* Finds the folder of the kernel libraries, and may build them; returns 0 with an error's text in `*found`. */
typedef int (*mpsx_find_libraries)(const char** found);
/* Registers the device with torch. `find` is called when the driver starts. */
MPSX_API const char* mpsx_initialize(mpsx_find_libraries find);

/* The driver in use; starts it. Strings live as long as the process. */
typedef struct {
  const char *name, *device, *compiler, *isa;
  uint64_t total_memory, free_memory;
  uint32_t simd_width, cores;
  int asynchronous, adopts_memory;
} mpsx_driver_info;
MPSX_API const char* mpsx_driver(mpsx_driver_info* out);
MPSX_API int mpsx_driver_started(void);
/* Whether kernels run on the thread that launches them; 0 until the driver starts. */
MPSX_API int mpsx_kernels_run_on_caller(void);
/* Why the cuda driver cannot be used here; empty: it can. */
MPSX_API const char* mpsx_cuda_trouble(void);

/* Whether the device goes by the name of "mps", so that programs for PyTorch's own use it. */
MPSX_API const char* mpsx_set_mps_name(int on);
MPSX_API int mpsx_has_mps_name(void);

/* Whether this index means the device: 0, and others where processes of a torch.distributed group share it. */
MPSX_API int mpsx_is_device_index(int index);
/* How many such indices there are on this machine. */
MPSX_API int mpsx_device_count(void);

MPSX_API const char* mpsx_synchronize(void);
MPSX_API const char* mpsx_restart_check(void);

/* Memory, in bytes. */
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

/* The fallback. Modes: 0 warn, 1 silent, 2 error. The callback warns a Python caller; it returns 0 when it could not,
 * 1 when it did, and -1 with a message (valid until its next call) when the warning became an error. */
typedef int (*mpsx_warn_callback)(const char* message, const char** error);
MPSX_API void mpsx_set_fallback_mode(int mode);
MPSX_API int mpsx_fallback_mode(void);
MPSX_API void mpsx_set_warn_callback(mpsx_warn_callback callback);
MPSX_API void mpsx_reset_fallback(void);

/* Lists, as snapshots: ask for the length, read rows, free. Route: 0 native, 1 vendor, 2 fallback. */
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
/* Loads one kernel (on a GPU: builds its pipeline). */
typedef struct {
  uint32_t max_threads, simd_width, static_threadgroup_bytes;
} mpsx_kernel_facts;
MPSX_API const char* mpsx_load_kernel(const char* name, mpsx_kernel_facts* out);
MPSX_API size_t mpsx_list_length(const mpsx_list*);
MPSX_API mpsx_row mpsx_list_row(const mpsx_list*, size_t index);
MPSX_API void mpsx_list_free(mpsx_list*);

/* Kernels compiled at run time. `path` is a compiled library (host driver) or NULL, `text` the Metal source or NULL.
 * A shader and its kernels are there until it is freed. */
typedef struct mpsx_shader mpsx_shader;
typedef struct mpsx_shader_kernel mpsx_shader_kernel;
typedef struct {
  uint32_t max_threads, simd_width, static_threadgroup_bytes;
  uint32_t bindings_known;        /* 0: the driver cannot tell the next two */
  uint32_t buffers, threadgroups; /* bits of the indices that the kernel takes */
} mpsx_shader_kernel_info;
typedef struct {
  const void* data;
  size_t bytes;    /* 0: `data` is memory of the device; else a value of so many bytes */
  int threadgroup; /* 1: so many bytes of threadgroup memory, and no data; these count on their own */
} mpsx_shader_argument;
typedef struct {
  const mpsx_shader_argument* arguments;
  size_t count;
  uint64_t threads[3];
  uint64_t group[3]; /* all 0: chosen by the runtime */
  int error_buffer;  /* the buffer index of the kernel's ErrorMessages, or -1 */
} mpsx_shader_call;
MPSX_API const char* mpsx_shader_load(const char* name, const char* path, const char* text, mpsx_shader** out);
MPSX_API void mpsx_shader_free(mpsx_shader*);
MPSX_API const char* mpsx_shader_kernels(mpsx_shader*, mpsx_list** out);
/* `name` may have values of function constants behind it, as in driver.h. `out` becomes NULL where there is no kernel
 * of that name. */
MPSX_API const char* mpsx_shader_find(mpsx_shader*, const char* name, mpsx_shader_kernel** out,
                                      mpsx_shader_kernel_info* info);
/* `reported` becomes 1 when the message is the kernel's own (TORCH_REPORT_ERROR). */
MPSX_API const char* mpsx_shader_run(mpsx_shader_kernel*, const mpsx_shader_call*, int* reported);

/* For people: names of regions of work, of the calling thread; and a record of the GPU's work in a file. */
MPSX_API const char* mpsx_begin_label(const char* name);
MPSX_API const char* mpsx_end_label(void);
MPSX_API const char* mpsx_start_capture(const char* path);
MPSX_API const char* mpsx_stop_capture(void);

/* Profiles of launches on the simt driver (driver/kernel_profile.h). The callback has the library's and the kernel's
 * name, and returns 0 with an error's text in `*found`, or a library's path. NULL: no more profiles. */
typedef int (*mpsx_find_profiled)(const char* library, const char* kernel, const char** found);
MPSX_API const char* mpsx_set_kernel_profile(mpsx_find_profiled find);
/* Rows have the kernel's name, and as `library` its counts in JSON. */
MPSX_API const char* mpsx_take_profiled_launches(mpsx_list** out);

/* What ran. */
MPSX_API void mpsx_set_profiling(int on);
MPSX_API int mpsx_profiling(void);
MPSX_API void mpsx_reset_profile(void);
MPSX_API void mpsx_open_launch_log(void);

#ifdef __cplusplus
}
#endif
#endif
