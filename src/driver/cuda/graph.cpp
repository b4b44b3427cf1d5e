#include "driver/cuda/graph.h"

#include "driver/cuda/dependencies.h"
#include "driver/cuda/dependent_launch.h"

namespace mpsx::driver::cuda {
namespace {

// Returns the size of a ring that holds all values, because any of them may be passed by address.
size_t upload_bytes(const RecordedDispatch* dispatches, size_t count) {
  size_t bytes = 64;
  for (size_t i = 0; i < count; ++i)
    for (size_t k = 0; k < dispatches[i].count; ++k)
      if (const Argument& a = dispatches[i].arguments[k]; a.kind == Argument::Kind::bytes)
        bytes += UploadRing::padded_size(a.size);
  return bytes;
}

}  // namespace

CudaGraph::CudaGraph(const Device& device, CommandStream& stream, const RecordedDispatch* dispatches, size_t count)
    : device_(device), stream_(stream), dispatches_(dispatches), upload_(device, upload_bytes(dispatches, count)) {
  label_.name = "a recorded graph of " + std::to_string(count) + " kernels";
  const Api& api = device_.api;
  try {
    api.check(api.cuGraphCreate(&graph_, 0), "cuGraphCreate");
    Dependencies dependencies;
    Streams streams;
    for (size_t i = 0; i < count; ++i) {
      const RecordedDispatch& d = dispatches[i];
      std::vector<size_t> awaited = dependencies.add(d.arguments, d.count, d.dispatch);
      streams.place(i, awaited);
      std::vector<CUgraphNode> before;
      for (size_t earlier : awaited) before.push_back(nodes_[earlier].nodes.back());
      bool before_fills_processor = before.size() == 1 && nodes_[awaited[0]].fills_processor;
      Nodes& made = nodes_.emplace_back();
      made.first_upload = upload_.used();
      for_each_node(d, [&](const CUDA_KERNEL_NODE_PARAMS& parameters, bool fills_processor) {
        made.nodes.push_back(add_node(parameters, before, should_start_early(fills_processor, before_fills_processor)));
        before = {made.nodes.back()};  // the last part of a grid stands for the dispatch
        made.fills_processor = before_fills_processor = fills_processor;
      });
      made.last_upload = upload_.used();
    }
    api.check(api.cuGraphInstantiate(&executable_, graph_, 0), "cuGraphInstantiate");
  } catch (...) {
    destroy();
    throw;
  }
}

CudaGraph::~CudaGraph() {
  stream_.wait_until_nothrow(last_);
  destroy();
}

void CudaGraph::destroy() noexcept {
  if (executable_) device_.api.cuGraphExecDestroy(executable_);
  if (graph_) device_.api.cuGraphDestroy(graph_);
}

// Adds a node that waits for the nodes in `before`. If there is only one and `early` is true, the node may start early.
CUgraphNode CudaGraph::add_node(const CUDA_KERNEL_NODE_PARAMS& parameters, const std::vector<CUgraphNode>& before,
                                bool early) {
  constexpr CUgraphEdgeData kEarlyStart = {
      CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
  const Api& api = device_.api;
  early = early && device_.overlaps_kernels && before.size() == 1;
  CUgraphNode node = nullptr;
  api.check(api.cuGraphAddKernelNode(&node, graph_, before.data(), early ? 0 : before.size(), &parameters),
            "cuGraphAddKernelNode");
  if (early)
    api.check(api.cuGraphAddDependencies(graph_, before.data(), &node, &kEarlyStart, 1), "cuGraphAddDependencies");
  return node;
}

// Calls `visit` with the parameters of each of the dispatch's nodes, and whether a multiprocessor can run only one of
// its threadgroups.
template <typename F>
void CudaGraph::for_each_node(const RecordedDispatch& recorded, F&& visit) {
  const auto& kernel = static_cast<const CudaKernel&>(*recorded.kernel);
  const Dispatch dispatch = with_additional_threads(kernel, recorded.dispatch);
  // The driver would have to read the value from the buffer before each launch.
  const auto wait = [&] { throw Error(kernel.name + ": a graph cannot pass the contents of a buffer by value"); };
  Parameters parameters(kernel, recorded.arguments, recorded.count, dispatch, device_, upload_, wait);
  parameters.check_shared_memory(kernel, device_);
  for_each_part(dispatch, [&](Grid& grid, unsigned x, unsigned y, unsigned z) {
    visit({kernel.function, x, y, z, unsigned(dispatch.group.count()), 1, 1, parameters.threadgroup_bytes(),
           parameters.get(grid), nullptr},
          parameters.fills_processor(kernel, device_));
  });
}

void CudaGraph::update(size_t index) {
  const Nodes& nodes = nodes_[index];
  device_.bind();
  if (nodes.last_upload != nodes.first_upload) stream_.wait_until(last_);  // the GPU may be reading the old values
  const size_t used = upload_.used();
  upload_.reset(nodes.first_upload);
  auto node = nodes.nodes.begin();
  for_each_node(dispatches_[index], [&](const CUDA_KERNEL_NODE_PARAMS& parameters, bool) {
    device_.api.check(device_.api.cuGraphExecKernelNodeSetParams(executable_, *node++, &parameters),
                      "cuGraphExecKernelNodeSetParams");
  });
  upload_.reset(used);
}

uint64_t CudaGraph::launch() { return last_ = stream_.launch(executable_, label_); }

}  // namespace mpsx::driver::cuda
