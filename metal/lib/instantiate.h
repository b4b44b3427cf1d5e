// Macros that instantiate kernels for sets of element types. The including file defines the macro X(T, tag, ...).
#pragma once

#define MPSX_FOR_FLOAT(X, ...) X(float, f32, __VA_ARGS__) X(half, f16, __VA_ARGS__) X(bfloat, bf16, __VA_ARGS__)
#define MPSX_FOR_INT(X, ...)                                                                      \
  X(long, i64, __VA_ARGS__) X(int, i32, __VA_ARGS__) X(short, i16, __VA_ARGS__)                   \
  X(char, i8, __VA_ARGS__) X(uchar, u8, __VA_ARGS__)
#define MPSX_FOR_BOOL(X, ...) X(bool, bool, __VA_ARGS__)
#define MPSX_FOR_REAL(X, ...) MPSX_FOR_FLOAT(X, __VA_ARGS__) MPSX_FOR_INT(X, __VA_ARGS__)
#define MPSX_FOR_BITS(X, ...) MPSX_FOR_INT(X, __VA_ARGS__) MPSX_FOR_BOOL(X, __VA_ARGS__)
#define MPSX_FOR_ALL(X, ...) MPSX_FOR_REAL(X, __VA_ARGS__) MPSX_FOR_BOOL(X, __VA_ARGS__)

#define MPSX_KERNEL(NAME, ...) template [[host_name(NAME)]] kernel decltype(__VA_ARGS__) __VA_ARGS__;
