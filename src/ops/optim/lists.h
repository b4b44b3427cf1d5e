// Launches kernels over lists of tensors (metal/optim/lists.h). Each launch processes as many tensors as fit into its
// buffers, split into chunks. So a hundred small tensors take only a few launches, and a large tensor still uses every
// core.
#pragma once

#include <c10/util/ArrayRef.h>

#include "ops/op.h"
#include "optim/params.h"

namespace mpsx::ops {

// The tensors processed by one launch.
struct ListBatch {
  ListParams params{};
  std::array<size_t, kListBuffers> index;  // each tensor's index in the lists
  std::array<const void*, kListBuffers> pointers{};
  uint64_t elements = 0;

  uint32_t groups() const { return params.end[params.tensors - 1]; }
  // Binds buffers [0, buffers) of a launch. `written` has a bit for each list that the kernel writes. Unused buffers
  // repeat the first tensor.
  void bind(Launch& launch, uint32_t written, uint32_t buffers = kListBuffers) const {
    for (uint32_t i = 0; i < buffers; ++i) {
      const bool writes = pointers[i] && (written >> i / params.tensors & 1);
      launch.pointer(pointers[i] ? pointers[i] : pointers[0], writes ? Access::write : Access::read);
    }
  }
  // Uses one threadgroup per chunk. `cost` is the cost of processing an element, relative to an addition.
  Launch& over_chunks(Launch& launch, uint64_t cost = 1) const {
    return launch.groups({groups()}).work(std::max<uint64_t>(1, elements * cost / groups()));
  }
};

// Splits the lists into batches and calls launch(batch) for each. Corresponding tensors must be dense and have equal
// layouts. The sizes are taken from the first list, and its empty tensors are skipped. `buffers` is the number of
// kernel buffers available to the lists.
template <typename F>
void for_each_batch(at::ArrayRef<at::TensorList> lists, F&& launch, uint32_t buffers = kListBuffers) {
  const uint32_t capacity = buffers / uint32_t(lists.size());
  const at::TensorList first = lists[0];
  size_t next = 0;
  while (next < first.size()) {
    ListBatch batch;
    ListParams& p = batch.params;
    for (; next < first.size() && p.tensors < capacity; ++next) {
      const uint64_t numel = first[next].numel();
      if (numel == 0) continue;
      const uint32_t before = p.tensors ? p.end[p.tensors - 1] : 0;
      const uint64_t chunks = (numel + kListChunk - 1) / kListChunk;
      TORCH_CHECK(before + chunks <= 0xffffffffu, "foreach: expected fewer than 2^45 elements, got ", numel);
      p.numel[p.tensors] = numel;
      p.end[p.tensors] = before + uint32_t(chunks);
      batch.elements += numel;
      batch.index[p.tensors++] = next;
    }
    if (p.tensors == 0) return;
    uint64_t bits = 0;
    for (size_t l = 0; l < lists.size(); ++l)
      for (uint32_t t = 0; t < p.tensors; ++t) {
        const void* const data = batch.pointers[l * p.tensors + t] = lists[l][batch.index[t]].const_data_ptr();
        if (lists[l][batch.index[t]].numel() > 1) bits |= runtime::address_of(data);
      }
    p.vectorized = runtime::is_vector_aligned(bits);
    launch(batch);
  }
}

// Returns whether list kernels support the tensors: plain and dense, on this device, all with the same dtype (f32, f16
// or bf16), and with equal sizes and strides across lists.
bool fits_list_kernels(at::ArrayRef<at::TensorList> lists);

}  // namespace mpsx::ops
