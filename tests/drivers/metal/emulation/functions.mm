// MTLLibrary, MTLFunction with function constants, and MTLComputePipelineState with reflection.
#include <algorithm>

#include "objects.h"

using emulation::KernelFacts;
using emulation::KernelImage;

namespace {

struct ConstantState {
  std::string name;
  MTLDataType type;
  unsigned index;
  bool required;
};
struct GivenConstant {
  MTLDataType type;
  emulation::ConstantValue value;
};
using GivenConstants = std::map<NSUInteger, GivenConstant>;

struct Scalar {
  const char* name;
  MTLDataType type;
  size_t bytes;
};
constexpr Scalar kScalars[] = {
    {"float", MTLDataTypeFloat, 4},   {"half", MTLDataTypeHalf, 2},     {"bfloat", MTLDataTypeBFloat, 2},
    {"int", MTLDataTypeInt, 4},       {"uint", MTLDataTypeUInt, 4},     {"short", MTLDataTypeShort, 2},
    {"ushort", MTLDataTypeUShort, 2}, {"char", MTLDataTypeChar, 1},     {"uchar", MTLDataTypeUChar, 1},
    {"bool", MTLDataTypeBool, 1},     {"long", MTLDataTypeLong, 8},     {"ulong", MTLDataTypeULong, 8},
};

MTLDataType type_of(const mpsx_function_constant& c) {
  for (const Scalar& s : kScalars)
    if (std::string(c.scalar) == s.name) return MTLDataType(s.type + c.components - 1);
  emulation::invalid("function constant %s: no type %s", c.name, c.scalar);
}

// A vector of three components is as large as a vector of four.
size_t bytes_of(MTLDataType type) {
  for (const Scalar& s : kScalars)
    if (type >= s.type && type < s.type + 4) return s.bytes * (type - s.type + 1);
  emulation::invalid("a function constant of type %lu", type);
}

bool is_required(const KernelFacts* facts, unsigned index) {
  return !facts || !facts->optional_constants.count(index);
}
// A kernel record lists all function constants in the file, but a kernel may use only some of them.
bool is_used(const KernelFacts* facts, unsigned index) { return !facts || facts->constants.count(index); }

// Returns whether the values of the function constants enable a binding.
bool is_there(const EmulatedFunction* function, const std::string& condition) {
  if (condition.empty()) return true;
  const mpsx_kernel_record& record = *function->record;
  for (unsigned i = 0; i < record.constant_count; ++i)
    if (condition == record.constants[i].name) {
      const auto& value = (*function->constants)[i];
      return value && (*value)[0];
    }
  return false;  // the condition refers to derived constants, so accept any binding
}

}  // namespace

@interface EmulatedBinding : NSObject <MTLTensorBinding> {
 @public
  const emulation::KernelBinding* binding;  // null if the function declares the binding but does not use it
  id owner;
}
@end

@implementation EmulatedBinding
- (NSString*)name {
  return emulation::string(binding ? binding->name : "unused");
}
- (MTLBindingType)type {
  if (binding && binding->tensor) return MTLBindingTypeTensor;
  return binding && binding->threadgroup ? MTLBindingTypeThreadgroupMemory : MTLBindingTypeBuffer;
}
- (MTLTensorDataType)tensorDataType {
  return MTLTensorDataType(binding->element);
}
- (MTLTensorExtents*)dimensions {
  return [[[MTLTensorExtents alloc] initWithRank:binding->sizes.size() values:binding->sizes.data()] autorelease];
}
- (NSUInteger)index {
  return binding ? binding->index : MPSX_MAX_BUFFERS - 1;
}
- (BOOL)isUsed {
  return binding != nullptr;
}
- (void)dealloc {
  [owner release];
  [super dealloc];
}
@end

@implementation MTLComputePipelineReflection
- (NSArray*)bindings {
  return (NSArray*)state;
}
- (void)dealloc {
  [(id)state release];
  [super dealloc];
}
@end

@implementation MTLFunctionConstant
- (NSString*)name {
  return emulation::string(static_cast<ConstantState*>(state)->name);
}
- (MTLDataType)type {
  return static_cast<ConstantState*>(state)->type;
}
- (NSUInteger)index {
  return static_cast<ConstantState*>(state)->index;
}
- (BOOL)required {
  return static_cast<ConstantState*>(state)->required;
}
- (void)dealloc {
  delete static_cast<ConstantState*>(state);
  [super dealloc];
}
@end

@implementation MTLFunctionConstantValues
- (instancetype)init {
  state = new GivenConstants;
  return self;
}
- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index {
  EMULATION_REQUIRE(value, "setConstantValue: of index %lu without a value", index);
  GivenConstant given{type, {}};
  std::copy_n(static_cast<const unsigned char*>(value), bytes_of(type), given.value.begin());
  (*static_cast<GivenConstants*>(state))[index] = given;
}
- (void)dealloc {
  delete static_cast<GivenConstants*>(state);
  [super dealloc];
}
@end

@implementation EmulatedFunction
- (NSString*)name {
  return emulation::string(record->name);
}
- (NSDictionary*)functionConstantsDictionary {
  std::map<std::string, id> found;
  for (unsigned i = 0; i < record->constant_count; ++i) {
    const mpsx_function_constant& c = record->constants[i];
    if (!is_used((*image)->facts(record->name), c.index)) continue;
    MTLFunctionConstant* made = [[MTLFunctionConstant alloc] autorelease];
    made->state = new ConstantState{c.name, type_of(c), c.index, is_required((*image)->facts(record->name), c.index)};
    found[c.name] = made;
  }
  return emulation::dictionary(found);
}
- (void)dealloc {
  delete image;
  delete constants;
  [super dealloc];
}
@end

