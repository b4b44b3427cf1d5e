// Emulates MTLBinaryArchive. Stores the names of the functions whose pipelines were compiled.
#include <fstream>

#include <objc/runtime.h>

#include "objects.h"

namespace {

constexpr const char* kMagic = "emulated archive";

struct PipelineState {
  id function = nil;
  NSArray* archives = nil;
  MTLSize required{};
};
PipelineState& state_of(void* state) { return *static_cast<PipelineState*>(state); }

}  // namespace

@implementation MTLBinaryArchiveDescriptor
- (NSURL*)url {
  return (NSURL*)state;
}
- (void)setUrl:(NSURL*)url {
  [url retain];
  [(id)state release];
  state = url;
}
- (void)dealloc {
  [(id)state release];
  [super dealloc];
}
@end

@implementation MTLComputePipelineDescriptor
- (instancetype)init {
  state = new PipelineState;
  return self;
}
- (BOOL)respondsToSelector:(SEL)selector {
  const std::string name = sel_getName(selector);
  if (emulation::fails("no_metal_4") && name == "setRequiredThreadsPerThreadgroup:") return NO;
  return [super respondsToSelector:selector];
}
- (MTLSize)requiredThreadsPerThreadgroup {
  return state_of(state).required;
}
- (void)setRequiredThreadsPerThreadgroup:(MTLSize)size {
  state_of(state).required = size;
}
- (id<MTLFunction>)computeFunction {
  return state_of(state).function;
}
- (void)setComputeFunction:(id<MTLFunction>)function {
  [(id)function retain];
  [state_of(state).function release];
  state_of(state).function = function;
}
- (NSArray*)binaryArchives {
  return state_of(state).archives;
}
- (void)setBinaryArchives:(NSArray*)archives {
  [archives retain];
  [state_of(state).archives release];
  state_of(state).archives = archives;
}
- (void)dealloc {
  [state_of(state).function release];
  [state_of(state).archives release];
  delete &state_of(state);
  [super dealloc];
}
@end

@implementation EmulatedArchive
- (BOOL)addComputePipelineFunctionsWithDescriptor:(MTLComputePipelineDescriptor*)descriptor error:(NSError**)error {
  EMULATION_REQUIRE(descriptor.computeFunction, "a pipeline without a function");
  if (emulation::fails("archive") || emulation::fails("pipeline")) {
    if (error) *error = emulation::error(3, "injected");
    return NO;
  }
  ++emulation::counts().pipelines;
  names->insert(emulation::key_of((EmulatedFunction*)descriptor.computeFunction));
  return YES;
}
- (BOOL)serializeToURL:(NSURL*)url error:(NSError**)error {
  EMULATION_REQUIRE(url, "serializeToURL: of nil");
  if (emulation::fails("archive_exception")) throw emulation::Raised();
  std::ofstream out(emulation::text(url.path));
  out << kMagic;
  if (!emulation::fails("archive_file"))
    for (const auto& name : *names) out << '\n' << name;
  else
    out.setstate(std::ios::failbit);
  if (out.flush()) return YES;
  if (error) *error = emulation::error(4, "cannot write");
  return NO;
}
- (void)dealloc {
  delete names;
  [super dealloc];
}
@end

id<MTLBinaryArchive> emulation::open_archive(const std::string& path, NSError** error) {
  auto names = std::make_unique<std::set<std::string>>();
  if (!path.empty()) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    if (line != kMagic) {
      if (error) *error = emulation::error(1, "not an archive");
      return nil;
    }
    while (std::getline(in, line)) names->insert(line);
  }
  EmulatedArchive* made = [EmulatedArchive alloc];
  made->names = names.release();
  return made;
}
