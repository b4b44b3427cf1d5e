// CPU aliases of device tensors, and device views of CPU tensors, for the duration of one operator call.
//
//   CpuAliases aliases;
//   at::Tensor result = at::mm(aliases.cpu(a), aliases.cpu(b));   // the same memory as CPU tensors
//   return aliases.device(result);                                // the same memory as a device tensor
//
// Identity is preserved in both directions: a tensor has one alias, tensors that share a storage have aliases that
// share a storage, and a result that is (a view of) an argument is returned as (a view of) that argument.
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

  // Returns the CPU alias of a device tensor, and other or undefined tensors unchanged. `written`: the operator may
  // change the tensor itself (resize it, replace its storage, flip its conj bit); see write_back().
  at::Tensor cpu(at::Tensor t, bool written = false);
  std::optional<at::Tensor> cpu(const std::optional<at::Tensor>& t);

  // Returns the device view of a CPU tensor that an operator returned.
  at::Tensor device(const at::Tensor& t);

  // Applies changes of written aliases to the device tensors.
  void write_back();

  // Throws if CPU tensors with dimensions were passed along with device tensors, which the CPU would silently mix.
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

  Pair* find_device(const at::Tensor& t);
  Pair* find_cpu(const at::Tensor& t);
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
  // Maps either tensor of a pair, and its CPU storage, to an index into pairs_. Only filled for long tensor lists.
  std::unordered_map<const void*, uint32_t> index_;
  at::Tensor cpu_argument_;  // a CPU tensor with dimensions among the arguments
  uint64_t bytes_ = 0;
};

// Returns an alias that may outlive the call, for mpsx.cpu_view().
at::Tensor cpu_view(const at::Tensor& device);
at::Tensor device_view(const at::Tensor& cpu);

}  // namespace mpsx::backend
