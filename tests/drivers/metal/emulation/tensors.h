// The objects that Metal 4 argument tables refer to. Metal 4 does not retain them, so the process ends if work uses a
// freed object.
#pragma once

#include "objects.h"

namespace emulation {

constexpr unsigned kMaxRank = 8;
// Mirrors mpsx::tensor_binding (metal_stdlib/tensor/tensor.h).
struct TensorValue {
  void* data = nullptr;
  long size[kMaxRank] = {}, stride[kMaxRank] = {};
};

struct Table {
  struct Slot {
    enum { empty, address, tensor } kind = empty;
    uint64_t value = 0;
  };
  std::vector<Slot> slots;
};

// Tensors by resource ID, and buffers by GPU address. Argument tables may refer to them.
struct Live {
  std::mutex mutex;
  std::map<uint64_t, id> tensors, buffers;
};
Live& live();

}  // namespace emulation

@interface EmulatedTensor : NSObject <MTLTensor> {
 @public
  EmulatedBuffer* buffer;
  MTLTensorDataType type;
  emulation::TensorValue* value;
  unsigned rank;
}
@end

@interface EmulatedResidencySet : NSObject <MTLResidencySet> {
 @public
  std::set<id>* added;
  std::set<id>* committed;
  std::vector<id>* removed;  // since the last commit
}
@end

@interface EmulatedArgumentTable : NSObject <MTL4ArgumentTable> {
 @public
  emulation::Table* table;
}
@end
