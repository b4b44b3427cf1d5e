# Files of one line are compiled together (CMake's unity build): most of a small launcher's time goes into torch's
# headers and the templates they leave behind, which a group pays once; the whole takes a third of the time. The files
# of a group use no private name twice, which is why the groups are written here and not counted off. A file that is
# in none is compiled alone: add a new one where its names do not clash, and no group far beyond the others.
#
#   mpsx_compile_together(src/ops gather dropout segment)
function(mpsx_compile_together folder)
  list(GET ARGN 0 first)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  list(TRANSFORM ARGN APPEND ".cpp")
  string(MAKE_C_IDENTIFIER "${folder}_${first}" group)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP "${group}")
endfunction()

mpsx_compile_together(src/ops amp dropout foreach_norm gather pointwise_loss segment)
mpsx_compile_together(src/ops aminmax reduce scatter searchsorted)
mpsx_compile_together(src/ops avg_pool explicit_loss indexing reduce_plan unary)
mpsx_compile_together(src/ops batch_norm explicit explicit_nn index_select)
mpsx_compile_together(src/ops explicit_autograd nonzero resample ternary)
mpsx_compile_together(src/ops avg_pool3d group_norm index_add upsample)
mpsx_compile_together(src/ops nll_loss random randperm rotary_embedding var)
mpsx_compile_together(src/ops explicit_elementwise explicit_norm flip frexp fused_optim)
mpsx_compile_together(src/ops composed_index copy foreach)
mpsx_compile_together(src/ops division lists rms_norm scan swiglu)
mpsx_compile_together(src/ops argreduce compare composed max_pool max_pool1d padding)
mpsx_compile_together(src/ops cat index layer_norm softmax)
mpsx_compile_together(src/ops activation binary polygamma sort)
mpsx_compile_together(src/ops elementwise explicit_attention fill gated)
mpsx_compile_together(src/ops distance embedding_bag margin_loss multinomial sample window_pool)
mpsx_compile_together(src/ops fold fractional_max_pool grid_sampler unique unique_dim whole_avg_pool)
mpsx_compile_together(src/ops bincount complex cross ctc_loss histogram segment_reduce)
mpsx_compile_together(src/ops convolution int4 matmul pixel_shuffle tiles vector_products)
mpsx_compile_together(src/ops sparse sparse_arithmetic sparse_index sparse_softmax)
mpsx_compile_together(src/ops sparse_compressed sparse_matmul)

mpsx_compile_together(src/backend alias_layouts allocator fallback library_ops sparse_ops)
mpsx_compile_together(src/backend factory_ops register rnn storage vendor view_ops)
mpsx_compile_together(src/backend alias attention copy generator policy)
mpsx_compile_together(src/backend c_api mps parallel set_data storage_ops)
mpsx_compile_together(src/backend autocast convolution guard hooks library_matmul operator_facts pinned)

mpsx_compile_together(src/runtime allocator arena device_error profile segments watermarks)
mpsx_compile_together(src/runtime device kernel_library launch shader stream)
