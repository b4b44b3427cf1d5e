// Hopper's Tensor Memory Accelerator (TMA): builds tensor maps in the kernel and loads boxes of up to five dimensions.
#pragma once

namespace mpsx {
// The element types of tensor maps, numbered like tensormap.replace .elemtype (PTX ISA).
enum class map_type { uint8 = 0, float16 = 6, float32 = 7, bfloat16 = 10 };
template <class T>
constexpr map_type map_type_of = is_half_type<T>     ? map_type::float16
                                 : is_bfloat_type<T> ? map_type::bfloat16
                                                     : map_type::float32;

// A matrix for which to build a tensor map. Extents are in elements, innermost first. The stride is in bytes.
struct matrix_map {
  const void* base;
  map_type type;
  unsigned extent[2];
  unsigned long stride;
  unsigned box[2];
  swizzle_mode swizzle = swizzle_mode::bytes128;
};

#define MPSX_REPLACE(FIELD, BITS, CONSTRAINT, VALUE, TEXT)                                                      \
  __asm__ volatile("tensormap.replace.tile." FIELD ".shared::cta.b1024." BITS " [%0], " TEXT ";" ::"r"(memory), \
                   CONSTRAINT(VALUE)                                                                            \
                   : "memory")
#define MPSX_REPLACE_CONSTANT(FIELD, VALUE) \
  __asm__ volatile("tensormap.replace.tile." FIELD ".shared::cta.b1024.b32 [%0], " VALUE ";" ::"r"(memory) : "memory")
// A dimension of a pixel_map. `OUTER` is that of its stride.
#define MPSX_REPLACE_DIMENSION(DIMENSION, OUTER, I)                                 \
  MPSX_REPLACE("box_dim", "b32", "r", map.size[I] * map.step[I], DIMENSION ", %1"); \
  MPSX_REPLACE("global_dim", "b32", "r", map.pixels[I], DIMENSION ", %1");          \
  MPSX_REPLACE("global_stride", "b64", "l", map.strides[I], OUTER ", %1");          \
  MPSX_REPLACE("element_stride", "b32", "r", map.step[I], DIMENSION ", %1")

// A batch of matrices. Its tensor map has three dimensions. The stride between matrices is in bytes.
struct batch_map : matrix_map {
  unsigned count;
  unsigned long batch_stride;
};

// The pixels of channels-last images as a tensor with five dimensions: channels, x, y, z, images. Dimensions 0 and 1
// are those of matrix_map. A box's pixels are `step` pixels apart along each dimension. Strides are in bytes.
struct pixel_map : matrix_map {
  unsigned pixels[4], size[4], step[4];
  unsigned long strides[4];
};

// Builds a tensor map in shared memory at `memory` (128 bytes, 128-byte aligned). All lanes of a warp must call this.
// Loads through the map return zeros for elements outside the extents.
MPSX_FN void build_map(unsigned memory, const matrix_map& map) {
  const unsigned lane = unsigned(__nvvm_read_ptx_sreg_tid_x()) & 31u;
  store_shared(memory + lane * 4, 0u);
  __nvvm_bar_warp_sync(~0u);
  if (lane == 0) {
    MPSX_REPLACE("global_address", "b64", "l", map.base, "%1");
    MPSX_REPLACE_CONSTANT("rank", "1");
    MPSX_REPLACE("box_dim", "b32", "r", map.box[0], "0, %1");
    MPSX_REPLACE("box_dim", "b32", "r", map.box[1], "1, %1");
    MPSX_REPLACE("global_dim", "b32", "r", map.extent[0], "0, %1");
    MPSX_REPLACE("global_dim", "b32", "r", map.extent[1], "1, %1");
    MPSX_REPLACE("global_stride", "b64", "l", map.stride, "0, %1");
    MPSX_REPLACE("element_stride", "b32", "r", 1, "0, %1");
    MPSX_REPLACE("element_stride", "b32", "r", 1, "1, %1");
    if (map.type == map_type::uint8) MPSX_REPLACE_CONSTANT("elemtype", "0");
    if (map.type == map_type::float16) MPSX_REPLACE_CONSTANT("elemtype", "6");
    if (map.type == map_type::float32) MPSX_REPLACE_CONSTANT("elemtype", "7");
    if (map.type == map_type::bfloat16) MPSX_REPLACE_CONSTANT("elemtype", "10");
    MPSX_REPLACE_CONSTANT("interleave_layout", "0");
    if (map.swizzle == swizzle_mode::bytes64) MPSX_REPLACE_CONSTANT("swizzle_mode", "2");
    if (map.swizzle == swizzle_mode::bytes128) MPSX_REPLACE_CONSTANT("swizzle_mode", "3");
    MPSX_REPLACE_CONSTANT("fill_mode", "0");
  }
  __nvvm_bar_warp_sync(~0u);
}
MPSX_FN void build_map(unsigned memory, const batch_map& map) {
  build_map(memory, static_cast<const matrix_map&>(map));
  if ((unsigned(__nvvm_read_ptx_sreg_tid_x()) & 31u) == 0) {
    MPSX_REPLACE_CONSTANT("rank", "2");
    MPSX_REPLACE_CONSTANT("box_dim", "2, 1");
    MPSX_REPLACE("global_dim", "b32", "r", map.count, "2, %1");
    MPSX_REPLACE("global_stride", "b64", "l", map.batch_stride, "1, %1");
    MPSX_REPLACE_CONSTANT("element_stride", "2, 1");
  }
  __nvvm_bar_warp_sync(~0u);
}
MPSX_FN void build_map(unsigned memory, const pixel_map& map) {
  build_map(memory, static_cast<const matrix_map&>(map));
  if ((unsigned(__nvvm_read_ptx_sreg_tid_x()) & 31u) == 0) {
    MPSX_REPLACE_CONSTANT("rank", "4");
    MPSX_REPLACE("element_stride", "b32", "r", map.step[0], "1, %1");
    MPSX_REPLACE_DIMENSION("2", "1", 1);
    MPSX_REPLACE_DIMENSION("3", "2", 2);
    MPSX_REPLACE_DIMENSION("4", "3", 3);
  }
  __nvvm_bar_warp_sync(~0u);
}
// Copies the map that this warp has built at `memory` to device memory at `target`, from where TMA reads it.
MPSX_FN void publish_map(unsigned memory, void* target) {
  __asm__ volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
          target),
      "r"(memory)
      : "memory");
}
template <class Map>
MPSX_FN void write_map(unsigned memory, void* target, const Map& map) {
  build_map(memory, map);
  publish_map(memory, target);
}
#undef MPSX_REPLACE
#undef MPSX_REPLACE_CONSTANT
#undef MPSX_REPLACE_DIMENSION
// Returns a map of a matrix, or of a PixelMatrix (metal/lib/multiply_pixels.h), whose boxes have `rows` rows of
// `columns` elements.
template <class X>
MPSX_FN auto operand_map(const X& source, unsigned columns, unsigned rows,
                         swizzle_mode swizzle = swizzle_mode::bytes128) {
  typedef typename X::value_type T;
  if constexpr (is_tensor_v<X>) {
    return matrix_map{source.mpsx_data(),
                      map_type_of<T>,
                      {unsigned(source.get_extent(0)), unsigned(source.get_extent(1))},
                      (unsigned long)(source.get_stride(1)) * sizeof(T),
                      {columns, rows},
                      swizzle};
  } else {
    pixel_map map;
    static_cast<matrix_map&>(map) = {source.data,
                                     map_type_of<T>,
                                     {source.channels, source.extent[0]},
                                     (unsigned long)(source.stride[0]) * sizeof(T),
                                     {columns, source.step[0] << source.log2_size[0]},
                                     swizzle};
#pragma unroll
    for (int d = 0; d < 4; ++d) {
      map.pixels[d] = source.extent[d];
      map.size[d] = 1u << source.log2_size[d];
      map.step[d] = source.step[d];
      map.strides[d] = (unsigned long)(source.stride[d]) * sizeof(T);
    }
    return map;
  }
}
template <class X>
MPSX_FN bool in_shared(const X& source) {
  return __nvvm_isspacep_shared(source.mpsx_data());
}
// Returns whether the rows of the tensor are contiguous in device memory.
template <class X>
MPSX_FN bool has_device_rows(const X& source) {
  return source.get_stride(0) == 1 && !in_shared(source);
}
// Returns whether TMA can read the tensor. The rows must be 16-byte aligned, and the tensor must not be empty.
template <class X>
MPSX_FN bool tma_can_read(const X& source) {
  if constexpr (is_aligned<X>) return true;
  const unsigned long pitch = (unsigned long)(source.get_stride(1)) * sizeof(typename X::value_type);
  return ((unsigned long)source.mpsx_data() | pitch) % 16 == 0 && has_device_rows(source) && source.get_extent(0) > 0 &&
         source.get_extent(1) > 0 && source.get_stride(1) > 0;
}
// Makes a map that a warp has published visible to subsequent loads.
MPSX_FN void acquire_map(const void* map) {
  __asm__ volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}
