; c = a @ b^T for 8x8 matrices of half, accumulated in float, with both forms of loads.
define void @matmul(ptr addrspace(1) %0, ptr addrspace(2) %1, ptr addrspace(1) %2) {
  %4 = tail call <64 x half> @air.simdgroup_matrix_8x8_load.v64f16.p1f16(ptr addrspace(1) %0, i64 8, <2 x i64> zeroinitializer, i1 false)
  %5 = tail call <64 x half> @air.simdgroup_matrix_8x8_load.v64f16.p2f16(ptr addrspace(2) %1, <2 x i64> <i64 8, i64 8>, <2 x i64> <i64 8, i64 1>, <2 x i64> zeroinitializer)
  %6 = tail call <64 x float> @air.simdgroup_matrix_8x8_init_filled.v64f32.f32(float 1.000000e+00)
  %7 = tail call <64 x float> @air.simdgroup_matrix_8x8_multiply_accumulate.v64f32.v64f16.v64f16.v64f32(<64 x half> %4, <64 x half> %5, <64 x float> %6)
  tail call void @air.simdgroup_matrix_8x8_store.v64f32.p1f32(<64 x float> %7, ptr addrspace(1) %2, i64 8, <2 x i64> zeroinitializer, i1 false)
  ret void
}

declare <64 x half> @air.simdgroup_matrix_8x8_load.v64f16.p1f16(ptr addrspace(1), i64, <2 x i64>, i1)

declare <64 x half> @air.simdgroup_matrix_8x8_load.v64f16.p2f16(ptr addrspace(2), <2 x i64>, <2 x i64>, <2 x i64>)

declare <64 x float> @air.simdgroup_matrix_8x8_init_filled.v64f32.f32(float)

declare <64 x float> @air.simdgroup_matrix_8x8_multiply_accumulate.v64f32.v64f16.v64f16.v64f32(<64 x half>, <64 x half>, <64 x float>)

declare void @air.simdgroup_matrix_8x8_store.v64f32.p1f32(<64 x float>, ptr addrspace(1), i64, <2 x i64>, i1)

!air.kernel = !{!0}

!0 = !{ptr @matmul, !1, !2}
!1 = !{}
!2 = !{!3, !4, !5}
!3 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read", !"air.address_space", i32 1, !"air.arg_type_name", !"half", !"air.arg_name", !"a"}
!4 = !{i32 1, !"air.buffer", !"air.location_index", i32 1, i32 1, !"air.read", !"air.address_space", i32 2, !"air.arg_type_name", !"half", !"air.arg_name", !"b"}
!5 = !{i32 2, !"air.buffer", !"air.location_index", i32 2, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_name", !"float", !"air.arg_name", !"c"}
