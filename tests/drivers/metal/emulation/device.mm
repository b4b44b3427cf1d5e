// MTLDevice, MTLBuffer, and MTLCompileOptions.
#include <objc/runtime.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control.h"
#include "objects.h"

using emulation::KernelImage;

namespace {

constexpr NSUInteger kApplePage = 16384;
constexpr uint64_t kWorkingSet = uint64_t(8) << 30;
std::atomic<uint64_t> allocated{0};

void set_error(NSError** error, long code, const std::string& text) {
  if (error) *error = emulation::error(code, text);
}

bool is_shared(MTLResourceOptions options) {
  return (options & ~NSUInteger(MTLResourceHazardTrackingModeUntracked)) == MTLResourceStorageModeShared;
}

id<MTLLibrary> library(std::shared_ptr<KernelImage> image) {
  EmulatedLibrary* made = [EmulatedLibrary alloc];
  made->image = new std::shared_ptr<KernelImage>(std::move(image));
  return made;
}

}  // namespace

@implementation EmulatedBuffer
- (NSUInteger)length {
  return size;
}
- (void*)contents {
  return shared ? shared->cpu() : memory;
}
- (MTLStorageMode)storageMode {
  return MTLStorageModeShared;
}
- (uint64_t)gpuAddress {
  return reinterpret_cast<uint64_t>(shared ? shared->gpu() : memory);
}
- (id<MTLTensor>)newTensorWithDescriptor:(MTLTensorDescriptor*)descriptor
                                  offset:(NSUInteger)offset
                                   error:(NSError**)error {
  return emulation::make_tensor(self, descriptor, offset, error);
}
- (void)dealloc {
  emulation::remove_buffer(self);
  if (shared)
    allocated -= size;
  else
    emulation::forbid(memory, size);
  delete shared;
  [super dealloc];
}
@end

// macOS 15 replaces the compile option fastMathEnabled with separate floating-point options.
namespace {
struct CompileOptions {
  MTLLanguageVersion version{};
  MTLMathMode mode = MTLMathModeFast;
  MTLMathFloatingPointFunctions functions = MTLMathFloatingPointFunctionsFast;
  bool older = emulation::fails("macos_14");
};
CompileOptions& of(MTLCompileOptions* options) { return *static_cast<CompileOptions*>(options->state); }

std::string describe(const CompileOptions& options) {
  const char* const modes[] = {"safe", "relaxed", "fast"};
  return std::to_string(options.version >> 16) + "." + std::to_string(options.version & 0xffff) + " " +
         modes[options.mode] + " " + (options.functions == MTLMathFloatingPointFunctionsPrecise ? "precise" : "fast");
}

std::string& compiled() {
  static thread_local std::string source;
  return source;
}
}  // namespace

@implementation MTLCompileOptions
- (instancetype)init {
  state = new CompileOptions;
  return self;
}
- (BOOL)respondsToSelector:(SEL)selector {
  const std::string name = sel_getName(selector);
  if (of(self).older && (name == "setMathMode:" || name == "setMathFloatingPointFunctions:")) return NO;
  return [super respondsToSelector:selector];
}
- (MTLLanguageVersion)languageVersion {
  return of(self).version;
}
- (void)setLanguageVersion:(MTLLanguageVersion)version {
  of(self).version = version;
}
- (BOOL)fastMathEnabled {
  return of(self).mode == MTLMathModeFast;
}
- (void)setFastMathEnabled:(BOOL)enabled {
  of(self).mode = enabled ? MTLMathModeFast : MTLMathModeSafe;
  if (of(self).older) of(self).functions = MTLMathFloatingPointFunctions(!enabled);
}
- (MTLMathMode)mathMode {
  return of(self).mode;
}
- (void)setMathMode:(MTLMathMode)mode {
  EMULATION_REQUIRE(!of(self).older, "setMathMode: is macOS 15's");
  of(self).mode = mode;
}
- (MTLMathFloatingPointFunctions)mathFloatingPointFunctions {
  return of(self).functions;
}
- (void)setMathFloatingPointFunctions:(MTLMathFloatingPointFunctions)functions {
  EMULATION_REQUIRE(!of(self).older, "setMathFloatingPointFunctions: is macOS 15's");
  of(self).functions = functions;
}
- (void)dealloc {
  delete &of(self);
  [super dealloc];
}
@end

