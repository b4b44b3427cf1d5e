; Conversions out of range, divisions by zero, vector intrinsics, and an atomic sum.
define void @integers(ptr addrspace(1) %0, ptr addrspace(2) %1, ptr addrspace(2) %2, ptr addrspace(1) %3, <2 x i16> %4, <2 x i32> %5) {
  %7 = extractelement <2 x i16> %4, i64 0
  %8 = zext i16 %7 to i64
  %9 = getelementptr inbounds float, ptr addrspace(2) %1, i64 %8
  %10 = load float, ptr addrspace(2) %9, align 4
  %11 = tail call i32 @air.convert.s.i32.f.f32(float %10)
  %12 = tail call i8 @air.convert.u.i8.f.f32(float %10)
  %13 = zext i8 %12 to i32
  %14 = getelementptr inbounds i32, ptr addrspace(2) %2, i64 %8
  %15 = load i32, ptr addrspace(2) %14, align 4
  %16 = sdiv i32 %11, %15
  %17 = insertelement <4 x i32> undef, i32 %11, i64 0
  %18 = insertelement <4 x i32> %17, i32 %13, i64 1
  %19 = insertelement <4 x i32> %18, i32 %16, i64 2
  %20 = srem i32 %11, %15
  %21 = insertelement <4 x i32> %19, i32 %20, i64 3
  %22 = tail call <4 x i32> @air.max.s.v4i32(<4 x i32> %21, <4 x i32> <i32 -2147483647, i32 -5, i32 -2147483648, i32 -2147483648>)
  %23 = getelementptr inbounds <4 x i32>, ptr addrspace(1) %0, i64 %8
  store <4 x i32> %22, ptr addrspace(1) %23, align 16
  %24 = tail call i32 @air.atomic.global.add.s.i32(ptr addrspace(1) captures(none) %3, i32 1, i32 0, i32 2, i1 true)
  %25 = extractelement <2 x i32> %5, i64 0
  %26 = getelementptr inbounds i32, ptr addrspace(1) %3, i64 1
  store i32 %25, ptr addrspace(1) %26, align 4
  ret void
}

declare i32 @air.convert.s.i32.f.f32(float)

declare i8 @air.convert.u.i8.f.f32(float)

declare <4 x i32> @air.max.s.v4i32(<4 x i32>, <4 x i32>)

declare i32 @air.atomic.global.add.s.i32(ptr addrspace(1) captures(none), i32, i32, i32, i1)

!air.kernel = !{!0}

!0 = !{ptr @integers, !1, !2}
!1 = !{}
!2 = !{!3, !4, !5, !6, !7, !8}
!3 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_name", !"int4", !"air.arg_name", !"out"}
!4 = !{i32 1, !"air.buffer", !"air.location_index", i32 1, i32 1, !"air.read", !"air.address_space", i32 2, !"air.arg_type_name", !"float", !"air.arg_name", !"x"}
!5 = !{i32 2, !"air.buffer", !"air.location_index", i32 2, i32 1, !"air.read", !"air.address_space", i32 2, !"air.arg_type_name", !"int", !"air.arg_name", !"divisors"}
!6 = !{i32 3, !"air.buffer", !"air.location_index", i32 3, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_name", !"atomic_int", !"air.arg_name", !"count"}
!7 = !{i32 4, !"air.thread_position_in_grid", !"air.arg_type_name", !"ushort2", !"air.arg_name", !"i"}
!8 = !{i32 5, !"air.threads_per_grid", !"air.arg_type_name", !"uint2", !"air.arg_name", !"n"}
