; y[i] += a * x[i], for bfloat x and a reference to a.
define void @axpy(ptr addrspace(1) noundef "air-buffer-no-alias" %0, ptr addrspace(2) noundef %1, ptr addrspace(2) noundef align 4 dereferenceable(4) %2, i32 noundef %3) local_unnamed_addr #0 {
  %5 = zext i32 %3 to i64
  %6 = getelementptr inbounds bfloat, ptr addrspace(2) %1, i64 %5
  %7 = load bfloat, ptr addrspace(2) %6, align 2, !tbaa !9
  %8 = fpext bfloat %7 to float
  %9 = load float, ptr addrspace(2) %2, align 4
  %10 = getelementptr inbounds float, ptr addrspace(1) %0, i64 %5
  %11 = load float, ptr addrspace(1) %10, align 4
  %12 = tail call fast float @llvm.fmuladd.f32(float %9, float %8, float %11) #1
  store float %12, ptr addrspace(1) %10, align 4
  ret void
}

declare float @llvm.fmuladd.f32(float, float, float) #1

attributes #0 = { convergent mustprogress nounwind "no-builtins" }
attributes #1 = { nounwind willreturn memory(none) }

!air.kernel = !{!0}
!air.version = !{!7}
!air.compile_options = !{!8}

!0 = !{ptr @axpy, !1, !2}
!1 = !{}
!2 = !{!3, !4, !5, !6}
!3 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"float", !"air.arg_name", !"y"}
!4 = !{i32 1, !"air.buffer", !"air.location_index", i32 1, i32 1, !"air.read", !"air.address_space", i32 2, !"air.arg_type_size", i32 2, !"air.arg_type_align_size", i32 2, !"air.arg_type_name", !"bfloat", !"air.arg_name", !"x"}
!5 = !{i32 2, !"air.buffer", !"air.buffer_size", i32 4, !"air.location_index", i32 2, i32 1, !"air.read", !"air.address_space", i32 2, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"float", !"air.arg_name", !"a"}
!6 = !{i32 3, !"air.thread_position_in_grid", !"air.arg_type_name", !"uint", !"air.arg_name", !"i"}
!7 = !{i32 2, i32 6, i32 0}
!8 = !{!"air.compile.denorms_disable"}
!9 = !{!10, !10, i64 0}
!10 = !{!"bfloat", !11, i64 0}
!11 = !{!"omnipotent char"}
