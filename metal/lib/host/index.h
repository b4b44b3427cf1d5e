// Without a branch, so that the compiler can hoist the computation out of the loop over threads.
template <typename Params>
inline long row_offset(constant Params& p, uint operand, uint3 gid) {
  const uint z1 = gid.z / p.size[2], z0 = gid.z - z1 * p.size[2];
  return long(gid.y) * p.stride[operand][1] + long(z0) * p.stride[operand][2] + long(z1) * p.stride[operand][3];
}
