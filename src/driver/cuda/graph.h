// A CUDA graph of recorded dispatches. Those that do not conflict may overlap (dependencies.h). To launch the graph
// costs the CPU about as much as to launch one kernel.
#pragma once

#include "driver/cuda/command_stream.h"
#include "driver/graph.h"

namespace mpsx::driver::cuda {

class CudaGraph final : public Graph {
 public:
  // Throws Error if the dispatches cannot be part of a graph.
  CudaGraph(const Device&, CommandStream&, const RecordedDispatch*, size_t count);
  ~CudaGraph() override;  // waits for the last launch
  void update(size_t index) override;
  uint64_t launch() override;

 private:
  // The nodes of a dispatch: one for each part of its grid.
  struct Nodes {
    std::vector<CUgraphNode> nodes;
    size_t first_upload = 0, last_upload = 0;  // what the dispatch uses of upload_
    bool fills_processor = false;              // dependent_launch.h
  };
  template <typename F>
  void for_each_node(const RecordedDispatch&, F&& visit);
  CUgraphNode add_node(const CUDA_KERNEL_NODE_PARAMS&, const std::vector<CUgraphNode>& before, bool early);
  void destroy() noexcept;

  const Device& device_;
  CommandStream& stream_;
  const RecordedDispatch* const dispatches_;
  UploadRing upload_;
  CudaKernel label_;
  CUgraph graph_ = nullptr;  // must outlive executable_, because its nodes identify the nodes to update
  CUgraphExec executable_ = nullptr;
  std::vector<Nodes> nodes_;  // one for each dispatch
  uint64_t last_ = 0;         // sequence number of the last launch
};

}  // namespace mpsx::driver::cuda
