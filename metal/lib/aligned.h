// Neighbouring elements that one access moves.
#pragma once

#include "lib/types.h"

template <typename T>
constexpr constant uint pack_size = 16 / sizeof(T);

// The alignment of so many bytes.
template <ulong BYTES>
constexpr constant ulong access_bytes = BYTES < 16 ? BYTES : 16;

// N neighbours, whose address is a multiple of their size, or of 16 bytes if they are more.
template <typename T, uint N>
struct Pack {
  alignas(access_bytes<N * sizeof(T)>) T v[N];
};

template <uint N, typename T>
inline Pack<T, N> load_pack(device const T* from) { return *(device const Pack<T, N>*)from; }
template <uint N, typename T>
inline void store_pack(device T* to, Pack<T, N> pack) { *(device Pack<T, N>*)to = pack; }
