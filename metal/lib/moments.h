// Reduces moments across a threadgroup, for the kernels that torch.compile generates.
#pragma once

#include "lib/collective.h"

inline Moments shuffle_down(Moments m, ushort by) {
  return {shuffle_down(m.count, by), shuffle_down(m.mean, by), shuffle_down(m.m2, by)};
}
inline Moments tg_moments(Moments m, threadgroup Moments* scratch, GroupThread g) {
  return tg_reduce<CombineMoments>(m, scratch, g);
}
