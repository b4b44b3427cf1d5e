"""Public torch functions that public_calls.py omits, grouped by reason."""

EXCLUDED = {
    "reads or changes a global setting": """
        are_deterministic_algorithms_enabled autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
        compiled_with_cxx11_abi get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype get_autocast_ipu_dtype
        get_autocast_xla_dtype get_default_device get_default_dtype get_deterministic_debug_mode get_device_module
        get_file_path get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state
        init_num_threads initial_seed is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled
        is_autocast_cpu_enabled is_autocast_enabled is_autocast_ipu_enabled is_autocast_xla_enabled
        is_deterministic_algorithms_warn_only_enabled is_grad_enabled is_inference_mode_enabled is_vulkan_available
        is_warn_always_enabled manual_seed prepare_multiprocessing_environment
        profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 seed set_anomaly_enabled set_autocast_cache_enabled
        set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype
        set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled
        set_default_device set_default_dtype set_default_tensor_type set_deterministic_debug_mode
        set_float32_matmul_precision set_flush_denormal set_num_interop_threads set_num_threads set_printoptions
        set_rng_state set_warn_always thread_safe_generator use_deterministic_algorithms""",
    "accepts no tensor": """
        can_cast classproperty compile fork import_ir_module import_ir_module_from_buffer merge_type_from_type_comment
        parse_ir parse_schema parse_type_comment promote_types sym_constrain_range sym_constrain_range_for_size
        sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not sym_sum unify_type_list wait
        nn.functional.assert_int_or_pair nn.functional.boolean_dispatch nn.functional.has_torch_function
        nn.functional.has_torch_function_unary nn.functional.has_torch_function_variadic""",
    "creates a CPU tensor from CPU memory": "from_file from_numpy frombuffer",
    "removed from torch; raises": """
        eig lstsq matrix_rank solve symeig Tensor.eig Tensor.lstsq Tensor.solve Tensor.symeig Tensor.reinforce""",
    "specific to another backend": """
        cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu
        cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable miopen_batch_norm miopen_convolution
        miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss
        miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d mkldnn_convolution
        mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer Tensor.to_mkldnn
        Tensor.cuda Tensor.ipu Tensor.xpu Tensor.mtia nn.functional.scaled_grouped_mm nn.functional.scaled_mm""",
    "CUDA's implementation of SyncBatchNorm": """
        batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
        batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats""",
    "packs weights for a CPU library": """
        fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
        fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16
        fbgemm_pack_quantized_matrix quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell
        quantized_rnn_relu_cell quantized_rnn_tanh_cell""",
    "returns the device": "get_device typename Tensor.get_device Tensor.is_shared Tensor.mpsx",
    "tested elsewhere (test_device.py, test_sharing.py, test_streams.py)": """
        to_dlpack Tensor.pin_memory Tensor.record_stream Tensor.data_ptr Tensor.const_data_ptr
        Tensor.storage_type""",
    "has no kernel for the CPU": "indices_copy values_copy",
    "calls a Python function with CPU scalars; not supported on devices": "Tensor.apply_ Tensor.map_ Tensor.map2_",
}
