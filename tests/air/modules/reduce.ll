; The sum of each threadgroup: SIMD groups add their lanes, and the first thread adds the sums in threadgroup memory.
; `first` reads the first of them through a constant expression.
%struct.Pair = type { float, float }

@shared = internal unnamed_addr addrspace(3) global [32 x %struct.Pair] undef, align 4

define void @reduce(ptr addrspace(1) noundef %0, ptr addrspace(2) noundef %1, ptr addrspace(3) noundef %2, i32 noundef %3, i32 noundef %4, <3 x i32> noundef %5, i16 noundef %6, i16 noundef %7, i32 noundef %8) #0 {
  %10 = zext i32 %3 to i64
  %11 = getelementptr inbounds float, ptr addrspace(2) %1, i64 %10
  %12 = load float, ptr addrspace(2) %11, align 4
  %13 = tail call float @air.simd_sum.f32(float %12) #1
  %14 = icmp eq i16 %6, 0
  br i1 %14, label %15, label %18

15:                                               ; preds = %9
  %16 = zext i16 %7 to i64
  %17 = getelementptr inbounds [32 x %struct.Pair], ptr addrspace(3) @shared, i64 0, i64 %16, i32 1
  store float %13, ptr addrspace(3) %17, align 4
  br label %18

18:                                               ; preds = %15, %9
  tail call void @air.wg.barrier(i32 2, i32 1) #1
  %19 = icmp eq i32 %4, 0
  br i1 %19, label %20, label %36

20:                                               ; preds = %18
  %21 = load float, ptr addrspace(3) getelementptr inbounds ([32 x %struct.Pair], ptr addrspace(3) @shared, i64 0, i64 0, i32 1), align 4
  store float %21, ptr addrspace(3) %2, align 4
  br label %22

22:                                               ; preds = %26, %20
  %23 = phi i32 [ 1, %20 ], [ %31, %26 ]
  %24 = phi float [ %21, %20 ], [ %30, %26 ]
  %25 = icmp eq i32 %23, %8
  br i1 %25, label %32, label %26

26:                                               ; preds = %22
  %27 = zext i32 %23 to i64
  %28 = getelementptr inbounds [32 x %struct.Pair], ptr addrspace(3) @shared, i64 0, i64 %27, i32 1
  %29 = load float, ptr addrspace(3) %28, align 4
  %30 = fadd float %24, %29
  %31 = add nuw nsw i32 %23, 1
  br label %22

32:                                               ; preds = %22
  %33 = extractelement <3 x i32> %5, i64 0
  %34 = zext i32 %33 to i64
  %35 = getelementptr inbounds float, ptr addrspace(1) %0, i64 %34
  store float %24, ptr addrspace(1) %35, align 4
  br label %36

36:                                               ; preds = %32, %18
  ret void
}

declare float @air.simd_sum.f32(float) #1

declare void @air.wg.barrier(i32, i32) #1

attributes #0 = { convergent nounwind }
attributes #1 = { convergent nounwind willreturn }

!air.kernel = !{!0}

!0 = !{ptr @reduce, !1, !2, !12}
!1 = !{}
!2 = !{!3, !4, !5, !6, !7, !8, !9, !10, !11}
!3 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_name", !"float", !"air.arg_name", !"out"}
!4 = !{i32 1, !"air.buffer", !"air.location_index", i32 1, i32 1, !"air.read", !"air.address_space", i32 2, !"air.arg_type_name", !"float", !"air.arg_name", !"x"}
!5 = !{i32 2, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 3, !"air.arg_type_name", !"float", !"air.arg_name", !"first"}
!6 = !{i32 3, !"air.thread_position_in_grid", !"air.arg_type_name", !"uint", !"air.arg_name", !"i"}
!7 = !{i32 4, !"air.thread_index_in_threadgroup", !"air.arg_type_name", !"uint", !"air.arg_name", !"t"}
!8 = !{i32 5, !"air.threadgroup_position_in_grid", !"air.arg_type_name", !"uint3", !"air.arg_name", !"group"}
!9 = !{i32 6, !"air.thread_index_in_simdgroup", !"air.arg_type_name", !"ushort", !"air.arg_name", !"lane"}
!10 = !{i32 7, !"air.simdgroup_index_in_threadgroup", !"air.arg_type_name", !"ushort", !"air.arg_name", !"simd"}
!11 = !{i32 8, !"air.simdgroups_per_threadgroup", !"air.arg_type_name", !"uint", !"air.arg_name", !"simds"}
!12 = !{!"air.max_work_group_size", i32 256}
