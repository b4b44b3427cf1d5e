// Emulates MTLComputeCommandEncoder, which records commands. The validation is at least as strict as Metal's own.
#include "objects.h"

using emulation::Binding;
using emulation::Commands;
using emulation::Launch;

namespace {

constexpr NSUInteger kMaxBytes = 4096;
constexpr NSUInteger kMaxThreadgroupMemory = 32768;

Commands& commands_of(EmulatedEncoder* encoder) { return *encoder->buffer->commands; }

void require_open(EmulatedEncoder* encoder, const char* what) {
  EMULATION_REQUIRE(!encoder->encoding->ended, "%s after endEncoding", what);
}

void keep(EmulatedEncoder* encoder, id object) {
  Commands& commands = commands_of(encoder);
  if (commands.retains)
    commands.retained.push_back([object retain]);
  else
    commands.unretained.push_back(object);
}

// Checks that all arguments were bound since the last dispatch. Metal keeps old bindings, but a launcher must not rely
// on them. mpsx's own launchers, which do not request reflection, must not bind anything else.
void require_bound(EmulatedEncoder* encoder, const mpsx_kernel_record& record) {
  const Binding* bindings = encoder->encoding->bindings;
  const auto& lengths = encoder->encoding->threadgroup_bytes;
  if (encoder->pipeline->reflected) {
    for (const auto* b : emulation::bindings_of(encoder->pipeline->function))
      EMULATION_REQUIRE(b->threadgroup ? b->index < lengths.size() && lengths[b->index] : bindings[b->index].fresh,
                        "kernel %s: nothing is bound at %s index %u", record.name,
                        b->threadgroup ? "threadgroup" : "buffer", b->index);
    return;
  }
  for (unsigned i = 0; i < MPSX_MAX_BUFFERS; ++i)
    EMULATION_REQUIRE(bindings[i].fresh == (i < record.buffers), "kernel %s: %s at buffer index %u", record.name,
                      bindings[i].fresh ? "takes nothing" : "nothing is bound", i);
}

void take_arguments(EmulatedEncoder* encoder, Launch& launch) {
  const mpsx_kernel_record& record = *launch.record;
  Commands& commands = commands_of(encoder);
  require_bound(encoder, record);
  launch.constants = *encoder->pipeline->function->constants;
  for (unsigned i = 0; i < MPSX_MAX_BUFFERS; ++i) {
    Binding& b = encoder->encoding->bindings[i];
    if (!b.fresh) continue;
    b.fresh = false;
    launch.buffers.resize(i + 1);
    launch.buffers[i] = std::move(b.argument);
    emulation::declare(launch.buffers[i], i);
    launch.untracked |= !b.tracked && launch.buffers[i].value.empty() ? 1u << i : 0u;
    if (b.shared && commands.owned.insert(b.shared).second) b.shared->give_to_gpu();
  }
  launch.threadgroup_bytes = std::move(encoder->encoding->threadgroup_bytes);
  encoder->encoding->threadgroup_bytes.clear();
  size_t threadgroup = record.static_threadgroup_bytes;
  for (size_t bytes : launch.threadgroup_bytes) threadgroup += bytes;
  EMULATION_REQUIRE(threadgroup <= kMaxThreadgroupMemory,
                    "kernel %s: %zu bytes of threadgroup memory, the limit is %lu",
                    record.name, threadgroup, kMaxThreadgroupMemory);
}

mpsx::driver::Size size_of(MTLSize size) {
  return {uint32_t(size.width), uint32_t(size.height), uint32_t(size.depth)};
}

void encode(EmulatedEncoder* encoder, MTLSize grid, MTLSize group, bool by_threads) {
  require_open(encoder, "a dispatch");
  EMULATION_REQUIRE(encoder->pipeline, "a dispatch without a pipeline state");
  Launch launch;
  launch.image = *encoder->pipeline->function->image;
  launch.record = encoder->pipeline->function->record;
  const char* name = launch.record->name;
  const NSUInteger size = group.width * group.height * group.depth;
  EMULATION_REQUIRE(size > 0 && size <= encoder->pipeline.maxTotalThreadsPerThreadgroup,
                    "kernel %s: %lu threads per threadgroup, the limit is %lu", name, size,
                    encoder->pipeline.maxTotalThreadsPerThreadgroup);
  emulation::check_required_threads(encoder->pipeline, group, grid, by_threads);
  for (NSUInteger n : {grid.width, grid.height, grid.depth})
    EMULATION_REQUIRE(n > 0 && n <= 0xffffffffu, "kernel %s: a grid with %lu along an axis", name, n);
  take_arguments(encoder, launch);
  launch.shape = {size_of(grid), size_of(group), by_threads, 1, emulation::uses_other_memory()};
  launch.interval = commands_of(encoder).concurrent ? encoder->encoding->barriers
                                                    : unsigned(commands_of(encoder).launches.size());
  emulation::check_barriers(commands_of(encoder).launches, launch);
  emulation::count_chain(launch);
  keep(encoder, encoder->pipeline);
  commands_of(encoder).launches.push_back(std::move(launch));
  ++emulation::counts().dispatches;
}

}  // namespace

