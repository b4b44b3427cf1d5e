// On CPUs a threadgroup is one thread, which needs no atomics for its own memory.
inline void count_one(threadgroup atomic_uint* bin) {
  atomic_store_explicit(bin, atomic_load_explicit(bin, memory_order_relaxed) + 1u, memory_order_relaxed);
}
