// MTLComputeCommandEncoder: takes down what to run, and checks it as Metal's validation does, or harder.
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

void keep(EmulatedEncoder* encoder, id object) { commands_of(encoder).retained.push_back([object retain]); }

// What the dispatch needs is bound, and was bound for it: an encoder remembers bindings, and a launcher that relies on
// those of another kernel is wrong.
void take_arguments(EmulatedEncoder* encoder, Launch& launch) {
  const mpsx_kernel_record& record = *launch.record;
  Commands& commands = commands_of(encoder);
  for (unsigned i = 0; i < MPSX_MAX_BUFFERS; ++i) {
    Binding& b = encoder->encoding->bindings[i];
    if (i < record.buffers)
      EMULATION_REQUIRE(b.fresh && b.memory, "kernel %s: nothing is bound at buffer index %u", record.name, i);
    if (!b.fresh) continue;
    b.fresh = false;
    launch.args[i] = b.memory;
    launch.sizes[i] = b.size;
    if (!b.value.empty()) {
      launch.values.push_back(b.value);
      launch.args[i] = launch.values.back().data();
    }
    if (b.shared && commands.owned.insert(b.shared).second) b.shared->give_to_gpu();
  }
  size_t threadgroup = record.static_threadgroup_bytes;
  for (unsigned i = 0; i < MPSX_MAX_BUFFERS; ++i) {
    launch.threadgroup_bytes[i] = encoder->encoding->threadgroup_bytes[i];
    threadgroup += launch.threadgroup_bytes[i];
    encoder->encoding->threadgroup_bytes[i] = 0;
  }
  EMULATION_REQUIRE(threadgroup <= kMaxThreadgroupMemory, "kernel %s: %zu bytes of threadgroup memory, the limit is %lu",
                    record.name, threadgroup, kMaxThreadgroupMemory);
}

void encode(EmulatedEncoder* encoder, MTLSize threads, MTLSize groups, MTLSize group) {
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
  for (NSUInteger n : {threads.width, threads.height, threads.depth})
    EMULATION_REQUIRE(n > 0 && n <= 0xffffffffu, "kernel %s: %lu threads along an axis", name, n);
  take_arguments(encoder, launch);
  launch.grid = {{unsigned(threads.width), unsigned(threads.height), unsigned(threads.depth)},
                 {unsigned(groups.width), unsigned(groups.height), unsigned(groups.depth)},
                 {unsigned(group.width), unsigned(group.height), unsigned(group.depth)}};
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
  EMULATION_REQUIRE(offset < given->size, "setBuffer: offset %lu is beyond the buffer's %lu bytes", offset, given->size);
  keep(self, given);
  b.shared = given->shared;
  b.memory = static_cast<char*>(given->shared ? given->shared->gpu() : given->memory) + offset;
  b.size = given->size - offset;
  b.fresh = true;
}
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  require_open(self, "setBytes:");
  EMULATION_REQUIRE(index < MPSX_MAX_BUFFERS, "setBytes: at index %lu, the limit is 31", index);
  EMULATION_REQUIRE(bytes && length > 0 && length <= kMaxBytes, "setBytes: of %lu bytes, the limit is 4096", length);
  Binding& b = encoding->bindings[index];
  b = {};
  const auto* from = static_cast<const unsigned char*>(bytes);
  b.value.assign(from, from + length);
  b.memory = b.value.data();
  b.size = length;
  b.fresh = true;
}
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index {
  require_open(self, "setThreadgroupMemoryLength:");
  EMULATION_REQUIRE(index < MPSX_MAX_BUFFERS, "setThreadgroupMemoryLength: at index %lu, the limit is 31", index);
  EMULATION_REQUIRE(length % 16 == 0, "setThreadgroupMemoryLength: %lu is not a multiple of 16", length);
  encoding->threadgroup_bytes[index] = length;
}
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)group {
  encode(self, MTLSizeMake(groups.width * group.width, groups.height * group.height, groups.depth * group.depth), groups,
         group);
}
- (void)dispatchThreads:(MTLSize)threads threadsPerThreadgroup:(MTLSize)group {
  const auto count = [](NSUInteger n, NSUInteger per) { return per ? (n + per - 1) / per : 0; };
  encode(self, threads,
         MTLSizeMake(count(threads.width, group.width), count(threads.height, group.height),
                     count(threads.depth, group.depth)),
         group);
}
- (void)endEncoding {
  require_open(self, "endEncoding");
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
