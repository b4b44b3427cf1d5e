// On the host driver, a vector has one element, and the compiler vectorizes the loop around it.
#pragma once

template <uint N, typename T>
inline Vec<T, N> load_vec(device const T* from) { return *(device const Vec<T, N>*)from; }
template <uint N, typename T>
inline void store_vec(device T* to, Vec<T, N> values) { *(device Vec<T, N>*)to = values; }
