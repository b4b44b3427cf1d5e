// memcpy has a form for every length, and above a few KB one that does not read what it overwrites; a call costs more
// than a short copy.

// Between N and 2 N bytes: the first N and the last N of them.
template <uint N>
inline void copy_twice(device uchar* to, device const uchar* from, uint bytes) {
  uchar head[N], tail[N];
  __builtin_memcpy(head, from, N);
  __builtin_memcpy(tail, from + (bytes - N), N);
  __builtin_memcpy(to, head, N);
  __builtin_memcpy(to + (bytes - N), tail, N);
}

template <typename T>
inline void copy_run(device T* to, device const T* from, uint count) {
  device uchar* target = (device uchar*)to;
  device const uchar* source = (device const uchar*)from;
  const ulong bytes = ulong(count) * sizeof(T);
  if (bytes > 128) {
    __builtin_memcpy(target, source, bytes);
  } else if (bytes >= 64) {
    copy_twice<64>(target, source, uint(bytes));
  } else if (bytes >= 32) {
    copy_twice<32>(target, source, uint(bytes));
  } else if (bytes >= 16) {
    copy_twice<16>(target, source, uint(bytes));
  } else {
    MPSX_FEW
    for (uint i = 0; i < count; ++i) to[i] = from[i];
  }
}
