#include "driver/host/simt/arena.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace mpsx::driver::host::simt {

void Arena::Free::operator()(char* p) const { std::free(p); }

void Arena::reset() {
  if (!memory_) {
    void* p = nullptr;
    if (posix_memalign(&p, 4096, kCapacity) != 0) throw std::bad_alloc();
    memory_.reset(static_cast<char*>(p));
  }
  variables_.clear();
  used_ = kGap;
  bytes_ = 0;
}

void* Arena::variable(unsigned key, size_t bytes, const char* name, bool* made) {
  if (variables_.size() <= key) variables_.resize(key + 1, Variable{nullptr, 0, 0});
  Variable& v = variables_[key];
  if (v.name && v.bytes == bytes) return memory_.get() + v.offset;
  const size_t end = (used_ + bytes + kGap + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes > kCapacity || end > kCapacity) return nullptr;
  v = {name, used_, bytes};
  used_ = end;
  bytes_ += bytes;
  if (made) *made = true;
  return memory_.get() + v.offset;
}

}  // namespace mpsx::driver::host::simt
