; out[i] = scale * (use_bias ? bias[i] : 1), with function constants, and a buffer that one of them enables.
@_ZL8use_bias = internal unnamed_addr addrspace(2) global i8 undef, align 1
@_Z8use_bias.MTL_FC_INIT_3_b = internal unnamed_addr addrspace(2) externally_initialized constant i8 undef, section "air.fc_initializer", align 1
@_ZL5scale = internal unnamed_addr addrspace(2) global <2 x float> undef, align 8
@_Z5scale.MTL_FC_INIT_5_f = internal unnamed_addr addrspace(2) externally_initialized constant <2 x float> undef, section "air.fc_initializer", align 8
@__metal_implicit_fc_pred_0 = internal addrspace(2) global i8 0, align 1
@table = internal unnamed_addr addrspace(2) constant [2 x float] [float 1.000000e+00, float 1.000000e+01], align 4
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @_GLOBAL__sub_I_constants.metal, ptr null }]
@llvm.compiler.used = appending global [1 x ptr] [ptr addrspacecast (ptr addrspace(2) @__metal_implicit_fc_pred_0 to ptr)], section "llvm.metadata"

define internal void @_GLOBAL__sub_I_constants.metal() section "air.static_init" {
  %1 = load i8, ptr addrspace(2) @_Z8use_bias.MTL_FC_INIT_3_b, align 1, !range !11
  store i8 %1, ptr addrspace(2) @_ZL8use_bias, align 1
  %2 = load <2 x float>, ptr addrspace(2) @_Z5scale.MTL_FC_INIT_5_f, align 8
  store <2 x float> %2, ptr addrspace(2) @_ZL5scale, align 8
  %3 = tail call i8 @air.normalize_function_constant_predicate.i8(i8 %1)
  store i8 %3, ptr addrspace(2) @__metal_implicit_fc_pred_0, align 1
  ret void
}

define void @scaled(ptr addrspace(1) %out, ptr addrspace(1) %bias, i32 %i) {
  %1 = load i8, ptr addrspace(2) @_ZL8use_bias, align 1, !range !11
  %2 = icmp eq i8 %1, 0
  br i1 %2, label %7, label %3

3:                                                ; preds = %0
  %4 = zext i32 %i to i64
  %5 = getelementptr inbounds float, ptr addrspace(1) %bias, i64 %4
  %6 = load float, ptr addrspace(1) %5, align 4
  br label %7

7:                                                ; preds = %3, %0
  %8 = phi float [ %6, %3 ], [ 1.000000e+00, %0 ]
  %9 = load <2 x float>, ptr addrspace(2) @_ZL5scale, align 8
  %10 = extractelement <2 x float> %9, i64 0
  %11 = extractelement <2 x float> %9, i64 1
  %12 = zext i8 %1 to i64
  %13 = getelementptr inbounds [2 x float], ptr addrspace(2) @table, i64 0, i64 %12
  %14 = load float, ptr addrspace(2) %13, align 4
  %15 = fmul float %8, %10
  %16 = fadd float %15, %11
  %17 = fmul float %16, %14
  %18 = zext i32 %i to i64
  %19 = getelementptr inbounds float, ptr addrspace(1) %out, i64 %18
  store float %17, ptr addrspace(1) %19, align 4
  ret void
}

declare i8 @air.normalize_function_constant_predicate.i8(i8)

!air.kernel = !{!0}
!air.function_constants = !{!7, !8}

!0 = !{ptr @scaled, !1, !2}
!1 = !{}
!2 = !{!3, !4, !6}
!3 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_name", !"float", !"air.arg_name", !"out"}
!4 = !{i32 1, !"air.function_constant", !5, !"air.buffer", !"air.location_index", i32 2, i32 1, !"air.read", !"air.address_space", i32 1, !"air.arg_type_name", !"float", !"air.arg_name", !"bias"}
!5 = !{ptr addrspace(2) @__metal_implicit_fc_pred_0, !"bool", !"use_bias"}
!6 = !{i32 2, !"air.thread_position_in_grid", !"air.arg_type_name", !"uint", !"air.arg_name", !"i"}
!7 = !{ptr addrspace(2) @_Z8use_bias.MTL_FC_INIT_3_b, !"bool", !"use_bias", i32 3, i1 true}
!8 = !{ptr addrspace(2) @_Z5scale.MTL_FC_INIT_5_f, !"float2", !"scale", i32 5, i1 true}
!11 = !{i8 0, i8 2}
