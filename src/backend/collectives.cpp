// Runs gloo's collectives on device tensors, for torch.distributed. gloo operates on CPU tensors over the same memory,
// because the CPU can access device memory.
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backend/alias.h"
#include "backend/device.h"
#include "backend/gloo_calls.h"
#include "backend/shared_device.h"

namespace mpsx::backend {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using TensorLists = std::vector<Tensors>;
using c10d::Work;
template <typename T>
using Ptr = c10::intrusive_ptr<T>;

Tensor on_cpu(const Tensor& t) { return t.defined() && is_mpsx(t.device()) ? cpu_view(t) : t; }
Tensors on_cpu(const Tensors& all) {
  Tensors result;
  for (const Tensor& t : all) result.push_back(on_cpu(t));
  return result;
}
TensorLists on_cpu(const TensorLists& all) {
  TensorLists result;
  for (const Tensors& list : all) result.push_back(on_cpu(list));
  return result;
}
Tensors flat(const Tensor& t) { return {t}; }
const Tensors& flat(const Tensors& all) { return all; }
Tensors flat(const TensorLists& all) {
  Tensors result;
  for (const Tensors& list : all) result.insert(result.end(), list.begin(), list.end());
  return result;
}

// Wraps gloo's Work object, so that it returns device tensors as results.
class DeviceWork final : public Work {
 public:
  DeviceWork(Ptr<Work> inner, Tensors results)
      : Work(-1, inner->retrieveOpType()), call_(keep_alive({std::move(inner), std::move(results), nullptr})) {}
  ~DeviceWork() override {
    call_.reset();
    free_finished_calls();
  }

  bool isCompleted() override { return inner().isCompleted(); }
  bool isSuccess() const override { return inner().isSuccess(); }
  std::exception_ptr exception() const override { return inner().exception(); }
  int sourceRank() const override { return inner().sourceRank(); }
  Tensors result() override { return call_->results; }
  void synchronize() override { inner().synchronize(); }
  bool wait(std::chrono::milliseconds timeout) override { return inner().wait(timeout); }
  void abort() override { inner().abort(); }
  uint64_t getSequencenumber() const override { return inner().getSequencenumber(); }

  Ptr<c10::ivalue::Future> getFuture() override {
    std::call_once(future_made_, [this] {
      call_->future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors(), std::vector{this_device()});
      // The call owns gloo's future, which owns this callback. With a shared pointer, they would keep each other alive.
      inner().getFuture()->addCallback([weak = std::weak_ptr(call_)](c10::ivalue::Future& done) {
        const auto call = weak.lock();
        if (done.hasError()) {
          call->future->setError(done.exception_ptr());
        } else {
          call->future->markCompleted(call->results);
        }
      });
    });
    return call_->future;
  }

 private:
  Work& inner() const { return *call_->work; }

  std::shared_ptr<GlooCall> call_;
  std::once_flag future_made_;
};

