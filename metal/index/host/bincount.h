// On the host driver, a threadgroup is one thread, so counters in threadgroup memory need no atomic addition.
inline void count_one(threadgroup atomic_uint* bin) {
  atomic_store_explicit(bin, atomic_load_explicit(bin, memory_order_relaxed) + 1u, memory_order_relaxed);
}
