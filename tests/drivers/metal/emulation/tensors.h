// The objects that Metal 4 argument tables refer to. Metal 4 retains no objects, so work that uses an object after it
// was freed ends the process.
#pragma once

#include "objects.h"

namespace emulation {

constexpr unsigned kMaxRank = 8;
// Mirrors mpsx::tensor_binding (metal_stdlib/tensor/tensor.h).
struct TensorValue {
  void* data = nullptr;
  long size[kMaxRank] = {}, stride[kMaxRank] = {};
};

// The slots of an argument table.
struct Table {
  struct Slot {
    enum { empty, address, tensor } kind = empty;
    uint64_t value = 0;
  };
  std::vector<Slot> slots;
};

// The tensors and buffers that argument tables may refer to: by resource ID, and by their first GPU address.
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
}
@end

@interface EmulatedArgumentTable : NSObject <MTL4ArgumentTable> {
 @public
  emulation::Table* table;
}
@end
