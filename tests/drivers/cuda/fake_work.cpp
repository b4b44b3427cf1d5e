// Streams, events, launches, and graphs of the fake libcuda.
#include <cstring>

#include "fake_state.h"

using namespace fake;

FAKE CUresult cuStreamCreate(CUstream* stream, unsigned) {
  *stream = &the_stream;
  return enter("cuStreamCreate");
}
FAKE CUresult cuStreamSynchronize(CUstream) {
  if (const CUresult r = enter("cuStreamSynchronize")) return r;
  return complete(control.launches.size());
}
FAKE CUresult cuStreamQuery(CUstream) {
  if (const CUresult r = enter("cuStreamQuery", false)) return r;
  if (control.paused && completed < control.launches.size()) return CUDA_ERROR_NOT_READY;
  return complete(control.launches.size());
}
FAKE CUresult cuEventCreate(CUevent* event, unsigned) {
  *event = new CUevent_st;
  return enter("cuEventCreate");
}
FAKE CUresult cuEventDestroy_v2(CUevent event) { return delete event, CUDA_SUCCESS; }
FAKE CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (const CUresult r = enter("cuEventRecord")) return r;
  if (stream != &the_stream) wrong("cuEventRecord in another stream");
  event->launch_index = control.launches.size();
  event->recorded = true;
  return CUDA_SUCCESS;
}
FAKE CUresult cuEventQuery(CUevent event) {
  if (const CUresult r = enter("cuEventQuery", false)) return r;
  if (control.paused && completed < event->launch_index) return CUDA_ERROR_NOT_READY;
  return complete(event->launch_index);
}
FAKE CUresult cuEventSynchronize(CUevent event) {
  if (const CUresult r = enter("cuEventSynchronize")) return r;
  return complete(event->launch_index);
}
FAKE CUresult cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
  if (!from->recorded || !to->recorded) return kInvalidValue;
  *ms = float(to->launch_index) - float(from->launch_index);
  return CUDA_SUCCESS;
}

// Checks a launch against the rules of the API and appends it to `to`.
static CUresult add_launch(const CUDA_KERNEL_NODE_PARAMS& p, std::vector<fake::Launch>& to) {
  const unsigned x = p.gridDimX, y = p.gridDimY, z = p.gridDimZ;
  if (!x || x > 0x7fffffffu || !y || y > 65535 || !z || z > 65535)
    return wrong("a grid beyond the limits"), kInvalidValue;
  if (!p.blockDimX || p.blockDimX > p.func->limit || p.blockDimY != 1 || p.blockDimZ != 1)
    return wrong("a block beyond the limits"), kInvalidValue;
  if (p.sharedMemBytes > p.func->dynamic_shared) return wrong("too much shared memory"), kInvalidValue;
  fake::Launch launch{p.func->name, {x, y, z}, p.blockDimX, p.sharedMemBytes, {}};
  for (size_t i = 0; i < p.func->parameters.size(); ++i) {
    const FakeParameter& expected = p.func->parameters[i];
    const auto* bytes = static_cast<const unsigned char*>(p.kernelParams[i]);
    launch.parameters.emplace_back(bytes, bytes + expected.size);
    uintptr_t address = 0;
    if (expected.pointer) std::memcpy(&address, bytes, sizeof address);
    if (address && !inside(address)) wrong(p.func->name + ": an address that the GPU cannot reach");
  }
  to.push_back(std::move(launch));
  return CUDA_SUCCESS;
}

// A kernel that starts before the previous one has completed must wait for it.
static void check_early_start(CUfunction function) {
  if (!function->waits) wrong(function->name + ": may start early, but does not wait for the previous kernel");
}

FAKE CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void** parameters, void** extra) {
  if (const CUresult r = enter("cuLaunchKernelEx")) return r;
  if (c->hStream != &the_stream || extra) wrong("cuLaunchKernelEx: arguments");
  bool early = false;
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION || control.major < 9)
      return wrong("cuLaunchKernelEx: an attribute that the GPU does not support"), kInvalidValue;
    early = c->attrs[i].value.programmaticStreamSerializationAllowed;
  }
  if (early) check_early_start(function);
  const CUresult result = add_launch({function, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY,
                                      c->blockDimZ, c->sharedMemBytes, parameters, extra},
                                     control.launches);
  if (result == CUDA_SUCCESS) control.launches.back().early = early;
  return result;
}

FAKE CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  if (const CUresult r = enter("cuGraphCreate")) return r;
  *graph = new CUgraph_st;
  ++control.graphs, control.edges = {};
  return flags ? kInvalidValue : CUDA_SUCCESS;
}
FAKE CUresult cuGraphDestroy(CUgraph graph) { return delete graph, --control.graphs, CUDA_SUCCESS; }
FAKE CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                                   const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (const CUresult r = enter("cuGraphAddKernelNode")) return r;
  control.edges.emplace_back();
  for (size_t i = 0; i < count; ++i) control.edges.back().push_back(after[i]->index);
  if (const CUresult r = add_launch(*parameters, graph->launches)) return r;
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>(CUgraphNode_st{graph->nodes.size(), parameters->func}));
  *node = graph->nodes.back().get();
  return CUDA_SUCCESS;
}
FAKE CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                        const CUgraphEdgeData* data, size_t count) {
  if (const CUresult r = enter("cuGraphAddDependencies")) return r;
  for (size_t i = 0; i < count; ++i) {
    if (data[i].type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC || data[i].to_port != 0 ||
        data[i].from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC)
      return wrong("cuGraphAddDependencies: ports"), kInvalidValue;
    check_early_start(to[i]->function);
    control.edges[to[i]->index].push_back(from[i]->index);
    graph->launches[to[i]->index].early = true;
  }
  return CUDA_SUCCESS;
}
FAKE CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  if (const CUresult r = enter("cuGraphInstantiate")) return r;
  *executable = new CUgraphExec_st{graph->launches};
  ++control.graphs;
  return flags ? kInvalidValue : CUDA_SUCCESS;
}
FAKE CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (const CUresult r = enter("cuGraphExecKernelNodeSetParams")) return r;
  std::vector<fake::Launch> changed;
  if (const CUresult r = add_launch(*parameters, changed)) return r;
  if (changed[0].kernel != executable->launches[node->index].kernel) return kInvalidValue;
  executable->launches[node->index] = std::move(changed[0]);
  return CUDA_SUCCESS;
}
FAKE CUresult cuGraphExecDestroy(CUgraphExec executable) {
  if (executable->launched > completed) wrong("destroyed a graph that is running");
  return delete executable, --control.graphs, CUDA_SUCCESS;
}
FAKE CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  if (const CUresult r = enter("cuGraphLaunch")) return r;
  if (stream != &the_stream) wrong("cuGraphLaunch in another stream");
  control.launches.insert(control.launches.end(), executable->launches.begin(), executable->launches.end());
  executable->launched = control.launches.size();
  return CUDA_SUCCESS;
}
