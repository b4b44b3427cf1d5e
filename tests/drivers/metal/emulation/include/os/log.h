// The part of Apple's <os/log.h> that the Metal driver uses.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
typedef struct os_log_s* os_log_t;
os_log_t os_log_create(const char* subsystem, const char* category);
#ifdef __cplusplus
}
#endif