class DeviceBackend final : public c10d::Backend {
 public:
  explicit DeviceBackend(Ptr<Backend> inner) : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  Ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }
  void enableCollectivesTiming() override { inner_->enableCollectivesTiming(); }
  void setGroupUid(const std::string& name) override {
    Backend::setGroupUid(name);
    inner_->setGroupUid(name);
  }

  bool supportsSplitting() const override { return inner_->supportsSplitting(); }
  Ptr<Backend> split(const Ptr<c10d::Store>& store, const std::vector<int>& ranks,
                     const Ptr<Options>& options) override {
    return wrap(inner_->split(prefixed_store(store), ranks, options));
  }
  Ptr<Backend> merge(const Ptr<c10d::Store>& store, const Ptr<Options>& options, const int& rank,
                     const int& size) override {
    return wrap(inner_->merge(prefixed_store(store), options, rank, size));
  }

  Ptr<Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return call<&Backend::broadcast>(tensors, options);
  }
  Ptr<Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    if (!tensors.empty() && tensors[0].is_sparse()) return allreduce_sparse(tensors, options);
    return call<&Backend::allreduce>(tensors, options);
  }
  // gloo allocates new indices and values for the sum. write_back() transfers them to the device tensors.
  Ptr<Work> allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    CpuAliases aliases;
    Tensors cpu;
    for (const Tensor& t : tensors) cpu.push_back(aliases.cpu(t, true));
    auto work = inner_->allreduce(cpu, options);
    work->wait();
    aliases.write_back();
    return c10::make_intrusive<DeviceWork>(std::move(work), tensors);
  }
  Ptr<Work> allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    return call<&Backend::allreduce_coalesced>(tensors, options);
  }
  Ptr<Work> reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return call<&Backend::reduce>(tensors, options);
  }
  Ptr<Work> allgather(TensorLists& out, Tensors& in, const c10d::AllgatherOptions& options) override {
    return move<&Backend::allgather>(out, in, options);
  }
  Ptr<Work> _allgather_base(Tensor& out, Tensor& in, const c10d::AllgatherOptions& options) override {
    return move<&Backend::_allgather_base>(out, in, options);
  }
  Ptr<Work> allgather_coalesced(TensorLists& out, Tensors& in, const c10d::AllgatherOptions& options) override {
    return move<&Backend::allgather_coalesced>(out, in, options);
  }
  Ptr<Work> allgather_into_tensor_coalesced(Tensors& out, Tensors& in, const c10d::AllgatherOptions& options) override {
    return move<&Backend::allgather_into_tensor_coalesced>(out, in, options);
  }
  Ptr<Work> gather(TensorLists& out, Tensors& in, const c10d::GatherOptions& options) override {
    return move<&Backend::gather>(out, in, options);
  }
  Ptr<Work> scatter(Tensors& out, TensorLists& in, const c10d::ScatterOptions& options) override {
    return move<&Backend::scatter>(out, in, options);
  }
  Ptr<Work> reduce_scatter(Tensors& out, TensorLists& in, const c10d::ReduceScatterOptions& options) override {
    return move<&Backend::reduce_scatter>(out, in, options);
  }
  Ptr<Work> _reduce_scatter_base(Tensor& out, Tensor& in, const c10d::ReduceScatterOptions& options) override {
    return move<&Backend::_reduce_scatter_base>(out, in, options);
  }
  Ptr<Work> reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in,
                                            const c10d::ReduceScatterOptions& options) override {
    return move<&Backend::reduce_scatter_tensor_coalesced>(out, in, options);
  }
  Ptr<Work> alltoall_base(Tensor& out, Tensor& in, std::vector<int64_t>& out_sizes, std::vector<int64_t>& in_sizes,
                          const c10d::AllToAllOptions& options) override {
    return move<&Backend::alltoall_base>(out, in, out_sizes, in_sizes, options);
  }
  Ptr<Work> alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& options) override {
    return move<&Backend::alltoall>(out, in, options);
  }
  Ptr<Work> send(Tensors& tensors, int to, int tag) override { return call<&Backend::send>(tensors, to, tag); }
  Ptr<Work> recv(Tensors& tensors, int from, int tag) override { return call<&Backend::recv>(tensors, from, tag); }
  Ptr<Work> recvAnysource(Tensors& tensors, int tag) override { return call<&Backend::recvAnysource>(tensors, tag); }
  Ptr<Work> barrier(const c10d::BarrierOptions& options) override {
    return c10::make_intrusive<DeviceWork>(inner_->barrier(options), Tensors{});
  }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool all) override {
    inner_->monitoredBarrier(options, all);
  }

 private:
  static Ptr<Backend> wrap(Ptr<Backend> inner) {
    if (!inner) return nullptr;  // this rank is not in the new group
    return c10::make_intrusive<DeviceBackend>(std::move(inner));
  }
  // If the CPU backend is split or merged, it uses the same store as our backend. The prefix keeps it from reading the
  // addresses that our backend has stored.
  static Ptr<c10d::Store> prefixed_store(const Ptr<c10d::Store>& store) {
    return c10::make_intrusive<c10d::PrefixStore>("mpsx/", store);
  }

  // Call a method of gloo's backend on CPU aliases. Use call() for methods that work in place, and move() for methods
  // with separate inputs and outputs.
  template <auto METHOD, typename... Rest>
  Ptr<Work> call(Tensors& tensors, Rest&... rest) {
    Tensors cpu = on_cpu(tensors);
    return c10::make_intrusive<DeviceWork>((inner_.get()->*METHOD)(cpu, rest...), tensors);
  }
  template <auto METHOD, typename Out, typename In, typename... Rest>
  Ptr<Work> move(Out& out, In& in, Rest&... rest) {
    Out cpu_out = on_cpu(out);
    In cpu_in = on_cpu(in);
    return c10::make_intrusive<DeviceWork>((inner_.get()->*METHOD)(cpu_out, cpu_in, rest...), flat(out));
  }

  Ptr<Backend> inner_;
};

// If the group has a backend for the device or for the CPU, sets up backends for both. PyTorch may ask any of the
// group's backends for the group's name, so the name is copied.
void add_collectives(const Ptr<c10d::ProcessGroup>& group) {
  const auto types = group->getDeviceTypes();
  const auto has = [&](c10::DeviceType wanted) {
    return std::any_of(types.begin(), types.end(), [&](c10::Device d) { return d.type() == wanted; });
  };
  if (!has(kDeviceType) && !has(c10::kCPU)) return;
  auto inner = group->getBackend(has(c10::kCPU) ? c10::kCPU : kDeviceType);
  if (dynamic_cast<DeviceBackend*>(inner.get())) return;
  if (has(kDeviceType) && dynamic_cast<DeviceBackend*>(group->getBackend(kDeviceType).get())) return;
  share_device(group->getSize());
  if (!has(c10::kCPU)) group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::GLOO, inner);
  auto ours = c10::make_intrusive<DeviceBackend>(inner);
  ours->setGroupUid(inner->getGroupUid());
  ours->setGroupDesc(inner->getGroupDesc());
  group->setBackend(kDeviceType, c10d::ProcessGroup::BackendType::CUSTOM, Ptr<c10d::Backend>(std::move(ours)));
}

// The function is boxed, because PyTorch cannot infer a schema that contains a class of another library.
void add_collectives_boxed(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  add_collectives(torch::jit::pop(*stack).toCustomClass<c10d::ProcessGroup>());
}

// PyTorch dispatches only dense PrivateUse1 tensors to the group's backend. Redispatch sparse tensors like dense ones.
void allreduce_sparse_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

TORCH_LIBRARY_IMPL(c10d, SparsePrivateUse1, m) {
  m.impl("allreduce_", torch::CppFunction::makeFromBoxedFunction<&allreduce_sparse_boxed>());
}

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  m.def("_add_collectives(__torch__.torch.classes.c10d.ProcessGroup group) -> ()",
        torch::CppFunction::makeFromBoxedFunction<&add_collectives_boxed>());
}

}  // namespace
}  // namespace mpsx::backend
