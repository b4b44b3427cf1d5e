// MTLTensor, argument tables, and residency sets.
#include "tensors.h"

#include <algorithm>

namespace emulation {
namespace {

struct Extents {
  std::vector<NSInteger> values;
};
struct TensorDescriptor {
  MTLTensorExtents *dimensions = nil, *strides = nil;
  MTLTensorDataType type = MTLTensorDataTypeFloat32;
  MTLTensorUsage usage{};
};
const std::vector<NSInteger>& of(MTLTensorExtents* extents) { return static_cast<Extents*>(extents->state)->values; }
TensorDescriptor& of(MTLTensorDescriptor* descriptor) { return *static_cast<TensorDescriptor*>(descriptor->state); }

size_t bytes_of(MTLTensorDataType type) {
  for (MTLTensorDataType wide : {MTLTensorDataTypeFloat32, MTLTensorDataTypeInt32, MTLTensorDataTypeUInt32})
    if (type == wide) return 4;
  return type == MTLTensorDataTypeInt8 || type == MTLTensorDataTypeUInt8 ? 1 : 2;
}

}  // namespace

Live& live() {
  static Live* all = new Live;
  return *all;
}

void add_buffer(id buffer) {
  std::lock_guard<std::mutex> lock(live().mutex);
  live().buffers[[(id<MTLBuffer>)buffer gpuAddress]] = buffer;
}
void remove_buffer(id buffer) {
  std::lock_guard<std::mutex> lock(live().mutex);
  live().buffers.erase([(id<MTLBuffer>)buffer gpuAddress]);
}
void wait_for_event(id event, uint64_t value) {
  while (((EmulatedSharedEvent*)event)->value->load() < value) std::this_thread::yield();
}

}  // namespace emulation

using emulation::of;

@implementation MTLTensorExtents
- (instancetype)initWithRank:(NSUInteger)rank values:(const NSInteger*)values {
  EMULATION_REQUIRE(rank > 0 && values, "MTLTensorExtents of rank %lu", rank);
  state = new emulation::Extents{{values, values + rank}};
  return self;
}
- (NSUInteger)rank {
  return of(self).size();
}
- (NSInteger)extentAtDimensionIndex:(NSUInteger)dimension {
  return dimension < of(self).size() ? of(self)[dimension] : -1;
}
- (void)dealloc {
  delete static_cast<emulation::Extents*>(state);
  [super dealloc];
}
@end

@implementation MTLTensorDescriptor
- (instancetype)init {
  state = new emulation::TensorDescriptor;
  return self;
}
- (MTLTensorExtents*)dimensions {
  return of(self).dimensions;
}
- (void)setDimensions:(MTLTensorExtents*)dimensions {
  [dimensions retain];
  [of(self).dimensions release];
  of(self).dimensions = dimensions;
}
- (MTLTensorExtents*)strides {
  return of(self).strides;
}
- (void)setStrides:(MTLTensorExtents*)strides {
  [strides retain];
  [of(self).strides release];
  of(self).strides = strides;
}
- (MTLTensorDataType)dataType {
  return of(self).type;
}
- (void)setDataType:(MTLTensorDataType)type {
  of(self).type = type;
}
- (MTLTensorUsage)usage {
  return of(self).usage;
}
- (void)setUsage:(MTLTensorUsage)usage {
  of(self).usage = usage;
}
- (MTLStorageMode)storageMode {
  return MTLStorageModeShared;
}
- (void)setStorageMode:(MTLStorageMode)mode {
  EMULATION_REQUIRE(mode == MTLStorageModeShared, "a tensor with another storage mode than its buffer");
}
- (void)dealloc {
  [of(self).dimensions release];
  [of(self).strides release];
  delete &of(self);
  [super dealloc];
}
@end

@implementation EmulatedTensor
- (MTLStorageMode)storageMode {
  return MTLStorageModeShared;
}
- (MTLResourceID)gpuResourceID {
  return {uint64_t(reinterpret_cast<uintptr_t>(self))};
}
- (void)dealloc {
  {
    std::lock_guard<std::mutex> lock(emulation::live().mutex);
    emulation::live().tensors.erase(uint64_t(reinterpret_cast<uintptr_t>(self)));
  }
  delete value;
  [buffer release];
  [super dealloc];
}
@end