@implementation EmulatedDevice
- (NSString*)name {
  return @"Emulated Apple GPU";
}
- (BOOL)hasUnifiedMemory {
  return YES;
}
- (NSUInteger)maxBufferLength {
  return NSUInteger(6) << 30;
}
- (NSUInteger)maxThreadgroupMemoryLength {
  return 32768;
}
- (NSUInteger)currentAllocatedSize {
  return allocated;
}
- (uint64_t)recommendedMaxWorkingSetSize {
  return kWorkingSet;
}
- (BOOL)supportsFamily:(MTLGPUFamily)family {
  const int newest = emulation::fails("m5") ? 1010 : MTLGPUFamilyApple9;
  return !emulation::fails("old_gpu") && ((family >= 1001 && family <= newest) ||
                                         (family == 5002 && !emulation::fails("no_metal_4")));
}
- (BOOL)respondsToSelector:(SEL)selector {
  const std::string name = sel_getName(selector);
  if (name == "newMTL4CommandQueue" && emulation::fails("no_metal_4")) return NO;
  if (name == "newResidencySetWithDescriptor:error:" && emulation::fails("no_residency_sets")) return NO;
  return [super respondsToSelector:selector];
}
- (id<MTLCommandQueue>)newCommandQueue {
  return [EmulatedQueue new];
}
- (id<MTL4CommandQueue>)newMTL4CommandQueue {
  return emulation::new_queue_4();
}
- (id<MTL4CommandAllocator>)newCommandAllocator {
  return emulation::new_allocator();
}
- (id<MTL4CommandBuffer>)newCommandBuffer {
  return emulation::new_command_buffer_4();
}
- (id<MTL4ArgumentTable>)newArgumentTableWithDescriptor:(MTL4ArgumentTableDescriptor*)descriptor
                                                  error:(NSError**)error {
  return emulation::new_argument_table(descriptor);
}
- (id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor*)descriptor error:(NSError**)error {
  EMULATION_REQUIRE(descriptor, "newResidencySetWithDescriptor: of nil");
  return emulation::new_residency_set();
}
- (id<MTLFence>)newFence {
  return [EmulatedFence new];
}
- (id<MTLSharedEvent>)newSharedEvent {
  if (emulation::fails("event")) return nil;
  EmulatedSharedEvent* made = [EmulatedSharedEvent alloc];
  made->value = new std::atomic<uint64_t>(0);
  return made;
}
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  EMULATION_REQUIRE(length > 0 && length <= self.maxBufferLength, "a buffer of %lu bytes", length);
  EMULATION_REQUIRE(is_shared(options), "a buffer with options %lu", options);
  if (emulation::fails("exception")) throw emulation::Raised();
  if (emulation::fails("allocation")) return nil;
  auto* memory = new emulation::SharedMemory(length);
  if (!memory->valid()) {
    delete memory;
    return nil;
  }
  EmulatedBuffer* made = [EmulatedBuffer alloc];
  made->shared = memory;
  made->size = length;
  made->tracked = !(options & MTLResourceHazardTrackingModeUntracked);
  emulation::add_buffer(made);
  allocated += length;
  return made;
}
- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)pointer
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void*, NSUInteger))deallocator {
  const NSUInteger page = std::min(kApplePage, NSUInteger(sysconf(_SC_PAGESIZE)));
  EMULATION_REQUIRE(pointer && uintptr_t(pointer) % page == 0 && length && length % page == 0,
                    "newBufferWithBytesNoCopy: %p and %lu bytes are not whole pages", pointer, length);
  EMULATION_REQUIRE(is_shared(options) && !deallocator,
                    "newBufferWithBytesNoCopy: unexpected use");
  if (emulation::fails("allocation")) return nil;
  EmulatedBuffer* made = [EmulatedBuffer alloc];
  made->memory = pointer;
  made->tracked = !(options & MTLResourceHazardTrackingModeUntracked);
  emulation::add_buffer(made);
  emulation::allow(pointer, length);
  made->size = length;
  return made;
}
- (id<MTLLibrary>)newLibraryWithURL:(NSURL*)url error:(NSError**)error {
  std::string reason = "injected";
  auto image = emulation::fails("compile") ? nullptr : KernelImage::open(emulation::text(url.path), &reason);
  if (!image) return set_error(error, 1, reason), nil;
  return library(std::move(image));
}
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source
                               options:(MTLCompileOptions*)options
                                 error:(NSError**)error {
  EMULATION_REQUIRE(source && options, "newLibraryWithSource: without source or options");
  compiled() = describe(of(options)) + "\n" + emulation::text(source);
  std::string reason = "injected";
  auto image = emulation::fails("compile") ? nullptr : KernelImage::compile(emulation::text(source), &reason);
  if (!image) return set_error(error, 3, reason), nil;
  return library(std::move(image));
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError**)error {
  EMULATION_REQUIRE(function, "newComputePipelineStateWithFunction: of nil");
  if (emulation::fails("pipeline")) return set_error(error, 2, "injected"), nil;
  ++emulation::counts().pipelines;
  return emulation::pipeline_of(function);
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function
                                                           options:(MTLPipelineOption)options
                                                        reflection:(MTLComputePipelineReflection**)reflection
                                                             error:(NSError**)error {
  EMULATION_REQUIRE(reflection && options == MTLPipelineOptionArgumentInfo,
                    "newComputePipelineStateWithFunction: unexpected use");
  id<MTLComputePipelineState> made = [self newComputePipelineStateWithFunction:function error:error];
  if (!made) return nil;
  ((EmulatedPipeline*)made)->reflected = true;
  *reflection = emulation::reflection_of(function);
  return made;
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor*)descriptor
                                                             options:(MTLPipelineOption)options
                                                          reflection:(MTLComputePipelineReflection**)reflection
                                                               error:(NSError**)error {
  if (descriptor.requiredThreadsPerThreadgroup.width) {
    EMULATION_REQUIRE(!reflection && options == MTLPipelineOptionNone, "a pipeline for one size of threadgroups");
    id<MTLComputePipelineState> made = [self newComputePipelineStateWithFunction:descriptor.computeFunction
                                                                           error:error];
    if (!made) return nil;
    ((EmulatedPipeline*)made)->required = descriptor.requiredThreadsPerThreadgroup;
    ((EmulatedPipeline*)made)->reflected = true;
    return made;
  }
  EMULATION_REQUIRE(descriptor.computeFunction && descriptor.binaryArchives.count == 1 && !reflection &&
                        options == MTLPipelineOptionFailOnBinaryArchiveMiss,
                    "newComputePipelineStateWithDescriptor: unexpected use");
  auto* archive = (EmulatedArchive*)[descriptor.binaryArchives objectAtIndex:0];
  if (!archive->names->count(emulation::key_of((EmulatedFunction*)descriptor.computeFunction)))
    return set_error(error, 5, "not in the archive"), nil;
  return emulation::pipeline_of(descriptor.computeFunction);
}
- (id<MTLBinaryArchive>)newBinaryArchiveWithDescriptor:(MTLBinaryArchiveDescriptor*)descriptor error:(NSError**)error {
  EMULATION_REQUIRE(descriptor, "newBinaryArchiveWithDescriptor: of nil");
  return emulation::open_archive(emulation::text(descriptor.url.path), error);
}
@end

// Returns a retained object, as "Copy" in the name implies.
extern "C" NSArray<id<MTLDevice>>* MTLCopyAllDevices(void) {
  NSAutoreleasePool* pool = [NSAutoreleasePool new];
  std::vector<id> devices;
  if (!emulation::fails("no_device")) devices.push_back([[EmulatedDevice new] autorelease]);
  NSArray* made = [emulation::array(devices) retain];
  [pool drain];
  return made;
}

extern "C" {
const char* mpsx_emulation_compiled(void) { return compiled().c_str(); }
void* mpsx_emulation_new_buffer(unsigned long bytes) {
  NSAutoreleasePool* pool = [NSAutoreleasePool new];
  EmulatedDevice* device = [[EmulatedDevice new] autorelease];
  id<MTLBuffer> made = [device newBufferWithLength:bytes options:MTLResourceStorageModeShared];
  [pool drain];
  return (void*)made;
}
void* mpsx_emulation_contents(void* buffer) { return [(id<MTLBuffer>)buffer contents]; }
void mpsx_emulation_release(void* buffer) { [(id)buffer release]; }
}
