// A broadcast column has one value per row. Compilers do not vectorize a load whose stride might be 0. So for such a
// column, an output element (stride 1) is loaded instead and then ignored.
template <typename A, typename T, typename Op>
kernel void ternary_dense(device T* out [[buffer(0)]], device const A* a [[buffer(1)]],
                          device const T* b [[buffer(2)]], device const T* c [[buffer(3)]],
                          constant StridedParams& p [[buffer(4)]], constant ScalarParams& s [[buffer(5)]],
                          MPSX_GRID_PARAMETERS) {
  typedef compute_t<T> C;
  typedef compute_t<A> CA;
  const Scalars<C> scalar = scalars<C>(s);
  device T* to = out + row_offset(p, 0, gid);
  device const A* from_a = a + row_offset(p, 1, gid);
  device const T* from_b = b + row_offset(p, 2, gid);
  device const T* from_c = c + row_offset(p, 3, gid);
  const bool column_b = p.stride[2][0] == 0, column_c = p.stride[3][0] == 0;
  const C mb =
      operand(column_b, C(ScalarAccess<T>::load(from_b, 0)), C(ScalarAccess<T>::load(column_b ? to : from_b, gid.x)));
  const C mc =
      operand(column_c, C(ScalarAccess<T>::load(from_c, 0)), C(ScalarAccess<T>::load(column_c ? to : from_c, gid.x)));
  const C vb = operand(s.inlined & 4, scalar.c, mb), vc = operand(s.inlined & 8, scalar.c, mc);
  ScalarAccess<T>::store(to, gid.x,
                         T(Op::template apply<CA, C>(CA(ScalarAccess<A>::load(from_a, gid.x)), vb, vc, scalar)));
}
