// The swizzles of a vector (xy, zyx, rgba, …) as members of its union. Only vector.h may include this file.
#pragma once

// MPSX_EACHn_k(M, letters, …) calls M(letter, index, …) for each of n letters. k numbers four copies of the macro,
// which are needed because a macro cannot be nested inside itself.
#define MPSX_EACH2_1(M, A, B, C, D, ...) M(A, 0, __VA_ARGS__) M(B, 1, __VA_ARGS__)
#define MPSX_EACH3_1(M, A, B, C, D, ...) MPSX_EACH2_1(M, A, B, C, D, __VA_ARGS__) M(C, 2, __VA_ARGS__)
#define MPSX_EACH4_1(M, A, B, C, D, ...) MPSX_EACH3_1(M, A, B, C, D, __VA_ARGS__) M(D, 3, __VA_ARGS__)
#define MPSX_EACH2_2(M, A, B, C, D, ...) M(A, 0, __VA_ARGS__) M(B, 1, __VA_ARGS__)
#define MPSX_EACH3_2(M, A, B, C, D, ...) MPSX_EACH2_2(M, A, B, C, D, __VA_ARGS__) M(C, 2, __VA_ARGS__)
#define MPSX_EACH4_2(M, A, B, C, D, ...) MPSX_EACH3_2(M, A, B, C, D, __VA_ARGS__) M(D, 3, __VA_ARGS__)
#define MPSX_EACH2_3(M, A, B, C, D, ...) M(A, 0, __VA_ARGS__) M(B, 1, __VA_ARGS__)
#define MPSX_EACH3_3(M, A, B, C, D, ...) MPSX_EACH2_3(M, A, B, C, D, __VA_ARGS__) M(C, 2, __VA_ARGS__)
#define MPSX_EACH4_3(M, A, B, C, D, ...) MPSX_EACH3_3(M, A, B, C, D, __VA_ARGS__) M(D, 3, __VA_ARGS__)
#define MPSX_EACH2_4(M, A, B, C, D, ...) M(A, 0, __VA_ARGS__) M(B, 1, __VA_ARGS__)
#define MPSX_EACH3_4(M, A, B, C, D, ...) MPSX_EACH2_4(M, A, B, C, D, __VA_ARGS__) M(C, 2, __VA_ARGS__)
#define MPSX_EACH4_4(M, A, B, C, D, ...) MPSX_EACH3_4(M, A, B, C, D, __VA_ARGS__) M(D, 3, __VA_ARGS__)

// The arguments are ordered from the innermost to the outermost letter. Inner letters vary fastest.
#define MPSX_SW2(b, j, a, i, STORED) mpsx_swizzle<T, STORED, i, j> a##b;
#define MPSX_SW3(c, k, b, j, a, i, STORED) mpsx_swizzle<T, STORED, i, j, k> a##b##c;
#define MPSX_SW4(d, l, c, k, b, j, a, i, STORED) mpsx_swizzle<T, STORED, i, j, k, l> a##b##c##d;

#define MPSX_SW2_2(a, i, N, A, B, C, D) \
  MPSX_EACH2_2(MPSX_SW2, A, B, C, D, a, i, N)
#define MPSX_SW2_3A(b, j, a, i, N, A, B, C, D) MPSX_EACH2_3(MPSX_SW3, A, B, C, D, b, j, a, i, N)
#define MPSX_SW2_3(a, i, N, A, B, C, D) MPSX_EACH2_2(MPSX_SW2_3A, A, B, C, D, a, i, N, A, B, C, D)
#define MPSX_SW2_4B(c, k, b, j, a, i, N, A, B, C, D) MPSX_EACH2_4(MPSX_SW4, A, B, C, D, c, k, b, j, a, i, N)
#define MPSX_SW2_4A(b, j, a, i, N, A, B, C, D) MPSX_EACH2_3(MPSX_SW2_4B, A, B, C, D, b, j, a, i, N, A, B, C, D)
#define MPSX_SW2_4(a, i, N, A, B, C, D) MPSX_EACH2_2(MPSX_SW2_4A, A, B, C, D, a, i, N, A, B, C, D)

#define MPSX_SW3_2(a, i, N, A, B, C, D) \
  MPSX_EACH3_2(MPSX_SW2, A, B, C, D, a, i, N)
#define MPSX_SW3_3A(b, j, a, i, N, A, B, C, D) MPSX_EACH3_3(MPSX_SW3, A, B, C, D, b, j, a, i, N)
#define MPSX_SW3_3(a, i, N, A, B, C, D) MPSX_EACH3_2(MPSX_SW3_3A, A, B, C, D, a, i, N, A, B, C, D)
#define MPSX_SW3_4B(c, k, b, j, a, i, N, A, B, C, D) MPSX_EACH3_4(MPSX_SW4, A, B, C, D, c, k, b, j, a, i, N)
#define MPSX_SW3_4A(b, j, a, i, N, A, B, C, D) MPSX_EACH3_3(MPSX_SW3_4B, A, B, C, D, b, j, a, i, N, A, B, C, D)
#define MPSX_SW3_4(a, i, N, A, B, C, D) MPSX_EACH3_2(MPSX_SW3_4A, A, B, C, D, a, i, N, A, B, C, D)

#define MPSX_SW4_2(a, i, N, A, B, C, D) \
  MPSX_EACH4_2(MPSX_SW2, A, B, C, D, a, i, N)
#define MPSX_SW4_3A(b, j, a, i, N, A, B, C, D) MPSX_EACH4_3(MPSX_SW3, A, B, C, D, b, j, a, i, N)
#define MPSX_SW4_3(a, i, N, A, B, C, D) MPSX_EACH4_2(MPSX_SW4_3A, A, B, C, D, a, i, N, A, B, C, D)
#define MPSX_SW4_4B(c, k, b, j, a, i, N, A, B, C, D) MPSX_EACH4_4(MPSX_SW4, A, B, C, D, c, k, b, j, a, i, N)
#define MPSX_SW4_4A(b, j, a, i, N, A, B, C, D) MPSX_EACH4_3(MPSX_SW4_4B, A, B, C, D, b, j, a, i, N, A, B, C, D)
#define MPSX_SW4_4(a, i, N, A, B, C, D) MPSX_EACH4_2(MPSX_SW4_4A, A, B, C, D, a, i, N, A, B, C, D)

#define MPSX_SWIZZLES_OF(n, STORED, A, B, C, D)                    \
  MPSX_EACH##n##_1(MPSX_SW##n##_2, A, B, C, D, STORED, A, B, C, D) \
  MPSX_EACH##n##_1(MPSX_SW##n##_3, A, B, C, D, STORED, A, B, C, D) \
  MPSX_EACH##n##_1(MPSX_SW##n##_4, A, B, C, D, STORED, A, B, C, D)
// The swizzle members of a vector with n components. STORED is the number of components in memory.
#define MPSX_SWIZZLES(n, STORED) MPSX_SWIZZLES_OF(n, STORED, x, y, z, w) MPSX_SWIZZLES_OF(n, STORED, r, g, b, a)
