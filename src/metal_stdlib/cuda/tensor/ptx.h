// The PTX instructions that tensor operations use (PTX ISA 8.3). Shared memory addresses are 32 bits wide.
#pragma once

#define MPSX_GLOBAL __attribute__((address_space(1)))
#define MPSX_SHARED __attribute__((address_space(3)))

namespace mpsx {
typedef unsigned word4 __attribute__((ext_vector_type(4)));

MPSX_FN unsigned shared_address(const void* p) { return unsigned((unsigned long)(MPSX_SHARED const char*)p); }
MPSX_FN unsigned bits_of(float v) { return __builtin_bit_cast(unsigned, v); }
MPSX_FN float float_of(unsigned v) { return __builtin_bit_cast(float, v); }
MPSX_FN unsigned shuffle_xor(unsigned v, int mask) {
  return unsigned(__nvvm_shfl_sync_bfly_i32(~0u, int(v), mask, 31));
}

// Shared memory.
MPSX_FN void store_shared(unsigned to, word4 v) {
  __asm__ volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                   : "memory");
}
MPSX_FN void store_shared(unsigned to, unsigned v) {
  __asm__ volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}
MPSX_FN word4 load_shared4(unsigned from) {
  unsigned a, b, c, d;
  __asm__ volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                   : "r"(from)
                   : "memory");
  return word4{a, b, c, d};
}
MPSX_FN unsigned load_shared(unsigned from) {
  unsigned v;
  __asm__ volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}

// Copies `bytes` bytes asynchronously and pads them with zeros to 16 bytes.
MPSX_FN void copy_async(unsigned to, const void* from, unsigned bytes) {
  __asm__ volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                   : "memory");
}
MPSX_FN void copy_async_commit() { __asm__ volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
MPSX_FN void copy_async_wait() {
  __asm__ volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#ifdef MPSX_SM90
// Waits for the previous kernel, unless this one has waited at its start (msl/dependent_launch.py). All accesses of an
// operation to device memory come after this, except for those to tensor maps.
MPSX_FN void wait_for_previous_kernel() { __asm__ volatile("mpsx.wait_for_previous_kernel;" ::: "memory"); }
// Lets the next kernel start, if each of its threadgroups fills a multiprocessor (driver/cuda/dependent_launch.h). It
// takes the multiprocessors that become free.
MPSX_FN void let_next_kernel_start() { __asm__ volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// Whether the kernel has a threadgroup for each multiprocessor.
MPSX_FN bool fills_gpu() {
  const unsigned long rows =
      (unsigned long)unsigned(__nvvm_read_ptx_sreg_nctaid_y()) * unsigned(__nvvm_read_ptx_sreg_nctaid_z());
  return rows * unsigned(__nvvm_read_ptx_sreg_nctaid_x()) >= unsigned(__nvvm_read_ptx_sreg_nsmid());
}

// Returns the first lane's value of a 32-bit integer. ptxas then knows that all lanes of the warp have the same value,
// and that they all take the same side of a branch on it.
template <class T>
MPSX_FN T warp_uniform(T x) {
  return T(__nvvm_shfl_sync_idx_i32(~0u, int(x), 0, 31));
}
// Makes one lane execute an instruction that all lanes of a warp reach with the same operands. TMA needs uniform
// operands. If a branch selected the lane, ptxas would put each load in a loop over the lanes, which costs up to 80 ns
// per stage of a pipeline (H200).
#  define MPSX_ELECTED(INSTRUCTION) \
    "\t{\n.reg .pred elected;\nelect.sync _|elected, 0xffffffff;\n@elected " INSTRUCTION ";\n\t}"

// mbarriers.
MPSX_FN void mbarrier_init(unsigned barrier, unsigned arrivals) {
  __asm__ volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
MPSX_FN void mbarrier_invalidate(unsigned barrier) {
  __asm__ volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
// All lanes of a warp call mbarrier_expect() or mbarrier_expect_bytes(). One lane executes it.
MPSX_FN void mbarrier_expect(unsigned barrier, unsigned bytes) {
  __asm__ volatile(MPSX_ELECTED("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1")::"r"(barrier), "r"(bytes)
                   : "memory");
}
// Unlike mbarrier_expect(), does not arrive.
MPSX_FN void mbarrier_expect_bytes(unsigned barrier, unsigned bytes) {
  __asm__ volatile(MPSX_ELECTED("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1")::"r"(barrier), "r"(bytes)
                   : "memory");
}
MPSX_FN void mbarrier_arrive(unsigned barrier) {
  __asm__ volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
MPSX_FN void mbarrier_wait(unsigned barrier, unsigned parity) {
  __asm__ volatile(
      "\t{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra DONE;\n"
      "bra WAIT;\nDONE:\n\t}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
MPSX_FN void fence_mbarrier_init() { __asm__ volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Makes preceding writes to shared memory visible to TMA and wgmma.
MPSX_FN void fence_async_proxy() { __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Thread block clusters. SIZE threadgroups, consecutive along x, form a cluster. The driver adds THREADS threads to
// each threadgroup, after those that the launcher asks for. msl/ptx.py replaces the pseudo-instruction.
template <unsigned SIZE, unsigned THREADS>
MPSX_FN void declare_cluster() {
  __asm__ volatile("mpsx.cluster %0, %1;" ::"n"(SIZE), "n"(THREADS));
}
// All threads of the cluster arrive and then wait. cluster_arrive() does not order accesses to memory, but
// cluster_arrive_release() does. ptxas implements a release at cluster scope as a fence for the whole GPU, which in a
// loop takes as long as multiplying a tile.
MPSX_FN void cluster_arrive() { __asm__ volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
MPSX_FN void cluster_arrive_release() { __asm__ volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
MPSX_FN void cluster_wait() { __asm__ volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// Returns the address in another threadgroup's shared memory that corresponds to this one.
MPSX_FN unsigned peer_address(unsigned address, unsigned rank) {
  unsigned peer;
  __asm__("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(address), "r"(rank));
  return peer;
}
MPSX_FN void mbarrier_arrive_at(unsigned peer) {
  __asm__ volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(peer) : "memory");
}

// wgmma.
MPSX_FN void wgmma_fence() { __asm__ volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
MPSX_FN void wgmma_commit() { __asm__ volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
MPSX_FN void wgmma_wait() {
  __asm__ volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Swizzles, numbered as in matrix descriptors.
enum class swizzle_mode { bytes128 = 1, bytes64 = 2 };
// Returns a matrix descriptor. Offsets are in bytes (PTX ISA, "Matrix Descriptor").
MPSX_FN unsigned long matrix_descriptor(unsigned address, unsigned leading_offset, unsigned stride_offset,
                                        swizzle_mode swizzle = swizzle_mode::bytes128) {
  return (unsigned long)((address & 0x3ffff) >> 4) | (unsigned long)(leading_offset >> 4) << 16 |
         (unsigned long)(stride_offset >> 4) << 32 | (unsigned long)swizzle << 62;
}
#endif
}  // namespace mpsx