// Starts loading the box at (x, y) of the map's matrix. The mbarrier counts the bytes that have arrived. All lanes of a
// warp call load_box(), and one of them starts the load.
MPSX_FN void load_box(unsigned to, const void* map, int x, int y, unsigned barrier) {
  __asm__ volatile(
      MPSX_ELECTED("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                   "[%4]")::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
MPSX_FN void load_box(unsigned to, const void* map, int x, int y, int z, unsigned barrier) {
  __asm__ volatile(MPSX_ELECTED("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                                "[%1, {%2, %3, %4}], [%5]")::"r"(to),
                   "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
                   : "memory");
}
// Loads the box whose first pixel is `pixel`, which has the members of PixelIndex (metal/lib/multiply_pixels.h).
template <class Pixel>
MPSX_FN void load_box(unsigned to, const void* map, int channel, const Pixel& pixel, unsigned barrier) {
  __asm__ volatile(MPSX_ELECTED("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                                "[%1, {%2, %3, %4, %5, %6}], [%7]")::"r"(to),
                   "l"(map), "r"(channel), "r"(pixel.at[0]), "r"(pixel.at[1]), "r"(pixel.at[2]), "r"(pixel.at[3]),
                   "r"(barrier)
                   : "memory");
}

// COUNT threadgroups of a cluster that receive a box, as a set of ranks in the cluster.
template <int COUNT>
struct multicast {
  unsigned short ranks;
};
// Loads the box to the same address in each of the threadgroups, and counts its bytes in the mbarrier of each.
template <int COUNT>
MPSX_FN void load_box(unsigned to, const void* map, int x, int y, unsigned barrier, multicast<COUNT> receivers) {
  if constexpr (COUNT == 1)
    load_box(to, map, x, y, barrier);
  else
    __asm__ volatile(
        MPSX_ELECTED("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1, {%2, %3}], [%4], %5")::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(receivers.ranks)
        : "memory");
}

// Device memory for the tensor maps of running threadgroups. A threadgroup claims one of its multiprocessor's slots
// while it runs an operation, because TMA reads maps from device memory and a map must not change until its loads are
// complete. A multiprocessor never runs more threadgroups than it has slots, because each of them uses at least 32 KiB
// of the 228 KiB of shared memory.
//
// A threadgroup for which owns_processor() is true is the only one on its multiprocessor, so it need not claim its
// slot. To keep threadgroups of other kernels away, it must use reserved_bytes() of shared memory.
constexpr unsigned kOwnerBytes = 197 * 1024;
constexpr bool owns_processor(unsigned bytes) { return bytes > 114 * 1024; }
constexpr unsigned reserved_bytes(unsigned bytes) {
  return owns_processor(bytes) && bytes < kOwnerBytes ? kOwnerBytes : bytes;
}
constexpr unsigned kMapProcessors = 256, kMapSlots = 8, kMapBytes = 256;
static MPSX_GLOBAL
    __attribute__((loader_uninitialized, aligned(128))) char map_memory[kMapProcessors * kMapSlots * kMapBytes];
static MPSX_GLOBAL unsigned claimed_slots[kMapProcessors];

// A slot belongs to the warp that claims it. One of its lanes calls claim_map_slot() and release_map_slot().
MPSX_FN unsigned claim_map_slot() {
  const unsigned processor = unsigned(__nvvm_read_ptx_sreg_smid()) % kMapProcessors;
  const unsigned long claimed = (unsigned long)&claimed_slots[processor];
  for (unsigned i = 0;; i = (i + 1) % kMapSlots) {
    const unsigned bit = 1u << i;
    unsigned before;
    __asm__ volatile("atom.acquire.gpu.global.or.b32 %0, [%1], %2;" : "=r"(before) : "l"(claimed), "r"(bit) : "memory");
    if (!(before & bit)) return processor * kMapSlots + i;
  }
}
MPSX_FN void release_map_slot(unsigned slot) {
  unsigned* const claimed = (unsigned*)&claimed_slots[slot / kMapSlots];
  __atomic_fetch_and(claimed, ~(1u << slot % kMapSlots), __ATOMIC_RELEASE);
}
// Returns a slot. Claims it unless the threadgroup has the multiprocessor to itself.
MPSX_FN unsigned take_map_slot(bool owns_processor) {
  if (owns_processor) return unsigned(__nvvm_read_ptx_sreg_smid()) % kMapProcessors * kMapSlots;
  return claim_map_slot();
}
MPSX_FN char* map_slot(unsigned slot) { return (char*)map_memory + slot * kMapBytes; }
}  // namespace mpsx
