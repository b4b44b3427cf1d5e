// Kernels over lists of tensors: declares their buffers and finds the chunk that each threadgroup processes.
//
// Metal has no portable way to pass an array of pointers (argument buffers differ between GPU families). So a kernel
// declares 30 named buffers and selects one by an index that is the same in the whole threadgroup.
#pragma once

#include "lib/vec_loop.h"
#include "optim/params.h"

#define MPSX_LIST_BUFFERS                                                                                   \
  device uchar *b0 [[buffer(0)]], device uchar *b1 [[buffer(1)]], device uchar *b2 [[buffer(2)]],           \
      device uchar *b3 [[buffer(3)]], device uchar *b4 [[buffer(4)]], device uchar *b5 [[buffer(5)]],       \
      device uchar *b6 [[buffer(6)]], device uchar *b7 [[buffer(7)]], device uchar *b8 [[buffer(8)]],       \
      device uchar *b9 [[buffer(9)]], device uchar *b10 [[buffer(10)]], device uchar *b11 [[buffer(11)]],   \
      device uchar *b12 [[buffer(12)]], device uchar *b13 [[buffer(13)]], device uchar *b14 [[buffer(14)]], \
      device uchar *b15 [[buffer(15)]], device uchar *b16 [[buffer(16)]], device uchar *b17 [[buffer(17)]], \
      device uchar *b18 [[buffer(18)]], device uchar *b19 [[buffer(19)]], device uchar *b20 [[buffer(20)]], \
      device uchar *b21 [[buffer(21)]], device uchar *b22 [[buffer(22)]], device uchar *b23 [[buffer(23)]], \
      device uchar *b24 [[buffer(24)]], device uchar *b25 [[buffer(25)]], device uchar *b26 [[buffer(26)]], \
      device uchar *b27 [[buffer(27)]], device uchar *b28 [[buffer(28)]], device uchar *b29 [[buffer(29)]]
#define MPSX_LIST_NAMES                                                                                              \
  b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15, b16, b17, b18, b19, b20, b21, b22, b23, b24, \
      b25, b26, b27, b28, b29

// The kernel parameters that follow the buffers.
#define MPSX_LIST_POSITION                                                               \
  uint group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]], \
      uint tpt [[threads_per_threadgroup]]

// MPSX_LIST points to this threadgroup's chunk of a tensor in list `l`. MPSX_LIST_VALUE is the tensor's value in a list
// `l` of one-element tensors.
#define MPSX_LIST(T, l) \
  (reinterpret_cast<device T*>(pick_buffer((l)*p.tensors + chunk.tensor, MPSX_LIST_NAMES)) + chunk.start)
#define MPSX_LIST_VALUE(T, l) (*reinterpret_cast<device T*>(pick_buffer((l)*p.tensors + chunk.tensor, MPSX_LIST_NAMES)))

inline device uchar* pick_buffer(uint index, device uchar* b0, device uchar* b1, device uchar* b2, device uchar* b3,
                                 device uchar* b4, device uchar* b5, device uchar* b6, device uchar* b7,
                                 device uchar* b8, device uchar* b9, device uchar* b10, device uchar* b11,
                                 device uchar* b12, device uchar* b13, device uchar* b14, device uchar* b15,
                                 device uchar* b16, device uchar* b17, device uchar* b18, device uchar* b19,
                                 device uchar* b20, device uchar* b21, device uchar* b22, device uchar* b23,
                                 device uchar* b24, device uchar* b25, device uchar* b26, device uchar* b27,
                                 device uchar* b28, device uchar* b29) {
#define MPSX_PICK(i) case i: return b##i;
  switch (index) {
    MPSX_PICK(0) MPSX_PICK(1) MPSX_PICK(2) MPSX_PICK(3) MPSX_PICK(4) MPSX_PICK(5) MPSX_PICK(6) MPSX_PICK(7)
    MPSX_PICK(8) MPSX_PICK(9) MPSX_PICK(10) MPSX_PICK(11) MPSX_PICK(12) MPSX_PICK(13) MPSX_PICK(14) MPSX_PICK(15)
    MPSX_PICK(16) MPSX_PICK(17) MPSX_PICK(18) MPSX_PICK(19) MPSX_PICK(20) MPSX_PICK(21) MPSX_PICK(22) MPSX_PICK(23)
    MPSX_PICK(24) MPSX_PICK(25) MPSX_PICK(26) MPSX_PICK(27) MPSX_PICK(28)
    default: return b29;
  }
#undef MPSX_PICK
}

struct ListChunk {
  uint tensor;
  uint count;  // number of elements
  ulong start;
};

inline ListChunk list_chunk(constant ListParams& p, uint group) {
  uint tensor = 0, first = 0;
  while (group >= p.end[tensor]) first = p.end[tensor++];
  const ulong start = ulong(group - first) * kListChunk;
  return {tensor, uint(min(p.numel[tensor] - start, ulong(kListChunk))), start};
}
