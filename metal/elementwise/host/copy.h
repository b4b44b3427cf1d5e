// Transposing copy on the host driver. A thread moves a tile, with vectorized loops along the contiguous dimensions.
template <typename T>
kernel void copy_transposed(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                            constant StridedParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  constexpr uint side = transpose_side(sizeof(T));
  threadgroup T tile[side * (side + 1)];
  const uint x0 = g.group.x * side, y0 = g.group.y * side;
  const uint nx = min(p.size[0] - x0, side), ny = min(p.size[1] - y0, side);
  const uint3 plane = uint3(0, 0, g.group.z);
  device const T* from = x + row_offset(p, 1, plane) + long(x0) * p.stride[1][0] + y0;
  device T* to = out + row_offset(p, 0, plane) + long(y0) * p.stride[0][1] + x0;
  for (uint i = 0; i < nx; ++i)
    for (uint j = g.index; j < ny; j += g.count)
      tile[j * (side + 1) + i] = from[long(i) * p.stride[1][0] + j];
  tg_barrier();
  for (uint j = 0; j < ny; ++j)
    for (uint i = g.index; i < nx; i += g.count)
      to[long(j) * p.stride[0][1] + i] = tile[j * (side + 1) + i];
}