@implementation EmulatedLibrary
- (NSArray*)functionNames {
  std::vector<id> names;
  for (const auto& name : (*image)->names()) names.push_back(emulation::string(name));
  return emulation::array(names);
}
- (id<MTLFunction>)newFunctionWithName:(NSString*)name {
  const mpsx_kernel_record* found = (*image)->find(emulation::text(name));
  if (!found) return nil;
  EmulatedFunction* made = [EmulatedFunction alloc];
  made->image = new std::shared_ptr<KernelImage>(*image);
  made->record = found;
  made->constants = new emulation::ConstantValues(found->constant_count);
  return made;
}
- (id<MTLFunction>)newFunctionWithName:(NSString*)name
                        constantValues:(MTLFunctionConstantValues*)values
                                 error:(NSError**)error {
  EMULATION_REQUIRE(values, "newFunctionWithName:constantValues: without values");
  auto* made = (EmulatedFunction*)[self newFunctionWithName:name];
  if (!made) {
    if (error) *error = emulation::error(MTLLibraryErrorFunctionNotFound, "no such function");
    return nil;
  }
  GivenConstants given = *static_cast<GivenConstants*>(values->state);
  for (unsigned i = 0; i < made->record->constant_count; ++i) {
    const mpsx_function_constant& c = made->record->constants[i];
    if (!is_used((*image)->facts(made->record->name), c.index)) continue;
    const auto found = given.find(c.index);
    if (found == given.end()) {
      EMULATION_REQUIRE(!is_required((*image)->facts(made->record->name), c.index),
                        "function %s: no value for its constant %s", made->record->name, c.name);
      continue;
    }
    EMULATION_REQUIRE(found->second.type == type_of(c), "function %s: a value of type %lu for its constant %s of %lu",
                      made->record->name, found->second.type, c.name, type_of(c));
    (*made->constants)[i] = found->second.value;
    given.erase(found);
  }
  EMULATION_REQUIRE(given.empty(), "function %s: a value for index %lu, which it does not have", made->record->name,
                    given.begin()->first);
  return made;
}
- (void)dealloc {
  delete image;
  [super dealloc];
}
@end

@implementation EmulatedPipeline
- (NSUInteger)maxTotalThreadsPerThreadgroup {
  return function->record->max_threads;
}
- (NSUInteger)threadExecutionWidth {
  return MPSX_SIMD_WIDTH;
}
- (NSUInteger)staticThreadgroupMemoryLength {
  return function->record->static_threadgroup_bytes;
}
- (void)dealloc {
  [function release];
  [super dealloc];
}
@end

void emulation::check_required_threads(EmulatedPipeline* pipeline, MTLSize group, MTLSize grid, bool by_threads) {
  const MTLSize& required = pipeline->required;
  if (!required.width) return;
  const char* name = pipeline->function->record->name;
  EMULATION_REQUIRE(group.width == required.width && group.height == required.height && group.depth == required.depth,
                    "kernel %s: another number of threads per threadgroup than the pipeline requires", name);
  EMULATION_REQUIRE(!by_threads || (grid.width % group.width == 0 && grid.height % group.height == 0 &&
                                    grid.depth % group.depth == 0),
                    "kernel %s: a threadgroup with fewer threads than the pipeline requires", name);
}

id<MTLComputePipelineState> emulation::pipeline_of(id<MTLFunction> function) {
  auto* from = (EmulatedFunction*)function;
  const KernelFacts* facts = (*from->image)->facts(from->record->name);
  for (unsigned i = 0; i < from->record->constant_count; ++i) {
    const mpsx_function_constant& c = from->record->constants[i];
    EMULATION_REQUIRE((*from->constants)[i] || !is_used(facts, c.index) || !is_required(facts, c.index),
                      "a pipeline of function %s, whose constant %s has no value", from->record->name, c.name);
  }
  EmulatedPipeline* made = [EmulatedPipeline alloc];
  made->function = (EmulatedFunction*)[(id)function retain];
  return made;
}

std::string emulation::key_of(const EmulatedFunction* function) {
  std::string key = function->record->name;
  for (const auto& value : *function->constants) {
    key += '|';
    for (size_t i = 0; value && i < value->size(); ++i) {
      key += "0123456789abcdef"[(*value)[i] >> 4];
      key += "0123456789abcdef"[(*value)[i] & 15];
    }
  }
  return key;
}

std::vector<const emulation::KernelBinding*> emulation::bindings_of(const EmulatedFunction* function) {
  std::vector<const KernelBinding*> found;
  if (const KernelFacts* facts = (*function->image)->facts(function->record->name))
    for (const KernelBinding& b : facts->bindings)
      if (is_there(function, b.condition)) found.push_back(&b);
  return found;
}

MTLComputePipelineReflection* emulation::reflection_of(id<MTLFunction> function) {
  std::vector<id> made;
  auto bindings = bindings_of((EmulatedFunction*)function);
  bindings.push_back(nullptr);
  for (const KernelBinding* b : bindings) {
    EmulatedBinding* binding = [[EmulatedBinding alloc] autorelease];
    binding->binding = b;
    binding->owner = [(id)function retain];
    made.push_back(binding);
  }
  std::reverse(made.begin(), made.end());  // Metal does not specify the order
  MTLComputePipelineReflection* reflection = [[MTLComputePipelineReflection alloc] autorelease];
  reflection->state = [array(made) retain];
  return reflection;
}