id<MTLTensor> emulation::make_tensor(id from, MTLTensorDescriptor* descriptor, NSUInteger offset, NSError** error) {
  auto* buffer = (EmulatedBuffer*)from;
  const TensorDescriptor& d = of(descriptor);
  EMULATION_REQUIRE(d.dimensions && d.strides, "a tensor in a buffer without dimensions or strides");
  const auto &sizes = of(d.dimensions), &strides = of(d.strides);
  EMULATION_REQUIRE(sizes.size() == strides.size() && sizes.size() <= kMaxRank, "a tensor of rank %zu and %zu strides",
                    sizes.size(), strides.size());
  EMULATION_REQUIRE(d.usage == MTLTensorUsageCompute, "a tensor of usage %lu", (unsigned long)d.usage);
  if (emulation::fails("tensor")) return *error = emulation::error(1, "injected"), nil;
  size_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const NSInteger least = i ? strides[i - 1] * sizes[i - 1] : 1;
    if (sizes[i] < 1 || strides[i] < least || (i == 0 && strides[i] != 1))
      return *error = emulation::error(2, "invalid descriptor"), nil;
    last += size_t(sizes[i] - 1) * size_t(strides[i]);
  }
  if (offset + (last + 1) * bytes_of(d.type) > buffer->size)
    return *error = emulation::error(2, "the tensor exceeds its buffer"), nil;
  EmulatedTensor* made = [EmulatedTensor alloc];
  made->buffer = [buffer retain];
  made->type = d.type;
  made->rank = unsigned(sizes.size());
  made->value = new TensorValue;
  made->value->data = reinterpret_cast<char*>([buffer gpuAddress]) + offset;
  std::copy(sizes.begin(), sizes.end(), made->value->size);
  std::copy(strides.begin(), strides.end(), made->value->stride);
  std::lock_guard<std::mutex> lock(live().mutex);
  live().tensors[made.gpuResourceID._impl] = made;
  return made;
}

@implementation MTLResidencySetDescriptor
@end

@implementation EmulatedResidencySet
- (void)addAllocation:(id<MTLAllocation>)allocation {
  EMULATION_REQUIRE(allocation, "addAllocation: of nil");
  if (added->insert(allocation).second) [(id)allocation retain];
}
- (void)removeAllocation:(id<MTLAllocation>)allocation {
  EMULATION_REQUIRE(added->erase(allocation), "removeAllocation: of an allocation that is not in the set");
  removed->push_back(allocation);
}
- (void)commit {
  *committed = *added;
  for (id allocation : *removed) [allocation release];
  removed->clear();
}
- (void)dealloc {
  for (id allocation : *added) [allocation release];
  for (id allocation : *removed) [allocation release];
  delete removed;
  delete added;
  delete committed;
  [super dealloc];
}
@end

@implementation MTL4ArgumentTableDescriptor
- (NSUInteger)maxBufferBindCount {
  return reinterpret_cast<NSUInteger>(state);
}
- (void)setMaxBufferBindCount:(NSUInteger)count {
  EMULATION_REQUIRE(count <= MPSX_MAX_BUFFERS, "an argument table of %lu buffers", count);
  state = reinterpret_cast<void*>(count);
}
@end

@implementation EmulatedArgumentTable
- (void)setAddress:(uint64_t)address atIndex:(NSUInteger)index {
  EMULATION_REQUIRE(index < table->slots.size(), "setAddress: at index %lu of %zu", index, table->slots.size());
  table->slots[index] = {emulation::Table::Slot::address, address};
}
- (void)setResource:(MTLResourceID)resource atBufferIndex:(NSUInteger)index {
  EMULATION_REQUIRE(index < table->slots.size(), "setResource: at index %lu of %zu", index, table->slots.size());
  table->slots[index] = {emulation::Table::Slot::tensor, resource._impl};
}
- (void)dealloc {
  delete table;
  [super dealloc];
}
@end

id<MTL4ArgumentTable> emulation::new_argument_table(MTL4ArgumentTableDescriptor* descriptor) {
  EmulatedArgumentTable* made = [EmulatedArgumentTable alloc];
  made->table = new emulation::Table;
  made->table->slots.resize(descriptor.maxBufferBindCount);
  return made;
}
id<MTLResidencySet> emulation::new_residency_set(void) {
  EmulatedResidencySet* made = [EmulatedResidencySet alloc];
  made->added = new std::set<id>;
  made->committed = new std::set<id>;
  made->removed = new std::vector<id>;
  return made;
}
