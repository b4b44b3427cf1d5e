#include "driver/metal/residency.h"

#include <algorithm>

// SDKs before macOS 15 do not declare residency sets.
#if !defined(__MAC_OS_X_VERSION_MAX_ALLOWED) || __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
#define MPSX_RESIDENCY_SETS 1
#pragma clang diagnostic ignored "-Wunguarded-availability-new"
#endif

namespace mpsx::driver::metal {

#ifdef MPSX_RESIDENCY_SETS

namespace {
id<MTLResidencySet> as_set(const Owned<id>& set) { return (id<MTLResidencySet>)set.get(); }
}  // namespace

Residency::Residency(id<MTLDevice> device, id<MTLCommandQueue> queue)
    : queue_(Owned<id<MTLCommandQueue>>::retain(queue)), limit_(device.recommendedMaxWorkingSetSize) {
  if (![device respondsToSelector:@selector(newResidencySetWithDescriptor:error:)] ||
      ![queue respondsToSelector:@selector(addResidencySet:)])
    return;
  NSError* error = nil;
  const auto descriptor = Owned<MTLResidencySetDescriptor*>::adopt([[MTLResidencySetDescriptor alloc] init]);
  set_ = Owned<id>::adopt([device newResidencySetWithDescriptor:descriptor.get() error:&error]);
  if (set_) [queue addResidencySet:as_set(set_)];
}

Residency::~Residency() {
  if (set_) [queue_.get() removeResidencySet:as_set(set_)];
}

void Residency::add(id<MTLBuffer> buffer) {
  const uint64_t length = buffer.length;
  if (!set_ || length > limit_ - std::min(limit_, bytes_)) return;
  if (!buffers_.insert((const void*)buffer).second) return;  // another library's buffer may be shared several times
  [as_set(set_) addAllocation:buffer];
  bytes_ += length;
  changed_ = true;
}

void Residency::remove(id<MTLBuffer> buffer) {
  if (!buffers_.erase((const void*)buffer)) return;
  [as_set(set_) removeAllocation:buffer];
  bytes_ -= buffer.length;
  changed_ = true;
}

void Residency::commit() {
  if (!changed_) return;
  [as_set(set_) commit];
  changed_ = false;
}

#else
Residency::Residency(id<MTLDevice>, id<MTLCommandQueue>) : limit_(0) {}
Residency::~Residency() = default;
void Residency::add(id<MTLBuffer>) {}
void Residency::remove(id<MTLBuffer>) {}
void Residency::commit() {}
#endif

}  // namespace mpsx::driver::metal
