// Kernels over lists of tensors: how their buffers are declared, and which of them a threadgroup works on.
//
// Metal has no portable table of pointers (argument buffers differ between GPU families), so a kernel declares 30
// buffers by name and picks some by an index that is uniform in the threadgroup.
#pragma once

#include "lib/pack.h"
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

// The rest of a kernel's signature.
#define MPSX_LIST_POSITION                                                               \
  uint group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]], \
      uint tpt [[threads_per_threadgroup]]

// The elements of list `l` that the threadgroup works on, and the one value that a list of scalars has for its tensor.
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
  switch (index) {
    case 0:
      return b0;
    case 1:
      return b1;
    case 2:
      return b2;
    case 3:
      return b3;
    case 4:
      return b4;
    case 5:
      return b5;
    case 6:
      return b6;
    case 7:
      return b7;
    case 8:
      return b8;
    case 9:
      return b9;
    case 10:
      return b10;
    case 11:
      return b11;
    case 12:
      return b12;
    case 13:
      return b13;
    case 14:
      return b14;
    case 15:
      return b15;
    case 16:
      return b16;
    case 17:
      return b17;
    case 18:
      return b18;
    case 19:
      return b19;
    case 20:
      return b20;
    case 21:
      return b21;
    case 22:
      return b22;
    case 23:
      return b23;
    case 24:
      return b24;
    case 25:
      return b25;
    case 26:
      return b26;
    case 27:
      return b27;
    case 28:
      return b28;
    default:
      return b29;
  }
}

struct ListChunk {
  uint tensor;
  uint count;  // elements
  ulong start;
};

inline ListChunk list_chunk(constant ListParams& p, uint group) {
  uint tensor = 0, first = 0;
  while (group >= p.end[tensor]) first = p.end[tensor++];
  const ulong start = ulong(group - first) * kListChunk;
  return {tensor, uint(min(p.numel[tensor] - start, ulong(kListChunk))), start};
}
