// CPU aliases of device tensors, and device views of CPU tensors, which are valid for one operator call:
//
//   CpuAliases aliases;
//   at::Tensor result = at::mm(aliases.cpu(a), aliases.cpu(b));   // CPU tensors over the same memory
//   return aliases.device(result);                                // a device tensor over the same memory
//
// Identity is preserved in both directions. Each tensor has one alias. Tensors that share a storage have aliases that
// share a storage. If a result is an argument or a view of an argument, device() returns that argument or a view of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string_view>
#include <unordered_map>

#include "backend/storage.h"

namespace mpsx::backend {

class CpuAliases {
 public:
  CpuAliases() = default;
  CpuAliases(const CpuAliases&) = delete;
  CpuAliases& operator=(const CpuAliases&) = delete;

  // Returns the CPU alias of a device tensor, and any other tensor unchanged. Set `written` if the operator may change
  // the tensor itself, that is, resize it, replace its storage or flip its conjugate bit. If so, call write_back()
  // afterwards.
  at::Tensor cpu(at::Tensor t, bool written = false);
  std::optional<at::Tensor> cpu(const std::optional<at::Tensor>& t);

  // Returns a device view of a CPU tensor that an operator returned.
  at::Tensor device(const at::Tensor& t);

  // Copies the metadata of aliases that were written to their device tensors.
  void write_back();

  // Throws if a call mixes device tensors with CPU tensors other than scalars. CPU kernels cannot detect this.
  void check_same_device(std::string_view op) const;

  bool has_device_tensor() const { return !pairs_.empty(); }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Pair {
    at::Tensor device, cpu;
    bool written;
  };
  struct Adopted {
    const c10::StorageImpl* cpu;
    StoragePtr device;
  };

  Pair* find(const at::Tensor& t, at::Tensor Pair::*side);
  void add(at::Tensor device, at::Tensor cpu, bool written);

  at::Tensor alias(const at::Tensor& device, bool written);
  at::Tensor alias_layout(const at::Tensor& device, bool written);
  at::Tensor view(const at::Tensor& cpu);
  at::Tensor view_layout(const at::Tensor& cpu);
  StoragePtr device_storage(const c10::Storage& cpu);
  void write_back(Pair& pair);
  void write_back_layout(Pair& pair);

  c10::SmallVector<Pair, 6> pairs_;
  c10::SmallVector<Adopted, 2> adopted_;
  // Maps both tensors of each pair, and the CPU storage, to the index of the pair in pairs_. Used only for long lists
  // of tensors.
  std::unordered_map<const void*, uint32_t> index_;
  at::Tensor cpu_argument_;  // a non-scalar CPU tensor among the arguments
  uint64_t bytes_ = 0;
};

// Returns an alias that may outlive the call. mpsx.cpu_view() uses this.
at::Tensor cpu_view(const at::Tensor& device);
at::Tensor device_view(const at::Tensor& cpu);

}  // namespace mpsx::backend
