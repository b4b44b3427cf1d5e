// <metal_logging>: writes kernel logs to stderr, one line per message.
#pragma once

#ifdef __APPLE__
#  define MPSX_C_NAME(NAME) "_" #  NAME
#else
#  define MPSX_C_NAME(NAME) #  NAME
#endif
// C library functions, declared under different names to avoid collisions with kernels.
extern "C" int mpsx_snprintf(char*, size_t, const char*, ...) __asm__(MPSX_C_NAME(snprintf));
extern "C" long mpsx_write(int, const void*, size_t) __asm__(MPSX_C_NAME(write));
#undef MPSX_C_NAME

namespace metal {
enum os_log_type {
  OS_LOG_TYPE_DEFAULT = 0x00,
  OS_LOG_TYPE_INFO = 0x01,
  OS_LOG_TYPE_DEBUG = 0x02,
  OS_LOG_TYPE_ERROR = 0x10,
  OS_LOG_TYPE_FAULT = 0x11
};

// An argument of a log message: up to four numbers, or a pointer.
struct mpsx_logged {
  enum kind_t { INTEGER, FLOAT, POINTER } kind;
  int count;
  long integers[4];
  double floats[4];
  const void* pointer;

  template <class T>
  MPSX_FN mpsx_logged(const T& x) : kind(INTEGER), count(mpsx_vector<T>::size), integers{}, floats{}, pointer(nullptr) {
    typedef typename mpsx_vector<T>::scalar scalar;
    if constexpr (is_pointer_v<decay_t<T>> || is_null_pointer_v<T>) {
      kind = POINTER;
      pointer = x;
    } else {
      kind = is_floating_point_v<scalar> ? FLOAT : INTEGER;
      for (int i = 0; i < count; ++i) {
        integers[i] = long(mpsx_component(x, i));
        floats[i] = float(mpsx_component(x, i));
      }
    }
  }
};

// Formats a message. Truncates it to the size of the buffer.
struct mpsx_log_line {
  char text[1024];
  int size;

  inline mpsx_log_line() : size(0) {}
  inline void put(char c) {
    if (size < int(sizeof text) - 1) text[size++] = c;
  }
  inline void put(const char* s) {
    for (; s && *s; ++s) put(*s);
  }
  template <class T>
  inline void print(const char* conversion, T value) {
    const int room = int(sizeof text) - size, n = mpsx_snprintf(text + size, size_t(room), conversion, value);
    size += n < 0 ? 0 : n < room ? n : room - 1;
  }

  // Supports the conversions of printf. For vectors, v2, v3 or v4 precedes the length modifier. The length modifier hl
  // means 32-bit components (MSL specification 3.2, section 6.19).
  inline void format(const char* f, const mpsx_logged* value, const mpsx_logged* end) {
    for (; *f; ++f) {
      if (*f != '%' || f[1] == '%') {
        f += *f == '%';
        put(*f);
        continue;
      }
      char conversion[32];
      int n = 0, bits = 32;
      do {
        conversion[n++] = *f++;
      } while (n < 24 && ((*f >= '0' && *f <= '9') || *f == '.' || *f == '-' || *f == '+' || *f == ' ' || *f == '#'));
      if (*f == 'v') f += f[1] ? 2 : 1;
      for (; *f == 'h' || *f == 'l' || *f == 'z' || *f == 't' || *f == 'j'; ++f)
        bits = *f == 'h' ? bits / 2 : f[-1] == 'h' ? 32 : 64;
      if (!*f) return;
      if (value == end) {
        put("<missing>");
        continue;
      }
      one(conversion, n, *f, bits, *value++);
    }
  }
  inline void one(char* conversion, int n, char letter, int bits, const mpsx_logged& value) {
    const bool is_signed = letter == 'd' || letter == 'i',
               is_unsigned = letter == 'u' || letter == 'x' || letter == 'X' || letter == 'o';
    if (is_signed || is_unsigned) conversion[n++] = 'l';
    conversion[n++] = letter;
    conversion[n] = 0;
    for (int i = 0; i < value.count; ++i) {
      if (i) put(',');
      if (is_signed)
        print(conversion, value.integers[i] << (64 - bits) >> (64 - bits));
      else if (is_unsigned)
        print(conversion, ulong(value.integers[i]) << (64 - bits) >> (64 - bits));
      else if (letter == 'c')
        print(conversion, int(value.integers[i]));
      else if (letter == 's' || letter == 'p')
        value.kind == mpsx_logged::POINTER ? print(conversion, value.pointer) : put("<not a pointer>");
      else
        print(conversion, value.floats[i]);
    }
  }
};

// Implements a logger's `log(f, x…)`. Calls write only once per message, so that messages from different threads do not
// mix.
inline __attribute__((noinline)) void mpsx_log(const char* subsystem, const char* category, const char* type,
                                               const char* f, const mpsx_logged* values, int count) {
  mpsx_log_line line;
  if (subsystem) line.put(subsystem), line.put(':'), line.put(category), line.put(": ");
  line.put(type);
  line.format(f, values, values + count);
  line.text[line.size] = '\n';
  (void)!mpsx_write(2, line.text, size_t(line.size) + 1);
}

struct os_log {
  const char *subsystem, *category;
  MPSX_FN constexpr os_log() : subsystem(nullptr), category(nullptr) {}
  MPSX_FN constexpr os_log(const char* of, const char* in) : subsystem(of), category(in) {}
  template <class... T>
  MPSX_FN void mpsx_send(const char* type, const char* f, const T&... x) const {
    const mpsx_logged values[] = {mpsx_logged(x)..., mpsx_logged(0)};
    mpsx_log(subsystem, category, type, f, values, sizeof...(T));
  }
#define MPSX_LOG(NAME, TYPE)                       \
  template <class... T>                            \
  MPSX_FN void NAME(const char* f, T... x) const { \
    mpsx_send(TYPE, f, x...);                      \
  }
  MPSX_LOG(log, "")
  MPSX_LOG(log_default, "")
  MPSX_LOG(log_info, "info: ")
  MPSX_LOG(log_debug, "debug: ")
  MPSX_LOG(log_error, "error: ")
  MPSX_LOG(log_fault, "fault: ")
#undef MPSX_LOG
  template <class... T>
  MPSX_FN void log_with_type(os_log_type type, const char* f, T... x) const {
    mpsx_send(type == OS_LOG_TYPE_INFO    ? "info: "
              : type == OS_LOG_TYPE_DEBUG ? "debug: "
              : type == OS_LOG_TYPE_ERROR ? "error: "
              : type == OS_LOG_TYPE_FAULT ? "fault: "
                                          : "",
              f, x...);
  }
};
inline constexpr os_log os_log_default;
}  // namespace metal