@implementation EmulatedEncoder
- (NSString*)label {
  return emulation::string(encoding->label);
}
- (void)setLabel:(NSString*)label {
  encoding->label = emulation::text(label);
}
- (void)pushDebugGroup:(NSString*)name {
  require_open(self, "pushDebugGroup:");
  EMULATION_REQUIRE(name, "a debug group without a name");
  ++encoding->groups;
  ++emulation::counts().debug_groups;
}
- (void)popDebugGroup {
  require_open(self, "popDebugGroup");
  EMULATION_REQUIRE(encoding->groups > 0, "popDebugGroup without pushDebugGroup:");
  --encoding->groups;
}
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  require_open(self, "setComputePipelineState:");
  EMULATION_REQUIRE(state, "setComputePipelineState: of nil");
  [(id)state retain];
  [pipeline release];
  pipeline = (EmulatedPipeline*)state;
}
- (void)setBuffer:(id<MTLBuffer>)bound offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  require_open(self, "setBuffer:");
  EMULATION_REQUIRE(index < MPSX_MAX_BUFFERS, "setBuffer: at index %lu, the limit is 31", index);
  Binding& b = encoding->bindings[index];
  b = {};
  if (!bound) return;
  auto* given = (EmulatedBuffer*)bound;
  EMULATION_REQUIRE(offset < given->size, "setBuffer: offset %lu is beyond the buffer's %lu bytes", offset,
                    given->size);
  keep(self, given);
  b.shared = given->shared;
  b.tracked = given->tracked;
  b.argument.base = given->shared ? given->shared->gpu() : given->memory;
  b.argument.offset = offset;
  b.argument.size = given->size;
  b.fresh = true;
}
- (void)setBuffers:(const id<MTLBuffer>*)buffers offsets:(const NSUInteger*)offsets withRange:(NSRange)range {
  EMULATION_REQUIRE(range.length > 0, "setBuffers: of no buffers at index %lu", range.location);
  for (NSUInteger i = 0; i < range.length; ++i)
    [self setBuffer:buffers[i] offset:offsets[i] atIndex:range.location + i];
}
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  require_open(self, "setBytes:");
  EMULATION_REQUIRE(index < MPSX_MAX_BUFFERS, "setBytes: at index %lu, the limit is 31", index);
  EMULATION_REQUIRE(bytes && length > 0 && length <= kMaxBytes, "setBytes: of %lu bytes, the limit is 4096", length);
  Binding& b = encoding->bindings[index];
  b = {};
  const auto* from = static_cast<const unsigned char*>(bytes);
  b.argument.value.assign(from, from + length);
  b.fresh = true;
}
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  require_open(self, "setThreadgroupMemoryLength:");
  EMULATION_REQUIRE(index < MPSX_MAX_BUFFERS, "setThreadgroupMemoryLength: at index %lu, the limit is 31", index);
  EMULATION_REQUIRE(length % 16 == 0, "setThreadgroupMemoryLength: %lu is not a multiple of 16", length);
  auto& lengths = encoding->threadgroup_bytes;
  EMULATION_REQUIRE(length > 0, "setThreadgroupMemoryLength: of nothing");
  if (index >= lengths.size()) lengths.resize(index + 1);
  lengths[index] = length;
}
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)group {
  encode(self, groups, group, false);
}
- (void)dispatchThreads:(MTLSize)threads threadsPerThreadgroup:(MTLSize)group {
  encode(self, threads, group, true);
}
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
  require_open(self, "memoryBarrierWithScope:");
  EMULATION_REQUIRE(scope == MTLBarrierScopeBuffers, "a barrier of scope %lu", NSUInteger(scope));
  EMULATION_REQUIRE(commands_of(self).concurrent, "a barrier in a serial encoder, whose dispatches run in order");
  ++encoding->barriers;
  ++emulation::counts().barriers;
}
- (void)waitForFence:(id<MTLFence>)fence {
  require_open(self, "waitForFence:");
  EMULATION_REQUIRE(fence, "waitForFence: of nil");
  EMULATION_REQUIRE(commands_of(self).launches.empty() && commands_of(self).updated_fences.empty(),
                    "only a wait for a fence at the start of an encoder is emulated");
  commands_of(self).awaited_fences.push_back(fence);
}
- (void)updateFence:(id<MTLFence>)fence {
  require_open(self, "updateFence:");
  EMULATION_REQUIRE(fence, "updateFence: of nil");
  commands_of(self).updated_fences.push_back(fence);
}
- (void)endEncoding {
  require_open(self, "endEncoding");
  EMULATION_REQUIRE(encoding->groups == 0, "endEncoding with a debug group open");
  encoding->ended = true;
  commands_of(self).encoding = false;
}
- (void)dealloc {
  EMULATION_REQUIRE(encoding->ended, "an encoder is freed without endEncoding");
  delete encoding;
  [pipeline release];
  [buffer release];
  [super dealloc];
}
@end
