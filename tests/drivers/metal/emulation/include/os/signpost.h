// The part of Apple's <os/signpost.h> that the Metal driver uses: intervals, and the function behind the macros.
#pragma once

#include <os/log.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
typedef uint64_t os_signpost_id_t;
typedef uint8_t os_signpost_type_t;
#define OS_SIGNPOST_INTERVAL_BEGIN 1
#define OS_SIGNPOST_INTERVAL_END 2

os_signpost_id_t os_signpost_id_generate(os_log_t log);
bool os_signpost_enabled(os_log_t log);
void _os_signpost_emit_with_name_impl(void* dso, os_log_t log, os_signpost_type_t type, os_signpost_id_t spid,
                                      const char* name, const char* format, uint8_t* buf, uint32_t size);
extern void* __dso_handle;
#ifdef __cplusplus
}
#endif

#define os_signpost_interval_begin(log, id, name, ...) \
  os_signpost_stand_in(log, OS_SIGNPOST_INTERVAL_BEGIN, id, name, "" __VA_ARGS__)
#define os_signpost_interval_end(log, id, name, ...) \
  os_signpost_stand_in(log, OS_SIGNPOST_INTERVAL_END, id, name, "" __VA_ARGS__)
#define os_signpost_stand_in(log, type, id, name, ...)                                                        \
  do {                                                                                                        \
    if (os_signpost_enabled(log)) {                                                                           \
      __attribute__((aligned(16))) uint8_t buffer[__builtin_os_log_format_buffer_size(__VA_ARGS__)];          \
      __builtin_os_log_format(buffer, __VA_ARGS__);                                                           \
      _os_signpost_emit_with_name_impl(&__dso_handle, log, type, id, name, os_signpost_first(__VA_ARGS__, 0), \
                                       buffer, sizeof buffer);                                                \
    }                                                                                                         \
  } while (0)
#define os_signpost_first(first, ...) first
